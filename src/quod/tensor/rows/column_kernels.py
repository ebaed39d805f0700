"""The kernels of column sums: gradients of norms' weights and biases, and sums of partial sums."""

from __future__ import annotations

from typing import Any

from quod.kernel import Builder, KernelDefinition, Value, bf16, f32
from quod.kernel.ir.types import Type
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.column_sums import ColumnPlan, Columns, slab_of
from quod.tensor.rows.kernels import row_kernel


def _rms_norm_vectors(
    k: Builder, rows: Value, width: Value, gradient: Value, x: Value, scales: Value,
    weight_sums: Value, *, element: Type, plan: ColumnPlan,
) -> None:  # fmt: skip
    """Sum dy * x * scale over slabs of rows."""
    columns = Columns(k, plan, width)

    def terms(row: Value) -> list[Values]:
        (scale,) = k.load(scales, row)
        gradients, values = columns.load(gradient, element, row), columns.load(x, element, row)
        return [tuple(dy * (value * scale) for dy, value in zip(gradients, values, strict=True))]

    (slab_sums,) = columns.sums(*slab_of(k, columns, rows), terms, 1)
    columns.store(weight_sums, f32, columns.slab, slab_sums)


def _layer_norm_vectors(
    k: Builder, rows: Value, width: Value, gradient: Value, x: Value, scales: Value, means: Value,
    weight_sums: Value, bias_sums: Value, *, element: Type, plan: ColumnPlan,
) -> None:  # fmt: skip
    """Sum dy * (x - mean) * scale, and dy, over slabs of rows."""
    columns = Columns(k, plan, width)

    def terms(row: Value) -> list[Values]:
        (scale,), (mean,) = k.load(scales, row), k.load(means, row)
        gradients, values = columns.load(gradient, element, row), columns.load(x, element, row)
        pairs = zip(gradients, values, strict=True)
        return [tuple(dy * ((value - mean) * scale) for dy, value in pairs), gradients]

    weights, biases = columns.sums(*slab_of(k, columns, rows), terms, 2)
    columns.store(weight_sums, f32, columns.slab, weights)
    columns.store(bias_sums, f32, columns.slab, biases)


def _slab_sums(
    k: Builder, rows: Value, width: Value, y: Value, x: Value, *, element: Type, plan: ColumnPlan
) -> None:
    """Sum f32 over slabs of rows, and store the sums as elements."""
    columns = Columns(k, plan, width)
    slab = slab_of(k, columns, rows)
    (slab_sums,) = columns.sums(*slab, lambda row: [columns.load(x, f32, row)], 1)
    columns.store(y, element, columns.slab, slab_sums)


def _kernels(body: Any, memory: str, *f32_pointers: str) -> dict[Type, KernelDefinition]:
    other_parameters = dict.fromkeys(f32_pointers, f32)
    return {element: row_kernel(body, element, [], memory, other_parameters) for element in TYPES}


RMS_NORM_VECTORS = _kernels(_rms_norm_vectors, "gradient x", "scales", "weight_sums")
LAYER_NORM_VECTORS = _kernels(
    _layer_norm_vectors, "gradient x", "scales", "means", "weight_sums", "bias_sums"
)
SLAB_SUMS = _kernels(_slab_sums, "y", "x")
"""The kernels by element type; sums are f32."""

for _name, _family, _element in (
    ("rms_norm_vectors", RMS_NORM_VECTORS, bf16),
    ("layer_norm_vectors", LAYER_NORM_VECTORS, f32),
    ("slab_sums", SLAB_SUMS, f32),
):
    _plan = ColumnPlan(lanes=8, vector=16 // _element.bytes, batch=1)
    register(f"tensor.{_name}_{_element}", _family[_element], element=_element, plan=_plan)
