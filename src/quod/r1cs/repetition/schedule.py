"""Schedules: the order in which the steps of all copies of all blocks run.

A witness is computed in waves. A step runs in the first wave in which all its operands are known,
together with the same step of all other copies in that wave. The own steps of a block in a wave are
a stage. A call takes as many waves as its block has. Stages exchange values only through the
witness.

A call of a block with a shortcut takes one wave, in which its results are computed. The stages of
all such blocks run after the other waves, so all their copies run together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quod.frozen import frozen
from quod.r1cs.repetition.parts import Indices, Part, Parts, callers_first
from quod.r1cs.signal import ONE
from quod.r1cs.traced import Block, Placement, Shortcut, TracedSystem
from quod.r1cs.witness_program.instructions import Program
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve, Step, wires_of

Lower = Callable[[Block, Sequence[Step]], Program]


@frozen(eq=False)
class Stage:
    """The steps of a block that run in the same wave of a copy.

    part: the index of the block's part.
    wave: the wave, counted from the first of the copy.
    program: computes the steps.
    """

    part: int
    wave: int
    program: Program


@frozen(eq=False)
class StageRun:
    """A stage in a wave of the circuit.

    copies: the copies of the block that run, as indices into those of its part.
    """

    stage: Stage
    copies: NDArray[np.uint32]

    @property
    def part(self) -> int:
        """The index of the block's part."""
        return self.stage.part


@frozen(eq=False)
class ShortcutCalls:
    """The calls of a block with a shortcut.

    part: the index of the block's part.
    name, parameters: those of the shortcut.
    arguments: twice the column of each argument, plus 1 if it is 1 minus the column's value.
    results: the column of each result.
    waves: the wave of each copy.
    """

    part: int
    name: str
    parameters: tuple[int, ...]
    arguments: NDArray[np.uint32]
    results: NDArray[np.uint32]
    waves: Indices

    @classmethod
    def of(cls, part: int, block: Block, shortcut: Shortcut, waves: Indices) -> ShortcutCalls:
        """Return the calls of a block with a shortcut."""
        arguments = [2 * block.column(wire) + is_negated for wire, is_negated in shortcut.arguments]
        results = [block.column(wire) for wire in shortcut.results]
        return cls(
            part, shortcut.name, shortcut.parameters, np.array(arguments, np.uint32),
            np.array(results, np.uint32), waves,
        )  # fmt: skip


@frozen(eq=False)
class ShortcutRun:
    """The calls of a shortcut in a wave; `copies` are as in `StageRun`."""

    calls: ShortcutCalls
    copies: NDArray[np.uint32]

    @property
    def part(self) -> int:
        """The index of the block's part."""
        return self.calls.part


@frozen(eq=False)
class Wave:
    """Stages and shortcuts that do not depend on each other."""

    shortcuts: list[ShortcutRun]
    stages: list[StageRun]


@frozen(eq=False)
class Schedule:
    """The computation of a circuit's witness.

    parts: the circuit.
    stages: those of all blocks.
    starts: for each part, the first wave of each copy.
    shortcuts: the calls of all blocks with shortcuts.
    """

    parts: Parts
    stages: tuple[Stage, ...]
    starts: tuple[Indices, ...]
    shortcuts: tuple[ShortcutCalls, ...] = ()

    @cached_property
    def waves(self) -> list[Wave]:
        """The waves in which anything runs, in order."""
        waves: dict[int, Wave] = {}

        def at(wave: int) -> Wave:
            return waves.setdefault(wave, Wave([], []))

        for calls in self.shortcuts:
            for wave, copies in _by_value(calls.waves):
                at(wave).shortcuts.append(ShortcutRun(calls, copies))
        copies_of = [list(_by_value(starts)) for starts in self.starts]
        for stage in self.stages:
            for start, copies in copies_of[stage.part]:
                at(start + stage.wave).stages.append(StageRun(stage, copies))
        return [waves[wave] for wave in sorted(waves)]

    def part_of(self, run: StageRun | ShortcutRun) -> Part:
        """Return the part of a run's block."""
        return self.parts.parts[run.part]


def _by_value(array: Indices) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """Yield each distinct value with the indices of its entries."""
    order = np.argsort(array, kind="stable").astype(np.uint32)
    values, starts = np.unique(array[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, starts[1:]), strict=True)


