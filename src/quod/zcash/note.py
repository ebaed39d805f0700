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
    """A value from 0 to 2**64 - 1 at an address, and the scalar rcm that hides it."""

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
        """The note whose rcm follows from rseed, 32 bytes."""
        return cls(address, value, expanded_scalar(rseed, _RCM))

    @property
    def commitment(self) -> EdwardsPair:
        """The point cm."""
        number = note_value(self.value).to_bytes(8, "little")
        parts = number + encoded(self.address.base) + encoded(self.address.transmission_key)
        hashed = sapling_pedersen_point(NOTE_COMMITMENT, bytes_to_bits(parts))
        hidden = multiple(self.rcm, note_commitment_randomness_generator())
        return edwards_group(JUBJUB).add(hashed, hidden)

    @property
    def cmu(self) -> int:
        """u of the commitment, which goes into the tree and the statement."""
        return self.commitment[0]

    def ephemeral_key(self, esk: int) -> EdwardsPair:
        """epk = esk * g_d, for a scalar that is not 0."""
        esk = secret_scalar("esk", esk, least=1)
        return edwards_group(JUBJUB).multiply(esk, self.address.base)

    def nullifier(self, nk: EdwardsPair, position: int) -> bytes:
        """The 32 bytes that show that the note at a position of the tree is spent.

        InputError for an nk outside the subgroup of prime order.
        """
        position = whole_number("the position", position, 0, (1 << MERKLE_DEPTH) - 1)
        group, nk = edwards_group(JUBJUB), edwards_pair("nk", JUBJUB, nk)
        if not group.in_subgroup(nk):
            raise InputError("nk is not in the subgroup of prime order")
        rho = group.add(self.commitment, multiple(position, nullifier_generator()))
        return blake2s(encoded(nk) + encoded(rho), person=b"Zcash_nf").digest()


def ephemeral_secret(rseed: bytes) -> int:
    """The scalar esk that follows from rseed, 32 bytes."""
    return expanded_scalar(rseed, _ESK)


def value_commitment(value: int, rcv: int) -> EdwardsPair:
    """The point cv = value * V + rcv * R."""
    shown = multiple(note_value(value), value_generator())
    hidden = multiple(secret_scalar("rcv", rcv), value_randomness_generator())
    return edwards_group(JUBJUB).add(shown, hidden)


def note_value(value: object) -> int:
    """A value that a note may have."""
    return whole_number("the value of a note", value, 0, (1 << 64) - 1)
