"""Bucket accumulation in affine coordinates; many additions share an inversion.

    lambda = (y2 - y1)/(x2 - x1),  x3 = lambda^2 - x1 - x2,  y3 = lambda*(x1 - x3) - y1

The entries of a chunk are added in a tree: neighbours first, then sums at distances 2, 4, ... The
additions of one level, over all chunks that an instance holds, share an inversion (Montgomery,
"Speeding the Pollard and elliptic curve methods of factorization", 1987). The forward pass
multiplies all differences x2 - x1 and stores the prefix products; the backward pass computes each
inverse and its addition. An addition takes 5 products, a square and its share of an inversion; one
in XYZZ coordinates takes 8 products and 2 squares, but reads its operands once instead of twice.

Equal or opposite points make the product of differences of a level zero. Then all chunks of the
instance are listed in `retries`, to be summed by complete additions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from quod.curve.group import Group
from quod.curve.sums.entries import SIGN_BIT
from quod.curve.sums.forms import WeierstrassSums
from quod.curve.weierstrass.point import CoordinateElement
from quod.device.protocol import AnyDevice
from quod.field.cost import product_cost, square_cost
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import flatten
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import ChunkSums, GpuMsmPlan

PRODUCTS_OF_AFFINE = 6
"""Products in the coordinate field per addition; one of them is a square."""

_UNIT_BYTES = 16  # the widest access

# Field elements per slot: the two coordinates of a sum, and a prefix product of differences.
_ELEMENTS_PER_SLOT = 3

Elements = tuple[CoordinateElement, CoordinateElement]


def affine_cost(group: Group) -> int:
    """Return the 32-bit multiply-adds of an addition, without its share of an inversion."""
    product = product_cost(group.coordinates, group.degree)
    square = square_cost(group.coordinates, group.degree)
    return (PRODUCTS_OF_AFFINE - 1) * product + square


def bytes_of_addition(group: Group) -> int:
    """Return the bytes that an addition moves, beyond the reading of one base.

    An addition reads x twice and y once of two points, writes and reads a prefix product, and
    writes a sum. The two coordinates of one base are counted elsewhere.
    """
    return (6 - 2 + 2 + 2) * 8 * group.coordinate_words


@frozen
class Shape:
    """The launch of affine sums: its workgroups, and the sums per instance in scratch memory."""

    workgroups: int
    slots: int

    @classmethod
    def of(cls, device: AnyDevice, plan: GpuMsmPlan, *, resident: int, slots: int) -> Shape:
        """Return at most the resident workgroups, and enough slots for the longest chunk."""
        lanes = device.lanes
        workgroups = min(resident * device.multiprocessors, -(-plan.max_chunks // lanes))
        chunks_per_instance = -(-plan.max_chunks // (workgroups * lanes))
        longest_sums = -(-plan.longest // 2)
        return cls(workgroups, max(longest_sums, min(slots, chunks_per_instance * longest_sums)))

    def bytes(self, device: AnyDevice, group: Group) -> int:
        """Return the bytes of scratch memory of all workgroups."""
        slot_bytes = _ELEMENTS_PER_SLOT * 8 * group.coordinate_words
        return self.workgroups * device.lanes * self.slots * slot_bytes


class _ScratchSlots:
    """Field elements of an instance in scratch memory, in the limbs that registers hold.

    Elements are interleaved over a workgroup in units of 16 bytes, so that accesses are coalesced.

    like: an element in these limbs.
    """

    def __init__(self, k: Builder, scratch: Value, like: CoordinateElement, slots: Value) -> None:
        values, _, self._rebuild = flatten(like)
        self._k = k
        self._count = len(values)
        self._slot_count = slots
        element = values[0].type
        self._values_per_unit = _UNIT_BYTES // element.bytes
        self._units = -(-self._count // self._values_per_unit)
        slot_units = _ELEMENTS_PER_SLOT * self._units * k.workgroup_size
        first_slot = k.workgroup_id().cast(types.u64) * slots.cast(types.u64)
        first_unit = first_slot * slot_units + k.local_id().cast(types.u64)
        self._memory = k.pointer_add(scratch.cast(element), first_unit * self._values_per_unit)

    def _offsets(self, index: Value) -> list[Value]:
        """Return the offsets of the 16-byte units of the instance's element `index`."""
        stride = self._k.workgroup_size * self._values_per_unit
        start = index.cast(types.u64) * (self._units * stride)
        return [start + unit * stride for unit in range(self._units)]

    def _load(self, index: Value) -> CoordinateElement:
        values: list[Value] = []
        for offset in self._offsets(index):
            values += self._k.load(
                self._memory, offset, min(self._values_per_unit, self._count - len(values))
            )
        return self._rebuild(values)

    def _store(self, index: Value, element: CoordinateElement) -> None:
        values, _, _ = flatten(element)
        for unit, offset in enumerate(self._offsets(index)):
            start = unit * self._values_per_unit
            self._k.store(self._memory, offset, *values[start : start + self._values_per_unit])

    def x(self, slot: Value) -> CoordinateElement:
        return self._load(slot * 2)

    def y(self, slot: Value) -> CoordinateElement:
        return self._load(slot * 2 + 1)

    def store_sum(self, slot: Value, x: CoordinateElement, y: CoordinateElement) -> None:
        self._store(slot * 2, x)
        self._store(slot * 2 + 1, y)

    def product(self, pair: Value) -> CoordinateElement:
        """Load the product of the differences of the pairs before this one."""
        return self._load(pair + 2 * self._slot_count)

    def store_product(self, pair: Value, product: CoordinateElement) -> None:
        self._store(pair + 2 * self._slot_count, product)


