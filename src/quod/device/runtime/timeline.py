"""Timelines of long steps: named stages with begin, end, bytes and modular products.

    timeline = Timeline()
    with timeline.stage("MSM A", bytes=bases.nbytes) as stage:
        ...
        stage.add(modmuls=plan.modmuls)
    for row in timeline.table():
        print("  " * row.depth + row.name, row.seconds)

Code that reports takes ``timeline: Timeline | None = None`` and begins with
``timeline = or_null(timeline)``: without a timeline a stage then costs one method call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Protocol

from quod.frozen import frozen


class Stage:
    """One timed interval of work. Times are `time.perf_counter_ns`; `end_ns` is None while it runs.

    bytes: memory traffic. modmuls: number of modular multiplications. multiply_adds: number of
    multiply-adds of 32-bit words in them. Each is 0 if the reporting code does not count it.
    track: the thread's name, or the track that `Timeline.record` was given.
    failed: an exception ended the stage.
    """

    def __init__(
        self, name: str, begin_ns: int, track: str, parent: Stage | None = None, bytes: int = 0,
        modmuls: int = 0, multiply_adds: int = 0, end_ns: int | None = None, *,
        timeline: Timeline | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.begin_ns = begin_ns
        self.track = track
        self.parent = parent
        self.bytes = bytes
        self.modmuls = modmuls
        self.multiply_adds = multiply_adds
        self.end_ns = end_ns
        self.failed = False
        self.done = 0
        self.total = 0
        self._timeline = timeline

    @property
    def depth(self) -> int:
        """Number of enclosing stages."""
        depth, stage = 0, self.parent
        while stage is not None:
            depth, stage = depth + 1, stage.parent
        return depth

    @property
    def seconds(self) -> float:
        """Length of the stage, up to now while it runs."""
        end = perf_counter_ns() if self.end_ns is None else self.end_ns
        return (end - self.begin_ns) / 1e9

    def add(self, *, bytes: int = 0, modmuls: int = 0, multiply_adds: int = 0) -> None:
        """Count work that was not known when the stage began. Safe from any thread."""
        if self._timeline is not None:
            with self._timeline._lock:
                self.bytes += bytes
                self.modmuls += modmuls
                self.multiply_adds += multiply_adds

    def progress(self, done: int, total: int) -> None:
        """Report to listeners that `done` of `total` parts are finished."""
        self.done, self.total = done, total
        if self._timeline is not None and self._timeline._listener is not None:
            self._timeline._listener.progress(self)


class Listener(Protocol):
    """An observer of a timeline, such as a progress bar.

    It is called from worker threads, must be quick and must not raise.
    """

    def begin(self, stage: Stage) -> None:
        """Handle the start of `stage`."""

    def progress(self, stage: Stage) -> None:
        """Handle progress: `stage.done` of `stage.total` parts are finished."""

    def end(self, stage: Stage) -> None:
        """Handle the end of `stage`."""


@frozen
class Row:
    """A row of the stage table: all stages of one name under one parent, merged.

    seconds: sum of their lengths. busy: time in which at least one of them ran, which is less than
    the sum if stages overlap.
    share: `busy` divided by the time in which any stage ran.
    parent: index of the row of the parent.
    The counts are those of `Stage`, for these stages without the stages inside them.
    """

    name: str
    depth: int
    count: int
    seconds: float
    busy: float
    share: float
    bytes: int
    modmuls: int
    multiply_adds: int
    parent: int | None
    failed: bool = False

    @property
    def bytes_per_second(self) -> float:
        """Memory traffic over `busy`; 0 where no bytes were counted."""
        return self._rate(self.bytes)

    @property
    def modmuls_per_second(self) -> float:
        """Modular products over `busy`; 0 where none were counted."""
        return self._rate(self.modmuls)

    @property
    def multiply_adds_per_second(self) -> float:
        """Multiply-adds of 32-bit words over `busy`; 0 where none were counted."""
        return self._rate(self.multiply_adds)

    def _rate(self, count: int) -> float:
        return count / self.busy if self.busy else 0.0


class Timeline:
    """Collects stages from any number of threads.

    Stages nest by thread. Work handed to another thread names its parent:
    ``with timeline.stage("part", parent=stage)``.
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self._lock = threading.Lock()
        self._stages: list[Stage] = []
        self._listener = listener
        self._local = threading.local()

    @property
    def current(self) -> Stage | None:
        """The innermost open stage of this thread."""
        stages = self._open()
        return stages[-1] if stages else None

    def stage(
        self, name: str, *, bytes: int = 0, modmuls: int = 0, multiply_adds: int = 0,
        parent: Stage | None = None,
    ) -> AbstractContextManager[Stage]:  # fmt: skip
        """Time the body of a ``with``; an exception passes through and marks the stage."""
        parent = self.current if parent is None else parent
        return self._timed(
            Stage(
                name, 0, threading.current_thread().name, parent, bytes, modmuls, multiply_adds,
                timeline=self,
            )
        )  # fmt: skip

    @contextmanager
    def _timed(self, stage: Stage) -> Iterator[Stage]:
        open_stages = self._open()
        stage.begin_ns = perf_counter_ns()
        with self._lock:
            self._stages.append(stage)
        open_stages.append(stage)
        if self._listener is not None:
            self._listener.begin(stage)
        try:
            yield stage
        except BaseException:
            stage.failed = True
            raise
        finally:
            stage.end_ns = perf_counter_ns()
            open_stages.remove(stage)
            if self._listener is not None:
                self._listener.end(stage)

    def record(
        self,
        name: str,
        begin_ns: int,
        end_ns: int,
        *,
        track: str,
        bytes: int = 0,
        modmuls: int = 0,
        multiply_adds: int = 0,
        parent: Stage | None = None,
    ) -> Stage:
        """Add a stage that was timed elsewhere, by a device's own clock for example.

        Times are on the scale of `time.perf_counter_ns`; raises ValueError if the end is before
        the begin.
        """
        if end_ns < begin_ns:
            raise ValueError(f"stage {name!r} ends {begin_ns - end_ns} ns before it begins")
        stage = Stage(
            name, begin_ns, track, parent, bytes, modmuls, multiply_adds, end_ns, timeline=self
        )
        with self._lock:
            self._stages.append(stage)
        return stage

    def rows(self) -> list[Stage]:
        """Return all stages, ordered by start; those still open have no `end_ns`."""
        with self._lock:
            return sorted(self._stages, key=lambda stage: stage.begin_ns)

    def table(self, *, named: Callable[[str], str] | None = None) -> list[Row]:
        """Return the stages as a tree in print order, with stages of equal name and parent merged.

        named: maps a stage's name to the name under which it is merged; default: its own name.
        """
        named = named or str
        stages = self.rows()
        if not stages:
            return []
        now = perf_counter_ns()
        children: dict[int | None, list[Stage]] = {}
        for stage in stages:
            key = None if stage.parent is None else id(stage.parent)
            children.setdefault(key, []).append(stage)
        total_busy = _busy(stages, now)
        table: list[Row] = []

        def add(siblings: Sequence[Stage], parent: int | None) -> None:
            by_name: dict[str, list[Stage]] = {}
            for stage in siblings:
                by_name.setdefault(named(stage.name), []).append(stage)
            depth = 0 if parent is None else table[parent].depth + 1
            for name, group in by_name.items():
                row_index = len(table)
                table.append(_row(name, group, depth, parent, total_busy, now))
                add([inner for stage in group for inner in children.get(id(stage), [])], row_index)

        add(children.get(None, []), None)
        return table

    def to_chrome_trace(self) -> dict[str, Any]:
        """Return the timeline in the Trace Event Format, for chrome://tracing and Perfetto.

        A dict for `json.dump`: complete events ("ph": "X") with times in microseconds since the
        first start, one track per thread.
        """
        stages = self.rows()
        now = perf_counter_ns()
        origin = stages[0].begin_ns if stages else 0
        process = os.getpid()
        tracks: dict[str, int] = {}
        events: list[dict[str, Any]] = []
        for stage in stages:
            arguments: dict[str, Any] = {}
            if stage.bytes:
                arguments["bytes"] = stage.bytes
            if stage.modmuls:
                arguments["modmuls"] = stage.modmuls
            if stage.multiply_adds:
                arguments["multiply_adds"] = stage.multiply_adds
            if stage.failed:
                arguments["failed"] = True
            events.append(
                {
                    "name": stage.name,
                    "cat": "stage",
                    "ph": "X",
                    "ts": (stage.begin_ns - origin) / 1e3,
                    "dur": (_end(stage, now) - stage.begin_ns) / 1e3,
                    "pid": process,
                    "tid": tracks.setdefault(stage.track, len(tracks)),
                    "args": arguments,
                }
            )
        names = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": process,
                "tid": number,
                "args": {"name": track},
            }
            for track, number in tracks.items()
        ]
        return {"traceEvents": names + events, "displayTimeUnit": "ms"}

    def _open(self) -> list[Stage]:
        stages: list[Stage] | None = getattr(self._local, "stages", None)
        if stages is None:
            stages = self._local.stages = []
        return stages


