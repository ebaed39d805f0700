"""A small transformer, forward and backward written out over the functions of `quod.tensor`.

Tokens and their places are looked up in tables; each layer is attention and a gated perceptron,
whose results are added to what they were given and then normalised (Vaswani et al., Attention is
all you need, 2017, with RMS norms and SwiGLU). Every sum of two tensors is the `residual` of a
product. Heads are the outermost axis of what attention reads, so that nothing is transposed.
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

MOST = 1.0
"""The norm that gradients are clipped to."""
BETAS = 0.9, 0.999
"""Shares of AdamW's moments that are kept in each step."""
_ALIGNMENT = 64


@dataclass(frozen=True)
class Shape:
    """Sizes of the model; a batch has so many sequences of so many tokens."""

    symbols: int = 16
    tokens: int = 16
    width: int = 64
    heads: int = 2
    hidden: int = 128
    layers: int = 2
    batch: int = 32

    @property
    def rows(self) -> int:
        """The tokens of a batch."""
        return self.batch * self.tokens

    @property
    def size(self) -> int:
        """The elements of a head."""
        return self.width // self.heads

    def parameters(self) -> Iterator[tuple[str, tuple[int, ...], float]]:
        """Names and shapes of all parameters, and how far their first values are spread; those of
        norms begin as ones."""
        of_width, of_hidden = self.width**-0.5, self.hidden**-0.5
        yield "symbols", (self.symbols, self.width), 1.0
        yield "places", (self.tokens, self.width), 1.0
        for layer in range(self.layers):
            yield f"{layer}.qkv", (3 * self.heads, self.size, self.width), of_width
            yield f"{layer}.mixed", (self.heads, self.size, self.width), of_width
            yield f"{layer}.attended", (self.width,), 0.0
            yield f"{layer}.gate", (self.width, self.hidden), of_width
            yield f"{layer}.up", (self.width, self.hidden), of_width
            yield f"{layer}.down", (self.hidden, self.width), of_hidden
            yield f"{layer}.made", (self.width,), 0.0
        yield "logits", (self.width, self.symbols), of_width


