"""Additions by four lanes for low latency: each lane holds one coordinate of every sum.

An addition on a Weierstrass curve takes four steps of four concurrent products in place of fourteen
products in sequence; on an Edwards curve it takes three steps. A workgroup is one subgroup of eight
groups of four lanes. Additions use shuffles, so all lanes must reach every addition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from quod.curve.group import Group
from quod.curve.lanes import of_lane
from quod.curve.sums.edwards import edwards_form
from quod.curve.sums.forms import Form
from quod.curve.weierstrass.point import CoordinateElement, plus_a_times
from quod.field.any_field import field_arithmetic
from quod.field.arithmetic import FieldArithmetic
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value

LANES_PER_SUM = 4
"""Lanes that share one sum."""

LANES = 32
"""Instances of a workgroup."""


@frozen(eq=False)
class FourLaneSum:
    """The part of a sum that one lane holds.

    coordinate: the coordinate of this lane.
    infinity: the sum is infinity; used on Weierstrass curves only.
    """

    coordinate: CoordinateElement
    infinity: Value


class FourLaneArithmetic(ABC):
    """The arithmetic of sums of one form in a kernel where four lanes share each addition.

    Raises TraceError for a workgroup of more than one subgroup.
    """

    def __init__(self, k: Builder, group: Group) -> None:
        if k.workgroup_size > k.subgroup_size:
            raise TraceError(
                "sums of four lanes need a workgroup of one subgroup, of at most "
                f"{k.subgroup_size} instances"
            )
        self.k = k
        self.group = group
        self.field: FieldArithmetic[Any] = field_arithmetic(k, group.field)
        self.lane = k.local_id()
        self.coordinate = self.lane % LANES_PER_SUM
        self.first = self.lane - self.coordinate

    # --- lanes

    def from_lane(self, item: Any, lane: Value) -> Any:
        """Return an element or a flag of another lane."""
        return of_lane(self.k, item, lane)

    def coordinate_of(self, item: Any, coordinate: int) -> Any:
        """Return the value in the lane that holds `coordinate` of this lane's group of four."""
        return self.from_lane(item, self.first + coordinate)

    def choose(self, *elements: CoordinateElement) -> CoordinateElement:
        """Return element number `self.coordinate`; lanes beyond the end get the last element."""
        chosen = elements[-1]
        for coordinate in reversed(range(len(elements) - 1)):
            chosen = self.field.select(self.coordinate == coordinate, elements[coordinate], chosen)
        return chosen

    # --- sums

    @abstractmethod
    def neutral(self) -> FourLaneSum:
        """The neutral element."""

    @abstractmethod
    def add(self, p: FourLaneSum, q: FourLaneSum) -> FourLaneSum:
        """Return p + q, right for every pair; all lanes of the workgroup must reach the call."""

    @abstractmethod
    def _loaded(self, words: tuple[Value, ...]) -> FourLaneSum:
        """Return the sum whose coordinate in this lane has these words in memory."""

    @abstractmethod
    def _stored(self, p: FourLaneSum) -> CoordinateElement:
        """Return this lane's coordinate as it is in memory."""

    def load(self, sums: Value, index: Operand) -> FourLaneSum:
        """Load sum `index` of an array; the index is the same in the four lanes of a group."""
        return self._loaded(self.field.load_words_at(sums, self._offset(index)))

    def load_where(self, exists: Value, sums: Value, index: Value) -> FourLaneSum:
        """Load sum `index` where `exists` is true, else return the neutral element."""
        k = self.k
        neutral = self.neutral()
        with k.if_(exists) as branch:
            words = self.field.load_words_at(sums, self._offset(index))
            branch.yield_(words)
        with branch.otherwise():
            branch.yield_(self.field.to_words(neutral.coordinate))
        return self._loaded(branch.results)

    def store(self, sums: Value, index: Operand, p: FourLaneSum) -> None:
        """Store sum `index` of an array; the index is the same in the four lanes of a group."""
        words = self.field.to_words(self._stored(p))
        self.field.store_words_at(sums, self._offset(index), words)

    def _offset(self, index: Operand) -> Value:
        coordinate_index = self.k.operand(index, types.u64).cast(
            types.u64
        ) * LANES_PER_SUM + self.coordinate.cast(types.u64)
        return coordinate_index * self.group.coordinate_words

    def total(self, p: FourLaneSum, groups: int) -> FourLaneSum:
        """Add up the sums of every `groups` adjacent groups of four lanes, a power of two.

        The first group of each has the total.
        """
        k = self.k
        rounds = groups.bit_length() - 1
        if rounds == 0:
            return p
        group_index = self.lane // LANES_PER_SUM % groups
        with k.range(0, rounds, carry=(p.coordinate, p.infinity)) as loop:
            partial = FourLaneSum(*loop.carried)
            distance = k.constant(1, types.u32) << loop.index
            other = FourLaneSum(*self.from_lane(loop.carried, self.lane ^ distance * LANES_PER_SUM))
            # The other groups add too, since all lanes must; their sums are not used.
            total = self.add(partial, other)
            is_receiver = group_index % (distance << 1) == 0
            coordinate = self.field.select(is_receiver, total.coordinate, partial.coordinate)
            loop.next((coordinate, k.select(is_receiver, total.infinity, partial.infinity)))
        return FourLaneSum(*loop.results)


