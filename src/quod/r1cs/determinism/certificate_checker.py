"""An independent checker of certificates: replays each step against the constraints.

It shares only the records `Rows`, `NormalForm` and `Step` with propagation. A constraint is a
polynomial that is 0. A product of affine terms is compared with its row before its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import product as combinations
from math import prod
from typing import Any

from quod.errors import QuodError
from quod.r1cs.determinism.arithmetic import Range as Bounds
from quod.r1cs.determinism.normal_form import Affine, NormalForm, Product
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.rules import NO_RANGE, Polynomial, Rule, Step


class CertificateError(QuodError):
    """A step of a certificate does not follow from the constraints and the steps before it."""


def check_certificate(rows: Rows, form: NormalForm, steps: Sequence[Step]) -> bytearray:
    """Replay a certificate; return 1 for each node that it proves to be determined, else 0."""
    checker = _Checker(rows, form)
    for number, step in enumerate(steps):
        with suppress(LookupError, ValueError, TypeError):
            if getattr(checker, step.rule.name.lower())(step):
                continue
        raise CertificateError(f"step {number} of the certificate, {step}, does not follow")
    if checker.open_cases:
        raise CertificateError("the certificate ends in a case")
    return bytearray(node in checker.determined for node in range(form.nodes))


def _add(total: Polynomial, terms: Polynomial, factor: int) -> Polynomial:
    """Add a multiple of a polynomial to another one in place; return it."""
    for monomial, k in terms.items():
        total[monomial] = total.get(monomial, 0) + k * factor
    return total


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    left, right = sorted((left, right), key=len)
    if left.keys() == {()}:
        return {monomial: k * left[()] for monomial, k in right.items()}
    result: Polynomial = {}
    for first, k in left.items():
        for second, m in right.items():
            _add(result, {tuple(sorted((*first, *second))): k * m}, 1)
    return result


class _Checker:
    """The facts that the steps so far have proved; each rule has a method with its name."""

    def __init__(self, rows: Rows, form: NormalForm) -> None:
        self.rows, self.form, self.p, self.nodes = rows, form, rows.prime, form.nodes
        self.products = {product.row: product for product in form.products}
        self.determined = dict.fromkeys((0, *rows.inputs), True)
        self.bounds, self.never = dict[int, Bounds](), dict[tuple[int, int], bool]()
        self.spans = dict[frozenset[tuple[tuple[int, ...], int]], bool]()
        self.verified, self.derived, self.is_absurd = set[int](), list[Polynomial](), False
        self.log, self.open_cases = list[tuple[dict[Any, Any], Any, Any]](), list[Any]()

    def side(self, matrix: int, row: int) -> Polynomial:
        terms: Polynomial = {}
        for wire, k in zip(*self.rows.side(matrix, row)):
            _add(terms, {(wire,) if wire else (): k}, 1)
        return terms

    def wires(self, node: int) -> Polynomial:
        is_form = node >= self.form.wires
        terms = zip(*self.form.forms[node - self.form.wires]) if is_form else ((node, 1),)
        return {(wire,): k for wire, k in terms}

    def product(self, row: int) -> Product:
        product = self.products[row]
        for matrix, (factor, node, k) in enumerate(() if row in self.verified else product[:3]):
            difference = _add(_add({(): k}, self.side(matrix, row), -1), self.wires(node), factor)
            if any(k % self.p for k in difference.values()):
                raise ValueError("another product than that of the row")
        self.verified.add(row)
        return product

    def constraint(self, reference: int, in_wires: bool) -> Polynomial:
        form = reference - self.rows.count
        if form >= len(self.form.forms):
            return self.derived[form - len(self.form.forms)]
        if form >= 0:
            return {**self.wires(self.form.wires + form), (self.form.wires + form,): -1}
        if in_wires or reference not in self.products:
            a, b, c = (self.side(matrix, range(self.rows.count)[reference]) for matrix in range(3))
        else:
            a, b, c = (
                {(): k, **({(n,): f} if f else {})} for f, n, k in self.product(reference)[:3]
            )
        return _add(_times(a, b), c, -1)

    def combined(self, step: Step, in_wires: bool = True) -> Polynomial:
        """Return the sum of multiples of constraints modulo p, with the values of constants."""
        total: Polynomial = {}
        for reference, multiplier in step.sources:
            factor = multiplier if isinstance(multiplier, tuple) else (((), multiplier),)
            _add(total, _times(self.constraint(reference, in_wires), dict(factor)), 1)
        result: Polynomial = {}
        for monomial, k in total.items():
            for node in monomial:
                low, high = self.bounds.get(node, (0, 1))
                if low == high:
                    k, monomial = k * low, tuple(each for each in monomial if each != node)
            _add(result, {monomial: k}, 1)
        return {monomial: k % self.p for monomial, k in result.items() if k % self.p}

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        if self.open_cases:
            self.log.append((table, key, table.get(key)))
        table[key] = value

    def signed(self, terms: Polynomial, factor: int) -> Polynomial:
        half = self.p // 2
        return {m: (k * factor + half) % self.p - half for m, k in terms.items()}

    def root(self, term: Affine) -> int:
        return -term.constant * pow(term.factor, -1, self.p) % self.p

    def is_nonzero(self, term: Affine) -> bool:
        if not term.factor:
            return term.constant % self.p != 0
        root, (low, high) = self.root(term), self.bounds.get(term.node, (0, self.p))
        return (root - low) % self.p > high - low or (term.node, root) in self.never

    def exclude(self, node: int, value: int) -> bool:
        low, high = self.bounds.get(node, (0, self.p - 1))
        self.put(self.never, (node, value % self.p), True)
        self.is_absurd |= bool(self.open_cases) and low == high == value
        bounds = low + (value == low), high - (value == high)
        return self.conclude([node] if low < high else [], True, bounds)

    def conclude(self, nodes: Iterable[int], holds: bool, bounds: Bounds | None = None) -> bool:
        for node in nodes:
            if bounds is not None:
                self.put(self.bounds, node, bounds)
            if bounds is None or bounds[0] == bounds[1]:
                self.put(self.determined, node, True)
        return holds

    def conclude_range(self, step: Step, parts: list[Bounds]) -> bool:
        """Accept the step's bounds if they contain all integers of the parts; none is absurd."""
        for node in step.nodes[:1]:
            low, high = self.bounds.get(node, (0, self.p - 1))
            parts = [
                (max(first, low + t * self.p), min(last, high + t * self.p))
                for first, last in parts
                for t in range((first - high) // self.p, (last - low) // self.p + 2)
            ]
        parts = [(first, last) for first, last in parts if first <= last]
        if self.open_cases and not parts:
            self.is_absurd = True
            return True
        low, high = step.bounds
        holds = all((first - low) % self.p + last - first <= high - low for first, last in parts)
        return self.conclude(step.nodes[:1], low <= high < low + self.p and holds, (low, high))

    def interval(self, terms: Polynomial) -> Bounds:
        """Return bounds of a sum without squares: products have theirs at corners of ranges."""
        if any(len({*m}) < len(m) for m in terms):
            raise ValueError("a square")
        nodes = {node: self.bounds[node] for m in terms if len(m) > 1 for node in m}
        joint = {m: k for m, k in terms.items() if {*m} <= nodes.keys()}
        points = (dict(zip(nodes, corner)) for corner in combinations(*nodes.values()))
        values = [sum(k * prod(point[n] for n in m) for m, k in joint.items()) for point in points]
        ends = [[k * x for x in self.bounds[m[0]]] for m, k in terms.items() if m not in joint]
        return min(values) + sum(map(min, ends)), max(values) + sum(map(max, ends))

    def digits(self, step: Step) -> bool:
        terms = self.signed(self.combined(step, in_wires=False), 1)
        weights = {m: k for m, k in terms.items() if not {*m} <= self.determined.keys()}
        reach = 0
        for weight, (node,) in sorted((abs(k), m) for m, k in weights.items()):
            if weight <= reach:
                return False
            low, high = self.bounds[node] if len(weights) > 1 else (0, 0)
            reach += weight * (high - low)
        is_unique = reach < self.p or frozenset(weights.items()) in self.spans
        return self.conclude((node for (node,) in weights), is_unique)

    def quotient(self, step: Step) -> bool:
        a, b, c, _ = self.product(step.sources[0][0])
        for factor, other in ((a, b), (b, a)):
            if (other.node,) == step.nodes and other.factor and self.is_nonzero(factor):
                if step.bounds != NO_RANGE:
                    zero = self.root(other)
                    return c == (0, 0, 0) and self.conclude_range(step, [(zero, zero)])
                return self.conclude(step.nodes, {factor.node, c.node} <= self.determined.keys())
        return False

    def sign(self, step: Step) -> bool:
        a, b, c, _ = self.product(step.sources[0][0])
        least, most = 2 * self.bounds[a.node][0] + 1, 2 * self.bounds[a.node][1] - 1
        is_apart = least + (self.root(a) + self.root(b) - least) % self.p > most
        return self.conclude([a.node], a.node == b.node and is_apart and c.node in self.determined)

    def range(self, step: Step) -> bool:
        terms, (node,) = self.combined(step, in_wires=False), step.nodes
        inverse = pow(-terms.pop((node,)), -1, self.p)
        if any(node in monomial for monomial in terms):
            return False
        low, high = self.interval(self.signed(terms, inverse))
        return high - low < self.p and self.conclude_range(step, [(low, high)])

    def roots(self, step: Step) -> bool:
        terms, (unknown,) = self.combined(step, in_wires=step.rule is Rule.CASES), step.nodes
        others = {n: self.bounds[n] for m in terms for n in m if n != unknown}
        parts = []
        for choice in combinations(*(range(low, high + 1) for low, high in others.values())):
            values = dict(zip(others, choice))
            powers = [0] * 9
            for m, k in terms.items():
                factors = [values[node] for node in m if node in values]
                powers[len(m) - len(factors)] += k * prod(factors)
            parts += [(root, root) for root in self.all_roots(step.bounds, *powers)]
        return self.conclude_range(step, parts)

    cases = roots

    def all_roots(self, hints: Bounds, c: int, b: int, a: int, *higher: int) -> list[int]:
        if any(k % self.p for k in higher):
            raise ValueError("the degree is above 2")
        if a % self.p == 0 and (b % self.p or c % self.p):
            return [-c * pow(b, -1, self.p) % self.p] if b % self.p else []
        for guess in (*hints, *range(hints[0] + 1, min(hints[1], hints[0] + 65))):
            if (a * guess * guess + b * guess + c) % self.p == 0:
                return [guess, (-b * pow(a, -1, self.p) - guess) % self.p]
        if self.p == 2 or pow(b * b - 4 * a * c, self.p // 2, self.p) != self.p - 1:
            raise ValueError("no root is near the hints")
        return []

    def nonzero(self, step: Step) -> bool:
        a, b, c, _ = self.product(step.sources[0][0])
        proved = [c] if self.is_nonzero(a) and self.is_nonzero(b) else []
        proved += [a, b] if self.is_nonzero(c) else []
        terms = [term for term in proved if (term.node,) == step.nodes and term.factor]
        return bool(terms) and all(self.exclude(term.node, self.root(term)) for term in terms)

    def split(self, step: Step) -> bool:
        """Split a sum of integers between -p and p in its parts below and from a modulus on."""
        (modulus, _), (low, high) = step.bounds, map(dict, step.polynomials)
        total = _add(dict(low), high, modulus)
        difference = _add(self.combined(step), total, -1)
        self.derived += [low, high]
        bounds = [(bound, self.p) for bound in self.interval(total)]
        bounds += [(bound, modulus) for bound in self.interval(low)]
        is_equal = not any(k % self.p for k in difference.values())
        return is_equal and all(-limit < bound < limit for bound, limit in bounds)

    def derive(self, step: Step) -> bool:
        terms, nodes = self.combined(step), range(self.nodes)
        for definition in map(dict, step.polynomials):
            terms = {**definition, (self.nodes,): -1}
            self.nodes += 1
        self.derived.append(terms)
        return all(node in nodes for terms in step.polynomials for m, _ in terms for node in m)

    def suppose(self, step: Step) -> bool:
        facts = len(self.log), len(self.derived), self.is_absurd
        self.open_cases.append((step, step.nodes[0] in self.determined, facts, False))
        return len({*step.bounds}) == 1 and self.conclude_range(step, [step.bounds])

    def otherwise(self, _step: Step) -> bool:
        step, is_fixed, facts, is_second = self.close()
        self.open_cases.append((step, is_fixed, facts, True))
        return not is_second and self.exclude(step.nodes[0], step.bounds[0])

    def join(self, _step: Step) -> bool:
        step, *_, is_second = self.close()
        for terms in step.polynomials:
            self.put(self.spans, frozenset(term for term in terms if term[0]), True)
        return self.conclude(step.nodes[1:], is_second)

    def close(self) -> Any:
        """Check that the innermost case implies its claim; restore the facts before it."""
        step, is_fixed, (facts, derived, was_absurd), _ = case = self.open_cases.pop()
        holds = self.determined.keys() >= {*step.nodes[1:]}
        for terms in map(dict, step.polynomials):
            low, high = self.interval(terms)
            are_bits = all({*self.bounds[node]} <= {0, 1} for m in terms for node in m)
            holds = holds and are_bits and low >= 0 and high < self.p
        if not (self.is_absurd or holds) or (step.nodes[1:] and not is_fixed):
            raise ValueError("the claim does not follow")
        for table, key, value in reversed(self.log[facts:]):
            table[key] = value
            if value is None:
                del table[key]
        del self.log[facts:], self.derived[derived:]
        self.is_absurd = was_absurd
        return case
