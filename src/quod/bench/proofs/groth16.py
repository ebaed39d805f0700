"""Benchmarks of Groth16 proofs and verification with the key resident.

The peer is a library in a process with the key in memory; `bench process` compares whole processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import IN_PROCESS, Files, Libraries
from quod.cli.display.terminal import warn
from quod.kernel.machine import Capability

if TYPE_CHECKING:
    from quod.device.protocol import AnyDevice
    from quod.device.runtime.timeline import Timeline
    from quod.formats import Witness
    from quod.groth16 import ProvingKey

_KEY_SEED = 1

# The number of batches in a throughput run.
_BATCHES = 4


def cases(device: str, zkey: Path, witness: Path) -> Iterator[Case]:
    """Yield proofs and verification for a key and witness; `device` as in `quod groth16 prove`."""
    from quod.formats import Zkey, public_to_json, write_all_atomically
    from quod.formats.names import circuit_name
    from quod.groth16 import ProvingKey

    opened = Zkey.open(zkey)
    circuit: dict[str, Parameter] = {
        "circuit": circuit_name(zkey),
        "curve": opened.curve,
        "constraints": opened.constraints,
    }
    # Nobody relies on the proofs of a benchmark.
    key = ProvingKey.from_zkey(zkey, device=device, allow_insecure=True)
    if key.weakness is not None:
        warn(f"{zkey}: anyone can forge proofs for this key: {key.weakness.reason}")
    with tempfile.TemporaryDirectory(prefix="quod-bench-") as directory:
        files = Files(
            zkey, witness,
            *(Path(directory) / name for name in ("vkey.json", "public.json", "proof.json")),
        )  # fmt: skip
        first_proof, inputs = key.prove(witness)
        write_all_atomically(
            {
                files.vkey: key.verifying_key.to_json().encode(),
                files.public: public_to_json(inputs),
                files.proof: first_proof.to_json().encode(),
            }
        )
        with Libraries(files) as libraries:
            yield Case(
                {"what": "prove, key resident", **circuit},
                lambda: key.prove(witness),
                unit="ms",
                peers=libraries.provers,
                peer_note=IN_PROCESS,
                absent=libraries.absent,
                traced=lambda timeline: key.prove(witness, timeline=timeline),
            )
            yield Case(
                {"what": "verify, key resident", **circuit},
                lambda: key.verifying_key.verify(inputs, first_proof),
                unit="ms",
                peers=libraries.verifiers,
                peer_note=IN_PROCESS,
                absent=libraries.absent,
            )


def chain_cases(
    device: str,
    curve: str,
    sizes: Sequence[int],
    *,
    against: str | None = None,
    also: Sequence[str] = (),
) -> Iterator[Case]:
    """Yield proofs of chains of products, with keys made in memory.

    against: the peer "cuda" is Quod through CUDA instead of WebGPU.
    also: further devices. One proof is spread over all devices; then each device has the whole key
        and proves jobs of its own.
    """
    from quod.bench.chain import ChainCircuit
    from quod.device import open_device
    from quod.groth16 import ProvingKey
    from quod.groth16.setup import make_key

    opened = open_device(device)
    # Through WebGPU the set-up kernels would be compiled for a single use.
    prefers_short_kernels = opened.machine(opened.lanes).has(Capability.SHORT_KERNELS)
    setup_device = open_device("cpu") if prefers_short_kernels else opened
    for constraints in sizes:
        system = ChainCircuit(curve, constraints)
        witness = system.witness(device=setup_device)
        key = ProvingKey(make_key(system, _KEY_SEED, device=setup_device), opened)
        key.prove(witness)
        peer_key = None
        if against == "cuda":
            peer_key = ProvingKey(key.zkey, "cuda")
        circuit: dict[str, Parameter] = {
            "circuit": "chain", "curve": curve, "constraints": constraints,
        }  # fmt: skip
        yield Case(
            {"what": "prove, key resident", **circuit},
            partial(key.prove, witness),
            unit="ms",
            peers={} if peer_key is None else {"cuda": partial(peer_key.prove, witness)},
            traced=partial(_traced, key, witness),
        )
        max_batch, count = _batch_and_proofs(key)
        yield Case(
            {
                "what": "prove many, key resident",
                **circuit,
                **({"together": max_batch} if max_batch > 1 else {}),
            },
            partial(_prove_many, key, witness, count),
            unit="ms/proof",
            operations=count,
            peers={}
            if peer_key is None
            else {"cuda": partial(_prove_many, peer_key, witness, count)},
        )
        if also:
            yield from _spread(key, [opened, *map(open_device, also)], witness, circuit)
        key.close()
        if peer_key is not None:
            peer_key.close()


def _spread(
    key: ProvingKey, devices: list[AnyDevice], witness: Witness, circuit: dict[str, Parameter]
) -> Iterator[Case]:
    """Yield one proof on all devices, then as many jobs on each device with the whole key."""
    from quod.groth16 import ProvingKey
    from quod.groth16.gpu.multi_gpu import MultiGpuKey

    spread = ProvingKey(key.zkey, devices=devices)
    resident = spread.resident
    assert isinstance(resident, MultiGpuKey)
    spread.prove(witness)
    rates = [link.bytes_per_second() / 1e9 for link in resident.links]
    parameters: dict[str, Parameter] = {
        **circuit, "devices": len(devices), "link": resident.links[0].kind,
        "link GB/s": round(min(rates), 1),
    }  # fmt: skip
    yield Case(
        {"what": "one proof on several devices", **parameters},
        partial(spread.prove, witness),
        unit="ms",
        traced=partial(_traced, spread, witness),
    )
    spread.close()
    keys = [key, *(ProvingKey(key.zkey, device) for device in devices[1:])]
    _, count = _batch_and_proofs(key)

    def run() -> None:
        with ThreadPoolExecutor(len(keys)) as pool:
            for future in [
                pool.submit(_prove_many, device_key, witness, count) for device_key in keys
            ]:
                future.result()

    yield Case(
        {"what": "jobs of one key on several devices", **circuit, "devices": len(devices)},
        run,
        unit="ms/proof",
        operations=count * len(keys),
    )
    for device_key in keys[1:]:
        device_key.close()


def _traced(key: ProvingKey, witness: Witness, timeline: Timeline) -> None:
    key.prove(witness, timeline=timeline)


def _batch_and_proofs(key: ProvingKey) -> tuple[int, int]:
    """Return the batch size and the number of proofs to measure."""
    batches = key.resident.batches
    max_batch = 1 if batches is None else batches.most
    return max_batch, _BATCHES * max_batch


def _prove_many(key: ProvingKey, witness: Witness, count: int) -> None:
    for _ in key.prove_many([witness] * count):
        pass
