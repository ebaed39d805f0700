"""Sapling's generators on Jubjub, each found by a hash: Zcash protocol specification, 5.4."""

from __future__ import annotations

from quod.curve.edwards.affine import EdwardsPair
from quod.hash.hash_to_jubjub import find_group_hash


def value_generator() -> EdwardsPair:
    """What the value of a note multiplies in a value commitment."""
    return find_group_hash(b"Zcash_cv", b"v")


def value_randomness_generator() -> EdwardsPair:
    """What rcv multiplies in a value commitment."""
    return find_group_hash(b"Zcash_cv", b"r")


def spend_authorizing_generator() -> EdwardsPair:
    """What ask multiplies to ak."""
    return find_group_hash(b"Zcash_G_", b"")


def proof_generator() -> EdwardsPair:
    """What nsk multiplies to nk."""
    return find_group_hash(b"Zcash_H_", b"")


def nullifier_generator() -> EdwardsPair:
    """What the position of a note multiplies for its nullifier."""
    return find_group_hash(b"Zcash_J_", b"")
