"""How an MSM on a GPU is cut, decided before it starts: digits, copies, chunks and the sort."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from quod.curve.group import Group
from quod.curve.sums.forms import Form
from quod.device.memory.budget import UNLIMITED
from quod.errors import DeviceError, InputError
from quod.frozen import frozen, replace
from quod.msm.gpu.buckets.chunks import MOST_LONGEST
from quod.msm.gpu.device_limits import Processor
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.options import MAX_GPU_WINDOW_BITS, MsmOptions
from quod.msm.scalars import MOST_BASES, SCALAR_BYTES, window_count

# Adding a chunk's or bucket's sum, which is not affine, in terms of adding a base: 14 products
# against 10.
_FULL_ADDITION = 1.4

# Full additions that a bucket in use takes until its window is a few sums.
_ADDITIONS_PER_BUCKET = 2.0

# Counting, placing and cutting a bucket, also an empty one, in terms of adding a base.
_WORK_PER_BUCKET = 0.05

# Fewer entries a chunk cost more in adding the chunks up than they gain in lanes at work.
_SHORTEST = 8

# Entries that a batch may have together: half of what their numbers could count.
_MOST_ENTRIES = 1 << 31

# Bases whose memory, scalars, indices and marks begin where those of another buffer may.
_BLOCK_STEP = 1024

# Parts beyond those that the bases need that are tried so that the work on each has room.
_MOST_HALVINGS = 8


@frozen
class SortShape:
    """The bins and blocks of a sort: a bin has 2**low_bits buckets, a block 2**block_bits."""

    low_bits: int
    block_bits: int
    bins: int
    blocks: int

    @classmethod
    def of(cls, plan: GpuMsmPlan) -> SortShape:
        """Bins of one bucket where there are few of those, else about as many as buckets in one."""
        buckets, most, tuning = plan.all_buckets, plan.window_bits - 1, plan.sort
        if buckets <= tuning.bins:
            block_bits = min(8, most)
            return cls(0, block_bits, buckets, buckets >> block_bits)
        bits = (buckets - 1).bit_length()
        least = ((buckets - 1) // tuning.bins).bit_length()
        wanted = tuning.low_bits or (bits + 1) // 2
        low_bits = min(most, tuning.most_low_bits, max(least, wanted))
        if buckets >> low_bits > tuning.bins:
            raise InputError(
                f"{plan.all_windows} windows of {plan.window_bits} bits are too many buckets to "
                "sort into at once; take fewer vectors together, or other windows"
            )
        return cls(low_bits, low_bits, buckets >> low_bits, buckets >> low_bits)

    @property
    def direct(self) -> bool:
        """Whether a bin is one bucket."""
        return self.low_bits == 0

    @property
    def start_bits(self) -> int:
        """A block begins where bin ``block << start_bits`` does."""
        return self.block_bits if self.direct else 0

    def most_tiles(self, plan: GpuMsmPlan) -> int:
        """The most tiles that the bins can have."""
        return plan.most_entries // plan.sort.tile + min(self.bins, plan.most_entries)


def plan_gpu_msm(
    group: Group,
    count: int,
    options: MsmOptions,
    *,
    processor: Processor,
    base_budget: int,
    batch: int = 1,
    form: Form = "weierstrass",
) -> GpuMsmPlan:
    """The plan that is expected to be fastest, for bases that are made for it.

    `base_budget` is how many bytes the bases and their multiples may take. Bases of which a kernel
    does not reach all are in blocks, without multiples. Raises InputError for options that nothing
    fits, DeviceError if not even the bases themselves fit.
    """
    return _planned(group, count, options, processor, base_budget, batch, form)


@functools.lru_cache(maxsize=1024)
def _planned(
    group: Group, count: int, options: MsmOptions, processor: Processor, base_budget: int,
    batch: int, form: Form,
) -> GpuMsmPlan:  # fmt: skip
    """Of those that are asked for when a key is opened most have been before."""
    maximum = options.greatest_scalar(group)
    probe = GpuMsmPlan(group, max(1, count), 2, 1, 1, maximum, 1, 1, form, None, processor)
    per_base = probe.base_words * 8
    per_copy = probe.count * per_base
    most_copies = min(base_budget // per_copy, (MOST_BASES - 1) // probe.count)
    if options.precompute_factor is not None:
        most_copies = min(most_copies, options.precompute_factor)
    if most_copies == 0:
        raise DeviceError(
            f"{count} bases of {group.name} take {per_copy} bytes of device memory, and "
            f"{base_budget} are free for them; stream them, or take fewer"
        )
    reach = processor.largest_buffer
    most_copies = max(1, min(most_copies, reach // per_copy))

    def plans(window_bits: int, block: int | None) -> Iterator[GpuMsmPlan]:
        needed = window_count(maximum, window_bits)
        for windows in range(-(-needed // most_copies), needed + 1):
            copies = -(-needed // windows)
            shape = replace(
                probe, window_bits=window_bits, windows=windows, copies=copies, base_block=block
            )
            yield with_batch(shape, count, batch)

    widths = range(3, MAX_GPU_WINDOW_BITS + 1)
    if options.window_bits is not None:
        widths = range(options.window_bits, options.window_bits + 1)
    for block in _blocks(probe.count, per_base, reach):
        fitting = [one for width in widths for one in plans(width, block) if fits(one)]
        if fitting:
            return min(fitting, key=additions)
    if options.window_bits is not None and per_copy <= reach:
        # Fewer vectors or scalars may fit it.
        return min(plans(options.window_bits, None), key=additions)
    raise InputError(
        f"{count} scalars over {group.name} have too many digits to be sorted at once; stream "
        "the bases, or cut the MSM into several and add their results"
    )


def _blocks(count: int, per_base: int, reach: int) -> Iterator[int | None]:
    """Sizes of blocks to try: all bases together if a kernel reaches them, then ever smaller."""
    together = reach // per_base
    if together >= count:
        yield None
    if reach >= UNLIMITED:
        return
    least = -(-count // max(1, together))
    for halvings in range(_MOST_HALVINGS):
        blocks = least << halvings
        size = -(-count // (blocks * _BLOCK_STEP)) * _BLOCK_STEP
        if blocks > 1 and size * per_base <= reach:
            yield size


def fits(plan: GpuMsmPlan) -> bool:
    """Whether a sort can be laid out for the plan, with arrays that kernels reach."""
    own = plan.largest_block
    try:
        SortShape.of(own)
    except InputError:
        return False
    sums = 8 * own.sum_words * max(own.most_chunks, own.all_buckets)
    entries = 4 * (own.most_entries + own.sort.tile)
    return own.most_entries <= _MOST_ENTRIES and max(sums, entries) <= own.processor.largest_buffer


def additions(plan: GpuMsmPlan) -> float:
    """What the plan costs a vector, in additions of a base.

    Buckets that are carried from block to block cost about what their reduction does.
    """
    if len(plan.block_counts) > 1:
        return len(plan.block_counts) * additions(plan.largest_block)
    filled = min(plan.buckets * plan.all_windows, 2 * plan.most_entries)
    chunks = max(0, plan.most_entries // plan.longest - filled)
    full = chunks + _ADDITIONS_PER_BUCKET * filled
    total = plan.most_entries + _FULL_ADDITION * full + _WORK_PER_BUCKET * plan.all_buckets
    return total / plan.batch


def with_batch(plan: GpuMsmPlan, count: int, batch: int) -> GpuMsmPlan:
    """The same digits for vectors of `count` scalars, so many together, with chunks to fit."""
    shape = replace(plan, count=max(1, count), batch=batch)
    return replace(shape, longest=_longest(shape.largest_block))


def largest_batch(plan: GpuMsmPlan, batch: int) -> int:
    """How many of `batch` vectors a plan for one can be widened to.

    InputError if not even one can be sorted.
    """
    if not fits(plan):
        raise InputError(
            f"an MSM of {plan.count} scalars in {plan.windows} windows of {plan.window_bits} bits "
            "is too large; cut it into several and add their results"
        )
    per_bin = 1 << min(plan.window_bits - 1, plan.sort.most_low_bits)
    by_buckets = plan.sort.bins * per_bin // (plan.windows * plan.buckets)
    by_entries = _MOST_ENTRIES // (plan.digit_windows * plan.count)
    by_scalars = plan.processor.largest_buffer // (SCALAR_BYTES * plan.count)
    most = max(1, min(batch, by_buckets, by_entries, by_scalars))
    while most > 1 and not fits(with_batch(plan, plan.count, most)):
        most -= -(-most // 8)
    return most


def _longest(plan: GpuMsmPlan) -> int:
    """Uniform buckets stay whole where they give work to all lanes, else they are cut for that.

    No shorter than lets a kernel reach the sums of all chunks.
    """
    uncut = 16 + 2 * plan.most_entries // plan.all_buckets
    enough = max(1, plan.processor.resident_lanes // 2)
    if plan.all_buckets < enough:
        uncut = min(uncut, max(_SHORTEST, -(-plan.most_entries // enough)))
    spare = plan.processor.largest_buffer // (8 * plan.sum_words) - plan.all_buckets
    if spare > 0:
        uncut = max(uncut, -(-plan.most_entries // spare))
    return min(MOST_LONGEST, uncut)
