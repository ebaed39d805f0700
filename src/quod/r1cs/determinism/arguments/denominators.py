"""Denominators of the Edwards addition law, which are never 0 together with their numerators.

The law's quotients are N / (1 + k·M1·M2) with N = u·M1 + v·M2, for two products M1 and M2 of
coordinates. If both numerator and denominator are 0, M2² is a constant; if that constant is no
square, they are not. This holds for all values of the coordinates, on the curve or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from quod.r1cs.determinism.arithmetic import Polynomial, inverse
from quod.r1cs.determinism.normal_form import Affine, NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Step, Terms, zero_of


class Candidate(NamedTuple):
    """Two polynomials M1 and M2 with k·M1·M2 = t, the node in the denominator, for some constant k.

    inner: the products that define both factors of t, if M1 and M2 each take a factor of either.
    cross: the product by which N is expanded then.
    """

    first: Polynomial
    second: Polynomial
    inner: tuple[int, ...] = ()
    cross: int = 0

    @property
    def definitions(self) -> tuple[int, ...]:
        """The products by which N is expanded."""
        return tuple(dict.fromkeys((*self.inner, self.cross))) if self.inner else ()


def find_denominators(facts: Propagation) -> None:
    """Determine quotients whose numerator and denominator are never both 0."""
    definitions: dict[int, int] = {}
    for index, product in enumerate(facts.form.products):
        if product.c.factor:
            definitions.setdefault(product.c.node, index)
    # A quotient may be part of another one whose product has a lower number.
    steps = -1
    while steps < len(facts.steps):
        steps = len(facts.steps)
        for index, product in enumerate(facts.form.products):
            for factor, quotient in ((product.a, product.b), (product.b, product.a)):
                if (
                    factor.factor and facts.is_determined(factor)
                    and facts.is_determined(product.c) and not facts.is_determined(quotient)
                    and factor.node in definitions
                ):  # fmt: skip
                    _apply(facts, definitions, index, factor, quotient.node)
                    facts.run()


def _apply(
    facts: Propagation, definitions: dict[int, int], index: int, factor: Affine, node: int
) -> None:
    """Determine a quotient by the first candidate that shows it to be defined."""
    form, prime = facts.form, facts.prime
    base = definitions[factor.node]
    result = form.products[index].c
    if result.factor and result.node == factor.node:
        return
    if any(facts.is_constant(each) for each in (factor.node, result.node if result.factor else 0)):
        return
    for candidate in _candidates(form, definitions, base):
        numerator = affine_polynomial(form, form.products[index].c)
        multipliers = {}
        for other in candidate.definitions:
            value = form.products[other].c
            inverse = pow(value.factor, -1, prime) if value.factor else 0
            multipliers[other] = numerator.get((value.node,), 0) * inverse % prime
            numerator = substituted(form, numerator, other)
        weights = _weights(numerator, candidate.first, candidate.second, prime)
        if weights is None:
            continue
        value = form.products[base].c
        total = (zero_of(factor, prime) * value.factor + value.constant) % prime
        if has_no_zero(total, *weights, prime):
            proof = _Proof(facts, index, base, candidate)
            facts.steps += proof.steps(factor, node, multipliers, weights)
            facts.determine([node])
            return


class _Proof:
    """The certificate that a quotient F * y = N is determined: F = 0 has no witness.

    With F = 0, N is 0 and t a constant. Two new nodes m and w stand for M1 and M2; u·m + v·w = 0
    and m·w = t have no solution.
    """

    def __init__(self, facts: Propagation, index: int, base: int, candidate: Candidate) -> None:
        self._facts, self._form, self._candidate = facts, facts.form, candidate
        self._quotient, self._base = (facts.form.products[each] for each in (index, base))
        self._m, self._w = facts.certificate_nodes, facts.certificate_nodes + 1
        facts.certificate_nodes += 2
        # The derived polynomials: M1 - m, M2 - w and u·m + v·w.
        self._first, self._second, self._sum = (facts.derived + each for each in range(3))

    def steps(
        self, factor: Affine, node: int, multipliers: dict[int, int], weights: tuple[int, int]
    ) -> list[Step]:
        """Return the steps; `multipliers` are those of the products that expand N."""
        form, prime, (u, v) = self._form, self._facts.prime, weights
        numerator, first, second = self._quotient.c, *self._candidate[:2]
        zero = zero_of(factor, prime)
        sources: list[tuple[int, int | Terms]] = [
            (form.products[index].row, k) for index, k in multipliers.items() if k
        ]
        sources += [*self._definition(numerator), (self._first, -u), (self._second, -v)]
        inverse_lead = pow(v or u, -1, prime)
        eliminated: tuple[int, int | Terms] = (
            self._sum, (((self._m if v else self._w,), -inverse_lead),),
        )  # fmt: skip
        return [
            Step(Rule.SUPPOSE, (), (factor.node, node), (zero, zero)),
            Step(
                Rule.RANGE,
                ((self._quotient.row, inverse(numerator.factor, prime)),),
                (numerator.node,),
                self._zero(numerator),
            ),
            Step(Rule.DERIVE, (), polynomials=(terms_of(first),)),
            Step(Rule.DERIVE, (), polynomials=(terms_of(second),)),
            Step(Rule.DERIVE, tuple(sources)),
            Step(Rule.CASES, (*self._product(), eliminated), (self._m,)),
            Step(Rule.OTHERWISE, ()),
            Step(Rule.QUOTIENT, ((self._quotient.row, 1),), (node,)),
            Step(Rule.JOIN, ()),
        ]

    def _zero(self, term: Affine) -> tuple[int, int]:
        zero = zero_of(term, self._facts.prime)
        return zero, zero

    def _definition(self, term: Affine) -> list[tuple[int, int | Terms]]:
        """Return the multiple of the definition of a form that brings in its node."""
        form = self._form
        if term.node < form.wires:
            return []
        return [(self._facts.rows.count + term.node - form.wires, term.factor)]

    def _product(self) -> list[tuple[int, int | Terms]]:
        """Return the multiples of constraints whose sum is m·w - t.

        m·w = M1·M2 - M1·(M2 - w) - w·(M1 - m). If M1·M2 is k·(c·d)·(e·f) for products c·d = a and
        e·f = b up to factors, it is k·a·b + k·a·(e·f - b) + k·(e·f)·(c·d - a).
        """
        form, prime = self._form, self._facts.prime
        a, b, t, row = self._base
        sources: list[tuple[int, int | Terms]] = [
            (row, 1), (self._second, terms_of(self._candidate.first, -1)),
            (self._first, (((self._w,), -1),)), *self._definition(t),
        ]  # fmt: skip
        if self._candidate.inner:
            (_, _, value, row_a), (e, f, other, row_b) = (
                form.products[each] for each in self._candidate.inner
            )
            scale = a.factor * b.factor * pow(value.factor * other.factor, -1, prime) % prime
            product = multiplied(affine_polynomial(form, e), affine_polynomial(form, f), prime)
            node = affine_polynomial(form, Affine(1, a.node, 0))
            sources.append((row_b, terms_of(node, scale * value.factor)))
            sources.append((row_a, terms_of(product, scale)))
        return sources


def terms_of(polynomial: Polynomial, factor: int = 1) -> Terms:
    """Return a multiple of a polynomial as a tuple."""
    return tuple((monomial, k * factor) for monomial, k in polynomial.items())


def has_no_zero(total: int, u: int, v: int, prime: int) -> bool:
    """Return whether u·M1 + v·M2 = 0 and M1·M2 = total have no solution.

    If u and v are nonzero, M2² = -total·u/v.
    """
    if not u or not v:
        return (u != 0 or v != 0) and total % prime != 0
    square = -total * u * pow(v, -1, prime) % prime
    return prime > 2 and pow(square, (prime - 1) // 2, prime) == prime - 1


def _candidates(
    form: NormalForm, definitions: dict[int, int], base: int
) -> Iterator[Candidate]:  # fmt: skip
    """Yield the factors of the product that defines t, then the cross products of their factors."""
    a, b, _, _ = form.products[base]
    yield Candidate(affine_polynomial(form, a), affine_polynomial(form, b))
    if a.node not in definitions or b.node not in definitions or a.constant or b.constant:
        return
    inner = definitions[a.node], definitions[b.node]
    for parts in cross_products(form, base, inner):
        # The numerator has a third product, of sums of coordinates.
        for cross in range(max(0, base - 3), min(len(form.products), base + 4)):
            yield Candidate(*parts, inner, cross)


def cross_products(
    form: NormalForm, base: int, inner: tuple[int, int]
) -> list[tuple[Polynomial, Polynomial]]:
    """Return both ways to write a·b as a product of two products, for a = c·d and b = e·f.

    The base product is a·b = t up to a constant, by which the first polynomial is scaled.
    """
    prime = form.prime
    scale = 1
    for term, index in zip(form.products[base][:2], inner):
        value = form.products[index].c
        if value.constant or term.constant:
            return []
        scale = scale * term.factor * pow(value.factor, -1, prime) % prime
    (c, d), (e, f) = (
        [affine_polynomial(form, term) for term in form.products[index][:2]] for index in inner
    )
    scaled = {monomial: k * scale % prime for monomial, k in c.items()}
    return [
        (multiplied(scaled, e, prime), multiplied(d, f, prime)),
        (multiplied(scaled, f, prime), multiplied(d, e, prime)),
    ]


def _weights(
    numerator: Polynomial, first: Polynomial, second: Polynomial, prime: int
) -> tuple[int, int] | None:
    """Return u and v with numerator = u * first + v * second, or None."""
    u = v = 0
    for monomial, k in first.items():
        if monomial not in second:
            u = numerator.get(monomial, 0) * pow(k, -1, prime) % prime
            break
    for monomial, k in second.items():
        if monomial not in first:
            v = numerator.get(monomial, 0) * pow(k, -1, prime) % prime
            break
    if first.keys() == second.keys():
        monomial, k = next(iter(first.items()))
        u = numerator.get(monomial, 0) * pow(k, -1, prime) % prime
    return (u, v) if is_combination(numerator, first, second, u, v, prime) else None


def is_combination(
    numerator: Polynomial, first: Polynomial, second: Polynomial, u: int, v: int, prime: int
) -> bool:
    """Return whether numerator = u * first + v * second."""
    return all(
        (numerator.get(each, 0) - u * first.get(each, 0) - v * second.get(each, 0)) % prime == 0
        for each in {*numerator, *first, *second}
    )


def affine_polynomial(form: NormalForm, term: Affine) -> Polynomial:
    """Return an affine term as a polynomial in wires."""
    polynomial: Polynomial = {(): term.constant} if term.constant else {}
    if term.factor and term.node >= form.wires:
        for wire, k in zip(*form.forms[term.node - form.wires]):
            polynomial[wire,] = k * term.factor % form.prime
    elif term.factor:
        polynomial[term.node,] = term.factor
    return polynomial


def substituted(form: NormalForm, polynomial: Polynomial, index: int) -> Polynomial:
    """Replace the wire that is the product c of a product by (a·b - constant) / factor."""
    a, b, c, _ = form.products[index]
    prime = form.prime
    if c.node >= form.wires or not c.factor:
        return polynomial
    inverse = pow(c.factor, -1, prime)
    value = multiplied(affine_polynomial(form, a), affine_polynomial(form, b), prime)
    value[()] = value.get((), 0) - c.constant
    result: Polynomial = {}
    for monomial, k in polynomial.items():
        parts = [(monomial, k)]
        if c.node in monomial:
            others = list(monomial)
            others.remove(c.node)
            parts = [
                (tuple(sorted((*others, *each))), k * factor * inverse)
                for each, factor in value.items()
            ]
        for each, factor in parts:
            result[each] = (result.get(each, 0) + factor) % prime
    return {each: factor for each, factor in result.items() if factor}


def multiplied(left: Polynomial, right: Polynomial, prime: int) -> Polynomial:
    """Return the product of two polynomials."""
    result: Polynomial = {}
    for first, k in left.items():
        for second, m in right.items():
            monomial = tuple(sorted((*first, *second)))
            result[monomial] = (result.get(monomial, 0) + k * m) % prime
    return {monomial: k for monomial, k in result.items() if k}
