"""The verifier of layered circuits: plain integers, the circuit's layers one after the other.

Goldwasser, Kalai and Rothblum, "Delegating computation: interactive proofs for muggles", 2008. The
verifier loops over the circuit, never over the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from quod.field.plain_element import PlainElement
from quod.gkr.key import VerifyingKey
from quod.gkr.protocol import protocol_steps
from quod.gkr.reduction import Reduction
from quod.gkr.statement import Statement
from quod.gkr.verifier.data_parallel import DataParallelVerifier
from quod.gkr.verifier.gates import LayerGates
from quod.gkr.verifier.step_reader import StepReader
from quod.gkr.verifier.two_phase import TwoPhaseVerifier
from quod.layered.circuit import LayeredCircuit
from quod.security import MIN_BITS
from quod.transcript.messages import ProofReader


def verify(
    key: VerifyingKey, circuit: LayeredCircuit, public: Sequence[object], proof: bytes, *,
    instances: int = 1, allow_bits: int = MIN_BITS,
) -> None:  # fmt: skip
    """Verify a proof that the prover knows inputs of all instances for which the outputs are 0.

    public: the public inputs: a list of int; for several instances a list of lists.
    Raises VerificationError if the proof does not show this, InputError for malformed arguments and
    if soundness is below the bits of the key or `allow_bits`, and MismatchError for another
    circuit.
    """
    statement = Statement(key, circuit, public, instances, allow_bits=allow_bits)
    transcript = key.transcript()
    reader = ProofReader(proof, transcript)
    statement.begin(transcript)
    commitment = key.commitment.read(
        reader, key.field, circuit.log_inputs + statement.log_instances, allow_bits=0
    )
    steps = protocol_steps(circuit, key.reduction, statement.log_instances)
    messages = StepReader(steps, key.field, reader, delay_messages=key.chain)
    first_delay, last_delay = steps.delays
    randoms: list[PlainElement] = []
    if circuit.randoms:
        messages.delay(first_delay)
        randoms = messages.challenges(steps.randoms)
    messages.delay(last_delay)
    gates = LayerGates(statement, randoms)
    match key.reduction:
        case Reduction.TWO_PHASE:
            claims = TwoPhaseVerifier(gates, steps, messages).claims()
        case Reduction.DATA_PARALLEL:
            claims = DataParallelVerifier(gates, steps, messages).claims()
        case _:
            assert_never(key.reduction)
    messages.end()
    commitment.check(claims, reader)
    reader.end()
