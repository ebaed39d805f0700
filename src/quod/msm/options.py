"""What a caller may choose about an MSM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.errors import InputError
from quod.frozen import frozen

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
    or forbids that; by default they are streamed if they do not fit. It is a matter of `MsmBases`
    too, and means nothing on a CPU.
    """

    window_bits: int | None = None
    scalar_bits: int | None = None
    precompute_factor: int | None = None
    batch_size: int | None = None
    streamed: bool | None = None

    def __post_init__(self) -> None:
        if self.window_bits is not None and not 2 <= self.window_bits <= MAX_GPU_WINDOW_BITS:
            raise InputError(
                f"window_bits must be from 2 to {MAX_GPU_WINDOW_BITS}, not {self.window_bits}"
            )
        if self.scalar_bits is not None and not 1 <= self.scalar_bits <= 256:
            raise InputError(f"scalar_bits must be from 1 to 256, not {self.scalar_bits}")
        if self.precompute_factor is not None and self.precompute_factor < 1:
            raise InputError(f"precompute_factor must be positive, not {self.precompute_factor}")
        if self.batch_size is not None and self.batch_size < 1:
            raise InputError(f"batch_size must be positive, not {self.batch_size}")

    def greatest_scalar(self, group: Group) -> int:
        """What scalars over a group are allowed to be at most."""
        most = group.scalars.value - 1
        return most if self.scalar_bits is None else min(most, (1 << self.scalar_bits) - 1)
