"""What a caller may choose about an MSM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.frozen import frozen
from quod.validation import whole_number_or_none

if TYPE_CHECKING:
    from quod.curve.group import Group

MAX_WINDOW_BITS = 16
"""The widest digits on a CPU, where they are kept in 16 bits."""

MAX_GPU_WINDOW_BITS = 24
"""The widest digits on a device with memory of its own."""


@frozen
class MsmOptions:
    """Choices of a multi-scalar multiplication; None lets the plan choose.

    `window_bits` is the width of a digit, 2 to 16 on a CPU and to 24 on a GPU. `scalar_bits`
    promises that every scalar is below 2**scalar_bits (by default: below the group's order).
    `precompute_factor` keeps so many multiples of each base, which divides the number of windows by
    it and multiplies the memory of the bases; it is a matter of `MsmBases`, and by default 1 on a
    CPU. On a GPU it is the most that are kept, by default as many as make MSMs fastest of those
    that memory has room for. `batch_size` is how many of several vectors of scalars are worked on
    together. `streamed` keeps the bases of a GPU in host memory, to pass through its own in slices,
    or (False) forbids that; by default they are streamed if they do not fit. It is a matter of
    `MsmBases` too, and means nothing on a CPU. InputError for what is no whole number or no bool.
    """

    window_bits: int | None = None
    scalar_bits: int | None = None
    precompute_factor: int | None = None
    batch_size: int | None = None
    streamed: bool | None = None

    def __post_init__(self) -> None:
        numbers: dict[str, int | None] = {
            name: whole_number_or_none(name, getattr(self, name), low, high)
            for name, low, high in (
                ("window_bits", 2, MAX_GPU_WINDOW_BITS), ("scalar_bits", 1, 256),
                ("precompute_factor", 1, None), ("batch_size", 1, None),
            )
        }  # fmt: skip
        self.__dict__.update(numbers)

    def greatest_scalar(self, group: Group) -> int:
        """What scalars over a group are allowed to be at most."""
        most = group.scalars.value - 1
        return most if self.scalar_bits is None else min(most, (1 << self.scalar_bits) - 1)
