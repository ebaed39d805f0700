"""Spending keys and full viewing keys: Zcash protocol specification, 4.2.2.

The repr of a key shows no secret. The operations are not constant-time.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2s

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import exact_bytes
from quod.zcash.address import DIVERSIFIER_BYTES, PaymentAddress, diversify_hash
from quod.zcash.generators import proof_generator, spend_authorizing_generator
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.scalars import encoded, expanded, expanded_scalar, multiple, secret_scalar
from quod.zcash.signatures.redjubjub import spend_auth_scheme

_ASK, _NSK, _OVK, _DIVERSIFIER = b"\0", b"\1", b"\2", b"\3"
_IVK_BITS = 251


@frozen
class FullViewingKey:
    """A full viewing key: the points ak and nk, and ovk of 32 bytes.

    protocol: SAPLING or MASP, which differ in generators and hashes.
    Raises InputError for points off the curve or outside the subgroup of prime order, and for a
    neutral ak.
    """

    ak: EdwardsPair
    nk: EdwardsPair
    ovk: bytes
    protocol: Protocol = SAPLING

    def __post_init__(self) -> None:
        exact_bytes("ovk", self.ovk, 32)
        self.__dict__.update(ak=_authorizing_key(self.ak), nk=_subgroup_point("nk", self.nk))

    def __repr__(self) -> str:
        return "FullViewingKey(...)"

    @property
    def incoming(self) -> int:
        """The incoming viewing key ivk; InputError if it is 0, which has negligible probability."""
        return _incoming_key(self.ak, self.nk, self.protocol)

    def address(self, diversifier: bytes) -> PaymentAddress:
        """Return the address of a diversifier of 11 bytes.

        Raises InputError if it does not hash to a point; half of them do.
        """
        return incoming_address(self.incoming, diversifier, self.protocol)


@frozen
class ExpandedSpendingKey:
    """An expanded spending key: ask, nsk and ovk of the specification.

    `from_spending_key` derives it from a spending key sk of 32 bytes.

    ask: a scalar, not 0.
    nsk: a scalar.
    ovk: the outgoing viewing key, 32 bytes.
    protocol: SAPLING or MASP.
    """

    ask: int
    nsk: int
    ovk: bytes
    protocol: Protocol = SAPLING

    def __post_init__(self) -> None:
        ask, nsk = secret_scalar("ask", self.ask, least=1), secret_scalar("nsk", self.nsk)
        self.__dict__.update(ask=ask, nsk=nsk)
        exact_bytes("ovk", self.ovk, 32)

    def __repr__(self) -> str:
        return "ExpandedSpendingKey(...)"

    @classmethod
    def from_spending_key(
        cls, spending_key: bytes, protocol: Protocol = SAPLING
    ) -> ExpandedSpendingKey:
        """Expand a spending key sk of 32 bytes."""
        ask, nsk = (expanded_scalar(spending_key, domain, protocol) for domain in (_ASK, _NSK))
        return cls(ask, nsk, expanded(spending_key, _OVK, protocol)[:32], protocol)

    @property
    def full_viewing_key(self) -> FullViewingKey:
        """The full viewing key, which can see payments but not spend them."""
        key = self.proof_generation_key
        return FullViewingKey(key.ak, key.nk, self.ovk, self.protocol)

    @property
    def proof_generation_key(self) -> ProofGenerationKey:
        """The key that proves Spends but signs none."""
        ak = multiple(self.ask, spend_authorizing_generator(self.protocol))
        return ProofGenerationKey(ak, self.nsk, self.protocol)


@frozen
class ProofGenerationKey:
    """A key that proves Spends: the point ak and the scalar nsk. Signatures need ask instead.

    protocol: SAPLING or MASP.
    Raises InputError for an nsk that is not canonical, and for an ak off the curve, outside the
    subgroup of prime order or neutral.
    """

    ak: EdwardsPair
    nsk: int
    protocol: Protocol = SAPLING

    def __post_init__(self) -> None:
        self.__dict__.update(ak=_authorizing_key(self.ak), nsk=secret_scalar("nsk", self.nsk))

    def __repr__(self) -> str:
        return "ProofGenerationKey(...)"

    @cached_property
    def nk(self) -> EdwardsPair:
        """The key of nullifiers, nk = nsk * H."""
        return multiple(self.nsk, proof_generator(self.protocol))

    @cached_property
    def incoming(self) -> int:
        """The incoming viewing key ivk; InputError if it is 0, which has negligible probability."""
        return _incoming_key(self.ak, self.nk, self.protocol)

    def randomized(self, alpha: int) -> EdwardsPair:
        """Return rk = ak + alpha * G, which verifies the signature of a Spend.

        Raises InputError for an alpha that is not canonical.
        """
        return spend_auth_scheme(self.protocol).randomise_key(self.ak, alpha)

    def owns(self, address: PaymentAddress) -> bool:
        """Return whether the address is one of this key's."""
        if address.protocol != self.protocol:
            return False
        pk_d = edwards_group(JUBJUB).multiply(self.incoming, address.base)
        return pk_d == address.transmission_key


def _subgroup_point(name: str, coordinates: object) -> EdwardsPair:
    point = edwards_pair(name, JUBJUB, coordinates)
    if not edwards_group(JUBJUB).in_subgroup(point):
        raise InputError(f"{name} is not in the subgroup of prime order")
    return point


def _authorizing_key(coordinates: object) -> EdwardsPair:
    ak = _subgroup_point("ak", coordinates)
    if ak == (0, 1):
        raise InputError("ak is the neutral element")
    return ak


def _incoming_key(ak: EdwardsPair, nk: EdwardsPair, protocol: Protocol) -> int:
    digest = blake2s(encoded(ak) + encoded(nk), person=protocol.incoming_key).digest()
    ivk = int.from_bytes(digest, "little") & (1 << _IVK_BITS) - 1
    if not ivk:
        raise InputError("the ivk of this key is 0; use another spending key")
    return ivk


def incoming_address(ivk: int, diversifier: bytes, protocol: Protocol = SAPLING) -> PaymentAddress:
    """Return the address of an incoming viewing key and a diversifier.

    Raises InputError unless 1 <= ivk < 2**251, and for a diversifier that does not hash to a
    point.
    """
    if not 0 < secret_scalar("ivk", ivk, least=1) < 1 << _IVK_BITS:
        raise InputError("ivk must be below 2**251")
    base = diversify_hash(diversifier, protocol)
    if base is None:
        raise InputError("the diversifier does not hash to a point; use another one")
    return PaymentAddress(diversifier, edwards_group(JUBJUB).multiply(ivk, base), protocol)


def default_diversifier(spending_key: bytes, protocol: Protocol = SAPLING) -> bytes:
    """Return the default diversifier of a key that is not derived by ZIP 32.

    spending_key: sk, 32 bytes.
    protocol: the protocol of the addresses.
    It is the first diversifier derived from sk that hashes to a point.
    """
    for counter in range(256):
        seed = expanded(spending_key, _DIVERSIFIER + bytes([counter]), protocol)
        diversifier = seed[:DIVERSIFIER_BYTES]
        if diversify_hash(diversifier, protocol) is not None:
            return diversifier
    raise InputError("this spending key has no default diversifier; use another one")
