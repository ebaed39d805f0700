"""Registers that roles of a workgroup give up and others get, and how many there are.

Source: PTX ISA 9.0, "setmaxnreg"; CUDA C++ Programming Guide, technical specifications per compute
capability.
"""

from __future__ import annotations

from quod.kernel.tile_ops import REGISTER_COUNTS

_OF_MULTIPROCESSOR = 1 << 16


def at_entry(workgroup_size: int, resident: int) -> int:
    """The registers that each instance begins with, of a workgroup of which `resident`, at least
    one, are on a multiprocessor at the same time."""
    each = _OF_MULTIPROCESSOR // (workgroup_size * max(resident, 1))
    return min(each // REGISTER_COUNTS.step * REGISTER_COUNTS.step, REGISTER_COUNTS[-1])
