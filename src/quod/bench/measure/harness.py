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
    """A duration that a peer in another process measured itself, which excludes the pipe."""


@dataclass(frozen=True)
class Case:
    """A case to measure.

    run: does the work once and returns when it is done.
    operations: the number of units in one run (2**20 products for "ns/product").
    unit: begins with s, ms, us or ns, unless `reads` is true.
    peers: the same work by other programs, by name.
    way: how peers run, such as "in process".
    absent: for other peers, the reason why they are missing on this machine.
    reads: `run` returns the figure in `unit` instead of being timed.
    traced: does the work once and records its stages in a timeline.
    """

    parameters: dict[str, Parameter]
    run: Callable[[], object]
    unit: str = "s"
    operations: int = 1
    peers: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    way: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    reads: bool = False
    traced: Callable[[Timeline], object] | None = None


@dataclass(frozen=True)
class Measurement:
    """A row of a benchmark.

    median, peer_median: in `unit`.
    ratio: how many times faster than the peer.
    spread: the interquartile range over the median.
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

    repeats, seconds: the minimum for each side of a case.
    warm_up: seconds for which Quod's side runs before it is measured; each side runs once before in
        any case.
    long: the seconds from which a first run counts and replaces the warm-up, as compilation is a
        small part of it. Does not apply to `reads`.
    """

    repeats: int = 5
    seconds: float = 0.5
    most_repeats: int = 1000
    warm_up: float = 0.0
    long: float = 20.0

    def satisfied(self, times: Sequence[float]) -> bool:
        """Report whether one side was measured often and long enough."""
        enough = len(times) >= self.repeats and sum(times) >= self.seconds
        return enough or len(times) >= self.most_repeats


Identity = tuple[str, str, str, str]
"""The key of a row in a results file."""


def identity(
    subject: str, parameters: Mapping[str, Parameter], device: str, peer: str | None
) -> Identity:
    """Build the comparable and sortable identity of a row."""
    return subject, json.dumps(parameters, sort_keys=True), device, peer or ""


_OF_FILES = ("--record", "--plot", "--trace", "--gate", "--gate-tolerance")
_LEFT_OUT = ("--only-stale",)

# An idle GPU takes a moment to raise its clock.
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
    """Measure each case, and its peer `against` if it has one.

    Runs of Quod and the peer alternate, so that a slowing machine affects both.
    follow, after: called before and after each case.
    measured: called with each new row.
    earlier_rows: A row whose launched kernels are unchanged is kept, and `unchanged` is
        called.
    Raises InputError if no case has the peer, or if it is absent.
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
            first, times = _first(case.run, plan)
            _, peer_times = (None, []) if peer is None else _first(peer, plan)
        code, label = code_of(launched), ", ".join(filter(None, (against, case.way)))
        before = (earlier_rows or {}).get(
            identity(subject, case.parameters, device, peer and label)
        )
        if before is not None and code and code == before.code:
            rows.append(replace(before, sources=sources_digest()))
            unchanged(case)
            continue
        if case.reads or not times:
            warm_up(case.run, plan.warm_up)
        theirs: list[float] = []
        if case.reads:
            ours, scale = _readings(case, first, plan), 1.0
        else:
            ours, theirs = _alternate(case.run, peer, plan, times, peer_times)
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
                peer=label if theirs else None,
                peer_median=None if peer_middle is None else peer_middle * scale,
                ratio=None if peer_middle is None else peer_middle / middle,
                commit=commit,
                command=command,
                code=code,
            )
        )
        measured(rows[-1])
        after(case)
    if against is not None and not rows:
        listed = ", ".join(sorted(names)) or "none for these parameters"
        raise InputError(f"{against!r} is not a peer of this benchmark; it has: {listed}")
    return rows


def _readings(case: Case, first: object, plan: Plan) -> list[float]:
    """Collect the readings of a case; the first run counts if there is no warm-up."""
    figures = [] if plan.warm_up else [first]
    figures += [case.run() for _ in range(plan.repeats - len(figures))]
    readings = [float(figure) for figure in figures if isinstance(figure, (int, float))]
    assert len(readings) == plan.repeats
    return readings


def _first(run: Callable[[], object], plan: Plan) -> tuple[object, list[float]]:
    """Run once; return the value, and the duration if it counts."""
    value, took = _timed(run)
    return value, [took] if took >= plan.long else []


def _timed(run: Callable[[], object]) -> tuple[object, float]:
    begin = perf_counter()
    value = run()
    took = perf_counter() - begin
    return value, value if isinstance(value, Seconds) else took


def _alternate(
    ours: Callable[[], object], peer: Callable[[], object] | None, plan: Plan,
    *before: list[float],
) -> tuple[list[float], list[float]]:  # fmt: skip
    """Alternate the runs of both sides; return all durations, including those in `before`."""
    sides = [ours] if peer is None else [ours, peer]
    times = [[*durations] for durations in before]
    waiting = [index for index in range(len(sides)) if not plan.satisfied(times[index])]
    while waiting:
        # A side with enough runs stops: a fast one must not make a slow one run a thousand times.
        for index in list(waiting):
            times[index].append(_timed(sides[index])[1])
            if plan.satisfied(times[index]):
                waiting.remove(index)
    return times[0], times[1] if peer is not None else []


def warm_up(run: Callable[[], object], seconds: float) -> None:
    """Run for some seconds, so that the device raises its clock; nothing is compiled here."""
    begin = perf_counter()
    while perf_counter() - begin < seconds:
        run()


def _spread(times: Sequence[float]) -> float:
    ordered = sorted(times)
    quarter = len(ordered) // 4
    middle = median(ordered)
    # A reading may be zero.
    return (ordered[-1 - quarter] - ordered[quarter]) / middle if middle else 0.0


def current_commit() -> str:
    """Return the commit of the checkout with this code, with "+" if it has changes.

    QUOD_COMMIT overrides it for copies without history; without both, returns the version.
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


def command_line(arguments: Sequence[str] | None = None) -> str:
    """Return the running command, for readers to repeat.

    Omits options that name files to write or to compare with, and reduces absolute paths to their
    last part.
    """
    words = ["quod"]
    remaining = iter(sys.argv[1:] if arguments is None else arguments)
    for word in remaining:
        if word in _OF_FILES:
            next(remaining, None)
        elif word not in _LEFT_OUT and word.partition("=")[0] not in _OF_FILES:
            words.append(Path(word).name if os.path.isabs(word) else word)
    return shlex.join(words)
