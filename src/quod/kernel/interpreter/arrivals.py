"""Active instances of collective ops, which a workgroup or a role executes once."""

from __future__ import annotations

import numpy as np

from quod.frozen import frozen
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.collectives import check_uniform_mask
from quod.kernel.interpreter.memory import Pointers, SharedBuffer
from quod.kernel.interpreter.run import Frame, Mask, Run, array
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import PATTERN, WARPGROUP


@frozen(eq=False)
class ActiveLanes:
    """Instances of one workgroup that reach a collective op: all of them, or part of a role.

    group: the index of the workgroup among those that run.
    lanes: the lanes of the instances.
    first: the lane of the instance that executes the op for all.
    has_first: whether `first` is among `lanes`.
    """

    group: int
    lanes: slice | Array
    first: int
    has_first: bool = True


def active_lanes_of(op: Op, run: Run, mask: Mask) -> list[ActiveLanes]:
    """Return the active lanes of a mask, one entry per workgroup."""
    check_uniform_mask(op, run, mask)
    if run.parts is not None:
        first = run.parts.first_instance(op)
        return [ActiveLanes(0, mask.lanes, first, bool(mask.bits[first]))] if mask.any else []
    groups = np.flatnonzero(mask.bits.reshape(-1, run.width)[:, 0]).tolist()
    return [
        ActiveLanes(group, slice(group * run.width, (group + 1) * run.width), group * run.width)
        for group in groups
    ]


def warpgroups_of(op: Op, run: Run, mask: Mask) -> list[int]:
    """Return the indices of the warpgroups in a mask; InterpreterError for an incomplete one."""
    check_uniform_mask(op, run, mask)
    rows = mask.bits.reshape(-1, WARPGROUP)
    is_incomplete = rows.any(axis=1) & ~rows.all(axis=1)
    if is_incomplete.any():
        first_lane = int(np.argmax(is_incomplete)) * WARPGROUP
        raise run.place(op.location).error(
            first_lane + int(np.argmin(rows[first_lane // WARPGROUP])),
            f"does not come to the {op.name} of its warpgroup",
        )
    return np.flatnonzero(rows[:, 0]).tolist()


def error_of(op: Op, run: Run, group: int, problem: str) -> InterpreterError:
    return InterpreterError(f"workgroup {run.first + group} {problem}", op.location)


def _differs(op: Op, run: Run, group: int) -> InterpreterError:
    return error_of(op, run, group, f"has an operand of {op.name} that differs between instances")


def number_of(op: Op, run: Run, frame: Frame, slot: int, active: ActiveLanes) -> int:
    """Return the value of an operand; raises InterpreterError if it differs between instances."""
    values = array(frame[slot])[active.lanes]
    if (values != values[0]).any():
        raise _differs(op, run, active.group)
    return int(values[0])


def addresses_of(
    op: Op, run: Run, frame: Frame, slot: int, active: ActiveLanes
) -> tuple[int, Array]:
    """Return a pointer operand as buffer number and byte offset per instance.

    Raises InterpreterError if the buffer differs between instances.
    """
    pointers = frame[slot]
    assert isinstance(pointers, Pointers)
    if isinstance(pointers.buffer, int):
        return pointers.buffer, pointers.offset[active.lanes]
    buffer_indices = pointers.buffer[active.lanes]
    if (buffer_indices != buffer_indices[0]).any():
        raise _differs(op, run, active.group)
    return int(buffer_indices[0]), pointers.offset[active.lanes]


def address_of(op: Op, run: Run, frame: Frame, slot: int, active: ActiveLanes) -> tuple[int, int]:
    """Return a pointer operand as buffer number and byte offset.

    Raises InterpreterError if either differs between instances.
    """
    buffer_index, offsets = addresses_of(op, run, frame, slot, active)
    if (offsets != offsets[0]).any():
        raise _differs(op, run, active.group)
    return buffer_index, int(offsets[0])


def tile_buffer_of(op: Op, run: Run, group: int, buffer_index: int) -> SharedBuffer:
    """Return the shared array of a tile.

    Raises InterpreterError if its alignment does not suit the swizzle.
    """
    shared_buffer = run.buffers[buffer_index]
    assert isinstance(shared_buffer, SharedBuffer)
    if shared_buffer.alignment % PATTERN:
        raise error_of(
            op, run, group, f"has tiles in {shared_buffer.name}, which begins at a multiple of "
            f"{shared_buffer.alignment} bytes; declare it by k.shared(..., alignment={PATTERN})",
        )  # fmt: skip
    return shared_buffer
