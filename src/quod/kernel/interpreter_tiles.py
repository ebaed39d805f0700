"""Steps of the interpreter for tiles, the barriers that count them, and products of them.

What a copy brings is there once its barrier was waited for; what a product reads must stay until
the product was waited for. Everything here is done once for all instances of a workgroup, or of a
role, that come: their operands are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quod.frozen import frozen
from quod.kernel import types
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter_memory import Pointers, SharedBuffer
from quod.kernel.interpreter_pending import Copy, Mbarrier, Reading
from quod.kernel.interpreter_run import Frame, Mask, Run, array
from quod.kernel.interpreter_together import check_together, forget_accesses
from quod.kernel.ir import Op
from quod.kernel.matrices import added, factors, numbers_of_halves
from quod.kernel.semantics import Array
from quod.kernel.tile_ops import LINE, MATRIX_DEPTH, MATRIX_ROWS, WARPGROUP

Step = Callable[[Frame, Run, Mask], None]

_COLUMNS = LINE // 2
_MOST_PLACES = (1 << 31) - 1
"""Where a tile begins has a sign."""
_UNKNOWN = "has an mbarrier that others do not know of; a {} is needed between"
_PATTERN = 8 * LINE
"""Bytes after which places of a line are exchanged in the same way again."""


@frozen(eq=False)
class _Crowd:
    """Instances of one workgroup that come to an op together: all of them, or a part of those of a
    role, of which `first` does what is done once."""

    group: int
    lanes: slice | Array
    first: int
    has_first: bool = True


def _crowds(op: Op, run: Run, mask: Mask) -> list[_Crowd]:
    """Those who are here, of each workgroup."""
    check_together(op, run, mask)
    if run.parts is not None:
        first = run.parts.first_instance(op)
        return [_Crowd(0, mask.lanes, first, bool(mask.bits[first]))] if mask.any else []
    groups = np.flatnonzero(mask.bits.reshape(-1, run.width)[:, 0]).tolist()
    return [
        _Crowd(group, slice(group * run.width, (group + 1) * run.width), group * run.width)
        for group in groups
    ]


def _warpgroups(op: Op, run: Run, mask: Mask) -> list[int]:
    """The warpgroups that are here, by their numbers among all."""
    check_together(op, run, mask)
    rows = mask.bits.reshape(-1, WARPGROUP)
    split = rows.any(axis=1) & ~rows.all(axis=1)
    if split.any():
        number = int(np.argmax(split)) * WARPGROUP
        raise run.place(op.location).error(
            number + int(np.argmin(rows[number // WARPGROUP])),
            f"does not come to the {op.name} of its warpgroup",
        )
    return np.flatnonzero(rows[:, 0]).tolist()


def _error(op: Op, run: Run, group: int, problem: str) -> InterpreterError:
    return InterpreterError(f"workgroup {run.first + group} {problem}", op.location)


def _differs(op: Op, run: Run, group: int) -> InterpreterError:
    return _error(op, run, group, f"has an operand of {op.name} that differs between instances")


def _number(op: Op, run: Run, frame: Frame, slot: int, crowd: _Crowd) -> int:
    """An operand that all instances have."""
    values = array(frame[slot])[crowd.lanes]
    if (values != values[0]).any():
        raise _differs(op, run, crowd.group)
    return int(values[0])


def _places(op: Op, run: Run, frame: Frame, slot: int, crowd: _Crowd) -> tuple[int, Array]:
    """A pointer: the number of the buffer that all have, and the bytes of each."""
    pointers = frame[slot]
    assert isinstance(pointers, Pointers)
    if isinstance(pointers.buffer, int):
        return pointers.buffer, pointers.offset[crowd.lanes]
    numbers = pointers.buffer[crowd.lanes]
    if (numbers != numbers[0]).any():
        raise _differs(op, run, crowd.group)
    return int(numbers[0]), pointers.offset[crowd.lanes]


def _place(op: Op, run: Run, frame: Frame, slot: int, crowd: _Crowd) -> tuple[int, int]:
    """A pointer that all instances have: the number of the buffer, and the byte."""
    number, offsets = _places(op, run, frame, slot, crowd)
    if (offsets != offsets[0]).any():
        raise _differs(op, run, crowd.group)
    return number, int(offsets[0])


def _barrier_key(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], crowd: _Crowd
) -> tuple[int, int, int]:
    number, offset = _place(op, run, frame, operands[0], crowd)
    at = offset + 8 * _number(op, run, frame, operands[1], crowd)
    room = run.buffers[number]
    if not 0 <= at <= room.nbytes - 8:
        raise _error(op, run, crowd.group, f"has an mbarrier beyond {room.name}")
    return number, crowd.group, at


def _barrier(op: Op, run: Run, frame: Frame, operands: Sequence[int], crowd: _Crowd) -> Mbarrier:
    key = _barrier_key(op, run, frame, operands, crowd)
    found = run.tiles.barriers.get(key)
    if found is None:
        raise _error(op, run, crowd.group, f"has no mbarrier at byte {key[2]} of its array")
    return found


def _of_crowds(op: Op, act: Callable[[Frame, Run, _Crowd], None], *, by_first: bool = True) -> Step:
    """A step that is done once for those who are here of each workgroup, `by_first` of them."""

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        for crowd in _crowds(op, run, mask):
            if crowd.has_first or not by_first:
                act(frame, run, crowd)

    return step


def mbarrier_init(op: Op, operands: list[int], results: list[int]) -> Step:
    count = int(op.attributes["count"])

    def act(frame: Frame, run: Run, crowd: _Crowd) -> None:
        key = _barrier_key(op, run, frame, operands, crowd)
        if key in run.tiles.barriers:
            raise _error(op, run, crowd.group, f"has made the mbarrier at byte {key[2]} before")
        room = run.buffers[key[0]]
        assert isinstance(room, SharedBuffer)
        room.make_mbarrier(key[2], crowd.first, run.place(op.location))
        made = run.tiles.barriers[key] = Mbarrier(count)
        if run.parts is not None:
            made.clock = run.parts.clocks.begin_mbarrier(crowd.first)

    return _of_crowds(op, act)


def _check_known(op: Op, run: Run, barrier: Mbarrier, crowd: _Crowd, lanes: Array) -> None:
    """InterpreterError for an mbarrier that some of the instances do not know of, in roles."""
    if run.parts is not None and not run.parts.clocks.knows(barrier.clock, lanes):
        raise _error(op, run, crowd.group, _UNKNOWN.format("k.barrier()"))


def _arrive(op: Op, run: Run, barrier: Mbarrier, crowd: _Crowd, lanes: Array) -> None:
    """The subgroups of some instances arrive, in a kernel of roles."""
    assert run.parts is not None
    _check_known(op, run, barrier, crowd, lanes)
    if not run.parts.clocks.arrive(barrier.clock, lanes):
        raise _error(
            op, run, crowd.group, "may arrive at an mbarrier again before the others have arrived"
        )


def mbarrier_expect(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, crowd: _Crowd) -> None:
        barrier = _barrier(op, run, frame, operands, crowd)
        if not barrier.missing:
            raise _error(op, run, crowd.group, "expects bytes twice in one phase of an mbarrier")
        if run.parts is not None:
            _arrive(op, run, barrier, crowd, np.array([crowd.first]))
        barrier.missing -= 1
        barrier.expected += _number(op, run, frame, operands[2], crowd)

    return _of_crowds(op, act)


def mbarrier_arrive(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, crowd: _Crowd) -> None:
        barrier = _barrier(op, run, frame, operands, crowd)
        assert run.parts is not None
        lanes = np.arange(run.lanes)[crowd.lanes]
        come = len(lanes) // run.subgroup_size
        if come > barrier.missing:
            raise _error(
                op, run, crowd.group, f"arrives {come} times in phase {barrier.ended} of an "
                f"mbarrier, which lacks {barrier.missing} of {barrier.count} arrivals; a phase is "
                "to be waited for before the next",
            )  # fmt: skip
        _arrive(op, run, barrier, crowd, lanes)
        barrier.missing -= come

    return _of_crowds(op, act, by_first=False)


def mbarrier_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, crowd: _Crowd) -> None:
        barrier = _barrier(op, run, frame, operands, crowd)
        parts, lanes = run.parts, np.arange(run.lanes)[crowd.lanes]
        if parts is None and not barrier.known:
            raise _error(op, run, crowd.group, _UNKNOWN.format("k.barrier()"))
        _check_known(op, run, barrier, crowd, lanes)
        # The phase of a parity has ended if the present one has the other.
        parity = _number(op, run, frame, operands[2], crowd) % 2

        def is_over() -> bool:
            if barrier.settle() and parts is not None and not parts.clocks.end_phase(barrier.clock):
                raise _error(
                    op, run, crowd.group,
                    f"may end phase {barrier.ended - 1} of an mbarrier before all who wait for the "
                    "one before have seen its end",
                )  # fmt: skip
            return barrier.ended % 2 != parity

        def never() -> InterpreterError:
            return _error(op, run, crowd.group, f"waits for ever: {barrier.lacking()}")

        if parts is not None:
            parts.wait(is_over, never)
            parts.clocks.learn(barrier.clock, lanes)
        elif not is_over():
            raise never()
        for copy in barrier.copies:
            copy.arrive()
        barrier.copies.clear()

    return _of_crowds(op, act, by_first=False)


def copy_tile(op: Op, operands: list[int], results: list[int]) -> Step:
    lines, multicast = int(op.attributes["lines"]), bool(op.attributes["multicast"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        crowds = [crowd for crowd in _crowds(op, run, mask) if crowd.has_first]
        here = {crowd.group for crowd in crowds}
        for crowd in crowds:
            group = crowd.group
            data = _tile(op, run, frame, operands, crowd, lines)
            first = group // run.cluster * run.cluster
            targets = range(first, first + run.cluster) if multicast else [group]
            if not set(targets) <= here:
                raise _error(op, run, group, f"is alone in its cluster at {op.name}")
            number, offset = _place(op, run, frame, operands[0], crowd)
            at = offset + 4 * _number(op, run, frame, operands[1], crowd)
            room = _room(op, run, group, number)
            if at % _PATTERN or at + len(data) > room.nbytes:
                raise _error(
                    op, run, group, f"copies {len(data)} bytes to byte {at} of {room.name}, of "
                    f"{room.nbytes}; a tile begins at a multiple of {_PATTERN}",
                )  # fmt: skip
            key = _barrier_key(op, run, frame, operands[2:], crowd)
            for target in targets:
                _begin(op, run, room, crowd, target, at, data, (key[0], target, key[2]))

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
    op: Op, run: Run, room: SharedBuffer, asking: _Crowd, group: int, at: int, data: Array,
    key: tuple[int, int, int],
) -> None:  # fmt: skip
    """Begins the copy of a tile that one workgroup asks for to one of its cluster."""
    barrier = run.tiles.barriers.get(key)
    if barrier is None:
        raise _error(op, run, group, f"has no mbarrier at byte {key[2]} of its array")
    if group != asking.group and not barrier.known_to_cluster:
        raise _error(op, run, group, _UNKNOWN.format("k.cluster_barrier()"))
    end = at + len(data)
    for reading in run.tiles.readings:
        if reading.room is room and reading.group == group and reading.overlaps(at, end):
            raise _error(op, run, group, "copies over a tile that a product is still reading")
    # It is of nobody in the other workgroups.
    lane = asking.first if run.parts is not None else group * run.width
    _check_known(op, run, barrier, asking, np.array([lane]))
    room.begin_copy(
        np.array([at]), np.array([lane]), len(data), run.place(op.location), barrier.clock
    )
    barrier.come += len(data)
    barrier.copies.append(Copy(lambda: room.arrive(at, group, data), op.location))


def _tile(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], crowd: _Crowd, lines: int
) -> Array:
    """The bytes of a tile as they are in shared memory."""
    group = crowd.group
    numbers = [_number(op, run, frame, slot, crowd) for slot in operands[6:]]
    length, height, planes, column, line, plane = numbers
    number, offset = _place(op, run, frame, operands[5], crowd)
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
    _check_map(op, run, frame, operands[4], crowd, (length, height, planes, lines))
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
    op: Op, run: Run, frame: Frame, slot: int, crowd: _Crowd, wanted: tuple[int, int, int, int]
) -> None:
    """The map of an emulated device says the same as the kernel; zeros say nothing."""
    number, offset = _place(op, run, frame, slot, crowd)
    at, lanes = np.array([offset]), np.array([crowd.first])
    words = run.buffers[number].load(at, lanes, types.u64, 4, run.place(op.location))
    given = tuple(int(word[0]) for word in words)
    if any(given) and given != wanted:
        raise _error(
            op, run, crowd.group, f"has {wanted} as length, height and planes of an array and lines of a "
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
        here = {crowd.group for crowd in _crowds(op, run, mask)}
        for first in sorted({group // run.cluster * run.cluster for group in here}):
            missing = set(range(first, first + run.cluster)) - here
            if missing:
                raise _error(op, run, min(missing), f"does not reach the {op.name} of its cluster")
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
    def first(frame: Frame, run: Run, crowd: _Crowd) -> Array:
        return _matrix(op, run, frame, operands[:2], crowd, MATRIX_ROWS, "a")

    return _multiply(op, operands, results, first)


def mma_rows(op: Op, operands: list[int], results: list[int]) -> Step:
    element = str(op.attributes["element"])
    depth = np.arange(2)

    def first(frame: Frame, run: Run, crowd: _Crowd) -> Array:
        a = np.empty((MATRIX_ROWS, MATRIX_DEPTH))
        for number, slot in enumerate(operands[:4]):
            words = np.ascontiguousarray(array(frame[slot])[crowd.lanes]).view(np.uint16)
            column = 2 * _PART[:, None] + 8 * (number >> 1) + depth
            a[_ROW[:, None] + 8 * (number & 1), column] = numbers_of_halves(
                element, words.reshape(-1, 2)
            )
        return a

    return _multiply(op, operands, results, first)


def _multiply(
    op: Op, operands: list[int], results: list[int],
    first: Callable[[Frame, Run, _Crowd], Array],
) -> Step:  # fmt: skip
    """The step of a product, whose first factor is given by `first`, for each four subgroups."""
    count, tied, element = len(results), op.definition.tied or 0, str(op.attributes["element"])
    number = np.arange(count)[:, None]
    row = _ROW + 8 * (number // 2 % 2)
    column = 8 * (number // 4) + 2 * _PART + number % 2

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        sums = np.stack([array(frame[slot]) for slot in operands[tied:]])
        for number in _warpgroups(op, run, mask):
            begin = number * WARPGROUP
            crowd = _Crowd(begin // run.width, slice(begin, begin + WARPGROUP), begin)
            a = first(frame, run, crowd)
            b = _matrix(op, run, frame, operands[tied - 2 :], crowd, 2 * count, "b")
            own = sums[:, crowd.lanes]
            sums[:, crowd.lanes] = added(element, own, (a @ b.T)[row, column])
        for slot, values in zip(results, sums, strict=True):
            frame[slot] = values

    return step


_ELEMENTS = {"f32": "tf32"}
"""What is read of elements of tiles, if it is less."""


def _matrix(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], crowd: _Crowd, rows: int, name: str
) -> Array:
    """Elements of rows by 16, or 32 of 8 bits, 8 of f32, which the product reads until it is waited
    for."""
    apart = 4 * int(op.attributes[f"{name}_apart"]) if op.attributes[f"{name}_along"] else None
    element = factors(str(op.attributes["element"]))["ab".index(name)]
    element = _ELEMENTS.get(element, element)
    number, offsets = _places(op, run, frame, operands[0], crowd)
    first = offsets + 4 * array(frame[operands[1]])[crowd.lanes].astype(np.int64)
    group = crowd.group
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
    halves = room.tile(at, crowd.first, run.place(op.location))
    committed = int(run.tiles.committed[crowd.first // WARPGROUP])
    run.tiles.readings.append(Reading(room, group, at, crowd.first, committed))
    return numbers_of_halves(element, halves).astype(np.float64)


_LANE = np.arange(WARPGROUP)
_ROW, _PART = _LANE // 32 * 16 + _LANE % 32 // 4, _LANE % 4


def mma_commit(op: Op, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        run.tiles.committed[_warpgroups(op, run, mask)] += 1

    return step


def mma_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    pending = int(op.attributes["pending"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        tiles, here = run.tiles, set(_warpgroups(op, run, mask))
        going = []
        for reading in tiles.readings:
            own = reading.lane // WARPGROUP
            if own not in here or reading.number >= tiles.committed[own] - pending:
                going.append(reading)
            elif run.parts is not None:
                # It was being read until now, whatever its readers told others meanwhile.
                reading.room.read_tile(reading.places, reading.lane, run.place(op.location))
        tiles.readings = going
        # A result may have the slot of another operand.
        for result, value in zip(results, [frame[slot] for slot in operands], strict=True):
            frame[result] = value

    return step


def registers(op: Op, operands: list[int], results: list[int]) -> Step:
    """Whether there are as many the verifier has counted."""

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_together(op, run, mask)

    return step
