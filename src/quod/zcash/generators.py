"""Sapling's generators on Jubjub, each from a group hash: Zcash protocol specification, 5.4."""

from __future__ import annotations

from quod.curve.edwards.affine import EdwardsPair
from quod.hash.hash_to_jubjub import find_group_hash


def value_generator() -> EdwardsPair:
    """Return the generator of the value in a value commitment."""
    return find_group_hash(b"Zcash_cv", b"v")


def value_randomness_generator() -> EdwardsPair:
    """Return the generator of the randomness rcv in a value commitment."""
    return find_group_hash(b"Zcash_cv", b"r")


def spend_authorizing_generator() -> EdwardsPair:
    """Return the generator of the key ak = ask * generator."""
    return find_group_hash(b"Zcash_G_", b"")


def proof_generator() -> EdwardsPair:
    """Return the generator of the key nk = nsk * generator."""
    return find_group_hash(b"Zcash_H_", b"")


def nullifier_generator() -> EdwardsPair:
    """Return the generator of a note's position, which is hashed into its nullifier."""
    return find_group_hash(b"Zcash_J_", b"")
