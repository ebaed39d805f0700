"""Device memory layout of an MSM on a GPU, and its plan.

    scalars -> entries, sorted by bucket -> chunks of entries -> chunk sums -> bucket sums -> lines

An entry is a u32: base index in the low 31 bits, the sign of its digit in bit 31. Of n bases, base
index ``copy * n + i`` is 2**(copy * windows * window_bits) times base i. Digit d of window w of
vector v belongs to bucket ``(v * windows + w) * buckets + abs(d) - 1``; zero digits and infinite
bases make no entry. Entries of one bucket are consecutive, in any order.

A chunk is a run of at most `longest` entries of one bucket. Chunks are numbered bucket by bucket:
bucket b has chunks ``first_chunk[b]`` to ``first_chunk[b + 1] - 1``, none if it is empty.

These modules record the launches on such arrays:

    base_multiples.multiples(device, group, points, plan) -> Buffer
        Upload a host array of affine points and compute all copies, in the form of `accumulate`.
    accumulate.record(recording, device, plan, bases, entries, chunks, sums, scratch)
        sums[number] = the sum of the entries of every chunk.
    merge.record(recording, device, plan, chunks, sums, scratch)
        sums[first_chunk[b]] = the sum of bucket b, for every bucket with chunks.
    merge.record_carry(recording, device, plan, chunks, sums, carried, begins=False)
        carried[b] += sums[first_chunk[b]] for every bucket with chunks; `carried` has one point per
        bucket. With `begins` the sums are copied to it, and buckets without chunks become zeros,
        which are infinity.
    weighted_sums.record(recording, device, plan, first_chunk, sums, lines, scratch)
        Reduce the bucket sums of each window to a few points, here called lines: sums of rows or
        columns of a matrix of buckets. A bucket sum may be infinity.
    finish.Finisher([plan, ...]).finish([lines, ...]) -> [words, ...]
        On the host: reduce `lines` (uint64, weighted_sums.line_bytes(plan) bytes) to one affine
        point per vector, shape (batch, group.point_words).

`scratch` has at least accumulate.scratch_bytes(device, plan), and so on; it is uninitialised, and
each of the three modules may use all of it. The plan determines the grid of a launch, and kernels
read counts from device memory, so no launch waits for the host.
"""

from __future__ import annotations

from quod.curve.sums.forms import Form
from quod.device.memory.buffer import Buffer
from quod.frozen import frozen, replace
from quod.kernel.builder.structs import Struct
from quod.kernel.ir.value import U32, U64, Pointer
from quod.msm.gpu.device_limits import DeviceLimits, SortTuning
from quod.msm.plan import WindowPlan


@frozen
class GpuMsmPlan(WindowPlan):
    """The shape of `batch` MSMs of `count` scalars over the same bases.

    longest: the maximum number of entries of a chunk.
    form: ``weierstrass`` (bases x, y; sums in XYZZ), or ``edwards`` (bases y - x, y + x, 2dxy;
        sums in extended coordinates X, Y, Z, T).
    base_block: the maximum number of bases per buffer, or None for a single buffer. An MSM over
        several buffers runs block by block, with one set of buckets.
    limits: the limits of the device.
    affine: whether chunks may be summed in affine coordinates, for which large MSMs take a few GiB
        of scratch memory.
    """

    longest: int
    batch: int = 1
    form: Form = "weierstrass"
    base_block: int | None = None
    limits: DeviceLimits = DeviceLimits()
    affine: bool = True

    @property
    def sort(self) -> SortTuning:
        """Tuning of the sort."""
        return self.limits.sort

    @property
    def block_counts(self) -> tuple[int, ...]:
        """The number of scalars of each block of bases."""
        size = self.base_block or self.count
        return tuple(min(size, self.count - start) for start in range(0, self.count, size))

    @property
    def largest_block(self) -> GpuMsmPlan:
        """The plan of the largest block."""
        return replace(self, count=self.block_counts[0], base_block=None)

    @property
    def all_windows(self) -> int:
        """The number of windows of the whole batch."""
        return self.windows * self.batch

    @property
    def all_buckets(self) -> int:
        return self.all_windows * self.buckets

    @property
    def max_entries(self) -> int:
        """An upper bound on the number of entries."""
        return self.digit_windows * self.count * self.batch

    @property
    def max_chunks(self) -> int:
        """An upper bound on the number of chunks."""
        return min(self.max_entries, self.all_buckets + self.max_entries // self.longest)

    @property
    def max_chunks_of_bucket(self) -> int:
        """An upper bound on the chunks of one bucket, reached if all digits fall into it."""
        return -(-self.count * self.copies // self.longest)

    @property
    def base_words(self) -> int:
        """64-bit words of a base in device memory."""
        return self.group.coordinate_words * (2 if self.form == "weierstrass" else 3)

    @property
    def sum_words(self) -> int:
        """64-bit words of a chunk's or bucket's sum in device memory."""
        return self.group.coordinate_words * 4


class ChunkTable(Struct):
    """Chunks sorted by falling length, so that neighbouring instances finish together.

    starts: the index of each chunk's first entry.
    lengths: its number of entries, 1 to `longest`.
    numbers: its number; chunks are numbered bucket by bucket.
    """

    starts: Pointer[U32]
    lengths: Pointer[U32]
    numbers: Pointer[U32]


class ChunkSums(Struct):
    """The chunks to sum and their sums.

    sums: sums[numbers[i]] is the sum of chunk i.
    retries: retries[0] counts the chunks that need complete additions; retries[1], ... list them.
    """

    table: ChunkTable
    entries: Pointer[U32]
    bases: Pointer[U64]
    sums: Pointer[U64]
    retries: Pointer[U32]


@frozen
class Chunks:
    """The chunks of one MSM, arrays of u32 in device memory.

    starts, lengths, numbers: see `ChunkTable`.
    first_chunk: the first chunk of each bucket, all_buckets + 1 elements.
    count: the number of chunks, one element.
    """

    starts: Buffer
    lengths: Buffer
    numbers: Buffer
    first_chunk: Buffer
    count: Buffer

    @property
    def table(self) -> ChunkTable:
        """The chunks as a kernel argument."""
        return ChunkTable(self.starts, self.lengths, self.numbers)
