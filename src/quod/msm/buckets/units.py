"""Cutting buckets into units, and the order in which they are summed.

    place_buckets   where each bucket begins, how many units it has, how many units have each length
    scan_units      the number of each chunk's first unit, and the rank of each length's first one
    make_units      the units themselves

A chunk is a run of buckets that one workgroup takes. A bucket of more than `longest` entries is cut
into units of about equal length. Units are ranked by falling length, by counting.
"""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.machine import Capability
from quod.kernel.value import U32, Pointer, Value
from quod.msm.sort.workgroup import Scan, clear

LANES = 256
"""Instances a workgroup of these kernels."""

MOST_LONGEST = 1023
"""The greatest length of a unit."""

LENGTHS = MOST_LONGEST + 1

# A bucket of more units than this is written by a whole workgroup, one of fewer by a subgroup.
_MANY_UNITS = 1024


@frozen
class _Cut:
    """How one bucket is cut: `longer` units of short + 1 entries, then pieces - longer of short."""

    pieces: Value
    short: Value
    longer: Value

    @classmethod
    def of(cls, k: Builder, length: Value, longest: Value) -> _Cut:
        pieces = (length + longest - 1) // longest
        divisor = k.maximum(pieces, 1)
        short = length // divisor
        return cls(pieces, short, length - short * divisor)

    def tally(self, k: Builder, table: Value) -> tuple[Value, Value]:
        """Adds the units to counters of lengths; gives what it found for the longer and others."""
        found = []
        for length, number in (
            (self.short + 1, self.longer),
            (self.short, self.pieces - self.longer),
        ):
            with k.if_(number != 0) as branch:
                branch.give(k.atomic_add(table, length, number))
            with branch.otherwise():
                branch.give(k.constant(0, types.u32))
            found.append(branch.results)
        return found[0], found[1]


