"""The roundings of a key, from the numbers that its file has.

`key_of` chooses each rounding from the shifts and from bounds of the sums. Most bounds follow from
public numbers, so a reader chooses the same rounding again. The bounds of products with weights do
not: a file states the bits of their remainders, and a reader only checks that some weights lead
to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from quod.errors import InputError
from quod.inference.transformer.program import INVERSE_SUM_BITS
from quod.inference.transformer.proof.files.sizes import Sizes
from quod.inference.transformer.proof.key import LayerConstants
from quod.inference.transformer.proof.rounding import CLAMP_BITS, LIMB_BITS, Rounding, rounding
from quod.inference.transformer.reference import MAX_DIFFERENCE
from quod.inference.transformer.rounding import ACTIVATION, WIDE, Integers
from quod.inference.transformer.tables import EXP_ENTRIES, EXP_ONE

WEIGHTED = ("query", "key", "value", "gate", "up", "residual")
"""The kinds of value whose sums have weights."""

SHIFTED = (*WEIGHTED, "normed", "score", "mixed", "hidden")
"""The kinds of value whose shifts are in a file; those of other kinds are constants."""

_UNIT = rounding("unit", [28], [1 << 53], 32)
_ROTATION = ACTIVATION << 16
_MAX_SCORE_BITS = 19

Numbers = Mapping[str, Sequence[int]]
"""By kind of value, a number per group of rows."""


def groups(sizes: Sizes, kind: str) -> int:
    """Return the number of groups of rows with a shift each."""
    return sizes.norms if kind in ("residual", "normed") else sizes.layers


def roundings(
    sizes: Sizes, gains: Integers, multiplier: int, residual_limit: int, shifts: Numbers,
    bits: Numbers, constants: Sequence[LayerConstants],
) -> tuple[dict[str, Rounding], int]:  # fmt: skip
    """Return the roundings, in the order of `key_of`, and the bits of scores.

    Raises InputError for shifts with which a program cannot be proved, and for bits that no weights
    lead to.
    """

    def public(name: str, bound: int, result_bits: int, *, narrows: bool = False) -> Rounding:
        bounds = [bound] * len(shifts[name])
        return rounding(name, shifts[name], bounds, result_bits, narrows=narrows)

    difference = 2 * sizes.head_width * ACTIVATION**2
    if difference > MAX_DIFFERENCE:
        raise InputError(f"proofs of heads of {sizes.head_width} channels do not exist")
    score_bits = (difference * multiplier >> min(shifts["score"])).bit_length() + 1
    score_bits = min(max(score_bits, EXP_ENTRIES.bit_length() + 1), _MAX_SCORE_BITS)
    largest_gains = np.abs(gains).max(axis=1).tolist()
    result_bits = dict.fromkeys(WEIGHTED, CLAMP_BITS)
    result_bits["residual"] = residual_limit.bit_length() + 2
    chosen = [
        *(
            _weighted(name, shifts[name], bits[name], result_bits[name], constants)
            for name in WEIGHTED
        ),
        _UNIT,
        rounding("normed", shifts["normed"], [gain << 25 for gain in largest_gains], CLAMP_BITS),
        rounding("rotated_query", [15], [_ROTATION], CLAMP_BITS),
        rounding("rotated_key", [15], [_ROTATION], CLAMP_BITS),
        public("score", difference * multiplier, score_bits + 1),
        public("mixed", (EXP_ONE + 1) << INVERSE_SUM_BITS, CLAMP_BITS, narrows=True),
        public("hidden", ACTIVATION**2, WIDE.bit_length() + 1),
    ]
    return {each.name: each for each in chosen}, score_bits


def _weighted(
    name: str, shifts: Sequence[int], bits: Sequence[int], result_bits: int,
    constants: Sequence[LayerConstants],
) -> Rounding:  # fmt: skip
    """Return a rounding of products with weights, of which only the biases are known."""
    biases = [
        [_largest(layer.biases.get(product)) for product in _products(name)] for layer in constants
    ]
    flat = [bias for layer in biases for bias in layer]
    if name == "residual":
        flat.insert(0, 0)  # The first state is an embedded token.
    bounds = [bias + (1 << shift >> 1) for bias, shift in zip(flat, shifts, strict=True)]
    # Larger weights lead to the least bits that have as many limbs.
    widest = rounding(name, shifts, bounds, result_bits)
    lower_limbs = LIMB_BITS * (widest.limbs - 1)
    least = tuple(max(shift, lower_limbs + 1) for shift in shifts)
    if tuple(bits) not in (widest.bits, least):
        raise InputError(
            f"no weights lead to these bits of the remainders of {name}: they are "
            f"{widest.bits[0]}, or each is its shift but at least {lower_limbs + 1}"
        )
    return Rounding(name, tuple(shifts), tuple(bits), False)


def _products(name: str) -> tuple[str, ...]:
    return ("output", "down") if name == "residual" else (name,)


def _largest(bias: Integers | None) -> int:
    return 0 if bias is None else int(np.abs(bias).max())
