"""Steps of the interpreter for tiles, the barriers that count them, and products of them.

What a copy brings is there once its barrier was waited for; what a product reads must stay until
the product was waited for. Everything here is done once a workgroup: the operands of its instances
are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quod.kernel import types
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter_memory import Pointers, SharedBuffer
from quod.kernel.interpreter_pending import Copy, Mbarrier, Reading
from quod.kernel.interpreter_run import Frame, Mask, Run, array
from quod.kernel.interpreter_together import check_together, forget_accesses
from quod.kernel.ir import Op
from quod.kernel.matrices import added, factors, numbers_of_halves
from quod.kernel.semantics import Array
from quod.kernel.tile_ops import LINE, MATRIX_DEPTH, MATRIX_ROWS

Step = Callable[[Frame, Run, Mask], None]

_FOUR = 128
"""Instances that have a product together."""
_COLUMNS = LINE // 2
_MOST_PLACES = (1 << 31) - 1
"""Where a tile begins has a sign."""
_UNKNOWN = "has an mbarrier that others do not know of; a {} is needed between"
_PATTERN = 8 * LINE
"""Bytes after which places of a line are exchanged in the same way again."""


def _groups(op: Op, run: Run, mask: Mask) -> Array:
    """The workgroups that are here, all instances of each."""
    check_together(op, run, mask)
    return np.flatnonzero(mask.bits.reshape(-1, run.width)[:, 0])


def _error(op: Op, run: Run, group: int, problem: str) -> InterpreterError:
    return InterpreterError(f"workgroup {run.first + group} {problem}", op.location)


def _differs(op: Op, run: Run, group: int) -> InterpreterError:
    return _error(op, run, group, f"has an operand of {op.name} that differs between instances")


def _number(op: Op, run: Run, frame: Frame, slot: int, group: int) -> int:
    """An operand that all instances of a workgroup have."""
    values = array(frame[slot])[group * run.width : (group + 1) * run.width]
    if (values != values[0]).any():
        raise _differs(op, run, group)
    return int(values[0])


def _places(op: Op, run: Run, frame: Frame, slot: int, lanes: slice) -> tuple[int, Array]:
    """A pointer: the number of the buffer that all have, and the bytes of some lanes."""
    pointers = frame[slot]
    assert isinstance(pointers, Pointers)
    if isinstance(pointers.buffer, int):
        return pointers.buffer, pointers.offset[lanes]
    numbers = pointers.buffer[lanes]
    if (numbers != numbers[0]).any():
        raise _differs(op, run, lanes.start // run.width)
    return int(numbers[0]), pointers.offset[lanes]


def _place(op: Op, run: Run, frame: Frame, slot: int, group: int) -> tuple[int, int]:
    """A pointer that all instances of a workgroup have: the number of the buffer, and the byte."""
    lanes = slice(group * run.width, (group + 1) * run.width)
    number, offsets = _places(op, run, frame, slot, lanes)
    if (offsets != offsets[0]).any():
        raise _differs(op, run, group)
    return number, int(offsets[0])


def _barrier_key(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], group: int
) -> tuple[int, int, int]:
    number, offset = _place(op, run, frame, operands[0], group)
    at = offset + 8 * _number(op, run, frame, operands[1], group)
    room = run.buffers[number]
    if not 0 <= at <= room.nbytes - 8:
        raise _error(op, run, group, f"has an mbarrier beyond {room.name}")
    return number, group, at


def _barrier(op: Op, run: Run, frame: Frame, operands: Sequence[int], group: int) -> Mbarrier:
    key = _barrier_key(op, run, frame, operands, group)
    found = run.tiles.barriers.get(key)
    if found is None:
        raise _error(op, run, group, f"has no mbarrier at byte {key[2]} of its array")
    return found


def _of_groups(op: Op, act: Callable[[Frame, Run, int], None]) -> Step:
    """A step that is done once for each workgroup that is here."""

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        for group in _groups(op, run, mask):
            act(frame, run, group)

    return step


def mbarrier_init(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, group: int) -> None:
        key = _barrier_key(op, run, frame, operands, group)
        if key in run.tiles.barriers:
            raise _error(op, run, group, f"has made the mbarrier at byte {key[2]} before")
        room = run.buffers[key[0]]
        assert isinstance(room, SharedBuffer)
        room.make_mbarrier(key[2], group * run.width, run.place(op.location))
        run.tiles.barriers[key] = Mbarrier()

    return _of_groups(op, act)


def mbarrier_expect(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, group: int) -> None:
        barrier = _barrier(op, run, frame, operands, group)
        if barrier.expected is not None:
            raise _error(op, run, group, "expects bytes twice in one phase of an mbarrier")
        barrier.expected = _number(op, run, frame, operands[2], group)

    return _of_groups(op, act)


def mbarrier_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, group: int) -> None:
        barrier = _barrier(op, run, frame, operands, group)
        if not barrier.known:
            raise _error(op, run, group, _UNKNOWN.format("k.barrier()"))
        barrier.settle()
        # The phase of a parity has ended if the present one has the other.
        if barrier.ended % 2 == _number(op, run, frame, operands[2], group) % 2:
            missing = "that were not expected" if barrier.expected is None else "expected"
            raise _error(
                op, run, group,
                f"waits for ever: {barrier.come} bytes have come of {barrier.expected or 0} "
                f"{missing} in phase {barrier.ended} of an mbarrier",
            )  # fmt: skip
        for copy in barrier.copies:
            copy.arrive()
        barrier.copies.clear()

    return _of_groups(op, act)


def copy_tile(op: Op, operands: list[int], results: list[int]) -> Step:
    lines, multicast = int(op.attributes["lines"]), bool(op.attributes["multicast"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        groups = _groups(op, run, mask)
        for group in groups:
            data = _tile(op, run, frame, operands, group, lines)
            first = group // run.cluster * run.cluster
            targets = range(first, first + run.cluster) if multicast else [group]
            if not set(targets) <= set(groups.tolist()):
                raise _error(op, run, group, f"is alone in its cluster at {op.name}")
            number, offset = _place(op, run, frame, operands[0], group)
            at = offset + 4 * _number(op, run, frame, operands[1], group)
            room = _room(op, run, group, number)
            if at % _PATTERN or at + len(data) > room.nbytes:
                raise _error(
                    op, run, group, f"copies {len(data)} bytes to byte {at} of {room.name}, of "
                    f"{room.nbytes}; a tile begins at a multiple of {_PATTERN}",
                )  # fmt: skip
            key = _barrier_key(op, run, frame, operands[2:], group)
            for target in targets:
                _begin(op, run, room, group, target, at, data, (key[0], target, key[2]))

    return step


def _room(op: Op, run: Run, group: int, number: int) -> SharedBuffer:
    """Shared memory with places that are exchanged as tiles have them."""
    room = run.buffers[number]
    assert isinstance(room, SharedBuffer)
    if room.alignment % _PATTERN:
        raise _error(
            op, run, group, f"has tiles in {room.name}, which begins at a multiple of "
            f"{room.alignment} bytes; k.shared(..., alignment={_PATTERN}) makes room for them",
        )  # fmt: skip
    return room


def _begin(
    op: Op, run: Run, room: SharedBuffer, asking: int, group: int, at: int, data: Array,
    key: tuple[int, int, int],
) -> None:  # fmt: skip
    """Begins the copy of a tile that one workgroup asks for to one of its cluster."""
    barrier = run.tiles.barriers.get(key)
    if barrier is None:
        raise _error(op, run, group, f"has no mbarrier at byte {key[2]} of its array")
    if group != asking and not barrier.known_to_cluster:
        raise _error(op, run, group, _UNKNOWN.format("k.cluster_barrier()"))
    end = at + len(data)
    for reading in run.tiles.readings:
        if reading.room is room and reading.group == group and (
            reading.first < end and at < reading.last
        ):  # fmt: skip
            raise _error(op, run, group, "copies over a tile that a product is still reading")
    lane, place = np.array([group * run.width]), run.place(op.location)
    room.begin_copy(np.array([at]), lane, len(data), place)
    barrier.come += len(data)
    barrier.copies.append(Copy(lambda: room.arrive(at, group, data), op.location))


def _tile(op: Op, run: Run, frame: Frame, operands: Sequence[int], group: int, lines: int) -> Array:
    """The bytes of a tile as they are in shared memory."""
    numbers = [_number(op, run, frame, slot, group) for slot in operands[6:]]
    length, height, planes, column, line, plane = numbers
    number, offset = _place(op, run, frame, operands[5], group)
    source = run.buffers[number]
    if offset % 16 or length % 8:
        raise _error(
            op, run, group, f"copies tiles of lines of {length} elements from byte {offset}: "
            "lines begin at multiples of 16 bytes",
        )  # fmt: skip
    if max(numbers[3:]) > _MOST_PLACES:
        raise _error(
            op, run, group, f"copies a tile that begins at {tuple(numbers[3:])}: places go to "
            f"{_MOST_PLACES}, and those above are before the array",
        )  # fmt: skip
    _check_map(op, run, frame, operands[4], group, (length, height, planes, lines))
    at_line, at_column = line + np.arange(lines)[:, None], column + np.arange(_COLUMNS)
    inside = (at_line < height) & (at_column < length) & (plane < planes)
    places = (plane * height + at_line) * length + at_column
    wanted = offset + 2 * places[inside]
    lanes = np.full(len(wanted), group * run.width)
    (elements,) = source.load(wanted, lanes, types.u16, 1, run.place(op.location))
    tile = np.zeros((lines, _COLUMNS), np.uint16)
    tile[inside] = elements
    swizzled = np.arange(8) ^ np.arange(lines)[:, None] % 8
    chunks = tile.reshape(lines, 8, 8)
    return np.take_along_axis(chunks, swizzled[:, :, None], axis=1).reshape(-1).view(np.uint8)


def _check_map(
    op: Op, run: Run, frame: Frame, slot: int, group: int, wanted: tuple[int, int, int, int]
) -> None:
    """The map of an emulated device says the same as the kernel; zeros say nothing."""
    number, offset = _place(op, run, frame, slot, group)
    at, lanes = np.array([offset]), np.array([group * run.width])
    words = run.buffers[number].load(at, lanes, types.u64, 4, run.place(op.location))
    given = tuple(int(word[0]) for word in words)
    if any(given) and given != wanted:
        raise _error(
            op, run, group, f"has {wanted} as length, height and planes of an array and lines of a "
            f"tile, and their tensor map says {given}",
        )  # fmt: skip


def check_arrived(run: Run) -> None:
    """InterpreterError for a copy to memory of workgroups that have ended."""
    for (_, group, _), barrier in run.tiles.barriers.items():
        for copy in barrier.copies:
            raise InterpreterError(
                f"workgroup {run.first + group} ends while this tile is on its way to it; "
                "k.mbarrier_wait waits for it",
                copy.location,
            )


def cluster_barrier(op: Op, operands: list[int], results: list[int]) -> Step:
    memory = bool(op.attributes["memory"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        groups = _groups(op, run, mask)
        for first in np.unique(groups // run.cluster * run.cluster):
            missing = set(range(first, first + run.cluster)) - set(groups.tolist())
            if missing:
                raise _error(op, run, min(missing), f"does not reach the {op.name} of its cluster")
        here = set(groups.tolist())
        for (_, group, _), made in run.tiles.barriers.items():
            made.known_to_cluster |= group in here
        forget_accesses(run, mask, products_only=not memory)

    return step


# --- products


def _addresses(first: int, rows: int, columns: int, apart: int | None) -> Array:
    """The byte of each element of a matrix, as it is exchanged within lines.

    `apart` is None where lines are along the columns, else bytes from 64 rows to the next 64.
    """
    row, column = np.arange(rows)[:, None], np.arange(columns)
    if apart is None:
        at = first + row * LINE + column * 2
    else:
        at = first + row // _COLUMNS * apart + column * LINE + row % _COLUMNS * 2
    return at ^ (at // LINE % 8) * 16


def mma_tiles(op: Op, operands: list[int], results: list[int]) -> Step:
    def first(frame: Frame, run: Run, lanes: slice) -> Array:
        return _matrix(op, run, frame, operands[:2], lanes, MATRIX_ROWS, "a")

    return _multiply(op, operands, results, first)


def mma_rows(op: Op, operands: list[int], results: list[int]) -> Step:
    element = str(op.attributes["element"])
    depth = np.arange(2)

    def first(frame: Frame, run: Run, lanes: slice) -> Array:
        a = np.empty((MATRIX_ROWS, MATRIX_DEPTH))
        for number, slot in enumerate(operands[:4]):
            words = np.ascontiguousarray(array(frame[slot])[lanes]).view(np.uint16)
            column = 2 * _PART[:, None] + 8 * (number >> 1) + depth
            a[_ROW[:, None] + 8 * (number & 1), column] = numbers_of_halves(
                element, words.reshape(-1, 2)
            )
        return a

    return _multiply(op, operands, results, first)


def _multiply(
    op: Op, operands: list[int], results: list[int],
    first: Callable[[Frame, Run, slice], Array],
) -> Step:  # fmt: skip
    """The step of a product, whose first factor is given by `first`, for each four subgroups."""
    count, tied, element = len(results), op.definition.tied or 0, str(op.attributes["element"])
    number = np.arange(count)[:, None]
    row = _ROW + 8 * (number // 2 % 2)
    column = 8 * (number // 4) + 2 * _PART + number % 2

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        sums = np.stack([array(frame[slot]) for slot in operands[tied:]])
        for group in _groups(op, run, mask):
            for begin in range(group * run.width, (group + 1) * run.width, _FOUR):
                lanes = slice(begin, begin + _FOUR)
                a = first(frame, run, lanes)
                b = _matrix(op, run, frame, operands[tied - 2 :], lanes, 2 * count, "b")
                sums[:, lanes] = added(element, sums[:, lanes], (a @ b.T)[row, column])
        for slot, values in zip(results, sums, strict=True):
            frame[slot] = values

    return step


_ELEMENTS = {"f32": "tf32"}
"""What is read of elements of tiles, if it is less."""


def _matrix(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], lanes: slice, rows: int, name: str
) -> Array:
    """Elements of rows by 16, or 32 of 8 bits, 8 of f32, which the product reads until it is waited
    for."""
    apart = 4 * int(op.attributes[f"{name}_apart"]) if op.attributes[f"{name}_along"] else None
    element = factors(str(op.attributes["element"]))["ab".index(name)]
    element = _ELEMENTS.get(element, element)
    number, offsets = _places(op, run, frame, operands[0], lanes)
    first = offsets + 4 * array(frame[operands[1]])[lanes].astype(np.int64)
    group = lanes.start // run.width
    if (first != first[0]).any():
        raise _error(op, run, group, f"has a tile of {op.name} that differs between instances")
    room, begin = _room(op, run, group, number), int(first[0])
    last = 0 if apart is not None else LINE - 2 * MATRIX_DEPTH
    if begin % 16 or begin % _PATTERN > last:
        raise _error(
            op, run, group, f"multiplies a matrix from byte {begin} of {room.name} on: one begins "
            f"at a multiple of {_PATTERN}, or up to {last} bytes after it, at a multiple of 16",
        )  # fmt: skip
    at = _addresses(begin, rows, MATRIX_DEPTH, apart)
    halves = room.tile(at, lanes.start, run.place(op.location))
    low, high = int(at.min()), int(at.max()) + 2
    run.tiles.readings.append(Reading(room, group, low, high, int(run.tiles.committed[group])))
    return numbers_of_halves(element, halves).astype(np.float64)


_LANE = np.arange(_FOUR)
_ROW, _PART = _LANE // 32 * 16 + _LANE % 32 // 4, _LANE % 4


def mma_commit(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        run.tiles.committed[_groups(op, run, mask)] += 1

    return step


def mma_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    pending = int(op.attributes["pending"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        tiles, here = run.tiles, set(_groups(op, run, mask).tolist())
        tiles.readings = [
            reading
            for reading in tiles.readings
            if reading.group not in here
            or reading.number >= tiles.committed[reading.group] - pending
        ]
        # A result may have the slot of another operand.
        for result, value in zip(results, [frame[slot] for slot in operands], strict=True):
            frame[result] = value

    return step
