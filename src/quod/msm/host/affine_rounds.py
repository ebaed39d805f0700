"""Bucket accumulation in affine coordinates on a CPU; many additions share an inversion.

The input consists of chunks: ranges of entries, each of which is summed to one point. Entry e
stands for point ``e & 0x7fffffff`` of an array, negated if the top bit is set. An instance owns
`rows` chunks; in round r it adds entry r to each of them with one inversion (Montgomery's trick): 5
products and 1 square per addition. Chunks are sorted by falling length, so neighbouring instances
finish together.

An addition whose two x coordinates are equal has a zero denominator, which makes the product of
all denominators zero. Only then, and while a sum or a point is infinity, does the instance check
its pairs one by one; see `_Accumulator.forward_carefully`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quod.curve.group import Group
from quod.curve.sums.entries import INDEX_MASK, SIGN_BIT
from quod.curve.weierstrass.point import CoordinateElement, plus_a_times
from quod.field.any_field import field_arithmetic
from quod.frozen import frozen
from quod.kernel.builder.structure import Rebuild, flatten
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

NO_ENTRY = 0xFFFFFFFF

# The rows of a workgroup are a multiple of this, and so of every strategy's `interleaved_products`.
ROW_UNIT = 2

# Bytes of a workgroup's state: half of a small L2 cache; the points take the rest.
_STATE_BYTES = 256 << 10

# The sets between a prefetch of points and their use: the points of more sets leave the L1 cache.
_SETS_AHEAD = 4

# Kinds of additions; all but the first are special cases of equal, opposite or infinite points.
_ADD, _DOUBLE, _TAKE_SECOND, _KEEP_FIRST, _CANCEL = range(5)


class _Rows:
    """Structures of values in shared memory, one per row and instance, as unreduced limbs."""

    def __init__(self, k: Builder, memory: Value, template: Any) -> None:
        values, _, self._rebuild = flatten(template)
        self._k = k
        self._count = len(values)
        self.memory = memory

    @classmethod
    def allocate(cls, k: Builder, rows: int, template: Any) -> _Rows:
        """Allocate `rows` structures like the template."""
        values, _, _ = flatten(template)
        return cls(k, k.shared(types.u64, rows * len(values) * k.workgroup_size), template)

    def _index(self, row: Value, part: int) -> Value:
        k = self._k
        return (row * self._count + part) * k.workgroup_size + k.local_id()

    def store(self, row: Value, item: Any) -> None:
        values, _, self._rebuild = flatten(item)
        for part, value in enumerate(values):
            self.memory[self._index(row, part)] = value

    def load(self, row: Value) -> Any:
        """Load a row, with the compile-time bounds of the structure stored last in any row."""
        rebuild: Rebuild = self._rebuild
        return rebuild([self.memory[self._index(row, i)] for i in range(self._count)])


def _bound(element: CoordinateElement) -> int:
    """Return the compile-time bound of an element's limbs as integers."""
    # Imported here, as only a trace makes elements.
    from quod.field.extension import ExtensionElement

    if isinstance(element, ExtensionElement):
        return max(c.bound for c in element.coefficients)
    return int(element.bound)


@frozen
class _Chunk:
    """The chunk of one instance in one row: entries start to start + length - 1.

    exists: `position` is below the number of chunks; otherwise `length` is 0.
    position: its index in the sorted chunks.
    """

    start: Value
    length: Value
    exists: Value
    position: Value


