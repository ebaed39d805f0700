"""Validators of arguments: whole numbers, booleans, names, classes, arrays, bytes, paths.

Validators run where untrusted or foreign data enters: files, HTTP, gRPC, the command line, native
pointers and their sizes, and everything that a verifier reads. Other code can rely on plain `int`,
`bool` and `str`. A validator's error names the argument.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
    Set,
)
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quod.errors import InputError, QuodError
from quod.wording import alternatives

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_MAX_CHARACTERS = 60
_TYPES_SHOWN_BY_VALUE = (bool, int, float, str, bytes, type(None))


def whole_number(
    name: str, value: object, low: int | None = None, high: int | None = None, *,
    error: type[QuodError] = InputError,
) -> int:  # fmt: skip
    """Return a whole number in the closed range from `low` to `high` as a plain int.

    A bound of None is no bound. Integers of other libraries (`__index__`) are accepted; booleans,
    floats and text are not. Raises `error` with the argument's name, the range and the value.
    """
    number = value if type(value) is int else _index(value)
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        span = "" if low is None else f" from {_power(low)}"
        span += " on" if span and high is None else "" if high is None else f" to {_power(high)}"
        raise error(f"{name} must be a whole number{span}, not {shown(value)}")
    return number


def whole_number_or_none(
    name: str, value: object, low: int | None = None, high: int | None = None, *,
    error: type[QuodError] = InputError,
) -> int | None:  # fmt: skip
    """Return a whole number as `whole_number` does, or None."""
    return None if value is None else whole_number(name, value, low, high, error=error)


def flag(name: str, value: object, *, error: type[QuodError] = InputError) -> bool:
    """Return a boolean; raises `error` for other values, as their truth value may surprise."""
    if value is True or value is False:
        return value
    raise error(f"{name} must be True or False, not {shown(value)}")


def choice(
    name: str, value: object, choices: Sequence[str], *, error: type[QuodError] = InputError
) -> str:
    """Return a value that is one of the choices; raises `error` with all choices otherwise."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = choices
    text = f"{', '.join(others)} or {last}" if others else last
    raise error(f"{name} must be {text}, not {shown(value)}")


def member(name: str, value: object, kind: type[E]) -> E:
    """Return the member of an enumeration with the given value.

    Raises InputError with all values of the enumeration otherwise.
    """
    members = {candidate.value: candidate for candidate in kind}
    if isinstance(value, str) and value in members:
        return members[value]
    raise InputError(f"{name} must be {alternatives(members)}, not {shown(value)}")


def instance(
    name: str, value: object, kind: type[T], remedy: str, *, error: type[QuodError] = InputError
) -> T:
    """Return a value that is an instance of a class; raises `error` with `remedy` otherwise."""
    if isinstance(value, kind):
        return value
    shown_type = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise error(f"{name} must be of the type {kind.__name__}, not {shown_type}; {remedy}")


