"""Plans of MSMs on a GPU: digits, copies, chunks and the sort, chosen before the MSM starts."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from quod.curve.group import Group
from quod.curve.sums.forms import Form
from quod.device.memory.budget import UNLIMITED
from quod.errors import DeviceError, InputError
from quod.frozen import frozen, replace
from quod.msm.gpu.buckets.chunks import MAX_LONGEST
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.options import MAX_GPU_WINDOW_BITS, MsmOptions
from quod.msm.scalars import MAX_BASES, SCALAR_BYTES, window_count

# The cost of adding a sum that is not affine, in additions of a base: 14 products instead of 10.
_FULL_ADDITION = 1.4

# Full additions of the reduction per bucket that is not empty.
_ADDITIONS_PER_BUCKET = 2.0

# The cost of counting, placing and cutting one bucket, even an empty one, in additions of a base.
_WORK_PER_BUCKET = 0.05

# The minimum chunk length: merging shorter chunks costs more than busier lanes gain.
_SHORTEST = 8

# The maximum number of entries of a batch: half the range of u32.
_MAX_ENTRIES = 1 << 31

# Blocks are multiples of this, which aligns their bases, scalars, indices and infinity masks.
_BLOCK_STEP = 1024

# The maximum number of block counts to try; each is twice the one before.
_MAX_HALVINGS = 8


@frozen
class SortShape:
    """The bins and blocks of a sort; a bin has 2**low_bits buckets, a block 2**block_bits."""

    low_bits: int
    block_bits: int
    bins: int
    blocks: int

    @classmethod
    def of(cls, plan: GpuMsmPlan) -> SortShape:
        """Return bins of one bucket if there are few, else about as many as a bin has buckets.

        Raises InputError if there are too many buckets for one sort.
        """
        buckets, max_low_bits, tuning = plan.all_buckets, plan.window_bits - 1, plan.sort
        if buckets <= tuning.bins:
            block_bits = min(8, max_low_bits)
            return cls(0, block_bits, buckets, buckets >> block_bits)
        bits = (buckets - 1).bit_length()
        min_low_bits = ((buckets - 1) // tuning.bins).bit_length()
        preferred_low_bits = tuning.low_bits or (bits + 1) // 2
        low_bits = min(max_low_bits, tuning.max_low_bits, max(min_low_bits, preferred_low_bits))
        if buckets >> low_bits > tuning.bins:
            raise InputError(
                f"{plan.all_windows} windows of {plan.window_bits} bits are too many buckets to "
                "sort into at once; take fewer vectors together, or other windows"
            )
        return cls(low_bits, low_bits, buckets >> low_bits, buckets >> low_bits)

    @property
    def direct(self) -> bool:
        """True if a bin is a single bucket."""
        return self.low_bits == 0

    @property
    def start_bits(self) -> int:
        """Shift from blocks to bins: a block begins at bin ``block << start_bits``."""
        return self.block_bits if self.direct else 0

    def max_tiles(self, plan: GpuMsmPlan) -> int:
        """Return an upper bound on the number of tiles of all bins."""
        return plan.max_entries // plan.sort.tile + min(self.bins, plan.max_entries)


def plan_gpu_msm(
    group: Group,
    count: int,
    options: MsmOptions,
    *,
    limits: DeviceLimits,
    base_budget: int,
    batch: int = 1,
    form: Form = "weierstrass",
) -> GpuMsmPlan:
    """Return the plan with the lowest estimated cost, for bases yet to be prepared.

    base_budget: bytes for the bases and their multiples.

    Bases that exceed `limits.largest_buffer` are split into blocks, without multiples. Raises
    InputError if no plan fits the options, DeviceError if the bases alone exceed the budget.
    """
    return _planned(group, count, options, limits, base_budget, batch, form)


@functools.lru_cache(maxsize=1024)
def _planned(
    group: Group, count: int, options: MsmOptions, limits: DeviceLimits, base_budget: int,
    batch: int, form: Form,
) -> GpuMsmPlan:  # fmt: skip
    """Compute `plan_gpu_msm`, cached because opening a key needs the same few plans many times."""
    maximum = options.greatest_scalar(group)
    probe = GpuMsmPlan(group, max(1, count), 2, 1, 1, maximum, 1, 1, form, None, limits)
    bytes_per_base = probe.base_words * 8
    bytes_per_copy = probe.count * bytes_per_base
    max_copies = min(base_budget // bytes_per_copy, (MAX_BASES - 1) // probe.count)
    if options.precompute_factor is not None:
        max_copies = min(max_copies, options.precompute_factor)
    if max_copies == 0:
        raise DeviceError(
            f"{count} bases of {group.name} take {bytes_per_copy} bytes of device memory, and "
            f"{base_budget} are free for them; stream them, or take fewer"
        )
    max_buffer_bytes = limits.largest_buffer
    max_copies = max(1, min(max_copies, max_buffer_bytes // bytes_per_copy))

    def plans(window_bits: int, block: int | None) -> Iterator[GpuMsmPlan]:
        needed_windows = window_count(maximum, window_bits)
        for windows in range(-(-needed_windows // max_copies), needed_windows + 1):
            copies = -(-needed_windows // windows)
            shape = replace(
                probe, window_bits=window_bits, windows=windows, copies=copies, base_block=block
            )
            yield with_batch(shape, count, batch)

    widths = range(3, MAX_GPU_WINDOW_BITS + 1)
    if options.window_bits is not None:
        widths = range(options.window_bits, options.window_bits + 1)
    for block in _blocks(probe.count, bytes_per_base, max_buffer_bytes):
        fitting = [
            candidate for width in widths for candidate in plans(width, block) if fits(candidate)
        ]
        if fitting:
            return min(fitting, key=additions)
    if options.window_bits is not None and bytes_per_copy <= max_buffer_bytes:
        # The plan may still fit with fewer vectors or scalars.
        return min(plans(options.window_bits, None), key=additions)
    raise InputError(
        f"{count} scalars over {group.name} have too many digits to be sorted at once; stream "
        "the bases, or cut the MSM into several and add their results"
    )


def _blocks(count: int, bytes_per_base: int, max_buffer_bytes: int) -> Iterator[int | None]:
    """Yield block sizes to try: None (a single block) if a buffer can hold it, then smaller ones.

    Sizes are multiples of `_BLOCK_STEP`. Devices without a buffer limit use a single block.
    """
    bases_per_buffer = max_buffer_bytes // bytes_per_base
    if bases_per_buffer >= count:
        yield None
    if max_buffer_bytes >= UNLIMITED:
        return
    min_blocks = -(-count // max(1, bases_per_buffer))
    for halvings in range(_MAX_HALVINGS):
        blocks = min_blocks << halvings
        size = -(-count // (blocks * _BLOCK_STEP)) * _BLOCK_STEP
        if blocks > 1 and size * bytes_per_base <= max_buffer_bytes:
            yield size


def fits(plan: GpuMsmPlan) -> bool:
    """Return whether the sort supports the plan and all its arrays fit a buffer."""
    block = plan.largest_block
    try:
        SortShape.of(block)
    except InputError:
        return False
    sums = 8 * block.sum_words * max(block.max_chunks, block.all_buckets)
    entries = 4 * (block.max_entries + block.sort.tile)
    return block.max_entries <= _MAX_ENTRIES and max(sums, entries) <= block.limits.largest_buffer


def additions(plan: GpuMsmPlan) -> float:
    """Estimate the cost of the plan for one vector, in additions of a base.

    Carrying buckets to the next block costs about as much as reducing them.
    """
    if len(plan.block_counts) > 1:
        return len(plan.block_counts) * additions(plan.largest_block)
    filled_buckets = min(plan.buckets * plan.all_windows, 2 * plan.max_entries)
    merges = max(0, plan.max_entries // plan.longest - filled_buckets)
    full_additions = merges + _ADDITIONS_PER_BUCKET * filled_buckets
    total = plan.max_entries + _FULL_ADDITION * full_additions + _WORK_PER_BUCKET * plan.all_buckets
    return total / plan.batch


def with_batch(plan: GpuMsmPlan, count: int, batch: int) -> GpuMsmPlan:
    """Return the plan with the same digits for `batch` vectors of `count` scalars."""
    shape = replace(plan, count=max(1, count), batch=batch)
    return replace(shape, longest=_longest(shape.largest_block))


def largest_batch(plan: GpuMsmPlan, batch: int) -> int:
    """Return the largest batch, at most `batch`, to which a plan for one vector can be widened.

    Raises InputError if one vector cannot be sorted.
    """
    if not fits(plan):
        raise InputError(
            f"an MSM of {plan.count} scalars in {plan.windows} windows of {plan.window_bits} bits "
            "is too large; cut it into several and add their results"
        )
    buckets_per_bin = 1 << min(plan.window_bits - 1, plan.sort.max_low_bits)
    max_by_buckets = plan.sort.bins * buckets_per_bin // (plan.windows * plan.buckets)
    max_by_entries = _MAX_ENTRIES // (plan.digit_windows * plan.count)
    max_by_scalars = plan.limits.largest_buffer // (SCALAR_BYTES * plan.count)
    max_batch = max(1, min(batch, max_by_buckets, max_by_entries, max_by_scalars))
    while max_batch > 1 and not fits(with_batch(plan, plan.count, max_batch)):
        max_batch -= -(-max_batch // 8)
    return max_batch


def _longest(plan: GpuMsmPlan) -> int:
    """Return the chunk length.

    Buckets of uniform digits are not split if they fill all lanes, else chunks are shorter. Chunks
    are long enough that the sums of all chunks fit a buffer.
    """
    length = 16 + 2 * plan.max_entries // plan.all_buckets
    lanes_to_fill = max(1, plan.limits.resident_lanes // 2)
    if plan.all_buckets < lanes_to_fill:
        length = min(length, max(_SHORTEST, -(-plan.max_entries // lanes_to_fill)))
    spare = plan.limits.largest_buffer // (8 * plan.sum_words) - plan.all_buckets
    if spare > 0:
        length = max(length, -(-plan.max_entries // spare))
    return min(MAX_LONGEST, length)
