"""Execution of compiled witness programs for batches of inputs, and the check of constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import UNWRITTEN, check_written, mark, not_written, unwritten
from quod.field.array import Words, from_integers, integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.r1cs.inputs import InputNumbers, with_input_index
from quod.r1cs.kernels import (
    InputCounts,
    ProgramTables,
    ReplayArrays,
    count_unwritten,
    failing_rows,
    replay_program,
    witness_values,
)
from quod.r1cs.shape import Shape
from quod.r1cs.witness_program.instructions import Call, Program
from quod.r1cs.witness_program.replay import hinted

# Registers of so many bytes are at work at a time.
_MAX_BYTES = 1 << 30
# Workgroups of a launch for each thread: one that is held up is not waited for each time.
_ROUNDS = 4


# Instances of a workgroup of a GPU, where all go the same way.
_GPU_WIDTH = 32
# Instances that look for what was not written.
_LOOKING = 1 << 13


class ProgramRunner:
    """The execution of a witness program on a device, by default the CPU."""

    def __init__(self, program: Program, modulus: Modulus, device: AnyDevice | None = None) -> None:
        self.program, self.modulus, self._device_choice = program, modulus, device

    @property
    def device(self) -> AnyDevice:
        """The device; the CPU is resolved at each access, as a failed one is opened again."""
        return self._device_choice or resolve_device("cpu")

    @cached_property
    def _tables(self) -> ProgramTables:
        """The instructions, their terms, and coefficients, where the device reads them."""
        program = self.program
        tables = (
            program.instructions, _filled(program.terms),
            _filled(from_integers(self.modulus, program.coefficients)),
        )  # fmt: skip
        return ProgramTables(*[_where(self.device, table) for table in tables])

    def run(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """Compute all wires for each input: (inputs, wires, words) integers, and a mask.

        The mask is true for inputs that divide by 0, whose values are meaningless. DeviceError if
        the device has not written every value, as stale memory may look like a witness.
        """
        out = unwritten(len(inputs), len(self.program.outputs), self.modulus.words)
        divides = self._in_parts(inputs, lambda start, stop: out[start:stop])
        check_written(self.device, "witnesses", out)
        return out, divides

    def run_resident(
        self, inputs: Sequence[InputNumbers]
    ) -> tuple[list[Buffer], NDArray[np.bool_]]:
        """Compute witnesses in the device's memory, without copying values to the host.

        Returns the witnesses in one buffer, or in several if they exceed the device's largest
        buffer, and the mask of inputs that divide by 0.
        """
        memories = list[Buffer]()

        def part(start: int, stop: int) -> Buffer:
            memories.append(self._unwritten(stop - start))
            return memories[-1]

        divides = self._in_parts(inputs, part)
        for memory in memories:
            self._check_written(memory)
        return memories, divides

    def _unwritten(self, count: int) -> Buffer:
        """Allocate device memory for `count` witnesses, marked as not yet written."""
        device = self.device
        out = device.allocate(count * self._row, zero=False)
        filling = device.stream("witnesses").record()
        filling.fill(out, UNWRITTEN)
        filling.finish().run()
        return out

    def _check_written(self, out: Buffer) -> None:
        device, size = self.device, self.modulus.bytes
        look, count = device.compile(count_unwritten, words=self.modulus.words), out.nbytes // size
        unwritten_counts = unwritten(min(count, _LOOKING), 1)
        groups = -(-len(unwritten_counts) // device.lanes)
        device.launch(look, groups, count, len(unwritten_counts), out, unwritten_counts)
        if unwritten_counts.any():
            raise not_written(device, "witnesses")

    @property
    def _row(self) -> int:
        """Bytes of a witness."""
        return len(self.program.outputs) * self.modulus.bytes

    def _in_parts(
        self, inputs: Sequence[InputNumbers], part: Callable[[int, int], Any]
    ) -> NDArray[np.bool_]:
        """Compute inputs in chunks that fit in memory; return the mask of those that divide by 0.

        part: returns the array or buffer for the witnesses of inputs start to stop - 1.
        """
        device, size = self.device, self.program.registers * self.modulus.bytes
        on_host = in_host_memory(device)
        each = max(size, self._row)
        # One input has the processor's own words, without lanes that idle.
        width = (1 if len(inputs) == 1 else device.lanes) if on_host else _width(device, each)
        most = max(1, _most_bytes(device) // (each * width))
        groups = min(-(-len(inputs) // width), most)
        if on_host:
            groups = min(groups, device.multiprocessors)
        values: Any = (
            np.empty((groups, self.program.registers, width, self.modulus.words), np.uint32)
            if on_host
            else device.allocate(groups * size * width, zero=False)
        )
        divides = np.zeros(len(inputs), np.bool_)
        for start in range(0, len(inputs), groups * width):
            stop = min(start + groups * width, len(inputs))
            places = range(start, stop)
            divides[start:stop] = self._run(inputs, places, width, values, part(start, stop))
        return divides

    def _run(
        self, inputs: Sequence[InputNumbers], places: range, width: int, values: Any, out: Any
    ) -> NDArray[np.bool_]:
        device, program, modulus = self.device, self.program, self.modulus
        count = len(places)
        groups = -(-count // width)
        elements, bits = self._laid_out(inputs[places.start : places.stop], groups, width)
        flags = np.zeros(groups * width, np.uint32)
        compiled = device.compile(replay_program, lanes=width, modulus=modulus)
        reached = unwritten(groups * width, 1)
        counts = InputCounts(program.registers, elements.shape[1], bits.shape[1])
        arrays = ReplayArrays(elements, bits, values, flags, reached)
        first = 0
        for number, last in enumerate(program.stretches):
            mark(reached)
            device.launch(compiled, groups, first, last, counts, self._tables, arrays)
            check_written(device, "the values of a witness", reached)
            first = last
            if number < len(program.calls):
                arguments = self._arguments(program.calls[number], width, values, count)
                for index in np.flatnonzero(flags[:count] == 0).tolist():
                    with with_input_index(places[index], len(inputs)):
                        self._call(
                            program.calls[number], arguments[index], elements, *divmod(index, width)
                        )
        self._gather(program.outputs, width, values, out, count)
        divides: NDArray[np.bool_] = flags[:count] != 0
        return divides

    def _gather(
        self, registers: NDArray[np.uint32], width: int, values: Any, out: Any, inputs: int,
        *, are_integers: bool = False,
    ) -> None:  # fmt: skip
        """Copy the given registers of each input to `out`, input by input."""
        device, count = self.device, inputs * len(registers)
        gather = device.compile(witness_values, modulus=self.modulus, are_integers=are_integers)
        device.launch(
            gather, -(-count // device.lanes), count, width, self.program.registers,
            len(registers), registers, values, out,
        )  # fmt: skip

    def _laid_out(
        self, inputs: Sequence[InputNumbers], groups: int, width: int
    ) -> tuple[Words, NDArray[np.uint32]]:
        """Arrange the elements and bits of inputs in the kernel's layout."""
        program, modulus = self.program, self.modulus
        count = len(program.element_wires)
        elements = np.zeros((groups * width, max(1, program.elements), modulus.words), np.uint32)
        numbers = [number for elements_of_input, _ in inputs for number in elements_of_input]
        if numbers:
            words = integers_to_words(modulus, numbers)
            elements[: len(inputs), :count] = words.reshape(len(inputs), count, modulus.words)
        bytes_ = 4 * max(1, -(-len(program.bit_wires) // 32))
        raw = b"".join([number.to_bytes(bytes_, "little") for _, number in inputs])
        bits = np.zeros((groups * width, bytes_ // 4), np.uint32)
        bits[: len(inputs)] = np.frombuffer(raw, "<u4").reshape(len(inputs), -1)
        return _by_group(elements, groups), _by_group(bits, groups)

    def _arguments(self, call: Call, width: int, values: Any, inputs: int) -> Words:
        """The arguments of a hint for each input: (inputs, arguments, words) integers."""
        arguments = unwritten(inputs, len(call.arguments), self.modulus.words)
        if call.arguments:
            registers = np.array(call.arguments, np.uint32)
            self._gather(registers, width, values, arguments, inputs, are_integers=True)
            check_written(self.device, "the arguments of a hint", arguments)
        return arguments

    def _call(self, call: Call, arguments: Words, elements: Words, group: int, lane: int) -> None:
        """Call a hint for one input; callers skip inputs that divide by 0."""
        modulus = self.modulus
        results = hinted(call.hint, words_to_integers(modulus, arguments), modulus.value)
        elements[group, list(call.results), lane] = integers_to_words(modulus, results)


class RowChecker:
    """The check of a system's constraints on witnesses, on a device, by default the CPU."""

    def __init__(self, shape: Shape, modulus: Modulus, device: AnyDevice | None = None) -> None:
        sides = shape.sides
        self.modulus, self.rows, self._device_choice = modulus, len(sides[0].row_ptr) - 1, device
        numbers = np.concatenate([side.number for side in sides])
        columns = np.concatenate([side.column for side in sides])
        starts = np.cumsum([0, *(len(side.column) for side in sides)])
        ends = [side.row_ptr[:-1] + start for side, start in zip(sides, starts, strict=False)]
        coefficients = words_to_integers(modulus, shape.coefficients)
        radix = modulus.montgomery_radix
        self._host_tables = (
            np.concatenate([*ends, starts[-1:]]).astype(np.uint32), _filled(columns),
            _filled(numbers),
            _filled(from_integers(modulus, [coefficient * radix for coefficient in coefficients])),
        )  # fmt: skip

    @property
    def device(self) -> AnyDevice:
        """The device; the CPU is resolved at each access, as a failed one is opened again."""
        return self._device_choice or resolve_device("cpu")

    @cached_property
    def _tables(self) -> list[Any]:
        return [_where(self.device, table) for table in self._host_tables]

    def failing(self, witnesses: Words) -> NDArray[np.bool_]:
        """Return a mask (witnesses, rows), true where a row fails.

        witnesses: (witnesses, wires, words) integers. DeviceError if the device has not written
        every result.
        """
        return self.failing_of(np.ascontiguousarray(witnesses), *witnesses.shape[:2])

    def failing_of(self, witnesses: Words | Buffer, count: int, wires: int) -> NDArray[np.bool_]:
        """Return a mask (count, rows), true where a row fails; see `failing`.

        witnesses: `count` witnesses of `wires` integers each, in host or device memory.
        """
        device, size = self.device, wires * self.modulus.bytes
        mask = np.empty((count, self.rows), np.bool_)
        compiled = device.compile(failing_rows, modulus=self.modulus)
        for start, stop in _parts(device, count, size):
            failing = unwritten(stop - start, self.rows, 1)
            part = (
                witnesses.slice(start * size, stop * size)
                if isinstance(witnesses, Buffer)
                else witnesses[start:stop]
            )
            device.launch(
                compiled, -(-failing.size // device.lanes), failing.size, self.rows, wires,
                *self._tables, part, failing,
            )  # fmt: skip
            check_written(device, "which constraints fail", failing)
            mask[start:stop] = failing[..., 0] != 0
        return mask


def _most_bytes(device: AnyDevice) -> int:
    """The largest buffer in bytes that a kernel gets."""
    return min(_MAX_BYTES, device.largest_buffer)


def _width(device: AnyDevice, size: int) -> int:
    """Instances of a workgroup of a GPU that have so many bytes each in one buffer: fewer where it
    reaches less."""
    width = _GPU_WIDTH
    while width > 1 and width * size > device.largest_buffer:
        width //= 2
    return width


def _parts(device: AnyDevice, count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of chunks of `count` items of `size` bytes that fit in one buffer."""
    step = max(1, _most_bytes(device) // size)
    for start in range(0, count, step):
        yield start, min(start + step, count)


def _where(device: AnyDevice, table: NDArray[np.uint32]) -> Any:
    """Return a table in memory that kernels of the device can read."""
    return table if in_host_memory(device) else device.upload(table)


def _filled(array: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the array, or one entry of zeros if it is empty, as kernels need an entry."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), np.uint32)


def _by_group(rows: NDArray[np.uint32], groups: int) -> NDArray[np.uint32]:
    """Rearrange a row per input to (group, index, instance)."""
    by_group = rows.reshape(groups, -1, *rows.shape[1:])
    return np.ascontiguousarray(np.swapaxes(by_group, 1, 2))
