"""Validation and normalisation of the queue's arguments; each function raises InputError."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from quod.errors import InputError
from quod.validation import shown, shown_kind

_MAX_CHARACTERS = 128
_MESSAGE_CHARACTERS = 500
_MAX_TIME = 1 << 40  # seconds, so that microseconds are 64-bit integers


def checked_name(what: str, value: object, *, empty: bool = False) -> str:
    """Return printable text of at most 128 characters."""
    if not isinstance(value, str) or not (value or empty):
        raise InputError(f"{what} must be text, not {shown(value)}")
    if len(value) > _MAX_CHARACTERS or not value.isprintable():
        raise InputError(f"{what} must be printable text of at most {_MAX_CHARACTERS} characters")
    return value


def checked_line(what: str, value: object) -> str:
    """Return text as one printable line, truncated to 500 characters."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be text, not {shown_kind(value)}")
    line = " ".join(value.split())
    return "".join(character for character in line if character.isprintable())[:_MESSAGE_CHARACTERS]


def checked_pair(value: object) -> tuple[object, object]:
    """Return the lease and the result of a pair."""
    match value:
        case (lease, result):
            return lease, result
    raise InputError(f"give each result as its lease and bytes, not {shown_kind(value)}")


def checked_seconds(what: str, value: object, *, zero: bool = False) -> float:
    """Return a number of seconds above zero, or also zero if `zero`."""
    number = _number(value)
    if number is None or not 0 <= number < 1e9 or not (number or zero):
        raise InputError(
            f"{what} must be seconds {'from' if zero else 'above'} 0, not {shown(value)}"
        )
    return number


def checked_time(what: str, value: object) -> float | None:
    """Return seconds since 1970, or None."""
    number = _number(value)
    if value is not None and (number is None or not 0 <= number < _MAX_TIME):
        raise InputError(f"{what} must be seconds since 1970, not {shown(value)}")
    return number


def checked_list(what: str, value: object) -> Sequence[object]:
    """Return a list or a tuple of any elements."""
    if isinstance(value, (list, tuple)):
        return value
    raise InputError(f"{what} must be a list, not {shown_kind(value)}")


def payload_chunks(value: object) -> Iterable[object]:
    """Return the chunks of a payload."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, (str, dict, set)):
        return value
    raise InputError(f"a payload must be bytes or an iterable of bytes, not {shown_kind(value)}")


def _number(value: object) -> float | None:
    """Return a finite number, or None for booleans and other types."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if abs(value) < _MAX_TIME else math.inf
        return number if math.isfinite(number) else None
    return None
