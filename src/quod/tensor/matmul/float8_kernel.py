"""The product of 8-bit float matrices, each operand of e4m3 or e5m2."""

from __future__ import annotations

from itertools import product

from quod.kernel import bf16, e4m3, e5m2, f16, f32
from quod.kernel.ir.types import FLOATS8
from quod.kernel.registry import register
from quod.tensor.matmul.plan import GemmPlan
from quod.tensor.matmul.scaled import ScaledForm, scaled_kernel

RESULTS = (f32, f16, bf16)
"""The types of results."""

GEMM_FLOAT8, GEMM_FLOAT8_TILES = (
    {
        pair: {
            element: scaled_kernel(f"gemm_{pair[0]}_{pair[1]}", element, pair, tiles=tiles)
            for element in RESULTS
        }
        for pair in product(FLOATS8, FLOATS8)
    }
    for tiles in (False, True)
)
"""The kernels by the types of A and B, then by result type; the second are for warpgroups."""

for _pair, _element in (((e4m3, e4m3), bf16), ((e5m2, e4m3), f32)):
    register(
        f"tensor.gemm_{_pair[0]}_{_pair[1]}_{_element}", GEMM_FLOAT8[_pair][_element],
        element=_element, operands=_pair, plan=GemmPlan(64, 8, 4, 4, 1, 1, 8, 1, 4),
        form=ScaledForm(row_scales=True, column_scales=True, one_column_scale=_element is f32),
    )  # fmt: skip
