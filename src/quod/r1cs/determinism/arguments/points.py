"""Sums of points in Montgomery form, whose chords are never vertical by the order of a generator.

A circuit adds (x1, y1) and (x2, y2) by three products: slope * (x2 - x1) = y2 - y1,
B * slope^2 = x1 + x2 + x3 + A and slope * (x1 - x3) = y1 + y3. The curve and both points are read
from these products. A point is a sum that was determined before, or selected by bits from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product as cartesian

from quod.curve.named import EDWARDS
from quod.frozen import frozen
from quod.r1cs.determinism.arguments.denominators import affine_polynomial
from quod.r1cs.determinism.arguments.expansions import MAX_EXPANSIONS, Expander, Expansion, terms_of
from quod.r1cs.determinism.arguments.logarithms import Logarithms
from quod.r1cs.determinism.arithmetic import (
    IntegerPolynomial,
    Point,
    PointSet,
    Polynomial,
    Subgroup,
)
from quod.r1cs.determinism.certificate_checker import SEPARATOR
from quod.r1cs.determinism.normal_form import Affine, Product
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Step, Terms

_MAX_BITS = 5
"""The number of bits that select a point."""
_SMALL_LEVELS = 4
"""The bound of the exponent of 2 in the scalars of the first table."""
_MAX_CONSTANT = 1 << 10
"""The bound of e and 2^t if e·G = 2^t·P for a constant point P and the first table's generator."""

_Pair = tuple[IntegerPolynomial, IntegerPolynomial]


def find_points(facts: Propagation) -> bool:
    """Determine slopes and inverses of y coordinates; return whether there were any."""
    return _Finder(facts).run()


@cache
def subgroup_orders(prime: int) -> tuple[int, ...]:
    """Return the orders of the subgroups of the named Edwards curves over a field."""
    return tuple(curve.fr.value for curve in EDWARDS.values() if curve.fq.value == prime)


