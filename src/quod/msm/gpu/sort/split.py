"""Split scalars that are mostly 0 and 1.

Most values of a witness are bits. A base with scalar 0 is skipped, and a base with scalar 1 is
added without digits or a sort. The other bases are an MSM of few scalars.
"""

from __future__ import annotations

from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, Pointer
from quod.msm.gpu.layout import ChunkTable
from quod.msm.gpu.sort.workgroup import Scan
from quod.msm.scalars import SCALAR_BYTES, is_above

LANES = 256
"""Instances of a workgroup of `split_scalars`."""

ONES, OTHERS, TOO_LARGE = range(3)
"""Indices of a split's counters: scalars that are 1, scalars above 1, and the range check flag."""

COUNTER_BYTES = 16

_WORDS = SCALAR_BYTES // 4
_HALF_BITS = 16


@kernel
def split_scalars(
    k: Builder,
    count: U32,
    scalars: Pointer[U32],
    indices: Pointer[U32],
    marks: Pointer[U32],
    ones: Pointer[U32],
    others: Pointer[U32],
    counters: Pointer[U32],
    *,
    maximum: int,
    indexed: bool,
    masked: bool,
) -> None:
    """List the bases below `count` with scalar 1 in `ones`, and with larger scalars in `others`.

    indices: base i has scalar indices[i] instead of scalar i.
    marks: the infinity mask; infinite bases are in neither list.
    counters: zero before; see `ONES`. A scalar above `maximum` is recorded as in `Digits.check`.

    The bases that one workgroup lists are in order.
    """
    scan, shared = Scan(k), k.shared(types.u32, 2)
    s = k.global_id()
    active = s < count
    position = k.select(active, s, 0)
    scalar_index = indices[position] if indexed else position
    words = k.load(scalars, scalar_index.cast(types.u64) * _WORDS, _WORDS)
    with k.if_(active & is_above(k, words, maximum)):
        k.atomic_max(counters, TOO_LARGE, (1 << 32) - 1 - scalar_index)
    if masked:
        active = active & (((marks[position // 32] >> (position % 32)) & 1) == 0)
    high = words[1]
    for word in words[2:]:
        high = high | word
    # One scan counts both lists: ones in the low half of a word, others in the high half.
    is_bit = (high == 0) & (words[0] <= 1)
    is_one = active & is_bit & (words[0] == 1)
    is_other = active & ~is_bit
    other_flag = k.select(is_other, k.constant(1 << _HALF_BITS, types.u32), 0)
    packed_flags = k.select(is_one, 1, other_flag)
    prefix, total = scan.exclusive(packed_flags)
    low_mask = (1 << _HALF_BITS) - 1
    with k.if_(k.local_id() == 0):
        shared[ONES] = k.atomic_add(counters, ONES, total & low_mask)
        shared[OTHERS] = k.atomic_add(counters, OTHERS, total >> _HALF_BITS)
    k.barrier()
    with k.if_(is_one):
        ones[shared[ONES] + (prefix & low_mask)] = s
    with k.if_(is_other):
        others[shared[OTHERS] + (prefix >> _HALF_BITS)] = s


@kernel
def cut_evenly(
    k: Builder,
    longest: U32,
    buckets: U32,
    counters: Pointer[U32],
    table: ChunkTable,
    first_chunk: Pointer[U32],
    count: Pointer[U32],
) -> None:
    """Split `ones`, all in bucket 0, into chunks of at most `longest` entries.

    The other `buckets` - 1 buckets get no chunks. count[0] is the number of chunks.
    """
    i, entries = k.global_id(), counters[ONES]
    chunks = (entries + (longest - 1)) // longest
    with k.if_(i < chunks):
        start = i * longest
        table.starts[i] = start
        table.lengths[i] = k.minimum(longest, entries - start)
        table.numbers[i] = i
    with k.if_(i <= buckets):
        first_chunk[i] = k.select(i == 0, 0, chunks)
    with k.if_(i == 0):
        count[0] = chunks


@kernel
def gather_scalars(
    k: Builder,
    room: U32,
    scalars: Pointer[U32],
    indices: Pointer[U32],
    others: Pointer[U32],
    counters: Pointer[U32],
    out: Pointer[U32],
    bases: Pointer[U32],
    *,
    indexed: bool,
) -> None:
    """Gather the scalars of `others` and their bases; pad to `room` with zeros for base 0.

    Scalars beyond `room` are dropped: callers read the counters first.
    """
    i = k.global_id()
    with k.if_(i < room):
        exists = i < counters[OTHERS]
        base = k.select(exists, others[k.select(exists, i, 0)], 0)
        scalar_index = indices[base] if indexed else base
        words = k.load(scalars, scalar_index.cast(types.u64) * _WORDS, _WORDS)
        bases[i] = base
        k.store(out, i.cast(types.u64) * _WORDS, *(k.select(exists, word, 0) for word in words))