class BlockSchedule:
    """The stages of a block and the waves of its calls, counted from the first wave of a copy.

    steps: the own steps of each wave.
    starts: the first wave of each placement.
    waves: the number of waves of a copy.
    """

    def __init__(
        self, block: Block, waves_of: Mapping[int, int], *, use_shortcuts: bool
    ) -> None:  # fmt: skip
        """Schedule a block; `waves_of` has the waves of each block's calls, by its id."""
        system = block.system
        self._use_shortcuts = use_shortcuts
        self._system, self._placements = system, system.placements
        self.starts: list[int] = []
        if not system.placements:
            self.steps, self.waves = [system.steps], int(bool(system.steps))
            return
        self.steps, self.waves = [], 0
        self._step_wave: dict[int, int] = {}
        # The wave after each placement; the wires before each.
        self._ends: list[int] = []
        self._wires = [placement.wire for placement in system.placements]
        self._publics = [placement.public for placement in system.placements]
        first_step = 0
        for placement in system.placements:
            self._add_steps(system.steps[first_step : placement.own_steps])
            first_step = placement.own_steps
            self._add_placement(placement, waves_of[id(placement.block)])
        self._add_steps(system.steps[first_step:])

    def _add_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            wave = max([self._first_wave(wire) for wire in _operands(self._system, step)] + [0])
            for wire in wires_of(step):
                self._step_wave[wire] = wave
            while len(self.steps) <= wave:
                self.steps.append([])
            self.steps[wave].append(step)
            self.waves = max(self.waves, wave + 1)

    def _add_placement(self, placement: Placement, waves: int) -> None:
        """Add a call, which has its results after `waves` waves.

        A shortcut waits for its own arguments only.
        """
        start, arguments, shortcut = 0, placement.arguments, placement.block.shortcut
        if shortcut is not None and self._use_shortcuts:
            formal_wires = {wire for wire, _ in shortcut.arguments if wire != ONE}
            arguments = [placement.arguments[wire - 1] for wire in formal_wires]
        for wire in arguments:
            # Unlike the steps of a stage, which run in order, a call waits for the next wave.
            start = max(start, self._first_wave(wire) + (wire in self._step_wave))
        self.starts.append(start)
        self._ends.append(start + waves)
        self.waves = max(self.waves, start + waves)

    def _first_wave(self, wire: int) -> int:
        """Return the first wave in which an own step can read a wire.

        It is the wave of the step that computes the wire, or the wave after its call.
        """
        if (wave := self._step_wave.get(wire)) is not None:
            return wave
        if wire == ONE:
            return 0
        before = self._wires if wire > ONE else self._publics
        # The only placement that can have the wire is the last one that begins before it.
        index = bisect_left(before, abs(wire), 0, len(self._ends)) - 1
        if index < 0:
            return 0
        inner = self._placements[index].block
        wires = inner.wires if wire > ONE else len(inner.system.public_names)
        return self._ends[index] if abs(wire) <= before[index] + wires else 0


def _operands(system: TracedSystem, step: Step) -> Iterator[int]:
    """Yield the wires that a step reads."""
    if type(step) is Solve:
        for side in range(3):
            for wire in system.row(side, step.row)[0]:
                if wire != step.wire:
                    yield wire
    elif type(step) is Hint:
        for argument in step.arguments:
            yield from argument.wires
    else:
        assert type(step) is Bit or type(step) is InverseOrZero
        yield from step.signal.wires


def schedule_of(
    system: TracedSystem, parts: Parts, lower: Lower, *, use_shortcuts: bool = True
) -> Schedule:
    """Return the schedule of a finished system.

    parts: those of the system.
    lower: returns the program of steps of a block.
    use_shortcuts: without them, calls of blocks with shortcuts are computed as all others.
    """
    blocks, schedules = _block_schedules(system, use_shortcuts)
    stages = [
        Stage(part, wave, lower(block, steps))
        for part, block in enumerate(blocks)
        for wave, steps in enumerate(schedules[id(block)].steps)
        if steps
    ]
    starts, call_waves = _starts(blocks, schedules, use_shortcuts)
    shortcuts = [
        ShortcutCalls.of(part, block, block.shortcut, call_waves[part])
        for part, block in enumerate(blocks)
        if block.shortcut is not None and use_shortcuts
    ]
    return Schedule(parts, tuple(stages), starts, tuple(shortcuts))


def wave_count(system: TracedSystem) -> int:
    """Return the number of waves of a finished system."""
    blocks, schedules = _block_schedules(system, True)
    circuit, *called = blocks
    last_waves = [schedules[id(block)].waves for block in called if block.shortcut is not None]
    return schedules[id(circuit)].waves + max(last_waves, default=0)


def _block_schedules(
    system: TracedSystem, use_shortcuts: bool
) -> tuple[list[Block], dict[int, BlockSchedule]]:
    """Return the blocks of a system, callers first, and the schedule of each by its id."""
    blocks = callers_first(Block(system, 0, None))
    schedules: dict[int, BlockSchedule] = {}
    waves_of: dict[int, int] = {}
    for block in reversed(blocks):
        schedule = schedules[id(block)] = BlockSchedule(
            block, waves_of, use_shortcuts=use_shortcuts
        )
        waves_of[id(block)] = 1 if use_shortcuts and block.shortcut else schedule.waves
    return blocks, schedules


def _starts(
    blocks: Sequence[Block], schedules: Mapping[int, BlockSchedule], use_shortcuts: bool
) -> tuple[tuple[Indices, ...], tuple[Indices, ...]]:
    """Return the first waves of the copies of each block, and the waves of their calls.

    Both are in the order of `Part.table`. They differ for blocks with shortcuts.
    """
    last_wave = schedules[id(blocks[0])].waves
    calls: dict[int, list[Indices]] = {id(block): [] for block in blocks}
    calls[id(blocks[0])].append(np.zeros(1, np.int64))
    starts, call_waves = [], []
    for block in blocks:
        waves = np.concatenate(calls.pop(id(block)))
        is_delayed = use_shortcuts and block.shortcut is not None
        first = np.maximum(waves, last_wave) if is_delayed else waves
        placement_starts = schedules[id(block)].starts
        for placement, start in zip(block.system.placements, placement_starts, strict=True):
            calls[id(placement.block)].append(first + start)
        starts.append(first)
        call_waves.append(waves)
    return tuple(starts), tuple(call_waves)
