"""The capabilities that CPUs lack, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from quod.codegen.rules import NO_FLOATS8, PLAIN_COPIES, PLAIN_STORES
from quod.kernel.machine import Capability

UNSUPPORTED: Mapping[Capability, str] = {
    Capability.BYTE_PRODUCTS: "processors have none of this kind; write k.dot2(a, b, c)",
    Capability.EXP2: "processors have no such instruction; write k.exp2(a)",
    Capability.BF16: "few processors have such an instruction; write k.pack_bf16(a, b)",
    Capability.FLOATS8: NO_FLOATS8,
    Capability.FLOAT8_CORES: NO_FLOATS8,
    Capability.ASYNC_COPIES: PLAIN_COPIES,
    Capability.NAMED_BARRIERS: "instances are lanes of one vector; write k.barrier()",
    Capability.TENSOR_CORES: "processors differ in what they have; add products up",
    Capability.MATRIX_STORES: PLAIN_STORES,
    Capability.TILE_COPIES: PLAIN_COPIES,
    Capability.WARPGROUPS: "processors differ in what they have; add products up",
}
"""The reasons by capability; ops that need one have no rule."""
