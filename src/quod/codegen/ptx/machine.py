"""The table of NVIDIA architectures, and the machine for each."""

from __future__ import annotations

from quod.errors import InputError, KernelError
from quod.frozen import frozen
from quod.kernel.machine import DEFAULT_SHARED_BYTES, Capability, Machine
from quod.names import nearest

DEFAULT_ARCH = "sm_90a"
DEFAULT_WORKGROUP_SIZE = 128
SUBGROUP_SIZE = 32
"""Threads per warp, on all architectures so far."""

_COMMON_FEATURES = frozenset((
    Capability.U64, Capability.CARRY, Capability.MAD_CARRY_32, Capability.SUBGROUPS,
    Capability.EXP2, Capability.NAMED_BARRIERS, Capability.BYTE_PRODUCTS,
))  # fmt: skip

_SINCE_80 = frozenset((
    Capability.F16, Capability.BF16, Capability.ASYNC_COPIES, Capability.TENSOR_CORES,
))  # fmt: skip
_SINCE_89 = frozenset((Capability.FLOATS8, Capability.FLOAT8_CORES))
_DEPENDENT_LAUNCH_SINCE = 90
"""The lowest compute capability, times ten, with griddepcontrol."""
_SETMAXNREG_SINCE = 90
"""The lowest compute capability, times ten, with setmaxnreg; needs an ``a`` target."""
_WITH_WGMMA = "sm_90a"
"""The only architecture with wgmma: later ones have other instructions."""


@frozen
class Architecture:
    """One row of the table of architectures.

    name: without the suffix of architecture-specific targets.
    capability: ten times the major compute capability plus the minor one.
    version: the first PTX version that supports `name`.
    shared_bytes: the maximum shared memory of a workgroup (CUDA C++ Programming Guide, technical
        specifications per compute capability).
    """

    name: str
    capability: int
    version: tuple[int, int]
    shared_bytes: int


_KIB = 1024
_ROWS = (
    Architecture("sm_75", 75, (6, 3), 64 * _KIB),
    Architecture("sm_80", 80, (7, 0), 163 * _KIB),
    Architecture("sm_86", 86, (7, 1), 99 * _KIB),
    Architecture("sm_87", 87, (7, 4), 163 * _KIB),
    Architecture("sm_89", 89, (7, 8), 99 * _KIB),
    Architecture("sm_90", 90, (7, 8), 227 * _KIB),
    Architecture("sm_100", 100, (8, 6), 227 * _KIB),
    Architecture("sm_103", 103, (8, 8), 227 * _KIB),
    Architecture("sm_110", 110, (9, 0), 227 * _KIB),
    Architecture("sm_120", 120, (8, 7), 99 * _KIB),
    Architecture("sm_121", 121, (8, 8), 99 * _KIB),
)

ARCHITECTURES: dict[str, Architecture] = {row.name: row for row in _ROWS} | {
    f"{row.name}a": row for row in _ROWS if row.capability >= 90
}
"""The rows by the names that the assembler accepts."""


def architecture(name: str) -> Architecture:
    """Look up an architecture such as ``sm_90a``; InputError if it is unknown."""
    if name not in ARCHITECTURES:
        close = nearest(name, ARCHITECTURES)
        hint = f"did you mean {close}?" if close else f"take one of {', '.join(ARCHITECTURES)}"
        raise InputError(f"there is no architecture {name}; {hint}")
    return ARCHITECTURES[name]


def has_dependent_launch(arch: str) -> bool:
    """Return whether an architecture supports programmatic dependent launch."""
    return architecture(arch).capability >= _DEPENDENT_LAUNCH_SINCE


def has_setmaxnreg(arch: str) -> bool:
    """Return whether warpgroups of an architecture can redistribute registers."""
    return arch.endswith("a") and architecture(arch).capability >= _SETMAXNREG_SINCE


def architecture_name(major: int, minor: int) -> str:
    """Return the name for a compute capability, for unknown ones the newest compatible name.

    KernelError for a GPU older than the table.
    """
    capability = 10 * major + minor
    older = [row for row in _ROWS if row.capability <= capability]
    if not older:
        raise KernelError(
            f"a GPU of compute capability {major}.{minor} is too old; {_ROWS[0].name} is the first "
            "architecture that is supported"
        )
    newest = older[-1]
    specific = f"{newest.name}a"
    return specific if newest.capability == capability and specific in ARCHITECTURES else (
        newest.name
    )  # fmt: skip


def ptx_machine(
    workgroup_size: int = DEFAULT_WORKGROUP_SIZE,
    arch: str = DEFAULT_ARCH,
    *,
    shared_bytes_limit: int | None = None,
) -> Machine:
    """Return the machine of one architecture.

    shared_bytes_limit: the device's limit on shared memory per workgroup; the default is the
        architecture's maximum. The machine has at least 48 KiB.
    Kernels that use more than 48 KiB must request it at the launch.
    """
    row = architecture(arch)
    features = _COMMON_FEATURES
    if row.capability >= 80:
        features |= _SINCE_80
    if row.capability >= 89:
        features |= _SINCE_89
    if row.capability >= 90:
        features |= {Capability.MATRIX_STORES, Capability.TILE_COPIES}
    if arch == _WITH_WGMMA:
        features |= {Capability.WARPGROUPS}
    max_bytes = row.shared_bytes
    limit = max_bytes if shared_bytes_limit is None else min(max_bytes, shared_bytes_limit)
    return Machine(
        "ptx", workgroup_size, features, max(limit, DEFAULT_SHARED_BYTES), arch, SUBGROUP_SIZE
    )
