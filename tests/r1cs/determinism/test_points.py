"""Sums of points in Montgomery form: small curves against all witnesses, and forged steps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, product
from typing import NamedTuple

import pytest

from quod import r1cs
from quod.curve.named.baby_jubjub import BABY_JUBJUB
from quod.r1cs import gadgets
from quod.r1cs.determinism.arguments import points
from quod.r1cs.determinism.arguments.points import find_points
from quod.r1cs.determinism.arithmetic import IntegerPolynomial, PointSet, Subgroup
from quod.r1cs.determinism.certificate_checker import SEPARATOR, check_certificate
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rows import Combination, Rows, rows_of
from quod.r1cs.determinism.rules import SOUNDNESS, CertificateError, Rule, Step
from tests.r1cs.determinism.exhaustive import Constraint, all_witnesses, is_determined

PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 53, 61, 71, 83, 97, 101)


class Curve(NamedTuple):
    """B·y² = x³ + A·x² + x over a small field, and a point of order `order`."""

    prime: int
    a: int
    b: int
    generator: tuple[int, int]
    order: int


@cache
def curves(prime: int, least: int, *, composite: bool = False) -> list[Curve]:
    """A curve with a point for each order from `least` on that is prime, or composite and odd."""
    result: dict[int, Curve] = {}
    for a, b in product(range(min(prime, 16)), (1, 2, 3)):
        pairs = product(range(1, prime), range(1, prime)) if (a * a - 4) % prime else ()
        on_curve = ((x, y) for x, y in pairs if not (b * y * y - x * (x * x + a * x + 1)) % prime)
        for point in islice(on_curve, 3):
            order = order_of(prime, a, b, point)
            is_prime = all(order % k for k in range(2, order))
            if order >= least and order % 2 and is_prime is not composite:
                result.setdefault(order, Curve(prime, a, b, point, order))
    return list(result.values())


Point = tuple[int, int] | None


def plain_sum(prime: int, a: int, b: int, left: Point, right: Point) -> Point:
    """The group law, for comparison with that of `Subgroup`."""
    if left is None or right is None:
        return left or right
    (x1, y1), (x2, y2) = left, right
    if x1 == x2 and (y1 + y2) % prime == 0:
        return None
    rise, run = (y2 - y1, x2 - x1) if x1 != x2 else (3 * x1 * x1 + 2 * a * x1 + 1, 2 * b * y1)
    slope = rise * pow(run, prime - 2, prime)
    x = (b * slope * slope - a - x1 - x2) % prime
    return x, (slope * (x1 - x) - y1) % prime


def order_of(prime: int, a: int, b: int, point: Point) -> int:
    """The number of additions until infinity."""
    total, count = point, 1
    while total is not None:
        total = plain_sum(prime, a, b, total, point)
        count += 1
    return count


def multiple(curve: Curve, k: int) -> tuple[int, int]:
    """k·G by repeated addition."""
    result: Point = None
    for _ in range(k % curve.order):
        result = plain_sum(*curve[:3], result, curve.generator)
    assert result is not None
    return result


class Circuit:
    """A sum of points that bits select, each from a table of two, in several layouts.

    tables: the factors of both points of each table.
    equation: A and B in the constraints of sums.
    next_a: A in those of the sums after the first.
    layout: 0 as in bellman, with linear combinations for the table; 1 with a wire for each
        coordinate and copies of sums; 2 the same with scaled and swapped rows.
    """

    def __init__(
        self, curve: Curve, tables: Sequence[tuple[int, int]], layout: int,
        equation: tuple[int, int] | None = None, next_a: int | None = None,
    ) -> None:  # fmt: skip
        self.curve, self.layout = curve, layout
        self.a, self.b = equation or (curve.a, curve.b)
        self.next_a = self.a if next_a is None else next_a
        self.constraints: list[Constraint] = []
        self.wires = 1 + len(tables)
        self.inputs = list(range(1, self.wires))
        self.targets: list[int] = []
        total: tuple[Combination, Combination] | None = None
        for bit, factors in zip(self.inputs, tables):
            self.constraints.append(({bit: 1}, {bit: 1, 0: -1}, {}))
            (x0, y0), (x1, y1) = (multiple(curve, k) for k in factors)
            point = self.copied(({0: x0, bit: x1 - x0}, {0: y0, bit: y1 - y0}))
            total = point if total is None else self.add(self.copied(total), point)
        assert total is not None
        inverse = self.wire()
        self.constraints.append((total[1], {inverse: 1}, total[0]))

    def wire(self) -> int:
        self.wires += 1
        self.targets.append(self.wires - 1)
        return self.wires - 1

    def copied(
        self, point: tuple[Combination, Combination]
    ) -> tuple[Combination, Combination]:  # fmt: skip
        if self.layout == 0:
            return point
        copies = self.wire(), self.wire()
        for copy, terms in zip(copies, point):
            self.constraints.append(({0: 1}, {copy: 3 if self.layout == 2 else 1}, scaled(
                terms, 3 if self.layout == 2 else 1
            )))  # fmt: skip
        return {copies[0]: 1}, {copies[1]: 1}

    def add(
        self, first: tuple[Combination, Combination], second: tuple[Combination, Combination]
    ) -> tuple[Combination, Combination]:
        (x1, y1), (x2, y2) = first, second
        slope, x3, y3 = self.wire(), self.wire(), self.wire()
        k = 2 if self.layout == 2 else 1
        chord = {slope: k}, weighted((1, x2), (-1, x1)), weighted((k, y2), (-k, y1))
        square = (
            {slope: self.b * k}, {slope: 1},
            weighted((k, x1), (k, x2), (k, {x3: 1, 0: self.a})),
        )  # fmt: skip
        line = {slope: 1}, weighted((-k, x1), (k, {x3: 1})), weighted((-k, y1), (-k, {y3: 1}))
        self.a = self.next_a
        for a, b, c in (chord, square, line):
            self.constraints.append((b, a, c) if self.layout == 2 else (a, b, c))
        return {x3: 1}, {y3: 1}

    @property
    def rows(self) -> Rows:
        return rows_of(
            self.curve.prime, self.wires, self.constraints, self.inputs, self.targets
        )  # fmt: skip


def scaled(terms: Combination, factor: int) -> Combination:
    return weighted((factor, terms))


def weighted(*parts: tuple[int, Combination]) -> Combination:
    result: dict[int, int] = {}
    for factor, terms in parts:
        for wire, k in terms.items():
            result[wire] = result.get(wire, 0) + factor * k
    return result


def propagated(rows: Rows, orders: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> Propagation:
    monkeypatch.setattr(points, "subgroup_orders", lambda prime: tuple(orders))
    facts = Propagation(rows, NormalForm(rows))
    facts.run()
    while find_points(facts):
        pass
    return facts


def compare(rows: Rows, facts: Propagation, steps: Sequence[Step]) -> bytearray:
    """Compare what a certificate proves with all witnesses."""
    determined = check_certificate(rows, facts.form, steps)
    witnesses = all_witnesses(rows)
    for wire in range(1, rows.wires):
        assert not determined[wire] or is_determined(rows, witnesses, wire)
    return determined


def small_circuits(generator: random.Random, count: int) -> Iterator[tuple[Circuit, int]]:
    """Circuits with random tables, some of which are distinct multiples, and their layout."""
    pool = [curve for prime in PRIMES for curve in curves(prime, 5)]
    for _ in range(count):
        curve = generator.choice(pool)
        size = generator.choice((2, 2, 3))
        limit = curve.order - 1
        if generator.random() < 0.5:
            bases = [1, 3, 9][:size]
            tables = [(base, generator.choice((-base, 2 * base))) for base in bases]
            if any(k % curve.order == 0 for table in tables for k in table):
                continue
        else:
            tables = [
                (generator.randint(1, limit), generator.randint(1, limit)) for _ in range(size)
            ]
        layout = generator.randrange(3)
        yield Circuit(curve, tables, layout), layout


@pytest.mark.parametrize("rule", [Rule.POINT, Rule.CHORD])
def test_rules_have_an_argument(rule: Rule) -> None:
    assert SOUNDNESS[rule]


def _sums(count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proved = [0, 0, 0]
    for circuit, layout in small_circuits(random.Random(seed), count):
        rows = circuit.rows
        facts = propagated(rows, [circuit.curve.order], monkeypatch)
        determined = compare(rows, facts, facts.steps)
        assert determined[1:] == facts.determined[1:]
        witnesses = all_witnesses(rows)
        for wire, values in facts.excluded.items():
            if wire < rows.wires:
                assert not {*witnesses[:, wire].tolist()} & values
        proved[layout] += all(determined[wire] for wire in rows.targets)
    assert min(proved) > count // 40


def test_sums_on_small_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fact about a sum of multiples with random factors is wrong; distinct ones are proved."""
    _sums(120, 1, monkeypatch)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_sums_on_small_curves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _sums(1500, seed, monkeypatch)


