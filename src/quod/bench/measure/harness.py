"""The measurement harness: repetition, medians, and peers measured in the same run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter

from quod import __version__
from quod.bench.measure.code import code_of, sources_digest
from quod.device.backends import backend_of
from quod.device.runtime.launch_trace import LaunchedKernels
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError

Parameter = str | int | float | bool


class Seconds(float):
    """A duration that `run` or a peer measured or estimated itself; it replaces the harness's.

    A peer in another process measures without the pipe's latency.
    """


@dataclass(frozen=True)
class Case:
    """A case to measure.

    parameters: the parameters of the case, which identify its row.
    run: does the work once, and returns when it is done.
    unit: the unit of the figure. It begins with s, ms, us or ns, unless `returns_figure` is true.
    operations: the number of operations in a run (2**20 products for "ns/product").
    peers: functions that do the same work with other programs, by name.
    peer_note: how the peers run, such as "in process"; part of the peer's name in the row.
    absent: the reason for each peer that is missing on this machine.
    returns_figure: `run` returns the figure in `unit`, instead of being timed.
    traced: does the work once, and records its stages in a timeline.
    """

    parameters: dict[str, Parameter]
    run: Callable[[], object]
    unit: str = "s"
    operations: int = 1
    peers: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    peer_note: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    returns_figure: bool = False
    traced: Callable[[Timeline], object] | None = None


@dataclass(frozen=True)
class Measurement:
    """A row of a benchmark.

    median, peer_median: the median figures, in `unit`.
    ratio: the peer's median divided by Quod's.
    spread: the interquartile range divided by the median.
    repeats: the number of measured runs.
    code: the hash of the launched kernels.
    sources: the hash of the package's sources; see `quod.bench.measure.code`.
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
    code: str = ""
    sources: str = field(default_factory=sources_digest)


@dataclass(frozen=True)
class Plan:
    """The repetition of a measurement.

    repeats, seconds: the minimum number of runs of Quod and of the peer, and their minimum time.
    max_repeats: the maximum number of runs.
    warm_up: seconds for which Quod's work is repeated before it is measured, after a first run of
        both sides.
    long: a first run of at least so many seconds is counted and replaces the warm-up, because
        compilation is a small part of it. Does not apply to cases with `returns_figure`.
    """

    repeats: int = 5
    seconds: float = 0.5
    max_repeats: int = 1000
    warm_up: float = 0.0
    long: float = 20.0

    def satisfied(self, times: Sequence[float]) -> bool:
        """Report whether one side has enough runs, of the given durations in seconds."""
        enough = len(times) >= self.repeats and sum(times) >= self.seconds
        return enough or len(times) >= self.max_repeats


Identity = tuple[str, str, str, str]
"""The key of a row in a results file."""


def identity(
    subject: str, parameters: Mapping[str, Parameter], device: str, peer: str | None
) -> Identity:
    """Build the comparable and sortable identity of a row."""
    return subject, json.dumps(parameters, sort_keys=True), device, peer or ""


# Options with a value, and flags, that `command_line` omits.
_OMITTED_OPTIONS = ("--record", "--plot", "--trace", "--gate", "--gate-tolerance")
_OMITTED_FLAGS = ("--only-stale",)

# In seconds: an idle GPU takes a moment to raise its clock.
_GPU_WARM_UP = 0.5


def warm_up_of(device: str) -> float:
    """Return the default warm-up time of a device in seconds."""
    backend = backend_of(device)
    return 0.0 if backend is not None and backend.of_the_processor else _GPU_WARM_UP


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
    unchanged: Callable[[Case], None] = lambda case: None,
    earlier_rows: Mapping[Identity, Measurement] | None = None,
    measured: Callable[[Measurement], None] = lambda row: None,
) -> list[Measurement]:
    """Measure each case and its peer `against`; return a row for each measured case.

    With `against`, cases without that peer are left out. Runs of Quod and the peer alternate, so
    that a slowing machine affects both.
    follow, after: called before and after each case.
    measured: called with each new row.
    earlier_rows: the rows of an earlier measurement; a row whose launched kernels are unchanged is
        kept, and `unchanged` is called.
    Raises InputError if no case has the peer, or if the peer is absent on this machine.
    """
    rows: list[Measurement] = []
    names: set[str] = set()
    commit = current_commit()
    for case in cases:
        names.update(case.peers)
        if against is not None and against in case.absent:
            raise InputError(f"{against} cannot be measured: {case.absent[against]}")
        peer = case.peers.get(against) if against is not None else None
        if against is not None and peer is None:
            continue
        follow(case)
        with LaunchedKernels() as launched:  # compiles, fills caches
            first_value, times = _first_run(case.run, plan)
            _, peer_times = (None, []) if peer is None else _first_run(peer, plan)
        code, label = code_of(launched), ", ".join(filter(None, (against, case.peer_note)))
        earlier = (earlier_rows or {}).get(
            identity(subject, case.parameters, device, peer and label)
        )
        if earlier is not None and code and code == earlier.code:
            rows.append(replace(earlier, sources=sources_digest()))
            unchanged(case)
            continue
        if case.returns_figure or not times:
            warm_up(case.run, plan.warm_up)
        peer_figures: list[float] = []
        if case.returns_figure:
            figures, scale = _returned_figures(case, first_value, plan), 1.0
        else:
            figures, peer_figures = _alternate(case.run, peer, plan, times, peer_times)
            scale = _SCALES[case.unit.split("/")[0]] / case.operations
        median_figure = median(figures)
        peer_median = median(peer_figures) if peer_figures else None
        rows.append(
            Measurement(
                subject=subject,
                parameters=dict(case.parameters),
                device=device,
                median=median_figure * scale,
                unit=case.unit,
                spread=_spread(figures),
                repeats=len(figures),
                peer=label if peer_figures else None,
                peer_median=None if peer_median is None else peer_median * scale,
                ratio=None if peer_median is None else peer_median / median_figure,
                commit=commit,
                command=command,
                code=code,
            )
        )
        measured(rows[-1])
        after(case)
    if against is not None and not rows:
        names_text = ", ".join(sorted(names)) or "none for these parameters"
        raise InputError(f"{against!r} is not a peer of this benchmark; it has: {names_text}")
    return rows


