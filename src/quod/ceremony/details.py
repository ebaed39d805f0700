"""The name and the beacon of a contribution, to powers of tau or to a key.

In files, details are a u32 type (0: contribution, 1: beacon), a u32 length in bytes and parameters.
A parameter is a u8 number and its data, in ascending order of numbers. Number 1 is the name in
UTF-8, after its u8 length; number 2 is the u8 exponent of a beacon; number 3 is the value of the
beacon, after its u8 length.
"""

from __future__ import annotations

from quod.ceremony.beacon import MAX_EXPONENT, MIN_EXPONENT, Beacon
from quod.errors import InputError
from quod.formats.iden3 import SectionReader, little_u32
from quod.frozen import frozen

_MAX_NAME_BYTES = 255
_NAME, _EXPONENT, _VALUE = 1, 2, 3


@frozen
class Details:
    """The details of a contribution.

    name: the contributor's name, or empty.
    beacon: the beacon that the secret was derived from, if any.
    """

    name: str = ""
    beacon: Beacon | None = None

    def __post_init__(self) -> None:
        try:
            size = len(self.name.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"{self.name!r} is not a valid name: it cannot be encoded in UTF-8"
            ) from error
        if size > _MAX_NAME_BYTES:
            raise InputError(
                f"a name must have at most {_MAX_NAME_BYTES} bytes of UTF-8, not {size}"
            )

    @property
    def described(self) -> str:
        """The kind and the name of the contribution, for messages."""
        kind = "contribution" if self.beacon is None else "beacon"
        return f"{kind} {self.name or 'without a name'}"

    @classmethod
    def read(cls, section: SectionReader) -> Details:
        """Read details from a section; raise InputError, with the offset, if they are malformed."""
        start = section.offset
        kind = section.u32("the type of a contribution")
        if kind > 1:
            section.fail(
                f"the contribution has the unknown type {kind}; the file is damaged", start
            )
        start = section.offset
        length = section.u32("the length of parameters")
        parameters = bytes(section.take(length, "the parameters of a contribution"))

        def fail(reason: str) -> None:
            section.fail(f"the parameters of a contribution {reason}; the file is damaged", start)

        fields: dict[int, bytes] = {}
        position = 0
        while position < length:
            number = parameters[position]
            if number in fields or (fields and number < max(fields)):
                fail("are not in ascending order")
            if number not in (_NAME, _EXPONENT, _VALUE):
                fail(f"have the unknown number {number}")
            size = (
                1
                if number == _EXPONENT
                else parameters[position + 1]
                if position + 1 < length
                else 0
            )
            position += 1 if number == _EXPONENT else 2
            if position + size > length:
                fail("end within a parameter")
            fields[number] = parameters[position : position + size]
            position += size
        if (kind == 1) != (_EXPONENT in fields) or (kind == 1) != (_VALUE in fields):
            fail("do not belong to its type")
        try:
            name = fields.get(_NAME, b"").decode()
        except UnicodeDecodeError:
            name = ""
            fail("have a name that is not UTF-8")
        if kind == 0:
            return cls(name)
        exponent, value = fields[_EXPONENT][0], fields[_VALUE]
        if not value:
            fail("have an empty beacon value")
        if not MIN_EXPONENT <= exponent <= MAX_EXPONENT:
            fail(
                f"have the beacon exponent {exponent}; it must be {MIN_EXPONENT} to {MAX_EXPONENT}"
            )
        return cls(name, Beacon(value, exponent))

    def data(self) -> bytes:
        """Serialise the details for `read`."""
        parameters = b""
        if self.name:
            name = self.name.encode()
            parameters += bytes([_NAME, len(name)]) + name
        if self.beacon is not None:
            parameters += bytes([_EXPONENT, self.beacon.exponent])
            parameters += bytes([_VALUE, len(self.beacon.value)]) + self.beacon.value
        kind = 0 if self.beacon is None else 1
        return little_u32(kind) + little_u32(len(parameters)) + parameters
