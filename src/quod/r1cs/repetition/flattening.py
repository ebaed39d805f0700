"""Flattening: a system with placements as an equal system without them.

Messages, profiles, lints, the determinism check and witnesses computed as one program need the
namespace, the line and the step of each row. The result equals that of tracing without
`ConstraintSystem.repeat`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from quod.errors import InputError
from quod.r1cs.names import path_name
from quod.r1cs.signal import ONE, Signal
from quod.r1cs.traced import Placement, TracedSystem
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero, Solve

S = TypeVar("S", bound=TracedSystem)

MAX_ROWS = 1 << 23
"""The largest number of rows of a flattened system; a row takes about 1 KB."""


def flattened(system: S) -> S:
    """Return a finished system without placements; a system that has none is returned itself.

    Raises InputError for a system of more than `MAX_ROWS` rows.
    """
    if not system.placements:
        return system
    if system.rows > MAX_ROWS:
        raise InputError(
            f"the circuit has {system.rows} constraints; at most {MAX_ROWS} can be listed one by "
            "one; use a smaller circuit of the same blocks"
        )
    return _Flattening(system).result


class _Flattening(Generic[S]):
    """The copy of a system with the rows, wires and steps of its placements in their order."""

    def __init__(self, system: S) -> None:
        self.source, self.result = system, type(system)(system.curve)
        self._copy_attributes()
        # The number of the source's own rows before each placement; `_flat_row` searches it.
        self._own_starts = [placement.own_rows for placement in system.placements]
        rows = wires = steps = 0
        for placement in system.placements:
            self._copy_own(rows, placement.own_rows, wires, placement.own_wires)
            self._copy_own_steps(steps, placement.own_steps)
            rows, wires, steps = placement.own_rows, placement.own_wires, placement.own_steps
            self._copy_placement(placement)
        self._copy_own(rows, len(system.row_paths), wires, len(system.wire_paths))
        self._copy_own_steps(steps, len(system.steps))

    def _copy_attributes(self) -> None:
        source, result = self.source, self.result
        result.inputs, result.public_names = source.inputs, source.public_names
        result.outputs, result.outputs_first = source.outputs, source.outputs_first
        result.private_inputs, result.is_finished = source.private_inputs, source.is_finished
        result.wires, result.rows = source.wires, source.rows
        result.wire_names, result.free_wires = dict(source.wire_names), set(source.free_wires)
        for parent, name in source.paths[1:]:
            result.path_of(parent, name)

    def _copy_own(self, row: int, end_row: int, wire: int, end_wire: int) -> None:
        """Copy rows and wires of the source itself, not of its placements."""
        source, result = self.source, self.result
        for side in range(3):
            ends = source.ends[side]
            start, end = ends[row - 1] if row else 0, ends[end_row - 1] if end_row else 0
            shift = len(result.columns[side]) - start
            result.columns[side].extend(source.columns[side][start:end])
            result.values[side].extend(source.values[side][start:end])
            result.ends[side].extend([position + shift for position in ends[row:end_row]])
        result.row_paths += source.row_paths[row:end_row]
        result.row_codes += source.row_codes[row:end_row]
        result.row_instructions += source.row_instructions[row:end_row]
        result.wire_paths += source.wire_paths[wire:end_wire]

    def _copy_own_steps(self, start: int, end: int) -> None:
        for step in self.source.steps[start:end]:
            if type(step) is Solve:
                self.result.steps.append(Solve(step.wire, self._flat_row(step.row), step.side))
            else:
                self.result.steps.append(step)

    def _flat_row(self, row: int) -> int:
        """Return the index of one of the source's own rows among all rows."""
        index = bisect_right(self._own_starts, row)
        if not index:
            return row
        before = self.source.placements[index - 1]
        return before.row + before.block.system.rows + row - before.own_rows

    def _copy_placement(self, placement: Placement) -> None:
        result, block = self.result, placement.block
        inner = flattened(block.system)
        # Indexed by wire: public wires are negative and count from the end.
        wires = [
            0, *placement.arguments,
            *range(placement.wire + 1, placement.wire + block.wires + 1),
            *range(-placement.public - len(inner.public_names), -placement.public),
        ]  # fmt: skip
        for side in range(3):
            shift = len(result.columns[side])
            result.columns[side].extend([wires[wire] for wire in inner.columns[side]])
            result.values[side].extend(inner.values[side])
            result.ends[side].extend([position + shift for position in inner.ends[side]])
        paths = [placement.path]
        for parent, name in inner.paths[1:]:
            paths.append(result.path_of(paths[parent], name))
        result.row_paths += [paths[path] for path in inner.row_paths]
        result.row_codes += inner.row_codes
        result.row_instructions += inner.row_instructions
        result.wire_paths += [paths[path] for path in inner.wire_paths[block.formal_wires :]]
        result.wire_names |= {wires[wire]: _relative(inner, wire) for wire in inner.wire_names}
        result.free_wires |= {wires[wire] for wire in inner.free_wires}
        self._copy_steps(inner, placement.row, wires)

    def _copy_steps(self, inner: TracedSystem, row: int, wires: list[int]) -> None:
        """Copy the steps of a block, whose first row is `row`."""
        steps = self.result.steps
        signals: dict[int, Signal] = {}

        def outer(signal: Signal) -> Signal:
            # The bits of a signal share it.
            if (copy := signals.get(id(signal))) is None:
                mapped = tuple([wires[wire] for wire in signal.wires])
                copy = Signal(self.result, mapped, signal.coefficients, signal.limit)
                signals[id(signal)] = copy
            return copy

        for step in inner.steps:
            if type(step) is Solve:
                steps.append(Solve(wires[step.wire], row + step.row, step.side))
            elif type(step) is Bit:
                steps.append(Bit(wires[step.wire], outer(step.signal), step.position))
            elif type(step) is InverseOrZero:
                steps.append(InverseOrZero(wires[step.wire], outer(step.signal)))
            else:
                assert type(step) is Hint
                arguments = tuple([outer(argument) for argument in step.arguments])
                step_wires = [wires[wire] for wire in step.wires]
                steps.append(Hint(step_wires, step.function, arguments))


def _relative(system: TracedSystem, wire: int) -> str:
    """Return a wire's name without the namespace, which `name_here` puts before the name."""
    name = system.wire_names[wire]
    if wire < ONE:
        return name
    return name.removeprefix(f"{path_name(system, system.wire_paths[wire - 1])}/")
