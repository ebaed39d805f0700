"""Steps of the interpreter for ops that access memory or other instances.

The functions are named like the ops, or as `interpreter_function` in the op table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from quod.kernel.builder import matrices
from quod.kernel.errors import AssertionFailure, InterpreterError
from quod.kernel.interpreter.collectives import check_uniform_mask, forget_accesses
from quod.kernel.interpreter.memory import (
    SHARED_ALIGNMENT,
    Buffer,
    Pointers,
    PrivateBuffer,
    SharedBuffer,
)

# Steps that the program looks up in this module, like those defined below.
from quod.kernel.interpreter.products import mma_commit as mma_commit
from quod.kernel.interpreter.products import mma_rows as mma_rows
from quod.kernel.interpreter.products import mma_tiles as mma_tiles
from quod.kernel.interpreter.products import mma_wait as mma_wait
from quod.kernel.interpreter.run import Frame, Mask, Run, array
from quod.kernel.interpreter.tiles import cluster_barrier as cluster_barrier
from quod.kernel.interpreter.tiles import copy_tile as copy_tile
from quod.kernel.interpreter.tiles import mbarrier_arrive as mbarrier_arrive
from quod.kernel.interpreter.tiles import mbarrier_expect as mbarrier_expect
from quod.kernel.interpreter.tiles import mbarrier_init as mbarrier_init
from quod.kernel.interpreter.tiles import mbarrier_wait as mbarrier_wait
from quod.kernel.interpreter.tiles import registers as registers
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value
from quod.kernel.ops.scalar import OPS, distances
from quod.kernel.ops.semantics import NUMPY_TYPES

Step = Callable[[Frame, Run, Mask], None]


def _element(pointer: Value) -> Type:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def _addresses(frame: Frame, pointer: int, index: int, size: int) -> Pointers:
    pointers = frame[pointer]
    assert isinstance(pointers, Pointers)
    return pointers.plus(array(frame[index]), size)


# --- launches that overlap


def dependency_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        if mask.any and run.waiting is not None:
            run.waiting()

    return step


# --- indices of an instance


def identity(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        frame[results[0]] = getattr(run, op.name)

    return step


# --- memory


def pointer_cast(op: Op, operands: list[int], results: list[int]) -> Step:
    (pointer,) = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        frame[results[0]] = frame[pointer]

    return step


def pointer_add(op: Op, operands: list[int], results: list[int]) -> Step:
    size = _element(op.operands[0]).bytes
    pointer, index = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        frame[results[0]] = _addresses(frame, pointer, index, size)

    return step


def load(op: Op, operands: list[int], results: list[int]) -> Step:
    element, count = _element(op.operands[0]), len(results)
    dtypes = [NUMPY_TYPES[result.type] for result in op.results]
    pointer, index = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        addresses = _addresses(frame, pointer, index, element.bytes)
        site = run.place(op.location)
        is_uniform = mask.full and isinstance(addresses.buffer, int)
        loaded = [] if is_uniform else [np.zeros(run.lanes, dtype) for dtype in dtypes]
        for buffer_index, lanes in addresses.each(mask.lanes):
            offsets = addresses.offset if is_uniform else addresses.offset[lanes]
            elements = run.buffers[buffer_index].load(offsets, lanes, element, count, site)
            if is_uniform:
                loaded = [
                    values.astype(dtype, copy=False) for values, dtype in zip(elements, dtypes)
                ]
            else:
                for target, values in zip(loaded, elements, strict=True):
                    target[lanes] = values
        for slot, values in zip(results, loaded, strict=True):
            frame[slot] = values

    return step


def store(op: Op, operands: list[int], results: list[int]) -> Step:
    element = _element(op.operands[0])
    pointer, index, *values = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        addresses = _addresses(frame, pointer, index, element.bytes)
        for buffer_index, lanes in addresses.each(mask.lanes):
            new_values = [array(frame[value])[lanes] for value in values]
            run.buffers[buffer_index].store(
                addresses.offset[lanes], lanes, element, new_values, run.place(op.location)
            )

    return step


def atomic(op: Op, operands: list[int], results: list[int]) -> Step:
    element = _element(op.operands[0])
    pointer, index, *values = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        addresses = _addresses(frame, pointer, index, element.bytes)
        old_values = np.zeros(run.lanes, NUMPY_TYPES[element])
        for buffer_index, lanes in addresses.each(mask.lanes):
            operand_lanes = [array(frame[value])[lanes] for value in values]
            old_values[lanes] = run.buffers[buffer_index].atomic(
                op.name,
                addresses.offset[lanes],
                lanes,
                element,
                operand_lanes,
                run.place(op.location),
            )
        frame[results[0]] = old_values

    return step


def declare(op: Op, operands: list[int], results: list[int]) -> Step:
    """Make the step that allocates shared memory per workgroup, or private memory per instance."""
    space, element = op.definition.declares, _element(op.results[0])
    size = element.bytes * int(op.attributes["count"])
    description = "table" if space == "constant" else f"{space} memory"
    name = f"the {description} of line {op.location.line}"
    alignment = int(op.attributes.get("alignment", SHARED_ALIGNMENT))

    def make_buffer(run: Run) -> Buffer:
        if space == "shared":
            groups = run.lanes // run.width
            clocks = None if run.parts is None else run.parts.clocks
            return SharedBuffer(name, size, run.granule, run.width, groups, alignment, clocks)
        if space == "private":
            return PrivateBuffer(name, size, element.bytes, run.lanes)
        data = bytes.fromhex(op.attributes["data"])
        return Buffer(name, np.frombuffer(data, NUMPY_TYPES[element]))

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        if op not in run.buffer_by_declaration:
            run.buffers.append(make_buffer(run))
            run.buffer_by_declaration[op] = len(run.buffers) - 1
        frame[results[0]] = Pointers(run.buffer_by_declaration[op], np.zeros(run.lanes, np.int64))

    return step


def nothing(op: Op, operands: list[int], results: list[int]) -> Step:
    """Make a step that does nothing, for hints and for orderings that always hold here."""

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        pass

    return step


# --- printing and assertions


def shown(op: Op, operands: list[int], results: list[int]) -> Step:
    text = op.attributes["text"]

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        operand_values = [array(frame[operand]).tolist() for operand in operands]
        for lane in mask.lanes.tolist():
            group, instance = divmod(lane, run.width)
            message = text.format(*(lanes[lane] for lanes in operand_values))
            sys.stdout.write(
                f"{op.location}: instance {instance} of workgroup {run.first + group}: {message}\n"
            )

    return step


def checked(op: Op, operands: list[int], results: list[int]) -> Step:
    (condition,) = operands
    message = op.attributes["message"]

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        failures = mask.bits & ~array(frame[condition])
        if np.count_nonzero(failures):
            group, instance = divmod(int(np.argmax(failures)), run.width)
            raise AssertionFailure(
                f"{message} (instance {instance} of workgroup {run.first + group})", op.location
            )

    return step


# --- asynchronous copies


def copy_async(op: Op, operands: list[int], results: list[int]) -> Step:
    element, count = _element(op.operands[0]), int(op.attributes["count"])
    shared, target_index, source, source_index, *condition = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        targets = _addresses(frame, shared, target_index, element.bytes)
        sources = _addresses(frame, source, source_index, element.bytes)
        reads = array(frame[condition[0]]) if condition else mask.bits
        for source_buffer, source_lanes in sources.each(mask.lanes):
            for target, lanes in targets.each(source_lanes):
                shared_buffer = run.buffers[target]
                assert isinstance(shared_buffer, SharedBuffer)
                run.copies.begin(
                    run.buffers[source_buffer], sources.offset[lanes], shared_buffer,
                    targets.offset[lanes], lanes, element, count, run.place(op.location),
                    reads[lanes],
                )  # fmt: skip

    return step


def copy_async_commit(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        run.copies.commit(mask.bits)

    return step


def copy_async_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    pending = int(op.attributes["pending"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        run.copies.wait(pending, mask.bits)

    return step


# --- all instances of a workgroup together


def barrier(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        if run.parts is not None:
            run.parts.wait_for_all(op)
            return
        check_uniform_mask(op, run, mask)
        forget_accesses(run, mask)

    return step


def named_barrier(op: Op, operands: list[int], results: list[int]) -> Step:
    """Make the step of a named barrier that waits, or only arrives."""
    number, count = int(op.attributes["number"]), int(op.attributes["count"])
    waits = op.definition.blocks

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        assert run.parts is not None
        run.parts.arrive(op, number, count, waits=waits)

    return step


def uniform(op: Op, operands: list[int], results: list[int]) -> Step:
    (value,) = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        values = array(frame[value])
        bits = values.view(f"u{values.itemsize}").reshape(-1, run.width)
        expected = bits[:, :1]
        if run.parts is not None:
            expected = run.parts.first_value(op, bits[:, mask.lanes[:1]])
        differs = (bits != expected).reshape(-1) & mask.bits
        if np.count_nonzero(differs):
            lane = int(np.argmax(differs))
            group, instance = divmod(lane, run.width)
            raise InterpreterError(
                f"instance {instance} of workgroup {run.first + group} has {values[lane]} where "
                f"instance 0 has {expected[group].view(values.dtype)[0]}: the value is not uniform",
                op.location,
            )
        frame[results[0]] = values

    return step


def shuffle(op: Op, operands: list[int], results: list[int]) -> Step:
    value, lane = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        source = run.subgroup_start + array(frame[lane]) % run.subgroup_size
        if run.width % run.subgroup_size:
            # The last subgroup of a workgroup has fewer instances.
            end = run.workgroup_end
            is_out_of_range = (source >= end) & mask.bits
            if np.count_nonzero(is_out_of_range):
                lane_index = int(np.argmax(is_out_of_range))
                instance = source[lane_index] - end[lane_index] + run.width
                raise run.place(op.location).error(
                    lane_index, f"takes the value of instance {instance}, and there are {run.width}"
                )
            source = np.minimum(source, end - 1)
        frame[results[0]] = array(frame[value])[source]

    return step


def combined(op: Op, operands: list[int], results: list[int]) -> Step:
    """Make the step of a subgroup reduction, as a butterfly over pairs of lanes."""
    (value,) = operands
    evaluate = OPS[op.definition.combines].evaluate
    assert evaluate is not None

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        values = array(frame[value])
        width = min(run.subgroup_size, run.width)
        rows = values.reshape(-1, width)
        lane_indices = np.arange(width)
        for distance in distances(width):
            partner = lane_indices ^ distance
            reduced = evaluate(rows, rows[:, np.minimum(partner, width - 1)])
            assert not isinstance(reduced, tuple)
            rows = np.where(partner < width, reduced, rows)
        # Lane 0 always has a partner; other lanes may lack one, and their partial sums are dropped.
        frame[results[0]] = np.repeat(rows[:, 0], width)

    return step


def load_matrices(op: Op, operands: list[int], results: list[int]) -> Step:
    return _load_matrices(op, operands, results, transposed=False)


def load_matrices_transposed(op: Op, operands: list[int], results: list[int]) -> Step:
    return _load_matrices(op, operands, results, transposed=True)


def _load_matrices(op: Op, operands: list[int], results: list[int], *, transposed: bool) -> Step:
    pointer, index = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        addresses = _addresses(frame, pointer, index, 4)
        words_by_slot = np.zeros((4, run.lanes), np.uint32)
        for buffer_index, lanes in addresses.each(mask.lanes):
            shared_buffer = run.buffers[buffer_index]
            assert isinstance(shared_buffer, SharedBuffer)
            rows = shared_buffer.load_rows(addresses.offset[lanes], lanes, run.place(op.location))
            words_by_slot[:, lanes] = matrices.words_of_rows(rows, transposed=transposed)
        for slot, words in zip(results, words_by_slot, strict=True):
            frame[slot] = words

    return step


def store_matrices(op: Op, operands: list[int], results: list[int]) -> Step:
    pointer, index, *words = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        has_address = mask.lanes % 32 < 8 * len(words)
        addresses = _addresses(frame, pointer, index, 4)
        stacked = np.stack([array(frame[slot])[mask.lanes] for slot in words])
        rows = np.zeros((run.lanes, 4), np.uint32)
        address_lanes = mask.lanes[has_address]
        rows[address_lanes] = matrices.rows_of_words(
            stacked, transposed=op.attributes["transposed"]
        )
        for buffer_index, lanes in addresses.each(address_lanes):
            shared_buffer = run.buffers[buffer_index]
            assert isinstance(shared_buffer, SharedBuffer)
            site = run.place(op.location)
            shared_buffer.store_rows(addresses.offset[lanes], lanes, rows[lanes], site)

    return step


def mma(op: Op, operands: list[int], results: list[int]) -> Step:
    element = op.name.removeprefix("mma_")

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        products = matrices.multiply_add(element, [array(frame[slot]) for slot in operands])
        for slot, values in zip(results, products, strict=True):
            frame[slot] = values

    return step


def ballot(op: Op, operands: list[int], results: list[int]) -> Step:
    (condition,) = operands

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)
        size = run.subgroup_size
        padded = -(-run.width // size) * size
        bits = np.zeros((run.lanes // run.width, padded), np.uint32)
        bits[:, : run.width] = array(frame[condition]).reshape(-1, run.width)
        shifted = bits.reshape(-1, size) << np.arange(size, dtype=np.uint32)
        words = np.repeat(shifted.sum(axis=1, dtype=np.uint32), size).reshape(-1, padded)
        frame[results[0]] = np.ascontiguousarray(words[:, : run.width]).reshape(-1)

    return step
