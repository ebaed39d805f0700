"""What an MSM on a GPU keeps in device memory, and the shape of its work.

    scalars -> entries, sorted by bucket -> chunks of entries -> chunk sums -> bucket sums -> lines

An entry is a u32: base index in the low 31 bits, the sign of its digit in bit 31. Of n bases, base
index ``copy * n + i`` is 2**(copy * windows * window_bits) times base i. Digit d of window w of
vector v belongs to bucket ``(v * windows + w) * buckets + abs(d) - 1``; zero digits and infinite
bases make no entry. Entries of one bucket are consecutive, in any order.

A chunk is a run of at most `longest` entries of one bucket. The chunks of a bucket are consecutive
in their numbering, and buckets follow one another in it: those of bucket b are
``first_chunk[b]`` to ``first_chunk[b + 1] - 1``, none for an empty bucket.

Kernels of these modules work on such arrays, and each of them records its launches:

    base_multiples.multiples(device, group, points, plan) -> Buffer
        The bases as `accumulate` reads them, all copies, from a host array of affine points.
    accumulate.record(recording, device, plan, bases, entries, chunks, sums, scratch)
        sums[number] = the sum of the entries of every chunk.
    merge.record(recording, device, plan, chunks, sums, scratch)
        Afterwards sums[first_chunk[b]] is the sum of bucket b, where it has chunks.
    merge.record_carry(recording, device, plan, chunks, sums, carried, begins=False)
        carried[b] += sums[first_chunk[b]] for every bucket with chunks; `carried` has a point a
        bucket. Where it begins, the sums are only moved there, and buckets without chunks are
        zeros, which are infinity.
    weighted_sums.record(recording, device, plan, first_chunk, sums, lines, scratch)
        The bucket sums of each window to a few weighted sums; the sum of a bucket may be infinity.
    finish.Finisher([plan, ...]).finish([lines, ...]) -> [words, ...]
        On the host: from `lines` (uint64, weighted_sums.line_bytes(plan) bytes) to the words of
        one affine point a vector, shape (batch, group.point_words).

`scratch` has at least accumulate.scratch_bytes(device, plan), and so on; each of the three may use
all of it, and finds anything in it. Launches take their grid from the plan and read counts from
device memory: nothing waits for the host.
"""

from __future__ import annotations

from quod.curve.sums.forms import Form
from quod.device.memory.buffer import Buffer
from quod.frozen import frozen, replace
from quod.kernel.builder.structs import Struct
from quod.kernel.ir.value import U32, U64, Pointer
from quod.msm.gpu.device_limits import Processor, SortTuning
from quod.msm.plan import WindowPlan


@frozen
class GpuMsmPlan(WindowPlan):
    """The shape of one MSM of `count` scalars, or of `batch` such MSMs over the same bases.

    `longest` is the most entries of a chunk. `form` says how bases and sums are held:
    ``weierstrass`` (affine x, y; sums in XYZZ), or ``edwards`` (y - x, y + x, 2dxy; sums in
    extended coordinates X, Y, Z, T). No more than `base_block` bases lie in one buffer, if that
    says something: the MSM is then one of each block, with one set of buckets.
    `on_device`: the results are made by the device, of fewer points than the host would be left.
    """

    longest: int
    batch: int = 1
    form: Form = "weierstrass"
    base_block: int | None = None
    processor: Processor = Processor()
    on_device: bool = False

    @property
    def sort(self) -> SortTuning:
        """How the processor sorts."""
        return self.processor.sort

    @property
    def block_counts(self) -> tuple[int, ...]:
        """Scalars of a vector by the block of their bases."""
        size = self.base_block or self.count
        return tuple(min(size, self.count - start) for start in range(0, self.count, size))

    @property
    def largest_block(self) -> GpuMsmPlan:
        """The plan of the largest block."""
        return replace(self, count=self.block_counts[0], base_block=None)

    @property
    def all_windows(self) -> int:
        """Windows of buckets of the whole batch."""
        return self.windows * self.batch

    @property
    def all_buckets(self) -> int:
        return self.all_windows * self.buckets

    @property
    def most_entries(self) -> int:
        """The most entries that there can be."""
        return self.digit_windows * self.count * self.batch

    @property
    def most_chunks(self) -> int:
        """The most chunks that there can be."""
        return min(self.most_entries, self.all_buckets + self.most_entries // self.longest)

    @property
    def most_chunks_of_bucket(self) -> int:
        """The most chunks of one bucket: if all digits that may fall into it do."""
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
    """Chunks of entries in order of falling length, so that neighbours end together.

    Chunk i has the lengths[i] entries from entry starts[i] on, 1 to `longest`, and the number
    numbers[i].
    """

    starts: Pointer[U32]
    lengths: Pointer[U32]
    numbers: Pointer[U32]


class ChunkSums(Struct):
    """The chunks to sum, and where their sums go: sums[numbers[i]] is the sum of chunk i.

    retries[0] counts the chunks to be summed again by complete additions, which retries[1], ...
    list.
    """

    table: ChunkTable
    entries: Pointer[U32]
    bases: Pointer[U64]
    sums: Pointer[U64]
    retries: Pointer[U32]


@frozen
class Chunks:
    """The chunks of one MSM, arrays of u32 in device memory.

    `starts`, `lengths` and `numbers` are those of `ChunkTable`. `first_chunk` has `all_buckets` + 1
    elements, `count` one: how many chunks there are.
    """

    starts: Buffer
    lengths: Buffer
    numbers: Buffer
    first_chunk: Buffer
    count: Buffer

    @property
    def table(self) -> ChunkTable:
        """The chunks as kernels take them."""
        return ChunkTable(self.starts, self.lengths, self.numbers)
