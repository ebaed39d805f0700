"""Branches and loops of the interpreter; a region runs if any instance is active in it.

The functions have the names that rows of the op table give as `interpreter_function`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.memory import Pointers
from quod.kernel.interpreter.run import Frame, Lanes, Mask, Run, array
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.semantics import Array

Step = Callable[[Frame, Run, Mask], None]


class Region(Protocol):
    """A compiled region; see `quod.kernel.interpreter.program.Region`."""

    @property
    def arguments(self) -> list[int]: ...

    def run(self, frame: Frame, run: Run, mask: Mask) -> list[Lanes]: ...


def branch(op: Op, regions: Sequence[Region], operands: list[int], results: list[int]) -> Step:
    """Make the step of a branch; each side runs if any instance takes it."""
    then, otherwise = regions
    (condition,) = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        holds = array(frame[condition])
        then_mask, else_mask = mask.where(holds), mask.where(~holds)
        values = then.run(frame, run, then_mask) if then_mask.any else None
        if else_mask.any:
            else_values = otherwise.run(frame, run, else_mask)
            if values is None:
                values = else_values
            else:
                values = [_select(holds, a, b) for a, b in zip(values, else_values, strict=True)]
        for result, lanes in zip(results, values or (), strict=values is not None):
            frame[result] = lanes

    return step


def counted_loop(
    op: Op, regions: Sequence[Region], operands: list[int], results: list[int]
) -> Step:
    """Make the step of a counted loop, which runs until no instance continues."""
    (body,) = regions
    start_slot, stop_slot, step_slot = operands[:3]
    initial = operands[3:]
    index_type = op.operands[0].type

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        index, stop, advance = (array(frame[slot]) for slot in (start_slot, stop_slot, step_slot))
        carried = [frame[slot] for slot in initial]
        if (advance[mask.bits] <= 0).any():
            raise InterpreterError("the step of a loop must be above zero", op.location)
        running = mask.where(index < stop)
        iterations = 0
        while running.any:
            iterations = _count_iteration(iterations, run, op)
            for slot, lanes in zip(body.arguments, (index, *carried), strict=True):
                frame[slot] = lanes
            carried = _merge(running, body.run(frame, run, running), carried)
            advanced = index + advance
            if np.count_nonzero(running.bits & (advanced < index)):
                raise InterpreterError(
                    f"the index of a loop passes the end of {index_type}", op.location
                )
            index = advanced if running.full else np.where(running.bits, advanced, index)
            running = running.where(index < stop)
        for slot, lanes in zip(results, carried, strict=True):
            frame[slot] = lanes

    return step


def checked_loop(
    op: Op, regions: Sequence[Region], operands: list[int], results: list[int]
) -> Step:
    """Make the step of a `while` loop, which runs until its check fails for all instances."""
    head, body = regions

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        carried = [frame[slot] for slot in operands]
        running = mask
        iterations = 0
        while True:
            for slot, lanes in zip(head.arguments, carried, strict=True):
                frame[slot] = lanes
            (holds,) = head.run(frame, run, running)
            running = running.where(array(holds))
            if not running.any:
                break
            iterations = _count_iteration(iterations, run, op)
            carried = _merge(running, body.run(frame, run, running), carried)
        for slot, lanes in zip(results, carried, strict=True):
            frame[slot] = lanes

    return step


def _count_iteration(iterations: int, run: Run, op: Op) -> int:
    if iterations == run.iteration_limit:
        raise InterpreterError(f"the loop ran {iterations} times and goes on", op.location)
    return iterations + 1


def _merge(running: Mask, next_values: list[Lanes], carried: list[Lanes]) -> list[Lanes]:
    """Return the next carried values; an instance that has left the loop keeps its last ones."""
    if running.full:
        return next_values
    return [_select(running.bits, a, b) for a, b in zip(next_values, carried, strict=True)]


def _select(condition: Array, a: Lanes, b: Lanes) -> Lanes:
    if isinstance(a, Pointers):
        assert isinstance(b, Pointers)
        is_one_buffer = (
            isinstance(a.buffer, int) and isinstance(b.buffer, int) and a.buffer == b.buffer
        )
        return Pointers(
            a.buffer if is_one_buffer else np.where(condition, a.buffer, b.buffer),
            np.where(condition, a.offset, b.offset),
        )
    return np.where(condition, a, array(b))
