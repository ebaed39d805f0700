"""Payment addresses and DiversifyHash: Zcash protocol specification, 4.2.2, 5.6.3.1."""

from __future__ import annotations

from functools import lru_cache

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.hash.hash_to_jubjub import group_hash
from quod.validation import exact_bytes
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.scalars import encoded

DIVERSIFIER_BYTES = 11


def diversify_hash(diversifier: bytes, protocol: Protocol = SAPLING) -> EdwardsPair | None:
    """Return the point g_d of a diversifier of 11 bytes; None for the half without one."""
    diversifier = exact_bytes("a diversifier", diversifier, DIVERSIFIER_BYTES)
    return _group_hash(protocol.diversifier, diversifier)


@lru_cache(maxsize=256)
def _group_hash(personalisation: bytes, diversifier: bytes) -> EdwardsPair | None:
    return group_hash(personalisation, diversifier)


@frozen
class PaymentAddress:
    """A payment address.

    diversifier: 11 bytes.
    transmission_key: the point pk_d.
    protocol: SAPLING or MASP, which hash diversifiers to different points.
    Raises InputError for a diversifier that does not hash to a point, and for a pk_d that is the
    neutral element or outside the subgroup of prime order.
    """

    diversifier: bytes
    transmission_key: EdwardsPair
    protocol: Protocol = SAPLING

    def __post_init__(self) -> None:
        if diversify_hash(self.diversifier, self.protocol) is None:
            raise InputError("the diversifier does not hash to a point; use another one")
        point = edwards_pair("pk_d", JUBJUB, self.transmission_key)
        if point == (0, 1):
            raise InputError("pk_d is the neutral element")
        if not edwards_group(JUBJUB).in_subgroup(point):
            raise InputError("pk_d is not in the subgroup of prime order")
        self.__dict__.update(transmission_key=point)

    @property
    def base(self) -> EdwardsPair:
        """The point g_d of the diversifier."""
        point = diversify_hash(self.diversifier, self.protocol)
        assert point is not None
        return point

    def to_bytes(self) -> bytes:
        """Return the 43 bytes of a raw address."""
        return self.diversifier + encoded(self.transmission_key)

    @classmethod
    def from_bytes(cls, data: bytes, protocol: Protocol = SAPLING) -> PaymentAddress:
        """Decode 43 bytes; raises InputError for a malformed encoding and as the constructor."""
        data = exact_bytes("a payment address", data, DIVERSIFIER_BYTES + 32)
        point = decode_edwards(JUBJUB, data[DIVERSIFIER_BYTES:])
        return cls(data[:DIVERSIFIER_BYTES], point, protocol)
