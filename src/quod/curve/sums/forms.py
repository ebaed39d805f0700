"""Bases and sums in the kernels of a GPU's MSM, and their additions.

There are two kinds of addition. `add_base` is the cheapest, but wrong for some pairs of points;
`failed` detects afterwards that such a pair occurred. Complete additions are right for every pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from quod.curve.group import Group
from quod.curve.lanes import of_lane
from quod.curve.sums.entries import INDEX_MASK, SIGN_BIT
from quod.curve.weierstrass.point import (
    AffinePoint,
    CoordinateElement,
    ExtendedPoint,
    PointArithmetic,
)
from quod.field.cost import product_cost, square_cost
from quod.frozen import replace
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value
from quod.kernel.machine import Capability

Coordinates = tuple[Any, ...]
"""The running sum of `add_base`: coordinates with standard bounds, or their packed words."""

P = TypeVar("P")

Form = Literal["weierstrass", "edwards"]
"""The coordinates of bases and sums; see `WeierstrassSums` and `EdwardsSums`."""

PRODUCTS_OF_BASE: dict[Form, int] = {"weierstrass": 10, "edwards": 7}
"""Products in the coordinate field to add a base to a sum."""

PRODUCTS_OF_ADDITION: dict[Form, int] = {"weierstrass": 14, "edwards": 9}
"""Products in the coordinate field to add two sums."""


def addition_cost(group: Group, form: Form, products: int) -> int:
    """Return the cost of an addition in 32-bit multiply-adds.

    products: field multiplications of the addition. For the Weierstrass form two of them are
    squarings, which cost less.
    """
    squares = 2 if form == "weierstrass" else 0
    product = product_cost(group.coordinates, group.degree)
    return (products - squares) * product + squares * square_cost(group.coordinates, group.degree)


def resident_workgroups(group: Group) -> int:
    """Return the target number of resident workgroups per multiprocessor.

    With more workgroups an instance has too few registers for four coordinates, the operands of a
    product and the columns of the product.
    """
    words = group.coordinate_words
    return 4 if words <= 4 else 3 if words <= 6 else 2


class SumArithmetic(ABC, Generic[P]):
    """The arithmetic of bases and sums of one form in one kernel.

    P: the type of a sum for complete additions.
    base_words, sum_words: 64-bit words of a base and of a sum in memory.
    """

    k: Builder
    base_words: int
    sum_words: int

    # --- bases

    def base_offset(self, entry: Value) -> Value:
        """Return the offset of an entry's base in 64-bit words."""
        return (entry & INDEX_MASK).cast(types.u64) * self.base_words

    def load_base(self, bases: Value, entry: Value) -> tuple[Value, ...]:
        """Load the words of an entry's base."""
        return self.k.load(bases, self.base_offset(entry), self.base_words)

    @abstractmethod
    def base(self, words: Sequence[Value], entry: Value) -> Any:
        """Return the base of these words, negated if the entry's sign bit is set."""

    # --- incomplete additions

    @abstractmethod
    def begin(self, base: Any) -> Coordinates:
        """Return the running sum of one base."""

    @abstractmethod
    def add_base(self, total: Coordinates, base: Any) -> Coordinates:
        """Return total + base; the result is right unless `failed` returns true for it."""

    @abstractmethod
    def failed(self, total: Coordinates) -> Value | None:
        """Return whether one of the additions to `total` was of a pair for which they are wrong.

        Returns None if the form has no such pairs.
        """

    @abstractmethod
    def store_coordinates(self, sums: Value, index: Operand, total: Coordinates) -> None:
        """Store a running sum that has not failed as sum `index` of an array."""

    # --- complete additions

    @abstractmethod
    def neutral(self) -> P:
        """The neutral element."""

    @abstractmethod
    def add_base_completely(self, total: P, base: Any) -> P:
        """total + base."""

    @abstractmethod
    def add(self, p: P, q: P) -> P:
        """p + q."""

    def sum_of_bases(
        self, start: Operand, stop: Operand, entry: Callable[[Value], Value], bases: Value
    ) -> P:
        """Add the bases of the entries `entry(start)` to `entry(stop - 1)`, completely."""
        with self.k.range(start, stop, carry=self.neutral()) as loop:
            base_entry = entry(loop.index)
            base = self.base(self.load_base(bases, base_entry), base_entry)
            loop.next(self.add_base_completely(loop.carried, base))
        result: P = loop.results
        return result

    def sum_of_sums(
        self, count: Operand, term: Callable[[Value], tuple[Value, Value]], sums: Value
    ) -> P:
        """Add sums of an array: `term(i)` returns whether there is a term i, and its index."""
        with self.k.range(0, count, carry=self.neutral()) as loop:
            exists, index = term(loop.index)
            loop.next(self._add_where(exists, loop.carried, lambda: self.load(sums, index)))
        result: P = loop.results
        return result

    @abstractmethod
    def double(self, p: P) -> P:
        """2p."""

    @abstractmethod
    def to_affine_words(self, p: P) -> tuple[Value, ...]:
        """Return the canonical words of the affine point, x then y, zeros for infinity."""

    @abstractmethod
    def load(self, sums: Value, index: Operand) -> P:
        """Load sum `index` of an array."""

    @abstractmethod
    def store(self, sums: Value, index: Operand, p: P) -> None:
        """Store sum `index` of an array."""

    def keep(self, room: Value, index: Operand, p: P) -> None:
        """Store sum `index` in the shared memory `room`, in a layout that only `kept` reads."""
        self.store(room, index, p)

    def kept(self, room: Value, index: Operand) -> P:
        """Load sum `index` from the shared memory `room`, where `keep` stored it."""
        return self.load(room, index)

    def of_lane(self, p: P, lane: Value) -> P:
        """Return the sum of another lane of the subgroup."""
        result: P = of_lane(self.k, p, lane)
        return result

    def room_for_lanes(self, lanes: int) -> Value | None:
        """Allocate the shared memory that `sum_of_lanes` needs; call it at the top of a kernel.

        Returns None if shuffles are used instead.
        """
        k = self.k
        # Shuffles exchange registers; sums in private memory go through shared memory instead.
        if lanes == 1 or not k.machine.has(Capability.SHORT_KERNELS):
            return None
        return k.shared(types.u64, k.workgroup_size // 2 * self.sum_words)

    def sum_of_lanes(self, p: P, lanes: int, room: Value | None) -> P:
        """Add up the sums of every `lanes` adjacent lanes; the first lane of each has the total.

        lanes: a power of two; without `room` at most the size of a subgroup, else TraceError.
        room: the result of `room_for_lanes`. With it the call contains barriers, so control flow
        must be uniform over the workgroup.
        """
        k = self.k
        if lanes == 1:
            return p
        if room is not None:
            return self._sum_through_memory(p, lanes, room)
        if lanes > k.subgroup_size:
            raise TraceError(f"{lanes} lanes exceed the subgroup size, {k.subgroup_size}")
        rounds = lanes.bit_length() - 1
        lane = k.local_id() % lanes
        with k.range(0, rounds, carry=p) as loop:
            distance = k.constant(1, types.u32) << loop.index
            other = self.of_lane(loop.carried, k.lane_id() ^ distance)
            loop.next(self._add_where(lane % (distance << 1) == 0, loop.carried, lambda: other))
        result: P = loop.results
        return result

    def sum_of_terms(
        self, terms: Value, lane_bits: Value, room: Value, term: Callable[[Value], tuple[Value, P]]
    ) -> P:
        """Add up the terms of every 2**lane_bits adjacent lanes; the first lane has the total.

        One loop adds a lane's own terms first and then the sums of other lanes, so the code of the
        kernel contains one addition only. The call contains barriers.
        terms: the largest number of terms of a lane.
        room: shared memory for one sum for every second instance of the workgroup.
        term: returns for i whether the lane has a term i, and the term.
        `terms` and `lane_bits` must be uniform over the workgroup.
        """
        k, one = self.k, self.k.constant(1, types.u32)
        lanes = one << lane_bits
        lane = k.local_id() & (lanes - 1)
        room_start = k.local_id() >> lane_bits << lane_bits >> 1
        with k.range(0, terms + lane_bits, carry=self.neutral()) as loop:
            is_own = loop.index < terms
            distance = lanes >> (k.select(is_own, 0, loop.index - terms) + 1)
            with k.if_(~is_own & (lane >= distance) & (lane < distance * 2)):
                self.keep(room, room_start + (lane - distance), loop.carried)
            k.barrier()
            with k.if_(is_own) as source_branch:
                exists, addend = term(loop.index)
                source_branch.yield_((exists, addend))
            with source_branch.otherwise():
                is_receiver = lane < distance
                with k.if_(is_receiver) as receiver_branch:
                    receiver_branch.yield_(self.kept(room, room_start + lane))
                with receiver_branch.otherwise():
                    receiver_branch.yield_(loop.carried)
                source_branch.yield_((is_receiver, receiver_branch.results))
            exists, addend = source_branch.results
            total = self._add_where(exists, loop.carried, lambda: addend)
            k.barrier()
            loop.next(total)
        result: P = loop.results
        return result

    def _sum_through_memory(self, p: P, lanes: int, room: Value) -> P:
        """Compute `sum_of_lanes` through shared memory, for up to a workgroup of lanes.

        In each round the upper half of the lanes passes its sums to the lower half.
        """
        k, half = self.k, lanes // 2
        lane = k.local_id() % lanes
        room_start = k.local_id() // lanes * half
        with k.range(0, lanes.bit_length() - 1, carry=p) as loop:
            distance = k.constant(half, types.u32) >> loop.index
            with k.if_((lane >= distance) & (lane < distance * 2)):
                self.keep(room, room_start + (lane - distance), loop.carried)
            k.barrier()
            total = self._add_where(
                lane < distance, loop.carried, lambda: self.kept(room, room_start + lane)
            )
            k.barrier()
            loop.next(total)
        result: P = loop.results
        return result

    def _add_where(self, exists: Value, total: P, addend: Callable[[], P]) -> P:
        """Return total + addend() where `exists` is true, else total."""
        with self.k.if_(exists) as branch:
            branch.yield_(self.add(total, addend()))
        with branch.otherwise():
            branch.yield_(total)
        result: P = branch.results
        return result


class WeierstrassSums(SumArithmetic[ExtendedPoint]):
    """The arithmetic of affine bases and sums in XYZZ coordinates, with ZZ = 0 for infinity.

    See `quod.curve.weierstrass.point`. Bases must be finite. `add_base` is madd-2008-s of the
    Explicit-Formulas Database: adding a point to itself or to its negative makes ZZ zero, and all
    further additions keep it zero.
    """

    def __init__(self, k: Builder, group: Group, *, inlined: bool = False) -> None:
        self.k = k
        self.group = group
        self.points = PointArithmetic(k, group, inlined=inlined)
        self.field = self.points.field
        self.base_words = group.point_words
        self.sum_words = 4 * group.coordinate_words

    def base(self, words: Sequence[Value], entry: Value) -> AffinePoint:
        f, size = self.field, self.group.coordinate_words
        y = f.from_words(words[size:])
        signed = f.select((entry & SIGN_BIT) != 0, f.negate(y), y)
        return AffinePoint(
            f.from_words(words[:size]), signed, self.k.constant(False, types.bool_)
        )  # fmt: skip

    def begin(self, base: AffinePoint) -> Coordinates:
        one = self.field.one()
        return self._carried(base.x, base.y, one, one)

    def _carried(self, *coordinates: CoordinateElement) -> Coordinates:
        return tuple(self.field.bounded(part) for part in coordinates)

    def add_base(self, total: Coordinates, base: AffinePoint) -> Coordinates:
        f = self.field
        x, y, zz, zzz = total
        # P, R, PP, Q and PPP of the formula: delta_x, delta_y, squared, scaled, cubed.
        delta_x = base.x * zz - x
        delta_y = base.y * zzz - y
        squared = f.square(delta_x)
        new_zz = f.bounded(zz * squared)
        scaled = x * squared
        cubed = delta_x * squared
        new_zzz = f.bounded(zzz * cubed)
        new_x = f.bounded(f.square(delta_y) - cubed - (scaled + scaled))
        new_y = f.sum_of_products([(delta_y, scaled - new_x), (f.negate(y), cubed)])
        return new_x, f.bounded(new_y), new_zz, new_zzz

    def failed(self, total: Coordinates) -> Value:
        return self.field.is_zero(total[2])

    def store_coordinates(self, sums: Value, index: Operand, total: Coordinates) -> None:
        x, y, zz, zzz = total
        false_value = self.k.constant(False, types.bool_)
        self.points.store_extended(sums, index, ExtendedPoint(x, y, zz, zzz, false_value))

    def neutral(self) -> ExtendedPoint:
        return self.points.bounded(self.points.infinity())

    def add_base_completely(self, total: ExtendedPoint, base: AffinePoint) -> ExtendedPoint:
        return self.points.bounded(self.points.add_affine(total, base))

    def double(self, p: ExtendedPoint) -> ExtendedPoint:
        return self.points.bounded(self.points.double(p))

    def to_affine_words(self, p: ExtendedPoint) -> tuple[Value, ...]:
        return self.points.to_affine_words(p)

    def load(self, sums: Value, index: Operand) -> ExtendedPoint:
        return self.points.load_extended(sums, index)

    def store(self, sums: Value, index: Operand, p: ExtendedPoint) -> None:
        self.points.store_extended(sums, index, p)

    def add(self, p: ExtendedPoint, q: ExtendedPoint) -> ExtendedPoint:
        """Return p + q: add-2008-s, with branches for the pairs that it does not cover."""
        points = self.points
        result: ExtendedPoint = self.k.call(
            f"add_sums.{self.group.name}",
            self._add,
            points.bounded(p),
            points.bounded(q),
            key=self.group,
        )
        return result

    def _add(self, k: Builder, p: ExtendedPoint, q: ExtendedPoint) -> ExtendedPoint:
        f, points = self.field, self.points
        with k.if_(p.infinity | q.infinity) as some_infinite:
            some_infinite.yield_(points.select(p.infinity, q, p))
        with some_infinite.otherwise():
            scaled_x = p.x * q.zz
            delta_x = q.x * p.zz - scaled_x
            with k.if_(f.is_zero(delta_x)) as same_x:
                is_opposite = ~f.is_zero(q.y * p.zzz - p.y * q.zzz)
                doubled = points.bounded(points.double(p))
                same_x.yield_(replace(doubled, infinity=doubled.infinity | is_opposite))
            with same_x.otherwise():
                scaled_y = p.y * q.zzz
                delta_y = q.y * p.zzz - scaled_y
                squared = f.square(delta_x)
                cubed = delta_x * squared
                zz, zzz = p.zz * q.zz * squared, p.zzz * q.zzz * cubed
                scaled = scaled_x * squared
                x = f.bounded(f.square(delta_y) - cubed - (scaled + scaled))
                y = f.sum_of_products([(delta_y, scaled - x), (f.negate(scaled_y), cubed)])
                false_value = k.constant(False, types.bool_)
                same_x.yield_(points.bounded(ExtendedPoint(x, y, zz, zzz, false_value)))
            some_infinite.yield_(same_x.results)
        result: ExtendedPoint = some_infinite.results
        return result
