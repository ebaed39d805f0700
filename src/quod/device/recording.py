"""Recorded work: launches, copies and what each of them must wait for, once, for many replays.

Dependencies follow from the memory that the steps use: a step waits for the last one that wrote
what it reads, and for all that read what it writes. A device may run steps at the same time that
do not depend on one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from quod.device.arguments import Argument
from quod.device.buffer import Buffer
from quod.device.event import Event
from quod.device.protocol import CompiledKernel

Memory = Buffer | np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Step:
    """One piece of recorded work. `after` are the numbers of the steps that it depends on.

    `label`, `bytes` and `modmuls` (modular products) are what a timeline shows of it.
    """

    label: str
    after: tuple[int, ...]
    bytes: int = 0
    modmuls: int = 0


@dataclass(frozen=True, eq=False)
class Launch(Step):
    """`groups` workgroups of a kernel. `packed` are the arguments as the device takes them."""

    kernel: CompiledKernel = field(kw_only=True)
    groups: int = field(kw_only=True)
    arguments: tuple[Argument, ...] = field(kw_only=True)
    packed: Any = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Copy(Step):
    """All bytes of `source` to `target`, from or to host memory or between buffers."""

    direction: Literal["copy", "upload", "download"] = field(kw_only=True)
    source: Memory = field(kw_only=True)
    target: Memory = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Fill(Step):
    """A 32-bit word, over and over."""

    target: Memory = field(kw_only=True)
    word: int = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Mark(Step):
    """Completes an event when all steps before it are done."""

    event: Event = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Await(Step):
    """Waits for an event of another stream; all steps behind it depend on it."""

    event: Event = field(kw_only=True)


def span(memory: Memory) -> tuple[int, int]:
    """The addresses from which and up to which memory extends."""
    if isinstance(memory, Buffer):
        return memory.address, memory.address + memory.nbytes
    return int(memory.ctypes.data), int(memory.ctypes.data) + memory.nbytes


@dataclass
class _Access:
    writer: int | None = None
    readers: set[int] = field(default_factory=set)


class Dependencies:
    """Who used which memory last, while steps are recorded."""

    def __init__(self) -> None:
        self._accesses: dict[tuple[int, int], _Access] = {}
        self._barrier: int | None = None
        # The steps that no later one waits for yet.
        self._last: set[int] = set()

    def add(
        self, step: int, reads: Iterable[Memory] = (), writes: Iterable[Memory] = ()
    ) -> tuple[int, ...]:
        """Notes what a step uses; gives the steps that it must wait for, in order."""
        found: set[int] = set()
        read_spans, write_spans = _spans(reads), _spans(writes)
        for wanted in read_spans:
            found |= {a.writer for a in self._overlapping(wanted) if a.writer is not None}
        for wanted in write_spans:
            for access in self._overlapping(wanted):
                found |= access.readers
                if access.writer is not None:
                    found.add(access.writer)
        for place in read_spans:
            self._accesses.setdefault(place, _Access()).readers.add(step)
        for start, stop in write_spans:
            covered = [at for at in self._accesses if start <= at[0] and at[1] <= stop]
            for at in covered:
                del self._accesses[at]
            self._accesses[start, stop] = _Access(step)
        found.discard(step)
        if self._barrier is not None and not any(n > self._barrier for n in found):
            found.add(self._barrier)
        self._last = (self._last - found) | {step}
        return tuple(sorted(found))

    def _overlapping(self, wanted: tuple[int, int]) -> list[_Access]:
        start, stop = wanted
        return [a for (low, high), a in self._accesses.items() if low < stop and start < high]

    def add_barrier(self, step: int) -> tuple[int, ...]:
        """A step that waits for all before it and that all behind it wait for."""
        before = tuple(sorted(self._last))
        self._accesses.clear()
        self._barrier, self._last = step, {step}
        return before


def _spans(memory: Iterable[Memory]) -> list[tuple[int, int]]:
    """Where memory is; empty memory is nowhere."""
    return [(start, stop) for start, stop in map(span, memory) if start < stop]


@dataclass(frozen=True, eq=False)
class Recording:
    """A graph of steps in an order in which they can run; replay it with `IdleStream.replay`.

    It keeps the memory that its steps use alive.
    """

    device: str
    steps: tuple[Step, ...]

    def describe(self) -> dict[str, Any]:
        """The graph as JSON can hold it, with memory numbered in the order of its first use.

        Memory is described by its size alone, and a place in it by number and byte offset:
        overlapping memory counts as one piece.
        """
        pieces = _Pieces(self.steps)
        return {
            "schema": "quod-recording-1",
            "device": self.device,
            "memory": [{"bytes": size} for size in pieces.sizes],
            "steps": [_describe(step, pieces) for step in self.steps],
        }


class _Pieces:
    """Numbers for the pieces of memory that the steps of a recording use."""

    def __init__(self, steps: Sequence[Step]) -> None:
        used = [span(memory) for step in steps for memory in _memory_of(step)]
        merged: list[list[int]] = []
        for start, stop in sorted(used):
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([start, stop])
        self._pieces = merged
        self._numbers: dict[int, int] = {}
        self.sizes: list[int] = []
        for start, _ in used:
            self._number(self._piece(start))

    def _piece(self, address: int) -> int:
        # Of empty memory and the piece behind it, which begin at one address, the last is meant.
        return max(i for i, (start, _) in enumerate(self._pieces) if start <= address)

    def _number(self, piece: int) -> int:
        if piece not in self._numbers:
            self._numbers[piece] = len(self.sizes)
            start, stop = self._pieces[piece]
            self.sizes.append(stop - start)
        return self._numbers[piece]

    def place(self, memory: Memory) -> dict[str, int]:
        start, stop = span(memory)
        piece = self._piece(start)
        offset = start - self._pieces[piece][0]
        return {"memory": self._number(piece), "offset": offset, "bytes": stop - start}


def _memory_of(step: Step) -> list[Memory]:
    match step:
        case Launch():
            return [a for a in step.arguments if isinstance(a, (Buffer, np.ndarray))]
        case Copy():
            return [step.source, step.target]
        case Fill():
            return [step.target]
    return []


def _describe(step: Step, pieces: _Pieces) -> dict[str, Any]:
    row: dict[str, Any] = {"label": step.label, "after": list(step.after)}
    match step:
        case Launch():
            arguments = zip(step.kernel.parameters.items(), step.arguments, strict=True)
            row |= {
                "op": "launch",
                "kernel": step.kernel.name,
                "lanes": step.kernel.lanes,
                "static": {name: repr(value) for name, value in step.kernel.static.items()},
                "groups": step.groups,
                "arguments": [
                    pieces.place(argument)
                    if isinstance(argument, (Buffer, np.ndarray))
                    else {"value": argument if isinstance(argument, float) else int(argument)}
                    | {"type": type_.name}
                    for (_, type_), argument in arguments
                ],
            }
        case Copy():
            row |= {
                "op": step.direction,
                "source": pieces.place(step.source),
                "target": pieces.place(step.target),
            }
        case Fill():
            row |= {"op": "fill", "target": pieces.place(step.target), "word": step.word}
        case Mark():
            row |= {"op": "event", "event": step.event.name}
        case Await():
            row |= {"op": "wait", "event": step.event.name}
    return row