class _Pairs(ABC):
    """The `count` pairs of one chunk that are added at one level."""

    count: Value

    @abstractmethod
    def find(self, i: Value) -> tuple[Value, Value]:
        """Return both points of pair i, as entries or slots. Pair 0 is valid even without pairs."""

    @abstractmethod
    def x(self, pair: tuple[Value, Value]) -> Elements:
        """Load the x coordinates of both points."""

    @abstractmethod
    def y(self, pair: tuple[Value, Value]) -> Elements:
        """Load the y coordinates of both points."""

    @abstractmethod
    def slot(self, i: Value) -> Value:
        """Return the slot of the sum of pair i."""


class _EntryPairs(_Pairs):
    """Neighbouring entries of a chunk; sum i goes to slot first + i."""

    def __init__(
        self, law: WeierstrassSums, work: ChunkSums, start: Value, length: Value, first: Value
    ) -> None:
        self._law, self._bases, self._entries = law, work.bases, work.entries
        self._start, self._first = start, first
        self._last = start + length - 1
        self.count = length >> 1

    def find(self, i: Value) -> tuple[Value, Value]:
        pair_start = self._start + i * 2
        return self._entries[pair_start], self._entries[
            self._law.k.minimum(pair_start + 1, self._last)
        ]

    def x(self, pair: tuple[Value, Value]) -> Elements:
        return self._x(pair[0]), self._x(pair[1])

    def y(self, pair: tuple[Value, Value]) -> Elements:
        return self._y(pair[0]), self._y(pair[1])

    def _words(self, entry: Value, coordinate_index: int) -> Sequence[Value]:
        law = self._law
        size = law.group.coordinate_words
        return law.k.load(self._bases, law.base_offset(entry) + coordinate_index * size, size)

    def _x(self, entry: Value) -> CoordinateElement:
        return self._law.field.from_words(self._words(entry, 0))

    def _y(self, entry: Value) -> CoordinateElement:
        f = self._law.field
        y = f.from_words(self._words(entry, 1))
        return f.select((entry & SIGN_BIT) != 0, f.negate(y), y)

    def slot(self, i: Value) -> Value:
        return self._first + i

    def keep_single(self, scratch_slots: _ScratchSlots) -> None:
        """Store the last entry of a chunk of odd length as a sum of its own."""
        f, k = self._law.field, self._law.k
        with k.if_((self._last - self._start) % 2 == 0):
            entry = self._entries[self._last]
            x, y = f.bounded(self._x(entry)), f.bounded(self._y(entry))
            scratch_slots.store_sum(self._first + self.count, x, y)


