"""Checks and effects of collective ops, which all instances of a workgroup execute together."""

from __future__ import annotations

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.memory import SharedBuffer
from quod.kernel.interpreter.run import Mask, Run
from quod.kernel.ir.nodes import Op


def check_uniform_mask(op: Op, run: Run, mask: Mask) -> None:
    """Raise InterpreterError unless the mask has all or no instances of each workgroup."""
    if mask.full:
        return
    # In a kernel with roles, only the instances of each subgroup must reach the op together.
    width = run.width if run.parts is None else min(run.width, run.subgroup_size)
    rows = mask.bits.reshape(-1, width)
    is_incomplete = rows.any(axis=1) & ~rows.all(axis=1)
    if is_incomplete.any():
        group = int(np.argmax(is_incomplete))
        missing, waiting = int(np.argmin(rows[group])), int(np.argmax(rows[group]))
        if run.parts is not None:
            missing, waiting, group = missing + width * group, waiting + width * group, 0
        raise InterpreterError(
            f"instance {missing} of workgroup {run.first + group} does not reach the {op.name} "
            f"that instance {waiting} waits at",
            op.location,
        )


def forget_accesses(run: Run, mask: Mask, *, products_only: bool = False) -> None:
    """Order earlier accesses to shared memory, or only those of products, before later ones."""
    groups = None if mask.full else mask.bits.reshape(-1, run.width)[:, 0]
    for (_, group, _), barrier in run.tiles.barriers.items():
        barrier.visible_to_workgroup |= groups is None or bool(groups[group])
    for buffer in run.buffers:
        if isinstance(buffer, SharedBuffer):
            buffer.barrier(groups, products_only=products_only)
