"""The integer program in NumPy, which defines it: docs/integer-transformer.md in code."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.transformer.program import (
    INVERSE_SUM_BITS,
    NORM_BITS,
    LayerSteps,
    NormStep,
    Product,
    Program,
    Quotient,
)
from quod.inference.transformer.rounding import (
    ACTIVATION,
    WIDE,
    Integers,
    clamp,
    inverse_root,
    round_shift,
)
from quod.inference.transformer.tables import (
    EXP_ENTRIES,
    ROTATION_BITS,
    Rotations,
    exponentials,
)

_EXACT_FLOAT_BITS = 53
_PLANE_BITS = 12
MAX_DIFFERENCE = (1 << 46) - 1
"""Larger differences of scores count as this one; their exponentials are 0 in any case."""


class Cache:
    """The keys and values of the positions so far, int64 of shape (layers, positions, width)."""

    def __init__(self, program: Program) -> None:
        shape = program.model.architecture
        empty = np.zeros((shape.layers, 0, shape.kv_width), np.int64)
        self.keys, self.values = empty, empty

    @property
    def positions(self) -> int:
        """The number of positions."""
        return int(self.keys.shape[1])


@frozen(eq=False)
class Trace:
    """The values of a forward pass, by name, and how many saturated.

    values: int64, a row per position.
    saturated: by name, the number of values at their limit.
    """

    values: dict[str, Integers]
    saturated: dict[str, int]

    def record(self, name: str, values: Integers, limit: int | None = None) -> Integers:
        """Record values, which are returned."""
        self.values[name] = values
        if limit is not None:
            self.saturated[name] = int((np.abs(values) >= limit).sum())
        return values


class Reference:
    """The program of a model, run in NumPy."""

    def __init__(self, program: Program) -> None:
        self.program = program
        shape = program.model.architecture
        self._rotations = None
        if shape.family.rotary:
            self._rotations = Rotations(
                shape.rope_base, shape.head_width, program.model.rope_factors
            )

    def logits(
        self, tokens: NDArray[np.integer], cache: Cache | None = None, trace: Trace | None = None
    ) -> Integers:
        """Return the logits after each token, int64 of shape (tokens, vocabulary).

        The tokens follow those of the cache, which they extend. `trace` records all values.
        Raises InputError for tokens beyond the vocabulary and positions beyond the context.
        """
        program, cache = self.program, cache or Cache(self.program)
        trace = trace or Trace({}, {})
        check_tokens(program, tokens, cache.positions, program.model.architecture.context)
        first = cache.positions
        positions = np.arange(first, first + len(tokens))
        x = trace.record("embedding", self._embedded(tokens, positions), program.residual_limit)
        keys, values = [], []
        for index, layer in enumerate(program.layers):
            run = _LayerRun(program, layer, f"{index}.", trace)
            q, k, v = run.attention_inputs(x)
            if self._rotations is not None:
                table = self._rotations.table(first + len(tokens))[first:].astype(np.int64)
                q, k = rotate(q, table), rotate(k, table)
            keys.append(np.concatenate([cache.keys[index], trace.record(f"{index}.keys", k)]))
            values.append(np.concatenate([cache.values[index], v]))
            trace.record(f"{index}.queries", q)
            x = run.attention(x, q, keys[-1], values[-1], positions)
            x = run.feed_forward(x)
        cache.keys, cache.values = np.stack(keys), np.stack(values)
        x = trace.record("norm", normalise(program.norm, x), ACTIVATION)
        return trace.record("logits", multiply(program.head, x))

    def _embedded(self, tokens: NDArray[np.integer], positions: Integers) -> Integers:
        program = self.program
        model, limit = program.model, program.residual_limit
        x = clamp(round_shift(model.embedding.integers(tokens), program.embedding_shift), limit)
        if model.positions is None:
            return x
        learned = round_shift(model.positions.integers(positions), program.position_shift)
        return clamp(x + learned, limit)


def check_tokens(program: Program, tokens: NDArray[np.integer], first: int, context: int) -> None:
    """Raise InputError for tokens beyond the vocabulary, or positions beyond the context."""
    if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) < program.model.vocabulary:
        raise InputError(
            f"token {int(tokens[(tokens < 0) | (tokens >= program.model.vocabulary)][0])} is not "
            f"in the vocabulary of {program.model.vocabulary} tokens"
        )
    if first + len(tokens) > context:
        raise InputError(
            f"{first + len(tokens)} tokens exceed the context of {context}; shorten the prompt or "
            "generate less"
        )


class _LayerRun:
    def __init__(self, program: Program, steps: LayerSteps, prefix: str, trace: Trace) -> None:
        self._program, self._steps = program, steps
        self._prefix, self._trace = prefix, trace

    def _record(self, name: str, values: Integers, limit: int) -> Integers:
        return self._trace.record(self._prefix + name, values, limit)

    def attention_inputs(self, x: Integers) -> tuple[Integers, Integers, Integers]:
        """Return queries, keys and values before the rotation."""
        steps = self._steps
        x = self._record("attention_norm", normalise(steps.attention_norm, x), ACTIVATION)
        q, k, v = (
            self._record(name, multiply(product, x), product.limit)
            for name, product in (
                ("query", steps.query), ("key", steps.key), ("value", steps.value),
            )
        )  # fmt: skip
        return q, k, v

    def attention(
        self, x: Integers, q: Integers, keys: Integers, values: Integers, positions: Integers
    ) -> Integers:
        """Return the residual stream after the attention."""
        shape = self._program.model.architecture
        q = q.reshape(len(q), -1, shape.head_width)
        keys, values = (a.reshape(len(a), -1, shape.head_width) for a in (keys, values))
        mixed = np.empty_like(q)
        for head in range(shape.heads):
            shared = head * shape.kv_heads // shape.heads
            scores = _exact_product(q[:, head], keys[:, shared])
            e = exponentials_of(scores, positions, self._steps.scores)
            mixed[:, head] = mix(e, values[:, shared], self._steps.mix_shift)
        flat = self._record("mixed", mixed.reshape(len(x), -1), ACTIVATION)
        return self._add("attention", x, self._steps.output, flat)

    def feed_forward(self, x: Integers) -> Integers:
        """Return the residual stream after the feed-forward network."""
        steps = self._steps
        y = self._record("feed_forward_norm", normalise(steps.feed_forward_norm, x), ACTIVATION)
        up = self._record("up", multiply(steps.up, y), ACTIVATION)
        if steps.gate is None:
            hidden = steps.table[up + 32768].astype(np.int64)
        else:
            gate = self._record("gate", multiply(steps.gate, y), ACTIVATION)
            activated = self._record(
                "activated", steps.table[gate + 32768].astype(np.int64), ACTIVATION
            )
            hidden = clamp(round_shift(activated * up, steps.hidden_shift), WIDE)
        self._record("hidden", hidden, WIDE)
        return self._add("feed_forward", x, steps.down, hidden)

    def _add(self, name: str, x: Integers, product: Product, inputs: Integers) -> Integers:
        assert product.shift is not None
        sums = round_shift(sums_of(product, inputs), product.shift)
        return self._record(name, clamp(x + sums, product.limit), product.limit)


def normalise(step: NormStep, x: Integers) -> Integers:
    """Return the outputs of a norm."""
    width = x.shape[1]
    if step.centred:
        x = x - (2 * x.sum(axis=1, keepdims=True) + width) // (2 * width)
    squares = (x * x).sum(axis=1) + step.epsilon
    roots, shifts = np.array([inverse_root(s) for s in squares.tolist()], np.int64).reshape(-1, 2).T
    # The inverse root is root / 2**(31 + shift).
    to_shift = (31 - NORM_BITS + shifts)[:, None]
    unit = (x * roots[:, None] + (1 << (to_shift - 1))) >> to_shift
    return clamp(
        round_shift(unit * step.gains.astype(np.int64) + step.bias, step.shift), ACTIVATION
    )


def sums_of(product: Product, x: Integers) -> Integers:
    """Return the sums of weights times inputs, and the bias."""
    matrix = product.matrix
    sums = np.empty((len(x), matrix.rows), np.int64)
    for rows in matrix.row_blocks():
        sums[:, rows] = _exact_product(x, matrix.integers(rows))
    return sums if product.bias is None else sums + product.bias


def multiply(product: Product, x: Integers) -> Integers:
    """Return the result of a product: rounded and saturated, unless it has no shift."""
    sums = sums_of(product, x)
    if product.shift is None:
        return sums
    return clamp(round_shift(sums, product.shift), product.limit)


def rotate(x: Integers, table: Integers) -> Integers:
    """Rotate the pairs of channels (2 i, 2 i + 1) of each head by the angles of its position."""
    pairs = x.reshape(len(x), -1, table.shape[1], 2)
    a, b = pairs[..., 0], pairs[..., 1]
    cosine, sine = table[:, None, :, 0], table[:, None, :, 1]
    turned = np.stack([a * cosine - b * sine, b * cosine + a * sine], axis=-1)
    return clamp(round_shift(turned, ROTATION_BITS), ACTIVATION).reshape(x.shape)


def steps_of(differences: Integers, scale: Quotient) -> Integers:
    """Return differences of scores, which are not negative, as indices of the exponentials."""
    bounded = np.minimum(differences, MAX_DIFFERENCE)
    return np.minimum(round_shift(bounded * scale.multiplier, scale.shift), EXP_ENTRIES - 1)


def exponentials_of(scores: Integers, positions: Integers, scale: Quotient) -> Integers:
    """Return the exponentials of causal scores, of shape (positions, keys)."""
    later = np.arange(scores.shape[1]) > positions[:, None]
    largest = np.where(later, np.iinfo(np.int64).min, scores).max(axis=1, keepdims=True)
    steps = steps_of(np.where(later, 0, largest - scores), scale)
    return np.where(later, 0, exponentials().astype(np.int64)[steps])


def mix(e: Integers, values: Integers, shift: int) -> Integers:
    """Return the values weighted by exponentials, over the sum of these."""
    inverse = (1 << INVERSE_SUM_BITS) // e.sum(axis=1, keepdims=True)
    return clamp(round_shift(_exact_product(e, values.T) * inverse, shift), ACTIVATION)


def _exact_product(x: Integers, rows: Integers) -> Integers:
    """Return x times the transposed rows, exactly.

    Floats of 64 bits are exact as long as the sums of absolute values have at most 53 bits.
    """
    largest = int(np.abs(x).max(initial=0))
    bound = largest * int(np.abs(rows).sum(axis=1).max(initial=0))
    if bound.bit_length() <= _EXACT_FLOAT_BITS:
        return np.asarray(x.astype(np.float64) @ rows.T.astype(np.float64)).astype(np.int64)
    if largest.bit_length() <= _PLANE_BITS:
        return x @ rows.T
    high = x >> _PLANE_BITS
    return (_exact_product(high, rows) << _PLANE_BITS) + _exact_product(
        x - (high << _PLANE_BITS), rows
    )


def greedy(logits: Integers) -> int:
    """Return the token of the largest logit, the lowest of several."""
    return int(logits.argmax())


def sample(logits: Integers, scale: Quotient, seed: bytes, position: int) -> int:
    """Return a token drawn with a seed; `scale` has the temperature.

    The first four bytes of SHA-256(seed, position of eight bytes) choose a point below the sum of
    the exponentials, all little-endian; the token is the first whose cumulative sum exceeds it.
    """
    weights = exponentials().astype(np.int64)[steps_of(logits.max() - logits, scale)]
    cumulative = weights.cumsum()
    drawn = int.from_bytes(sha256(seed + position.to_bytes(8, "little")).digest()[:4], "little")
    return int(np.searchsorted(cumulative, drawn * int(cumulative[-1]) >> 32, side="right"))
