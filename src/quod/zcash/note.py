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
    note_commitment_randomness_generator,
    sapling_pedersen_point,
)
from quod.validation import whole_number
from quod.zcash.address import PaymentAddress
from quod.zcash.generators import (
    nullifier_generator,
    value_generator,
    value_randomness_generator,
)
from quod.zcash.scalars import encoded, expanded_scalar, multiple, secret_scalar

_RCM, _ESK = b"\4", b"\5"


@frozen
class Note:
    """A note.

    address: the address of the recipient.
    value: from 0 to 2**64 - 1.
    rcm: the randomness of the commitment, a canonical scalar.
    """

    address: PaymentAddress
    value: int
    rcm: int

    def __post_init__(self) -> None:
        value, rcm = note_value(self.value), secret_scalar("rcm", self.rcm)
        self.__dict__.update(value=value, rcm=rcm)

    def __repr__(self) -> str:
        return "Note(...)"

    @classmethod
    def from_seed(cls, address: PaymentAddress, value: int, rseed: bytes) -> Note:
        """Return the note whose rcm is derived from rseed, 32 bytes."""
        return cls(address, value, expanded_scalar(rseed, _RCM))

    @property
    def commitment(self) -> EdwardsPair:
        """The note commitment cm, a point."""
        value_bytes = note_value(self.value).to_bytes(8, "little")
        contents = value_bytes + encoded(self.address.base) + encoded(self.address.transmission_key)
        contents_hash = sapling_pedersen_point(NOTE_COMMITMENT, bytes_to_bits(contents))
        blinding = multiple(self.rcm, note_commitment_randomness_generator())
        return edwards_group(JUBJUB).add(contents_hash, blinding)

    @property
    def cmu(self) -> int:
        """The u-coordinate of the commitment, which the tree and the statement contain."""
        return self.commitment[0]

    def ephemeral_key(self, esk: int) -> EdwardsPair:
        """Return epk = esk * g_d, for a canonical scalar that is not 0."""
        esk = secret_scalar("esk", esk, least=1)
        return edwards_group(JUBJUB).multiply(esk, self.address.base)

    def nullifier(self, nk: EdwardsPair, position: int) -> bytes:
        """Return the nullifier, 32 bytes, of the note at a position of the tree.

        Raises InputError for an nk outside the subgroup of prime order.
        """
        position = whole_number("the position", position, 0, (1 << MERKLE_DEPTH) - 1)
        group, nk = edwards_group(JUBJUB), edwards_pair("nk", JUBJUB, nk)
        if not group.in_subgroup(nk):
            raise InputError("nk is not in the subgroup of prime order")
        rho = group.add(self.commitment, multiple(position, nullifier_generator()))
        return blake2s(encoded(nk) + encoded(rho), person=b"Zcash_nf").digest()


def ephemeral_secret(rseed: bytes) -> int:
    """Return the scalar esk that is derived from rseed, 32 bytes."""
    return expanded_scalar(rseed, _ESK)


def value_commitment(value: int, rcv: int) -> EdwardsPair:
    """Return the point cv = value * V + rcv * R."""
    value_term = multiple(note_value(value), value_generator())
    blinding = multiple(secret_scalar("rcv", rcv), value_randomness_generator())
    return edwards_group(JUBJUB).add(value_term, blinding)


def note_value(value: object) -> int:
    """Return the value; raise InputError unless it is an int from 0 to 2**64 - 1."""
    return whole_number("the value of a note", value, 0, (1 << 64) - 1)
