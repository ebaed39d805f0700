"""Counts the fields of a message before it is parsed.

Parsing turns a field of two bytes into an object of hundreds, so a message of a few megabytes could
take gigabytes. Counting reads only the bytes.
"""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor

from quod.errors import InputError

_VARINT, _EIGHT, _TEXT, _FOUR = 0, 1, 2, 5
_MOST_VARINT = 10
_SIZES = {_EIGHT: 8, _FOUR: 4}
_LAST_BYTES = bytes(range(128))


def check_fields(data: bytes, descriptor: Descriptor, most: int) -> None:
    """Raise `InputError` for a message with more than `most` fields, including those of nested
    messages.

    Each element of a packed field counts as one. Raises `InputError` for malformed bytes, too.
    """
    count = 0
    ranges: list[tuple[int, int, Descriptor]] = [(0, len(data), descriptor)]
    while ranges:
        at, end, message = ranges.pop()
        nested = {field.number: field.message_type for field in message.fields}
        packed = {field.number for field in message.fields if field.is_packed}
        while at < end:
            key, at = _varint(data, at, end)
            wire, number = key & 7, key >> 3
            length = 0
            if wire == _VARINT:
                _, at = _varint(data, at, end)
            elif wire == _TEXT:
                length, at = _varint(data, at, end)
            else:
                length = _SIZES.get(wire, end)
            if length > end - at:
                raise _no_message()
            count += 1
            if wire == _TEXT and length:
                if (inner := nested.get(number)) is not None:
                    ranges.append((at, at + length, inner))
                elif number in packed:
                    count += length - len(data[at : at + length].translate(None, _LAST_BYTES))
            at += length
            if count > most:
                raise InputError(f"the request has more than {most} fields; split it into several")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode a varint at a byte offset; return its value and the offset after it."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(end, at + _MOST_VARINT)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
    raise _no_message()


def _no_message() -> InputError:
    return InputError("the request is not a message of this call; check the version of quod.proto")
