"""Witnesses by compiled programs, for one input or many at once, and which rows they fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.device.written import check_written, mark, unwritten
from quod.field.array import Words, from_integers, integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.r1cs.kernels import failing_rows, replay_program, witness_values
from quod.r1cs.program import ONE_REGISTER, ZERO, Call, Program
from quod.r1cs.replay import hinted
from quod.r1cs.shape import Shape

InputNumbers = tuple[list[int], int]
"""What `quod.r1cs.inputs.checked_inputs` gives."""

# Registers of so many bytes are at work at a time.
_MOST_BYTES = 1 << 30
# Workgroups of a launch for each thread: one that is held up is not waited for each time.
_ROUNDS = 4


class ProgramRunner:
    """Runs a program on this machine's processor."""

    def __init__(self, program: Program, modulus: Modulus) -> None:
        self.program, self.modulus = program, modulus
        self._terms = _filled(program.terms)
        self._coefficients = _filled(from_integers(modulus, program.coefficients))

    def run(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """The values of all wires for each input, (inputs, wires, words), as integers; and which
        inputs divide by 0, whose values are not to be used.

        DeviceError if the processor has left something out: what an earlier witness left in
        memory may look like one.
        """
        device = resolve_device("cpu")
        program, modulus = self.program, self.modulus
        # One input has the processor's own words, without lanes that idle.
        width = 1 if len(inputs) == 1 else device.lanes
        size = program.registers * width * modulus.bytes
        groups = min(
            -(-len(inputs) // width), max(1, min(device.multiprocessors, _MOST_BYTES // size))
        )
        values = np.empty((groups, program.registers, width, modulus.words), np.uint32)
        values[:, ZERO] = 0
        values[:, ONE_REGISTER] = from_integers(modulus, [1])
        out = unwritten(len(inputs), len(program.outputs), modulus.words)
        divides = np.zeros(len(inputs), np.bool_)
        for at in range(0, len(inputs), groups * width):
            own = slice(at, at + groups * width)
            divides[own] = self._run(device, inputs[own], values, out[own])
        return out, divides

    def _run(
        self, device: AnyDevice, inputs: Sequence[InputNumbers], values: Words, out: Words
    ) -> NDArray[np.bool_]:
        program, modulus, width = self.program, self.modulus, values.shape[2]
        groups = -(-len(inputs) // width)
        elements, bits = self._laid_out(inputs, groups, width)
        flags = np.zeros(groups * width, np.uint32)
        compiled = device.compile(replay_program, lanes=width, modulus=modulus)
        reached = unwritten(groups * width, 1)
        first = 0
        for number, last in enumerate(program.stretches):
            mark(reached)
            device.launch(
                compiled, groups, first, last, program.registers, elements.shape[1],
                bits.shape[1], program.instructions, self._terms, self._coefficients, elements,
                bits, values, flags, reached,
            )  # fmt: skip
            check_written(device, "the values of a witness", reached)
            first = last
            if number < len(program.calls):
                self._call(program.calls[number], values, elements, len(inputs))
        wires = len(program.outputs)
        count = len(inputs) * wires
        gather = device.compile(witness_values, modulus=modulus)
        device.launch(
            gather, -(-count // device.lanes), count, width, program.registers, wires,
            program.outputs, values, out,
        )  # fmt: skip
        check_written(device, "witnesses", out)
        divides: NDArray[np.bool_] = flags[: len(inputs)] != 0
        return divides

    def _laid_out(
        self, inputs: Sequence[InputNumbers], groups: int, width: int
    ) -> tuple[Words, NDArray[np.uint32]]:
        """The elements and the bits of inputs as the kernel reads them."""
        program, modulus = self.program, self.modulus
        count = len(program.element_wires)
        elements = np.zeros((groups * width, max(1, program.elements), modulus.words), np.uint32)
        numbers = [number for own, _ in inputs for number in own]
        if numbers:
            words = integers_to_words(modulus, numbers)
            elements[: len(inputs), :count] = words.reshape(len(inputs), count, modulus.words)
        bytes_ = 4 * max(1, -(-len(program.bit_wires) // 32))
        raw = b"".join([number.to_bytes(bytes_, "little") for _, number in inputs])
        bits = np.zeros((groups * width, bytes_ // 4), np.uint32)
        bits[: len(inputs)] = np.frombuffer(raw, "<u4").reshape(len(inputs), -1)
        return _by_group(elements, groups), _by_group(bits, groups)

    def _call(self, call: Call, values: Words, elements: Words, inputs: int) -> None:
        """Asks a hint for each input."""
        modulus, width = self.modulus, values.shape[2]
        for number in range(inputs):
            group, lane = divmod(number, width)
            raw = np.ascontiguousarray(values[group, list(call.arguments), lane], "<u4").tobytes()
            size = modulus.bytes
            numbers = [
                int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)
            ]
            results = hinted(call.hint, numbers, modulus.value)
            elements[group, list(call.results), lane] = integers_to_words(modulus, results)


class RowChecker:
    """Looks at all rows of a system for witnesses, on this machine's processor."""

    def __init__(self, shape: Shape, modulus: Modulus) -> None:
        sides = shape.sides
        self.modulus, self.rows = modulus, len(sides[0].row_ptr) - 1
        self._numbers = _filled(np.concatenate([side.number for side in sides]))
        self._columns = _filled(np.concatenate([side.column for side in sides]))
        starts = np.cumsum([0, *(len(side.column) for side in sides)])
        ends = [side.row_ptr[:-1] + start for side, start in zip(sides, starts, strict=False)]
        self._ends = np.concatenate([*ends, starts[-1:]]).astype(np.uint32)
        numbers = words_to_integers(modulus, shape.coefficients)
        radix = modulus.montgomery_radix
        self._coefficients = _filled(from_integers(modulus, [own * radix for own in numbers]))

    def failing(self, witnesses: Words) -> NDArray[np.bool_]:
        """Which rows, (witnesses, rows), do not hold for (witnesses, wires, words) integers;
        DeviceError if the processor has left something out."""
        device = resolve_device("cpu")
        count, wires, _ = witnesses.shape
        failing = unwritten(count, self.rows, 1)
        compiled = device.compile(failing_rows, modulus=self.modulus)
        device.launch(
            compiled, -(-failing.size // device.lanes), failing.size, self.rows, wires, self._ends,
            self._columns, self._numbers, self._coefficients, np.ascontiguousarray(witnesses),
            failing,
        )  # fmt: skip
        check_written(device, "which constraints fail", failing)
        found: NDArray[np.bool_] = failing[..., 0] != 0
        return found


def _filled(array: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The array, or one entry of zeros for none."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), np.uint32)


def _by_group(rows: NDArray[np.uint32], groups: int) -> NDArray[np.uint32]:
    """Rows of inputs as (group, place, instance)."""
    own = rows.reshape(groups, -1, *rows.shape[1:])
    return np.ascontiguousarray(np.swapaxes(own, 1, 2))
