"""Spends: the circuit that proves the right to spend a note of the tree, its inputs, its statement.

The circuit, `quod.zcash.circuit.spend`, is that of the Sapling ceremony of 2018, whose parameters
are the file `sapling-spend.params`. Proofs need a `ProofGenerationKey`, not the key that signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.curve.named.jubjub import JUBJUB
from quod.errors import MismatchError
from quod.hash.arguments import element
from quod.r1cs import Circuit
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.inputs import Inputs
from quod.zcash.assets import asset_generator
from quod.zcash.keys import ProofGenerationKey
from quod.zcash.note import Note
from quod.zcash.scalars import secret_scalar
from quod.zcash.spend_statement import SpendStatement
from quod.zcash.tree.path import MerklePath


@cache
def spend_circuit() -> Circuit:
    """Return Sapling's circuit, traced or from the cache (`quod.r1cs.cached_circuits`)."""
    return builtin_circuit("quod.zcash.circuit.spend", "sapling_spend", "bls12_381")


def spend_inputs(
    key: ProofGenerationKey, note: Note, path: MerklePath, alpha: int, rcv: int, anchor: int
) -> Inputs:
    """Return the circuit's inputs, for a note of MASP those of `masp_spend_circuit`.

    path: the note's path in the tree.
    alpha: the scalar that randomises the key of the Spend's signature; a new one for each Spend.
    rcv: the randomness of the value commitment.
    anchor: the root of the tree. The circuit refuses other anchors, unless the value is 0.
    Raises MismatchError if the note's address is not one of the key, and InputError for a scalar or
    an anchor that is not canonical.
    """
    _check_owner(key, note)
    inputs: dict[str, int | Sequence[int]] = {
        "ak": key.ak, "alpha": secret_scalar("alpha", alpha), "nsk": key.nsk,
        "g_d": note.address.base, "value": note.value, "rcv": secret_scalar("rcv", rcv),
        "rcm": note.rcm, **path.inputs, "rt": element("the anchor", anchor, JUBJUB.fq),
    }  # fmt: skip
    if note.asset is not None:
        inputs["asset_generator"] = asset_generator(note.asset)
    return inputs


def spend_statement(
    key: ProofGenerationKey, note: Note, path: MerklePath, alpha: int, rcv: int, anchor: int
) -> SpendStatement:
    """Return the statement that the circuit proves for these inputs; see `spend_inputs`.

    Also raises InputError if cv or rk has small order. The path is not hashed to a root.
    """
    _check_owner(key, note)
    nullifier = note.nullifier(key.nk, path.position)
    return SpendStatement(note.value_commitment(rcv), anchor, nullifier, key.randomized(alpha))


def _check_owner(key: ProofGenerationKey, note: Note) -> None:
    if not key.owns(note.address):
        raise MismatchError("the note's address is not one of the proof generation key")
