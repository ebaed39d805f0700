"""The prime fields Quod computes in, each fixed by its modulus alone.

In memory an element is `words` little-endian 32-bit words holding ``x * 2**(32 * words) mod p``
(Montgomery form), the layout of snarkjs's zkey files. How an element is held while a kernel
computes is the target's choice (see `quod.field.strategy`).
"""

from __future__ import annotations

from functools import cached_property

from quod.frozen import frozen


@frozen
class Modulus:
    """A prime modulus with the sizes that follow from it.

    `name` is ``curve.fq`` (coordinates) or ``curve.fr`` (scalars); `value` is the prime p.
    """

    name: str
    value: int

    @cached_property
    def bits(self) -> int:
        """Length of p in bits."""
        return self.value.bit_length()

    @cached_property
    def words(self) -> int:
        """32-bit words of an element in memory: whole 64-bit words, as snarkjs stores them."""
        return 2 * -(-self.bits // 64)

    @cached_property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return 4 * self.words

    @cached_property
    def montgomery_radix(self) -> int:
        """R = 2**(32 * words), the factor of the stored form."""
        return 1 << (32 * self.words)

    @cached_property
    def two_adicity(self) -> int:
        """The largest s such that 2**s divides p - 1."""
        return ((self.value - 1) & (1 - self.value)).bit_length() - 1

    def to_montgomery(self, value: int) -> int:
        """The stored form of `value`."""
        return value * self.montgomery_radix % self.value

    def from_montgomery(self, stored: int) -> int:
        """The integer below p that `stored` stands for."""
        return stored * self._inverse_radix % self.value

    @cached_property
    def _inverse_radix(self) -> int:
        return pow(self.montgomery_radix, -1, self.value)


BN254_FQ = Modulus("bn254.fq", 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47)
BN254_FR = Modulus("bn254.fr", 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001)
BLS12_381_FQ = Modulus(
    "bls12_381.fq",
    0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB,
)
BLS12_381_FR = Modulus(
    "bls12_381.fr", 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
)
BLS12_377_FQ = Modulus(
    "bls12_377.fq",
    0x01AE3A4617C510EAC63B05C06CA1493B1A22D9F300F5138F1EF3622FBA094800170B5D44300000008508C00000000001,
)
BLS12_377_FR = Modulus(
    "bls12_377.fr", 0x12AB655E9A2CA55660B44D1E5C37B00159AA76FED00000010A11800000000001
)

MODULI: dict[str, Modulus] = {
    modulus.name: modulus
    for modulus in (
        BN254_FQ, BN254_FR, BLS12_381_FQ, BLS12_381_FR, BLS12_377_FQ, BLS12_377_FR,
    )
}  # fmt: skip