def check_characters(name: str, text: str) -> None:
    """Raise InputError for a text with half of a pair of surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} has half of a pair of surrogates (\\ud800 to \\udfff), which is not a "
            "character; write the character itself"
        ) from None


def in_order(name: str, value: object) -> Iterable[Any]:
    """Return an ordered iterable; its items are not checked.

    Raises InputError for text and bytes, which iterate by character or byte, mappings, which
    iterate by key, and sets, which are unordered.
    """
    if not isinstance(value, Iterable) or isinstance(
        value, str | bytes | bytearray | memoryview | Mapping | Set
    ):
        raise InputError(f"{name} must be a list, not {shown_kind(value)}")
    return value


def plain_array(name: str, value: object) -> np.ndarray[Any, Any]:
    """Return an array as a plain `numpy.ndarray` that shares its memory.

    Subclasses such as `numpy.matrix` are converted, as they redefine operators. Raises InputError
    for lists and masked arrays.
    """
    if not isinstance(value, _numpy("ndarray")):
        raise InputError(f"{name} must be a NumPy array, not {shown_kind(value)}")
    if is_masked(value):
        raise InputError(f"{name} must be a plain array, not one with a mask; apply the mask first")
    array = cast("np.ndarray[Any, Any]", value)
    (plain,) = _numpy("ndarray")
    return array if type(array) is plain else plain.view(array, plain)  # type: ignore[attr-defined]


def exact_bytes(name: str, value: object, size: int | None = None) -> bytes:
    """Return bytes, which must have the given length if any; messages omit their contents."""
    if not isinstance(value, bytes):
        raise InputError(f"{name} must be bytes, not {shown_kind(value)}")
    if size is not None and len(value) != size:
        raise InputError(f"{name} must be {size} bytes, not {len(value)}")
    return value


def bytes_of_hex(text: object, size: int | None = None) -> bytes | None:
    """Return the bytes of text in hex, of the given length if any; None for any other value."""
    if isinstance(text, str) and text.isalnum() and size in (None, len(text) / 2):
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    return None


def check_function(name: str, value: object) -> None:
    """Raise InputError unless the value is callable and not a class."""
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{name} is a function, not {shown_kind(value)}")


def called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that a caller passed, and return its result.

    Raises InputError for a generator or coroutine function, which a call does not run.
    """
    result = function(*arguments)
    if isinstance(result, Generator | Coroutine | AsyncGenerator):
        if not isinstance(result, AsyncGenerator):
            result.close()
        raise InputError(
            f"{name} returned {shown_kind(result)} and did not run; it must not await or yield"
        )
    return result


def plain_bytes(name: str, value: object) -> bytes:
    """Return a copy of bytes, a bytearray or a memoryview; raises InputError for anything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InputError(f"{name} is bytes, not {shown_kind(value)}")


def file_path(value: object) -> str:
    """Return the path of a file as text; raises InputError for numbers, bytes and the like."""
    if isinstance(value, (str, os.PathLike)):
        path: object = os.fspath(value)
        if isinstance(path, str):
            return path
    raise InputError(f"the path of a file must be text or a Path, not {shown(value)}")


def offers(value: object, attribute: str) -> bool:
    """Report whether a value has an attribute.

    An exception of the attribute counts as False, except a QuodError, which is raised.
    """
    try:
        return hasattr(value, attribute)
    except QuodError:
        raise
    except Exception:
        return False


def is_device(value: object) -> bool:
    """Report whether a value is a device instance: it has `compile` and `launch`."""
    is_object = not isinstance(value, type)
    return is_object and all(offers(value, name) for name in ("compile", "launch"))


def is_masked(array: object) -> bool:
    """Report whether an array is masked; Quod's functions would ignore its mask."""
    return type(array) not in _numpy("ndarray") and hasattr(array, "mask")


def shown(value: object) -> str:
    """Describe a value for a message, on one short line, without calling foreign code."""
    if type(value) is int and value.bit_length() > 4 * _MAX_CHARACTERS:
        return f"a number of {value.bit_length()} bits"
    if type(value) in _TYPES_SHOWN_BY_VALUE or isinstance(value, _numpy("generic")):
        text = repr(value)
        return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
    return shown_kind(value)


def shown_kind(value: object) -> str:
    """Return the type of a value with an article for a message, such as ``a list``."""
    return "None" if value is None else f"a {type(value).__name__}"


def _numpy(name: str) -> tuple[type, ...]:
    """Return a NumPy class, or () if NumPy is not loaded, as in clients of the service."""
    kind = getattr(sys.modules.get("numpy"), name, None)
    return () if kind is None else (kind,)


def _index(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        # Converts subclasses of int as well.
        return int.__index__(operator.index(value))  # type: ignore[arg-type]
    except Exception:
        # A foreign object may raise any exception.
        return None


def _power(number: int) -> str:
    """Format a bound, as a power of two if possible: 2**31 - 1."""
    for increment, sign in ((0, ""), (1, " - 1")):
        power = number + increment
        if power >> 16 and power & (power - 1) == 0:
            return f"2**{power.bit_length() - 1}{sign}"
    return str(number)
