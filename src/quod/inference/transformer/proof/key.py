"""The verifying key of a model: its integer program, and a commitment in place of its weights."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.commitment.ligero.scheme import Ligero
from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.transformer.model import Model
from quod.inference.transformer.plan import largest_sum
from quod.inference.transformer.program import LayerSteps, Product, Program
from quod.inference.transformer.proof.layout import Array, Layout
from quod.inference.transformer.proof.rounding import (
    CLAMP_BITS,
    LIMB_BITS,
    Rounding,
    public_roundings,
    rounding,
)
from quod.inference.transformer.proof.vectors import log2_ceil
from quod.inference.transformer.rounding import Integers

PROTOCOL = "quod transformer proof 1"
SCHEME = Ligero()
"""The scheme of all commitments."""
MIN_ALIGNMENT, MAX_ALIGNMENT = -6, 21
"""The range of t, by which a norm's sum of squares is shifted: 2**(2 t)."""
LOGIT_LIMBS = 3
COMMITMENTS = ("tokens", "layers")
"""The commitments to weights."""


@frozen(eq=False)
class LayerConstants:
    """The public constants of a layer.

    biases: by product, in units of the sums; products without a bias have none.
    multiplier: of differences of scores; their shift is in `Key.roundings`.
    activation: the fractional bits of the gate and of its activation.
    """

    biases: dict[str, Integers]
    multiplier: int
    activation: tuple[int, int]


