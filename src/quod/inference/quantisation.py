"""Perceptrons of 8-bit weights from layers of floats, and from PyTorch modules.

Weights have a scale per row, and those of the last layer one scale, so that logits can be compared.
The largest activation of a layer for the samples becomes 127.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.perceptron import MAX_ACTIVATION, MAX_TABLE_BITS, SHIFT, Layer, Perceptron
from quod.tensor.scalars import positive
from quod.validation import plain_array, shown_kind

if TYPE_CHECKING:
    from torch import nn

Reals = NDArray[np.float64]

_MAX_WEIGHT = 127
_MAX_BIAS = 1 << 24
"""The largest integer bias; a row whose bias would be larger has a larger scale."""
_WITHOUT_EFFECT = ("Dropout", "Flatten", "Identity")
"""Modules that do not change the activations of a network that is not being trained."""


@frozen(eq=False)
class QuantisedPerceptron:
    """A perceptron, and the scales of its inputs and logits.

    input_scale: The input that the integer 1 stands for.
    logit_scale: The logit that the integer 1 stands for.
    """

    perceptron: Perceptron
    input_scale: float
    logit_scale: float

    def images(self, inputs: Any) -> NDArray[np.uint8]:
        """Return inputs as images of the perceptron; values beyond its range are clamped.

        inputs: An array or tensor of numbers that are not negative, whose first axis indexes the
            images. Raises InputError for others.
        """
        width = self.perceptron.layers[0].inputs
        integers = np.rint(_inputs("inputs", inputs, width) / self.input_scale)
        return np.minimum(integers, MAX_ACTIVATION).astype(np.uint8)


def quantise_layers(
    layers: Sequence[tuple[Any, Any]], samples: Any, *, input_scale: float | None = None
) -> QuantisedPerceptron:
    """Quantise layers of floats, with rectifiers between them.

    layers: Weights of shape (outputs, inputs), and biases or None, of each layer.
    samples: Inputs like those to come, not negative; the scales of activations follow from them.
    input_scale: The input that the integer 1 stands for; by default the largest sample is 127.
    Raises InputError, which names the layer or argument, for arrays that do not fit.
    """
    floats = [_floats(number, *layer) for number, layer in enumerate(layers)]
    if not floats:
        raise InputError("there must be a layer at least")
    x = _inputs("samples", samples, floats[0][0].shape[1])
    if not len(x):
        raise InputError("there must be a sample at least")
    default_scale = float(x.max()) / MAX_ACTIVATION or 1.0
    first_scale = default_scale if input_scale is None else positive("input_scale", input_scale)
    x = np.minimum(np.rint(x / first_scale), MAX_ACTIVATION) * first_scale
    scale, hidden = first_scale, []
    for number, (weights, biases) in enumerate(floats):
        if x.shape[1] != weights.shape[1]:
            raise InputError(
                f"layer {number} takes {weights.shape[1]} activations; the one before it gives "
                f"{x.shape[1]}"
            )
        if number == len(floats) - 1:
            break
        layer, sum_scales = _quantised(weights, biases, scale, one_scale=False)
        x = np.maximum(x @ weights.T + biases, 0)
        # A rescaled sum must fit the lookup table, for any input.
        largest_sum = float((layer.largest_sums() * sum_scales).max())
        table_limit = (1 << (MAX_TABLE_BITS - 1)) - 2
        scale = max(float(x.max()) / MAX_ACTIVATION, largest_sum / table_limit) or 1.0
        multipliers = np.rint(sum_scales / scale * (1 << SHIFT)).astype(np.int64)
        hidden.append(Layer(layer.weights, layer.biases, multipliers))
    last, sum_scales = _quantised(*floats[-1], scale, one_scale=True)
    return QuantisedPerceptron(Perceptron((*hidden, last)), first_scale, float(sum_scales[0]))


def _quantised(
    weights: Reals, biases: Reals, scale: float, *, one_scale: bool
) -> tuple[Layer, Reals]:
    """Return a layer without multipliers, and the numbers that its rows' sums are multiples of.

    scale: The scale of the layer's inputs.
    one_scale: All rows have one scale.
    """
    row_scales = np.maximum(
        np.abs(weights).max(axis=1) / _MAX_WEIGHT, np.abs(biases) / (scale * _MAX_BIAS)
    )
    if one_scale:
        row_scales = np.full_like(row_scales, row_scales.max())
    row_scales = np.where(row_scales > 0, row_scales, 1.0)
    integers = np.rint(weights / row_scales[:, None]).astype(np.int8)
    sum_scales: Reals = row_scales * scale
    return Layer(integers, np.rint(biases / sum_scales).astype(np.int64), None), sum_scales


def quantise_module(
    module: nn.Module, samples: Any, *, input_scale: float | None = None
) -> QuantisedPerceptron:
    """Quantise a PyTorch module: `nn.Sequential` of `Linear`, with `ReLU` between them.

    `Dropout`, `Flatten` and `Identity` are left out. The other arguments are as in
    `quantise_layers`. Raises InputError, which names the module, for others.
    """
    if type(module).__name__ != "Sequential":
        raise InputError(f"the module must be an nn.Sequential, not {shown_kind(module)}")
    layers: list[tuple[Any, Any]] = []
    expected = "Linear"
    for name, child in _children(module):
        kind = type(child).__name__
        if kind in _WITHOUT_EFFECT:
            continue
        if kind != expected:
            raise InputError(f"module {name} must be {expected}, not {kind}")
        if kind == "Linear":
            layers.append((child.weight, child.bias))
        expected = "ReLU" if kind == "Linear" else "Linear"
    if layers and expected == "Linear":
        raise InputError("the last module must be Linear, not ReLU")
    return quantise_layers(layers, samples, input_scale=input_scale)


def _children(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the modules of nested sequences, with their names."""
    children: Iterable[tuple[str, Any]] = module.named_children()
    for name, child in children:
        if type(child).__name__ == "Sequential":
            yield from _children(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child


def _floats(number: int, weights: Any, biases: Any) -> tuple[Reals, Reals]:
    """Return a layer's weights and biases in float64."""
    matrix = _reals(f"the weights of layer {number}", weights)
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(
            f"the weights of layer {number} must be of shape (outputs, inputs), not {matrix.shape}"
        )
    row = np.zeros(len(matrix)) if biases is None else _reals(
        f"the biases of layer {number}", biases
    )  # fmt: skip
    if row.shape != (len(matrix),):
        raise InputError(
            f"the biases of layer {number} must be {len(matrix)} numbers, not of shape {row.shape}"
        )
    return matrix, row


def _inputs(name: str, value: Any, width: int) -> Reals:
    """Return inputs in float64, one row per image."""
    array = _reals(name, value)
    if array.ndim < 2 or array.size != len(array) * width:
        raise InputError(f"{name} must be rows of {width} numbers, not of shape {array.shape}")
    if (array < 0).any():
        raise InputError(f"{name} must not be negative; add an offset, and subtract it in the bias")
    return array.reshape(len(array), width)


def _reals(name: str, value: Any) -> Reals:
    """Return finite numbers of an array or tensor in float64."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    array = plain_array(name, value)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"{name} must be finite numbers")
    return array.astype(np.float64)
