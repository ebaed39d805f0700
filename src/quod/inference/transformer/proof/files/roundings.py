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
from quod.inference.transformer.proof.files.sizes import Sizes
from quod.inference.transformer.proof.key import LayerConstants
from quod.inference.transformer.proof.rounding import (
    CLAMP_BITS,
    LIMB_BITS,
    ROUNDED,
    Rounding,
    public_roundings,
    rounding,
)
from quod.inference.transformer.rounding import Integers

WEIGHTED = ROUNDED[:6]
"""The kinds of value whose sums have weights."""

SHIFTED = (*WEIGHTED, "normed", "score", "mixed", "hidden")
"""The kinds of value whose shifts are in a file; those of other kinds are constants."""

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

    result_bits = dict.fromkeys(WEIGHTED, CLAMP_BITS)
    result_bits["residual"] = residual_limit.bit_length() + 2
    weighted = [
        _weighted(name, shifts[name], bits[name], result_bits[name], constants) for name in WEIGHTED
    ]
    largest_gains = np.abs(gains).max(axis=1).tolist()
    public, score_bits = public_roundings(sizes.head_width, multiplier, largest_gains, shifts)
    return {each.name: each for each in (*weighted, *public)}, score_bits


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
