"""Benchmarks of circuits written in Python: computing witnesses, and proving from inputs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quod.bench.measure.harness import Case, Parameter
from quod.bench.proofs.process import OPTIMISED, QUOD, run_python
from quod.bench.proofs.zcash import CIRCUITS, info_of
from quod.kernel.machine import Capability

if TYPE_CHECKING:
    from quod.groth16 import ProvingKey
    from quod.r1cs import Circuit
    from quod.r1cs.inputs import Inputs

_KEY_SEED = 1
_HOST_BATCH, _DEVICE_BATCH = 256, 1024
"""The number of witnesses in a batch on the CPU, and on a device with memory of its own."""

# Of zcash-test-vectors.
_ADDRESS = "aef180f6e34e354b888f81a6b13ea336ddb7a67bb09a0e68e9d3cfb39210831ea3a296ba09a922060fd38b"
_SEED = bytes(range(32))


def circuit_cases(device: str, name: str) -> Iterator[Case]:
    """Yield cases that measure witnesses of a circuit, and proofs with a test key.

    Witnesses are computed one at a time, and in batches. The key stays loaded on the device.
    """
    from quod.device import open_device
    from quod.device.protocol import in_host_memory
    from quod.groth16 import ProvingKey
    from quod.groth16.setup import make_key

    circuit, inputs = _circuit_and_inputs(name)
    parameters: dict[str, Parameter] = {
        "circuit": name, "curve": circuit.curve, "constraints": circuit.constraints,
    }  # fmt: skip
    circuit.prepare()
    yield Case(
        {"what": "witness, unchecked", **parameters},
        partial(circuit.witness, inputs, check=False),
        unit="ms",
    )
    yield Case(
        {"what": f"witnesses of {_HOST_BATCH}, unchecked", **parameters},
        partial(circuit.witnesses, [inputs] * _HOST_BATCH, check=False),
        unit="ms/witness",
        operations=_HOST_BATCH,
    )
    opened_device = open_device(device)
    if not in_host_memory(opened_device):
        yield Case(
            {
                "what": f"witnesses of {_DEVICE_BATCH}, in the device's memory, unchecked",
                **parameters,
            },
            partial(circuit.witnesses, [inputs] * _DEVICE_BATCH, check=False, device=opened_device),
            unit="ms/witness",
            operations=_DEVICE_BATCH,
        )
    # Drivers that prefer short kernels, such as WebGPU's, compile large ones slowly. The set-up
    # kernels are used only once, so the CPU runs them instead.
    prefers_short_kernels = opened_device.machine(opened_device.lanes).has(Capability.SHORT_KERNELS)
    test_key = make_key(
        circuit, _KEY_SEED, device=open_device("cpu") if prefers_short_kernels else opened_device
    )
    key = ProvingKey(test_key, opened_device)
    witness = circuit.witness(inputs)
    yield Case(
        {"what": "prove, key resident", **parameters},
        partial(key.prove, witness),
        unit="ms",
        traced=lambda timeline: key.prove(witness, timeline=timeline),
    )
    yield Case(
        {"what": "inputs to proof, key resident", **parameters},
        partial(_from_inputs, circuit, key, inputs),
        unit="ms",
    )
    key.close()


def process_cases(device: str, parameters: Path) -> Iterator[Case]:
    """Yield a case that times `quod zcash prove-output` as a process.

    The command reads a note and writes its Output description with a proof.
    parameters: the file of the ceremony's parameters.
    """
    from quod.zcash.output import output_circuit

    circuit = output_circuit()
    with tempfile.TemporaryDirectory(prefix="quod-bench-") as directory:
        note, output = (Path(directory) / name for name in ("note.json", "output.json"))
        # rcv is 1, as little-endian bytes.
        scalars = {"rseed": _SEED.hex(), "rcv": f"{1 << 248:064x}"}
        note.write_text(json.dumps({"address": _ADDRESS, "value": 5000, **scalars}))
        prove = [*QUOD, "zcash", "prove-output", str(parameters), str(note), str(output)]
        yield Case(
            {
                "what": "note to Output, whole process", "circuit": CIRCUITS[0],
                "curve": circuit.curve, "constraints": circuit.constraints,
            },
            partial(run_python, *prove, "--device", device, "-q", variables=OPTIMISED),
            unit="s",
        )  # fmt: skip


def _from_inputs(circuit: Circuit, key: ProvingKey, inputs: Inputs) -> None:
    key.prove(circuit.witness(inputs))


def _circuit_and_inputs(name: str) -> tuple[Circuit, Inputs]:
    """Return a circuit and the inputs for a note that no chain has, or for a conversion."""
    info = info_of(name)
    return info.kind.circuit(), info.inputs