class FourLaneWeierstrass(FourLaneArithmetic):
    """Sums in coordinates X, Y, ZZ and ZZZ; see `quod.curve.weierstrass.point`."""

    def neutral(self) -> FourLaneSum:
        zero = self.field.bounded(self.field.zero())
        return FourLaneSum(zero, self.k.constant(True, types.bool_))

    def _loaded(self, words: tuple[Value, ...]) -> FourLaneSum:
        f = self.field
        return FourLaneSum(
            f.bounded(f.from_words(words)), self.coordinate_of(f.words_are_zero(words), 2)
        )

    def _stored(self, p: FourLaneSum) -> CoordinateElement:
        f = self.field
        return f.select(p.infinity, f.bounded(f.zero()), f.bounded(p.coordinate))

    def add(self, p: FourLaneSum, q: FourLaneSum) -> FourLaneSum:
        """Return p + q by add-2008-s; the workgroup doubles as well if a group has equal points."""
        k, f = self.k, self.field
        coordinate_p, coordinate_q = p.coordinate, q.coordinate
        # X1*ZZ2, Y1*ZZZ2, ZZ1*X2, ZZZ1*Y2
        scaled = f.bounded(coordinate_p * self.from_lane(coordinate_q, self.lane ^ 2))
        # delta_x and delta_y in lanes 0 and 1, their negatives in lanes 2 and 3.
        difference = f.bounded(self.from_lane(scaled, self.lane ^ 2) - scaled)
        is_low = self.coordinate < 2
        factors = (
            f.select(is_low, difference, coordinate_p),
            f.select(is_low, difference, coordinate_q),
        )
        # delta_x^2, delta_y^2, ZZ1*ZZ2, ZZZ1*ZZZ2
        second = f.bounded(factors[0] * factors[1])
        squared = self.coordinate_of(second, 0)
        # delta_x^3, X1*ZZ2*delta_x^2, ZZ
        third = f.bounded(self.choose(difference, self.coordinate_of(scaled, 0), second) * squared)
        cubed, middle = self.coordinate_of(third, 0), self.coordinate_of(third, 1)
        x = f.bounded(self.coordinate_of(second, 1) - cubed - (middle + middle))
        # Y in lane 1, ZZZ in lane 3.
        is_last = self.coordinate == 3
        zero = f.bounded(f.zero())
        fourth = f.sum_of_products(
            [
                (f.select(is_last, second, difference),
                 f.select(is_last, cubed, f.bounded(middle - x))),
                (f.select(is_last, zero, f.bounded(f.negate(scaled))), cubed),
            ]
        )  # fmt: skip
        coordinate_sum = f.bounded(self.choose(x, f.bounded(fourth), third, f.bounded(fourth)))
        coordinate_sum = f.select(
            q.infinity, coordinate_p, f.select(p.infinity, coordinate_q, coordinate_sum)
        )
        infinity = p.infinity & q.infinity
        # `difference` is that of x in lane 0 and that of y in lane 1.
        vanishes = f.is_zero(difference)
        same_x = self.coordinate_of(vanishes, 0) & ~(p.infinity | q.infinity)
        same_y = self.coordinate_of(vanishes, 1)
        with k.if_(k.uniform(k.any_lane(same_x))) as branch:
            doubled = self._double(coordinate_p)
            coordinate = f.select(same_x, doubled.coordinate, coordinate_sum)
            cancels = doubled.infinity | ~same_y
            branch.yield_(f.bounded(coordinate), infinity | (same_x & cancels))
        with branch.otherwise():
            branch.yield_(f.bounded(coordinate_sum), infinity)
        return FourLaneSum(*branch.results)

    def _double(self, coordinate: CoordinateElement) -> FourLaneSum:
        """Double a finite point by dbl-2008-s-1; a point of order two gives infinity."""
        f = self.field
        x, y = self.coordinate_of(coordinate, 0), self.coordinate_of(coordinate, 1)
        u = f.bounded(y + y)
        # X^2, U^2 = V, ZZ^2
        first = f.bounded(f.square(self.choose(x, u, coordinate)))
        square, v = self.coordinate_of(first, 0), self.coordinate_of(first, 1)
        m = plus_a_times(f, self.group, square + square + square, self.coordinate_of(first, 2))
        m = f.bounded(m)
        # X*V = S, U*V = W, ZZ, M^2
        second = f.bounded(self.choose(x, u, coordinate, m) * f.select(self.coordinate == 3, m, v))
        s, w = self.coordinate_of(second, 0), self.coordinate_of(second, 1)
        new_x = f.bounded(self.coordinate_of(second, 3) - (s + s))
        # Y in lane 1, ZZZ in lane 3.
        is_last = self.coordinate == 3
        zero = f.bounded(f.zero())
        third = f.sum_of_products(
            [
                (f.select(is_last, coordinate, m), f.select(is_last, w, f.bounded(s - new_x))),
                (f.select(is_last, zero, f.bounded(f.negate(w))), y),
            ]
        )
        third = f.bounded(third)
        return FourLaneSum(self.choose(new_x, third, second, third), f.is_zero(y))


