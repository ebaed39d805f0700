"""Registers that roles of a workgroup give up and others get, and how many there are.

Source: PTX ISA 9.0, "setmaxnreg"; CUDA C++ Programming Guide, technical specifications per compute
capability.
"""

from __future__ import annotations

from quod.kernel.ops.tile import REGISTER_COUNTS, SUBGROUP

_QUARTERS = 4
_OF_QUARTER = 1 << 14


def at_entry(workgroup_size: int, resident: int) -> int:
    """The registers that each instance begins with, of a workgroup of which `resident`, at least
    one, are on a multiprocessor at the same time.

    Each quarter of a multiprocessor has registers of its own, and whole subgroups.
    """
    subgroups = -(-workgroup_size // SUBGROUP) * max(resident, 1)
    each = _OF_QUARTER // (-(-subgroups // _QUARTERS) * SUBGROUP)
    return min(each // REGISTER_COUNTS.step * REGISTER_COUNTS.step, REGISTER_COUNTS[-1])