@pytest.mark.parametrize("prime", PRIMES)
def test_multiples_follow_the_group_law(prime: int) -> None:
    for curve in curves(prime, 3):
        multiples = Subgroup(curve.prime, curve.a, curve.b, *curve.generator, curve.order)
        assert multiples[0] is None
        assert multiples[curve.order] is None
        for k in range(1, curve.order):
            assert multiples[k] == multiple(curve, k)
            assert multiples[-k] == multiple(curve, -k)
        with pytest.raises(ValueError):
            multiples[curve.order + 1]


def test_sets_of_multiples_are_disjoint() -> None:
    """Sums exist exactly if no two factors are equal modulo the order."""
    curve = curves(101, 20)[0]
    multiples = Subgroup(curve.prime, curve.a, curve.b, *curve.generator, curve.order)
    r = curve.order
    for low in range(-r, 2 * r, 3):
        for width in (0, 1, 5):
            for least in range(-r, r, 4):
                first = PointSet(multiples, [(low, low + width)])
                second = PointSet(multiples, [(least, least + 2), (-least - 2, -least)])
                common = {k % r for k in range(low, low + width + 1)} & {
                    k % r for a, b in second.spans for k in range(a, b + 1)
                }
                if common:
                    with pytest.raises(ValueError):
                        first.plus(second)
                    continue
                spans = first.plus(second).spans
                for k in range(low, low + width + 1):
                    for sign in (1, -1):
                        for m in range(least, least + 3):
                            assert any(a <= k + sign * m <= b for a, b in spans)


