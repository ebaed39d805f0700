"""The product of 8-bit integer matrices: exact sums, or scaled floats."""

from __future__ import annotations

from quod.kernel import bf16, f16, f32, i32
from quod.kernel.registry import register
from quod.tensor.matmul.plan import GemmPlan
from quod.tensor.matmul.scaled import ScaledForm, scaled_kernel

RESULTS = (i32, f32, f16, bf16)
"""The types of results: exact sums (i32), or scaled floats."""

GEMM_INT8 = {element: scaled_kernel("gemm_int8", element, tiles=False) for element in RESULTS}
"""The kernels by result type."""
GEMM_INT8_TILES = {element: scaled_kernel("gemm_int8", element, tiles=True) for element in RESULTS}
"""The kernels for warpgroups by result type."""

for _element in (i32, f16):
    register(
        f"tensor.gemm_int8_{_element}", GEMM_INT8[_element], element=_element,
        plan=GemmPlan(64, 8, 4, 4, 1, 1, 8, 1, 4),
        form=ScaledForm(row_scales=_element is f16, column_scales=_element is f16),
    )  # fmt: skip