@frozen(eq=False)
class Key:
    """A model as the verifier knows it.

    model: the SHA-256 of the model's file, by which a person finds the file; it is not proved.
    layers, width, hidden, heads, kv_heads, head_width, vocabulary, context: the architecture.
    rope: the base of the rotary positions, and the divisors of their angles.
    residual_limit: the largest absolute value in the residual stream.
    gains, epsilons: of the norms: two of each layer, then the last one.
    roundings: of each kind of value.
    score_bits: half steps of differences of scores are below 2**score_bits.
    constants: the public constants of each layer.
    is_tied: whether the matrix of the embedding is also the head.
    roots: the commitments to the weights, by the names in `COMMITMENTS`.
    """

    model: bytes
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    context: int
    rope: tuple[float, tuple[float, ...] | None]
    residual_limit: int
    gains: Integers
    epsilons: tuple[int, ...]
    constants: tuple[LayerConstants, ...]
    roundings: dict[str, Rounding]
    score_bits: int
    is_tied: bool
    roots: dict[str, bytes]

    @property
    def norms(self) -> int:
        """The number of norms, and of states of the residual stream."""
        return 2 * self.layers + 1

    @property
    def head(self) -> str:
        """The name of the matrix of the logits."""
        return "embedding" if self.is_tied else "head"

    def matrices(self) -> dict[str, tuple[int, int, int]]:
        """Return the shape of each kind of matrix: layers, rows and columns."""
        d, f, kv, q = self.width, self.hidden, self.kv_width, self.query_width
        shapes = {
            "query": (self.layers, q, d), "key": (self.layers, kv, d),
            "value": (self.layers, kv, d), "output": (self.layers, d, q),
            "gate": (self.layers, f, d), "up": (self.layers, f, d), "down": (self.layers, d, f),
            "embedding": (1, self.vocabulary, d),
        }  # fmt: skip
        if not self.is_tied:
            shapes["head"] = (1, self.vocabulary, d)
        return shapes

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_width

    @property
    def query_width(self) -> int:
        return self.heads * self.head_width

    @cached_property
    def weights(self) -> dict[str, Layout]:
        """The layouts of the two commitments: each matrix is in blocks of 2**w columns.

        One has the matrices of tokens, the other those of the layers.
        """
        arrays: dict[str, list[Array]] = {name: [] for name in COMMITMENTS}
        for name, (layers, rows, columns) in self.matrices().items():
            commitment = "tokens" if name in ("embedding", "head") else "layers"
            arrays[commitment] += [
                Array(f"{name}.{start}", layers * rows, log_width)
                for start, log_width in column_blocks(columns)
            ]
        return {name: Layout(parts) for name, parts in arrays.items()}

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of the key, which the transcript absorbs."""
        return sha256(json.dumps(self._document(), sort_keys=True).encode()).digest()

    def _document(self) -> dict[str, Any]:
        document = {name: value for name, value in self.__dict__.items() if name in _PLAIN}
        document["protocol"] = PROTOCOL
        document["model"] = self.model.hex()
        document["roots"] = {name: root.hex() for name, root in self.roots.items()}
        document["rope"] = [float(self.rope[0]).hex(), self.rope[1] and [
            float(factor).hex() for factor in self.rope[1]
        ]]  # fmt: skip
        document["gains"] = self.gains.tolist()
        document["roundings"] = {
            name: [list(r.shifts), list(r.bits), r.is_narrow] for name, r in self.roundings.items()
        }
        document["constants"] = [
            [{name: bias.tolist() for name, bias in c.biases.items()}, c.multiplier, c.activation]
            for c in self.constants
        ]
        return document


_PLAIN = (
    "layers", "width", "hidden", "heads", "kv_heads", "head_width", "vocabulary", "context",
    "residual_limit", "epsilons", "score_bits", "is_tied",
)  # fmt: skip


def column_blocks(columns: int) -> list[tuple[int, int]]:
    """Cut columns into blocks of powers of two, the largest first: pairs of start and log2."""
    blocks, start = [], 0
    for log_width in reversed(range(columns.bit_length())):
        if columns >> log_width & 1:
            blocks.append((start, log_width))
            start += 1 << log_width
    return blocks


def check_provable(model: Model) -> None:
    """Raise InputError for a model of a kind that cannot be proved, before any work."""
    family = model.architecture.family
    if family.centred or not family.gated or not family.rotary:
        raise InputError(
            f"models of the family {family.name!r} cannot be proved; those of 'llama' and 'qwen2' "
            "can",
            path=model.path,
        )
    if model.head.bias is not None:
        raise InputError("models whose head has a bias cannot be proved", path=model.path)


def key_of(program: Program, model: bytes, roots: dict[str, bytes]) -> Key:
    """Return the key of a program; InputError for models whose proofs Quod cannot make."""
    check_provable(program.model)
    shape = program.model.architecture
    steps = program.layers
    limit = program.residual_limit
    norms = [n for s in steps for n in (s.attention_norm, s.feed_forward_norm)] + [program.norm]

    def kind(name: str) -> Rounding:
        products = [getattr(s, name) for s in steps]
        return rounding(
            name, [shift_of(p) for p in products], [largest_sum(p) for p in products], CLAMP_BITS
        )

    embedded = int(max(
        np.abs(program.model.embedding.integers(rows)).max()
        for rows in program.model.embedding.row_blocks()
    ))  # fmt: skip
    added = [(s.output, s.down) for s in steps]
    roundings = [
        *(kind(name) for name in ("query", "key", "value", "gate", "up")),
        rounding(
            "residual",
            [program.embedding_shift, *(shift_of(p) for pair in added for p in pair)],
            [embedded, *(largest_sum(p) for pair in added for p in pair)], limit.bit_length() + 2,
        ),
    ]  # fmt: skip
    gains = np.stack([n.gains for n in norms]).astype(np.int64)
    shifts = {
        "normed": [n.shift for n in norms],
        # Half steps are rounded down: a score above the largest would have a negative index.
        "score": [s.scores.shift - 1 for s in steps],
        "mixed": [s.mix_shift for s in steps],
        "hidden": [s.hidden_shift for s in steps],
    }
    public, score_bits = public_roundings(
        shape.head_width, steps[0].scores.multiplier, np.abs(gains).max(axis=1).tolist(), shifts
    )
    roundings += public
    if largest_sum(program.head) >= 1 << (LIMB_BITS * LOGIT_LIMBS - 1):
        raise InputError(
            f"logits of up to 2^{largest_sum(program.head).bit_length()} cannot be proved; they "
            f"must be below 2^{LIMB_BITS * LOGIT_LIMBS - 1}",
            path=program.model.path, section=f"tensor {program.head.matrix.name!r}",
        )  # fmt: skip
    rope_factors = program.model.rope_factors
    return Key(
        model, shape.layers, shape.width, shape.hidden, shape.heads, shape.kv_heads,
        shape.head_width, program.model.vocabulary, shape.context,
        (shape.rope_base, None if rope_factors is None else tuple(rope_factors)),
        limit, gains,
        tuple(n.epsilon for n in norms), tuple(map(_constants, steps, program.scales.layers)),
        {r.name: r for r in roundings}, score_bits,
        program.head.matrix.name == program.model.embedding.name, roots,
    )  # fmt: skip


def shift_of(product: Product) -> int:
    """Return the shift of a product that has one."""
    assert product.shift is not None
    return product.shift


def _constants(steps: LayerSteps, scales: Any) -> LayerConstants:
    biases = {name: p.bias for name, p in steps.products() if p.bias is not None}
    return LayerConstants(biases, steps.scores.multiplier, (scales.gate, scales.activated))


def matrices_of(program: Program) -> dict[str, list[Product]]:
    """Return the products of each kind of matrix, a layer after the other."""
    named = {
        name: [getattr(layer, name) for layer in program.layers]
        for name in ("query", "key", "value", "output", "gate", "up", "down")
    }
    named["head"] = [program.head]
    return named


def weight_integers(program: Program, name: str) -> NDArray[np.int64]:
    """Return the weights of a kind of matrix, int64 of shape (layers * rows, columns)."""
    if name == "embedding":
        return program.model.embedding.integers()
    return np.concatenate([p.matrix.integers() for p in matrices_of(program)[name]])


def log_positions(positions: int) -> int:
    """Return the base-2 logarithm of the padded number of positions, at least 2."""
    return max(2, log2_ceil(positions))