# --- forged steps


def certificate(
    monkeypatch: pytest.MonkeyPatch, prime: int = 101, tables: Sequence[tuple[int, int]] = ()
) -> tuple[Rows, Propagation, Curve]:  # fmt: skip
    curve = curves(prime, 13)[-1]
    circuit = Circuit(curve, tables or [(1, 2), (4, 8)], 0)
    rows = circuit.rows
    facts = propagated(rows, [curve.order], monkeypatch)
    assert all(facts.determined[wire] for wire in rows.targets)
    compare(rows, facts, facts.steps)
    return rows, facts, curve


def is_rejected(rows: Rows, facts: Propagation, index: int, step: Step) -> bool:
    try:
        check_certificate(rows, facts.form, [*facts.steps[:index], step, *facts.steps[index + 1 :]])
    except CertificateError:
        return True
    return False


def test_forged_tables_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, facts, curve = certificate(monkeypatch)
    at = [index for index, step in enumerate(facts.steps) if step.rule is Rule.POINT]
    at = [index for index in at if facts.steps[index].numbers]
    assert len(at) == 2
    p, r = curve.prime, curve.order
    minus = curve.generator[0], -curve.generator[1] % p
    for index in at:
        a, b, x, y, order, *ks = facts.steps[index].numbers
        assert (a, b, order) == (curve.a, curve.b, r)
        changes = [
            (a, b, x, y, other, *ks)
            for other in (0, 1, 2, -r, 2 * r, 3 * r, r + 2, r - 2, p, 4 * p + 1)
        ]
        # All curves on which G is, too.
        for other in range(p):
            beta = x * (x * x + other * x + 1) * pow(y * y, -1, p) % p
            if (other, beta) != (a, b):
                changes.append((other, beta, x, y, r, *ks))
        changes += [(a + 1, b, x, y, r, *ks), (a, b + 1, x, y, r, *ks), (2, b, x, y, r, *ks)]
        changes += [(a, 0, x, y, r, *ks), (a, b, x, y + 1, r, *ks), (a, b, x + 1, y, r, *ks)]
        changes += [(a, b, 0, 0, r, *ks), (a, b, *minus, r, *ks)]
        changes += [(a, b, x, y, r, *ks[:-1], ks[-1] + k) for k in (1, -1, r, -r, p, r * p)]
        changes += [(a, b, x, y, r, *reversed(ks)), (a, b, x, y, r, *ks[:-1])]
        changes += [(a, b, x, y, r, *ks, ks[0]), (a, b, x, y, r), (a, b, x, y), ()]
        for numbers in changes:
            step = facts.steps[index]._replace(numbers=numbers)
            # A factor may change by the order: the point is the same.
            if len(numbers) != len(facts.steps[index].numbers) or any(
                (k - m) % r for k, m in zip(numbers[5:], ks)
            ) or numbers[:5] != (a, b, x, y, r):  # fmt: skip
                assert is_rejected(rows, facts, index, step), numbers


