"""MASP's Output, Spend and Convert: those of Sapling for many assets, and conversions of assets.

The circuits are those of `masp_proofs`. A note of MASP is a `Note` whose address has the protocol
MASP. Parameters must be generated, or be those of Namada's ceremony.
"""

from __future__ import annotations

from functools import cache

from quod.errors import InputError
from quod.r1cs import Circuit
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.inputs import Inputs
from quod.zcash.assets import asset_generator as asset_generator
from quod.zcash.assets import asset_identifier as asset_identifier
from quod.zcash.note import Note
from quod.zcash.output import shared_inputs


@cache
def masp_output_circuit() -> Circuit:
    """Return the circuit, traced or from the cache (`quod.r1cs.cached_circuits`)."""
    return builtin_circuit("quod.zcash.circuit.masp_output", "masp_output", "bls12_381")


@cache
def masp_spend_circuit() -> Circuit:
    """Return the circuit of a Spend, whose inputs are those of `quod.zcash.spend.spend_inputs`."""
    return builtin_circuit("quod.zcash.circuit.spend", "masp_spend", "bls12_381")


@cache
def masp_convert_circuit() -> Circuit:
    """Return the circuit of a Convert; see `quod.zcash.conversion.convert_inputs`."""
    return builtin_circuit("quod.zcash.circuit.masp_convert", "masp_convert", "bls12_381")


def masp_output_inputs(note: Note, esk: int, rcv: int) -> Inputs:
    """Return the circuit's inputs for a note of an asset.

    Raises InputError for a scalar that is not canonical, for esk = 0, and for a note of Sapling.
    """
    if note.asset is None:
        raise InputError("the note must be one of MASP, with an asset")
    return {
        **shared_inputs(note, esk, rcv),
        "asset_identifier": int.from_bytes(note.asset, "little"),
        "asset_generator": asset_generator(note.asset),
    }
