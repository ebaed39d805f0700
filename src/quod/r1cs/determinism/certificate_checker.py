"""An independent checker of certificates: replays each step against the constraints.

With the search it shares `arithmetic` and the records `Rows`, `NormalForm`, `Lemma` and `Step`. A
constraint is a polynomial that is 0. The normal form's products are compared with their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import product as cartesian
from typing import Any

from quod.r1cs.determinism.arithmetic import IntegerPolynomial as Sum
from quod.r1cs.determinism.arithmetic import PointSet, Range, Subgroup, verified_roots
from quod.r1cs.determinism.normal_form import Affine, NormalForm
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.rules import CertificateError, Lemma, Rule, Step


def check_certificate(
    rows: Rows, form: NormalForm, steps: Sequence[Step], lemmas: Sequence[Lemma] = ()
) -> bytearray:
    """Replay a certificate; return 1 for each node that it proves to be determined, else 0."""
    checker = _Checker(Lemma(rows, form, {}, steps), [_Checker(lemma, ()) for lemma in lemmas])
    return bytearray(node in checker.determined for node in range(form.nodes))


SEPARATOR = 1 << 62
"""A variable of no constraint: polynomials times different powers of it add up without mixing."""


class _Checker:
    """The facts that the steps so far have proved; each rule has a method with its name."""

    def __init__(self, lemma: Lemma, lemmas: Sequence[_Checker]) -> None:
        (self.rows, self.form, bounds, steps), rows, form = lemma, lemma.rows, lemma.form
        self.p, self.nodes = rows.prime, rows.wires + len(form.forms)
        self.premise, self.lemmas, self.bounds = bounds, lemmas, {**bounds}
        self.products = {product.row: product for product in form.products}
        self.determined = dict.fromkeys((0, *rows.inputs), True)
        self.excluded, self.spans = dict[Any, bool](), dict[Any, bool]()
        self.log, self.open_cases, self.is_absurd = list[Any](), list[Any](), False
        self.derived = [self.wires(n) - {(n,): 1} for n in range(rows.wires, self.nodes)]
        self.inverse = cache(lambda number: pow(number, -1, self.p))
        self.points, self.groups = dict[Any, Any](), cache(partial(Subgroup, self.p))
        for row, matrix in cartesian(self.products, range(3)):
            (factor, node, k), side = self.products[row][:3][matrix], rows.side(matrix, row)
            if k or [*map(list, side)] != ([[node], [factor]] if factor else [[], []]):
                terms = self.side(matrix, row) - self.wires(node) * {(): factor} - {(): k}
                if any(k % self.p for k in terms.values()):
                    raise CertificateError(f"the product of row {row} is not that of the row")
        for number, step in enumerate(steps):
            with suppress(LookupError, ValueError, TypeError):
                if getattr(self, step.rule.name.lower())(step):
                    continue
            raise CertificateError(f"step {number} of the certificate, {step}, does not follow")
        if self.open_cases:
            raise CertificateError("the certificate ends in a case")

    def side(self, matrix: int, row: int) -> Sum:
        wires, ks = self.rows.side(matrix, row)
        monomials = [(wire,) if wire else () for wire in wires]
        terms = zip(monomials, ks)
        return Sum(terms) if len({*wires}) == len(wires) else Sum.of(terms)

    def wires(self, node: int) -> Sum:
        is_form = node >= self.rows.wires
        terms = zip(*self.form.forms[node - self.rows.wires]) if is_form else ((node, 1),)
        return Sum({(range(self.rows.wires)[wire],): k for wire, k in terms})

    def constraint(self, reference: int, in_wires: bool) -> Sum:
        offset = reference - self.rows.count
        if offset >= 0:
            return self.derived[offset]
        if in_wires or reference not in self.products:
            a, b, c = (self.side(matrix, range(self.rows.count)[reference]) for matrix in range(3))
        else:
            a, b, c = (Sum({(n,): f, (): k}) for f, n, k in self.products[reference][:3])
        return a * b - c

    def combined(self, step: Step, in_wires: bool = True, claims: Iterable[Sum] = ()) -> Sum:
        """Return the sum of multiples of constraints as residues next to 0, constants as values.

        Subtract each claim times a power of `SEPARATOR`: if nothing is left, all claims are 0.
        """
        total = Sum()
        for power, claim in enumerate(claims):
            total -= claim * {(SEPARATOR,) * power: 1}
            if SEPARATOR in self.bounds or any(SEPARATOR in monomial for monomial in claim):
                raise ValueError("the separator is a node")
        for reference, multiplier in step.sources:
            factor = dict(multiplier if isinstance(multiplier, tuple) else [((), multiplier)])
            total += self.constraint(reference, in_wires) * factor
        ends = {node: self.bounds.get(node, (0, 1)) for monomial in total for node in monomial}
        total = total.at({node: low for node, (low, high) in ends.items() if low == high})
        half = self.p // 2
        return Sum({m: (k + half) % self.p - half for m, k in total.items() if k % self.p})

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self.log.append((table, key, table.get(key)))
        table[key] = value

    def root(self, term: Affine) -> int:
        return -term.constant * self.inverse(term.factor) % self.p

    def is_nonzero(self, term: Affine) -> bool:
        if not term.factor:
            return term.constant % self.p != 0
        root, (low, high) = self.root(term), self.bounds.get(term.node, (0, self.p))
        return (root - low) % self.p > high - low or (term.node, root) in self.excluded

    def exclude(self, node: int, value: int) -> bool:
        low, high = self.bounds.get(node, (0, self.p - 1))
        self.put(self.excluded, (node, value % self.p), True)
        self.is_absurd |= bool(self.open_cases) and low == high == value
        bounds = low + (value == low), high - (value == high)
        return self.conclude([node] if node in self.bounds and low < high else [], True, bounds)

    def conclude(self, nodes: Iterable[int], holds: bool, bounds: Range | None = None) -> bool:
        for node in nodes:
            if bounds is not None:
                self.put(self.bounds, node, bounds)
            if bounds is None or bounds[0] == bounds[1]:
                self.put(self.determined, node, True)
        return holds

    def conclude_range(self, step: Step, parts: list[Range]) -> bool:
        """Accept the step's bounds if they hold all integers of the parts; no integer is absurd."""
        (node,) = step.nodes
        low, high = self.bounds.get(node, (0, self.p - 1))
        parts = [
            (start, end) for first, last in parts
            for t in range((first - high) // self.p, (last - low) // self.p + 2)
            if (start := max(first, low + t * self.p)) <= (end := min(last, high + t * self.p))
        ]  # fmt: skip
        if self.open_cases and not parts:
            self.is_absurd = True
            return True
        low, high = step.bounds
        holds = all((first - low) % self.p + last - first <= high - low for first, last in parts)
        return self.conclude(step.nodes, low <= high < low + self.p and holds, (low, high))

    def interval(self, terms: Sum) -> Range:
        """Return bounds of a sum of integers: those of groups of terms that share nodes."""
        low, high, groups = 0, 0, [Sum({(): 0})]
        for m, k in terms.items():
            if len({*m}) < len(m):
                raise ValueError("a square")
            groups += [] if any({*m} & {*other} for other in groups[-1]) else [Sum()]
            groups[-1][m] = k
        for group in groups:
            ends = {node: self.bounds[node] for m in group for node in m}
            sums = [group.at(dict(zip(ends, each)))[()] for each in cartesian(*ends.values())]
            low, high = low + min(sums), high + max(sums)
        return low, high

    def digits(self, step: Step) -> bool:
        terms = self.combined(step, in_wires=False)
        weights = {m: k for m, k in terms.items() if not {*m} <= self.determined.keys()}
        integers, reach = Sum(*step.polynomials) or weights, 0
        for weight, (node,) in sorted((abs(k), m) for m, k in integers.items()):
            if weight <= reach or (integers[node,] - weights[node,]) % self.p:
                return False
            low, high = self.bounds[node] if len(weights) > 1 else (0, 0)
            reach += weight * (high - low)
        is_unique = reach < self.p or frozenset(integers.items()) in self.spans
        return self.conclude((n for (n,) in weights), is_unique and len(integers) == len(weights))

    def quotient(self, step: Step) -> bool:
        a, b, c, _ = self.products[step.sources[0][0]]
        for factor, other in ((a, b), (b, a)):
            if other.factor % self.p and (other.node,) == step.nodes and self.is_nonzero(factor):
                if step.bounds[0] <= step.bounds[1]:
                    zero = self.root(other)
                    return c == (0, 0, 0) and self.conclude_range(step, [(zero, zero)])
                return self.conclude(step.nodes, {factor.node, c.node} <= self.determined.keys())
        return False

    def sign(self, step: Step) -> bool:
        a, b, c, _ = self.products[step.sources[0][0]]
        least, most = 2 * self.bounds[a.node][0] + 1, 2 * self.bounds[a.node][1] - 1
        apart = least + (self.root(a) + self.root(b) - least) % self.p > most
        return self.conclude([a.node], a.node == b.node and apart and c.node in self.determined)

    def range(self, step: Step) -> bool:
        terms = self.combined(step, in_wires=False)
        if terms.pop(step.nodes) != -1 or any(step.nodes[0] in monomial for monomial in terms):
            return False
        low, high = self.interval(terms)
        return high - low < self.p and self.conclude_range(step, [(low, high)])

    def roots(self, step: Step) -> bool:
        terms = self.combined(step, in_wires=step.rule is Rule.CASES)
        others = {n: self.bounds[n] for m in terms for n in m if n not in step.nodes}
        parts = []
        for choice in cartesian(*(range(low, high + 1) for low, high in others.values())):
            terms_of_node = terms.at(dict(zip(others, choice)))
            a, b, c = (terms_of_node.pop(step.nodes * degree, 0) % self.p for degree in (2, 1, 0))
            if any(terms_of_node.values()):
                raise ValueError("the degree is above 2")
            parts += [(root, root) for root in verified_roots(step.bounds, a, b, c, self.p)]
        return self.conclude_range(step, parts)

    cases = roots

    def nonzero(self, step: Step) -> bool:
        a, b, c, _ = self.products[step.sources[0][0]]
        proved = [a, b] * self.is_nonzero(c) + [c] * (self.is_nonzero(a) and self.is_nonzero(b))
        fact = (*step.nodes, step.bounds[0])
        return any((t.node, self.root(t)) == fact and self.exclude(*fact) for t in proved)

    def split(self, step: Step) -> bool:
        (modulus, _), (low, high) = step.bounds, map(Sum, step.polynomials)
        total = low + high * {(): modulus}
        self.derived += [low, high]
        bounds = ((modulus, self.interval(low)), (self.p, self.interval(total)))
        are_small = all(-limit < end < limit for limit, ends in bounds for end in ends)
        return are_small and not self.combined(step, claims=[total])

    def derive(self, step: Step) -> bool:
        terms, nodes = self.combined(step), range(self.nodes)
        for definition in map(Sum, step.polynomials):
            terms = definition - {(self.nodes,): 1}
            self.nodes += 1
        self.derived.append(terms)
        return all(node in nodes for terms in step.polynomials for m, _ in terms for node in m)

    def point(self, step: Step) -> bool:
        (x, y, u, v), source = map(Sum, step.polynomials), step.polynomials[2:]
        if step.numbers:
            ends = {n: self.bounds[n] for m in (*u, *v) for n in m}
            choices = cartesian(*(range(low, high + 1) for low, high in ends.values()))
            values = [dict(zip(ends, choice)) for choice in choices]
            points = [(u.at(each).get((), 0), v.at(each).get((), 0)) for each in values]
            table = PointSet.of(self.groups(*step.numbers[:5]), step.numbers[5:], points)
            self.put(self.points, source, table)
        self.put(self.points, step.polynomials[:2], self.points[source])
        holds = not self.combined(step, claims=(x - u, y - v))
        return holds and all(y == {(node,): 1} and self.exclude(node, 0) for node in step.nodes)

    def chord(self, step: Step) -> bool:
        (x1, y1, x2, y2, x3, y3), (slope,) = map(Sum, step.polynomials), step.nodes
        first, second = self.points[step.polynomials[:2]], self.points[step.polynomials[2:4]]
        self.put(self.points, step.polynomials[4:], first.plus(second))
        curve, line = first.group, Sum({(slope,): 1})
        square = line * line * {(): curve.b} - {(): curve.a} - x1 - x2 - x3
        claims = line * (x2 - x1) - (y2 - y1), square, line * (x1 - x3) - y1 - y3
        are_determined = self.determined.keys() >= {n for m in (*x1, *y1, *x2, *y2) for n in m}
        return self.conclude([slope] * are_determined, not self.combined(step, claims=claims))

    def lemma(self, step: Step) -> bool:
        first, wires, lemma = step.sources[0][0], (0, *step.nodes), self.lemmas[step.bounds[0]]
        holds = (self.p, len(wires)) == (lemma.p, lemma.rows.wires)
        holds = holds and lemma.rows.is_at(first, self.rows, wires)
        holds = holds and all(wires[wire] in self.determined for wire in lemma.rows.inputs)
        for wire, (low, high) in lemma.premise.items():
            least, most = self.bounds[wires[wire]]
            holds = holds and (least - low) % self.p + most - least <= high - low
        for table, facts in ((self.determined, lemma.determined), (self.bounds, lemma.bounds)):
            for wire in facts.keys() & {*lemma.rows.targets} if holds else ():
                self.put(table, wires[wire], facts[wire])
        return holds

    def suppose(self, step: Step) -> bool:
        checkpoint = len(self.log), len(self.derived), self.is_absurd
        self.open_cases.append((step, step.nodes[0] in self.determined, checkpoint, False))
        node = step._replace(nodes=step.nodes[:1])
        return len({*step.bounds}) == 1 and self.conclude_range(node, [step.bounds])

    def otherwise(self, _step: Step) -> bool:
        step, is_determined, checkpoint, is_second = self.close()
        self.open_cases.append((step, is_determined, checkpoint, True))
        return not is_second and self.exclude(step.nodes[0], step.bounds[0])

    def join(self, _step: Step) -> bool:
        step, *_, is_second = self.close()
        for terms in step.polynomials:
            self.put(self.spans, frozenset(terms), True)
        return self.conclude(step.nodes[1:], is_second)

    def close(self) -> Any:
        """Check that the innermost case implies its claim; restore the facts before it."""
        step, is_determined, (logged, derived, was_absurd), _ = case = self.open_cases.pop()
        holds = self.determined.keys() >= {*step.nodes[1:]}
        for terms in map(Sum, step.polynomials):
            low, high = self.interval(terms)
            are_bits = all({*self.bounds[node]} <= {0, 1} for m in terms for node in m)
            is_span = frozenset(terms.items()) in self.spans
            holds = holds and (is_span or (are_bits and low >= 0 and high < self.p))
        if not (self.is_absurd or holds) or (step.nodes[1:] and not is_determined):
            raise ValueError("the claim does not follow")
        for table, key, value in reversed(self.log[logged:]):
            table[key] = value
            if value is None:
                del table[key]
        del self.log[logged:], self.derived[derived:]
        self.is_absurd = was_absurd
        return case