def test_sums_of_another_curve_are_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of one curve, added by the constraints of another one."""
    rows, facts, curve = certificate(monkeypatch)
    for a, b in product((curve.a, curve.a + 1, curve.a - 2), (curve.b, curve.b + 1)):
        if (a, b) == (curve.a, curve.b):
            continue
        for layout in range(3):
            circuit = Circuit(curve, [(1, 2), (4, 8), (16, -16)], layout, (a, b))
            other = propagated(circuit.rows, [curve.order], monkeypatch)
            compare(circuit.rows, other, other.steps)
            assert not any(step.rule is Rule.CHORD for step in other.steps)
        circuit = Circuit(curve, [(1, 2), (4, 8)], 0, (a, b))
        with pytest.raises(CertificateError):
            check_certificate(circuit.rows, NormalForm(circuit.rows), facts.steps)
    # The second sum has another curve.
    circuit = Circuit(curve, [(1, 2), (4, 8), (16, -16)], 1, (curve.a, curve.b), curve.a + 1)
    other = propagated(circuit.rows, [curve.order], monkeypatch)
    compare(circuit.rows, other, other.steps)
    assert sum(step.rule is Rule.CHORD for step in other.steps) == 1
    assert rows.prime == circuit.rows.prime


def test_points_of_composite_order_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables on a curve whose generator has an order such as 15, 21 or 9."""
    tried = 0
    for prime in PRIMES:
        for curve in curves(prime, 9, composite=True):
            with pytest.raises(ValueError, match="odd prime"):
                Subgroup(curve.prime, curve.a, curve.b, *curve.generator, curve.order)
            for order in (3, 5, 7):
                with pytest.raises(ValueError, match="another order"):
                    Subgroup(curve.prime, curve.a, curve.b, *curve.generator, order)
            rows = Circuit(curve, [(1, 2), (3, 4)], 0).rows
            facts = propagated(rows, [curve.order, 3, 5, 7], monkeypatch)
            assert not any(step.rule is Rule.CHORD for step in facts.steps)
            tried += 1
    assert tried > 5


def test_forged_sums_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other multiples of rows, points or slopes; a certificate that is accepted must be right."""
    rows, facts, _ = certificate(monkeypatch)
    (index,) = (i for i, step in enumerate(facts.steps) if step.rule is Rule.CHORD)
    step = facts.steps[index]
    p1, p2, p3 = (step.polynomials[2 * i : 2 * i + 2] for i in range(3))
    x1, y1 = p1
    changes = [
        step._replace(polynomials=(*p2, *p1, *p3)),
        step._replace(polynomials=(*p1, *p1, *p3)),
        step._replace(polynomials=(*p1, *p2, *p1)),
        step._replace(polynomials=(*p3, *p2, *p1)),
        step._replace(polynomials=(*p1, *p2, *reversed(p3))),
        step._replace(polynomials=(*p1, y1, x1, *p3)),
        step._replace(polynomials=(*p1, *p2)),
        step._replace(polynomials=(*p1, *p2, p3[0], (((SEPARATOR,), 1),))),
        step._replace(nodes=(SEPARATOR,)),
        step._replace(nodes=(p3[0][0][0][0],)),
        step._replace(nodes=()),
        step._replace(nodes=(1,)),
        step._replace(sources=step.sources[:2]),
        step._replace(sources=step.sources[1:]),
        step._replace(sources=step.sources[::2]),
        step._replace(sources=()),
    ]
    for number, (row, multiplier) in enumerate(step.sources):
        assert isinstance(multiplier, tuple)
        for other in (
            (row, tuple((monomial, k + 1) for monomial, k in multiplier)),
            (row, tuple(((*monomial, SEPARATOR), k) for monomial, k in multiplier)),
            (row + 1, multiplier), (row - 1, multiplier),
        ):  # fmt: skip
            sources = list(step.sources)
            sources[number] = other
            changes.append(step._replace(sources=tuple(sources)))
    for changed in changes:
        assert is_rejected(rows, facts, index, changed), changed


def test_slopes_of_undetermined_points_are_undetermined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bit among the inputs the points are multiples, but the slope may differ."""
    rows, facts, _ = certificate(monkeypatch)
    rules = Rule.ROOTS, Rule.POINT, Rule.CHORD
    steps = [step for step in facts.steps if step.rule in rules]
    (slope,) = (step.nodes[0] for step in steps if step.rule is Rule.CHORD)
    for inputs in ((), (1,), (2,), (1, 2)):
        fewer = Rows(
            rows.prime, rows.wires, rows.matrices, frozenset(inputs), (slope,),
            rows.name, rows.place,
        )  # fmt: skip
        assert compare(fewer, facts, steps)[slope] == (len(inputs) == 2)