class _Finder:
    def __init__(self, facts: Propagation) -> None:
        self._facts, self._form, self._prime = facts, facts.form, facts.prime
        self._expander = Expander(facts)
        groups = dict.fromkeys(each.group for each in facts.points.values())
        self._logarithms = {group: Logarithms(group) for group in groups}
        self._products = {product.row: product for product in facts.form.products}
        self._attempted = set[tuple[Terms, Terms]]()

    def run(self) -> bool:
        """Return whether a quotient was determined."""
        facts, is_changed = self._facts, False
        if not subgroup_orders(self._prime):
            return False
        for index, product in enumerate(self._form.products):
            for factor, quotient in ((product.a, product.b), (product.b, product.a)):
                if (
                    factor.factor and not facts.is_determined(quotient)
                    and facts.is_determined(factor) and facts.is_determined(product.c)
                    and not quotient.constant and quotient.node < self._form.wires
                    and (self._add(index, factor, quotient) or self._invert(factor, product.c))
                ):  # fmt: skip
                    facts.run()
                    is_changed = True
        return is_changed

    # --- sums

    def _add(
        self, index: int, divisor: Affine, slope: Affine, third: tuple[int, int] | None = None
    ) -> bool:  # fmt: skip
        """Determine the slope of the chord through two points, or prove that a pair is their sum.

        third: the wires of the sum; by default those that are undetermined.
        """
        chord = self._form.products[index]
        neighbours = [self._form.products[each] for each in self._facts.products_of[slope.node]]
        squares = [each for each in neighbours if self._is_square(each, slope.node)]
        for square in squares:
            for line in neighbours:
                for factor, other in ((line.a, line.b), (line.b, line.a)):
                    if factor.node == slope.node and factor.factor and not factor.constant:
                        addition = self._addition(
                            chord, divisor, slope, square, (line, factor, other), third
                        )
                        if addition is not None and self._prove(addition):
                            return True
        return False

    def _is_square(self, product: Product, slope: int) -> bool:
        a, b, _, _ = product
        return all(term.node == slope and term.factor and not term.constant for term in (a, b))

    def _addition(
        self, chord: Product, divisor: Affine, slope: Affine, square: Product,
        line: tuple[Product, Affine, Affine], third: tuple[int, int] | None,
    ) -> _Addition | None:  # fmt: skip
        """Read the points and the curve from three products, or return None."""
        prime = self._prime
        # slope * (x1 - x3) = y1 + y3, where x3 and y3 are undetermined and x1 and y1 are not.
        line_row, factor, other = line
        x_part, y_part = self._wires(other, factor.factor), self._wires(line_row.c)
        total = self._wires(square.c)
        ends = [self._undetermined(part) for part in (x_part, y_part)]
        if third is None and [*map(len, ends)] == [1, 1]:
            third = ends[0][0], ends[1][0]
        x3, y3 = third or (0, 0)
        if not (x_part.get((x3,)) and y_part.get((y3,)) and total.get((x3,))):
            return None
        line_factor = -pow(x_part[x3,], -1, prime)
        square_factor = pow(total[x3,], -1, prime)
        x1 = self._expander.reduced(x_part * {(): line_factor} + {(x3,): 1})
        y1 = self._expander.reduced(y_part * {(): line_factor} - {(y3,): 1})
        # B * slope^2 = x1 + x2 + x3 + A, and slope * (x2 - x1) = y2 - y1 up to a factor.
        x2_plus_a = self._expander.reduced(total * {(): square_factor} - x1 - {(x3,): 1})
        difference = self._expander.reduced(x2_plus_a - x1)
        multiple = self._wires(divisor, slope.factor)
        monomial = next((m for m in difference if m), None)
        if monomial is None or not multiple.get(monomial):
            return None
        chord_factor = difference[monomial] * pow(multiple[monomial], -1, prime)
        x2 = self._expander.reduced(multiple * {(): chord_factor} + x1)
        y2 = self._expander.reduced(self._wires(chord.c) * {(): chord_factor} + y1)
        constant = self._expander.reduced(x2_plus_a - x2)
        if any(constant.keys() - {()}) or any(map(self._undetermined, (x1, y1, x2, y2))):
            return None
        b = square.a.factor * square.b.factor * square_factor % prime
        sources: tuple[tuple[int, Terms], ...] = tuple(
            (product.row, (((SEPARATOR,) * power, k % prime),))
            for power, (product, k) in enumerate(
                ((chord, chord_factor), (square, square_factor), (line_row, line_factor))
            )
        )
        end = IntegerPolynomial({(x3,): 1}), IntegerPolynomial({(y3,): 1})
        return _Addition(slope.node, (constant.get((), 0), b), (x1, y1), (x2, y2), end, sources)

    def _prove(self, addition: _Addition) -> bool:
        """Determine the slope of an addition if its points are distinct points of a subgroup."""
        facts, pairs = self._facts, (addition.first, addition.second)
        # A sum has one generator, a table may have several: that of the sum comes first.
        sums = [self._sum(*pair) for pair in pairs]
        group = next((each.group for each in sums if each), None)
        points = [
            self._point(*pair, addition.curve, group) or self._point(*pair, addition.curve)
            for pair in pairs
        ]
        groups = [each.group for each in points if each]
        if len(groups) == 1:
            # The other point may be a constant that this generator does not yield.
            groups += self._rebased(groups[0], *pairs[points.index(None)])
        for group in groups if groups[1:] != groups[:1] else ():
            points = [self._point(*pair, addition.curve, group) for pair in pairs]
            if None not in points:
                break
        first, second = points
        if first is None or second is None:
            return False
        if (first.group.a, first.group.b) != addition.curve:
            # The constraints of a sum are those of another curve.
            return False
        try:
            total = first.plus(second)
        except ValueError:
            return False
        names = [terms_of(each) for pair in (*pairs, addition.third) for each in pair]
        facts.points[names[4], names[5]] = total
        slope = addition.slope
        facts.steps.append(Step(Rule.CHORD, addition.sources, (slope,), polynomials=tuple(names)))
        facts.determine([slope])
        return True

    # --- points

    def _rebased(
        self, group: Subgroup, x: IntegerPolynomial, y: IntegerPolynomial
    ) -> list[Subgroup]:
        """Return the subgroup of a generator of which a constant point is a small multiple.

        If e·G = 2^t·P for the group's generator G, it is G / 2^t, and P is e times it.
        """
        expansion = Expansion(x, y)
        self._expander.expand_copies(expansion)
        if any(m for m in (*expansion.x, *expansion.y)):
            return []
        point: Point = expansion.x.get((), 0), expansion.y.get((), 0)
        limit = min(_MAX_CONSTANT, group.order)
        scalars = {group[e]: e for each in range(1, limit) for e in (each, -each)}
        for exponent in range(_MAX_CONSTANT.bit_length()):
            if point in scalars:
                generator = group[pow(1 << exponent, -1, group.order)]
                assert generator is not None
                rebased = Subgroup(self._prime, group.a, group.b, *generator, group.order)
                self._logarithms[rebased] = Logarithms(rebased, scalars[point])
                return [rebased]
            point = group.add(point, point)
        return []

    def _point(
        self, x: IntegerPolynomial, y: IntegerPolynomial, curve: tuple[int, int],
        group: Subgroup | None = None,
    ) -> PointSet | None:  # fmt: skip
        """Return the points that a pair of polynomials may be, and record how that follows.

        group: the subgroup that must contain them; by default any.
        """
        facts, name = self._facts, (terms_of(x), terms_of(y))
        if (point_set := self._recorded(name, group)) is not None:
            return point_set
        expansion = Expansion(x, y)
        for _ in range(MAX_EXPANSIONS):
            self._expander.expand_copies(expansion)
            source = terms_of(expansion.x), terms_of(expansion.y)
            self._add_earlier(*source)
            numbers: tuple[int, ...] = ()
            point_set = self._recorded(source, group)
            points = [] if point_set else self._values(expansion, curve)
            if point_set is None and not points and self._slope(source[0]):
                return None
            if points and (table := self._subgroup(points, curve, group)):
                subgroup, scalars = table
                point_set = PointSet(subgroup, [(k, k) for k in scalars])
                generator = subgroup[1] or (0, 0)
                numbers = subgroup.a, subgroup.b, *generator, subgroup.order, *scalars
            if point_set is not None:
                step = Step(Rule.POINT, expansion.sources(), polynomials=(*name, *source))
                facts.steps.append(step._replace(numbers=numbers))
                facts.points[name] = point_set
                return point_set
            if not self._expander.expand(expansion):
                return None
        return None

    def _add_earlier(self, x: Terms, y: Terms) -> None:
        """Prove that a pair of wires is a sum whose slope other rules determined, once."""
        if (x, y) in self._facts.points or (x, y) in self._attempted:
            return
        self._attempted.add((x, y))
        if any([len(monomial) for monomial, _ in terms] != [1] for terms in (x, y)):
            return
        third, slope = (x[0][0][0], y[0][0][0]), self._slope(x)
        for index in self._facts.products_of[slope] if slope else ():
            product = self._form.products[index]
            for factor, quotient in ((product.a, product.b), (product.b, product.a)):
                if quotient.node == slope and quotient.factor and not quotient.constant:
                    if factor.factor and self._add(index, factor, quotient, third):
                        return

    def _slope(self, x: Terms) -> int:
        """Return the slope of a chord if a polynomial is the first coordinate of a sum, or 0."""
        if [len(monomial) for monomial, _ in x] != [1]:
            return 0
        square = self._products.get(self._expander.row(x[0][0][0]))
        return square.a.node if square and self._is_square(square, square.a.node) else 0

    def _sum(self, x: IntegerPolynomial, y: IntegerPolynomial) -> PointSet | None:
        """Return the points that a pair may be if it is a copy of a sum."""
        expansion = Expansion(x, y)
        self._expander.expand_copies(expansion)
        source = terms_of(expansion.x), terms_of(expansion.y)
        self._add_earlier(*source)
        return self._facts.points.get(source)

    def _recorded(self, name: tuple[Terms, Terms], group: Subgroup | None) -> PointSet | None:
        point_set = self._facts.points.get(name)
        is_required = point_set is not None and group in (None, point_set.group)
        return point_set if is_required else None

    def _values(
        self, expansion: Expansion, curve: tuple[int, int]
    ) -> list[tuple[int, int]]:  # fmt: skip
        """Return the values for all choices of bits, if all are on a curve; else none."""
        nodes = list(dict.fromkeys(n for m in (*expansion.x, *expansion.y) for n in m))
        if len(nodes) > _MAX_BITS or not all(map(self._expander.is_bit, nodes)):
            return []
        points: list[tuple[int, int]] = []
        (a, b), p = curve, self._prime
        for choice in cartesian(*(self._facts.ranges[node] or () for node in nodes)):
            values = dict(zip(nodes, choice))
            x, y = (each.at(values).get((), 0) % p for each in (expansion.x, expansion.y))
            if (b * y * y - x * (x * x + a * x + 1)) % p:
                return []
            points.append((x, y))
        return points

    def _subgroup(
        self, points: Sequence[tuple[int, int]], curve: tuple[int, int], required: Subgroup | None
    ) -> tuple[Subgroup, list[int]] | None:
        """Return a subgroup and the scalars of points in it."""
        for group in [required] if required else [*self._logarithms]:
            if (group.a, group.b) == curve and (scalars := self._scalars(group, points)):
                return group, scalars
        return None if required else self._new_group(curve, points)

    def _new_group(
        self, curve: tuple[int, int], points: Sequence[tuple[int, int]]
    ) -> tuple[Subgroup, list[int]] | None:
        """Return the subgroup of a point of which all others are small multiples."""
        if len(set(points)) < 2:
            return None
        for generator in dict.fromkeys(points):
            for order in subgroup_orders(self._prime):
                try:
                    group = Subgroup(self._prime, *curve, *generator, order)
                except ValueError:
                    continue
                if scalars := self._scalars(group, points, _SMALL_LEVELS):
                    return group, scalars
        return None

    def _scalars(
        self, group: Subgroup, points: Sequence[tuple[int, int]], levels: int | None = None
    ) -> list[int] | None:  # fmt: skip
        """See `Logarithms.of`."""
        return self._logarithms.setdefault(group, Logarithms(group)).of(points, levels)

    def _invert(self, divisor: Affine, dividend: Affine) -> bool:
        """Record that the y coordinate of a point is never 0."""
        if divisor.constant or self._facts.is_nonzero(divisor):
            return False
        facts, node = self._facts, divisor.node
        y = IntegerPolynomial({(node,): 1})
        expansion = Expansion(IntegerPolynomial(), y)
        if node >= self._form.wires:
            reference = facts.rows.count + node - self._form.wires
            definition = self._wires(Affine(1, node, 0)) - y
            expansion.replace(node, reference, definition, self._prime)
        if dividend.factor:
            # The quotient may be x/y of a sum whose slope other rules determined.
            pair = Expansion(IntegerPolynomial({(dividend.node,): 1}), expansion.y)
            self._expander.expand_copies(pair)
            self._add_earlier(terms_of(pair.x), terms_of(pair.y))
        self._expander.expand_copies(expansion)
        coordinate = terms_of(expansion.y)
        for source in facts.points:
            if source[1] == coordinate:
                polynomials = source[0], terms_of(y), *source
                step = Step(Rule.POINT, expansion.sources(), (node,), polynomials=polynomials)
                facts.points[polynomials[:2]] = facts.points[source]
                facts.exclude(node, 0, step)
                return True
        return False

    # --- polynomials

    def _wires(self, term: Affine, factor: int = 1) -> IntegerPolynomial:
        """Return a multiple of an affine term as a polynomial in wires."""
        return self._expander.reduced(
            IntegerPolynomial(affine_polynomial(self._form, term)) * {(): factor}
        )

    def _undetermined(self, terms: Polynomial) -> list[int]:
        return [n for m in terms for n in m if not self._facts.determined[n]]


@frozen(eq=False)
class _Addition:
    """The slope of a chord, A and B of its curve, both points and their sum.

    sources: the multiples of constraints that yield the equations of the addition.
    """

    slope: int
    curve: tuple[int, int]
    first: _Pair
    second: _Pair
    third: _Pair
    sources: tuple[tuple[int, Terms], ...]
