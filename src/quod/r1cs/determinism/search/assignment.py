"""Assignments: values of nodes, completed by the equations and products, with backtracking."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from math import gcd

from quod.r1cs.determinism.arithmetic import Range, centred, contains, inverse, quadratic_roots
from quod.r1cs.determinism.normal_form import Affine
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import digit_scale, polynomial, zero_of


class Conflict(Exception):
    """No witness has the assigned values."""


# Each trial of a search decomposes the same equations.
_digit_scale = functools.lru_cache(maxsize=1024)(digit_scale)


_Digit = tuple[int, int, int, Range, int]
"""The greatest power of 2 in a weight, its magnitude, the weight, a range and the node."""


class Assignment:
    """Values of some nodes of a system, and those that follow from them.

    A node gets a value if an equation or product leaves one, or if the undetermined nodes of an
    equation are digits of a number. Ranges and excluded values of `facts` limit the values.

    values: the value of each node, or None.
    unassigned: the number of nodes without a value of each equation.
    """

    def __init__(self, facts: Propagation) -> None:
        self.facts, self.form, self.prime = facts, facts.form, facts.prime
        self._assumes_bits = False
        self.values: list[int | None] = [None] * self.form.nodes
        # Assigned nodes, those whose equations have counted them, and those still to count.
        self._trail: list[int] = []
        self._counted: list[int] = []
        self._queue: list[int] = []
        self.unassigned = [len(equation.nodes) for equation in self.facts.equations]
        self._unassigned_sum = [sum(equation.nodes) for equation in self.facts.equations]
        self._totals = [equation.constant for equation in self.facts.equations]
        self._terms_of: list[list[tuple[int, int]]] = [[] for _ in self.values]
        for index, equation in enumerate(self.facts.equations):
            for node, k in zip(equation.nodes, equation.coefficients):
                self._terms_of[node].append((index, k))
        # The other factors of products in which a factor and the product are 0.
        self.free: list[int] = []
        # Equations and products that may now determine nodes by digits or roots.
        self._pending: set[int] = set()
        # For some equations nodes that determine no digit as long as none of them has a value.
        self._blockers: dict[int, tuple[int, ...]] = {}

    def assume_bits(self, assumes_bits: bool) -> None:
        """Choose whether nodes without a range are taken for bits where other nodes are digits.

        Where that is wrong, no witness is completed.
        """
        self._assumes_bits = assumes_bits
        self._blockers.clear()

    def checkpoint(self) -> tuple[int, int]:
        """Return a mark for `undo`; no value may be waiting to be counted."""
        return len(self._trail), len(self._counted)

    def undo(self, mark: tuple[int, int]) -> None:
        """Remove all values since a checkpoint."""
        assigned, counted = mark
        for node in self._counted[counted:]:
            value = self.values[node]
            assert value is not None
            for index, k in self._terms_of[node]:
                self.unassigned[index] += 1
                self._unassigned_sum[index] += node
                self._totals[index] -= value * k
        for node in self._trail[assigned:]:
            self.values[node] = None
        del self._trail[assigned:], self._counted[counted:]
        self._queue.clear()
        self._pending.clear()
        if not assigned:
            self.free.clear()

    def _coefficient(self, index: int, node: int) -> int:
        equation = self.facts.equations[index]
        return equation.coefficients[equation.nodes.index(node)]

    def set(self, node: int, value: int) -> None:
        """Assign a value; raises Conflict if the node has or must have another one."""
        value %= self.prime
        previous = self.values[node]
        if previous is not None:
            if previous != value:
                raise Conflict
            return
        bounds = self.facts.ranges[node]
        if bounds is not None and not contains(bounds, value, self.prime):
            raise Conflict
        if value in self.facts.excluded.get(node, ()):
            raise Conflict
        self.values[node] = value
        self._trail.append(node)
        self._queue.append(node)

    def extend(self, values: Iterable[tuple[int, int]]) -> None:
        """Assign values and all that follow from them; raises Conflict."""
        for node, value in values:
            self.set(node, value)
        while self._queue or self._pending:
            # The totals of equations have all values before digits follow from them.
            if self._queue:
                self._spread(self._queue.pop())
            else:
                self._digits(self._pending.pop())

    def _spread(self, node: int) -> None:
        """Add a value to the equations and products of its node."""
        value = self.values[node]
        assert value is not None
        for index, k in self._terms_of[node]:
            self.unassigned[index] -= 1
            self._unassigned_sum[index] -= node
            self._totals[index] += value * k
        self._counted.append(node)
        for index in self.facts.equations_of[node]:
            self._solve(index)
        for index in self.facts.products_of[node]:
            self._multiply(index)

    def _solve(self, index: int) -> None:
        """Solve an equation with one node, or check one without."""
        count = self.unassigned[index]
        if count == 1:
            node = self._unassigned_sum[index]
            k = self._coefficient(index, node)
            self.set(node, -self._totals[index] * inverse(k, self.prime))
        elif not count:
            if self._totals[index] % self.prime:
                raise Conflict
        else:
            self._pending.add(index)

    def _digits(self, index: int) -> None:
        """Decompose the value of an equation if its nodes are digits."""
        values, ranges, prime = self.values, self.facts.ranges, self.prime
        blockers = self._blockers.get(index)
        if blockers and all(values[node] is None for node in blockers):
            return
        equation, terms, reach = self.facts.equations[index], list[_Digit](), 0
        has_all_ranges = True
        for node, k in zip(equation.nodes, equation.coefficients):
            if values[node] is None:
                if (bounds := ranges[node]) is None:
                    if not self._assumes_bits:
                        self._blockers[index] = (node,)
                        return
                    has_all_ranges, bounds = False, (0, 1)
                weight = k if 2 * k < prime else k - prime
                terms.append((weight & -weight, abs(weight), weight, bounds, node))
                reach += abs(weight) * (bounds[1] - bounds[0])
        if len(terms) > 1 and reach < prime:
            terms = self._low_digits(index, sorted(terms))
        if len(terms) > 1 and has_all_ranges:
            self._all_digits(index, terms)

    def _low_digits(self, index: int, terms: list[_Digit]) -> list[_Digit]:
        """Determine digits from the lowest one on by residues; return all terms if none follows.

        terms: in ascending order. Their sum is exact, as its bounds are less than p apart. A digit
            follows from its residue modulo the common divisor of the other weights.
        """
        least = sum(weight * bounds[weight < 0] for *_, weight, bounds, _ in terms)
        total = least + (-self._totals[index] - least) % self.prime
        divisors = [0] * len(terms)
        for position in range(len(terms) - 1, 0, -1):
            divisors[position - 1] = gcd(divisors[position], terms[position][1])
        for position, (divisor, term) in enumerate(zip(divisors, terms)):
            _, magnitude, weight, (low, high), node = term
            if self.facts.ranges[node] is None:
                self._blockers[index] = (node,)
                return []
            common = gcd(magnitude, divisor)
            if total % common:
                raise Conflict
            if divisor and divisor // common <= high - low:
                # With a digit of the same level and the highest one the divisor hardly changes.
                pair = terms[position + 1], terms[-1]
                joint = gcd(pair[0][1], pair[1][1])
                if joint // gcd(magnitude, joint) > high - low:
                    # Digits that were determined are not in the total yet.
                    return [] if position else terms
                self._blockers[index] = (node, *(each[-1] for each in pair))
                return []
            value = total // weight
            if divisor:
                modulus = divisor // common
                residue = total // common * pow(weight // common, -1, modulus)
                value = low + (residue - low) % modulus
            if not low <= value <= high:
                raise Conflict
            self.set(node, value)
            total -= weight * value
        return []

    def _all_digits(self, index: int, terms: Sequence[_Digit]) -> None:
        """Decompose the value of an equation if all of its nodes are digits of one number."""
        prime = self.prime
        coefficients = tuple([weight % prime for *_, weight, _, _ in terms])
        widths = tuple([high - low for *_, (low, high), _ in terms])
        if (scale := _digit_scale(coefficients, widths, prime)) is None:
            return
        total = self._totals[index] * scale
        digits = []
        for k, width, (*_, (low, high), node) in zip(coefficients, widths, terms):
            weight = centred(k * scale, prime)
            # Negative weights count down from the upper bound, so that all digits are positive.
            base, step = (low, 1) if weight > 0 else (high, -1)
            total += weight * base
            digits.append((abs(weight), width, node, base, step))
        remaining = -total % prime
        for weight, width, node, base, step in sorted(digits, reverse=True):
            digit = min(remaining // weight, width)
            remaining -= digit * weight
            self.set(node, base + step * digit)
        if remaining:
            raise Conflict

    def _term(self, term: Affine) -> int | None:
        if not term.factor:
            return term.constant
        value = self.values[term.node]
        return None if value is None else (term.factor * value + term.constant) % self.prime

    def _multiply(self, index: int) -> None:
        """Solve a product with one value left, or check one without."""
        product = self.form.products[index]
        a, b, c = (self._term(term) for term in product[:3])
        prime = self.prime
        if a is not None and b is not None:
            self._set_term(product.c, c, a * b)
        elif c is not None and (a if a is not None else b) is not None:
            factor, other = (a, product.b) if a is not None else (b, product.a)
            if factor:
                self._set_term(other, None, c * inverse(factor % prime, prime))
            elif c:
                raise Conflict
            elif other.factor:
                self.free.append(other.node)
        elif c is None and (a == 0 or b == 0):
            self._set_term(product.c, None, 0)
        elif c is not None and a is None and b is None and product.a.node == product.b.node:
            roots = self.choices(index)
            if not roots:
                raise Conflict
            if len(roots) == 1:
                self.set(product.a.node, roots[0])

    def _set_term(self, term: Affine, present: int | None, value: int) -> None:
        if present is not None:
            if (present - value) % self.prime:
                raise Conflict
        else:
            self.set(
                term.node, (value - term.constant) * inverse(term.factor, self.prime)
            )  # fmt: skip

    def choices(self, index: int) -> list[int]:
        """Return the values of the node of a product whose factors are terms of one node."""
        product, prime = self.form.products[index], self.prime
        a, b, c = product.a, product.b, self._term(product.c)
        if c is None or not a.factor or not b.factor or a.node != b.node:
            return []
        plain = product._replace(c=Affine(0, 0, c))
        coefficients = polynomial(plain, prime)
        roots = quadratic_roots(*coefficients, prime) if coefficients else None
        bounds = self.facts.ranges[a.node]
        return [
            root for root in roots or () if bounds is None or contains(bounds, root, prime)
        ]  # fmt: skip

    def zero_choices(self, index: int) -> list[tuple[int, int]]:
        """Return the nodes and values that make a product of two unassigned factors zero."""
        product = self.form.products[index]
        if self._term(product.c) != 0:
            return []
        return [
            (term.node, zero_of(term, self.prime))
            for term in (product.a, product.b)
            if self._term(term) is None
        ]

    def wires(self) -> Sequence[int] | None:
        """Return the values of all wires, or None if some have none."""
        values = [1, *[value for value in self.values[1 : self.form.wires] if value is not None]]
        return values if len(values) == self.form.wires else None
