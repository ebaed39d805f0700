"""Steps of the interpreter for asynchronous products of tiles.

The operands of a product must not change until the product has been waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quod.kernel.builder.matrices import added, factors, numbers_of_halves
from quod.kernel.interpreter.arrivals import (
    ActiveLanes,
    error_of,
    places_of,
    room_of,
    warpgroups_of,
)
from quod.kernel.interpreter.pending import Reading
from quod.kernel.interpreter.run import Frame, Mask, Run, array
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import COLUMNS, LINE, MATRIX_DEPTH, MATRIX_ROWS, PATTERN, WARPGROUP

Step = Callable[[Frame, Run, Mask], None]


def _addresses(first: int, rows: int, columns: int, apart: int | None) -> Array:
    """Return the byte offset of each element of a matrix in a swizzled tile.

    apart: None if lines run along columns, else the bytes between blocks of 64 rows.
    """
    row, column = np.arange(rows)[:, None], np.arange(columns)
    if apart is None:
        at = first + row * LINE + column * 2
    else:
        at = first + row // COLUMNS * apart + column * LINE + row % COLUMNS * 2
    return at ^ (at // LINE % 8) * 16


def mma_tiles(op: Op, operands: list[int], results: list[int]) -> Step:
    def first(frame: Frame, run: Run, active: ActiveLanes) -> Array:
        return _matrix(op, run, frame, operands[:2], active, MATRIX_ROWS, "a")

    return _multiply(op, operands, results, first)


def mma_rows(op: Op, operands: list[int], results: list[int]) -> Step:
    element = str(op.attributes["element"])
    depth = np.arange(2)

    def first(frame: Frame, run: Run, active: ActiveLanes) -> Array:
        a = np.empty((MATRIX_ROWS, MATRIX_DEPTH))
        for number, slot in enumerate(operands[:4]):
            words = np.ascontiguousarray(array(frame[slot])[active.lanes]).view(np.uint16)
            column = 2 * _PART[:, None] + 8 * (number >> 1) + depth
            a[_ROW[:, None] + 8 * (number & 1), column] = numbers_of_halves(
                element, words.reshape(-1, 2)
            )
        return a

    return _multiply(op, operands, results, first)


def _multiply(
    op: Op, operands: list[int], results: list[int],
    first: Callable[[Frame, Run, ActiveLanes], Array],
) -> Step:  # fmt: skip
    """Make the step of a product per warpgroup; `first` reads its factor A."""
    count, tied, element = len(results), op.definition.tied or 0, str(op.attributes["element"])
    number = np.arange(count)[:, None]
    row = _ROW + 8 * (number // 2 % 2)
    column = 8 * (number // 4) + 2 * _PART + number % 2

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        sums = np.stack([array(frame[slot]) for slot in operands[tied:]])
        for number in warpgroups_of(op, run, mask):
            begin = number * WARPGROUP
            active = ActiveLanes(begin // run.width, slice(begin, begin + WARPGROUP), begin)
            a = first(frame, run, active)
            b = _matrix(op, run, frame, operands[tied - 2 :], active, 2 * count, "b")
            partial_sums = sums[:, active.lanes]
            sums[:, active.lanes] = added(element, partial_sums, (a @ b.T)[row, column])
        for slot, values in zip(results, sums, strict=True):
            frame[slot] = values

    return step


_ELEMENTS = {"f32": "tf32"}
"""The types that elements of tiles are truncated to, if any."""


def _matrix(
    op: Op,
    run: Run,
    frame: Frame,
    operands: Sequence[int],
    active: ActiveLanes,
    rows: int,
    name: str,
) -> Array:
    """Read a factor from its tile as f64, and record the read until the product is waited for.

    Returns `rows` rows of 16 elements, or of 32 8-bit ones, or of 8 f32.
    """
    apart = 4 * int(op.attributes[f"{name}_apart"]) if op.attributes[f"{name}_along"] else None
    element = factors(str(op.attributes["element"]))["ab".index(name)]
    element = _ELEMENTS.get(element, element)
    number, offsets = places_of(op, run, frame, operands[0], active)
    first = offsets + 4 * array(frame[operands[1]])[active.lanes].astype(np.int64)
    group = active.group
    if (first != first[0]).any():
        raise error_of(op, run, group, f"has a tile of {op.name} that differs between instances")
    room, begin = room_of(op, run, group, number), int(first[0])
    last = 0 if apart is not None else LINE - 2 * MATRIX_DEPTH
    if begin % 16 or begin % PATTERN > last:
        raise error_of(
            op, run, group, f"multiplies a matrix from byte {begin} of {room.name} on: one begins "
            f"at a multiple of {PATTERN}, or up to {last} bytes after it, at a multiple of 16",
        )  # fmt: skip
    at = _addresses(begin, rows, MATRIX_DEPTH, apart)
    halves = room.tile(at, active.first, run.place(op.location))
    committed = int(run.tiles.committed[active.first // WARPGROUP])
    run.tiles.readings.append(Reading(room, group, at, active.first, committed))
    return numbers_of_halves(element, halves).astype(np.float64)


_LANE = np.arange(WARPGROUP)
_ROW, _PART = _LANE // 32 * 16 + _LANE % 32 // 4, _LANE % 4


def mma_commit(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        run.tiles.committed[warpgroups_of(op, run, mask)] += 1

    return step


def mma_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    pending = int(op.attributes["pending"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        tiles, here = run.tiles, set(warpgroups_of(op, run, mask))
        going = []
        for reading in tiles.readings:
            warpgroup = reading.lane // WARPGROUP
            if warpgroup not in here or reading.number >= tiles.committed[warpgroup] - pending:
                going.append(reading)
            elif run.parts is not None:
                # The product may have read until now, after barriers that its instances passed.
                reading.room.read_tile(reading.places, reading.lane, run.place(op.location))
        tiles.readings = going
        # A result may have the slot of another operand.
        for result, value in zip(results, [frame[slot] for slot in operands], strict=True):
            frame[result] = value

    return step