def _own_counts(k: Builder, counts: Value, chunk_bits: int) -> list[tuple[Value, Value, Value]]:
    """(bucket, its entries, whether there is one) for the consecutive buckets of an instance."""
    size = 1 << chunk_bits
    each = max(1, size // k.workgroup_size)
    own = k.local_id() * each
    exists = own < size
    first = (k.workgroup_id() << chunk_bits) + k.select(exists, own, 0)
    loaded = k.load(counts, first, each)
    return [(first + i, k.select(exists, count, 0), exists) for i, count in enumerate(loaded)]


@kernel
def place_buckets(
    k: Builder,
    longest: U32,
    chunk_starts: Pointer[U32],
    counts: Pointer[U32],
    starts: Pointer[U32],
    cursors: Pointer[U32],
    first_unit: Pointer[U32],
    chunk_units: Pointer[U32],
    length_counts: Pointer[U32],
    *,
    chunk_bits: int,
    start_bits: int,
) -> None:
    """Places of a chunk's buckets, one workgroup a chunk.

    Chunk q begins at entry ``chunk_starts[q << start_bits]``. `first_unit` is within the chunk yet;
    length_counts[n] counts units of n entries.
    """
    scan = Scan(k)
    lengths = k.shared(types.u32, LENGTHS)
    clear(k, lengths, LENGTHS)
    own = _own_counts(k, counts, chunk_bits)
    cuts = [_Cut.of(k, count, longest) for _, count, _ in own]
    entries = units = k.constant(0, types.u32)
    for (_, count, _), cut in zip(own, cuts, strict=True):
        entries, units = entries + count, units + cut.pieces
    start, _ = scan.exclusive(entries)
    start = start + chunk_starts[k.workgroup_id() << start_bits]
    unit, all_units = scan.exclusive(units)
    for (bucket, count, exists), cut in zip(own, cuts, strict=True):
        with k.if_(exists):
            starts[bucket] = start
            cursors[bucket] = start
            first_unit[bucket] = unit
        cut.tally(k, lengths)
        start, unit = start + count, unit + cut.pieces
    with k.if_(k.local_id() == 0):
        chunk_units[k.workgroup_id()] = all_units
    k.barrier()
    with k.range(k.local_id(), LENGTHS, k.workgroup_size) as loop:
        number = lengths[loop.index]
        with k.if_(number != 0):
            k.atomic_add(length_counts, loop.index, number)


@kernel
def scan_units(
    k: Builder,
    chunk_units: Pointer[U32],
    length_counts: Pointer[U32],
    chunk_first: Pointer[U32],
    ranks: Pointer[U32],
    first_unit: Pointer[U32],
    count: Pointer[U32],
    *,
    chunks: int,
    buckets: int,
) -> None:
    """The first unit of each chunk, the first rank of each length, longest first, and the total.

    For one workgroup.
    """
    scan = Scan(k)

    def place_chunk(index: Value, before: Value) -> None:
        chunk_first[index] = before

    def place_length(index: Value, before: Value) -> None:
        ranks[MOST_LONGEST - index] = before

    units = scan.array(chunks, lambda index: chunk_units[index], place_chunk)
    scan.array(LENGTHS, lambda index: length_counts[MOST_LONGEST - index], place_length)
    with k.if_(k.local_id() == 0):
        first_unit[buckets] = units
        count[0] = units


class _Slots:
    """What a subgroup or workgroup must know of another instance's bucket to write its units."""

    def __init__(self, k: Builder, fields: int) -> None:
        self._k = k
        self._fields = [k.shared(types.u32, k.workgroup_size) for _ in range(fields)]

    def put(self, values: list[Value]) -> None:
        for field, value in zip(self._fields, values, strict=True):
            field[self._k.local_id()] = value

    def get(self, slot: Value) -> list[Value]:
        return [field[slot] for field in self._fields]


@frozen
class _Bucket:
    """A bucket whose units are to be written: its place, its cut, the ranks of its units."""

    start: Value
    unit: Value
    pieces: Value
    short: Value
    longer: Value
    longer_rank: Value
    short_rank: Value

    def write(self, k: Builder, i: Value, tables: tuple[Value, Value, Value]) -> None:
        """Writes unit i of the bucket."""
        starts, lengths, numbers = tables
        is_longer = i < self.longer
        rank = k.select(is_longer, self.longer_rank + i, self.short_rank + (i - self.longer))
        starts[rank] = self.start + i * self.short + k.minimum(i, self.longer)
        lengths[rank] = self.short + k.select(is_longer, k.constant(1, types.u32), 0)
        numbers[rank] = self.unit + i

    def values(self) -> list[Value]:
        return [
            self.start, self.unit, self.pieces, self.short, self.longer, self.longer_rank,
            self.short_rank,
        ]  # fmt: skip


def _write_own(
    k: Builder, mine: _Bucket, most: int, tables: tuple[Value, Value, Value]
) -> None:  # fmt: skip
    """Writes the units of an instance's bucket, if they are at most so many."""
    if most == 1:
        with k.if_(mine.pieces == 1):
            mine.write(k, k.constant(0, types.u32), tables)
        return
    with k.range(0, k.select(mine.pieces <= most, mine.pieces, 0)) as loop:
        mine.write(k, loop.index, tables)


@kernel
def make_units(
    k: Builder,
    longest: U32,
    counts: Pointer[U32],
    bucket_starts: Pointer[U32],
    chunk_first: Pointer[U32],
    ranks: Pointer[U32],
    starts: Pointer[U32],
    lengths: Pointer[U32],
    numbers: Pointer[U32],
    first_unit: Pointer[U32],
    *,
    chunk_bits: int,
    own_units: int = 1,
) -> None:
    """The units of a chunk's buckets, one workgroup a chunk; see `layout.Units`.

    An instance writes those of its own bucket if they are at most `own_units`.
    """
    tables = (starts, lengths, numbers)
    by_subgroups = not k.machine.has(Capability.SLOW_SUBGROUPS)
    most_of_subgroup = _MANY_UNITS if by_subgroups else own_units
    tally = k.shared(types.u32, LENGTHS)
    slots = _Slots(k, 7)
    many = k.shared(types.u32, k.workgroup_size)
    many_count = k.shared(types.u32, 1)
    clear(k, tally, LENGTHS)
    own = _own_counts(k, counts, chunk_bits)
    cuts = [_Cut.of(k, count, longest) for _, count, _ in own]
    k.barrier()
    found = [cut.tally(k, tally) for cut in cuts]
    k.barrier()
    with k.range(k.local_id(), LENGTHS, k.workgroup_size) as loop:
        number = tally[loop.index]
        with k.if_(number != 0):
            tally[loop.index] = k.atomic_add(ranks, loop.index, number)
    first = chunk_first[k.workgroup_id()]
    for (bucket, _, exists), cut, (longer_rank, short_rank) in zip(own, cuts, found, strict=True):
        with k.if_(k.local_id() == 0):
            many_count[0] = 0
        k.barrier()
        mine = _Bucket(
            bucket_starts[bucket], first_unit[bucket] + first, cut.pieces, cut.short, cut.longer,
            tally[k.minimum(cut.short + 1, MOST_LONGEST)] + longer_rank,
            tally[cut.short] + short_rank,
        )  # fmt: skip
        with k.if_(exists):
            first_unit[bucket] = mine.unit
        _write_own(k, mine, own_units, tables)
        slots.put(mine.values())
        with k.if_(cut.pieces > most_of_subgroup):
            many[k.atomic_add(many_count, 0, 1)] = k.local_id()
        if by_subgroups:
            waiting = k.ballot((cut.pieces > own_units) & (cut.pieces <= most_of_subgroup))
        k.barrier()
        if by_subgroups:
            first_slot = k.local_id() - k.lane_id()
            with k.while_(waiting) as several:
                several.check(several.carried != 0)
                other = _Bucket(*slots.get(first_slot + k.emit("ctz", (several.carried,))))
                with k.range(k.lane_id(), other.pieces, k.subgroup_size) as loop:
                    other.write(k, loop.index, tables)
                several.next(several.carried & (several.carried - 1))
        with k.range(0, many_count[0]) as large:
            other = _Bucket(*slots.get(many[large.index]))
            with k.range(k.local_id(), other.pieces, k.workgroup_size) as loop:
                other.write(k, loop.index, tables)
        k.barrier()
