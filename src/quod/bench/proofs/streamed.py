"""Benchmarks of a partition with a streamed key: each mode of copying, and a figure.

All modes copy and compute the same: see `quod.groth16.device_key.streamed.Mode`.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from quod.bench.measure.harness import Case, Parameter
from quod.bench.proofs.porep import KEY_SEED, gpu_figures
from quod.cli.display.terminal import note
from quod.device.runtime.intervals import union
from quod.device.runtime.timeline import Stage, Timeline

if TYPE_CHECKING:
    from quod.formats import Witness
    from quod.groth16.device_key.key import DeviceKey

_TRACKS = ("copies", "sums")


def cases(
    device: str,
    log2_domain: int,
    bit_percent: int,
    share: float,
    picture: Path | None,
    *,
    quiet: bool,
) -> Iterator[Case]:
    """Yield a proof with a share of the key resident, in each mode, then with all of it."""
    from quod.bench.porep.matrix import DevicePartition
    from quod.bench.porep.witness import device_witness
    from quod.device import open_device
    from quod.groth16.device_key.key import DeviceKey
    from quod.groth16.device_key.memory import CHUNK
    from quod.groth16.device_key.streamed import Mode

    # Streams that share a hardware connection wait for one another's events.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    circuit = DevicePartition.like_porep(log2_domain, bit_percent=bit_percent)
    opened_device = open_device(device)
    witness = device_witness(opened_device, circuit, pinned=True)
    stages_by_mode: dict[str, list[Stage]] = {}
    parameters: dict[str, Parameter] = {
        "what": "partition, key streamed", "curve": circuit.curve,
        "constraints": circuit.constraints, "bits": f"{bit_percent}%",
    }  # fmt: skip
    for name in (*get_args(Mode), "resident"):
        resident = name == "resident"
        key = DeviceKey.make(
            circuit, opened_device, KEY_SEED, pinned=True, share=None if resident else share,
            mode="deferred" if resident else name, chunk=min(CHUNK, 1 << log2_domain - 3),
        )  # fmt: skip
        key.prove(witness)
        timeline = Timeline()
        key.prove(witness, timeline=timeline)
        stages_by_mode[name] = [stage for stage in timeline.rows() if stage.track in _TRACKS]
        figures = gpu_figures(timeline) | copy_figures(stages_by_mode[name])
        figures_text = ", ".join(f"{what} {value:.1f}" for what, value in figures.items())
        note(f"{name}: {figures_text}", quiet=quiet)
        mode_parameters: dict[str, Parameter] = {"mode": name}
        if not resident:
            mode_parameters["share"] = f"{share:.0%}"
        key_holder = [key]
        yield Case(parameters | mode_parameters, partial(_prove, key_holder, witness))
        key.close()
        # The case must not keep the key alive, which takes much of the device.
        key_holder.clear()
        del key
        gc.collect()
    if picture is not None:
        draw(picture, {name: stages for name, stages in stages_by_mode.items() if stages})


def _prove(key_holder: list[DeviceKey], witness: Witness) -> None:
    key_holder[0].prove(witness)


def copy_figures(stages: Sequence[Stage]) -> dict[str, float]:
    """Return the amount and rate of copied bases, and the device's idle time, by name.

    Units are in the names: GB, ms and GB/s.
    """
    copies = [stage for stage in stages if stage.track == "copies" and stage.bytes]
    computing = _times(stages, "sums")
    if not computing or not copies:
        return {}
    seconds = sum(stage.seconds for stage in copies)
    copied_bytes = sum(stage.bytes for stage in copies) / 2
    begin = min(stage.begin_ns for stage in stages)
    wall_ms = (max(end for _, end in computing) - begin) / 1e6
    busy_ms = sum(end - start for start, end in computing) / 1e6
    return {
        "copies_gb": copied_bytes / 1e9,
        "copies_ms": 1e3 * seconds,
        "copies_pinned_gb_per_s": copied_bytes / seconds / 1e9,
        "wall_ms": wall_ms,
        "idle_ms": wall_ms - busy_ms,
    }


def _times(stages: Sequence[Stage], track: str) -> list[tuple[int, int]]:
    """Return the intervals, in nanoseconds, in which a stage of the track ran."""
    return union(
        (stage.begin_ns, stage.end_ns or stage.begin_ns) for stage in stages if stage.track == track
    )


def draw(path: Path, modes: dict[str, list[Stage]]) -> None:
    """Draw copies and sums as a pair of lanes for each mode, on one time axis."""
    # pyplot would look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1 + 0.9 * len(modes)))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    ticks: list[tuple[float, str]] = []
    for row, (name, stages) in enumerate(modes.items()):
        begin = min(stage.begin_ns for stage in stages)
        for lane, (track, colour) in enumerate(zip(_TRACKS, ("tab:orange", "tab:blue"))):
            intervals = _times(stages, track)
            bars = [((start - begin) / 1e6, (end - start) / 1e6) for start, end in intervals]
            height = -2.4 * row - lane
            axes.broken_barh(bars, (height - 0.4, 0.8), facecolors=colour)
            ticks.append((height, f"{name}: {track}"))
    axes.set_yticks([height for height, _ in ticks], [text for _, text in ticks])
    axes.set_xlabel("ms from the first copy or kernel")
    figure.tight_layout()
    figure.savefig(path)
