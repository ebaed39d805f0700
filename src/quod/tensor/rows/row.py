"""A row as an instance of a kernel sees it: its share of the elements, and what all have."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type
from quod.tensor.accesses import Accesses, Values
from quod.tensor.rows.plan import RowPlan

T = TypeVar("T")

LOG2_E = 1.4426950408889634


@frozen(eq=False)
class Access:
    """Elements of a row that an instance has together, from place `at` in accesses on.

    It is the instance's `number`-th of a step. `there` says whether they are in the row; where not,
    `place` and the values are those of its last access. None is yes.
    """

    number: int
    at: Value
    place: Value
    there: Value | None
    found: Callable[[], Values]

    @property
    def values(self) -> Values:
        """Of what is in shared memory they are loaded wherever this is asked for."""
        return self.found()


class Row:
    """The row of this instance, `width` accesses of `vector` elements long.

    Every instance of the workgroup is to construct it and to call its methods; those beyond the
    last row see that row, and store nothing.
    """

    def __init__(
        self, k: Builder, element: Type, plan: RowPlan, rows: Value, width: Value, *,
        count: Value | None = None, parts: Value | None = None, shared: Sequence[Type] = (f32,),
        stored: Type | None = None,
    ) -> None:  # fmt: skip
        """With `count`, accesses of all rows together, the last one has what the others leave; with
        `parts`, rows are that many parts each of longer ones, of `count` accesses. Instances have
        numbers of the `shared` types in common. What they store is of the type `stored`, if that
        is another one."""
        self._k = k
        self._accesses = Accesses(k, element, plan.vector)
        self._stored = Accesses(k, stored or element, plan.vector)
        self._width = width
        self._threads, self._vector = plan.threads, plan.vector
        self._batch, self.whole, self._copied = plan.batch, plan.whole, plan.copied
        self._full = plan.full
        if plan.resident:
            k.resident_workgroups(plan.resident)
        self._kept: list[Access] = []
        row, self._lane, self._inside = k.workgroup_id(), k.local_id(), None
        if plan.threads < k.workgroup_size:
            row = row * (k.workgroup_size // plan.threads) + self._lane // plan.threads
            self._lane %= plan.threads
            self._inside = row < rows
            row = k.minimum(row, rows - 1)
        self._number = row
        self.before = k.constant(0, u32) if parts is None else row % parts * width
        """Elements before the row in the longer one."""
        self._first = row.cast(u64) * width.cast(u64)
        if count is not None and parts is not None:
            self._first = (row // parts).cast(u64) * count.cast(u64) + self.before.cast(u64)
            self._width = k.minimum(count - self.before, width)
            self.before *= self._vector
        elif count is not None:
            left = count.cast(u64) - self._first
            self._width = k.minimum(left, width.cast(u64)).cast(u32)
        self._copies = self._rooms(plan.copied)
        several = plan.threads > k.subgroup_size
        count_of = -(-k.workgroup_size // k.subgroup_size) if several else 0
        self._shared = [k.shared(each, count_of) for each in shared] if several else []

    @property
    def length(self) -> Value:
        """The elements of the row, as u32."""
        return self._width * self._vector

    @property
    def columns(self) -> Value:
        """The elements of the row, as f32."""
        return self.length.cast(f32)

    # --- memory

    def of(self, matrix: Value) -> Value:
        """The row of a matrix."""
        return self._accesses.of(matrix, self._first)

    def into(self, matrix: Value) -> Value:
        """The row of a matrix of what is stored."""
        return self._stored.of(matrix, self._first)

    def vector(self, one: Value) -> Value:
        """A vector as long as a row, the same for all of them."""
        return self._accesses.of(one)

    def beside(self, one: Value) -> Callable[[Access], Values]:
        """The elements of such a vector beside those of an access."""
        pointer = self._accesses.of(one)
        return lambda access: self.load(pointer, access.place)

    def load(self, pointer: Value, at: Value) -> Values:
        """The elements of one access of what `of` or `vector` gives; of floats as f32."""
        return self._accesses.load(pointer, at)

    def element(self, matrix: Value, place: Value) -> Value:
        """One element of the row of a matrix."""
        return matrix[self._first * self._vector + place.cast(u64)]

    def own(self, vector: Value) -> Value:
        """The row's own element of a vector that has one for each."""
        return vector[self._number]

    def put(self, vector: Value, value: Value) -> None:
        """Stores the row's own element of such a vector."""
        first = self._lane == 0
        with self._k.if_(first if self._inside is None else first & self._inside):
            vector[self._number] = value

    # --- passes over the row

    def once(self, made: Callable[[Access], Values]) -> Callable[[Access], Values]:
        """What `made` gives for an access; of a row in registers it is made once."""
        kept: dict[int, Values] = {}

        def found(access: Access) -> Values:
            if not self.whole or id(access) not in kept:
                kept[id(access)] = made(access)
            return kept[id(access)]

        return found

    def _step(self, pointer: Value, first: Value, *, full: bool) -> list[Access]:
        """The accesses of a step; what is beyond the row is its last access instead."""
        found = []
        for number in range(self._batch):
            at = first + (number * self._threads + self._lane)
            there = None if full else at < self._width
            place = at if full else self._k.minimum(at, self._width - 1)
            if number < self._batch - self._copied:
                values = self.load(pointer, place)
                found.append(Access(number, at, place, there, partial(_same, values)))
            else:
                room = self._copies[number - self._batch]
                found.append(Access(number, at, place, there, self._copy(pointer, place, room)))
        return found

    def _rooms(self, count: int) -> list[Value]:
        """Shared memory for so many accesses of each instance."""
        size = self._threads * self._accesses.words
        return [self._k.shared(self._accesses.held, size) for _ in range(count)]

    def _copy(self, pointer: Value, place: Value, room: Value) -> Callable[[], Values]:
        """Begins a copy of an access to shared memory; gives what loads it from there."""
        words = self._accesses.words
        self._k.copy_async(room, self._lane * words, pointer, place * words, words)
        return partial(self.load, room, self._lane)

    def _all(self, pointer: Value) -> list[Access]:
        """The row, which is read once."""
        if not self._kept:
            self._kept = self._step(pointer, self._k.constant(0, u32), full=self._full)
            if self._copied:
                self._k.copy_async_commit()
                self._k.copy_async_wait()
        return self._kept

    def fold(
        self, pointer: Value, initial: Values, step: Callable[[list[Access], Values], Values]
    ) -> Values:
        """What `step` makes of the instance's accesses, some at a time, and of what it carries."""
        k = self._k
        if self.whole:
            accesses = self._all(pointer)
            kept = self._batch - self._copied
            carried = step(accesses[:kept], initial)
            # One after the other, so that few of them are in registers at a time.
            for access in accesses[kept:]:
                carried = step([access], carried)
            return carried
        size = self._threads * self._batch
        with k.range(0, self._width // size, carry=initial) as loop:
            accesses = self._step(pointer, loop.index * size, full=True)
            loop.next(step(accesses, loop.carried))
        rest = self._step(pointer, self._width // size * size, full=False)
        return step(rest, loop.results)

    def store(
        self, pointer: Value, target: Value, made: Callable[[Access], Sequence[Value]]
    ) -> None:
        """Stores what `made` gives for each access at its place in another row."""
        k = self._k
        size = self._threads * self._batch
        if self.whole:
            self._store_step(target, self._all(pointer), made)
            return
        with k.range(0, self._width // size) as loop:
            self._store_step(target, self._step(pointer, loop.index * size, full=True), made)
        rest = self._step(pointer, self._width // size * size, full=False)
        self._store_step(target, rest, made)

    def _store_step(
        self, target: Value, accesses: list[Access], made: Callable[[Access], Sequence[Value]]
    ) -> None:
        k = self._k
        for access in accesses:
            values, there = made(access), access.there
            if self._inside is not None:
                there = self._inside if there is None else there & self._inside
            if there is None:
                self._stored.store(target, access.at, values)
                continue
            with k.if_(there):
                self._stored.store(target, access.at, values)

    # --- what all instances of the row have

    def combined(self, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """One f32 of those of the row's instances, the same in each: in pairs, in a fixed order."""
        return self.all_combined((value,), lambda a, b: (combine(*a, *b),))[0]

    def all_combined(self, values: Values, combine: Callable[[Values, Values], Values]) -> Values:
        """The same of several numbers at once, of the shared types."""
        k = self._k
        distance = min(self._threads, k.subgroup_size) // 2
        while distance:
            other = k.lane_id() ^ distance
            values = combine(values, tuple(k.shuffle(value, other) for value in values))
            distance //= 2
        if not self._shared:
            return values
        with k.if_(k.lane_id() == 0):
            for room, value in zip(self._shared, values, strict=True):
                room[k.subgroup_id()] = value
        k.barrier()
        parts = self._threads // k.subgroup_size
        first = k.subgroup_id() // parts * parts
        values = tuple(room[first] for room in self._shared)
        for part in range(1, parts):
            values = combine(values, tuple(room[first + part] for room in self._shared))
        k.barrier()
        return values

    def total(self, value: Value) -> Value:
        """The sum over the row's instances."""
        return self.combined(value, lambda a, b: a + b)


def _same(values: Values) -> Values:
    return values


def counted(
    k: Builder, accesses: list[Access], term: Callable[..., Value],
    *beside: Callable[[Access], Values],
) -> Iterator[Value]:  # fmt: skip
    """The term of each element that is the instance's own, and of others at its place, zero of
    those that are not."""
    for access in accesses:
        for values in zip(access.values, *(other(access) for other in beside), strict=True):
            own = term(*values)
            yield own if access.there is None else k.select(access.there, own, 0.0)


def summed(terms: Iterator[Value], total: Value) -> Value:
    """The sum of some terms in pairs, added to a total."""
    return total + in_pairs(list(terms), operator.add)


def in_pairs(left: list[T], combine: Callable[[T, T], T]) -> T:
    """One of some, of which neighbours are combined, and then what comes of them."""
    while len(left) > 1:
        left = [combine(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + (
            left[-1:] if len(left) % 2 else []
        )
    return left[0]
