"""The name and the beacon of a contribution, to powers of tau or to a key.

In files: u32 type (0 a contribution, 1 a beacon), u32 length in bytes, then the parameters. Each
parameter follows its number, in ascending order: 1 the name after its u8 length, in UTF-8; 2 the
exponent of a beacon, u8; 3 its value after a u8 length.
"""

from __future__ import annotations

from quod.ceremony.beacon import LEAST_EXPONENT, MOST_EXPONENT, Beacon
from quod.errors import InputError
from quod.formats.iden3 import SectionReader, little_u32
from quod.frozen import frozen

_MOST_BYTES = 255
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
        if size > _MOST_BYTES:
            raise InputError(f"a name must have at most {_MOST_BYTES} bytes of UTF-8, not {size}")

    @property
    def described(self) -> str:
        """The kind and the name of the contribution, for messages."""
        kind = "contribution" if self.beacon is None else "beacon"
        return f"{kind} {self.name or 'without a name'}"

    @classmethod
    def read(cls, section: SectionReader) -> Details:
        """Read the details at a section's position; InputError with the offset if malformed."""
        start = section.offset
        kind = section.u32("the type of a contribution")
        if kind > 1:
            section.fail(
                f"the contribution has the unknown type {kind}; the file is damaged", start
            )
        start = section.offset
        length = section.u32("the length of parameters")
        parameters = bytes(section.take(length, "the parameters of a contribution"))

        def fail(why: str) -> None:
            section.fail(f"the parameters of a contribution {why}; the file is damaged", start)

        fields: dict[int, bytes] = {}
        at = 0
        while at < length:
            number = parameters[at]
            if number in fields or (fields and number < max(fields)):
                fail("are not in ascending order")
            if number not in (_NAME, _EXPONENT, _VALUE):
                fail(f"have a number {number}")
            size = 1 if number == _EXPONENT else parameters[at + 1] if at + 1 < length else 0
            at += 1 if number == _EXPONENT else 2
            if at + size > length:
                fail("end within a parameter")
            fields[number] = parameters[at : at + size]
            at += size
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
        if not LEAST_EXPONENT <= exponent <= MOST_EXPONENT or not value:
            fail(f"are not a valid beacon: its value is hashed 2**{exponent} times")
        return cls(name, Beacon(value, exponent))

    def data(self) -> bytes:
        """The bytes that `read` takes."""
        parameters = b""
        if self.name:
            name = self.name.encode()
            parameters += bytes([_NAME, len(name)]) + name
        if self.beacon is not None:
            parameters += bytes([_EXPONENT, self.beacon.exponent])
            parameters += bytes([_VALUE, len(self.beacon.value)]) + self.beacon.value
        kind = 0 if self.beacon is None else 1
        return little_u32(kind) + little_u32(len(parameters)) + parameters
