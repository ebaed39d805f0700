"""The fields of Expander's circuit files, identified by their primes."""

from __future__ import annotations

import numpy as np

from quod.errors import InputError
from quod.field.moduli import BABY_BEAR, BN254_FR, GOLDILOCKS, M31, Modulus
from quod.formats.curves import first_at_or_above
from quod.formats.iden3 import SectionReader, Words
from quod.frozen import frozen


@frozen
class Circuit6Field:
    """A field of Expander's files.

    name: Its name.
    value: Its prime.
    element_bytes: Bytes of an element in a file.
    modulus: The modulus that Quod computes with; None for the field of two elements, of which Quod
        only reads files.
    """

    name: str
    value: int
    element_bytes: int
    modulus: Modulus | None

    @property
    def words(self) -> int:
        """32-bit words of an element."""
        return -(-self.element_bytes // 4)

    def first_wrong(self, words: Words) -> int | None:
        """Return the index of the first of (n, words) integers at or above the prime, or None."""
        if self.modulus is not None:
            return first_at_or_above(words, self.modulus)
        wrong = np.flatnonzero(words[:, 0] >= self.value)
        return int(wrong[0]) if wrong.size else None

    def words_of(self, data: memoryview, count: int) -> Words:
        """Return `count` consecutive elements as a new array of words."""
        if self.element_bytes < 4:
            return np.frombuffer(data, np.uint8).reshape(count, 1).astype(np.uint32)
        return np.frombuffer(data, "<u4").reshape(count, self.words).astype(np.uint32)

    def bytes_of(self, words: Words) -> bytes:
        """Return words as the bytes of elements; the inverse of `words_of`."""
        if self.element_bytes < 4:
            return words.astype(np.uint8).tobytes()
        return np.ascontiguousarray(words, "<u4").tobytes()


_PRIMES = (M31, GOLDILOCKS, BABY_BEAR, BN254_FR)

FIELDS = (
    *(Circuit6Field(prime.name, prime.value, prime.bytes, prime) for prime in _PRIMES),
    Circuit6Field("gf2", 2, 1, None),
)

MODULUS_BYTES = 32


def field_of(modulus: Modulus) -> Circuit6Field:
    """Return the file field of a modulus; raise InputError if files do not support it."""
    for field in FIELDS:
        if field.value == modulus.value:
            return field
    names = ", ".join(field.name for field in FIELDS)
    raise InputError(f"Expander's files are over {names}, not over {modulus.name}")


def read_field(reader: SectionReader) -> Circuit6Field:
    """Read the 32-byte prime, and return its field."""
    start = reader.offset
    prime = int.from_bytes(reader.take(MODULUS_BYTES, "the prime"), "little")
    field = next((field for field in FIELDS if field.value == prime), None)
    if field is None:
        names = ", ".join(field.name for field in FIELDS)
        reader.fail(f"the prime 0x{prime:x} is not one of {names}; compile for one of them", start)
    return field
