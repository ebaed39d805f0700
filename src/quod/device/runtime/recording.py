"""Recorded work: launches, copies and their dependencies, recorded once for many replays.

Dependencies follow from the memory that the steps use. A step waits for the last step that wrote
memory that it accesses, and for all earlier readers of memory that it writes. A device may run
steps concurrently if they do not depend on one another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from quod.device.memory.buffer import Buffer, Space
from quod.device.runtime.arguments import Argument
from quod.device.runtime.event import Event
from quod.device.runtime.kernel_table import CompiledKernel
from quod.frozen import frozen

Memory = Buffer | np.ndarray[Any, Any]


@frozen(eq=False)
class Step:
    """One step of recorded work.

    after: indices of the steps that it depends on.
    The label and the counts are for a timeline; see its `Stage`.
    """

    label: str
    after: tuple[int, ...]
    bytes: int = 0
    modmuls: int = 0
    multiply_adds: int = 0


@frozen(eq=False)
class Launch(Step):
    """Launch of `groups` workgroups of a kernel.

    packed: the arguments in the device's form.
    overlapped: the steps of `after` that must have ended when the kernel waits for earlier
        launches, but not when it starts.
    """

    kernel: CompiledKernel = field(kw_only=True)
    groups: int = field(kw_only=True)
    arguments: tuple[Argument, ...] = field(kw_only=True)
    packed: Any = field(kw_only=True)
    overlapped: tuple[int, ...] = field(default=(), kw_only=True)


@frozen(eq=False)
class Copy(Step):
    """Copy of all bytes of `source` to `target`; at most one of them is host memory."""

    direction: Literal["copy", "upload", "download"] = field(kw_only=True)
    source: Memory = field(kw_only=True)
    target: Memory = field(kw_only=True)


@frozen(eq=False)
class Fill(Step):
    """Fill of memory with a 32-bit word."""

    target: Memory = field(kw_only=True)
    word: int = field(kw_only=True)


@frozen(eq=False)
class Mark(Step):
    """Step that completes an event once all earlier steps are done."""

    event: Event = field(kw_only=True)


@frozen(eq=False)
class Await(Step):
    """Wait for an event of another stream; all later steps depend on it."""

    event: Event = field(kw_only=True)


def span(memory: Memory) -> tuple[int, int]:
    """Return the start and end address (exclusive) of memory."""
    if isinstance(memory, Buffer):
        return memory.address, memory.address + memory.nbytes
    return int(memory.ctypes.data), int(memory.ctypes.data) + memory.nbytes


@dataclass(slots=True)
class _Segment:
    """A range of addresses with one last writer and the same readers since."""

    start: int
    stop: int
    writer: int | None
    readers: frozenset[int]


class Dependencies:
    """The last writer and readers of memory, while steps are recorded.

    Memory is represented by segments that do not overlap, in order of addresses.
    """

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._barrier: int | None = None
        # The steps for which no later step waits yet.
        self._unawaited: set[int] = set()

    def add(
        self, step: int, reads: Iterable[Memory] = (), writes: Iterable[Memory] = ()
    ) -> tuple[int, ...]:
        """Add the memory of a step; return the steps that it must wait for, in order."""
        predecessors: set[int] = set()
        for start, stop in _spans(reads):
            first, last = self._cut(start, stop)
            gaps, covered_until = [], start
            for segment in self._segments[first:last]:
                if segment.writer is not None:
                    predecessors.add(segment.writer)
                segment.readers |= {step}
                if covered_until < segment.start:
                    gaps.append(_Segment(covered_until, segment.start, None, frozenset({step})))
                covered_until = segment.stop
            if covered_until < stop:
                gaps.append(_Segment(covered_until, stop, None, frozenset({step})))
            if gaps:
                self._segments[first:last] = sorted(
                    self._segments[first:last] + gaps, key=lambda segment: segment.start
                )
        for start, stop in _spans(writes):
            first, last = self._cut(start, stop)
            for segment in self._segments[first:last]:
                predecessors |= segment.readers
                if segment.writer is not None:
                    predecessors.add(segment.writer)
            self._segments[first:last] = [_Segment(start, stop, step, frozenset())]
        predecessors.discard(step)
        # A predecessor after the barrier waits for the barrier already.
        if self._barrier is not None and not any(n > self._barrier for n in predecessors):
            predecessors.add(self._barrier)
        self._unawaited = (self._unawaited - predecessors) | {step}
        return tuple(sorted(predecessors))

    def writers(self, memory: Iterable[Memory]) -> set[int]:
        """Return the steps that wrote last to some part of `memory`."""
        last_writers: set[int] = set()
        for start, stop in _spans(memory):
            index = bisect_left(self._segments, stop, key=lambda segment: segment.start)
            while index and self._segments[index - 1].stop > start:
                index -= 1
                writer = self._segments[index].writer
                if writer is not None:
                    last_writers.add(writer)
        return last_writers

    def _cut(self, start: int, stop: int) -> tuple[int, int]:
        """Split segments at both addresses; return the index range of the segments in between."""
        return self._cut_at(start), self._cut_at(stop)

    def _cut_at(self, address: int) -> int:
        """Split the segment that contains an address; return the number of segments below it."""
        segments = self._segments
        count_below = bisect_left(segments, address, key=lambda segment: segment.start)
        if count_below and segments[count_below - 1].stop > address:
            segment = segments[count_below - 1]
            upper = _Segment(address, segment.stop, segment.writer, segment.readers)
            segment.stop = address
            segments.insert(count_below, upper)
        return count_below

    def add_barrier(self, step: int) -> tuple[int, ...]:
        """Add a step that waits for all earlier steps and that all later steps wait for."""
        dependencies = tuple(sorted(self._unawaited))
        self._segments.clear()
        self._barrier, self._unawaited = step, {step}
        return dependencies


def _spans(memory: Iterable[Memory]) -> list[tuple[int, int]]:
    """Return the address ranges of memory, without empty ones."""
    return [(start, stop) for start, stop in map(span, memory) if start < stop]


@frozen(eq=False)
class Recording:
    """A graph of steps in an order in which they can run; replay it with `IdleStream.replay`.

    A recording keeps the memory that its steps use alive. `device` is the name of its device, and
    `space` the memory of that device, which distinguishes it from other devices of the same name.
    For `urgent` see `IdleStream.record`.
    """

    device: str
    steps: tuple[Step, ...]
    space: Space
    urgent: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the graph as a JSON object, with memory numbered in the order of its first use.

        A memory region is described by its size alone, and a location in it by region number and
        byte offset. Overlapping memory counts as one region.
        """
        regions = _Regions(self.steps)
        return {
            "schema": "quod-recording-1",
            "device": self.device,
            "memory": [{"bytes": size} for size in regions.sizes],
            "steps": [_describe(step, regions) for step in self.steps],
        }