def _returned_figures(case: Case, first_value: object, plan: Plan) -> list[float]:
    """Collect the figures that `run` returns; `first_value` counts if there is no warm-up."""
    figures = [] if plan.warm_up else [first_value]
    figures += [case.run() for _ in range(plan.repeats - len(figures))]
    numbers = [float(figure) for figure in figures if isinstance(figure, (int, float))]
    assert len(numbers) == plan.repeats
    return numbers


def _first_run(run: Callable[[], object], plan: Plan) -> tuple[object, list[float]]:
    """Run once; return the value, and a list with the duration if it counts (`Plan.long`)."""
    value, seconds = _time(run)
    return value, [seconds] if seconds >= plan.long else []


def _time(run: Callable[[], object]) -> tuple[object, float]:
    """Run once; return the value, and the duration in seconds, which a value `Seconds` replaces."""
    begin = perf_counter()
    value = run()
    seconds = perf_counter() - begin
    return value, value if isinstance(value, Seconds) else seconds


def _alternate(
    run: Callable[[], object], peer: Callable[[], object] | None, plan: Plan,
    *first_times: list[float],
) -> tuple[list[float], list[float]]:  # fmt: skip
    """Alternate runs of Quod and the peer; return their durations, including `first_times`."""
    sides = [run] if peer is None else [run, peer]
    times = [[*durations] for durations in first_times]
    unfinished = [index for index in range(len(sides)) if not plan.satisfied(times[index])]
    while unfinished:
        # A side with enough runs stops, so that a fast side does not prolong a slow one.
        for index in list(unfinished):
            times[index].append(_time(sides[index])[1])
            if plan.satisfied(times[index]):
                unfinished.remove(index)
    return times[0], times[1] if peer is not None else []


def warm_up(run: Callable[[], object], seconds: float) -> None:
    """Repeat a run for some seconds, so that the device raises its clock."""
    begin = perf_counter()
    while perf_counter() - begin < seconds:
        run()


def _spread(figures: Sequence[float]) -> float:
    """Return the interquartile range divided by the median."""
    ordered = sorted(figures)
    quarter = len(ordered) // 4
    median_figure = median(ordered)
    # The median of returned figures may be zero.
    return (ordered[-1 - quarter] - ordered[quarter]) / median_figure if median_figure else 0.0


def current_commit() -> str:
    """Return the commit of the checkout with this code, with "+" if it has changes.

    The environment variable QUOD_COMMIT replaces the commit. Without it, a copy that is not a
    checkout has the version of Quod.
    """
    if override := os.environ.get("QUOD_COMMIT"):
        return override
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        # A checkout that does not track this file is another project's.
        _git(here, "ls-files", "--error-unmatch", Path(__file__).name)
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return f"v{__version__}"
    return commit + ("+" if changed else "")


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def command_line(arguments: Sequence[str] | None = None) -> str:
    """Return the running command, so that readers of a results file can repeat it.

    Options that name files to write or to compare with are omitted, and absolute paths are reduced
    to their last component.
    """
    words = ["quod"]
    remaining = iter(sys.argv[1:] if arguments is None else arguments)
    for word in remaining:
        if word in _OMITTED_OPTIONS:
            next(remaining, None)
        elif word not in _OMITTED_FLAGS and word.partition("=")[0] not in _OMITTED_OPTIONS:
            words.append(Path(word).name if os.path.isabs(word) else word)
    return shlex.join(words)
