"""Steps of the interpreter for asynchronous products of tiles.

The operands of a product must not change until the product has been waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quod.kernel.builder.matrices import added, factors, numbers_of_halves
from quod.kernel.interpreter.arrivals import (
    ActiveLanes,
    addresses_of,
    error_of,
    tile_buffer_of,
    warpgroups_of,
)
from quod.kernel.interpreter.pending import PendingReads
from quod.kernel.interpreter.run import Frame, Mask, Run, array
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import COLUMNS, LINE, MATRIX_DEPTH, MATRIX_ROWS, PATTERN, WARPGROUP

Step = Callable[[Frame, Run, Mask], None]


def _addresses(start: int, rows: int, columns: int, block_stride: int | None) -> Array:
    """Return the byte offset of each element of a matrix in a swizzled tile.

    block_stride: the bytes between blocks of 64 rows if lines hold columns, None if they hold rows.
    """
    row, column = np.arange(rows)[:, None], np.arange(columns)
    if block_stride is None:
        offsets = start + row * LINE + column * 2
    else:
        offsets = start + row // COLUMNS * block_stride + column * LINE + row % COLUMNS * 2
    return offsets ^ (offsets // LINE % 8) * 16


def mma_tiles(op: Op, operands: list[int], results: list[int]) -> Step:
    def read_a(frame: Frame, run: Run, active: ActiveLanes) -> Array:
        return _read_matrix(op, run, frame, operands[:2], active, MATRIX_ROWS, "a")

    return _multiply(op, operands, results, read_a)


def mma_rows(op: Op, operands: list[int], results: list[int]) -> Step:
    element = str(op.attributes["element"])
    element_index = np.arange(2)

    def read_a(frame: Frame, run: Run, active: ActiveLanes) -> Array:
        a = np.empty((MATRIX_ROWS, MATRIX_DEPTH))
        for register, slot in enumerate(operands[:4]):
            words = np.ascontiguousarray(array(frame[slot])[active.lanes]).view(np.uint16)
            column = 2 * _QUAD_LANE[:, None] + 8 * (register >> 1) + element_index
            a[_ROW[:, None] + 8 * (register & 1), column] = numbers_of_halves(
                element, words.reshape(-1, 2)
            )
        return a

    return _multiply(op, operands, results, read_a)


def _multiply(
    op: Op, operands: list[int], results: list[int],
    read_a: Callable[[Frame, Run, ActiveLanes], Array],
) -> Step:  # fmt: skip
    """Make the step of a product per warpgroup; `read_a` reads its factor A."""
    count, first_accumulator, element = (
        len(results),
        op.definition.tied or 0,
        str(op.attributes["element"]),
    )
    register = np.arange(count)[:, None]
    row = _ROW + 8 * (register // 2 % 2)
    column = 8 * (register // 4) + 2 * _QUAD_LANE + register % 2

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        sums = np.stack([array(frame[slot]) for slot in operands[first_accumulator:]])
        for warpgroup in warpgroups_of(op, run, mask):
            first_lane = warpgroup * WARPGROUP
            active = ActiveLanes(
                first_lane // run.width, slice(first_lane, first_lane + WARPGROUP), first_lane
            )
            a = read_a(frame, run, active)
            b = _read_matrix(
                op, run, frame, operands[first_accumulator - 2 :], active, 2 * count, "b"
            )
            partial_sums = sums[:, active.lanes]
            sums[:, active.lanes] = added(element, partial_sums, (a @ b.T)[row, column])
        for slot, values in zip(results, sums, strict=True):
            frame[slot] = values

    return step


_TRUNCATED_TYPES = {"f32": "tf32"}
"""The type that an element of a tile is truncated to; others are used as they are."""


def _read_matrix(
    op: Op,
    run: Run,
    frame: Frame,
    operands: Sequence[int],
    active: ActiveLanes,
    rows: int,
    name: str,
) -> Array:
    """Read a factor from its tile as f64, and record the read until the product is waited for.
    Returns `rows` rows along K: 16 elements of 16 bits, 32 of 8 bits, or 8 of f32.
    """
    block_stride = (
        4 * int(op.attributes[f"{name}_apart"]) if op.attributes[f"{name}_along"] else None
    )
    element = factors(str(op.attributes["element"]))["ab".index(name)]
    element = _TRUNCATED_TYPES.get(element, element)
    buffer_index, offsets = addresses_of(op, run, frame, operands[0], active)
    starts = offsets + 4 * array(frame[operands[1]])[active.lanes].astype(np.int64)
    group = active.group
    if (starts != starts[0]).any():
        raise error_of(op, run, group, f"has a tile of {op.name} that differs between instances")
    shared_buffer, start = tile_buffer_of(op, run, group, buffer_index), int(starts[0])
    max_offset = 0 if block_stride is not None else LINE - 2 * MATRIX_DEPTH
    if start % 16 or start % PATTERN > max_offset:
        raise error_of(
            op, run, group, f"multiplies a matrix from byte {start} of {shared_buffer.name} on: "
            f"one begins at a multiple of {PATTERN}, or up to {max_offset} bytes after it, at a "
            "multiple of 16",
        )  # fmt: skip
    element_offsets = _addresses(start, rows, MATRIX_DEPTH, block_stride)
    halves = shared_buffer.tile(element_offsets, active.first, run.place(op.location))
    committed = int(run.tiles.committed[active.first // WARPGROUP])
    run.tiles.readings.append(
        PendingReads(shared_buffer, group, element_offsets, active.first, committed)
    )
    return numbers_of_halves(element, halves).astype(np.float64)


_LANE = np.arange(WARPGROUP)
_ROW, _QUAD_LANE = _LANE // 32 * 16 + _LANE % 32 // 4, _LANE % 4
"""Per lane, its first row and its index among the four lanes of the row, as ``mma_tiles`` says."""


def mma_commit(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        run.tiles.committed[warpgroups_of(op, run, mask)] += 1

    return step


def mma_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    pending = int(op.attributes["pending"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        tiles, warpgroups = run.tiles, set(warpgroups_of(op, run, mask))
        pending_readings = []
        for reading in tiles.readings:
            warpgroup = reading.lane // WARPGROUP
            if (
                warpgroup not in warpgroups
                or reading.number >= tiles.committed[warpgroup] - pending
            ):
                pending_readings.append(reading)
            elif run.parts is not None:
                # Record the reads now: the product may have read until its wait, even after
                # barriers.
                reading.room.read_tile(reading.places, reading.lane, run.place(op.location))
        tiles.readings = pending_readings
        # A result may have the slot of another operand.
        for result, value in zip(results, [frame[slot] for slot in operands], strict=True):
            frame[result] = value

    return step
