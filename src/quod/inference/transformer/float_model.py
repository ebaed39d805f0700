"""A language model in f32 with NumPy, to calibrate the integer program and to compare it with.

No result of the integer program depends on it, apart from the scales that a plan records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from quod.inference.transformer.integer_weights import IntegerMatrix
from quod.inference.transformer.model import Layer, Linear, Model, Norm

Floats = NDArray[np.float32]
Observer = Callable[[str, Floats], None]


def _ignore(name: str, values: Floats) -> None:
    pass


def weights_of(matrix: IntegerMatrix, rows: slice | NDArray[np.int64] = slice(None)) -> Floats:
    """Return weights as f32, rounded to nearest."""
    return np.asarray(
        np.ldexp(matrix.integers(rows).astype(np.float64), matrix.exponent), np.float32
    )


class FloatModel:
    """A model in f32; `observe` is called with the name and the content of each value."""

    def __init__(self, model: Model, observe: Observer = _ignore) -> None:
        self._model = model
        self._observe = observe

    def logits(self, tokens: NDArray[np.int64]) -> Floats:
        """Return the logits after each token of a text, of shape (tokens, vocabulary)."""
        return _linear(self._model.head, self.outputs([tokens]))

    def outputs(self, texts: Sequence[NDArray[np.int64]]) -> Floats:
        """Return the outputs of the last norm for all tokens of several texts."""
        model, shape = self._model, self._model.architecture
        positions = np.concatenate([np.arange(len(text)) for text in texts])
        x = weights_of(model.embedding, np.concatenate(texts))
        if model.positions is not None:
            x = x + weights_of(model.positions, positions)
        self._observe("residual", x)
        angles = self._angles(positions) if shape.family.rotary else None
        ends = np.cumsum([len(text) for text in texts])
        parts = [slice(end - len(text), end) for end, text in zip(ends, texts, strict=True)]
        for index, layer in enumerate(model.layers):
            x = x + self._attention(f"{index}.", layer, x, angles, parts)
            self._observe("residual", x)
            x = x + self._feed_forward(f"{index}.", layer, x)
            self._observe("residual", x)
        x = self._norm(model.norm, x)
        self._observe("norm", x)
        return x

    def _angles(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        shape = self._model.architecture
        exponents = -np.arange(0, shape.head_width, 2) / shape.head_width
        factors = self._model.rope_factors or 1.0
        return np.asarray(np.outer(positions, shape.rope_base**exponents / factors))

    def _norm(self, norm: Norm, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        if self._model.architecture.family.centred:
            wide = wide - wide.mean(axis=1, keepdims=True)
        mean_square = (wide * wide).mean(axis=1, keepdims=True)
        y = wide / np.sqrt(mean_square + self._model.architecture.epsilon) * norm.gains
        return np.asarray(y if norm.bias is None else y + norm.bias, np.float32)

    def _attention(
        self, prefix: str, layer: Layer, x: Floats, angles: NDArray[np.float64] | None,
        parts: Sequence[slice],
    ) -> Floats:  # fmt: skip
        """Return the attention's output; `parts` are the rows of each text."""
        shape, count = self._model.architecture, len(x)
        x = self._norm(layer.attention_norm, x)
        self._observe(prefix + "attention_norm", x)
        q, k, v = (_linear(linear, x) for linear in (layer.query, layer.key, layer.value))
        for name, values in (("query", q), ("key", k), ("value", v)):
            self._observe(prefix + name, values)
        q, k, v = (values.reshape(count, -1, shape.head_width) for values in (q, k, v))
        if angles is not None:
            q, k = _rotated(q, angles), _rotated(k, angles)
            self._observe(prefix + "query", q)
            self._observe(prefix + "key", k)
        mixed = np.empty((count, shape.heads, shape.head_width), np.float32)
        for part in parts:
            for head in range(shape.heads):
                shared = head * shape.kv_heads // shape.heads
                mixed[part, head] = _mixed(q[part, head], k[part, shared], v[part, shared])
        self._observe(prefix + "mixed", mixed)
        return _linear(layer.output, mixed.reshape(count, -1))

    def _feed_forward(self, prefix: str, layer: Layer, x: Floats) -> Floats:
        x = self._norm(layer.feed_forward_norm, x)
        self._observe(prefix + "feed_forward_norm", x)
        up = _linear(layer.up, x)
        self._observe(prefix + "up", up)
        if layer.gate is None:
            hidden = _gelu(up)
        else:
            gate = _linear(layer.gate, x)
            self._observe(prefix + "gate", gate)
            with np.errstate(over="ignore"):
                activated = gate / (1 + np.exp(-gate))
            self._observe(prefix + "activated", activated)
            hidden = activated * up
        self._observe(prefix + "hidden", hidden)
        return _linear(layer.down, hidden)


def _linear(linear: Linear, x: Floats) -> Floats:
    matrix = linear.matrix
    y = np.empty((len(x), matrix.rows), np.float32)
    for rows in matrix.row_blocks():
        y[:, rows] = x @ weights_of(matrix, rows).T
    return y if linear.bias is None else y + linear.bias.astype(np.float32)


def _mixed(q: Floats, k: Floats, v: Floats) -> Floats:
    """Return the causal attention of a head."""
    scores = q @ k.T / np.float32(q.shape[1] ** 0.5)
    scores[np.triu(np.ones(scores.shape, bool), 1)] = -np.inf
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(e @ v / e.sum(axis=1, keepdims=True))


def _rotated(x: Floats, angles: NDArray[np.float64]) -> Floats:
    cosine, sine = (f(angles)[:, None].astype(np.float32) for f in (np.cos, np.sin))
    a, b = x[..., ::2], x[..., 1::2]
    pairs = [a * cosine - b * sine, b * cosine + a * sine]
    return np.asarray(np.stack(pairs, axis=-1).reshape(x.shape))


def _gelu(x: Floats) -> Floats:
    argument = np.float32(1.5957691216057308) * (x + np.float32(0.044715) * x**3)
    with np.errstate(over="ignore"):
        return np.asarray(x / (1 + np.exp(-argument)))
