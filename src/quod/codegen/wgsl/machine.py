"""Limits and features of WGSL targets, and the machine of each.

There are two levels. ``portable`` is the minimum of all WebGPU implementations (section "Limits" of
the specification): no 64-bit integers, no subgroups, 16 KiB of workgroup memory, workgroups of 256,
eight storage buffers of at most 128 MiB each. Other features are emulated: 64-bit numbers are pairs
of words, and subgroups exchange values through workgroup memory. ``extended`` uses the features of
one adapter.
"""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel.machine import Capability, Machine

DEFAULT_WORKGROUP_SIZE = 64
DEFAULT_LIMBS = "13:rolled"
"""Rolled loops, because drivers inline products at each call."""
EMULATED_SUBGROUP_SIZE = 32
"""The size of subgroups emulated with workgroup memory."""

_KIB = 1024


@frozen
class WgslLimits:
    """The limits of an adapter; the defaults are those of the specification.

    buffer_bytes: the maximum size of a buffer.
    binding_bytes: the maximum size of one binding.
    storage_buffers: the maximum number of storage bindings.
    binding_alignment: the alignment of a binding's offset in bytes.
    groups_per_dimension: the maximum workgroups of a dispatch per dimension.
    """

    buffer_bytes: int = 256 * _KIB * _KIB
    binding_bytes: int = 128 * _KIB * _KIB
    storage_buffers: int = 8
    binding_alignment: int = 256
    workgroup_bytes: int = 16 * _KIB
    largest_workgroup: int = 256
    groups_per_dimension: int = 65535


@frozen
class WgslTarget:
    """A WGSL target: limits, and features beyond the portable ones.

    limits: of the adapter.
    u64: native 64-bit integers are available (naga's ``u64``).
    subgroup_size: the size of native subgroups; 0 if they are emulated.
    limbs: the representation of field elements; see `quod.field.strategies.limb_choice`.
    watched_loops: the driver may end a loop early, which kernels must detect and report.
    few_kernels: users wait for the compilation of all kernels; see `Capability.FEW_KERNELS`.
    """

    limits: WgslLimits = WgslLimits()
    u64: bool = False
    subgroup_size: int = 0
    limbs: str = DEFAULT_LIMBS
    watched_loops: bool = False
    few_kernels: bool = False

    def machine(self, workgroup_size: int = DEFAULT_WORKGROUP_SIZE) -> Machine:
        """Return the machine for a workgroup size.

        Its limit of workgroup memory leaves room for emulated subgroups and `uniform`.
        """
        features = {
            Capability.SUBGROUPS, Capability.SHORT_KERNELS, Capability.WORD_STORES,
            Capability.LOW_PRODUCTS,
        }  # fmt: skip
        if self.u64:
            features.add(Capability.U64)
        if self.watched_loops:
            features.add(Capability.WATCHED_LOOPS)
        if self.few_kernels:
            features.add(Capability.FEW_KERNELS)
        size, reserved = self.subgroup_size, 256
        if not size:
            features.add(Capability.SLOW_SUBGROUPS)
            size, reserved = EMULATED_SUBGROUP_SIZE, 256 + 4 * workgroup_size
        return Machine(
            "wgsl", workgroup_size, frozenset(features),
            self.limits.workgroup_bytes - reserved, "", size, self.limbs,
        )  # fmt: skip


PORTABLE = WgslTarget()