class _SumPairs(_Pairs):
    """Sums at even multiples of 2**(level - 1), each paired with the sum at the next multiple."""

    def __init__(
        self, k: Builder, scratch_slots: _ScratchSlots, first: Value, sum_count: Value, level: Value
    ) -> None:
        self._k, self._slots, self._first, self._level = k, scratch_slots, first, level
        self._last = first + sum_count - 1
        self._distance = k.constant(1, types.u32) << (level - 1)
        self.count = (sum_count + self._distance - 1) >> level

    def find(self, i: Value) -> tuple[Value, Value]:
        first = self.slot(i)
        return first, self._k.minimum(first + self._distance, self._last)

    def x(self, pair: tuple[Value, Value]) -> Elements:
        return self._slots.x(pair[0]), self._slots.x(pair[1])

    def y(self, pair: tuple[Value, Value]) -> Elements:
        return self._slots.y(pair[0]), self._slots.y(pair[1])

    def slot(self, i: Value) -> Value:
        return self._first + (i << self._level)


class _Level:
    """The additions of one level, for all chunks that an instance holds.

    pairs: returns the pairs of a chunk.
    """

    def __init__(
        self, law: WeierstrassSums, scratch_slots: _ScratchSlots, chunks: Value,
        pairs: Callable[[Value], _Pairs],
    ) -> None:  # fmt: skip
        self._k, self._f, self._slots = law.k, law.field, scratch_slots
        self._chunks, self._pairs = chunks, pairs

    def add(self) -> Value:
        """Add all pairs; return whether two points had equal x, which makes all sums invalid."""
        k, f = self._k, self._f
        no_pairs = k.constant(0, types.u32)
        with k.range(0, self._chunks, carry=(f.bounded(f.one()), no_pairs)) as forward:
            product, pairs_before = forward.carried
            pairs = self._pairs(forward.index)
            forward.next((self._forward(pairs, product, pairs_before), pairs_before + pairs.count))
        product, total = forward.results
        inverse = f.bounded(f.inverse(product))
        with k.range(0, self._chunks, carry=(inverse, total)) as backward:
            inverse, pairs_before = backward.carried
            pairs = self._pairs(self._chunks - 1 - backward.index)
            pairs_before = pairs_before - pairs.count
            backward.next((self._backward(pairs, inverse, pairs_before), pairs_before))
        return f.is_zero(product)

    def _forward(
        self, pairs: _Pairs, product: CoordinateElement, pairs_before: Value
    ) -> CoordinateElement:
        """Multiply `product` by the differences of one chunk's pairs; store the prefix products."""
        k, f = self._k, self._f
        x = pairs.x(pairs.find(k.constant(0, types.u32)))
        with k.range(0, pairs.count, carry=(product, x)) as loop:
            product, (left_x, right_x) = loop.carried
            next_x = pairs.x(pairs.find(k.minimum(loop.index + 1, pairs.count - 1)))
            self._slots.store_product(pairs_before + loop.index, product)
            loop.next((f.bounded(product * (right_x - left_x)), next_x))
        return loop.results[0]

    def _backward(
        self, pairs: _Pairs, inverse: CoordinateElement, pairs_before: Value
    ) -> CoordinateElement:
        """Add the pairs of one chunk.

        inverse: the inverse of the product up to and including this chunk.
        Returns the inverse of the product up to the previous chunk.
        """
        k, f, scratch_slots = self._k, self._f, self._slots
        last = k.maximum(pairs.count, 1) - 1

        with k.range(0, pairs.count, carry=(inverse, pairs.find(last))) as loop:
            inverse, pair = loop.carried
            i = last - loop.index
            (x1, x2), (y1, y2) = pairs.x(pair), pairs.y(pair)
            prefix_product = scratch_slots.product(pairs_before + i)
            pair = pairs.find(k.maximum(i, 1) - 1)
            reciprocal = inverse * prefix_product
            inverse = f.bounded(inverse * (x2 - x1))
            slope = (y2 - y1) * reciprocal
            x3 = f.bounded(f.square(slope) - x1 - x2)
            y3 = f.bounded(slope * (x1 - x3) - y1)
            scratch_slots.store_sum(pairs.slot(i), x3, y3)
            loop.next((inverse, pair))
        return loop.results[0]


