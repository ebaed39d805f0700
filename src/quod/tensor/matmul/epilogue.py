"""The epilogue of a product: bias, activation and residual, the same in every kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from quod.kernel import Builder, Value
from quod.tensor.accesses import Values
from quod.tensor.elementwise.activation_kernels import gelu, silu
from quod.tensor.elementwise.kernel import Function
from quod.tensor.matmul.form import GemmForm

FUNCTIONS: Mapping[str, Function] = {"gelu": gelu, "silu": silu}
"""The activations of a product by name, as elementwise functions."""


def completed(
    k: Builder, form: GemmForm, scaled: Sequence[Value], bias: Callable[[], Values],
    residual: Callable[[], Values],
) -> list[Value]:  # fmt: skip
    """Return activation(scaled + bias) + residual, where `form` selects the terms.

    bias, residual: Load the terms; called only if the form has them.
    """
    values = list(scaled)
    if form.bias:
        values = _plus(values, bias())
    if form.activation is not None:
        values = [FUNCTIONS[form.activation](k, value)[0] for value in values]
    if form.residual:
        values = _plus(values, residual())
    return values


def _plus(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
    return [x + y for x, y in zip(a, b, strict=True)]
