"""Generators on Jubjub, each from a group hash: Zcash protocol specification, 5.4."""

from __future__ import annotations

from quod.curve.edwards.affine import EdwardsPair
from quod.hash.hash_to_jubjub import find_group_hash
from quod.zcash.protocol import SAPLING, Protocol


def value_generator() -> EdwardsPair:
    """Return the generator of the value in a value commitment of Sapling."""
    return find_group_hash(b"Zcash_cv", b"v")


def value_randomness_generator(protocol: Protocol = SAPLING) -> EdwardsPair:
    """Return the generator of the randomness rcv in a value commitment."""
    return find_group_hash(protocol.value_randomness, b"r")


def note_randomness_generator(protocol: Protocol = SAPLING) -> EdwardsPair:
    """Return the generator of the randomness rcm in a note commitment."""
    return find_group_hash(protocol.pedersen, b"r")


def spend_authorizing_generator(protocol: Protocol = SAPLING) -> EdwardsPair:
    """Return the generator of the key ak = ask * generator."""
    return find_group_hash(protocol.spend_authorization, b"")


def proof_generator(protocol: Protocol = SAPLING) -> EdwardsPair:
    """Return the generator of the key nk = nsk * generator."""
    return find_group_hash(protocol.proof_generation, b"")


def nullifier_generator(protocol: Protocol = SAPLING) -> EdwardsPair:
    """Return the generator of a note's position, which is hashed into its nullifier."""
    return find_group_hash(protocol.nullifier_position, b"")
