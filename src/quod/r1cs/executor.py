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

# Bytes of registers, at most, that one launch works on.
_MAX_BYTES = 1 << 30
# Workgroup size on a GPU; all instances of a workgroup take the same branches.
_GPU_WORKGROUP_SIZE = 32
# Instances, at most, that look for unwritten elements.
_MAX_CHECK_INSTANCES = 1 << 13


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
        """The instructions, terms and coefficients, in memory that the device reads."""
        program = self.program
        tables = (
            program.instructions, _nonempty(program.terms),
            _nonempty(from_integers(self.modulus, program.coefficients)),
        )  # fmt: skip
        return ProgramTables(*[_readable_table(self.device, table) for table in tables])

    def run(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """Compute all wires; return integers, (inputs, wires, words) u32, and a mask of inputs.

        The mask is true for inputs that divide by 0; their values are meaningless. Raises
        DeviceError if the device has not written every value: stale memory could pass for a
        witness.
        """
        out = unwritten(len(inputs), len(self.program.outputs), self.modulus.words)
        divides = self._compute_in_chunks(inputs, lambda start, stop: out[start:stop])
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

        def chunk_output(start: int, stop: int) -> Buffer:
            memories.append(self._unwritten(stop - start))
            return memories[-1]

        divides = self._compute_in_chunks(inputs, chunk_output)
        for memory in memories:
            self._check_written(memory)
        return memories, divides

    def _unwritten(self, count: int) -> Buffer:
        """Allocate device memory for `count` witnesses, marked as not yet written."""
        device = self.device
        out = device.allocate(count * self._row, zero=False)
        recording = device.stream("witnesses").record()
        recording.fill(out, UNWRITTEN)
        recording.finish().run()
        return out

    def _check_written(self, out: Buffer) -> None:
        """Raise DeviceError if a value of witnesses in device memory was not written."""
        device, size = self.device, self.modulus.bytes
        compiled, count = (
            device.compile(count_unwritten, words=self.modulus.words),
            out.nbytes // size,
        )
        unwritten_counts = unwritten(min(count, _MAX_CHECK_INSTANCES), 1)
        groups = -(-len(unwritten_counts) // device.lanes)
        device.launch(compiled, groups, count, len(unwritten_counts), out, unwritten_counts)
        if unwritten_counts.any():
            raise not_written(device, "witnesses")

    @property
    def _row(self) -> int:
        """The size of a witness in bytes."""
        return len(self.program.outputs) * self.modulus.bytes

    def _compute_in_chunks(
        self, inputs: Sequence[InputNumbers], output_of: Callable[[int, int], Any]
    ) -> NDArray[np.bool_]:
        """Compute inputs in chunks that fit in memory; return the mask of those that divide by 0.

        output_of: returns the array or buffer for the witnesses of inputs start to stop - 1.
        """
        device, register_bytes = self.device, self.program.registers * self.modulus.bytes
        on_host = in_host_memory(device)
        item_bytes = max(register_bytes, self._row)
        # Workgroups of `width` instances; on the CPU each instance is a SIMD lane.
        # A single input runs without SIMD, as all other lanes would idle.
        width = (
            (1 if len(inputs) == 1 else device.lanes)
            if on_host
            else _workgroup_size(device, item_bytes)
        )
        max_groups = max(1, _max_buffer_bytes(device) // (item_bytes * width))
        groups = min(-(-len(inputs) // width), max_groups)
        if on_host:
            groups = min(groups, device.multiprocessors)
        values: Any = (
            np.empty((groups, self.program.registers, width, self.modulus.words), np.uint32)
            if on_host
            else device.allocate(groups * register_bytes * width, zero=False)
        )
        divides = np.zeros(len(inputs), np.bool_)
        for start in range(0, len(inputs), groups * width):
            stop = min(start + groups * width, len(inputs))
            indices = range(start, stop)
            divides[start:stop] = self._run(inputs, indices, width, values, output_of(start, stop))
        return divides

    def _run(
        self, inputs: Sequence[InputNumbers], indices: range, width: int, values: Any, out: Any
    ) -> NDArray[np.bool_]:
        """Compute the inputs at `indices` in one launch per stretch, and call hints in between.

        Returns the mask of inputs that divide by 0.
        """
        device, program, modulus = self.device, self.program, self.modulus
        count = len(indices)
        groups = -(-count // width)
        elements, bits = self._arrange(inputs[indices.start : indices.stop], groups, width)
        flags = np.zeros(groups * width, np.uint32)
        compiled = device.compile(replay_program, lanes=width, modulus=modulus)
        reached = unwritten(groups * width, 1)
        counts = InputCounts(program.registers, elements.shape[1], bits.shape[1])
        arrays = ReplayArrays(elements, bits, values, flags, reached)
        first = 0
        for stretch_index, last in enumerate(program.stretches):
            mark(reached)
            device.launch(compiled, groups, first, last, counts, self._tables, arrays)
            check_written(device, "the values of a witness", reached)
            first = last
            if stretch_index < len(program.calls):
                arguments = self._arguments(program.calls[stretch_index], width, values, count)
                for index in np.flatnonzero(flags[:count] == 0).tolist():
                    with with_input_index(indices[index], len(inputs)):
                        self._call(
                            program.calls[stretch_index],
                            arguments[index],
                            elements,
                            *divmod(index, width),
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

    def _arrange(
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
        byte_length = 4 * max(1, -(-len(program.bit_wires) // 32))
        raw = b"".join([number.to_bytes(byte_length, "little") for _, number in inputs])
        bits = np.zeros((groups * width, byte_length // 4), np.uint32)
        bits[: len(inputs)] = np.frombuffer(raw, "<u4").reshape(len(inputs), -1)
        return _by_group(elements, groups), _by_group(bits, groups)

    def _arguments(self, call: Call, width: int, values: Any, inputs: int) -> Words:
        """Return the arguments of a hint: integers, (inputs, arguments, words) u32."""
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
            np.concatenate([*ends, starts[-1:]]).astype(np.uint32), _nonempty(columns),
            _nonempty(numbers),
            _nonempty(from_integers(modulus, [value * radix for value in coefficients])),
        )  # fmt: skip

    @property
    def device(self) -> AnyDevice:
        """The device; the CPU is resolved at each access, as a failed one is opened again."""
        return self._device_choice or resolve_device("cpu")

    @cached_property
    def _tables(self) -> list[Any]:
        return [_readable_table(self.device, table) for table in self._host_tables]

    def failing(self, witnesses: Words) -> NDArray[np.bool_]:
        """Return a mask (witnesses, rows), true where a row fails.

        witnesses: integers, (witnesses, wires, words) u32.
        Raises DeviceError if the device has not written every result.
        """
        return self.failing_of(np.ascontiguousarray(witnesses), *witnesses.shape[:2])

    def failing_of(self, witnesses: Words | Buffer, count: int, wires: int) -> NDArray[np.bool_]:
        """Return a mask (count, rows), true where a row fails; see `failing`.

        witnesses: `count` witnesses of `wires` integers each, in host or device memory.
        """
        device, witness_bytes = self.device, wires * self.modulus.bytes
        mask = np.empty((count, self.rows), np.bool_)
        compiled = device.compile(failing_rows, modulus=self.modulus)
        for start, stop in _chunks(device, count, witness_bytes):
            failing = unwritten(stop - start, self.rows, 1)
            chunk = (
                witnesses.slice(start * witness_bytes, stop * witness_bytes)
                if isinstance(witnesses, Buffer)
                else witnesses[start:stop]
            )
            device.launch(
                compiled, -(-failing.size // device.lanes), failing.size, self.rows, wires,
                *self._tables, chunk, failing,
            )  # fmt: skip
            check_written(device, "which constraints fail", failing)
            mask[start:stop] = failing[..., 0] != 0
        return mask


def _max_buffer_bytes(device: AnyDevice) -> int:
    """Return the size in bytes of the largest buffer to pass to a kernel."""
    return min(_MAX_BYTES, device.largest_buffer)


def _workgroup_size(device: AnyDevice, size: int) -> int:
    """Return the workgroup size on a GPU: `size` bytes per instance must fit in one buffer."""
    width = _GPU_WORKGROUP_SIZE
    while width > 1 and width * size > device.largest_buffer:
        width //= 2
    return width


def _chunks(device: AnyDevice, count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of chunks of `count` items of `size` bytes that fit in a buffer."""
    step = max(1, _max_buffer_bytes(device) // size)
    for start in range(0, count, step):
        yield start, min(start + step, count)


def _readable_table(device: AnyDevice, table: NDArray[np.uint32]) -> Any:
    """Return a table in memory that kernels of the device can read."""
    return table if in_host_memory(device) else device.upload(table)


def _nonempty(array: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the array, or one entry of zeros if it is empty, as kernels need an entry."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), np.uint32)


def _by_group(rows: NDArray[np.uint32], groups: int) -> NDArray[np.uint32]:
    """Rearrange a row per input to (group, index, instance)."""
    by_group = rows.reshape(groups, -1, *rows.shape[1:])
    return np.ascontiguousarray(np.swapaxes(by_group, 1, 2))
