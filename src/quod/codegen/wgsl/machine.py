"""What kernels in WGSL may count on, and the machine that they are traced for.

Two strengths. ``portable`` is what every implementation of WebGPU has (its section "Limits"):
no 64-bit integers, no subgroups, 16 KiB of workgroup memory, 256 instances a workgroup, eight
storage buffers of at most 128 MiB each. What kernels use beyond that is made of it: 64-bit numbers
are pairs of words, and subgroups exchange values through workgroup memory. ``extended`` is what one
adapter offers.
"""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel.machine import Capability, Machine

DEFAULT_WORKGROUP_SIZE = 64
DEFAULT_LIMBS = "13:rolled"
"""Rolled, because drivers copy a product to wherever it is called."""
EMULATED_SUBGROUP_SIZE = 32
"""Instances a subgroup where subgroups go through workgroup memory."""

_KIB = 1024


@frozen
class WgslLimits:
    """What an adapter allows; the defaults are those of the specification.

    `buffer_bytes` is the most a buffer may have, `binding_bytes` the most of it that a kernel
    reaches through one binding, `storage_buffers` how many bindings there are, and
    `binding_alignment` what they begin at a multiple of. A dispatch has up to
    `groups_per_dimension` workgroups in each of its dimensions.
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
    """What kernels are traced for: limits, and what there is beyond the portable.

    `u64`: there are 64-bit integers (naga's ``u64``). `subgroup_size` is the size of real
    subgroups, or 0 where they are emulated. `limbs` says how field elements are held; see
    `quod.field.strategies.limb_choice`. `watched_loops`: the driver may end a loop early, which
    kernels are to notice and report.
    """

    limits: WgslLimits = WgslLimits()
    u64: bool = False
    subgroup_size: int = 0
    limbs: str = DEFAULT_LIMBS
    watched_loops: bool = False

    def machine(self, workgroup_size: int = DEFAULT_WORKGROUP_SIZE) -> Machine:
        """The machine of so many instances a workgroup.

        Its limit of workgroup memory leaves room for what emulated subgroups and `uniform` take.
        """
        features = {
            Capability.SUBGROUPS, Capability.SHORT_KERNELS, Capability.WORD_STORES,
            Capability.LOW_PRODUCTS,
        }  # fmt: skip
        if self.u64:
            features.add(Capability.U64)
        if self.watched_loops:
            features.add(Capability.WATCHED_LOOPS)
        size, reserved = self.subgroup_size, 256
        if not size:
            features.add(Capability.SLOW_SUBGROUPS)
            size, reserved = EMULATED_SUBGROUP_SIZE, 256 + 4 * workgroup_size
        return Machine(
            "wgsl", workgroup_size, frozenset(features),
            self.limits.workgroup_bytes - reserved, "", size, self.limbs,
        )  # fmt: skip


PORTABLE = WgslTarget()
