"""A small transformer: its forward and backward pass as calls of `quod.tensor`.

Tokens and their positions are embedded by tables. Each layer has attention and a gated perceptron;
the output of each is added to its input and then normalised (Vaswani et al., "Attention is all you
need", 2017, with RMS norms and SwiGLU). Every sum of two tensors is the `residual` of a product.
Heads are the outermost axis of attention's operands, so that no tensor is transposed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device import Buffer
from quod.device.protocol import AnyDevice
from quod.tensor import (
    adamw,
    attention,
    attention_backward,
    cross_entropy,
    embedding,
    gemm,
    gradient_norm,
    rms_norm,
    rms_norm_backward,
    swiglu,
    swiglu_backward,
)

MAX_NORM = 1.0
"""Gradients are clipped to this norm."""
BETAS = 0.9, 0.999
"""The decay factors of AdamW's moments."""
_ALIGNMENT = 64


@dataclass(frozen=True)
class Shape:
    """The sizes of the model; a batch has `batch` sequences of `tokens` tokens."""

    symbols: int = 16
    tokens: int = 16
    width: int = 64
    heads: int = 2
    hidden: int = 128
    layers: int = 2
    batch: int = 32

    @property
    def rows(self) -> int:
        """The number of tokens in a batch."""
        return self.batch * self.tokens

    @property
    def size(self) -> int:
        """The number of elements of a head."""
        return self.width // self.heads

    def parameters(self) -> Iterator[tuple[str, tuple[int, ...], float]]:
        """Yield the name, the shape and the initial standard deviation of each parameter.

        A standard deviation of 0 means ones, for norms.
        """
        width_scale, hidden_scale = self.width**-0.5, self.hidden**-0.5
        yield "symbols", (self.symbols, self.width), 1.0
        yield "places", (self.tokens, self.width), 1.0
        for layer in range(self.layers):
            yield f"{layer}.qkv", (3 * self.heads, self.size, self.width), width_scale
            yield f"{layer}.mixed", (self.heads, self.size, self.width), width_scale
            yield f"{layer}.attended", (self.width,), 0.0
            yield f"{layer}.gate", (self.width, self.hidden), width_scale
            yield f"{layer}.up", (self.width, self.hidden), width_scale
            yield f"{layer}.down", (self.hidden, self.width), hidden_scale
            yield f"{layer}.made", (self.width,), 0.0
        yield "logits", (self.width, self.symbols), width_scale


