"""Notes, their commitments and nullifiers: Zcash protocol specification, 4.7.2, 5.4.8; ZIP 212."""

from __future__ import annotations

from hashlib import blake2s

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.hash.arguments import bytes_to_bits
from quod.hash.sapling_pedersen import (
    MERKLE_DEPTH,
    NOTE_COMMITMENT,
    sapling_pedersen_point,
)
from quod.validation import instance, whole_number
from quod.zcash.address import PaymentAddress
from quod.zcash.assets import asset_generator
from quod.zcash.generators import (
    note_randomness_generator,
    nullifier_generator,
    value_generator,
    value_randomness_generator,
)
from quod.zcash.protocol import MASP, SAPLING, Protocol
from quod.zcash.scalars import encoded, expanded_scalar, multiple, secret_scalar

_RCM, _ESK = b"\4", b"\5"


@frozen
class Note:
    """A note.

    address: the address of the recipient.
    value: from 0 to 2**64 - 1.
    rcm: the randomness of the commitment, a canonical scalar.
    asset: the identifier of the asset, 32 bytes, if the address is one of MASP.
    """

    address: PaymentAddress
    value: int
    rcm: int
    asset: bytes | None = None

    def __post_init__(self) -> None:
        instance("the address", self.address, PaymentAddress, "make a PaymentAddress")
        value, rcm = note_value(self.value), secret_scalar("rcm", self.rcm)
        if self.protocol.has_assets:
            if self.asset is None:
                raise InputError("a note of MASP needs the identifier of its asset")
            asset_generator(self.asset)
        elif self.asset is not None:
            raise InputError("a note of Sapling has no asset")
        self.__dict__.update(value=value, rcm=rcm)

    def __repr__(self) -> str:
        return "Note(...)"

    @classmethod
    def from_seed(
        cls, address: PaymentAddress, value: int, rseed: bytes, asset: bytes | None = None
    ) -> Note:
        """Return the note whose rcm is derived from rseed, 32 bytes."""
        return cls(address, value, expanded_scalar(rseed, _RCM, address.protocol), asset)

    @property
    def protocol(self) -> Protocol:
        """The protocol of the address."""
        return self.address.protocol

    @property
    def commitment(self) -> EdwardsPair:
        """The note commitment cm, a point."""
        value_bytes = note_value(self.value).to_bytes(8, "little")
        contents = value_bytes + encoded(self.address.base) + encoded(self.address.transmission_key)
        if self.asset is not None:
            contents = encoded(asset_generator(self.asset)) + contents
        protocol = self.protocol
        contents_hash = sapling_pedersen_point(
            NOTE_COMMITMENT, bytes_to_bits(contents), protocol.pedersen
        )
        blinding = multiple(self.rcm, note_randomness_generator(protocol))
        return edwards_group(JUBJUB).add(contents_hash, blinding)

    @property
    def cmu(self) -> int:
        """The u-coordinate of the commitment, which the tree and the statement contain."""
        return self.commitment[0]

    def ephemeral_key(self, esk: int) -> EdwardsPair:
        """Return epk = esk * g_d, for a canonical scalar that is not 0."""
        esk = secret_scalar("esk", esk, least=1)
        return edwards_group(JUBJUB).multiply(esk, self.address.base)

    def value_commitment(self, rcv: int) -> EdwardsPair:
        """Return the point cv, in MASP for the note's asset."""
        if self.asset is None:
            return value_commitment(self.value, rcv)
        return asset_value_commitment(asset_generator(self.asset), self.value, rcv)

    def commitment_at(self, position: int) -> EdwardsPair:
        """Return rho = cm + position * J, the commitment bound to a position of the tree."""
        position = whole_number("the position", position, 0, (1 << MERKLE_DEPTH) - 1)
        position_term = multiple(position, nullifier_generator(self.protocol))
        return edwards_group(JUBJUB).add(self.commitment, position_term)

    def nullifier(self, nk: EdwardsPair, position: int) -> bytes:
        """Return the nullifier, 32 bytes, of the note at a position of the tree.

        Raises InputError for an nk outside the subgroup of prime order.
        """
        nk = edwards_pair("nk", JUBJUB, nk)
        if not edwards_group(JUBJUB).in_subgroup(nk):
            raise InputError("nk is not in the subgroup of prime order")
        rho = self.commitment_at(position)
        return blake2s(encoded(nk) + encoded(rho), person=self.protocol.nullifier).digest()


def ephemeral_secret(rseed: bytes, protocol: Protocol = SAPLING) -> int:
    """Return the scalar esk that is derived from rseed, 32 bytes."""
    return expanded_scalar(rseed, _ESK, protocol)


def value_commitment(value: int, rcv: int) -> EdwardsPair:
    """Return the point cv = value * V + rcv * R of Sapling."""
    value_term = multiple(note_value(value), value_generator())
    blinding = multiple(secret_scalar("rcv", rcv), value_randomness_generator())
    return edwards_group(JUBJUB).add(value_term, blinding)


def asset_value_commitment(generator: EdwardsPair, value: int, rcv: int) -> EdwardsPair:
    """Return the point cv = value * 8 * generator + rcv * R of MASP."""
    group = edwards_group(JUBJUB)
    value_term = group.multiply(JUBJUB.cofactor * note_value(value), generator)
    blinding = multiple(secret_scalar("rcv", rcv), value_randomness_generator(MASP))
    return group.add(value_term, blinding)


def note_value(value: object, name: str = "the value of a note") -> int:
    """Return the value; raise InputError, without the value, unless it is from 0 to 2**64 - 1."""
    try:
        return whole_number(name, value, 0, (1 << 64) - 1)
    except InputError:
        raise InputError(f"{name} must be a whole number from 0 to 2**64 - 1") from None
