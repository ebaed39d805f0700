"""The capabilities that WGSL lacks, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from quod.codegen.rules import NO_FLOATS8, PLAIN_COPIES, PLAIN_STORES
from quod.kernel.machine import Capability

UNSUPPORTED: Mapping[Capability, str] = {
    Capability.BYTE_PRODUCTS: "it has no such function; write k.dot2(a, b, c)",
    Capability.F16: "it leaves rounding open; write k.pack_f16(a, b) or k.unpack_f16(word)",
    Capability.BF16: "it has no such type; write k.pack_bf16(a, b)",
    Capability.FLOATS8: NO_FLOATS8,
    Capability.FLOAT8_CORES: NO_FLOATS8,
    Capability.ASYNC_COPIES: PLAIN_COPIES,
    Capability.NAMED_BARRIERS: "it has one barrier, where all come; write k.barrier()",
    Capability.TENSOR_CORES: "its subgroup matrices are a draft; add products up",
    Capability.MATRIX_STORES: PLAIN_STORES,
    Capability.TILE_COPIES: PLAIN_COPIES,
    Capability.WARPGROUPS: "its matrices are of one subgroup; add products up",
}
"""The reasons by capability; ops that need one have no rule."""