class Tensors:
    """Tensors by name in one piece of memory, so that a step of AdamW is one launch."""

    def __init__(self, shape: Shape) -> None:
        self._places: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.count = 0
        for name, sizes, _ in shape.parameters():
            self._places[name] = self.count, sizes
            self.count += -(-math.prod(sizes) // _ALIGNMENT) * _ALIGNMENT

    def of(self, memory: Buffer, name: str) -> Buffer:
        """The tensor of a name."""
        first, sizes = self._places[name]
        return view(memory, sizes, first)

    def first_values(self, shape: Shape, seed: int) -> NDArray[np.float32]:
        """Return the initial parameters; memory between tensors is 0, and stays so."""
        generator = np.random.default_rng(seed)
        values = np.zeros(self.count, np.float32)
        for name, sizes, spread in shape.parameters():
            first, count = self._places[name][0], math.prod(sizes)
            random_values = generator.normal(0, spread, count) if spread else np.ones(count)
            values[first : first + count] = random_values
        return values


def view(memory: Buffer, shape: tuple[int, ...], first: int = 0) -> Buffer:
    """A tensor of f32 within memory, from an element on."""
    tensor = memory.slice(4 * first, 4 * (first + math.prod(shape)))
    tensor.dtype, tensor.shape = np.dtype(np.float32), shape
    return tensor


def room(device: AnyDevice, *shape: int) -> Buffer:
    """Memory for a tensor of f32."""
    return view(device.allocate(4 * math.prod(shape), zero=False), shape)


class Transformer:
    """The model, its gradients and moments and one batch, all in memory of the device.

    `step` launches all that a step of training consists of on the device that it is given, which
    may be one that records. It reads `tokens`, `targets` and `rates`, and leaves `loss` and the
    `logits` that the loss is of.
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
        self.loss = room(device, 1)
        self.logits = room(device, shape.rows, shape.symbols)
        self._codes = device.upload(np.eye(shape.symbols, dtype=np.float32))
        self._ones = device.upload(np.ones((1, shape.batch), np.float32))
        places = np.tile(np.arange(shape.tokens, dtype=np.int32), shape.batch)
        self._places = device.upload(places)

    def step(self, device: AnyDevice) -> None:
        """A step: the loss, the gradients of all parameters, and AdamW."""
        shape = self.shape
        # The rows that tokens pick, as a product, whose gradient is one, too.
        codes = embedding(device, self._codes, self.tokens, check=False)
        places = embedding(device, self.weight("places"), self._places, check=False)
        x = gemm(device, codes, self.weight("symbols"), residual=places)
        layers = []
        for number in range(shape.layers):
            layers.append(Layer(self, number, x))
            x = layers[-1].forward(device)

        gemm(device, x, self.weight("logits"), out=self.logits)
        slope = room(device, shape.rows, shape.symbols)
        cross_entropy(device, self.logits, self.targets, gradient=slope, check=False, out=self.loss)

        gemm(device, x, slope, transpose_a=True, out=self.gradient("logits"))
        dx = gemm(device, slope, self.weight("logits"), transpose_b=True)
        for layer in reversed(layers):
            dx = layer.backward(device, dx)
        gemm(device, codes, dx, transpose_a=True, out=self.gradient("symbols"))
        by_place = shape.tokens * shape.width
        gemm(
            device, self._ones, view(dx, (shape.batch, by_place)),
            out=view(self.gradient("places"), (1, by_place)),
        )  # fmt: skip
        norm = gradient_norm(device, [self.gradients])
        adamw(
            device, self.parameters, self.gradients, self.first_moments, self.second_moments,
            rates=self.rates, beta1=BETAS[0], beta2=BETAS[1], max_norm=MOST, norm=norm,
        )  # fmt: skip

    def weight(self, name: str) -> Buffer:
        """The parameters of a name."""
        return self._tensors.of(self.parameters, name)

    def gradient(self, name: str) -> Buffer:
        """The place of their gradient."""
        return self._tensors.of(self.gradients, name)


class Layer:
    """A layer of the model within one step: `forward` keeps what `backward` needs."""

    def __init__(self, model: Transformer, number: int, x: Buffer) -> None:
        self._model, self._number, self._x = model, number, x
        self._shape = model.shape

    def forward(self, device: AnyDevice) -> Buffer:
        """Attention and the perceptron."""
        shape, x = self._shape, self._x
        self._qkv = room(device, 3 * shape.heads, shape.rows, shape.size)
        for number, weight in enumerate(self._parts(self._weight("qkv"))):
            gemm(device, x, weight, transpose_b=True, out=self._part(self._qkv, number))
        self._log_sums = room(device, shape.heads, shape.batch, shape.tokens)
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
        """The gradient of the layer's input; those of its parameters go to their places."""
        shape = self._shape
        dy = self._norm_backward(device, dy, self._sums, "made")
        gemm(device, self._hidden, dy, transpose_a=True, out=self._gradient("down"))
        hidden = gemm(device, dy, self._weight("down"), transpose_b=True)
        for slope, name in zip(
            swiglu_backward(device, hidden, self._gate, self._up), ("gate", "up"), strict=True
        ):
            gemm(device, self._attended, slope, transpose_a=True, out=self._gradient(name))
            dy = gemm(device, slope, self._weight(name), transpose_b=True, residual=dy)

        dx = self._norm_backward(device, dy, self._attended_sums, "attended")
        heads = view(self._heads, (shape.heads, shape.rows, shape.size))
        gemm(device, heads, dx, transpose_a=True, out=self._gradient("mixed"))
        of_heads = room(device, *self._heads_shape())
        for number, weight in enumerate(self._parts(self._weight("mixed"))):
            gemm(device, dx, weight, transpose_b=True, out=self._part(of_heads, number))
        slopes = room(device, 3 * shape.heads, shape.rows, shape.size)
        attention_backward(
            device, of_heads, *self._triple(self._qkv), self._heads, self._log_sums, causal=True,
            out=self._triple(slopes),
        )  # fmt: skip
        gemm(device, slopes, self._x, transpose_a=True, out=self._gradient("qkv"))
        for number, weight in enumerate(self._parts(self._weight("qkv"))):
            dx = gemm(device, self._part(slopes, number), weight, residual=dx)
        return dx

    def _norm_backward(self, device: AnyDevice, dy: Buffer, x: Buffer, name: str) -> Buffer:
        dx = room(device, self._shape.rows, self._shape.width)
        rms_norm_backward(device, dy, x, self._weight(name), out=(dx, self._gradient(name)))
        return dx

    # --- memory

    def _weight(self, name: str) -> Buffer:
        return self._model.weight(f"{self._number}.{name}")

    def _gradient(self, name: str) -> Buffer:
        return self._model.gradient(f"{self._number}.{name}")

    def _heads_shape(self) -> tuple[int, ...]:
        """Sequences go before tokens and behind heads: attention sees heads of all sequences."""
        return self._shape.heads, self._shape.batch, self._shape.tokens, self._shape.size

    def _triple(self, memory: Buffer) -> tuple[Buffer, Buffer, Buffer]:
        """Queries, keys and values of all heads."""
        sizes = self._heads_shape()
        first, second, third = (view(memory, sizes, at * math.prod(sizes)) for at in range(3))
        return first, second, third

    def _part(self, memory: Buffer, number: int) -> Buffer:
        """Return the slice of a head, of all tokens."""
        sizes = self._shape.rows, self._shape.size
        return view(memory, sizes, number * math.prod(sizes))

    def _parts(self, weights: Any) -> list[Buffer]:
        """The matrices of a tensor of three axes."""
        count, *sizes = weights.shape
        return [view(weights, tuple(sizes), at * math.prod(sizes)) for at in range(count)]
