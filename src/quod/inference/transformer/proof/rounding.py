"""Rounding shifts in a proof: the widths of remainders, so that equality modulo p is equality.

result = floor((sum + 2^(s-1)) / 2^s) is the only integer with

    sum * 2^(S-s) + 2^(S-1)  =  result * 2^S + r,   0 <= r < 2^S,

for any S of at least s. r is cut into limbs of 16 bits, equally many in all layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quod.errors import InputError
from quod.frozen import frozen
from quod.inference.transformer.program import INVERSE_SUM_BITS
from quod.inference.transformer.reference import MAX_DIFFERENCE
from quod.inference.transformer.rounding import ACTIVATION, WIDE
from quod.inference.transformer.tables import EXP_ENTRIES, EXP_ONE, ROTATION_BITS

LIMB_BITS = 16
LIMB = 1 << LIMB_BITS
CLAMP_BITS = 18
"""Results before clamping are in a table of 2**18 integers, from -2**17."""
NARROW_BITS = 16
ROUNDED = (
    "query", "key", "value", "gate", "up", "residual", "unit", "normed", "rotated_query",
    "rotated_key", "score", "mixed", "hidden",
)  # fmt: skip
"""The kinds of value that are rounded, in the order of their arrays."""

_UNIT_BITS = 28
"""A channel times the inverse root, aligned, has 28 bits more than the normalised channel."""
_UNIT_RESULT_BITS = 32
_MAX_UNIT_SUM = 1 << 53
_MAX_UNIT_BITS = 25
_MAX_SCORE_BITS = 19


@frozen
class Rounding:
    """The rounding of a kind of value, for each group of rows, such as a layer.

    name: the name of the results.
    shifts: the shift s of each group.
    bits: the number S of bits of a remainder of each group.
    is_narrow: results before clamping are in -2**15 to 2**15 - 1, as they must be for a large S.
    """

    name: str
    shifts: tuple[int, ...]
    bits: tuple[int, ...]
    is_narrow: bool

    @property
    def limbs(self) -> int:
        """The number of limbs of a remainder; the lowest is not committed to."""
        return -(-max(self.bits) // LIMB_BITS)

    @property
    def has_spare_bits(self) -> bool:
        """True if the highest limb of a group has unused bits."""
        return any(bits < LIMB_BITS * self.limbs for bits in self.bits)

    def scales(self) -> list[int]:
        """Return the factor 2**(S - s) of the sums of each group."""
        return [1 << (bits - s) for bits, s in zip(self.bits, self.shifts, strict=True)]


def rounding(
    name: str, shifts: Sequence[int], bounds: Sequence[int], result_bits: int,
    *, allow_narrow: bool = False,
) -> Rounding:  # fmt: skip
    """Choose the widths of a kind's remainders.

    bounds: the largest absolute value of a sum, for each shift.
    result_bits: results before clamping are in -2**(result_bits - 1) to 2**(result_bits - 1) - 1.
    allow_narrow: whether results of 16 bits may be asked for, if there is no other way.
    Raises InputError if sums this large cannot be proved modulo p.
    """
    limbs = max(1, -(-max(shifts) // LIMB_BITS))
    full = tuple([LIMB_BITS * limbs] * len(shifts))
    # Only the highest limb can have unused bits, and not all of them.
    least = tuple(max(s, LIMB_BITS * (limbs - 1) + 1) for s in shifts)
    for bits_of_results in (result_bits, NARROW_BITS) if allow_narrow else (result_bits,):
        for widths in (full, least):
            # Both sides of the equation, and so their difference, stay below p, and in int64.
            if all(
                (bound << (bits - s)) + (1 << (bits_of_results - 1 + bits)) + (2 << bits) < 1 << 63
                for bound, bits, s in zip(bounds, widths, shifts, strict=True)
            ):
                return Rounding(name, tuple(shifts), widths, bits_of_results < result_bits)
    raise InputError(
        f"the rounding of {name} by up to {max(shifts)} bits, of sums up to "
        f"2^{max(bounds).bit_length()}, cannot be proved: its equation could reach 2^63"
    )


def public_roundings(
    head_width: int, multiplier: int, largest_gains: Sequence[int],
    shifts: Mapping[str, Sequence[int]],
) -> tuple[list[Rounding], int]:  # fmt: skip
    """Return the roundings without weights of the model in their sums, and the bits of scores.

    multiplier: of differences of scores.
    largest_gains: the largest absolute gain of each norm.
    shifts: those of `normed`, `score`, `mixed` and `hidden`, for each group of rows.
    Raises InputError for shifts with which a program cannot be proved.
    """

    def chosen(name: str, bound: int, result_bits: int, *, allow_narrow: bool = False) -> Rounding:
        bounds = [bound] * len(shifts[name])
        return rounding(name, shifts[name], bounds, result_bits, allow_narrow=allow_narrow)

    difference = 2 * head_width * ACTIVATION**2
    if difference > MAX_DIFFERENCE or min(shifts["score"]) < 0:
        raise InputError(
            f"heads of {head_width} channels with these shifts of scores cannot be proved"
        )
    score_bits = (difference * multiplier >> min(shifts["score"])).bit_length() + 1
    score_bits = min(max(score_bits, EXP_ENTRIES.bit_length() + 1), _MAX_SCORE_BITS)
    rotation = ACTIVATION << ROTATION_BITS + 1
    return [
        rounding("unit", [_UNIT_BITS], [_MAX_UNIT_SUM], _UNIT_RESULT_BITS),
        rounding(
            "normed", shifts["normed"], [gain << _MAX_UNIT_BITS for gain in largest_gains],
            CLAMP_BITS,
        ),
        rounding("rotated_query", [ROTATION_BITS], [rotation], CLAMP_BITS),
        rounding("rotated_key", [ROTATION_BITS], [rotation], CLAMP_BITS),
        chosen("score", difference * multiplier, score_bits + 1),
        chosen("mixed", (EXP_ONE + 1) << INVERSE_SUM_BITS, CLAMP_BITS, allow_narrow=True),
        chosen("hidden", ACTIVATION**2, WIDE.bit_length() + 1),
    ], score_bits  # fmt: skip