class Tensors:
    """Tensors by name in one buffer, so that a step of AdamW is one launch."""

    def __init__(self, shape: Shape) -> None:
        self._offsets_and_sizes: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.count = 0
        for name, sizes, _ in shape.parameters():
            self._offsets_and_sizes[name] = self.count, sizes
            self.count += -(-math.prod(sizes) // _ALIGNMENT) * _ALIGNMENT

    def of(self, memory: Buffer, name: str) -> Buffer:
        """Return the tensor `name` in a buffer."""
        first, sizes = self._offsets_and_sizes[name]
        return view(memory, sizes, first)

    def first_values(self, shape: Shape, seed: int) -> NDArray[np.float32]:
        """Return the initial parameters; the padding between tensors is 0 and stays 0."""
        generator = np.random.default_rng(seed)
        values = np.zeros(self.count, np.float32)
        for name, sizes, deviation in shape.parameters():
            first, count = self._offsets_and_sizes[name][0], math.prod(sizes)
            random_values = generator.normal(0, deviation, count) if deviation else np.ones(count)
            values[first : first + count] = random_values
        return values


def view(memory: Buffer, shape: tuple[int, ...], first: int = 0) -> Buffer:
    """Return a tensor of f32 within a buffer, from element `first` on."""
    tensor = memory.slice(4 * first, 4 * (first + math.prod(shape)))
    tensor.dtype, tensor.shape = np.dtype(np.float32), shape
    return tensor


def allocated(device: AnyDevice, *shape: int) -> Buffer:
    """Allocate a tensor of f32."""
    return view(device.allocate(4 * math.prod(shape), zero=False), shape)


class Transformer:
    """The model, its gradients and moments and one batch, all in device memory.

    `step` launches a training step on its argument, which may be a device that records. It reads
    `tokens`, `targets` and `rates`, and writes `loss` and `logits`.
    """

    def __init__(self, device: AnyDevice, shape: Shape, seed: int = 0) -> None:
        self.shape, self._tensors = shape, Tensors(shape)
        values = self._tensors.first_values(shape, seed)
        self.parameters = device.upload(values)
        self.gradients, self.first_moments, self.second_moments = (
            device.upload(np.zeros_like(values)) for _ in range(3)
        )
        self.tokens = device.upload(np.zeros(shape.rows, np.int32))
        self.targets = device.upload(np.zeros(shape.rows, np.int32))
        self.rates = device.upload(np.zeros(3, np.float32))
        self.loss = allocated(device, 1)
        self.logits = allocated(device, shape.rows, shape.symbols)
        self._one_hot = device.upload(np.eye(shape.symbols, dtype=np.float32))
        self._ones = device.upload(np.ones((1, shape.batch), np.float32))
        positions = np.tile(np.arange(shape.tokens, dtype=np.int32), shape.batch)
        self._positions = device.upload(positions)

    def step(self, device: AnyDevice) -> None:
        """Compute the loss and the gradients of all parameters, and update by AdamW."""
        shape = self.shape
        # Embed tokens by a product with one-hot rows: then the gradient is a product, too.
        one_hot_rows = embedding(device, self._one_hot, self.tokens, check=False)
        position_rows = embedding(device, self.weight("places"), self._positions, check=False)
        x = gemm(device, one_hot_rows, self.weight("symbols"), residual=position_rows)
        layers = []
        for number in range(shape.layers):
            layers.append(Layer(self, number, x))
            x = layers[-1].forward(device)

        gemm(device, x, self.weight("logits"), out=self.logits)
        logits_gradient = allocated(device, shape.rows, shape.symbols)
        cross_entropy(
            device, self.logits, self.targets, gradient=logits_gradient, check=False, out=self.loss
        )

        gemm(device, x, logits_gradient, transpose_a=True, out=self.gradient("logits"))
        dx = gemm(device, logits_gradient, self.weight("logits"), transpose_b=True)
        for layer in reversed(layers):
            dx = layer.backward(device, dx)
        gemm(device, one_hot_rows, dx, transpose_a=True, out=self.gradient("symbols"))
        position_elements = shape.tokens * shape.width
        gemm(
            device, self._ones, view(dx, (shape.batch, position_elements)),
            out=view(self.gradient("places"), (1, position_elements)),
        )  # fmt: skip
        norm = gradient_norm(device, [self.gradients])
        adamw(
            device, self.parameters, self.gradients, self.first_moments, self.second_moments,
            rates=self.rates, beta1=BETAS[0], beta2=BETAS[1], max_norm=MAX_NORM, norm=norm,
        )  # fmt: skip

    def weight(self, name: str) -> Buffer:
        """Return the parameter `name`."""
        return self._tensors.of(self.parameters, name)

    def gradient(self, name: str) -> Buffer:
        """Return the tensor for the gradient of the parameter `name`."""
        return self._tensors.of(self.gradients, name)


class Layer:
    """A layer of the model within one step: `forward` keeps what `backward` needs."""

    def __init__(self, model: Transformer, number: int, x: Buffer) -> None:
        self._model, self._number, self._x = model, number, x
        self._shape = model.shape

    def forward(self, device: AnyDevice) -> Buffer:
        """Compute attention and the perceptron."""
        shape, x = self._shape, self._x
        self._qkv = allocated(device, 3 * shape.heads, shape.rows, shape.size)
        for number, weight in enumerate(self._parts(self._weight("qkv"))):
            gemm(device, x, weight, transpose_b=True, out=self._part(self._qkv, number))
        self._log_sums = allocated(device, shape.heads, shape.batch, shape.tokens)
        self._heads = attention(
            device, *self._triple(self._qkv), causal=True, log_sums=self._log_sums
        )
        sums = x
        for number, weight in enumerate(self._parts(self._weight("mixed"))):
            sums = gemm(device, self._part(self._heads, number), weight, residual=sums)
        self._attended_sums = sums
        self._attended = rms_norm(device, sums, self._weight("attended"))

        self._gate = gemm(device, self._attended, self._weight("gate"))
        self._up = gemm(device, self._attended, self._weight("up"))
        self._hidden = swiglu(device, self._gate, self._up)
        self._sums = gemm(device, self._hidden, self._weight("down"), residual=self._attended)
        y: Buffer = rms_norm(device, self._sums, self._weight("made"))
        return y

    def backward(self, device: AnyDevice, dy: Buffer) -> Buffer:
        """Return the gradient of the layer's input; store the gradients of its parameters."""
        shape = self._shape
        dy = self._norm_backward(device, dy, self._sums, "made")
        gemm(device, self._hidden, dy, transpose_a=True, out=self._gradient("down"))
        hidden = gemm(device, dy, self._weight("down"), transpose_b=True)
        for branch_gradient, name in zip(
            swiglu_backward(device, hidden, self._gate, self._up), ("gate", "up"), strict=True
        ):
            gemm(
                device, self._attended, branch_gradient, transpose_a=True, out=self._gradient(name)
            )
            dy = gemm(device, branch_gradient, self._weight(name), transpose_b=True, residual=dy)

        dx = self._norm_backward(device, dy, self._attended_sums, "attended")
        heads = view(self._heads, (shape.heads, shape.rows, shape.size))
        gemm(device, heads, dx, transpose_a=True, out=self._gradient("mixed"))
        heads_gradient = allocated(device, *self._heads_shape())
        for number, weight in enumerate(self._parts(self._weight("mixed"))):
            gemm(device, dx, weight, transpose_b=True, out=self._part(heads_gradient, number))
        qkv_gradients = allocated(device, 3 * shape.heads, shape.rows, shape.size)
        attention_backward(
            device, heads_gradient, *self._triple(self._qkv), self._heads, self._log_sums,
            causal=True,
            out=self._triple(qkv_gradients),
        )  # fmt: skip
        gemm(device, qkv_gradients, self._x, transpose_a=True, out=self._gradient("qkv"))
        for number, weight in enumerate(self._parts(self._weight("qkv"))):
            dx = gemm(device, self._part(qkv_gradients, number), weight, residual=dx)
        return dx

    def _norm_backward(self, device: AnyDevice, dy: Buffer, x: Buffer, name: str) -> Buffer:
        dx = allocated(device, self._shape.rows, self._shape.width)
        rms_norm_backward(device, dy, x, self._weight(name), out=(dx, self._gradient(name)))
        return dx

    # --- memory

    def _weight(self, name: str) -> Buffer:
        return self._model.weight(f"{self._number}.{name}")

    def _gradient(self, name: str) -> Buffer:
        return self._model.gradient(f"{self._number}.{name}")

    def _heads_shape(self) -> tuple[int, ...]:
        """Return the shape of attention's operands: (heads, sequences, tokens, elements)."""
        return self._shape.heads, self._shape.batch, self._shape.tokens, self._shape.size

    def _triple(self, memory: Buffer) -> tuple[Buffer, Buffer, Buffer]:
        """Return the queries, keys and values of all heads."""
        sizes = self._heads_shape()
        first, second, third = (view(memory, sizes, index * math.prod(sizes)) for index in range(3))
        return first, second, third

    def _part(self, memory: Buffer, number: int) -> Buffer:
        """Return the part of a head, for all tokens."""
        sizes = self._shape.rows, self._shape.size
        return view(memory, sizes, number * math.prod(sizes))

    def _parts(self, weights: Any) -> list[Buffer]:
        """Return the matrices of a tensor with three axes."""
        count, *sizes = weights.shape
        return [view(weights, tuple(sizes), index * math.prod(sizes)) for index in range(count)]
