"""circomlib's EdDSA on Baby Jubjub with Poseidon: keys, signatures and their encoding.

The scheme of RFC 8032 with BLAKE-512 for secrets and Poseidon for the challenge; a message is one
element of BN254's scalar field. Signing does not run in constant time.
"""

from __future__ import annotations

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards.encoding import decode_edwards, encode_edwards
from quod.curve.named.baby_jubjub import BABY_JUBJUB
from quod.field.moduli import BN254_FR
from quod.frozen import frozen
from quod.hash.arguments import element
from quod.hash.blake import blake_512
from quod.hash.poseidon import poseidon_hash
from quod.validation import exact_bytes

_ORDER = BABY_JUBJUB.fr.value
_BASE = BABY_JUBJUB.generator
"""circomlib's Base8."""


@frozen
class EddsaSignature:
    """The point R8 and the scalar S; InputError unless S is below the order of the subgroup."""

    r8: EdwardsPair
    s: int

    def __post_init__(self) -> None:
        r8 = edwards_pair("R8 of the signature", BABY_JUBJUB, self.r8)
        s = element("S of the signature", self.s, BABY_JUBJUB.fr)
        self.__dict__.update(r8=r8, s=s)

    def to_bytes(self) -> bytes:
        """Encode the signature in 64 bytes: R8, then S little-endian."""
        return encode_edwards(BABY_JUBJUB, self.r8, sign="circomlib") + self.s.to_bytes(
            32, "little"
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> EddsaSignature:
        """Decode a signature of 64 bytes.

        InputError for a point that is not canonically encoded, off the curve or outside the
        subgroup, and for an S not below the subgroup's order.
        """
        data = exact_bytes("a signature", data, 64)
        r8 = decode_edwards(BABY_JUBJUB, data[:32], sign="circomlib")
        return cls(r8, int.from_bytes(data[32:], "little"))


def eddsa_public_key(private_key: bytes) -> EdwardsPair:
    """Return the public key A of a private key of 32 bytes."""
    return edwards_group(BABY_JUBJUB).multiply_fixed(_secret(private_key)[0] >> 3, _BASE)


def eddsa_sign(private_key: bytes, message: int) -> EddsaSignature:
    """Sign an element; signatures are deterministic."""
    message = element("the message", message, BN254_FR)
    scalar, prefix = _secret(private_key)
    group = edwards_group(BABY_JUBJUB)
    nonce = int.from_bytes(blake_512(prefix + message.to_bytes(32, "little")), "little") % _ORDER
    r8 = group.multiply_fixed(nonce, _BASE)
    key = group.multiply_fixed(scalar >> 3, _BASE)
    challenge = poseidon_hash([*r8, *key, message])
    return EddsaSignature(r8, (nonce + challenge * scalar) % _ORDER)


def eddsa_verify(public_key: EdwardsPair, message: int, signature: EddsaSignature) -> bool:
    """Verify a signature: return whether S * Base8 = R8 + 8 * Poseidon(R8, A, message) * A.

    False also for a key of small order, which circomlib's circuit rejects. InputError for a key
    that is not on the curve.
    """
    public_key = edwards_pair("the public key", BABY_JUBJUB, public_key)
    message = element("the message", message, BN254_FR)
    group = edwards_group(BABY_JUBJUB)
    eightfold = group.multiply(BABY_JUBJUB.cofactor, public_key)
    if eightfold[0] == 0:
        return False
    challenge = poseidon_hash([*signature.r8, *public_key, message])
    right = group.add(signature.r8, group.multiply(challenge, eightfold))
    return group.multiply_fixed(signature.s, _BASE) == right


def _secret(private_key: bytes) -> tuple[int, bytes]:
    """Return the secret scalar, a multiple of eight, and the prefix for nonces."""
    digest = blake_512(exact_bytes("a private key", private_key, 32))
    pruned = bytearray(digest[:32])
    pruned[0] &= 0xF8
    pruned[31] = pruned[31] & 0x7F | 0x40
    return int.from_bytes(pruned, "little"), digest[32:]