class FourLaneEdwards(FourLaneArithmetic):
    """Sums in coordinates X, Y, Z and T; see `quod.curve.sums.edwards`."""

    def __init__(self, k: Builder, group: Group) -> None:
        super().__init__(k, group)
        form = edwards_form(group)
        if form is None:
            raise ValueError(f"{group.name} has no Edwards form")
        self._never = k.constant(False, types.bool_)
        self._twice_d = self.field.constant(2 * form.d)

    def neutral(self) -> FourLaneSum:
        f = self.field
        zero, one = f.bounded(f.zero()), f.bounded(f.one())
        return FourLaneSum(self.choose(zero, one, one, zero), self._never)

    def _loaded(self, words: tuple[Value, ...]) -> FourLaneSum:
        """Return the sum of these words, of which all zero is the neutral element."""
        f = self.field
        is_unset = self.coordinate_of(f.words_are_zero(words), 2)
        coordinate = f.bounded(f.from_words(words))
        return FourLaneSum(f.select(is_unset, self.neutral().coordinate, coordinate), self._never)

    def _stored(self, p: FourLaneSum) -> CoordinateElement:
        return p.coordinate

    def add(self, p: FourLaneSum, q: FourLaneSum) -> FourLaneSum:
        """Return p + q by add-2008-hwcd-3."""
        f = self.field
        # (Y1 - X1)*(Y2 - X2), (Y1 + X1)*(Y2 + X2), Z1*Z2, T1*T2
        first = f.bounded(self._factor(p.coordinate) * self._factor(q.coordinate))
        a, b, d = (self.coordinate_of(first, i) for i in range(3))
        c = self.coordinate_of(f.bounded(first * self._twice_d), 3)
        e, h = f.bounded(b - a), f.bounded(b + a)
        difference, total = f.bounded(d + d - c), f.bounded(d + d + c)
        product = self.choose(e, total, difference, e) * self.choose(difference, h, total, h)
        return FourLaneSum(f.bounded(product), self._never)

    def _factor(self, coordinate: CoordinateElement) -> CoordinateElement:
        f = self.field
        neighbour = self.from_lane(coordinate, self.lane ^ 1)
        return self.choose(
            f.bounded(neighbour - coordinate), f.bounded(neighbour + coordinate), coordinate
        )


def four_lane_arithmetic(k: Builder, group: Group, form: Form) -> FourLaneArithmetic:
    """Return the arithmetic of sums of a form with four lanes to an addition."""
    return FourLaneEdwards(k, group) if form == "edwards" else FourLaneWeierstrass(k, group)
