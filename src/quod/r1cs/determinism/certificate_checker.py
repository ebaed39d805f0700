"""An independent checker of certificates: replays each step against the constraints.

It shares no arithmetic with propagation. It relies on the records `Rows`, `NormalForm` and `Step`,
and on Python's integers. `check_certificate` first checks that the equations and products are
those of the constraints, then that each step's premises hold when it is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as combinations

from quod.errors import QuodError
from quod.r1cs.determinism.normal_form import Affine, Equation, NormalForm
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.rules import Step

Bounds = tuple[int, int]
Monomials = dict[tuple[int, ...], int]


class CertificateError(QuodError):
    """A step of a certificate does not follow from the constraints and the steps before it."""


def check_certificate(rows: Rows, form: NormalForm, steps: Sequence[Step]) -> bytearray:
    """Replay a certificate; return 1 for each node that it proves to be determined, else 0.

    Raises CertificateError for the first step that does not follow.
    """
    checker = _Checker(rows, form)
    for number, step in enumerate(steps):
        if not getattr(checker, step.rule.name.lower())(step):
            raise CertificateError(f"step {number} of the certificate, {step}, does not follow")
    return checker.determined


def check_normal_form(rows: Rows, form: NormalForm) -> None:
    """Check that each equation and product states its constraint or defines its form."""
    p = rows.prime
    seen = bytearray(len(form.forms))
    for equation in form.equations:
        terms = dict(zip(equation.nodes, equation.coefficients))
        if len(terms) != len(equation.nodes) or not all(terms.values()):
            raise CertificateError(f"{equation} repeats a node or has a coefficient of 0")
        if equation.row < 0:
            node = max(terms)
            factor, position = terms.pop(node), node - form.wires
            wires, coefficients = form.forms[position]
            if factor != p - 1 or equation.constant or terms != dict(zip(wires, coefficients)):
                raise CertificateError(f"{equation} is not the definition of node {node}")
            seen[position] = 1
        else:
            a, b, c = (_sums(rows, matrix, equation.row) for matrix in range(3))
            if a.keys() - {0}:
                a, b = b, a
            factor = a.get(0, 0)
            stated = {wire: b.get(wire, 0) * factor - c.get(wire, 0) for wire in {0, *b, *c}}
            terms[0] = equation.constant
            if a.keys() - {0} or not _equal(stated, terms, p):
                raise CertificateError(f"{equation} is not constraint {equation.row}")
    if not all(seen):
        raise CertificateError("a form has no definition")
    for product in form.products:
        for matrix, (factor, node, constant) in enumerate(product[:3]):
            terms = {0: constant}
            if node >= form.wires:
                wires, coefficients = form.forms[node - form.wires]
                terms.update((wire, k * factor) for wire, k in zip(wires, coefficients))
            elif factor:
                terms[node] = factor
            if not _equal(_sums(rows, matrix, product.row), terms, p):
                raise CertificateError(f"{product} is not constraint {product.row}")


def _sums(rows: Rows, matrix: int, row: int) -> dict[int, int]:
    """Return the coefficients by wire of a side of a constraint."""
    sums: dict[int, int] = {}
    for wire, k in zip(*rows.side(matrix, row)):
        sums[wire] = (sums.get(wire, 0) + k) % rows.prime
    return {wire: k for wire, k in sums.items() if k}


def _equal(first: dict[int, int], second: dict[int, int], prime: int) -> bool:
    return all(
        (first.get(wire, 0) - second.get(wire, 0)) % prime == 0 for wire in {*first, *second}
    )


class _Checker:
    """The facts that the steps so far have proved; each rule has a method with its name.

    equations: those of the normal form, and those that steps have split from them.
    determined: 1 for each determined node.
    bounds: ranges of nodes.
    never: pairs of a node and a value that it never has.
    """

    def __init__(self, rows: Rows, form: NormalForm) -> None:
        self.rows, self.form, self.p = rows, form, rows.prime
        self.equations = list(form.equations)
        self.determined = bytearray(form.nodes)
        self.bounds: dict[int, Bounds] = {}
        self.never: set[tuple[int, int]] = set()
        for wire in rows.inputs:
            self.determined[wire] = 1

    def fixed(self, *terms: Affine) -> bool:
        return all(not term.factor or self.determined[term.node] for term in terms)

    def is_nonzero(self, term: Affine) -> bool:
        if not term.factor:
            return term.constant % self.p != 0
        if (term.node, self.root(term)) in self.never:
            return True
        return term.node in self.bounds and not self.inside(self.root(term), term.node)

    def root(self, term: Affine) -> int:
        return -term.constant * pow(term.factor, -1, self.p) % self.p

    def inside(self, value: int, node: int) -> bool:
        low, high = self.bounds[node]
        return low + (value - low) % self.p <= high

    def signed(self, number: int) -> int:
        number %= self.p
        return number if 2 * number <= self.p else number - self.p

    def combined(self, step: Step) -> tuple[dict[int, int], int]:
        """Return the coefficients by node, and the constant, of the step's sum of equations."""
        terms: dict[int, int] = {}
        constant = 0
        for index, multiplier in step.equations:
            equation = self.equations[index]
            constant += equation.constant * multiplier
            for node, k in zip(equation.nodes, equation.coefficients):
                terms[node] = (terms.get(node, 0) + k * multiplier) % self.p
        return {node: k for node, k in terms.items() if k}, constant % self.p

    def conclude(self, nodes: Iterable[int], *premises: bool) -> bool:
        for node in nodes:
            self.determined[node] = 1
        return all(premises)

    def conclude_range(self, step: Step, low: int, high: int) -> bool:
        """Accept the step's bounds if they cover the derived ones, as far as the node has them."""
        p, claim, node = self.p, step.bounds, step.node
        if claim is None or not claim[0] <= claim[1] < claim[0] + p or high - low >= p:
            return False
        parts = [(low, high)]
        if node in self.bounds:
            first, last = self.bounds[node]
            shifts = range((low - last) // p, (high - first) // p + 2)
            parts = [(max(low, first + t * p), min(high, last + t * p)) for t in shifts]
        for start, end in parts:
            if start <= end and (start - claim[0]) % p + end - start > claim[1] - claim[0]:
                return False
        self.bounds[node] = claim
        return self.conclude([node] if claim[0] == claim[1] else [])

    def conclude_roots(
        self, step: Step, polynomials: Iterable[tuple[int, int, int]]
    ) -> bool:  # fmt: skip
        """Accept the step's bounds if they contain all roots of each a·x² + b·x + c."""
        p, claim = self.p, step.bounds
        if claim is None or not claim[0] <= claim[1] < claim[0] + p or step.node in self.bounds:
            return False
        self.bounds[step.node] = claim
        for a, b, c in polynomials:
            roots = self.all_roots(a % p, b % p, c % p, claim)
            if roots is None or not all(self.inside(root, step.node) for root in roots):
                return False
        return self.conclude([step.node] if claim[0] == claim[1] else [])

    def all_roots(self, a: int, b: int, c: int, hints: Bounds) -> list[int] | None:
        """Return all roots of a polynomial, or None if there are too many or none is guessed.

        A guess of one root, at or near the hints, gives the other one by their sum.
        """
        p = self.p
        if not a:
            return [-c * pow(b, -1, p) % p] if b else [] if c else None
        for guess in (*hints, *range(hints[0] + 1, min(hints[1], hints[0] + 65))):
            if (a * guess * guess + b * guess + c) % p == 0:
                return [guess, -b * pow(a, -1, p) - guess]
        is_square = p == 2 or pow(b * b - 4 * a * c, (p - 1) // 2, p) != p - 1
        return None if is_square else []

    # --- rules

    def linear(self, step: Step) -> bool:
        undetermined = [node for node in self.combined(step)[0] if not self.determined[node]]
        return self.conclude(undetermined, undetermined == [step.node])

    def digits(self, step: Step) -> bool:
        terms = self.combined(step)[0]
        nodes = [node for node in terms if not self.determined[node]]
        if not all(node in self.bounds for node in nodes):
            return False
        reach = 0
        widths = [self.bounds[node][1] - self.bounds[node][0] for node in nodes]
        weights = [abs(self.signed(terms[node])) for node in nodes]
        for weight, width in sorted(zip(weights, widths)):
            if weight <= reach:
                return False
            reach += weight * width
        return self.conclude(nodes, reach < self.p)

    def sum_range(self, step: Step) -> bool:
        terms, constant = self.combined(step)
        if step.node not in terms or not all(
            node in self.bounds for node in terms if node != step.node
        ):
            return False
        inverse = pow(-terms.pop(step.node), -1, self.p)
        low = high = self.signed(constant * inverse)
        for node, k in terms.items():
            ends = [self.signed(k * inverse) * bound for bound in self.bounds[node]]
            low, high = low + min(ends), high + max(ends)
        return self.conclude_range(step, low, high)

    def product(self, step: Step) -> bool:
        a, b, c, _ = self.form.products[step.products[0]]
        return self.conclude([c.node], c.node == step.node, c.factor != 0, self.fixed(a, b))

    def quotient(self, step: Step) -> bool:
        a, b, c, _ = self.form.products[step.products[0]]
        return self.fixed(c) and any(
            self.fixed(factor) and self.is_nonzero(factor) and other.factor != 0
            and other.node == step.node and self.conclude([step.node])
            for factor, other in ((a, b), (b, a))
        )  # fmt: skip

    def factor_is_zero(self, step: Step) -> bool:
        a, b, c, _ = self.form.products[step.products[0]]
        return (c.factor, c.constant) == (0, 0) and any(
            self.is_nonzero(factor) and other.factor != 0 and other.node == step.node
            and self.conclude_range(step, self.root(other), self.root(other))
            for factor, other in ((a, b), (b, a))
        )  # fmt: skip

    def nonzero(self, step: Step) -> bool:
        a, b, c, _ = self.form.products[step.products[0]]
        proved = [c] if self.is_nonzero(a) and self.is_nonzero(b) else []
        proved += [a, b] if self.is_nonzero(c) else []
        value = step.bounds[0] if step.bounds else -1
        holds = any(
            term.factor and term.node == step.node and self.root(term) == value for term in proved
        )
        self.never.add((step.node, value))
        return holds

    def product_range(self, step: Step) -> bool:
        a, b, c, _ = self.form.products[step.products[0]]
        if not (a.factor and b.factor and c.factor and c.node == step.node):
            return False
        if a.node not in self.bounds or b.node not in self.bounds:
            return False
        inverse = pow(c.factor, -1, self.p)
        scale, offset = (
            self.signed(k * inverse) for k in (a.factor * b.factor, -c.constant)
        )  # fmt: skip
        # x - root(a) is the value of a divided by its factor.
        u, v = self.signed(-self.root(a)), self.signed(-self.root(b))
        ends = [
            scale * (x + u) * (y + v) + offset
            for x in self.bounds[a.node]
            for y in self.bounds[b.node]
        ]
        return self.conclude_range(step, min(ends), max(ends))

    def roots(self, step: Step) -> bool:
        (ka, na, ca), (kb, nb, cb), (kc, nc, cc), _ = self.form.products[step.products[0]]
        if any(k and node != step.node for k, node in ((ka, na), (kb, nb), (kc, nc))):
            return False
        return self.conclude_roots(step, [(ka * kb, ka * cb + kb * ca - kc, ca * cb - cc)])

    def cases(self, step: Step) -> bool:
        row = self.form.products[step.products[0]].row
        sides = [_sums(self.rows, matrix, row) for matrix in range(3)]
        others = sorted({wire for side in sides for wire in side} - {0, step.node})
        if not all(wire in self.bounds for wire in others):
            return False
        values = [range(self.bounds[wire][0], self.bounds[wire][1] + 1) for wire in others]
        polynomials = []
        for choice in combinations(*values):
            assignment = {0: 1, **dict(zip(others, choice))}
            (ka, ca), (kb, cb), (kc, cc) = (
                (
                    side.get(step.node, 0),
                    sum(k * assignment[wire] for wire, k in side.items() if wire != step.node),
                )
                for side in sides
            )
            polynomials.append((ka * kb, ka * cb + kb * ca - kc, ca * cb - cc))
        return self.conclude_roots(step, polynomials)

    def sign(self, step: Step) -> bool:
        a, b, c, _ = self.form.products[step.products[0]]
        if not (a.factor and b.factor and a.node == b.node == step.node in self.bounds):
            return False
        low, high = self.bounds[step.node]
        # Sums of two different numbers of the range.
        least, most = 2 * low + 1, 2 * high - 1
        total = self.root(a) + self.root(b)
        apart = least + (total - least) % self.p > most
        return self.conclude([step.node], self.fixed(c), apart)

    def zero_test(self, step: Step) -> bool:
        a, b, z, _ = self.form.products[step.products[0]]
        d, e, v, _ = self.form.products[step.products[1]]
        return self.fixed(z) and v.factor != 0 and v.node == step.node and any(
            x.factor != 0 and self.fixed(x) and w.factor != 0 and w.node == step.node
            and any(
                y.factor != 0 and y.node == x.node and self.root(x) == self.root(y)
                for y in (d, e)
            )
            and self.conclude([step.node])
            for x, w in ((a, b), (b, a))
        )  # fmt: skip

    def one_hot(self, step: Step) -> bool:
        nodes = {node for node in self.combined(step)[0] if not self.determined[node]}
        zeros: dict[int, int] = {}
        selectors = set()
        for index in step.products:
            a, b, z, _ = self.form.products[index]
            x, y = (a, b) if b.node in nodes else (b, a)
            if x.factor and y.factor and y.node in nodes and self.fixed(x, z):
                zeros[y.node] = self.root(x)
                selectors.add(x.node)
        distinct = len(set(zeros.values())) == len(zeros) and len(selectors) == 1
        return self.conclude(nodes, zeros.keys() == nodes, distinct)

    def split(self, step: Step) -> bool:
        terms, constant = self.combined(step)
        modulus, offset = step.bounds or (0, 0)
        if modulus < 1 or not all(node in self.bounds for node in terms):
            return False
        weights = {node: self.signed(k) for node, k in terms.items()}
        low = {node: self.nearest(k, modulus) for node, k in weights.items()}
        high = {node: (weights[node] - k) // modulus for node, k in low.items()}
        totals = [
            total
            for total in (constant, constant - self.p)
            if self.is_within(weights, total, self.p) and (total - offset) % modulus == 0
        ]
        if not totals or not self.is_within(low, offset, modulus):
            return False
        for part, total in ((low, offset), (high, (totals[0] - offset) // modulus)):
            residues = {node: k % self.p for node, k in part.items() if k}
            self.equations.append(
                Equation(tuple(residues), tuple(residues.values()), total % self.p, 0)
            )
        return True

    def nearest(self, number: int, modulus: int) -> int:
        """Return the remainder of least magnitude; a tie has the sign of the number."""
        magnitude = abs(number) % modulus
        if 2 * magnitude > modulus:
            magnitude -= modulus
        return magnitude if number > 0 else -magnitude

    def is_within(self, weights: dict[int, int], total: int, limit: int) -> bool:
        """Return whether the total and the weighted nodes sum up to between -limit and limit."""
        ends = [[k * bound for bound in self.bounds[node]] for node, k in weights.items()]
        return -limit < total + sum(map(min, ends)) and total + sum(map(max, ends)) < limit

    def edwards(self, step: Step) -> bool:
        index, base, *others = step.products
        a, b, n, _ = self.form.products[index]
        t = self.form.products[base].c
        numerator = self.polynomial(n)
        for other in others:
            numerator = self.with_product(numerator, other)
        u, v = (weight % self.p for weight in step.bounds or (0, 0))
        for f, y in ((a, b), (b, a)):
            if not (f.factor and y.factor and t.factor and y.node == step.node):
                continue
            if f.node != t.node or not self.fixed(f, n):
                continue
            total = self.root(f) * t.factor + t.constant
            square = -total * u * pow(v, -1, self.p) if v else 0
            is_undefined = (
                total % self.p == 0 if (u == 0) != (v == 0)
                else self.p == 2 or pow(square, (self.p - 1) // 2, self.p) != self.p - 1
            )  # fmt: skip
            for first, second in self.factorings(base, others):
                terms = {*numerator, *first, *second}
                difference = (
                    numerator.get(m, 0) - u * first.get(m, 0) - v * second.get(m, 0) for m in terms
                )
                if not is_undefined and not any(k % self.p for k in difference):
                    return self.conclude([step.node])
        return False

    def factorings(self, base: int, others: Sequence[int]) -> list[tuple[Monomials, Monomials]]:
        """Return pairs of polynomials whose product is the product `base`, before its constant."""
        a, b, _, _ = self.form.products[base]
        pairs = [(self.polynomial(a), self.polynomial(b))]
        for first in others:
            for second in others:
                (c, d, ab, _), (e, f, cd, _) = (self.form.products[i] for i in (first, second))
                if (ab.node, cd.node) == (a.node, b.node) and not any(
                    (ab.constant, cd.constant, a.constant, b.constant)
                ):
                    k = a.factor * b.factor * pow(ab.factor * cd.factor, -1, self.p)
                    p, q, r, s = (self.polynomial(term) for term in (c, d, e, f))
                    p = {m: value * k for m, value in p.items()}
                    pairs += [(_times(p, r), _times(q, s)), (_times(p, s), _times(q, r))]
        return pairs

    def polynomial(self, term: Affine) -> Monomials:
        """Return an affine term as coefficients by monomial, a sorted tuple of wires."""
        if term.node < self.form.wires:
            return {(): term.constant, (term.node,): term.factor}
        wires, coefficients = self.form.forms[term.node - self.form.wires]
        terms: Monomials = {(wire,): k * term.factor for wire, k in zip(wires, coefficients)}
        return {(): term.constant, **terms}

    def with_product(self, polynomial: Monomials, index: int) -> Monomials:
        """Replace the product c of a product by a * b, in monomials of which it is one wire."""
        a, b, c, _ = self.form.products[index]
        wire = (c.node,)
        if wire not in polynomial or not c.factor or c.node >= self.form.wires:
            return polynomial
        k = polynomial[wire] * pow(c.factor, -1, self.p)
        product = _times(self.polynomial(a), self.polynomial(b))
        product[()] = product.get((), 0) - c.constant
        terms = {monomial: value for monomial, value in polynomial.items() if monomial != wire}
        for monomial, value in product.items():
            terms[monomial] = terms.get(monomial, 0) + k * value
        return terms


def _times(left: Monomials, right: Monomials) -> Monomials:
    product: Monomials = {}
    for first, k in left.items():
        for second, m in right.items():
            monomial = tuple(sorted((*first, *second)))
            product[monomial] = product.get(monomial, 0) + k * m
    return product
