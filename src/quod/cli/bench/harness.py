"""Measuring: repeat, take the median, compare with a peer in the same run, keep the figures."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from quod import __version__
from quod.device.timeline import Timeline
from quod.device.webgpu_names import is_webgpu_name
from quod.errors import InputError

Parameter = str | int | float | bool


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    `run` does the work once and returns when it is done; `operations` is how many of what `unit`
    counts it does (a run of 2^20 products with the unit "ns/product" has 2^20). `peers` are the
    same work by other programs, by name. `unit` begins with s, ms, us or ns; where `reads` is
    true the figure, in `unit`, is what `run` gives instead of how long it takes. `traced` does the
    work once more and tells a timeline of its stages.
    """

    parameters: dict[str, Parameter]
    run: Callable[[], object]
    unit: str = "s"
    operations: int = 1
    peers: dict[str, Callable[[], object]] = field(default_factory=dict)
    reads: bool = False
    traced: Callable[[Timeline], object] | None = None


@dataclass(frozen=True)
class Measurement:
    """A row of a benchmark.

    `median` and `peer_median` are in `unit`; `ratio` is how many times faster than the peer;
    `spread` is the distance between the quartiles over the median.
    """

    subject: str
    parameters: dict[str, Parameter]
    device: str
    median: float
    unit: str
    spread: float
    repeats: int
    peer: str | None
    peer_median: float | None
    ratio: float | None
    commit: str
    command: str


@dataclass(frozen=True)
class Plan:
    """How to measure: at least `repeats` times and `seconds` seconds for each side of a case.

    Before that each side runs once, and ours for `warm_up` seconds.
    """

    repeats: int = 5
    seconds: float = 0.5
    most_repeats: int = 1000
    warm_up: float = 0.0

    def satisfied(self, times: Sequence[float]) -> bool:
        """Whether one side has been measured often and long enough."""
        enough = len(times) >= self.repeats and sum(times) >= self.seconds
        return enough or len(times) >= self.most_repeats


_WRITTEN = ("--record", "--plot", "--trace")

# The clock of a GPU that has rested, while kernels were compiled perhaps, takes a moment to rise.
_GPU_WARM_UP = 0.5


def warm_up_of(device: str) -> float:
    """How long to warm up before measuring on a device."""
    return 0.0 if device.startswith("cpu") else _GPU_WARM_UP


_SCALES = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def measure(
    subject: str,
    cases: Iterable[Case],
    *,
    device: str,
    against: str | None,
    plan: Plan,
    command: str,
    follow: Callable[[Case], None] = lambda case: None,
    after: Callable[[Case], None] = lambda case: None,
) -> list[Measurement]:
    """Measure each case, and the peer `against` beside it where the case has one.

    Our runs and the peer's alternate, so that a machine that slows down slows both. `follow` hears
    of each case before it runs, `after` once it is measured. Raises `InputError` if no case knows
    the peer.
    """
    rows: list[Measurement] = []
    known: set[str] = set()
    commit = current_commit()
    for case in cases:
        known.update(case.peers)
        peer = case.peers.get(against) if against is not None else None
        if against is not None and peer is None:
            continue
        follow(case)
        if case.reads:
            theirs: list[float] = []
            warm_up(case.run, plan.warm_up)
            ours = [_read(case) for _ in range(plan.repeats)]
            scale = 1.0
        else:
            ours, theirs = _alternate(case.run, peer, plan)
            scale = _SCALES[case.unit.split("/")[0]] / case.operations
        middle = median(ours)
        peer_middle = median(theirs) if theirs else None
        rows.append(
            Measurement(
                subject=subject,
                parameters=dict(case.parameters),
                device=device,
                median=middle * scale,
                unit=case.unit,
                spread=_spread(ours),
                repeats=len(ours),
                peer=against if theirs else None,
                peer_median=None if peer_middle is None else peer_middle * scale,
                ratio=None if peer_middle is None else peer_middle / middle,
                commit=commit,
                command=command,
            )
        )
        after(case)
    if against is not None and not rows:
        listed = ", ".join(sorted(known)) or "none for these parameters"
        raise InputError(f"{against!r} is not a peer of this benchmark; it has: {listed}")
    return rows


def _read(case: Case) -> float:
    figure = case.run()
    assert isinstance(figure, (int, float))
    return float(figure)


def _alternate(
    ours: Callable[[], object], peer: Callable[[], object] | None, plan: Plan
) -> tuple[list[float], list[float]]:
    sides = [ours] if peer is None else [ours, peer]
    times: list[list[float]] = [[] for _ in sides]
    for side in sides:
        side()  # compiles, fills caches
    warm_up(ours, plan.warm_up)
    waiting = list(range(len(sides)))
    while waiting:
        # A side that has enough leaves: a fast one must not make a slow one run a thousand times.
        for index in list(waiting):
            begin = perf_counter()
            sides[index]()
            times[index].append(perf_counter() - begin)
            if plan.satisfied(times[index]):
                waiting.remove(index)
    return times[0], times[1] if peer is not None else []


