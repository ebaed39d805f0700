"""The kernels that convert between 8-bit floats and f32, f16 or bf16.

A scale maps the largest absolute value to the greatest finite number of the 8-bit type.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from quod.frozen import replace
from quod.kernel import Builder, KernelDefinition, Value, bf16, e4m3, f32
from quod.kernel.ir.types import FLOATS8, Type
from quod.kernel.ops import float8
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES, flat_kernel
from quod.tensor.rows.kernels import row_kernel
from quod.tensor.rows.plan import RowPlan
from quod.tensor.rows.row import Access, Row, in_pairs

LEAST = 2.0**-100
"""The smallest absolute maximum that a scale is computed from, so that 1 / scale fits f32."""


def _largest(k: Builder, row: Row, source: Value) -> Value:
    """Return the largest absolute value of the row, or NaN if an element is NaN."""

    def step(accesses: list[Access], carried: Values) -> Values:
        # Accesses beyond the row repeat its last one, which does not change a maximum.
        magnitudes = [abs(value) for access in accesses for value in access.values]
        return (k.maximum(carried[0], in_pairs(magnitudes, k.maximum)),)

    (lane_largest,) = row.fold(source, (k.constant(LEAST, f32),), step)
    return row.combined(lane_largest, k.maximum)


def _quantise_rows(
    k: Builder, rows: Value, width: Value, x: Value, y: Value, scales: Value, *, element: Type,
    stored: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """y[r] = x[r] / scales[r]; the scale maps the largest absolute value to the type's maximum."""
    row = Row(k, element, plan, rows, width, stored=stored)
    source = row.input_pointer(x)
    scale = _largest(k, row, source) / float8.greatest(stored)
    inverse_scale = 1.0 / scale
    row.store(
        source,
        row.output_pointer(y),
        lambda access: [value * inverse_scale for value in access.values],
    )
    row.put(scales, scale)


def _largest_of_rows(
    k: Builder, rows: Value, width: Value, x: Value, sizes: Value, *, element: Type, divisor: float,
    plan: RowPlan,
) -> None:  # fmt: skip
    """sizes[r] = max(abs(x[r])) / divisor."""
    row = Row(k, element, plan, rows, width)
    row.put(sizes, _largest(k, row, row.input_pointer(x)) / divisor)


def _dequantise_rows(
    k: Builder, rows: Value, width: Value, x: Value, scales: Value, y: Value, *, element: Type,
    fp8: Type, single_scale: bool, plan: RowPlan,
) -> None:  # fmt: skip
    """y[r] = x[r] * scales[r], or x[r] * scales[0] with `single_scale`."""
    row = Row(k, fp8, plan, rows, width, stored=element)
    source, scale = row.input_pointer(x), scales[0] if single_scale else row.own(scales)
    row.store(
        source, row.output_pointer(y), lambda access: [value * scale for value in access.values]
    )


def _quantise_elements(k: Builder, scale: Value, x: Value) -> list[Value]:
    """y = x / scale of each element."""
    return [x * (1.0 / scale)]


def _rows(body: Any, element: Type, memory: dict[str, Type], fp8: Type) -> KernelDefinition:
    """Build a kernel of rows, with the 8-bit type appended to its name."""
    definition = row_kernel(body, element, [], "", memory)
    return replace(definition, name=f"{definition.name}_{fp8}")


_PAIRS = list(product(TYPES, FLOATS8))

QUANTISE_ROWS = {
    (element, stored): _rows(
        _quantise_rows, element, {"x": element, "y": stored, "scales": f32}, stored
    )
    for element, stored in _PAIRS
}
QUANTISE_ELEMENTS = {
    (element, stored): flat_kernel(
        f"quantise_elements_{element}_{stored}", _quantise_elements, "", {"x": element},
        {"y": stored}, held={"scale": 1},
    )
    for element, stored in _PAIRS
}  # fmt: skip
DEQUANTISE_ROWS = {
    (element, fp8): _rows(_dequantise_rows, element, {"x": fp8, "scales": f32, "y": element}, fp8)
    for element, fp8 in _PAIRS
}
"""The kernels by element type and 8-bit type."""
LARGEST_OF_ROWS = {
    element: row_kernel(_largest_of_rows, element, [], "x", {"sizes": f32}) for element in TYPES
}

_PLAN = partial(RowPlan, lanes=8, threads=8, batch=2, single_step=True)
register(
    "tensor.quantise_rows_bf16_e4m3", QUANTISE_ROWS[bf16, e4m3], element=bf16, stored=e4m3,
    plan=_PLAN(vector=8),
)  # fmt: skip
register(
    "tensor.dequantise_rows_f32_e4m3", DEQUANTISE_ROWS[f32, e4m3], element=f32, fp8=e4m3,
    single_scale=False, plan=_PLAN(vector=4),
)  # fmt: skip
