"""The integer program of a model under a plan: every shift, gain, bias and bound.

The reference and the kernels run the same program. docs/integer-transformer.md defines each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.model import Layer, Linear, Model, Norm
from quod.inference.transformer.rounding import (
    ACTIVATION,
    WIDE,
    Integers,
    nearest_root_scaled,
    nearest_scaled,
    residual_bits,
    root_bits,
)
from quod.inference.transformer.scales import LayerScales, Scales
from quod.inference.transformer.tables import EXP_STEPS, activation

NORM_BITS = 24
"""Normalised channels, before the gains, are in steps of 2**-24."""
_GAIN_BITS = 22
_MIN_EPSILON = 512
INVERSE_SUM_BITS = 46
"""An attention's sum of exponentials is inverted as 2**46 / sum."""
_MAX_SHIFT = 62
_MAX_BIAS = 1 << 62


@frozen(eq=False)
class Product:
    """A product with a matrix: (sum of weights times inputs + bias) / 2**shift, rounded.

    bias: int64 in units of the sum; None if there is none.
    shift: None if the sums themselves are the result.
    limit: The results saturate at -limit and limit.
    input_limit: The largest absolute value of an input.
    """

    matrix: IntegerMatrix
    bias: Integers | None
    shift: int | None
    limit: int
    input_limit: int


@frozen(eq=False)
class NormStep:
    """A norm: gains of 23 bits, biases of 64, and the shift of their sum.

    epsilon: The integer that is added to the sum of squares.
    centred: Whether the mean is subtracted.
    """

    gains: NDArray[np.int32]
    bias: Integers
    shift: int
    epsilon: int
    centred: bool


@frozen
class Quotient:
    """Differences of scores become steps of 2**-10: (difference * multiplier) >> shift, rounded."""

    multiplier: int
    shift: int


@frozen(eq=False)
class LayerSteps:
    """The steps of a layer.

    scores: The scale of the scores.
    mix_shift: The shift of the attention's weighted sums times the inverse of their weights.
    table: The activation, by its input plus 32768.
    hidden_shift: The shift of the product of the activated gate and `up`.
    """

    attention_norm: NormStep
    query: Product
    key: Product
    value: Product
    scores: Quotient
    mix_shift: int
    output: Product
    feed_forward_norm: NormStep
    gate: Product | None
    up: Product
    table: NDArray[np.int32]
    hidden_shift: int
    down: Product

    def products(self) -> Iterator[tuple[str, Product]]:
        """Return all products by name."""
        for name in ("query", "key", "value", "output", "gate", "up", "down"):
            product = getattr(self, name)
            if product is not None:
                yield name, product


@frozen(eq=False)
class Program:
    """The steps of a model.

    embedding_shift, position_shift: the shifts of embedded tokens and of learned positions.
    residual_limit: the residual stream saturates here.
    logit_bits: the fractional bits of logits.
    """

    model: Model
    scales: Scales
    embedding_shift: int
    position_shift: int
    residual_limit: int
    layers: tuple[LayerSteps, ...]
    norm: NormStep
    head: Product
    logit_bits: int

    def products(self) -> Iterator[tuple[str, Product]]:
        """Return all products, each with its layer and name."""
        for index, layer in enumerate(self.layers):
            for name, product in layer.products():
                yield f"{index}.{name}", product
        yield "head", self.head


