"""Benchmarks of PoRep-shaped partitions: one proof, and several of one job in sequence.

The key is made in the memory of the device, or by the host for a device that computes in host
memory. Proofs are verified before they are returned, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from quod.bench.measure.harness import Case, Parameter
from quod.cli.display.terminal import note, show, show_json, show_table

if TYPE_CHECKING:
    from quod.bench.measure.cupti import KernelRecorder
    from quod.bench.porep.matrix import DevicePartition
    from quod.device.runtime.timeline import Timeline
    from quod.formats import Witness
    from quod.groth16 import ProvingKey
    from quod.groth16.device_key.key import DeviceKey
    from quod.groth16.device_key.memory import KeyMemory

KEY_SEED = 1
"""The seed of the measured keys."""

# The streams of a proof that compute.
_TRACKS = ("proof", "sums")

# The GPU that `plan` assumes: an H200, and the bytes of its memory that a key may use.
_LANES, _RESIDENT, _MULTIPROCESSORS = 128, 132 * 2048, 132
_BUDGET = int(0.92 * (139 << 30))


def cases(
    device: str, log2_domain: int, bit_percent: int, proofs: int, *, pageable: bool, quiet: bool,
    recorder: KernelRecorder | None = None,
) -> Iterator[Case]:  # fmt: skip
    """Yield one proof, and `proofs` proofs in sequence.

    recorder: also measures the share of time in which copies run and no kernel does.
    """
    from quod.bench.porep.matrix import DevicePartition
    from quod.bench.porep.witness import device_witness
    from quod.device import open_device
    from quod.device.runtime.timeline import Timeline
    from quod.groth16 import ProvingKey
    from quod.groth16.device_key.key import DeviceKey
    from quod.groth16.setup import make_key

    circuit = DevicePartition.like_porep(log2_domain, bit_percent=bit_percent)
    opened_device, timeline = open_device(device), Timeline()
    key: ProvingKey | DeviceKey
    if opened_device.host_memory:
        with timeline.stage("key"):
            key = ProvingKey(make_key(circuit, KEY_SEED, device=opened_device), opened_device)
        witnesses = [circuit.witness(seed=seed) for seed in (1, 2)]
    else:
        key = DeviceKey.make(circuit, opened_device, KEY_SEED, timeline, pinned=not pageable)
        note(_memory_text(key.memory), quiet=quiet)
        with timeline.stage("witnesses"):
            witnesses = [
                device_witness(opened_device, circuit, seed, pinned=not pageable) for seed in (1, 2)
            ]
    stages_text = "; ".join(
        f"{row.name} {row.seconds:.2f} s" for row in timeline.table() if row.seconds >= 0.01
    )
    note(f"the key: {stages_text}", quiet=quiet)
    parameters: dict[str, Parameter] = {
        "curve": circuit.curve, "constraints": circuit.constraints, "bits": f"{bit_percent}%",
        "witness": "pageable" if pageable else "page-locked",
    }  # fmt: skip
    try:
        yield Case(
            {"what": "one partition", **parameters},
            partial(key.prove, witnesses[0]),
            traced=lambda timeline: _traced(key, witnesses[0], timeline, quiet=quiet),
        )
        job = partial(_prove_in_sequence, key, [witnesses[i % 2] for i in range(proofs)])
        yield Case(
            {"what": "partitions of one job", "proofs": proofs, **parameters},
            job, unit="s/proof", operations=proofs,
        )  # fmt: skip
        if recorder is not None:
            yield Case(
                {"what": "copies that are not hidden", "proofs": proofs, **parameters},
                partial(_exposed_percent, job, recorder), unit="%", returns_figure=True,
            )  # fmt: skip
    finally:
        key.close()


def _prove_in_sequence(key: ProvingKey | DeviceKey, witnesses: list[Witness]) -> None:
    for _ in key.prove_many(witnesses):
        pass


def _exposed_percent(job: Callable[[], None], recorder: KernelRecorder) -> float:
    """Return the percentage of a job's time in which copies run but no kernel does.

    The first upload counts.
    """
    recorder.begin()
    begin = perf_counter()
    job()
    seconds = perf_counter() - begin
    return 100 * recorder.end().not_hidden / seconds


def _traced(
    key: ProvingKey | DeviceKey, witness: Witness, timeline: Timeline, *, quiet: bool
) -> None:
    """Prove with a timeline, and print the figures of the GPU's stages."""
    key.prove(witness, timeline=timeline)
    figures = gpu_figures(timeline)
    note(", ".join(f"{name} {value:.1f}" for name, value in figures.items()), quiet=quiet)


def gpu_figures(timeline: Timeline) -> dict[str, float]:
    """Return the milliseconds of a partition's steps under cuzk's names.

    The steps must have been timed one by one.
    """
    milliseconds = dict.fromkeys(("ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms"), 0.0)
    for stage in timeline.rows():
        name = stage.name
        if stage.track not in _TRACKS:
            continue
        if name.startswith("split"):
            figure = "batch_add_ms"
        elif name.startswith("MSM") and not name.startswith("MSM H"):
            figure = "batch_add_ms" if ": ones:" in name else "tail_msm_ms"
        else:
            figure = "ntt_msm_h_ms"
        milliseconds[figure] += 1e3 * stage.seconds
    return milliseconds | {"gpu_total_ms": sum(milliseconds.values())}


def plan(log2_domain: int, bit_percent: int, *, as_json: bool) -> None:
    """Print the memory parts of a partition on one H200, which need not exist."""
    from quod.bench.porep.matrix import DevicePartition
    from quod.device.emulated.device import EmulatedDevice
    from quod.groth16.device_key.memory import KeyMemory

    device = EmulatedDevice(
        workgroup=_LANES, resident_lanes=_RESIDENT, multiprocessors=_MULTIPROCESSORS,
        memory_budget=_BUDGET,
    )  # fmt: skip
    circuit = DevicePartition.like_porep(log2_domain, bit_percent=bit_percent)
    memory = KeyMemory(device, circuit)
    parts = memory.items
    if as_json:
        document = {"parts": parts, "bytes": memory.nbytes, "budget": _BUDGET}
        show_json(document | {"circuit": _circuit_facts(circuit)})
        return
    show_table(
        ("part", "GiB"),
        [(name, f"{size / 2**30:.2f}") for name, size in parts.items()],
        right=("GiB",),
    )
    verdict = "fits" if memory.nbytes <= _BUDGET else "does not fit"
    show(
        f"in all: {memory.nbytes / 2**30:.1f} GiB, which {verdict} the {_BUDGET / 2**30:.1f} GiB "
        "that plans assume on an H200"
    )
    show(", ".join(f"{name} {value}" for name, value in _circuit_facts(circuit).items()))


def _circuit_facts(circuit: DevicePartition) -> dict[str, int | float]:
    return {
        "constraints": circuit.constraints,
        "wires": circuit.wires,
        "entries of A": circuit.constraints * circuit.terms,
        "density of A": round(circuit.constraints / circuit.wires, 4),
        "density of B": round(len(circuit.wires_of_b) / circuit.wires, 4),
        "share of bits": round(1 - circuit.full_wires / circuit.width, 4),
    }


def _memory_text(memory: KeyMemory) -> str:
    parts_text = "; ".join(f"{name} {size / 2**30:.2f}" for name, size in memory.items.items())
    return f"device memory {memory.nbytes / 2**30:.1f} GiB: {parts_text}"
