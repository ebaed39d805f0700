"""Count the fields of a message before it is parsed.

The parser turns a field of two bytes into an object of hundreds of bytes, so a message of a few
megabytes could take gigabytes of memory. Counting allocates no objects for fields.
"""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor

from quod.errors import InputError

# Protocol Buffers' wire types.
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_SIZES = {_FIXED64: 8, _FIXED32: 4}
# The values of the last byte of a varint.
_LAST_BYTES = bytes(range(128))


def check_fields(data: bytes, descriptor: Descriptor, most: int) -> None:
    """Raise InputError for malformed bytes and for a message with more than `most` fields.

    Fields of nested messages are counted too, and each element of a packed field counts as one.
    """
    count = 0
    ranges: list[tuple[int, int, Descriptor]] = [(0, len(data), descriptor)]
    while ranges:
        position, end, message = ranges.pop()
        nested = {field.number: field.message_type for field in message.fields}
        packed = {field.number for field in message.fields if field.is_packed}
        while position < end:
            key, position = _varint(data, position, end)
            wire_type, number = key & 7, key >> 3
            length = 0
            if wire_type == _VARINT:
                _, position = _varint(data, position, end)
            elif wire_type == _LENGTH_DELIMITED:
                length, position = _varint(data, position, end)
            else:
                length = _SIZES.get(wire_type, end)
            if length > end - position:
                raise malformed()
            count += 1
            if wire_type == _LENGTH_DELIMITED and length:
                if (inner := nested.get(number)) is not None:
                    ranges.append((position, position + length, inner))
                elif number in packed:
                    # The packed elements are varints; each has one last byte.
                    count += length - len(
                        data[position : position + length].translate(None, _LAST_BYTES)
                    )
            position += length
            if count > most:
                raise InputError(f"the request has more than {most} fields; split it into several")


def _varint(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Decode a varint at byte offset `start`; return its value and the offset after it."""
    if start < end and data[start] < 128:
        return data[start], start + 1
    value = shift = 0
    for offset in range(start, min(end, start + _MAX_VARINT_BYTES)):
        byte = data[offset]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, offset + 1
        shift += 7
    raise malformed()


def malformed() -> InputError:
    """Return the error for bytes that are not a message."""
    return InputError(
        "the request is not a message of this call; check the version of the client's .proto file"
    )
