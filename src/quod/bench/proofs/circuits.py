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
from quod.kernel.machine import Capability

if TYPE_CHECKING:
    from quod.groth16 import ProvingKey
    from quod.r1cs import Circuit
    from quod.r1cs.inputs import Inputs
    from quod.zcash.keys import ProofGenerationKey
    from quod.zcash.note import Note
    from quod.zcash.tree import MerklePath

CIRCUITS = ("sapling-output", "masp-output", "sapling-spend", "masp-spend", "masp-convert")
_KEY_SEED = 1
_HOST_BATCH, _DEVICE_BATCH = 256, 1024
"""The number of witnesses in a batch on the CPU, and on a device with memory of its own."""

# An address of zcash-test-vectors, and a diversifier with a point in both protocols.
_ADDRESS = "aef180f6e34e354b888f81a6b13ea336ddb7a67bb09a0e68e9d3cfb39210831ea3a296ba09a922060fd38b"
_DIVERSIFIER = bytes.fromhex("f19d9b797e39f337445839")

_SEED = bytes(range(32))
_RCV = 1 << 200


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
    """Yield a case that times `quod sapling prove-output` as a process.

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
        prove = [*QUOD, "sapling", "prove-output", str(parameters), str(note), str(output)]
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
    from quod.zcash.named_circuits import CIRCUITS as BUILTIN

    if name == "masp-convert":
        inputs = _conversion_inputs()
    else:
        inputs = (_spend_inputs if name.endswith("-spend") else _output_inputs)(
            is_masp=name.startswith("masp-")
        )
    return BUILTIN[name](), inputs


def _output_inputs(*, is_masp: bool) -> Inputs:
    from quod.zcash.masp import masp_output_inputs
    from quod.zcash.note import ephemeral_secret
    from quod.zcash.output import output_inputs

    note = _key_and_note(is_masp=is_masp)[1]
    esk = ephemeral_secret(_SEED, note.protocol)
    return (masp_output_inputs if is_masp else output_inputs)(note, esk, _RCV)


def _spend_inputs(*, is_masp: bool) -> Inputs:
    from quod.zcash.spend import spend_inputs

    key, note = _key_and_note(is_masp=is_masp)
    path = _path()
    return spend_inputs(key, note, path, 7, _RCV, path.root(note.cmu, note.protocol))


def _conversion_inputs() -> Inputs:
    from quod.zcash.assets import asset_identifier
    from quod.zcash.conversion import AllowedConversion, convert_inputs
    from quod.zcash.protocol import MASP

    conversion = AllowedConversion({asset_identifier(b"a"): -1, asset_identifier(b"b"): 1})
    path = _path()
    return convert_inputs(conversion, 5000, path, _RCV, path.root(conversion.leaf, MASP))


def _key_and_note(*, is_masp: bool) -> tuple[ProofGenerationKey, Note]:
    from quod.zcash.assets import asset_identifier
    from quod.zcash.keys import ExpandedSpendingKey
    from quod.zcash.note import Note
    from quod.zcash.protocol import MASP, SAPLING

    key = ExpandedSpendingKey.from_spending_key(_SEED, MASP if is_masp else SAPLING)
    address = key.viewing_key.address(_DIVERSIFIER)
    asset = asset_identifier(b"default") if is_masp else None
    return key.proof_generation_key, Note.from_seed(address, 5000, _SEED, asset)


def _path() -> MerklePath:
    """Return a path with a position of many bits."""
    from quod.zcash.tree import MerklePath

    return MerklePath(range(1000, 1032), 0x5A5A5A5A)