def _end(stage: Stage, now: int) -> int:
    return now if stage.end_ns is None else stage.end_ns


def _row(
    name: str, group: Sequence[Stage], depth: int, parent: int | None, total_busy: int, now: int
) -> Row:
    busy = _busy(group, now)
    return Row(
        name=name,
        depth=depth,
        count=len(group),
        seconds=sum(_end(stage, now) - stage.begin_ns for stage in group) / 1e9,
        busy=busy / 1e9,
        share=busy / total_busy if total_busy else 1.0,
        bytes=sum(stage.bytes for stage in group),
        modmuls=sum(stage.modmuls for stage in group),
        multiply_adds=sum(stage.multiply_adds for stage in group),
        parent=parent,
        failed=any(stage.failed for stage in group),
    )


def _busy(group: Sequence[Stage], now: int) -> int:
    """Return the nanoseconds in which at least one stage ran; stages are ordered by start."""
    total = busy_until = 0
    for stage in group:
        end = _end(stage, now)
        total += max(0, end - max(stage.begin_ns, busy_until))
        busy_until = max(busy_until, end)
    return total


class _NullStage(Stage):
    """The stage of a `NullTimeline`: records nothing, and is its own context manager."""

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def add(self, *, bytes: int = 0, modmuls: int = 0, multiply_adds: int = 0) -> None:
        pass

    def progress(self, done: int, total: int) -> None:
        pass


class NullTimeline(Timeline):
    """A timeline that keeps nothing."""

    def stage(
        self, name: str, *, bytes: int = 0, modmuls: int = 0, multiply_adds: int = 0,
        parent: Stage | None = None,
    ) -> AbstractContextManager[Stage]:  # fmt: skip
        return _NULL_STAGE

    def record(
        self,
        name: str,
        begin_ns: int,
        end_ns: int,
        *,
        track: str,
        bytes: int = 0,
        modmuls: int = 0,
        multiply_adds: int = 0,
        parent: Stage | None = None,
    ) -> Stage:
        return _NULL_STAGE


_NULL_STAGE = _NullStage("", 0, "", end_ns=0)
_NULL_TIMELINE = NullTimeline()


def or_null(timeline: Timeline | None) -> Timeline:
    """Return `timeline`, or one that records nothing if it is None."""
    return _NULL_TIMELINE if timeline is None else timeline
