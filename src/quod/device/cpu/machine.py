"""The machines for which kernels are traced for CPUs."""

from __future__ import annotations

import math

from quod.kernel.machine import Capability, Machine

LANES = {"ifma": 8, "avx2": 4, "neon": 4, "scalar": 1}
"""The default number of lanes of each strategy of field elements."""

SHARED_BYTES = 4 << 20
"""The maximum shared memory of a workgroup, which is on a worker's stack
(`large_stack_thread.STACK_BYTES`)."""


def machine_of(strategy: str, lanes: int, *, has_f16: bool, pair_product_lanes: int) -> Machine:
    """Return the machine for kernels of `lanes` lanes.

    pair_product_lanes: The widest vector whose lanes multiply pairs of 16-bit integers, or 0.
    """
    features = {Capability.U64, Capability.SUBGROUPS, Capability.VECTOR_LANES}
    if lanes == 8 and strategy == "ifma":
        features.add(Capability.IFMA52)
    if lanes == 4 and strategy in ("avx2", "neon"):
        features.add(Capability.WORD_PRODUCTS)
    if lanes == 1:
        features.add(Capability.CARRY)
    if lanes in (4, 8, 16) and lanes <= pair_product_lanes:
        features.add(Capability.PAIR_PRODUCTS)
    if has_f16:
        features.add(Capability.F16)
    return Machine(
        "llvm", lanes, frozenset(features), shared_bytes_limit=SHARED_BYTES,
        subgroup_size=math.gcd(lanes, 32),
    )  # fmt: skip
