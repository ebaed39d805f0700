"""Outputs: the circuit that proves that the commitments of a note are well formed, and its inputs.

The circuit, `quod.zcash.circuit.output`, is that of the Sapling ceremony of 2018, whose parameters
are the file `sapling-output.params`.
"""

from __future__ import annotations

from functools import cache

from quod.errors import InputError
from quod.r1cs import Circuit
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.inputs import Inputs
from quod.zcash.note import Note
from quod.zcash.scalars import secret_scalar


@cache
def output_circuit() -> Circuit:
    """Return the circuit, traced or from the cache (`quod.r1cs.cached_circuits`)."""
    return builtin_circuit("quod.zcash.circuit.output", "sapling_output", "bls12_381")


def output_inputs(note: Note, esk: int, rcv: int) -> Inputs:
    """Return the circuit's inputs for a note and two scalars.

    Raises InputError for a scalar that is not canonical, for esk = 0, and for a note of MASP.
    """
    if note.protocol.has_assets:
        raise InputError("the note is one of MASP; use masp_output_inputs")
    return shared_inputs(note, esk, rcv)


def shared_inputs(note: Note, esk: int, rcv: int) -> Inputs:
    """Return the inputs that the circuits of Sapling and MASP share; see `output_inputs`."""
    u, v = note.address.transmission_key
    return {
        "value": note.value, "rcv": secret_scalar("rcv", rcv), "g_d": note.address.base,
        "esk": secret_scalar("esk", esk, least=1), "pk_d_v": v, "pk_d_u": u & 1, "rcm": note.rcm,
    }  # fmt: skip
