"""Uses of one memory that nothing puts in order, by recordings submitted beside each other.

A step happens after those that it depends on, and after what an event that it waits for marks. What
was submitted once a run had been waited for happens after all of that run, and what was submitted
once the host had waited for an event of it, after what is before the event. Two steps of which
neither happens after the other, one of which writes what the other uses, race: what comes out is
settled by which of them is faster.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from quod.device.memory.buffer import HOST, Buffer
from quod.device.runtime.event import Event
from quod.device.runtime.recording import (
    Await,
    Copy,
    Fill,
    Launch,
    Mark,
    Memory,
    Recording,
    Step,
    span,
)

_Span = tuple[int, int, int]
"""The space of some memory, and the addresses from which and up to which it extends."""


class Race(AssertionError):
    """Two uses of one memory that nothing puts in order."""


class _Uses:
    """Memory that the steps of a recording read and write, and the steps before each."""

    def __init__(self, recording: Recording) -> None:
        self.reads: list[list[_Span]] = []
        self.writes: list[list[_Span]] = []
        self.before: list[int] = []
        for number, step in enumerate(recording.steps):
            reads, writes = _memory_of(step)
            self.reads.append(_spans(reads))
            self.writes.append(_spans(writes))
            before = 1 << number
            for earlier in step.after:
                before |= self.before[earlier]
            self.before.append(before)


class Run:
    """One submission of a recording."""

    def __init__(self, recording: Recording, uses: _Uses) -> None:
        self.recording, self.uses = recording, uses
        # Steps of which the host knows that they are done, and per step those of other runs that
        # are before it.
        self.known = 0
        self.others: list[dict[Run, int]] = []
        self.overlapping: list[_Span] = []

    def written_first(self) -> Iterator[Step]:
        """The steps that write memory as a whole which no step has used before, nor another run
        that is under way."""
        seen = list(self.overlapping)
        for number, step in enumerate(self.recording.steps):
            reads, writes = self.uses.reads[number], self.uses.writes[number]
            overwrites = isinstance(step, Copy | Fill)
            if overwrites and not any(
                _meet(written, other) for written in writes for other in [*seen, *reads]
            ):
                yield step
            seen += reads + writes


class Races:
    """All runs that are under way."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._uses: weakref.WeakKeyDictionary[Recording, _Uses] = weakref.WeakKeyDictionary()
        self._runs: list[Run] = []
        self._marks: weakref.WeakKeyDictionary[Event, tuple[Run, int]] = weakref.WeakKeyDictionary()
        self._found: list[str] = []

    def submitted(self, recording: Recording) -> Run:
        """A recording that is about to be submitted. Raises `Race`."""
        with self._lock:
            uses = self._uses.get(recording)
            if uses is None:
                uses = self._uses[recording] = _Uses(recording)
            run = Run(recording, uses)
            self._order(run)
            for number, step in enumerate(recording.steps):
                for other in self._runs:
                    done = other.known | run.others[number].get(other, 0)
                    self._check(
                        f"{step.label!r}", uses.reads[number], uses.writes[number], other, done, run
                    )
            self._runs.append(run)
            return run

    def host_uses(self, what: str, reads: Iterable[Memory], writes: Iterable[Memory]) -> None:
        """Memory that the host uses at once. Raises `Race`."""
        read, written = _spans(reads), _spans(writes)
        with self._lock:
            for other in self._runs:
                self._check(what, read, written, other, other.known, None)

    def waited(self, run: Run) -> None:
        """The host has waited for a run."""
        with self._lock:
            if run in self._runs:
                self._runs.remove(run)

    def passed(self, event: Event) -> None:
        """The host has waited for an event."""
        with self._lock:
            if event in self._marks:
                run, number = self._marks[event]
                run.known |= run.uses.before[number]

    def clear(self) -> list[str]:
        """Return the races since the last call."""
        with self._lock:
            races, self._found = self._found, []
            return races

    def _order(self, run: Run) -> None:
        """Which steps of other runs are before each of this one."""
        for number, step in enumerate(run.recording.steps):
            others: dict[Run, int] = {}
            for earlier in step.after:
                _merge(others, run.others[earlier])
            if isinstance(step, Await) and step.event in self._marks:
                other, mark = self._marks[step.event]
                _merge(others, {other: other.uses.before[mark]})
                _merge(others, other.others[mark])
            if isinstance(step, Mark):
                self._marks[step.event] = run, number
            run.others.append(others)

    def _check(
        self, what: str, reads: list[_Span], writes: list[_Span], other: Run, done: int,
        run: Run | None,
    ) -> None:  # fmt: skip
        for number, step in enumerate(other.recording.steps):
            theirs = other.uses.reads[number], other.uses.writes[number]
            meets = [
                span_of_step
                for span_of_step in writes
                for span_of_other in (*theirs[0], *theirs[1])
                if _meet(span_of_step, span_of_other)
            ]
            meets += [
                span_of_step
                for span_of_step in reads
                for span_of_other in theirs[1]
                if _meet(span_of_step, span_of_other)
            ]
            if not meets:
                continue
            if run is not None:
                run.overlapping += meets
            if not done >> number & 1:
                message = f"{what} and {step.label!r} of another stream use one memory in no order"
                self._found.append(message)
                raise Race(message)


def _merge(into: dict[Run, int], added: dict[Run, int]) -> None:
    for run, steps in added.items():
        into[run] = into.get(run, 0) | steps


def _meet(first: _Span, other: _Span) -> bool:
    return first[0] == other[0] and first[1] < other[2] and other[1] < first[2]


def _spans(memory: Iterable[Memory]) -> list[_Span]:
    """Return the spans of memory; empty memory has none."""
    spans = []
    for item in memory:
        start, stop = span(item)
        if start < stop:
            spans.append((id(item.space if isinstance(item, Buffer) else HOST), start, stop))
    return spans


def _memory_of(step: Step) -> tuple[list[Any], list[Any]]:
    """Return the memory that a step reads, and the memory that it writes."""
    match step:
        case Launch():
            memory = {i: a for i, a in enumerate(step.arguments) if not isinstance(a, (int, float))}
            stored = step.kernel.stored
            return (
                [argument for i, argument in memory.items() if i not in stored],
                [argument for i, argument in memory.items() if i in stored],
            )
        case Copy():
            return [step.source], [step.target]
        case Fill():
            return [], [step.target]
    return [], []
