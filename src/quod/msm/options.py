"""Options of an MSM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.frozen import frozen
from quod.validation import whole_number_or_none

if TYPE_CHECKING:
    from quod.curve.group import Group

MAX_WINDOW_BITS = 16
"""The widest digits on a CPU, which stores them in 16 bits."""

MAX_GPU_WINDOW_BITS = 24
"""The widest digits on a GPU."""


@frozen
class MsmOptions:
    """Options of a multi-scalar multiplication; None lets the plan choose.

    window_bits: width of a digit, 2 to 16 on a CPU, 2 to 24 on a GPU.
    scalar_bits: every scalar is below 2**scalar_bits, which is checked. Default: below the group's
        order.
    precompute_factor: the number of multiples per base. It divides the number of windows and
        multiplies the memory of the bases. On a GPU it is an upper bound; by default the fastest
        number that fits in memory. Default on a CPU: 1. Only for `MsmBases`.
    batch_size: the number of vectors of scalars in a batch.
    streamed: if True, the bases are in host memory and a GPU streams them in blocks; if False, they
        are not streamed. By default bases that do not fit are streamed. Only for `MsmBases`; a CPU
        ignores it.

    Raises InputError if a number is not an integer or out of range.
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
        """Return the largest scalar allowed over a group."""
        largest = group.scalars.value - 1
        return largest if self.scalar_bits is None else min(largest, (1 << self.scalar_bits) - 1)
