"""Outputs: proofs that the commitments of a note are well formed, and their verification.

The circuit, `quod.zcash.circuit.output`, is that of the Sapling ceremony of 2018, whose parameters
are the file `sapling-output.params`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from os import PathLike

from quod.device.discovery import DeviceChoice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError
from quod.frozen import frozen
from quod.groth16 import ProvingKey, Verdict, VerifyingKey, verify_batch
from quod.groth16.proof import Proof
from quod.r1cs import Circuit
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.inputs import Inputs
from quod.zcash.note import Note
from quod.zcash.output_statement import OutputStatement
from quod.zcash.scalars import random_scalar, secret_scalar


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


@frozen(eq=False)
class Output:
    """A statement and its proof."""

    statement: OutputStatement
    proof: Proof


class OutputProver:
    """A prover of Outputs, which keeps bellman's parameters open."""

    def __init__(
        self,
        parameters: str | PathLike[str],
        device: DeviceChoice = "cpu",
        timeline: Timeline | None = None,
        *,
        checked: bool = True,
    ) -> None:
        """Open parameters; arguments and errors are those of `ProvingKey.from_bellman`.

        checked: whether all points of the parameters are checked.
        """
        with or_null(timeline).stage("circuit"):
            self.circuit = output_circuit()
        self.key = ProvingKey.from_bellman(
            parameters, self.circuit, device, timeline, checked=checked
        )

    def prove(
        self,
        note: Note,
        *,
        esk: int | None = None,
        rcv: int | None = None,
        seed: int | None = None,
        timeline: Timeline | None = None,
    ) -> Output:
        """Prove the Output of a note; the proof is verified before it is returned.

        esk, rcv: canonical scalars; default: random. Other values raise InputError.
        seed: see `ProvingKey.prove`; default: random blinding.
        """
        esk = random_scalar() if esk is None else esk
        rcv = random_scalar() if rcv is None else rcv
        timeline = or_null(timeline)
        with timeline.stage("witness"):
            witness = self.circuit.witness(output_inputs(note, esk, rcv))
        proof, public = self.key.prove(witness, seed=seed, timeline=timeline)
        u, v, epk_u, epk_v, cmu = public
        return Output(OutputStatement((u, v), (epk_u, epk_v), cmu), proof)

    def close(self) -> None:
        """Stop the threads that wait for the next proof."""
        self.key.close()


def verify_output(key: VerifyingKey, output: Output) -> bool:
    """Return whether the proof is valid; the statement's constructor checked the other rules."""
    return key.verify(output.statement.public, output.proof)


def verify_outputs(key: VerifyingKey, outputs: Sequence[Output]) -> list[Verdict]:
    """Verify many Outputs as one batch; see `quod.groth16.verify_batch`."""
    return verify_batch([(key, output.statement.public, output.proof) for output in outputs])