class _Accumulator:
    """The accumulation of one workgroup, with its state in shared memory.

    Methods take `first`, the position of the workgroup's first chunk, and `sets`, the number of
    sets of `chains` rows that still have entries.

    chains: independent chains of products, which a strategy interleaves.
    """

    def __init__(
        self, k: Builder, group: Group, max_rows: int, count: Value, tables: tuple[Value, ...]
    ) -> None:
        self.k = k
        self.f = field_arithmetic(k, group.field, inlined=True)
        self.chains = self.f.interleaved_products
        self.group = group
        self.count = count
        self.starts, self.lengths, self.entries, self.points = tables
        zero = self.f.bounded(self.f.zero())
        self.x = _Rows.allocate(k, max_rows, zero)
        self.y = _Rows.allocate(k, max_rows, zero)
        self.prefix = _Rows.allocate(k, max_rows, zero)
        self.denominator = _Rows.allocate(k, max_rows, zero)
        self.kind = k.shared(types.u32, max_rows * k.workgroup_size)
        self.current_entries = k.shared(types.u32, max_rows * k.workgroup_size)

    def chunk(self, first: Value, row: Value) -> _Chunk:
        k = self.k
        position = first + row * k.workgroup_size + k.local_id()
        exists = position < self.count
        readable = k.select(exists, position, 0)
        length = k.select(exists, self.lengths[readable], 0)
        return _Chunk(self.starts[readable], length, exists, position)

    def fetch(self, first: Value, sets: Value, round_index: Value) -> None:
        """Read the entry of every chunk for this round.

        A chunk without such an entry gets NO_ENTRY.
        """
        k = self.k
        with k.range(0, sets * self.chains) as loop:
            chunk = self.chunk(first, loop.index)
            active = chunk.length > round_index
            entry = self.entries[chunk.start + k.select(active, round_index, 0)]
            self.current_entries[self.row_index(loop.index)] = k.select(active, entry, NO_ENTRY)

    def entry_of(self, row: Value) -> tuple[Value, Value, Value]:
        """Return (active, offset of the point in words, negated) of a row's entry in this round."""
        k = self.k
        entry = self.current_entries[self.row_index(row)]
        active = entry != NO_ENTRY
        return active, *self.decoded(k.select(active, entry, 0))

    def decoded(self, entry: Value) -> tuple[Value, Value]:
        """Return (offset of the point in words, negated) of an entry."""
        offset = (entry & INDEX_MASK).cast(types.u64) * self.group.point_words
        return offset, (entry & SIGN_BIT) != 0

    def words(self, offset: Value) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Load the words of x and y of a point."""
        size = self.group.coordinate_words
        return (
            self.f.load_words_at(self.points, offset),
            self.f.load_words_at(self.points, offset + size),
        )

    def signed_y(self, offset: Value, negated: Value) -> CoordinateElement:
        return self.signed(self.words(offset)[1], negated)

    def signed(self, y_words: tuple[Value, ...], negated: Value) -> CoordinateElement:
        y = self.f.from_words(y_words)
        return self.f.select(negated, -y, y)

    def row_index(self, row: Value) -> Value:
        return row * self.k.workgroup_size + self.k.local_id()

    def prefetch_y(self, set_index: Value) -> None:
        """Prefetch the y coordinates of a set's points, which `forward` has not read."""
        for row in self.chain_rows(set_index):
            offset = self.entry_of(row)[1] + self.group.coordinate_words
            self.k.prefetch(self.points, offset, self.group.coordinate_words)

    # --- the rounds

    def chain_rows(self, set_index: Value) -> list[Value]:
        """Return the rows of a set, one per chain; a set is computed at once."""
        return [set_index * self.chains + chain for chain in range(self.chains)]

    def begin(self, first: Value, sets: Value) -> Value:
        """Set each sum to the first point of its chunk; return whether a sum is infinity."""
        k, f = self.k, self.f
        with k.range(0, sets * self.chains, carry=k.constant(False, types.bool_)) as loop:
            chunk = self.chunk(first, loop.index)
            offset, negated = self.decoded(self.entries[chunk.start])
            x_words, y_words = self.words(offset)
            self.x.store(loop.index, f.bounded(f.from_words(x_words)))
            self.y.store(loop.index, f.bounded(self.signed(y_words, negated)))
            loop.next(loop.carried | f.words_are_zero((*x_words, *y_words)))
        infinite: Value = loop.results
        return infinite

    def forward(
        self, first: Value, sets: Value, round_index: Value
    ) -> tuple[tuple[CoordinateElement, ...], Value]:
        """Multiply the denominators of each chain; store them and their prefix products.

        Returns the products, and whether a point has x = 0 and so may be infinity.
        """
        k, f = self.k, self.f
        one = f.one()
        start = (tuple([f.bounded(one)] * self.chains), k.constant(False, types.bool_))
        with k.range(0, sets, carry=start) as loop:
            prefix_products, suspicious = loop.carried
            rows = self.chain_rows(loop.index)
            for row in self.chain_rows(k.minimum(loop.index + _SETS_AHEAD, sets - 1)):
                k.prefetch(self.points, self.entry_of(row)[1], self.group.point_words)
            denominators = []
            for row in rows:
                active, offset, _ = self.entry_of(row)
                x_words = f.load_words_at(self.points, offset)
                suspicious = suspicious | (active & f.words_are_zero(x_words))
                x = f.from_words(x_words)
                denominators.append(f.select(active, x - self.x.load(row), one))
            self.difference_bound = max(map(_bound, denominators))
            differences = f.unify(denominators, self.difference_bound)
            for row, difference in zip(rows, differences, strict=True):
                self.denominator.store(row, difference)
            for row, product in zip(rows, prefix_products, strict=True):
                self.prefix.store(row, product)
            products = f.multiply_many(list(zip(prefix_products, differences, strict=True)))
            loop.next((tuple(f.bounded_many(products)), suspicious))
        result: tuple[tuple[CoordinateElement, ...], Value] = loop.results
        return result

    def forward_carefully(
        self, first: Value, sets: Value, round_index: Value
    ) -> tuple[CoordinateElement, ...]:
        """Compute `forward`, but also for pairs of equal, opposite or infinite points.

        Such a pair gets a denominator that is not zero, and its kind is stored for `backward`.
        """
        k, f = self.k, self.f
        one = f.fit(f.one())
        with k.range(0, sets, carry=tuple([f.bounded(one)] * self.chains)) as loop:
            products = []
            for row, prefix in zip(self.chain_rows(loop.index), loop.carried, strict=True):
                active, offset, negated = self.entry_of(row)
                x_words, y_words = self.words(offset)
                x, y = f.from_words(x_words), self.signed(y_words, negated)
                x1, y1 = self.x.load(row), self.y.load(row)
                kind = self.kind_of(x1, y1, x_words, y)
                self.kind[self.row_index(row)] = kind
                difference = f.select(active & (kind == _ADD), x - x1, one)
                doubled = f.select(active & (kind == _DOUBLE), y1 + y1, difference)
                denominator = f.unify([doubled], self.difference_bound)[0]
                self.denominator.store(row, denominator)
                self.prefix.store(row, prefix)
                products.append(f.bounded(prefix * denominator))
            loop.next(tuple(products))
        result: tuple[CoordinateElement, ...] = loop.results
        return result

    def kind_of(
        self, x1: CoordinateElement, y1: CoordinateElement, x_words: tuple[Value, ...],
        y: CoordinateElement,
    ) -> Value:  # fmt: skip
        """Return the kind of the addition of (x, y) to (x1, y1)."""
        k, f = self.k, self.f
        x1_words, y1_words, y_words = f.to_words(x1), f.to_words(y1), f.to_words(y)
        first_infinite = f.words_are_zero((*x1_words, *y1_words))
        second_infinite = f.words_are_zero((*x_words, *y_words))
        same_x = f.words_are_equal(x1_words, x_words)
        same_y = f.words_are_equal(y1_words, y_words)
        # A point of order two, with y = 0, cancels itself.
        doubling = same_y & ~f.words_are_zero(y1_words)
        kind = k.select(same_x, k.select(doubling, k.constant(_DOUBLE, types.u32), _CANCEL), _ADD)
        kind = k.select(first_infinite, _TAKE_SECOND, kind)
        return k.select(second_infinite, _KEEP_FIRST, kind)

    def invert(self, products: tuple[CoordinateElement, ...]) -> tuple[CoordinateElement, ...]:
        """Return the inverses of the chains' products, with a single inversion."""
        f = self.f
        prefix_products = [products[0]]
        for product in products[1:]:
            prefix_products.append(f.bounded(prefix_products[-1] * product))
        remaining = f.inverse(prefix_products.pop())
        inverses = []
        for product, preceding_product in zip(
            products[:0:-1], reversed(prefix_products), strict=True
        ):
            inverses.append(remaining * preceding_product)
            remaining = f.bounded(remaining * product)
        return tuple(f.bounded(inverse) for inverse in (remaining, *reversed(inverses)))

    def backward(
        self,
        first: Value,
        sets: Value,
        round_index: Value,
        inverses: tuple[CoordinateElement, ...],
        careful: Value,
    ) -> Value:
        """Compute the sums from the last row to the first; return whether a sum became infinity."""
        k, f = self.k, self.f
        no_lane = k.constant(False, types.bool_)
        with k.range(0, sets, carry=(inverses, no_lane)) as loop:
            remaining_inverses, infinite = loop.carried
            set_index = sets - 1 - loop.index
            self.prefetch_y(k.maximum(set_index, 1) - 1)
            rows = self.chain_rows(set_index)
            differences = [self.denominator.load(row) for row in rows]
            remaining = f.fit_many(remaining_inverses)
            prefixes = [self.prefix.load(row) for row in rows]
            products = f.multiply_many(
                [*zip(remaining, prefixes, strict=True), *zip(remaining, differences, strict=True)]
            )
            reciprocals = f.fit_many(products[: self.chains])
            loaded = [self.entry_of(row) for row in rows]
            active, entries = [row[0] for row in loaded], [row[1:] for row in loaded]
            xs = [self.x.load(row) for row in rows]
            ys = [self.y.load(row) for row in rows]
            rises = [self.signed_y(*entry) - y for entry, y in zip(entries, ys, strict=True)]
            slopes = f.fit_many(f.multiply_many(list(zip(rises, reciprocals, strict=True))))
            squares = f.square_many(slopes)
            new_xs = f.bounded_many(
                [
                    square - (x + x + difference)
                    for square, x, difference in zip(squares, xs, differences, strict=True)
                ]
            )
            runs = [x - new_x for x, new_x in zip(xs, new_xs, strict=True)]
            falls = f.multiply_many(list(zip(slopes, runs, strict=True)))
            new_ys = f.bounded_many([fall - y for fall, y in zip(falls, ys, strict=True)])
            for chain, is_active in enumerate(active):
                row, x, y = rows[chain], xs[chain], ys[chain]
                with k.if_(is_active):
                    self.x.store(row, new_xs[chain])
                    self.y.store(row, new_ys[chain])
                with k.if_(careful & is_active) as branch:
                    branch.yield_(self.repair(row, x, y, reciprocals[chain], *entries[chain]))
                with branch.otherwise():
                    branch.yield_(no_lane)
                infinite = infinite | branch.results
            loop.next((tuple(f.bounded_many(products[self.chains :])), infinite))
        became_infinite: Value = loop.results[1]
        return became_infinite

    def repair(
        self, row: Value, x1: CoordinateElement, y1: CoordinateElement,
        reciprocal: CoordinateElement, offset: Value, negated: Value,
    ) -> Value:  # fmt: skip
        """Store the correct sum of a special case; return whether the points cancel to infinity."""
        memory = (self.points, self.kind, self.x.memory, self.y.memory)
        infinite: Value = self.k.call(
            f"repair.{self.group.name}",
            self._repair,
            row,
            x1,
            y1,
            reciprocal,
            offset,
            negated,
            *memory,
            key=self.group,
        )
        return infinite

    def _repair(
        self, k: Builder, row: Value, x1: CoordinateElement, y1: CoordinateElement,
        reciprocal: CoordinateElement, offset: Value, negated: Value, points: Value, kinds: Value,
        x_memory: Value, y_memory: Value,
    ) -> Value:  # fmt: skip
        """Compute `repair` as a device function."""
        f = self.f
        kind = kinds[self.row_index(row)]
        with k.if_(kind != _ADD):
            x2 = f.from_words(f.load_words_at(points, offset))
            y_words = f.load_words_at(points, offset + self.group.coordinate_words)
            y2 = self.signed(y_words, negated)
            square = f.square(x1)
            rise = plus_a_times(f, self.group, square + square + square, f.one())
            slope = f.fit(rise * reciprocal)
            x = f.square(slope) - (x1 + x1)
            y = slope * (x1 - x) - y1
            zero = f.bounded(f.zero())
            for memory, doubled, second, first in ((x_memory, x, x2, x1), (y_memory, y, y2, y1)):
                result = f.select(kind == _DOUBLE, f.bounded(doubled), zero)
                result = f.select(kind == _TAKE_SECOND, f.bounded(second), result)
                result = f.bounded(f.select(kind == _KEEP_FIRST, first, result))
                _Rows(k, memory, result).store(row, result)
        return kind == _CANCEL

    def finish(self, first: Value, rows: Value, targets: Value, results: Value) -> None:
        """Write the sums of the chunks in `rows` rows to the points `targets` of `results`."""
        k, f = self.k, self.f
        with k.range(0, rows) as loop:
            chunk = self.chunk(first, loop.index)
            with k.if_(chunk.exists):
                offset = targets[chunk.position].cast(types.u64) * self.group.point_words
                f.store_words_at(results, offset, f.to_words(self.x.load(loop.index)))
                y_words = f.to_words(self.y.load(loop.index))
                f.store_words_at(results, offset + self.group.coordinate_words, y_words)


