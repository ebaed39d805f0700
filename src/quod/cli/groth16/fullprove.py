"""quod groth16 fullprove: from inputs to a proof in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.groth16.commands import prove_to
from quod.cli.one_shot import quick_kernels
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Device, Quiet, Seed, SelfCheck, Timings, Trace
from quod.cli.wtns import MemoryLimit, SecondsLimit, limits_of

if TYPE_CHECKING:
    from quod.device.runtime.timeline import Timeline
    from quod.formats import Witness
    from quod.groth16 import ProvingKey


def fullprove(
    inputs: Annotated[
        Path, Argument("INPUT", "Inputs of the circuit (JSON).", check_readable=False)
    ],
    wasm: Annotated[Path, Argument("WASM", "Witness calculator of circom.", check_readable=False)],
    zkey: Annotated[Path, Argument("ZKEY", "Proving key.")],
    proof: Annotated[Path, Argument("PROOF", "File for the proof (JSON).")],
    public: Annotated[Path, Argument("PUBLIC", "File for the public inputs (JSON).")],
    device: Device = "cpu",
    seed: Seed = None,
    self_check: SelfCheck = True,
    seconds: SecondsLimit = 3600.0,
    memory: MemoryLimit = 4096,
    timings: Timings = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Compute the witness of a circuit from its inputs and prove it.

    Runs `quod wtns calculate` and `quod groth16 prove`, and writes no witness.
    """
    check_outputs([proof, public, *([] if trace is None else [trace])], [inputs, wasm, zkey])

    def open_key(timeline: Timeline) -> ProvingKey:
        from quod.groth16 import ProvingKey

        return ProvingKey.from_zkey(zkey, device=device, timeline=timeline)

    def witness(key: ProvingKey, timeline: Timeline) -> Witness:
        from quod.formats.strict_json import CIRCUIT_INPUT, read_json
        from quod.witness.calculator import WitnessCalculator, read_wasm
        from quod.witness.input_names import symbols_beside

        with timeline.stage("calculate witness"):
            circuit_inputs = read_json(inputs, CIRCUIT_INPUT)
            calculator = WitnessCalculator(
                read_wasm(wasm), name=os.fspath(wasm), curve=key.curve, variables=key.variables,
                limits=limits_of(seconds, memory), symbols=symbols_beside(wasm),
            )  # fmt: skip
            return calculator.witness(circuit_inputs, where=os.fspath(inputs))

    with quick_kernels(zkey):
        prove_to(
            proof, public, open_key, witness, lambda zk_proof: zk_proof.to_json().encode(),
            device=device, seed=seed, self_check=self_check, timings=timings, trace=trace,
            quiet=quiet,
        )  # fmt: skip
