"""Steps of the interpreter for tile copies, mbarriers, and the registers of roles.

A copied tile is readable once its mbarrier has been waited for. These ops execute once for all
instances of a workgroup or role that reach them, whose operands must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.arrivals import (
    ActiveLanes,
    active_lanes_of,
    address_of,
    error_of,
    number_of,
    tile_buffer_of,
)
from quod.kernel.interpreter.collectives import check_uniform_mask, forget_accesses
from quod.kernel.interpreter.memory import SharedBuffer
from quod.kernel.interpreter.pending import Copy, Mbarrier
from quod.kernel.interpreter.run import Frame, Mask, Run
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import COLUMNS, PATTERN

Step = Callable[[Frame, Run, Mask], None]

_MAX_COORDINATE = (1 << 31) - 1
"""The largest start index of a tile along an axis; hardware reads it as a signed number."""
_NO_MBARRIER = (
    "has no mbarrier at byte {} of its array yet; k.mbarrier_init makes one, and others know of it "
    "after a k.barrier()"
)
_UNKNOWN = "has an mbarrier that others do not know of; a {} is needed between"


def _barrier_key(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], active: ActiveLanes
) -> tuple[int, int, int]:
    buffer_index, offset = address_of(op, run, frame, operands[0], active)
    byte_offset = offset + 8 * number_of(op, run, frame, operands[1], active)
    shared_buffer = run.buffers[buffer_index]
    if not 0 <= byte_offset <= shared_buffer.nbytes - 8:
        raise error_of(op, run, active.group, f"has an mbarrier beyond {shared_buffer.name}")
    return buffer_index, active.group, byte_offset


def _barrier(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], active: ActiveLanes
) -> Mbarrier:
    key = _barrier_key(op, run, frame, operands, active)
    barrier = run.tiles.barriers.get(key)
    if barrier is None:
        raise error_of(op, run, active.group, _NO_MBARRIER.format(key[2]))
    return barrier


def _per_group(
    op: Op, act: Callable[[Frame, Run, ActiveLanes], None], *, by_first: bool = True
) -> Step:
    """Make a step that runs per workgroup, with `by_first` only if its first lane is active."""

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        for active in active_lanes_of(op, run, mask):
            if active.has_first or not by_first:
                act(frame, run, active)

    return step


def mbarrier_init(op: Op, operands: list[int], results: list[int]) -> Step:
    count = int(op.attributes["count"])

    def act(frame: Frame, run: Run, active: ActiveLanes) -> None:
        key = _barrier_key(op, run, frame, operands, active)
        if key in run.tiles.barriers:
            raise error_of(op, run, active.group, f"has made the mbarrier at byte {key[2]} before")
        shared_buffer = run.buffers[key[0]]
        assert isinstance(shared_buffer, SharedBuffer)
        shared_buffer.make_mbarrier(key[2], active.first, run.place(op.location))
        barrier = run.tiles.barriers[key] = Mbarrier(count, op.location)
        if run.parts is not None:
            barrier.clock = run.parts.clocks.begin_mbarrier(active.first)

    return _per_group(op, act)


def _check_known(op: Op, run: Run, barrier: Mbarrier, active: ActiveLanes, lanes: Array) -> None:
    """Raise InterpreterError if these lanes cannot see an mbarrier's initialisation.
    Only for kernels with roles; others check `visible_to_workgroup`.
    """
    if run.parts is not None and not run.parts.clocks.knows(barrier.clock, lanes):
        raise error_of(op, run, active.group, _UNKNOWN.format("k.barrier()"))


def _arrive(op: Op, run: Run, barrier: Mbarrier, active: ActiveLanes, lanes: Array) -> None:
    """Record arrivals of subgroups at an mbarrier in the clocks, in a kernel with roles."""
    assert run.parts is not None
    _check_known(op, run, barrier, active, lanes)
    if not run.parts.clocks.arrive(barrier.clock, lanes):
        raise error_of(
            op, run, active.group, "may arrive at an mbarrier again before the others have arrived"
        )


def mbarrier_expect(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, active: ActiveLanes) -> None:
        barrier = _barrier(op, run, frame, operands, active)
        if not barrier.missing:
            raise error_of(op, run, active.group, "expects bytes twice in one phase of an mbarrier")
        if run.parts is not None:
            _arrive(op, run, barrier, active, np.array([active.first]))
        barrier.missing -= 1
        barrier.expected += number_of(op, run, frame, operands[2], active)

    return _per_group(op, act)


def mbarrier_arrive(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, active: ActiveLanes) -> None:
        barrier = _barrier(op, run, frame, operands, active)
        assert run.parts is not None
        lanes = np.arange(run.lanes)[active.lanes]
        arrivals = len(lanes) // run.subgroup_size
        if arrivals > barrier.missing:
            raise error_of(
                op, run, active.group, f"arrives {arrivals} times in phase {barrier.ended} of an "
                f"mbarrier, which lacks {barrier.missing} of {barrier.count} arrivals; a phase is "
                "to be waited for before the next",
            )  # fmt: skip
        _arrive(op, run, barrier, active, lanes)
        barrier.missing -= arrivals

    return _per_group(op, act, by_first=False)


def mbarrier_wait(op: Op, operands: list[int], results: list[int]) -> Step:
    def act(frame: Frame, run: Run, active: ActiveLanes) -> None:
        barrier = _barrier(op, run, frame, operands, active)
        parts, lanes = run.parts, np.arange(run.lanes)[active.lanes]
        if parts is None and not barrier.visible_to_workgroup:
            raise error_of(op, run, active.group, _UNKNOWN.format("k.barrier()"))
        _check_known(op, run, barrier, active, lanes)
        # A phase of this parity has ended if the current phase has the other parity.
        parity = number_of(op, run, frame, operands[2], active) % 2

        def is_over() -> bool:
            if (
                barrier.try_end_phase()
                and parts is not None
                and not parts.clocks.end_phase(barrier.clock)
            ):
                raise error_of(op, run, active.group, barrier.describe_early_end())
            return barrier.ended % 2 != parity

        def deadlock_error() -> InterpreterError:
            return error_of(
                op, run, active.group, f"waits for ever: {barrier.describe_missing_arrivals()}"
            )

        if parts is not None:
            parts.wait(is_over, deadlock_error)
            if not parts.clocks.learn(barrier.clock, lanes):
                raise error_of(op, run, active.group, barrier.describe_ambiguous_wait())
        elif not is_over():
            raise deadlock_error()
        for copy in barrier.copies:
            copy.arrive()
        barrier.copies.clear()

    return _per_group(op, act, by_first=False)


def copy_tile(op: Op, operands: list[int], results: list[int]) -> Step:
    lines, multicast = int(op.attributes["lines"]), bool(op.attributes["multicast"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        issuers = [active for active in active_lanes_of(op, run, mask) if active.has_first]
        groups = {active.group for active in issuers}
        for active in issuers:
            group = active.group
            data = _read_tile(op, run, frame, operands, active, lines)
            first_group = group // run.cluster * run.cluster
            targets = range(first_group, first_group + run.cluster) if multicast else [group]
            if not set(targets) <= groups:
                raise error_of(op, run, group, f"is alone in its cluster at {op.name}")
            buffer_index, offset = address_of(op, run, frame, operands[0], active)
            byte_offset = offset + 4 * number_of(op, run, frame, operands[1], active)
            shared_buffer = tile_buffer_of(op, run, group, buffer_index)
            if byte_offset % PATTERN or byte_offset + len(data) > shared_buffer.nbytes:
                raise error_of(
                    op, run, group, f"copies {len(data)} bytes to byte {byte_offset} of "
                    f"{shared_buffer.name}, of {shared_buffer.nbytes}; a tile begins at a multiple "
                    f"of {PATTERN}",
                )  # fmt: skip
            key = _barrier_key(op, run, frame, operands[2:], active)
            for target in targets:
                _begin_copy(
                    op,
                    run,
                    shared_buffer,
                    active,
                    target,
                    byte_offset,
                    data,
                    (key[0], target, key[2]),
                )

    return step


def _begin_copy(
    op: Op, run: Run, shared_buffer: SharedBuffer, issuer: ActiveLanes, group: int,
    byte_offset: int, data: Array, key: tuple[int, int, int],
) -> None:  # fmt: skip
    """Start the copy of a tile from a requesting workgroup to workgroup `group` of its cluster."""
    barrier = run.tiles.barriers.get(key)
    if barrier is None:
        raise error_of(op, run, group, _NO_MBARRIER.format(key[2]))
    if group != issuer.group and not barrier.known_to_cluster:
        raise error_of(op, run, group, _UNKNOWN.format("k.cluster_barrier()"))
    end = byte_offset + len(data)
    for reading in run.tiles.readings:
        if (
            reading.room is shared_buffer
            and reading.group == group
            and reading.overlaps(byte_offset, end)
        ):
            raise error_of(op, run, group, "copies over a tile that a product is still reading")
    # In other workgroups of the cluster the copy is attributed to their first lane.
    lane = issuer.first if run.parts is not None else group * run.width
    _check_known(op, run, barrier, issuer, np.array([lane]))
    shared_buffer.begin_copy(
        np.array([byte_offset]), np.array([lane]), len(data), run.place(op.location), barrier.clock
    )
    barrier.arrived_bytes += len(data)
    barrier.copies.append(Copy(lambda: shared_buffer.arrive(byte_offset, group, data), op.location))


def _read_tile(
    op: Op, run: Run, frame: Frame, operands: Sequence[int], active: ActiveLanes, lines: int
) -> Array:
    """Read a tile from global memory; return its bytes in the swizzled order of shared memory."""
    group = active.group
    scalars = [number_of(op, run, frame, slot, active) for slot in operands[6:]]
    length, height, planes, column, line, plane = scalars
    buffer_index, offset = address_of(op, run, frame, operands[5], active)
    source = run.buffers[buffer_index]
    if offset % 16 or length % 8:
        raise error_of(
            op, run, group, f"copies tiles of lines of {length} elements from byte {offset}: "
            "lines begin at multiples of 16 bytes",
        )  # fmt: skip
    if max(scalars[3:]) > _MAX_COORDINATE:
        raise error_of(
            op, run, group, f"copies a tile that begins at {tuple(scalars[3:])}: places go to "
            f"{_MAX_COORDINATE}, and those above are before the array",
        )  # fmt: skip
    _check_map(op, run, frame, operands[4], active, (length, height, planes, lines))
    line_indices, column_indices = line + np.arange(lines)[:, None], column + np.arange(COLUMNS)
    in_array = (line_indices < height) & (column_indices < length) & (plane < planes)
    element_indices = (plane * height + line_indices) * length + column_indices
    byte_offsets = offset + 2 * element_indices[in_array]
    lanes = np.full(len(byte_offsets), group * run.width)
    (elements,) = source.load(byte_offsets, lanes, types.u16, 1, run.place(op.location))
    tile = np.zeros((lines, COLUMNS), np.uint16)
    tile[in_array] = elements
    swizzled = np.arange(8) ^ np.arange(lines)[:, None] % 8
    chunks = tile.reshape(lines, 8, 8)
    return np.take_along_axis(chunks, swizzled[:, :, None], axis=1).reshape(-1).view(np.uint8)


def _check_map(
    op: Op,
    run: Run,
    frame: Frame,
    slot: int,
    active: ActiveLanes,
    expected: tuple[int, int, int, int],
) -> None:
    """Compare an emulated device's tensor map with the kernel's operands, unless it is all zero."""
    buffer_index, offset = address_of(op, run, frame, slot, active)
    offsets, lanes = np.array([offset]), np.array([active.first])
    words = run.buffers[buffer_index].load(offsets, lanes, types.u64, 4, run.place(op.location))
    encoded = tuple(int(word[0]) for word in words)
    if any(encoded) and encoded != expected:
        raise error_of(
            op, run, active.group, f"has {expected} as length, height and planes of an array and "
            f"lines of a tile, and their tensor map says {encoded}",
        )  # fmt: skip


def check_arrived(run: Run) -> None:
    """Raise InterpreterError at the end of workgroups for copies that nothing has waited for.
    Also raise it for an mbarrier whose last phase may end before all waits for the previous one.
    """
    for (_, group, _), barrier in run.tiles.barriers.items():
        for copy in barrier.copies:
            raise InterpreterError(
                f"workgroup {run.first + group} ends while this tile is on its way to it; "
                "k.mbarrier_wait waits for it",
                copy.location,
            )
        clocks = None if run.parts is None else run.parts.clocks
        if clocks is not None and barrier.try_end_phase() and not clocks.end_phase(barrier.clock):
            raise InterpreterError(
                f"workgroup {run.first + group} {barrier.describe_early_end()}", barrier.location
            )


def cluster_barrier(op: Op, operands: list[int], results: list[int]) -> Step:
    memory = bool(op.attributes["memory"])

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        groups = {active.group for active in active_lanes_of(op, run, mask)}
        for first_group in sorted({group // run.cluster * run.cluster for group in groups}):
            missing = set(range(first_group, first_group + run.cluster)) - groups
            if missing:
                raise error_of(
                    op, run, min(missing), f"does not reach the {op.name} of its cluster"
                )
        for (_, group, _), barrier in run.tiles.barriers.items():
            barrier.known_to_cluster |= group in groups
        forget_accesses(run, mask, products_only=not memory)

    return step


def registers(op: Op, operands: list[int], results: list[int]) -> Step:
    """Make a step that only checks that all instances of a role, or none, reach it."""

    def step(frame: Frame, run: Run, mask: Mask) -> None:
        check_uniform_mask(op, run, mask)

    return step
