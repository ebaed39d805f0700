"""Immutable records like `dataclasses.dataclass(frozen=True)`, without compiling code.

`dataclass` writes and compiles five functions for each class. The process of a small proof creates
sixty such classes, and their compilation took a tenth of its time. Records instead share one
implementation of these functions. Records are declared, compared, hashed, printed and type-checked
like dataclasses (PEP 681), but their `repr` omits private fields, and there are no slots, default
factories or keyword-only fields.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from inspect import Signature

T = TypeVar("T")
R = TypeVar("R")

# Attributes: the field names of a class, a mark of this module's `__repr__`, and the defaults of
# the fields, an attribute of `__init__`.
_FIELDS = "__frozen_fields__"
_SHARED = "__of_frozen_fields__"
_DEFAULTS = "__frozen_defaults__"


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True)
def frozen(cls: type[T] | None = None, /, *, eq: bool = True) -> Any:
    """Turn a class into a record whose fields are the annotated names.

    eq: whether records are compared by their fields; otherwise comparison is inherited, by default
        by identity.
    `__post_init__` runs after the fields are set. Methods that the class defines are kept, and so
    is an inherited `__repr__`.
    """
    if cls is None:
        return lambda decorated: _make_record(decorated, eq)
    return _make_record(cls, eq)


def fields_of(record: object) -> dict[str, Any]:
    """Return the fields of a record or dataclass with their values, in order of declaration.

    Raises TypeError for anything else.
    """
    names = field_names(type(record))
    if names is None:
        raise TypeError(f"{type(record).__name__} is no record")
    return {name: getattr(record, name) for name in names}


def field_names(cls: type) -> tuple[str, ...] | None:
    """Return the field names of a record class or dataclass; None for another class."""
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses

        return tuple(field.name for field in dataclasses.fields(cls))
    return getattr(cls, _FIELDS, None)


def replace(record: R, /, **changes: Any) -> R:
    """Return a copy of a record with some fields changed; raises TypeError for an unknown name."""
    cls = type(record)
    if hasattr(cls.__init__, _DEFAULTS) and changes.keys() <= set(names := field_names(cls) or ()):
        values = vars(record) | changes
        return cls(*[values[name] for name in names])
    return cls(**{**fields_of(record), **changes})


def _make_record(cls: type[T], eq: bool) -> type[T]:
    base_names = getattr(cls, _FIELDS, ())
    own_names = (name for name, hint in cls.__annotations__.items() if not _is_class_variable(hint))
    names = tuple(dict.fromkeys((*base_names, *own_names)))
    setattr(cls, _FIELDS, names)
    setattr(cls, "__match_args__", names)  # noqa: B010
    setattr(cls, "__signature__", _SIGNATURE)  # noqa: B010
    attributes = vars(cls)
    methods = dict(_methods(cls, names))
    if not hasattr(cls.__repr__, _SHARED) and cls.__repr__ is not object.__repr__:
        del methods["__repr__"]
    if eq:
        methods |= _comparison_methods(cls, names)
    for name, method in methods.items():
        if name not in attributes or (name == "__hash__" and attributes[name] is None):
            setattr(cls, name, method)
    return cls


class _SignatureOfFields:
    """The signature for `inspect.signature` and `help`: the fields instead of `*values`."""

    def __get__(self, record: object, cls: type) -> Signature:
        defaults = getattr(getattr(cls, "__init__"), _DEFAULTS, None)  # noqa: B009
        if record is not None or defaults is None:
            # A class with its own `__init__` has its own signature.
            raise AttributeError("__signature__")
        from inspect import Parameter, Signature

        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            hints |= vars(base).get("__annotations__", {})
        kind, empty = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
        fields = [
            Parameter(name, kind, default=defaults.get(name, empty), annotation=hints[name])
            for name in field_names(cls) or ()
        ]
        return Signature(fields, return_annotation=None)


_SIGNATURE = _SignatureOfFields()


def _is_class_variable(hint: object) -> bool:
    return str(hint).startswith(("ClassVar", "typing.ClassVar"))


def _methods(cls: type, names: tuple[str, ...]) -> Iterator[tuple[str, Callable[..., Any]]]:
    count = len(names)
    defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
    has_post_init = hasattr(cls, "__post_init__")

    def __init__(self: Any, /, *values: Any, **named: Any) -> None:
        if named or len(values) != count:
            values = _arrange_arguments(cls, names, defaults, values, named)
        self.__dict__.update(zip(names, values))
        if has_post_init:
            self.__post_init__()

    def __repr__(self: Any) -> str:
        text = ", ".join(f"{name}={getattr(self, name)!r}" for name in names if name[0] != "_")
        return f"{type(self).__qualname__}({text})"

    setattr(__init__, _DEFAULTS, defaults)
    setattr(__repr__, _SHARED, True)
    yield "__init__", __init__
    yield "__repr__", __repr__
    yield "__setattr__", _refuse_to_set
    yield "__delattr__", _refuse_to_delete


def _comparison_methods(cls: type, names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    # With a single name, attrgetter returns the value instead of a tuple.
    values_of = operator.attrgetter(*names) if len(names) > 1 else _values_of(names)

    def __eq__(self: Any, other: object) -> Any:
        if self is other:
            return True
        return values_of(self) == values_of(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values_of(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _values_of(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    return lambda record: tuple([getattr(record, name) for name in names])


def _refuse_to_set(self: object, name: str, _value: object) -> None:
    raise AttributeError(f"a record does not change: cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise AttributeError(f"a record does not change: cannot delete field {name!r}")


def _arrange_arguments(
    cls: type, names: tuple[str, ...], defaults: dict[str, Any], values: tuple[Any, ...],
    named: dict[str, Any],
) -> tuple[Any, ...]:  # fmt: skip
    """Arrange arguments in field order; raises TypeError for missing or unexpected ones."""
    shown_call, count = f"{cls.__name__}()", len(values)
    if count > len(names):
        raise TypeError(f"{shown_call} takes {len(names)} arguments but {count} were given")
    for name in named:
        if name not in names:
            raise TypeError(f"{shown_call} got an unexpected keyword argument {name!r}")
        if name in names[:count]:
            raise TypeError(f"{shown_call} got multiple values for argument {name!r}")
    arguments = defaults | named
    missing = [name for name in names[count:] if name not in arguments]
    if missing:
        raise TypeError(f"{shown_call} is missing {', '.join(map(repr, missing))}")
    return values + tuple([arguments[name] for name in names[count:]])
