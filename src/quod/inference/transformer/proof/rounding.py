"""Rounding shifts in a proof: the widths of remainders, so that equality modulo p is equality.

result = floor((sum + 2^(s-1)) / 2^s) is the only integer with

    sum * 2^(S-s) + 2^(S-1)  =  result * 2^S + r,   0 <= r < 2^S,

for any S of at least s. r is cut into limbs of 16 bits, equally many in all layers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.frozen import frozen

LIMB_BITS = 16
LIMB = 1 << LIMB_BITS
CLAMP_BITS = 18
"""Results before clamping are in a table of 2**18 integers, from -2**17."""
NARROW_BITS = 16


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
    *, narrows: bool = False,
) -> Rounding:  # fmt: skip
    """Choose the widths of a kind's remainders.

    bounds: the largest absolute value of a sum, for each shift.
    result_bits: results before clamping are in -2**(result_bits - 1) to 2**(result_bits - 1) - 1.
    narrows: whether results of 16 bits may be asked for, if there is no other way.
    Raises InputError if sums this large cannot be proved modulo p.
    """
    limbs = max(1, -(-max(shifts) // LIMB_BITS))
    full = tuple([LIMB_BITS * limbs] * len(shifts))
    # Only the highest limb can have unused bits, and not all of them.
    least = tuple(max(s, LIMB_BITS * (limbs - 1) + 1) for s in shifts)
    for bits_of_results in (result_bits, NARROW_BITS) if narrows else (result_bits,):
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
