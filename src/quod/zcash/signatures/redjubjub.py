"""RedJubjub: Zcash protocol specification, 5.4.7; ZIP 216 for the encoding of R.

A signature is 64 bytes: the point R, and the scalar S below the order r of the subgroup. It is
valid if 8 * (-S * P + R + c * vk) is neutral, with the generator P and the challenge c, a hash of
R, vk and the message. Because of the factor 8, verification in batches gives the same verdicts.
Signing does not run in constant time.
"""

from __future__ import annotations

import secrets
from functools import cache
from hashlib import blake2b

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import exact_bytes, flag
from quod.zcash.generators import spend_authorizing_generator, value_randomness_generator
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.scalars import encoded, multiple, secret_scalar
from quod.zcash.statement_fields import decode_point

SIGNATURE_BYTES = 64
_NONCE_BYTES = 80
_ORDER = JUBJUB.fr.value
_SIGN_BIT = 1 << 255


@frozen
class RedJubjub:
    """A scheme of signatures: RedJubjub with a generator and a hash; see the functions below.

    name: `spendAuthSig` or `bindingSig`, with the protocol.
    generator: the point P.
    personalisation: of the hash to scalars, 16 bytes.
    Raises InputError for a generator off the curve.
    """

    name: str
    generator: EdwardsPair
    personalisation: bytes

    def __post_init__(self) -> None:
        exact_bytes("the personalisation", self.personalisation, 16)
        self.__dict__.update(generator=edwards_pair("the generator", JUBJUB, self.generator))

    def __repr__(self) -> str:
        return self.name

    def verification_key(self, secret: int) -> EdwardsPair:
        """Return the point vk = secret * P of a canonical scalar that is not 0."""
        return multiple(secret_scalar("the signing key", secret, least=1), self.generator)

    def randomise_secret(self, secret: int, alpha: int) -> int:
        """Return the signing key secret + alpha modulo the order.

        Raises InputError for a scalar that is not canonical, and for a sum of 0.
        """
        secret = secret_scalar("the signing key", secret, least=1)
        total = (secret + secret_scalar("alpha", alpha)) % _ORDER
        if not total:
            raise InputError("the randomized signing key is 0; use another alpha")
        return total

    def randomise_key(self, key: EdwardsPair, alpha: int) -> EdwardsPair:
        """Return the verification key key + alpha * P of the randomized signing key."""
        randomisation = multiple(secret_scalar("alpha", alpha), self.generator)
        return edwards_group(JUBJUB).add(key, randomisation)

    def sign(self, secret: int, message: bytes) -> bytes:
        """Return a signature of 64 bytes, with a nonce from the system's randomness.

        secret: a canonical scalar that is not 0; other values raise InputError.
        """
        key = encoded(self.verification_key(secret))
        message = exact_bytes("the message", message)
        # The message is hashed into the nonce, so that weak randomness does not repeat a nonce.
        nonce = self._hash(secrets.token_bytes(_NONCE_BYTES) + key + message)
        r = encoded(multiple(nonce, self.generator))
        s = (nonce + self._hash(r + key + message) * secret) % _ORDER
        return r + s.to_bytes(32, "little")

    def verify(self, key: bytes, message: bytes, signature: bytes, *, zip216: bool = True) -> bool:
        """Return whether a signature is valid; the key may be of small order.

        key: the encoding of vk, 32 bytes.
        zip216: whether R must be encoded canonically, as since NU5. Before, R could also be a point
            with u = 0 and the sign of a negative u.
        Raises InputError, with the field's name, for an encoding that is no point, and for an S
        that is not below the order.
        """
        key = exact_bytes("the verification key", key, 32)
        data = exact_bytes("the signature", signature, SIGNATURE_BYTES)
        s, c = s_of_signature(data), self.challenge(data[:32], key, message)
        vk = decode_point("the verification key", key)
        r = decode_point("R of the signature", r_encoding(data, zip216=flag("zip216", zip216)))
        group = edwards_group(JUBJUB)
        expected = group.add(r, group.multiply(c, vk))
        difference = group.add(expected, group.negate(multiple(s, self.generator)))
        return group.has_small_order(difference)

    def challenge(self, r: bytes, key: bytes, message: bytes) -> int:
        """Return the scalar c that is hashed from R, vk and the message."""
        return self._hash(r + key + exact_bytes("the message", message))

    def _hash(self, data: bytes) -> int:
        digest = blake2b(data, person=self.personalisation).digest()
        return int.from_bytes(digest, "little") % _ORDER


@cache
def spend_auth_scheme(protocol: Protocol = SAPLING) -> RedJubjub:
    """Return the scheme of Spends' signatures, whose verification key is rk."""
    generator = spend_authorizing_generator(protocol)
    return RedJubjub(f"{protocol.name}'s spendAuthSig", generator, protocol.signature)


@cache
def binding_scheme(protocol: Protocol = SAPLING) -> RedJubjub:
    """Return the scheme of binding signatures, whose verification key is bvk."""
    generator = value_randomness_generator(protocol)
    return RedJubjub(f"{protocol.name}'s bindingSig", generator, protocol.signature)


def spend_auth_signature(
    ask: int, alpha: int, sighash: bytes, protocol: Protocol = SAPLING
) -> bytes:
    """Sign a Spend, and return spendAuthSig, 64 bytes; the proof of the Spend needs no ask.

    ask: the spend authorizing key.
    alpha: the scalar that randomised the Spend's rk.
    sighash: the hash of the transaction, 32 bytes.
    """
    scheme = spend_auth_scheme(protocol)
    sighash = exact_bytes("the sighash", sighash, 32)
    return scheme.sign(scheme.randomise_secret(ask, alpha), sighash)


def binding_signature(bsk: int, sighash: bytes, protocol: Protocol = SAPLING) -> bytes:
    """Sign the balance of a transaction, and return bindingSig, 64 bytes.

    bsk: the sum of the rcv of Spends and Converts minus those of Outputs, modulo the order.
    sighash: the hash of the transaction, 32 bytes.
    """
    return binding_scheme(protocol).sign(bsk, exact_bytes("the sighash", sighash, 32))


def r_encoding(signature: bytes, *, zip216: bool) -> bytes:
    """Return the bytes of R, before ZIP 216 without the sign of u = 0."""
    number = int.from_bytes(signature[:32], "little")
    ordinate = number & _SIGN_BIT - 1
    if not zip216 and ordinate in (1, JUBJUB.fq.value - 1):
        return ordinate.to_bytes(32, "little")
    return signature[:32]


def s_of_signature(signature: bytes) -> int:
    """Return S of 64 bytes; raise InputError unless it is below the order."""
    s = int.from_bytes(signature[32:], "little")
    if s >= _ORDER:
        raise InputError("S of the signature is not below the order of Jubjub's subgroup")
    return s
