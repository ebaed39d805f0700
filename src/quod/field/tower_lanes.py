"""Fq12 with one coefficient in each of six lanes, for low latency of a single computation.

Fq12 = Fq2[w]/(w^6 - xi), and lane i < 6 of a subgroup of eight holds the coefficient of w^i; the
values of the last two lanes are ignored. A product takes six products of Fq2 in each lane instead
of eighteen in one lane, and a cyclotomic square one instead of six. Formulas: as in
`quod.field.tower`, with schoolbook products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.field.extension import ExtensionElement
from quod.field.tower import Fq12Arithmetic, TowerField, frobenius_factors
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value

Fq2 = ExtensionElement

LANES = 8
"""Instances of a workgroup."""

_DEGREE = 6
_ORDER_OF_MEMORY = (0, 2, 4, 1, 3, 5)
"""The power of w of each element of Fq2 in memory, which has the order of the tower."""


class LaneTower(Fq12Arithmetic[Fq2]):
    """Fq12 of one pairing in a kernel whose workgroups are a subgroup of eight instances.

    Each instance holds one element of Fq2, bounded as device functions require of their arguments.
    All instances must call every operation.
    """

    power_name = "power"
    """The prefix of the names of device functions that compute powers."""

    def __init__(self, tower: TowerField) -> None:
        k = tower.k
        if k.workgroup_size != LANES or k.subgroup_size < LANES:
            raise TraceError(
                f"a tower in lanes needs workgroups of {LANES} instances in one subgroup"
            )
        self.k, self.tower, self.fq2 = k, tower, tower.fq2

    # --- lanes

    @property
    def lane(self) -> Value:
        """The lane's number, emitted anew: device functions cannot use values of their callers."""
        return self.k.lane_id()

    def from_lane(self, a: Fq2, lane: Value | int) -> Fq2:
        """Return the coefficient of another lane."""
        if isinstance(lane, int):
            lane = self.k.constant(lane, types.u32)
        limbs, _, rebuild = a.flatten()
        received: Fq2 = rebuild([self.k.shuffle(limb, lane) for limb in limbs])
        return received

    def _chosen(self, lanes: Sequence[int], a: Fq2, b: Fq2) -> Fq2:
        """`a` in these lanes, else `b`."""
        condition = self.k.constant(False, types.bool_)
        for lane in lanes:
            condition = condition | (self.lane == lane)
        return self.fq2.select(condition, a, b)

    def _permuted(self, a: Fq2, sources: Sequence[int]) -> Fq2:
        """Return in lane i the coefficient of lane sources[i]."""
        source = self.lane
        for lane, other in enumerate(sources):
            if other != lane:
                source = self.k.select(self.lane == lane, other, source)
        return self.from_lane(a, source)

    def _times_w(self, a: Fq2, steps: int) -> Fq2:
        """a * w^steps, for 0 to 5 steps."""
        if steps == 0:
            return a
        wrapping_lanes = [lane for lane in range(_DEGREE) if lane + steps >= _DEGREE]
        wrapped = self._chosen(wrapping_lanes, self.tower.multiply_by_xi(a), a)
        return self._permuted(wrapped, [(lane - steps) % _DEGREE for lane in range(_DEGREE)])

    def function(self, name: str, body: Callable[..., Any], *arguments: Any) -> Any:
        """Call a device function; see `TowerField.function`."""
        return self.tower.function(f"lanes.{name}", body, *arguments)

    def _element(self, name: str, body: Callable[..., Fq2], *arguments: Any) -> Fq2:
        result: Fq2 = self.function(name, body, *arguments)
        return result

    def products(self, pairs: Sequence[tuple[Fq2, Fq2]]) -> list[Fq2]:
        """Return at most six products of values that all lanes hold, each computed by one lane."""
        left, right = pairs[-1]
        for lane, (a, b) in enumerate(pairs[:-1]):
            left, right = self._chosen([lane], a, left), self._chosen([lane], b, right)
        product = left * right
        return [self.from_lane(product, lane) for lane in range(len(pairs))]

    # --- arithmetic

    def bounded(self, item: Any) -> Any:
        """See `TowerField.bounded`."""
        return self.tower.bounded(item)

    def select(self, condition: Value, a: Fq2, b: Fq2) -> Fq2:
        """`a` where the condition holds, else `b`; the condition must be equal in all lanes."""
        chosen: Fq2 = self.bounded(self.fq2.select(condition, a, b))
        return chosen

    def one(self) -> Fq2:
        """1."""
        fq2 = self.fq2
        one: Fq2 = self.tower.bounded(self._chosen([0], fq2.one(), fq2.zero()))
        return one

    def multiply(self, a: Fq2, b: Fq2) -> Fq2:
        """a * b."""
        return self._element("multiply", self._multiply, a, b)

    def _multiply(self, a: Fq2, b: Fq2) -> Fq2:
        return self.fq2.sum_of_products(
            [(self.from_lane(a, i), self._times_w(b, i)) for i in range(_DEGREE)]
        )

    def square(self, a: Fq2) -> Fq2:
        """a * a."""
        return self._element("square", self._square, a)

    def _square(self, a: Fq2) -> Fq2:
        """Return in lane k the sum of a_i * a_j over i + j = k or k + 6, each pair once."""
        fq2, sums = self.fq2, [_pairs(lane) for lane in range(_DEGREE)]
        terms = []
        for term_index in range(max(map(len, sums))):
            lane_pairs = [pairs[term_index] if term_index < len(pairs) else None for pairs in sums]
            first_factor = self._permuted(
                a, [0 if pair is None else pair[0] for pair in lane_pairs]
            )
            second_factor = self._permuted(
                a, [0 if pair is None else pair[1] for pair in lane_pairs]
            )
            lanes = range(_DEGREE)
            wraps = [lane for lane in lanes if (pair := lane_pairs[lane]) and sum(pair) >= _DEGREE]
            doubled = [lane for lane in lanes if (pair := lane_pairs[lane]) and pair[0] != pair[1]]
            second_factor = self._chosen(
                wraps, self.tower.multiply_by_xi(second_factor), second_factor
            )
            first_factor = self._chosen(doubled, fq2.double(first_factor), first_factor)
            absent = [lane for lane in lanes if lane_pairs[lane] is None]
            terms.append(
                (
                    self._chosen(absent, fq2.zero(), first_factor) if absent else first_factor,
                    second_factor,
                )
            )
        return fq2.sum_of_products(terms)

    def conjugate(self, a: Fq2) -> Fq2:
        """a^(q^6); the inverse in the cyclotomic subgroup."""
        conjugate: Fq2 = self.tower.bounded(self._chosen([1, 3, 5], -a, a))
        return conjugate

    def frobenius(self, a: Fq2, power: int) -> Fq2:
        """a^(q^power) for a power of 1 to 3."""
        return self._element(f"frobenius{power}", lambda a: self._frobenius(a, power), a)

    def _frobenius(self, a: Fq2, power: int) -> Fq2:
        fq2 = self.fq2
        factors = frobenius_factors(self.tower.spec, self.tower.xi, power)
        factor = fq2.constant(factors[0])
        for lane, lane_factor in enumerate(factors[1:], 1):
            factor = self._chosen([lane], fq2.constant(lane_factor), factor)
        image = fq2.frobenius(a) if power % 2 else a
        return image * factor

    def inverse(self, a: Fq2) -> Fq2:
        """1/a, and 0 for 0."""
        return self._element("inverse", self._inverse, a)

    def _inverse(self, a: Fq2) -> Fq2:
        """Divide the conjugate by the norm to Fq6, whose coefficients are in the even lanes."""
        fq2, bounded, xi = self.fq2, self.tower.bounded, self.tower.multiply_by_xi
        conjugate = self.conjugate(a)
        norm = self.multiply(a, conjugate)
        n0, n1, n2 = (self.from_lane(norm, lane) for lane in (0, 2, 4))
        # Lanes 0, 2 and 4 compute n0^2 - xi*n1*n2, xi*n2^2 - n0*n1 and n1^2 - n0*n2.
        base = self._chosen([0], n0, self._chosen([2], n2, n1))
        weighted_base = self._chosen([2], xi(base), base)
        left = self._chosen([0], n1, n0)
        right = self._chosen([2], n1, n2)
        negated_right = -self._chosen([0], xi(right), right)
        cofactors = bounded(fq2.sum_of_products([(base, weighted_base), (left, negated_right)]))
        t0, t1, t2 = (self.from_lane(cofactors, lane) for lane in (0, 2, 4))
        determinant = bounded(fq2.sum_of_products([(n0, t0), (xi(n2), t1), (xi(n1), t2)]))
        inverse = bounded(cofactors * bounded(fq2.inverse(determinant)))
        inverse_norm = self._chosen([0, 2, 4], inverse, fq2.zero())
        return self.multiply(conjugate, bounded(inverse_norm))

    def multiply_by_line(self, a: Fq2, line: Sequence[tuple[int, Fq2]]) -> Fq2:
        """a times a sum of c * w^i, given as pairs (i, c); all lanes have the same c."""
        powers = [power for power, _ in line]

        def body(a: Fq2, *factors: Fq2) -> Fq2:
            return self.fq2.sum_of_products(
                [(c, self._times_w(a, steps)) for steps, c in zip(powers, factors, strict=True)]
            )

        name = "multiply_by_" + "".join(map(str, powers))
        return self._element(name, body, a, *(c for _, c in line))

    # --- the cyclotomic subgroup, of order q^4 - q^2 + 1

    def cyclotomic_square(self, a: Fq2) -> Fq2:
        """a * a for a in the cyclotomic subgroup."""
        return self._element("cyclotomic_square", self._cyclotomic_square, a)

    def _cyclotomic_square(self, a: Fq2) -> Fq2:
        """Square with (x + y)(x + xi*y) in lane i and x*y in lane i + 3, x = a_i, y = a_(i+3)."""
        fq2, xi, bounded = self.fq2, self.tower.multiply_by_xi, self.tower.bounded
        opposite = [3, 4, 5, 0, 1, 2]
        other = self._permuted(a, opposite)
        low = [0, 1, 2]
        product = bounded(self._chosen(low, a + other, a) * self._chosen(low, a + xi(other), other))
        cross = self._permuted(product, opposite)
        # x^2 + xi*y^2 in lane i, 2*x*y in lane i + 3.
        parts = bounded(self._chosen(low, product - (cross + xi(cross)), fq2.double(product)))
        # Granger and Scott: with the part t that belongs to lane i (xi times the part for lane 1),
        # the result is 3t - 2*a_i for even i, and 3t + 2*a_i for odd i.
        parts = self._permuted(parts, [0, 5, 1, 3, 2, 4])
        parts = self._chosen([1], xi(parts), parts)
        signed = self._chosen([0, 2, 4], -a, a)
        return fq2.double(parts + signed) + parts

    # --- memory: twelve elements of Fq, in the order of the tower

    def load(self, pointer: Value, index: Operand) -> Fq2:
        """Element `index` of an array."""
        index_in_memory = self.k.operand(index, types.u32) * _DEGREE + self._index_in_element()
        loaded: Fq2 = self.tower.bounded(self.fq2.load(pointer, index_in_memory))
        return loaded

    def store(self, pointer: Value, index: Operand, a: Fq2) -> None:
        """Store the canonical form as element `index` of an array."""
        words = self.fq2.to_words(a)
        index_in_memory = self.k.operand(index, types.u32) * _DEGREE + self._index_in_element()
        with self.k.if_(self.lane < _DEGREE):
            self.fq2.store_words_at(pointer, self.fq2.element_offset(index_in_memory), words)

    def _index_in_element(self) -> Value:
        """Return the index of the lane's coefficient in memory; the last two lanes use index 0."""
        index = self.k.constant(0, types.u32)
        for position, lane in enumerate(_ORDER_OF_MEMORY):
            index = self.k.select(self.lane == lane, position, index)
        return index


def _pairs(total: int) -> list[tuple[int, int]]:
    """Return the pairs i <= j below 6 with i + j = total or total + 6."""
    pairs = [(i, j) for i in range(_DEGREE) for j in range(i, _DEGREE)]
    return [(i, j) for i, j in pairs if (i + j) % _DEGREE == total]