class Submission(Protocol):
    """Submitted work.

    `wait` raises the error of the work; `cancel` stops it as soon as possible.
    """

    @property
    def is_done(self) -> bool: ...

    def wait(self) -> None: ...

    def cancel(self) -> None: ...


class _Regions:
    """The numbering of the memory regions that the steps of a recording use."""

    def __init__(self, steps: Sequence[Step]) -> None:
        used = [span(memory) for step in steps for memory in _memory_of(step)]
        merged: list[list[int]] = []
        for start, stop in sorted(used):
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([start, stop])
        self._ranges = merged
        self._numbers: dict[int, int] = {}
        self.sizes: list[int] = []
        for start, _ in used:
            self._number(self._range_index(start))

    def _range_index(self, address: int) -> int:
        # Empty memory and the next region begin at the same address; take the last of them.
        return max(i for i, (start, _) in enumerate(self._ranges) if start <= address)

    def _number(self, range_index: int) -> int:
        if range_index not in self._numbers:
            self._numbers[range_index] = len(self.sizes)
            start, stop = self._ranges[range_index]
            self.sizes.append(stop - start)
        return self._numbers[range_index]

    def describe(self, memory: Memory) -> dict[str, int]:
        start, stop = span(memory)
        range_index = self._range_index(start)
        offset = start - self._ranges[range_index][0]
        return {"memory": self._number(range_index), "offset": offset, "bytes": stop - start}


def _memory_of(step: Step) -> list[Memory]:
    match step:
        case Launch():
            return [value for value in step.arguments if isinstance(value, (Buffer, np.ndarray))]
        case Copy():
            return [step.source, step.target]
        case Fill():
            return [step.target]
    return []


def _describe(step: Step, regions: _Regions) -> dict[str, Any]:
    row: dict[str, Any] = {"label": step.label, "after": list(step.after)}
    match step:
        case Launch():
            arguments = zip(step.kernel.slots.items(), step.arguments, strict=True)
            row |= {
                "op": "launch",
                "kernel": step.kernel.name,
                "lanes": step.kernel.lanes,
                "static": {name: repr(value) for name, value in step.kernel.static.items()},
                "groups": step.groups,
                "arguments": [
                    regions.describe(argument)
                    if isinstance(argument, (Buffer, np.ndarray))
                    else {"value": argument if isinstance(argument, float) else int(argument)}  # type: ignore[arg-type]
                    | {"type": type_.name}
                    for (_, type_), argument in arguments
                ],
            }
        case Copy():
            row |= {
                "op": step.direction,
                "source": regions.describe(step.source),
                "target": regions.describe(step.target),
            }
        case Fill():
            row |= {"op": "fill", "target": regions.describe(step.target), "word": step.word}
        case Mark():
            row |= {"op": "event", "event": step.event.name}
        case Await():
            row |= {"op": "wait", "event": step.event.name}
    return row
