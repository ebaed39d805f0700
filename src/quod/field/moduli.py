"""Prime fields, each fixed by its modulus alone.

In memory an element is an integer below p in `words` little-endian 32-bit words: one word for
p < 2**32, two for p < 2**64, else whole 64-bit words, as in snarkjs's zkey files. The integer is
``x * 2**(32 * words) mod p`` (Montgomery form), as in those files. It is x itself if reduction
takes only shifts and sums: modulo a Mersenne prime of one word, and modulo 2**64 - 2**32 + 1. The
representation in registers depends on the target (see `quod.field.strategy`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

from quod.errors import InputError
from quod.frozen import frozen
from quod.names import NameTable

MAX_BITS = 521
"""Bits of the largest moduli, such as NIST's P-521."""

_GOLDILOCKS = (1 << 64) - (1 << 32) + 1


@frozen
class Modulus:
    """A prime of 5 or more and at most 521 bits, with the sizes that follow from it.

    name: used in messages and in names of kernel functions; for fields of curves ``curve.fq``
        (coordinates) or ``curve.fr`` (scalars).
    value: the prime p.

    Raises InputError for any other value.
    """

    name: str
    value: int

    def __post_init__(self) -> None:
        arguments: tuple[object, object] = (self.name, self.value)
        if type(arguments[0]) is not str or type(arguments[1]) is not int:
            kinds = " and ".join(type(part).__name__ for part in arguments)
            raise InputError(f"a modulus needs a name (str) and a prime (int), not {kinds}")
        shown_value = self.value if self.value.bit_length() <= 64 else f"of {self.bits} bits"
        subject = f"the modulus {shown_value} of {self.name}"
        if self.value < 5:
            raise InputError(f"{subject} is too small; take a prime of 5 or more")
        if self.bits > MAX_BITS:
            raise InputError(f"{subject} is too large; take a prime of at most {MAX_BITS} bits")
        if self.value % 2 == 0:
            raise InputError(f"{subject} is even; take an odd prime")
        # Imported only for new moduli; the named ones are not tested for primality here.
        from quod.field.primality import is_prime

        if not is_prime(self.value):
            raise InputError(f"{subject} is composite; a field has a prime number of elements")

    @classmethod
    def unchecked(cls, name: str, value: int) -> Self:
        """Create a modulus without a primality test, which saves time at import.

        Quod's own moduli are checked in the tests.
        """
        modulus = object.__new__(cls)
        modulus.__dict__.update(name=name, value=value)
        return modulus

    @cached_property
    def bits(self) -> int:
        """Length of p in bits."""
        return self.value.bit_length()

    @cached_property
    def words(self) -> int:
        """32-bit words of an element in memory: one, or whole 64-bit words."""
        return 1 if self.bits <= 32 else 2 * -(-self.bits // 64)

    @cached_property
    def bytes(self) -> int:
        """The bytes of an element in memory."""
        return 4 * self.words

    @cached_property
    def is_plain(self) -> bool:
        """True if elements are stored as canonical integers, not in Montgomery form."""
        is_mersenne = self.value & (self.value + 1) == 0
        return (is_mersenne and self.words == 1) or self.value == _GOLDILOCKS

    @cached_property
    def montgomery_radix(self) -> int:
        """R, the factor of the stored form: 2**(32 * words), or 1 if `is_plain`."""
        return 1 if self.is_plain else 1 << (32 * self.words)

    @property
    def degree(self) -> int:
        """Degree over the prime field: 1."""
        return 1

    @property
    def modulus(self) -> Self:
        """The field itself; for an extension, the prime field at the bottom."""
        return self

    def centred(self, number: int) -> int:
        """Return the representative of `number` modulo p between -p/2 and p/2."""
        half = self.value >> 1
        return (number + half) % self.value - half

    @cached_property
    def two_adicity(self) -> int:
        """The largest s such that 2**s divides p - 1."""
        return ((self.value - 1) & (1 - self.value)).bit_length() - 1

    def to_montgomery(self, value: int) -> int:
        """Convert an integer to its stored form."""
        return value * self.montgomery_radix % self.value

    def from_montgomery(self, stored: int) -> int:
        """Convert a stored form to the canonical integer."""
        return stored * self._inverse_radix % self.value

    @cached_property
    def _inverse_radix(self) -> int:
        return pow(self.montgomery_radix, -1, self.value)


BN254_FQ = Modulus.unchecked(
    "bn254.fq", 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
)
BN254_FR = Modulus.unchecked(
    "bn254.fr", 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
)
BLS12_381_FQ = Modulus.unchecked(
    "bls12_381.fq",
    0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB,
)
BLS12_381_FR = Modulus.unchecked(
    "bls12_381.fr", 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
)
BLS12_377_FQ = Modulus.unchecked(
    "bls12_377.fq",
    0x01AE3A4617C510EAC63B05C06CA1493B1A22D9F300F5138F1EF3622FBA094800170B5D44300000008508C00000000001,
)
BLS12_377_FR = Modulus.unchecked(
    "bls12_377.fr", 0x12AB655E9A2CA55660B44D1E5C37B00159AA76FED00000010A11800000000001
)


M31 = Modulus.unchecked("m31", (1 << 31) - 1)
BABY_BEAR = Modulus.unchecked("baby_bear", (1 << 31) - (1 << 27) + 1)
KOALA_BEAR = Modulus.unchecked("koala_bear", (1 << 31) - (1 << 24) + 1)
GOLDILOCKS = Modulus.unchecked("goldilocks", _GOLDILOCKS)
M61 = Modulus.unchecked("m61", (1 << 61) - 1)
SECP256K1_FQ = Modulus.unchecked("secp256k1.fq", (1 << 256) - (1 << 32) - 977)
SECP256K1_FR = Modulus.unchecked(
    "secp256k1.fr", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
)
PALLAS_FQ = Modulus.unchecked(
    "pallas.fq", 0x40000000000000000000000000000000224698FC094CF91B992D30ED00000001
)
PALLAS_FR = Modulus.unchecked(
    "pallas.fr", 0x40000000000000000000000000000000224698FC0994A8DD8C46EB2100000001
)
CURVE25519_FQ = Modulus.unchecked("curve25519.fq", (1 << 255) - 19)

_PAIRING_MODULI = (BN254_FQ, BN254_FR, BLS12_381_FQ, BLS12_381_FR, BLS12_377_FQ, BLS12_377_FR)
_OTHER_MODULI = (
    M31, BABY_BEAR, KOALA_BEAR, GOLDILOCKS, M61, SECP256K1_FQ, SECP256K1_FR, PALLAS_FQ, PALLAS_FR,
    CURVE25519_FQ,
)  # fmt: skip

NAMED: dict[str, Modulus] = NameTable(
    "quod.field.NAMED",
    "a field",
    {modulus.name: modulus for modulus in (*_PAIRING_MODULI, *_OTHER_MODULI)},
)
"""All named prime fields."""


def _elsewhere(name: str) -> str | None:
    return "quod.field.NAMED has it" if name in NAMED else None


MODULI: dict[str, Modulus] = NameTable(
    "quod.field.MODULI",
    "a field",
    {modulus.name: modulus for modulus in _PAIRING_MODULI},
    _elsewhere,
)
"""The fields of pairing-friendly curves, whose kernels are registered."""
