"""Measuring: repeat, take the median, compare with a peer in the same run, keep the figures."""

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
    """What a peer in another process gives that measures itself, so that no pipe is measured."""


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    `run` does the work once and returns when it is done; `operations` is how many of what `unit`
    counts it does (a run of 2^20 products with the unit "ns/product" has 2^20). `peers` are the
    same work by other programs, by name, done as `way` says ("in process"), and `absent` says of
    other names why there is no such peer on this machine. `unit` begins with s, ms, us or ns; where
    `reads` is true the figure, in `unit`, is what `run` gives instead of how long it takes.
    `traced` does the work once more and tells a timeline of its stages.
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

    `median` and `peer_median` are in `unit`; `ratio` is how many times faster than the peer;
    `spread` is the distance between the quartiles over the median. `code` tells the kernels that
    were launched, and `sources` the package's (see `quod.bench.measure.code`).
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
    """How to measure: at least `repeats` times and `seconds` seconds for each side of a case.

    Before that each side runs once, and ours for `warm_up` seconds. A first run that takes as long
    as `long` counts, and then nothing is warmed up: what it compiles is little of it. What a case
    reads is no time of that kind.
    """

    repeats: int = 5
    seconds: float = 0.5
    most_repeats: int = 1000
    warm_up: float = 0.0
    long: float = 20.0

    def satisfied(self, times: Sequence[float]) -> bool:
        """Whether one side has been measured often and long enough."""
        enough = len(times) >= self.repeats and sum(times) >= self.seconds
        return enough or len(times) >= self.most_repeats


Identity = tuple[str, str, str, str]
"""What tells a row from others of a results file."""


def identity(
    subject: str, parameters: Mapping[str, Parameter], device: str, peer: str | None
) -> Identity:
    """Subject, parameters, device and peer of a row, to be compared and sorted."""
    return subject, json.dumps(parameters, sort_keys=True), device, peer or ""


_OF_FILES = ("--record", "--plot", "--trace", "--gate", "--gate-tolerance")
_LEFT_OUT = ("--only-stale",)

# The clock of a GPU that has rested, while kernels were compiled perhaps, takes a moment to rise.
_GPU_WARM_UP = 0.5


def warm_up_of(device: str) -> float:
    """How long to warm up before measuring on a device."""
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
    known: Mapping[Identity, Measurement] | None = None,
    measured: Callable[[Measurement], None] = lambda row: None,
) -> list[Measurement]:
    """Measure each case, and the peer `against` beside it where the case has one.

    Our runs and the peer's alternate, so that a machine that slows down slows both. `follow` hears
    of each case before it runs, `after` once it is measured, and `measured` of its row. A row that
    is `known` with the code that is launched now is taken as it is, which `unchanged` hears. Raises
    `InputError` if no case knows the peer, or if it is absent.
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
        before = (known or {}).get(identity(subject, case.parameters, device, peer and label))
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
    """What a case reads; the first reading counts where nothing is warmed up."""
    figures = [] if plan.warm_up else [first]
    figures += [case.run() for _ in range(plan.repeats - len(figures))]
    found = [float(figure) for figure in figures if isinstance(figure, (int, float))]
    assert len(found) == plan.repeats
    return found


def _first(run: Callable[[], object], plan: Plan) -> tuple[object, list[float]]:
    """What a run gives, and how long it took if that counts."""
    given, took = _timed(run)
    return given, [took] if took >= plan.long else []


def _timed(run: Callable[[], object]) -> tuple[object, float]:
    begin = perf_counter()
    given = run()
    took = perf_counter() - begin
    return given, given if isinstance(given, Seconds) else took


def _alternate(
    ours: Callable[[], object], peer: Callable[[], object] | None, plan: Plan,
    *before: list[float],
) -> tuple[list[float], list[float]]:  # fmt: skip
    """How long runs took in turn, those `before` among them."""
    sides = [ours] if peer is None else [ours, peer]
    times = [[*own] for own in before]
    waiting = [index for index in range(len(sides)) if not plan.satisfied(times[index])]
    while waiting:
        # A side that has enough leaves: a fast one must not make a slow one run a thousand times.
        for index in list(waiting):
            times[index].append(_timed(sides[index])[1])
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
    middle = median(ordered)
    # A reading may be nothing at all.
    return (ordered[-1 - quarter] - ordered[quarter]) / middle if middle else 0.0


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


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command that is running, to be repeated by a reader.

    Without the options that name files to write, keep rows of one or compare with one, and without
    the folders of this machine: of an absolute path only the last part is kept.
    """
    words = ["quod"]
    given = iter(sys.argv[1:] if arguments is None else arguments)
    for word in given:
        if word in _OF_FILES:
            next(given, None)
        elif word not in _LEFT_OUT and word.partition("=")[0] not in _OF_FILES:
            words.append(Path(word).name if os.path.isabs(word) else word)
    return shlex.join(words)