def warm_up(run: Callable[[], object], seconds: float) -> None:
    """Lets the device's clock rise, after all that is to be compiled."""
    begin = perf_counter()
    while perf_counter() - begin < seconds:
        run()


def _spread(times: Sequence[float]) -> float:
    ordered = sorted(times)
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / median(ordered)


def current_commit() -> str:
    """The commit of the checkout that this code runs from, marked "+" if it was changed since.

    QUOD_COMMIT says it for a copy that has not all of its history; without any it is the version.
    """
    if named := os.environ.get("QUOD_COMMIT"):
        return named
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        # Only a checkout that tracks this file is Quod's own.
        _git(here, "ls-files", "--error-unmatch", Path(__file__).name)
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return f"v{__version__}"
    return commit + ("+" if changed else "")


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def machine(device: str = "cpu") -> dict[str, str | int]:
    """What the figures of a device were measured on."""
    import llvmlite
    import numpy

    found: dict[str, str | int] = {
        "processor": _processor(),
        "threads": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "llvmlite": llvmlite.__version__,
    }
    if device.startswith("cuda"):
        from quod.device.cuda import CudaDevice
        from quod.device.cuda_driver import version_text
        from quod.device.discovery import open_device

        opened = open_device(device)
        assert isinstance(opened, CudaDevice)
        version = version_text(opened.properties.driver_version)
        found |= {"gpu": opened.properties.name, "driver": f"CUDA {version}"}
    elif is_webgpu_name(device):
        found |= _adapter(device)
    return found


def _adapter(device: str) -> dict[str, str | int]:
    """An adapter of WebGPU, and by the device's name what makes the figures what they are."""
    from quod.device.discovery import resolve_device
    from quod.device.webgpu import WebGpuDevice

    opened = resolve_device(device)
    assert isinstance(opened, WebGpuDevice)
    adapter = opened.properties
    words = [
        f"through {adapter.backend}",
        adapter.driver and f"driver {adapter.driver}",
        f"wgpu {opened.native.wgpu.__version__}",
        "portable" if opened.strength == "portable" else "all that the adapter has",
        f"limbs {opened.limbs}",
    ]
    return {"gpu": adapter.name, device: ", ".join(word for word in words if word)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def record(path: Path, rows: Sequence[Measurement]) -> None:
    """Put `rows` into a results file in place of older rows of the same name.

    The file is ``{"machine": {...}, "rows": [...]}``. Raises `InputError` if `path` holds something
    else, or the results of another processor.
    """
    from quod.formats import write_atomically

    here = machine(rows[0].device if rows else "cpu")
    old: list[dict[str, Any]] = []
    if path.exists():
        stored = load_results(path)
        for part in ("processor", "gpu"):
            if stored["machine"].get(part) != here.get(part):
                raise InputError(
                    f"holds the results of {stored['machine'].get(part) or 'no GPU'}; record "
                    "this machine's in a file of their own",
                    path=path,
                )
        old = stored["rows"]
        # Other interfaces to the same GPU have drivers of their own.
        here = {**stored["machine"], **here}
    new = [asdict(row) for row in rows]
    replaced = {_identity(row) for row in new}
    kept = [row for row in old if _identity(row) not in replaced]
    merged = sorted([*kept, *new], key=_identity)
    text = json.dumps({"machine": here, "rows": merged}, indent=1) + "\n"
    write_atomically(path, text.encode())


def load_results(path: Path) -> dict[str, Any]:
    """Read a results file; `InputError` if it is none."""
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"is not a results file ({error})", path=path) from error
    if (
        not isinstance(stored, dict)
        or not isinstance(stored.get("machine"), dict)
        or not isinstance(stored.get("rows"), list)
    ):
        raise InputError("is not a results file: machine and rows are missing", path=path)
    return stored


def _identity(row: dict[str, Any]) -> tuple[str, str, str, str]:
    parameters = json.dumps(row["parameters"], sort_keys=True)
    return row["subject"], parameters, row["device"], row["peer"] or ""


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command that is running, to be repeated by a reader.

    Without the options that name files to write, and without the folders of this machine: of an
    absolute path only the last part is kept.
    """
    words = ["quod"]
    given = iter(sys.argv[1:] if arguments is None else arguments)
    for word in given:
        if word in _WRITTEN:
            next(given, None)
        elif word.partition("=")[0] not in _WRITTEN:
            words.append(Path(word).name if os.path.isabs(word) else word)
    return shlex.join(words)
