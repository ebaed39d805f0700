"""The encodings of records: HTTP answers, frames and gRPC messages from one table of fields.

The annotations of a record give the name and type of each field. A `Wire` in an annotation states
how the encodings differ. HTTP answers are JSON for people and other programs. Frames between a
server and its workers are JSON that decodes to an equal record. gRPC messages
(`quod.service.protocol.messages`) have the fields that quod.proto lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from quod import errors
from quod.errors import InputError, QuodError, ServiceError
from quod.frozen import field_names
from quod.service import errors as service_errors

T = TypeVar("T")

Json = Any


class Wire(NamedTuple):
    """The encoding of a field that some encodings omit or rename.

    answer, message: the field's names in HTTP answers and gRPC messages; "" is its own name, None
        omits the field.
    in_frames: whether frames have the field.
    optional: whether answers omit the field if it is None or the empty string.
    """

    answer: str | None = ""
    message: str | None = ""
    in_frames: bool = True
    optional: bool = False


@cache
def wire_fields(cls: type) -> tuple[tuple[str, Any, Wire], ...] | None:
    """Return the name, type and `Wire` of each field of a record class; None for another class."""
    if (names := field_names(cls)) is None:
        return None
    fields = []
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if name in names:
            kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            answer_name, message, *flags = extras[0] if extras else Wire()
            answer_name, message = (name if key == "" else key for key in (answer_name, message))
            fields.append((name, kind, Wire(answer_name, message, *flags)))
    return tuple(fields)


def encode_answer(value: Any) -> Json:
    """Encode a record or a field's value for an HTTP answer; enumeration members become words."""
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value, int) else value.value
    if (fields := wire_fields(value.__class__)) is not None:
        items = ((wire, getattr(value, name)) for name, _, wire in fields if wire.answer)
        return {
            wire.answer: encode_answer(item)
            for wire, item in items
            if not (wire.optional and item in (None, ""))
        }
    return _encode_items(value, encode_answer)


def encode_frame(value: Any) -> Json:
    """Encode a record or a field's value for a frame; `decode_frame` is the inverse."""
    if isinstance(value, Enum):
        return value.value
    if (fields := wire_fields(value.__class__)) is not None:
        names = [name for name, _, wire in fields if wire.in_frames]
        return {name: encode_frame(getattr(value, name)) for name in names}
    return _encode_items(value, encode_frame)


def _encode_items(value: object, encode: Any) -> Json:
    if isinstance(value, Mapping):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    return [*map(encode, value)] if isinstance(value, (list, tuple)) else value


def decode_frame(kind: type[T], value: Json) -> T:
    """Decode a value of a type from a frame; fields that frames omit keep their defaults.

    Raises InputError for malformed content, which comes from a process that is broken or of another
    version.
    """
    result: T = _decode(kind, value)
    return result


def _decode(kind: Any, value: Json) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    # Annotations of optional values are `X | None`, in this order.
    if NoneType in arguments:
        return None if value is None else _decode(arguments[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple([_decode(arguments[0], item) for item in value])
    if origin is Mapping and isinstance(value, dict):
        keys, items = arguments
        return {_decode(keys, key): _decode(items, item) for key, item in value.items()}
    if origin is None:
        fields = wire_fields(kind)
        try:
            if fields is not None and isinstance(value, dict):
                hints = {name: hint for name, hint, wire in fields if wire.in_frames}
                if value.keys() == hints.keys():
                    return kind(**{name: _decode(hints[name], value[name]) for name in hints})
            elif issubclass(kind, Enum):
                return kind(value)
            elif isinstance(value, (int, float) if kind is float else kind):
                return value
        except (TypeError, ValueError) as error:
            raise InputError(f"a frame has a wrong {kind.__name__}") from error
    raise InputError(f"a frame has no {getattr(kind, '__name__', kind)}")


_ERRORS: Final[dict[str, type[QuodError]]] = {
    name: kind
    for module in (errors, service_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, QuodError)
}
# The attributes of errors that the errors' texts mention or callers read.
_ATTRIBUTES: Final = ("retry_seconds", "parts", "budget", "path")


def encode_error(error: BaseException) -> Json:
    """Encode an error of Quod. Another error has only its class encoded: its text may be secret."""
    if not isinstance(error, QuodError):
        return {"kind": "ServiceError", "message": f"{type(error).__name__} in the other process"}
    names = [cls.__name__ for cls in type(error).__mro__]
    kind = next((name for name in names if name in _ERRORS), "ServiceError")
    attributes = {name: getattr(error, name) for name in _ATTRIBUTES if hasattr(error, name)}
    return {"kind": kind, "message": str(error), **attributes}


def decode_error(value: Json) -> QuodError:
    """Decode an error of `encode_error`; its causes are not transmitted."""
    if not isinstance(value, dict):
        raise InputError("a frame has no error where one should be")
    kind = _ERRORS.get(value.get("kind", ""), ServiceError)
    # The constructors of some classes take arguments other than a text.
    error = kind.__new__(kind)
    Exception.__init__(error, value.get("message", ""))
    error.__dict__.update({name: value[name] for name in _ATTRIBUTES if name in value})
    return error