def quotient(numerator: int, square: int, bits: int) -> Quotient:
    """Return the multiplier of 16 bits and the shift of 2**(10 - bits) * numerator / sqrt(square).

    `numerator` and `square` are above zero; the multiplier is rounded to nearest.
    """
    shift = 0
    while isqrt((numerator << shift) ** 2 // square) < 1 << 15:
        shift += 1
    root = isqrt(4 * (numerator << shift) ** 2 // square)
    return Quotient((root + 1) // 2, shift + bits - EXP_STEPS)


def build(model: Model, scales: Scales) -> Program:
    """Return the program of a model; InputError if a scale needs a shift that does not exist."""
    shape = model.architecture
    if len(scales.layers) != shape.layers:
        raise InputError(f"the plan has {len(scales.layers)} layers and the model {shape.layers}")
    build_layer = _LayerBuilder(model, scales)
    layers = [
        build_layer(layer, bits) for layer, bits in zip(model.layers, scales.layers, strict=True)
    ]
    head = build_layer.product(model.head, scales.norm, None, 0, ACTIVATION)
    positions = model.positions
    return Program(
        model, scales,
        _shift(-model.embedding.exponent - scales.residual, model.embedding.name),
        0 if positions is None else _shift(-positions.exponent - scales.residual, positions.name),
        (1 << residual_bits(shape.width)) - 1, tuple(layers),
        build_layer.norm(model.norm, scales.norm), head,
        scales.norm - model.head.matrix.exponent,
    )  # fmt: skip


class _LayerBuilder:
    def __init__(self, model: Model, scales: Scales) -> None:
        self._shape = model.architecture
        self._residual = scales.residual
        self._limit = (1 << residual_bits(self._shape.width)) - 1

    def __call__(self, layer: Layer, scales: LayerScales) -> LayerSteps:
        shape, residual, limit = self._shape, self._residual, self._limit
        normed, fed = scales.attention_norm, scales.feed_forward_norm

        def product(linear: Linear, bits: int, result: int) -> Product:
            return self.product(linear, bits, result, ACTIVATION, ACTIVATION)

        if layer.gate is None:
            gate = None
            table, hidden_shift = activation("gelu", scales.up, scales.hidden), 0
        else:
            gate = product(layer.gate, fed, scales.gate)
            table = activation("silu", scales.gate, scales.activated)
            hidden_shift = _shift(
                scales.activated + scales.up - scales.hidden, layer.up.matrix.name
            )
        return LayerSteps(
            self.norm(layer.attention_norm, normed), product(layer.query, normed, scales.query),
            product(layer.key, normed, scales.key), product(layer.value, normed, scales.value),
            quotient(1, shape.head_width, scales.query + scales.key),
            _shift(INVERSE_SUM_BITS + scales.value - scales.mixed, layer.value.matrix.name),
            self.product(layer.output, scales.mixed, residual, limit, ACTIVATION),
            self.norm(layer.feed_forward_norm, fed), gate, product(layer.up, fed, scales.up), table,
            hidden_shift, self.product(layer.down, scales.hidden, residual, limit, WIDE),
        )  # fmt: skip

    def product(
        self, linear: Linear, bits: int, result_bits: int | None, limit: int, input_limit: int
    ) -> Product:
        """Return a product whose inputs and results have these fractional bits."""
        matrix, bias = linear.matrix, None
        sum_bits = bits - matrix.exponent
        if linear.bias is not None:
            bias = _scaled_biases(linear.bias, sum_bits, matrix.name)
        shift = None if result_bits is None else _shift(sum_bits - result_bits, matrix.name)
        return Product(matrix, bias, shift, limit, input_limit)

    def norm(self, norm: Norm, bits: int) -> NormStep:
        """Return a norm whose results have these fractional bits."""
        shape = self._shape
        largest = float(np.abs(norm.gains).max())
        gain_bits = _GAIN_BITS - root_bits(largest, shape.width)
        sum_bits = NORM_BITS + gain_bits
        gains = [nearest_root_scaled(g, shape.width, gain_bits) for g in norm.gains.tolist()]
        bias = np.zeros(shape.width) if norm.bias is None else norm.bias
        epsilon = nearest_scaled(shape.epsilon * shape.width, 2 * self._residual)
        if epsilon + shape.width * self._limit**2 >= 1 << 63:
            raise InputError(
                f"the epsilon {shape.epsilon:g} of the norm {norm.name!r} is too large for 64 bits "
                f"under this plan, with {self._residual} fractional bits of the residual stream"
            )
        return NormStep(
            np.array(gains, np.int32),
            _scaled_biases(bias, sum_bits, norm.name),
            _shift(sum_bits - bits, norm.name), max(_MIN_EPSILON, epsilon),
            shape.family.centred,
        )  # fmt: skip


def _scaled_biases(biases: NDArray[np.float64], bits: int, name: str) -> Integers:
    """Return biases in units of a sum with these fractional bits."""
    scaled = [nearest_scaled(bias, bits) for bias in biases.tolist()]
    if max(map(abs, scaled)) >= _MAX_BIAS:
        raise InputError(
            f"the bias of tensor {name!r} is {np.abs(biases).max():g}, which is too large for 64 "
            "bits in the units of the sum that it is added to"
        )
    return np.array(scaled, np.int64)


def _shift(shift: int, name: str) -> int:
    if not 0 <= shift <= _MAX_SHIFT:
        raise InputError(
            f"tensor {name!r} needs a shift by {shift} bits under this plan, and shifts are from 0 "
            f"to {_MAX_SHIFT}; its weights or the values of its layer are of an unusual size"
        )
    return shift
