"""How an MSM is cut into windows, buckets and passes, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from quod.curve.groups import Group
from quod.msm.digits import window_count
from quod.msm.options import MAX_WINDOW_BITS, MsmOptions

# Two additions a bucket reduce a window's buckets to its sum, and weighing their sums adds some.
_ADDITIONS_A_BUCKET = 2.6


@dataclass(frozen=True)
class MsmPlan:
    """The shape of one MSM.

    `digit_windows` digits a scalar fall into `windows` windows of buckets, `copies` each; buckets
    of a window form `rows` times `columns` for their reduction. No slice is longer than `longest`.
    """

    group: Group
    count: int
    window_bits: int
    digit_windows: int
    copies: int

    @property
    def windows(self) -> int:
        return -(-self.digit_windows // self.copies)

    @property
    def buckets(self) -> int:
        return 1 << (self.window_bits - 1)

    @property
    def column_bits(self) -> int:
        return self.window_bits // 2

    @property
    def columns(self) -> int:
        return 1 << self.column_bits

    @property
    def rows(self) -> int:
        return self.buckets // self.columns

    @property
    def longest(self) -> int:
        """Twice what a bucket of uniform scalars holds, so that those are never cut."""
        return 16 + 2 * self.count * self.copies // self.buckets

    @property
    def peak_bytes(self) -> int:
        """Memory that the MSM takes beside its bases and scalars."""
        digits = 6 * self.digit_windows * self.count
        points = 8 * self.group.point_words * 3 * self.windows * self.buckets
        return digits + points + 48 * self.windows * self.buckets


def plan_msm(group: Group, count: int, options: MsmOptions) -> MsmPlan:
    """The plan with the fewest additions for `count` scalars, within the options."""
    bits = options.scalar_bits
    maximum = group.scalars.value - 1 if bits is None else (1 << bits) - 1

    def plan(window_bits: int) -> MsmPlan:
        windows = window_count(maximum, window_bits)
        return MsmPlan(
            group, count, window_bits, windows, min(options.precompute_factor, windows)
        )  # fmt: skip

    if options.window_bits is not None:
        return plan(options.window_bits)

    def additions(candidate: MsmPlan) -> float:
        reduction = _ADDITIONS_A_BUCKET * candidate.windows * min(candidate.buckets, 2 * count)
        return candidate.digit_windows * count + reduction

    return min((plan(bits) for bits in range(3, MAX_WINDOW_BITS + 1)), key=additions)
