"""Plans of MSMs on a CPU: windows, buckets and batches, chosen before the MSM starts."""

from __future__ import annotations

from quod.curve.group import Group
from quod.errors import InputError
from quod.frozen import frozen
from quod.msm.options import MAX_WINDOW_BITS, MsmOptions
from quod.msm.scalars import window_count
from quod.validation import whole_number

# Reducing a window takes two additions per bucket, and some for weighting the row and column sums.
_ADDITIONS_PER_BUCKET = 2.6

# The cost of counting, cutting and listing one bucket, even an empty one, in additions.
_WORK_PER_BUCKET = 0.25

# With more scalars than this, several workers share the sorting of one window.
_SHARED_SORT = 4096

# The maximum number of entries in a batch of small MSMs.
_BATCH_ENTRIES = 1 << 22


@frozen
class WindowPlan:
    """The digits of an MSM's scalars, on any device.

    count: the number of scalars of a vector.
    window_bits: the width of a digit.
    windows: the number of windows of buckets; a scalar has copies * windows digits.
    copies: the number of copies of the bases, each 2**(windows * window_bits) times the previous
        one.
    maximum: the largest scalar allowed.
    """

    group: Group
    count: int
    window_bits: int
    windows: int
    copies: int
    maximum: int

    @property
    def digit_windows(self) -> int:
        """The number of digits of a scalar."""
        return self.windows * self.copies

    @property
    def buckets(self) -> int:
        """The number of buckets of a window."""
        return 1 << (self.window_bits - 1)


@frozen
class MsmPlan(WindowPlan):
    """The shape of a batch of `batch` MSMs on a CPU.

    The reduction treats the buckets of a window as a matrix of `rows` by `columns`.
    """

    batch: int = 1

    @property
    def all_windows(self) -> int:
        """The number of windows of the whole batch."""
        return self.windows * self.batch

    @property
    def entries(self) -> int:
        """The number of digits of all scalars; each digit that is not zero is one addition."""
        return self.digit_windows * self.count * self.batch

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
        """The longest bucket that is not split: twice the expected length, for uniform scalars."""
        return 16 + 2 * self.count * self.copies // self.buckets

    @property
    def chunk_length(self) -> int:
        """The length of the chunks into which a longer bucket is split."""
        return self.longest // 2

    def sort_parts(self, threads: int) -> int:
        """The number of workers that sort one window."""
        if self.count <= _SHARED_SORT:
            return 1
        return max(1, -(-2 * threads // self.all_windows))

    def peak_bytes(self, threads: int) -> int:
        """Return an upper bound on the bytes that the MSM takes besides its bases and scalars."""
        segments = self.all_windows * self.buckets
        lines = self.all_windows * (self.rows + self.columns)
        chunks = min(self.entries, segments + self.entries // self.chunk_length)
        line_chunks = lines + 2 * segments // self.chunk_length
        point_bytes = 8 * self.group.point_words
        tables = 4 * self.sort_parts(threads) + 48
        # Per entry, a digit of 2 bytes and a base index; per segment, counters and tables; per
        # chunk, a point and three table columns.
        return (
            6 * self.entries
            + tables * segments
            + (point_bytes + 12) * (2 * chunks + 2 * line_chunks)
            + 48 * lines
            + 8 * point_bytes * self.all_windows
            + 4 * self.longest
            + 4096
        )


def plan_msm(group: Group, count: int, options: MsmOptions, batch: int = 1) -> MsmPlan:
    """Return the plan with the fewest additions for `batch` vectors of `count` scalars.

    The plan's `batch` may be smaller. Raises InputError if `window_bits` is above 16, or if the
    entries of one vector do not fit 32-bit numbers.
    """
    count = whole_number("count", count, 0, (1 << 31) - 1)
    batch = whole_number("batch", batch, 1)
    if options.window_bits is not None and options.window_bits > MAX_WINDOW_BITS:
        raise InputError(
            f"window_bits must be at most {MAX_WINDOW_BITS} on a CPU, not {options.window_bits}"
        )
    factor = options.precompute_factor or 1
    maximum = options.greatest_scalar(group)

    def plan(window_bits: int) -> MsmPlan:
        needed_windows = window_count(maximum, window_bits)
        windows = -(-needed_windows // min(factor, needed_windows))
        return MsmPlan(group, count, window_bits, windows, -(-needed_windows // windows), maximum)

    def additions(candidate: MsmPlan) -> float:
        buckets_in_use = min(candidate.buckets, 2 * count * candidate.copies)
        reduction = _ADDITIONS_PER_BUCKET * buckets_in_use + _WORK_PER_BUCKET * candidate.buckets
        return candidate.entries + candidate.windows * reduction

    if options.window_bits is not None:
        chosen = plan(options.window_bits)
    else:
        chosen = min((plan(width) for width in range(3, MAX_WINDOW_BITS + 1)), key=additions)
    return in_batches(chosen, batch, options.batch_size)


def in_batches(plan: MsmPlan, batch: int, batch_size: int | None) -> MsmPlan:
    """Return the plan with the largest batch that `batch_size`, or else the entries, allows.

    Raises InputError if one vector is too large.
    """
    per_vector = max(plan.entries, plan.windows * plan.buckets)
    if per_vector >= 1 << 32 or plan.count * plan.copies >= 1 << 31:
        raise InputError(
            f"an MSM of {plan.count} scalars in windows of {plan.window_bits} bits is too large; "
            "split it into several MSMs and add their results"
        )
    max_batch = ((1 << 32) - 1) // max(1, per_vector)
    batch_target = (
        max(1, _BATCH_ENTRIES // max(1, per_vector)) if batch_size is None else batch_size
    )
    size = max(1, min(batch, batch_target, max_batch))
    return MsmPlan(
        plan.group, plan.count, plan.window_bits, plan.windows, plan.copies, plan.maximum, size
    )
