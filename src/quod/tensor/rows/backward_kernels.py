"""The kernels of the gradients of row functions, one function for every type and device."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import Builder, Value, bf16, f32
from quod.kernel.ir.types import Type
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.kernels import row_kernel
from quod.tensor.rows.plan import RowPlan
from quod.tensor.rows.row import Access, Row, masked_terms, summed


def _softmax_backward(
    k: Builder, rows: Value, width: Value, gradient: Value, y: Value, dx: Value, *,
    element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """dx[r] = y[r] * (dy[r] - sum(dy[r] * y[r]))."""
    row = Row(k, element, plan, rows, width)
    gradient_row, y_row, zero = (
        row.input_pointer(gradient),
        row.input_pointer(y),
        k.constant(0.0, f32),
    )
    probabilities = row.once(lambda access: row.load(y_row, access.read_index))

    def products(accesses: list[Access], carried: Values) -> Values:
        terms = masked_terms(
            k, accesses, lambda slope, probability: slope * probability, probabilities
        )
        return (summed(terms, carried[0]),)

    total = row.total(row.fold(gradient_row, (zero,), products)[0])

    def result_of(access: Access) -> list[Value]:
        pairs = zip(access.values, probabilities(access), strict=True)
        return [probability * (slope - total) for slope, probability in pairs]

    row.store(gradient_row, row.output_pointer(dx), result_of)


def _rms_norm_backward(
    k: Builder, rows: Value, width: Value, epsilon: Value, gradient: Value, x: Value,
    weight: Value, dx: Value, scales: Value, *, element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """dx[r] = scale * (g - n * mean(g * n)), n = x[r] * scale and g = dy[r] * weight.

    The row's scale, 1 / sqrt(mean(x[r]**2) + epsilon), is recomputed, and stored for the gradient
    of the weights.
    """
    row = Row(k, element, plan, rows, width)
    source, zero = row.input_pointer(x), k.constant(0.0, f32)
    weighted_at = _weighted(row, gradient, weight)

    def sums(accesses: list[Access], carried: Values) -> Values:
        squares = summed(masked_terms(k, accesses, lambda value: value * value), carried[0])
        products = masked_terms(k, accesses, lambda value, weighted: value * weighted, weighted_at)
        return squares, summed(products, carried[1])

    squares, products = row.fold(source, (zero, zero), sums)
    scale = k.rsqrt(row.total(squares) / row.length_f32 + epsilon)
    _store(row, source, dx, weighted_at, scale, products)
    row.put(scales, scale)


def _layer_norm_backward(
    k: Builder, rows: Value, width: Value, epsilon: Value, gradient: Value, x: Value,
    weight: Value, dx: Value, scales: Value, means: Value, *, element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """dx[r] = scale * (g - mean(g) - n * mean(g * n)), g = dy[r] * weight.

    n = (x[r] - mean) * scale. Mean and scale are recomputed, and stored for the gradients of the
    vectors.
    """
    row = Row(k, element, plan, rows, width)
    source, zero = row.input_pointer(x), k.constant(0.0, f32)
    weighted_at = _weighted(row, gradient, weight)

    def plain(accesses: list[Access], carried: Values) -> Values:
        value_sum = summed(masked_terms(k, accesses, lambda value: value), carried[0])
        return value_sum, summed(
            masked_terms(k, accesses, lambda _, weighted: weighted, weighted_at), carried[1]
        )

    value_sum, gradient_sum = row.fold(source, (zero, zero), plain)
    mean, mean_gradient = (
        row.total(value_sum) / row.length_f32,
        row.total(gradient_sum) / row.length_f32,
    )

    def central(accesses: list[Access], carried: Values) -> Values:
        squares = masked_terms(k, accesses, lambda value: (value - mean) * (value - mean))
        products = masked_terms(
            k, accesses, lambda value, weighted: (value - mean) * weighted, weighted_at
        )
        return summed(squares, carried[0]), summed(products, carried[1])

    squares, products = row.fold(source, (zero, zero), central)
    scale = k.rsqrt(row.total(squares) / row.length_f32 + epsilon)
    _store(row, source, dx, weighted_at, scale, products, mean, mean_gradient)
    row.put(scales, scale)
    row.put(means, mean)


def _weighted(row: Row, gradient: Value, weight: Value) -> Callable[[Access], Values]:
    """Return a function for the gradient times the weights at an access of the row."""
    gradient_row, weight_vector = row.input_pointer(gradient), row.vector(weight)

    def result_of(access: Access) -> Values:
        pair = row.load(gradient_row, access.read_index), row.load(weight_vector, access.read_index)
        return tuple(slope * factor for slope, factor in zip(*pair, strict=True))

    return row.once(result_of)


def _store(
    row: Row, source: Value, dx: Value, weighted_at: Callable[[Access], Values], scale: Value,
    products: Value, mean: Value | None = None, mean_gradient: Value | None = None,
) -> None:  # fmt: skip
    """Store scale * (g - n * mean(g * n)).

    x and g are centred by `mean` and `mean_gradient` if these are given.
    """
    mean_product = row.total(products * scale) / row.length_f32

    def result_of(access: Access) -> list[Value]:
        gradients = []
        for value, weighted in zip(access.values, weighted_at(access), strict=True):
            centred_value = value if mean is None else value - mean
            centred_gradient = weighted if mean_gradient is None else weighted - mean_gradient
            gradients.append(scale * (centred_gradient - centred_value * scale * mean_product))
        return gradients

    row.store(source, row.output_pointer(dx), result_of)


SOFTMAX_BACKWARD = {
    element: row_kernel(_softmax_backward, element, [], "gradient y dx") for element in TYPES
}
RMS_NORM_BACKWARD = {
    element: row_kernel(
        _rms_norm_backward, element, ["epsilon"], "gradient x weight dx", {"scales": f32}
    )
    for element in TYPES
}
LAYER_NORM_BACKWARD = {
    element: row_kernel(
        _layer_norm_backward, element, ["epsilon"], "gradient x weight dx",
        {"scales": f32, "means": f32},
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by element type."""

for _name, _kernels, _element in (
    ("softmax_backward", SOFTMAX_BACKWARD, f32),
    ("rms_norm_backward", RMS_NORM_BACKWARD, bf16),
    ("layer_norm_backward", LAYER_NORM_BACKWARD, f32),
):
    _plan = RowPlan(lanes=8, threads=8, vector=16 // _element.bytes, batch=2, single_step=True)
    register(f"tensor.{_name}_{_element}", _kernels[_element], element=_element, plan=_plan)
