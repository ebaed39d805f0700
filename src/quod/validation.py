"""Validators of arguments: whole numbers, truth values, names, classes, arrays, bytes, paths.

A call puts arguments through these where untrusted or foreign data enters: files, HTTP, gRPC, the
command line, native pointers and their sizes, and everything that a verifier reads. Values inside
are then plain `int`, `bool` and `str`, and a mistake is an error that names the argument.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quod.errors import InputError, QuodError
from quod.wording import alternatives

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_SHOWN = 60
_SHORT = (bool, int, float, str, bytes, type(None))


def whole_number(
    name: str, value: object, low: int | None = None, high: int | None = None, *,
    error: type[QuodError] = InputError,
) -> int:  # fmt: skip
    """A whole number from `low` to `high`, each of which may be left open, as a plain int.

    Integers of other libraries are such (`__index__`). Truth values, floats and text are none, even
    where they equal one. Else raises `error`, which names the argument, the range and the value.
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
    """The same where None says that somebody else chooses."""
    return None if value is None else whole_number(name, value, low, high, error=error)


def flag(name: str, value: object, *, error: type[QuodError] = InputError) -> bool:
    """True or False itself: text, numbers and arrays are refused, of which "no" would mean yes."""
    if value is True or value is False:
        return value
    raise error(f"{name} must be True or False, not {shown(value)}")


def choice(
    name: str, value: object, choices: Sequence[str], *, error: type[QuodError] = InputError
) -> str:
    """One of some words; raises `error` with all of them for anything else."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = choices
    listed = f"{', '.join(others)} or {last}" if others else last
    raise error(f"{name} must be {listed}, not {shown(value)}")


def member(name: str, value: object, kind: type[E]) -> E:
    """The member of an enumeration that a word is the value of; InputError with all of these for
    anything else."""
    known = {each.value: each for each in kind}
    if isinstance(value, str) and value in known:
        return known[value]
    raise InputError(f"{name} must be {alternatives(known)}, not {shown(value)}")


def instance(
    name: str, value: object, kind: type[T], remedy: str, *, error: type[QuodError] = InputError
) -> T:
    """A value of a class; else raises `error`, which says with `remedy` where one comes from."""
    if isinstance(value, kind):
        return value
    given = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise error(f"{name} must be of the type {kind.__name__}, not {given}; {remedy}")


def in_order(name: str, value: object) -> Iterable[Any]:
    """What has items in an order, which are not looked at.

    InputError for text and bytes, which would give their characters, mappings, which would give
    their keys, and sets, which have no order.
    """
    if not isinstance(value, Iterable) or isinstance(
        value, str | bytes | bytearray | memoryview | Mapping | Set
    ):
        raise InputError(f"{name} must be a list, not {shown_kind(value)}")
    return value


def plain_array(name: str, value: object) -> np.ndarray[Any, Any]:
    """An array of NumPy's own class in the same memory, whatever its own class computes otherwise,
    such as `numpy.matrix`; InputError for lists and for arrays with a mask."""
    if not isinstance(value, _numpy("ndarray")):
        raise InputError(f"{name} must be a NumPy array, not {shown_kind(value)}")
    if is_masked(value):
        raise InputError(f"{name} must be a plain array, not one with a mask; apply the mask first")
    array = cast("np.ndarray[Any, Any]", value)
    (plain,) = _numpy("ndarray")
    return array if type(array) is plain else plain.view(array, plain)  # type: ignore[attr-defined]


def exact_bytes(name: str, value: object, size: int | None = None) -> bytes:
    """Bytes, of one length if it is given. Nothing of them is in the message."""
    if not isinstance(value, bytes):
        raise InputError(f"{name} must be bytes, not {shown_kind(value)}")
    if size is not None and len(value) != size:
        raise InputError(f"{name} must be {size} bytes, not {len(value)}")
    return value


def check_function(name: str, value: object) -> None:
    """InputError for what cannot be called, and for classes."""
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{name} is a function, not {shown_kind(value)}")


def plain_bytes(name: str, value: object) -> bytes:
    """A copy of bytes, which may be of a kind that changes; InputError for anything else, such as
    text, lists and arrays."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InputError(f"{name} is bytes, not {shown_kind(value)}")


def file_path(value: object) -> str:
    """The path of a file as text; InputError for what names none, such as a number or bytes."""
    if isinstance(value, (str, os.PathLike)):
        path: object = os.fspath(value)
        if isinstance(path, str):
            return path
    raise InputError(f"the path of a file must be text or a Path, not {shown(value)}")


def offers(value: object, attribute: str) -> bool:
    """Whether a value has an attribute; what it raises when it is asked is a no, but for ours."""
    try:
        return hasattr(value, attribute)
    except QuodError:
        raise
    except Exception:
        return False


def is_device(value: object) -> bool:
    """Whether a value is a device that is open: neither a class of them, nor else what compiles."""
    own = not isinstance(value, type)
    return own and all(offers(value, name) for name in ("compile", "launch"))


def is_masked(array: object) -> bool:
    """Whether an array says that some of its numbers do not count, which nothing here heeds."""
    return type(array) not in _numpy("ndarray") and hasattr(array, "mask")


def shown(value: object) -> str:
    """A value for a message: short, on one line, and without trusting what it says of itself."""
    if type(value) is int and value.bit_length() > 4 * _SHOWN:
        return f"a number of {value.bit_length()} bits"
    if type(value) in _SHORT or isinstance(value, _numpy("generic")):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return shown_kind(value)


def shown_kind(value: object) -> str:
    """The kind of a value for a message."""
    return "None" if value is None else f"a {type(value).__name__}"


def _numpy(name: str) -> tuple[type, ...]:
    """A class of NumPy; nothing is of it where NumPy is not loaded, which clients need not do."""
    kind = getattr(sys.modules.get("numpy"), name, None)
    return () if kind is None else (kind,)


def _index(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        # Of a subclass of int, too, the number alone.
        return int.__index__(operator.index(value))  # type: ignore[arg-type]
    except Exception:
        # What an object of others raises when it is asked.
        return None


def _power(number: int) -> str:
    """A bound as people read it: 2**31 - 1 rather than its digits."""
    for more, sign in ((0, ""), (1, " - 1")):
        power = number + more
        if power >> 16 and power & (power - 1) == 0:
            return f"2**{power.bit_length() - 1}{sign}"
    return str(number)