@kernel
def accumulate_affine(
    k: Builder,
    count: Pointer[U32],
    work: ChunkSums,
    scratch: Pointer[U64],
    slots: U32,
    *,
    group: Group,
    resident: int,
    inlined: bool,
) -> None:
    """Sum the entries of chunk i in affine coordinates, for i below count[0]; see `ChunkSums`.

    `scratch` has `Shape.bytes`. Any number of workgroups sums all chunks: an instance strides over
    them, and sums as many chunks at a time as fit its `slots`. A chunk takes one slot for each pair
    of its entries, and one for a last entry without a pair.
    """
    k.resident_workgroups(resident)
    law = WeierstrassSums(k, group, inlined=inlined)
    f = law.field
    scratch_slots = _ScratchSlots(k, scratch, f.bounded(f.one()), slots)
    chunks, instances = count[0], k.num_workgroups() * k.workgroup_size
    with k.while_(k.workgroup_id() * k.workgroup_size) as batches:
        workgroup_rank = batches.carried
        batches.check(workgroup_rank < chunks)
        # Chunks are sorted by falling length, so this is the longest remaining chunk.
        slots_per_tree = (work.table.lengths[workgroup_rank] + 1) >> 1
        first_rank = workgroup_rank + k.local_id()
        remaining = k.select(
            first_rank < chunks, (chunks - first_rank + (instances - 1)) // instances, 0
        )
        trees_at_once = slots // slots_per_tree
        trees = k.minimum(trees_at_once, remaining)

        def entry_pairs(j: Value) -> _EntryPairs:
            rank = first_rank + j * instances
            start, length = work.table.starts[rank], work.table.lengths[rank]
            return _EntryPairs(law, work, start, length, j * slots_per_tree)

        failed = _Level(law, scratch_slots, trees, entry_pairs).add()
        with k.range(0, trees) as loop:
            entry_pairs(loop.index).keep_single(scratch_slots)
        with k.while_((k.constant(1, types.u32), failed)) as levels:
            level, failed = levels.carried
            levels.check((k.constant(1, types.u32) << (level - 1)) < slots_per_tree)

            def sum_pairs(j: Value) -> _SumPairs:
                sum_count = (work.table.lengths[first_rank + j * instances] + 1) >> 1
                return _SumPairs(k, scratch_slots, j * slots_per_tree, sum_count, level)

            level_failed = _Level(law, scratch_slots, trees, sum_pairs).add()
            levels.next((level + 1, failed | level_failed))
        _, failed = levels.results
        with k.range(0, trees) as loop:
            rank, slot = first_rank + loop.index * instances, loop.index * slots_per_tree
            one = f.bounded(f.one())
            chunk_number = work.table.numbers[rank]
            total = (scratch_slots.x(slot), scratch_slots.y(slot), one, one)
            law.store_coordinates(work.sums, chunk_number, total)
            with k.if_(failed):
                work.retries[k.atomic_add(work.retries, 0, 1) + 1] = rank
        batches.next(workgroup_rank + trees_at_once * instances)