def max_rows(group: Group) -> int:
    """Return the maximum number of rows whose state fits `_STATE_BYTES`."""
    # Four elements in eight lanes of 8-byte words; 52-bit limbs take up to two words more than
    # 64-bit words do for each coefficient.
    state_bytes = 4 * 64 * (group.coordinate_words + 2 * group.degree)
    return _STATE_BYTES // state_bytes // 16 * 16


@kernel
def accumulate(
    k: Builder,
    count: U32,
    rows: U32,
    starts: Pointer[U32],
    lengths: Pointer[U32],
    targets: Pointer[U32],
    entries: Pointer[U32],
    points: Pointer[U64],
    results: Pointer[U64],
    *,
    group: Group,
    max_rows: int,
) -> None:
    """Sum `count` chunks of entries to one affine point each.

    Chunk i sums the lengths[i] >= 1 entries from starts[i] on to point targets[i] of `results`.
    Chunks are sorted by falling length. A workgroup sums `rows` times its size chunks.
    """
    state = _Accumulator(k, group, max_rows, count, (starts, lengths, entries, points))
    f = state.f
    first = k.workgroup_id() * rows * k.workgroup_size
    size = k.workgroup_size
    workgroup_rows = k.minimum((count - first + (size - 1)) // size, rows)
    infinite = state.begin(first, (workgroup_rows + (state.chains - 1)) // state.chains)
    with k.range(1, lengths[first], carry=(workgroup_rows, infinite)) as rounds:
        round_index = rounds.index
        active_rows, infinite = rounds.carried
        with k.while_(active_rows) as shrink:
            last = k.maximum(shrink.carried, 1) - 1
            shrink.check((shrink.carried > 0) & (lengths[first + last * size] <= round_index))
            shrink.next(shrink.carried - 1)
        active_rows = shrink.results
        sets = (active_rows + (state.chains - 1)) // state.chains
        state.fetch(first, sets, round_index)
        products, suspicious = state.forward(first, sets, round_index)
        careful = infinite | suspicious
        for product in products:
            careful = careful | f.is_zero(product)
        with k.if_(careful) as branch:
            branch.yield_(state.forward_carefully(first, sets, round_index))
        with branch.otherwise():
            branch.yield_(products)
        inverses = state.invert(branch.results)
        cancelled = state.backward(first, sets, round_index, inverses, careful)
        rounds.next((active_rows, infinite | cancelled))
    state.finish(first, workgroup_rows, targets, results)
