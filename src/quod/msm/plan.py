"""How an MSM is cut into windows, buckets and passes, decided before it starts."""

from __future__ import annotations

from quod.curve.group import Group
from quod.errors import InputError
from quod.frozen import frozen
from quod.msm.options import MAX_WINDOW_BITS, MsmOptions
from quod.msm.scalars import window_count
from quod.validation import whole_number

# Two additions a bucket reduce a window's buckets to its sum, and weighing their sums adds some.
_ADDITIONS_PER_BUCKET = 2.6

# Counting, cutting and listing a bucket, also an empty one, in terms of an addition.
_WORK_PER_BUCKET = 0.25

# Scalars from which on several workers share the sorting of one window.
_SHARED_SORT = 4096

# Entries that a batch of small MSMs may have together.
_BATCH_ENTRIES = 1 << 22


@frozen
class WindowPlan:
    """How the scalars of an MSM, `count` of them, are cut into digits, on whatever device.

    A scalar's `copies` * `windows` digits of `window_bits` fall into `windows` windows of buckets:
    the bases are there `copies` times, each 2**(windows * window_bits) times the one before.
    `maximum` is the greatest scalar allowed.
    """

    group: Group
    count: int
    window_bits: int
    windows: int
    copies: int
    maximum: int

    @property
    def digit_windows(self) -> int:
        """Digits of a scalar."""
        return self.windows * self.copies

    @property
    def buckets(self) -> int:
        """Buckets of a window."""
        return 1 << (self.window_bits - 1)


@frozen
class MsmPlan(WindowPlan):
    """The shape of one MSM on a processor, or of one batch of `batch` such MSMs.

    The buckets of a window form `rows` times `columns` for their reduction. No chunk is longer than
    `longest`.
    """

    batch: int = 1

    @property
    def all_windows(self) -> int:
        """Windows of buckets of the whole batch."""
        return self.windows * self.batch

    @property
    def entries(self) -> int:
        """Digits of all scalars, of which each that is not zero is one addition."""
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
        """Twice what a bucket of uniform scalars holds, so that those are never cut."""
        return 16 + 2 * self.count * self.copies // self.buckets

    @property
    def chunk_length(self) -> int:
        """The length of the chunks that a longer bucket is cut into."""
        return self.longest // 2

    def sort_parts(self, threads: int) -> int:
        """Workers on the sorting of each window."""
        if self.count <= _SHARED_SORT:
            return 1
        return max(1, -(-2 * threads // self.all_windows))

    def peak_bytes(self, threads: int) -> int:
        """A bound on the memory that the MSM takes beside its bases and scalars."""
        segments = self.all_windows * self.buckets
        lines = self.all_windows * (self.rows + self.columns)
        chunks = min(self.entries, segments + self.entries // self.chunk_length)
        line_chunks = lines + 2 * segments // self.chunk_length
        point_bytes = 8 * self.group.point_words
        tables = 4 * self.sort_parts(threads) + 48
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
    """The plan with the fewest additions for vectors of `count` scalars, within the options.

    `batch` is how many vectors there are; the plan's may be smaller. Raises InputError for more
    scalars than entries can be numbered, and for windows that only GPUs take.
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
        needed = window_count(maximum, window_bits)
        windows = -(-needed // min(factor, needed))
        return MsmPlan(group, count, window_bits, windows, -(-needed // windows), maximum)

    def additions(candidate: MsmPlan) -> float:
        filled = min(candidate.buckets, 2 * count * candidate.copies)
        bucket = _ADDITIONS_PER_BUCKET * filled + _WORK_PER_BUCKET * candidate.buckets
        return candidate.entries + candidate.windows * bucket

    if options.window_bits is not None:
        chosen = plan(options.window_bits)
    else:
        chosen = min((plan(width) for width in range(3, MAX_WINDOW_BITS + 1)), key=additions)
    return in_batches(chosen, batch, options.batch_size)


def in_batches(plan: MsmPlan, batch: int, batch_size: int | None) -> MsmPlan:
    """The plan for as many of `batch` vectors at a time as `batch_size` or their size allows."""
    per_vector = max(plan.entries, plan.windows * plan.buckets)
    if per_vector >= 1 << 32 or plan.count * plan.copies >= 1 << 31:
        raise InputError(
            f"an MSM of {plan.count} scalars in windows of {plan.window_bits} bits is too large; "
            "cut it into several and add their results"
        )
    most = ((1 << 32) - 1) // max(1, per_vector)
    wanted = max(1, _BATCH_ENTRIES // max(1, per_vector)) if batch_size is None else batch_size
    size = max(1, min(batch, wanted, most))
    return MsmPlan(
        plan.group, plan.count, plan.window_bits, plan.windows, plan.copies, plan.maximum, size
    )