def test_overlapping_factors_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums by a finder that takes all points for distinct: the checker accepts distinct ones."""
    generator, accepted, rejected = random.Random(3), 0, 0
    for _ in range(150):
        curve = generator.choice([c for prime in (29, 37, 53) for c in curves(prime, 7)])
        group = Subgroup(curve.prime, curve.a, curve.b, *curve.generator, curve.order)
        k, m = generator.sample(range(1, 5), 2), generator.sample(range(1, 7), 2)
        rows = Circuit(curve, [(k[0], k[1]), (m[0], m[1])], 0).rows
        with monkeypatch.context() as patch:
            patch.setattr(PointSet, "plus", lambda *_, group=group: PointSet(group, [(1, 1)]))
            facts = propagated(rows, [curve.order], patch)
        if any(step.rule is Rule.CHORD for step in facts.steps):
            try:
                compare(rows, facts, facts.steps)
            except CertificateError:
                rejected += 1
            else:
                assert not {*k} & {*m}
                accepted += 1
    assert accepted > 10
    assert rejected > 10


def test_zero_is_excluded_from_ordinates_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, facts, _ = certificate(monkeypatch)
    (index,) = (i for i, s in enumerate(facts.steps) if s.rule is Rule.POINT and s.nodes)
    step = facts.steps[index]
    (x3, y3) = (terms[0][0][0] for terms in step.polynomials[:2])
    assert step.nodes == (y3,)
    for changed in (
        step._replace(nodes=(x3,)), step._replace(nodes=(y3, x3)), step._replace(nodes=(1,)),
        step._replace(polynomials=(*reversed(step.polynomials[:2]), *step.polynomials[2:])),
        step._replace(polynomials=(*step.polynomials[:2], *reversed(step.polynomials[:2]))),
        step._replace(polynomials=step.polynomials[1:]),
    ):  # fmt: skip
        assert is_rejected(rows, facts, index, changed)


def test_separator_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case in which the separator has a value would mix the claims of a step."""
    rows, facts, _ = certificate(monkeypatch)
    index = next(i for i, s in enumerate(facts.steps) if s.rule is Rule.POINT)
    suppose = Step(Rule.SUPPOSE, (), (SEPARATOR,), (1, 1))
    steps = [*facts.steps[:index], suppose, facts.steps[index]]
    with pytest.raises(CertificateError, match=f"step {index + 1}"):
        check_certificate(rows, facts.form, steps)
    terms = IntegerPolynomial({(SEPARATOR,): 1})
    step = facts.steps[index]._replace(polynomials=(tuple(terms.items()),) * 4)
    assert is_rejected(rows, facts, index, step)


def test_facts_of_a_case_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that holds only in a case is no table afterwards."""
    rows, facts, _ = certificate(monkeypatch)
    index = next(i for i, s in enumerate(facts.steps) if s.rule is Rule.POINT)
    step = facts.steps[index]
    case = Step(Rule.SUPPOSE, (), (1,), (0, 0)), step._replace(numbers=(*step.numbers[:-1],))
    steps = [*facts.steps[:index], *case, Step(Rule.OTHERWISE, ())]
    check_certificate(rows, facts.form, [*steps, Step(Rule.JOIN, ())])
    copy = step._replace(numbers=(), polynomials=step.polynomials[2:] * 2, sources=())
    check_certificate(rows, facts.form, [*facts.steps[: index + 1], copy])
    with pytest.raises(CertificateError):
        check_certificate(rows, facts.form, [*steps, Step(Rule.JOIN, ()), copy])


# --- gadgets


def pedersen(system: r1cs.ConstraintSystem) -> None:
    bits = system.bits(system.public("x"), 212)
    point = gadgets.pedersen_point(system, bits)
    system.output("hash", point.x)
    multiples = gadgets.MontgomeryPoints(system, BABY_JUBJUB)
    product = multiples.multiply_fixed(bits[:40], BABY_JUBJUB.generator)
    system.output("product", product.y)


def test_gadgets_are_unique() -> None:
    report = r1cs.trace(pedersen).check(targets=["all"])
    assert report.is_unique
    assert any(step.rule is Rule.CHORD for step in report.certificate)
