"""Structs: parameters of kernels that group numbers, pointers and elements under one name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from quod.frozen import fields_of, frozen, replace
from quod.kernel.builder.structure import flatten
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Composite, ParameterType, Value


class Struct:
    """Base of the structs that kernels take as parameters.

        class Extents(Struct):
            batch: U32
            columns: Pointer[U32]

        @kernel
        def fold(k: Builder, extents: Extents, challenge: Pointer[U32]) -> None: ...

    Each annotated name is a field, of any parameter type. The kernel reads fields as values; a
    launch passes an instance whose fields are numbers and arrays. Instances are immutable and
    compare by identity.
    """

    def __init_subclass__(cls) -> None:
        frozen(eq=False)(cls)

    if TYPE_CHECKING:

        def __init__(self, *values: Any, **fields: Any) -> None: ...

    def flatten(self) -> tuple[list[Value], Hashable, Callable[[Sequence[Value]], Any]]:
        """Flatten the fields, for loops, branches and device functions."""
        values, key, rebuild = flatten(tuple(fields_of(self).values()))
        return values, (type(self), key), lambda flat: type(self)(*rebuild(flat))


@frozen
class StructType(Composite):
    """A struct as the type of a parameter: the class, and the type of each field."""

    struct: type[Struct]
    fields: dict[str, ParameterType]

    def __str__(self) -> str:
        fields = ", ".join(f"{name}: {type_}" for name, type_ in self.fields.items())
        return f"{self.struct.__name__}({fields})"

    def resolved(self, static: Mapping[str, Any]) -> StructType:
        fields = dict(self.fields)
        for name, type_ in self._composites():
            try:
                fields[name] = type_.resolved(static)
            except ValueError as error:
                raise ValueError(f"has the field {name}, which {error}") from None
        return replace(self, fields=fields)

    @property
    def slots(self) -> dict[str, Type]:
        """The slots of the fields, in order."""
        return slots_of(self.fields)

    def split(self, argument: object) -> tuple[Any, ...]:
        if not isinstance(argument, self.struct):
            kind = type(argument).__name__
            raise ValueError(f"is {self}; give a {self.struct.__name__}, not a value of {kind}")
        values = self._values_of(argument)
        if self._is_simple:
            return values
        fields = zip(values, self.fields.items(), strict=True)
        parts = [_split(name, type_, value) for value, (name, type_) in fields]
        return tuple(chain.from_iterable(parts))

    @cached_property
    def _values_of(self) -> Callable[[Any], tuple[Any, ...]]:
        """A function that reads all fields of an instance, built once for all launches."""
        names = tuple(self.fields)
        if len(names) > 1:
            return operator.attrgetter(*names)
        return lambda argument: tuple(getattr(argument, name) for name in names)

    @cached_property
    def _is_simple(self) -> bool:
        return not any(self._composites())

    def joined(self, k: Any, numbers: Sequence[Value]) -> Struct:
        return self.struct(*join_slots(k, self.fields, iter(numbers)))

    def _composites(self) -> Iterator[tuple[str, Composite]]:
        for name, type_ in self.fields.items():
            if isinstance(type_, Composite):
                yield name, type_


def _split(field: str, type_: ParameterType, value: Any) -> tuple[Any, ...]:
    """Split a field's value into one item per slot; ValueError if it does not fit."""
    if isinstance(type_, Type):
        return (value,)
    try:
        return type_.split(value)
    except ValueError as error:
        raise ValueError(f"has the field {field}, which {error}") from None


def free_name(name: str, *taken: Container[str]) -> str:
    """Return the name, with underscores appended until it is in none of the containers."""
    while any(name in names for names in taken):
        name += "_"
    return name


def slots_of(parameters: Mapping[str, ParameterType]) -> dict[str, Type]:
    """Return the scalars and pointers of parameters or fields, under unique names."""
    slots: dict[str, Type] = {}
    for name, type_ in parameters.items():
        if isinstance(type_, Composite):
            for part, slot in type_.slots.items():
                slots[free_name(f"{name}_{part}", slots, parameters)] = slot
        else:
            slots[name] = type_
    return slots


def join_slots(
    k: Any, parameters: Mapping[str, ParameterType], values: Iterator[Value]
) -> list[Any]:  # fmt: skip
    """Assemble one value per parameter or field from the next values, one per slot."""
    return [
        type_.joined(k, list(islice(values, len(type_.slots))))
        if isinstance(type_, Composite)
        else next(values)
        for type_ in parameters.values()
    ]


def without_structs(parameters: Mapping[str, ParameterType]) -> dict[str, ParameterType]:
    """Return the parameters, with each struct replaced by its fields, named ``struct_field``."""
    flat: dict[str, ParameterType] = {}
    for name, type_ in parameters.items():
        if isinstance(type_, StructType):
            for field, kind in without_structs(type_.fields).items():
                flat[free_name(f"{name}_{field}", flat, parameters)] = kind
        else:
            flat[name] = type_
    return flat


def with_structs(parameters: Mapping[str, ParameterType], values: Iterator[Any]) -> list[Any]:
    """Combine the values of `without_structs`, in order, to one value per parameter."""
    return [
        type_.struct(*with_structs(type_.fields, values))
        if isinstance(type_, StructType)
        else next(values)
        for type_ in parameters.values()
    ]
