"""The initial register count per instance, which roles redistribute.

Source: PTX ISA 9.0, "setmaxnreg"; CUDA C++ Programming Guide, technical specifications per compute
capability.
"""

from __future__ import annotations

from quod.kernel.ops.tile import REGISTER_COUNTS, SUBGROUP

_QUARTERS = 4
_REGISTERS_PER_QUARTER = 1 << 14


def at_entry(workgroup_size: int, resident: int) -> int:
    """Return the registers per instance at entry, with `resident` workgroups per multiprocessor.

    Each quarter of a multiprocessor has its own register file and runs whole subgroups. A
    `resident` of 0 counts as 1.
    """
    subgroups = -(-workgroup_size // SUBGROUP) * max(resident, 1)
    registers_per_instance = _REGISTERS_PER_QUARTER // (-(-subgroups // _QUARTERS) * SUBGROUP)
    return min(
        registers_per_instance // REGISTER_COUNTS.step * REGISTER_COUNTS.step, REGISTER_COUNTS[-1]
    )
