"""Propagation: from the inputs, determine nodes by the rules of `quod.r1cs.determinism.rules`.

Rules run in order of cost: each runs only when the cheaper ones have nothing to do. Counters for
each equation (undetermined nodes, their sum, nodes without a range) tell when a rule may apply,
so that propagation takes time proportional to the entries of the constraints. Ranges other than
those of bits are derived only if a target is still undetermined without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic
from types import MappingProxyType

from quod.r1cs.determinism.arithmetic import (
    PointSet,
    Range,
    centred,
    contains,
    inverse,
    narrowed,
    quadratic_roots,
)
from quod.r1cs.determinism.cases import MAX_CASE_WIRES, case_range, hull
from quod.r1cs.determinism.index_queue import IndexQueue
from quod.r1cs.determinism.normal_form import Affine, Equation, NormalForm
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.rules import (
    Rule,
    Step,
    Terms,
    digit_scale,
    fixes_sign,
    low_part,
    polynomial,
    product_range,
    split_point,
    sum_of_roots,
    sum_range,
    zero_of,
)

_MAX_NARROWINGS = 8
"""The number of times that the range of a node is replaced by a smaller one."""
_MAX_WIDE_NODES = 4
_CLOCK_INTERVAL = 4096


class TimeIsUp(Exception):
    """The time limit of the check has passed."""


class Propagation:
    """The facts about the nodes of a system, and the steps that derived them.

    equations: those of the normal form, then those that `Rule.SPLIT` derives.
    determined: 1 for each determined node.
    ranges: the range of each node, or None.
    excluded: values that nodes never have.
    steps: the certificate. `references` has the numbers of equations there, `derived` and
        `certificate_nodes` those of the next polynomial and node that a step introduces.
    reasons: the number of the step that determined each node.
    changed: the nodes that were determined or got a range, in order.
    undetermined: the number of undetermined nodes of each equation.
    points: for `arguments.points`, the points that pairs of polynomials may be.
    """

    def __init__(
        self, rows: Rows, form: NormalForm, deadline: float = float("inf"),
        ranges: Mapping[int, Range] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Start from the inputs, and from the ranges of some nodes."""
        self.rows, self.form, self.prime, self.deadline = rows, form, rows.prime, deadline
        count, nodes = len(form.equations), form.nodes
        self.equations = list(form.equations)
        self.determined = bytearray(nodes)
        self.ranges: list[Range | None] = [None] * nodes
        self.excluded: dict[int, set[int]] = {}
        self.steps: list[Step] = []
        self._narrowings: dict[int, int] = {}
        self._ticks = 0
        self._derives_ranges = False
        self._split = set[int]()
        self.references = [
            equation.row if equation.row >= 0 else rows.count + max(equation.nodes) - form.wires
            for equation in form.equations
        ]
        self.derived = rows.count + len(form.forms)
        self.certificate_nodes = nodes
        self.reasons: dict[int, int] = {}
        self.changed: list[int] = []
        self.points: dict[tuple[Terms, ...], PointSet] = {}
        # Nodes whose equations have counted them as determined.
        self._is_counted = bytearray(nodes)
        self._stack: list[int] = []
        self.equations_of: list[list[int]] = [[] for _ in range(nodes)]
        self.products_of: list[list[int]] = [[] for _ in range(nodes)]
        self.undetermined = [0] * count
        self._undetermined_sum = [0] * count
        self._unranged = [0] * count
        self._open = [0] * count
        for index, equation in enumerate(form.equations):
            size = len(equation.nodes)
            self.undetermined[index] = self._unranged[index] = self._open[index] = size
            self._undetermined_sum[index] = sum(equation.nodes)
            for node in equation.nodes:
                self.equations_of[node].append(index)
        self._products = IndexQueue(len(form.products))
        self._digits = IndexQueue(count)
        self._sums = IndexQueue(count)
        self.assume(ranges)
        for index, product in enumerate(form.products):
            nodes_of_product = {term.node for term in product[:3] if term.factor}
            if len(wires := rows.wires_of(product.row)) <= MAX_CASE_WIRES:
                nodes_of_product |= wires
            for node in nodes_of_product:
                self.products_of[node].append(index)
            self._roots(index)
            self._products.add(index)
        for index, equation in enumerate(form.equations):
            if len(equation.nodes) == 1:
                self._sums.add(index)
        self.determine(sorted(rows.inputs))

    # --- facts

    def determine(self, nodes: Iterable[int], step: Step | None = None) -> None:
        """Record that nodes are determined, by a step unless they are inputs."""
        fresh = [node for node in nodes if not self.determined[node]]
        if not fresh:
            return
        if step is not None:
            self.steps.append(step)
            self.reasons.update(dict.fromkeys(fresh, len(self.steps) - 1))
        for node in fresh:
            self.determined[node] = 1
        self._stack += fresh
        self.changed += fresh

    def _set_range(self, node: int, derived: Range | None, step: Step) -> None:
        """Record a range of a node that a step derived, if it is smaller than the present one."""
        if derived is None:
            return
        prime, previous = self.prime, self.ranges[node]
        shift = centred(derived[0], prime) - derived[0]
        bounds = narrowed(previous, (derived[0] + shift, derived[1] + shift), prime)
        if previous is not None:
            if bounds[1] - bounds[0] >= previous[1] - previous[0]:
                return
            if self._narrowings.get(node, 0) >= _MAX_NARROWINGS:
                return
            self._narrowings[node] = self._narrowings.get(node, 0) + 1
            shift = centred(bounds[0], prime) - bounds[0]
            bounds = bounds[0] + shift, bounds[1] + shift
        self.steps.append(step._replace(bounds=bounds))
        self._record_range(node, bounds)

    def _record_range(self, node: int, bounds: Range) -> None:
        """Record a range, and queue the equations and products in which it may matter."""
        previous, self.ranges[node] = self.ranges[node], bounds
        self.changed.append(node)
        is_open = previous is None and not self._is_counted[node]
        for index in self.equations_of[node]:
            if previous is None:
                self._unranged[index] -= 1
            if is_open:
                self._open[index] -= 1
            if self._unranged[index] <= 1:
                self._sums.add(index)
            if not self._open[index]:
                self._digits.add(index)
        for index in self.products_of[node]:
            self._products.add(index)
        if bounds[0] == bounds[1]:
            # A constant; the checker draws this conclusion from the range.
            self.determine([node])

    def assume(self, ranges: Mapping[int, Range]) -> None:
        """Record ranges that hold without a step of this certificate."""
        for node, bounds in ranges.items():
            if self.ranges[node] != bounds:
                self._record_range(node, bounds)

    def exclude(self, node: int, value: int, step: Step) -> None:
        """Record that a node never has a value; remove it from an end of its range."""
        values = self.excluded.setdefault(node, set())
        if value in values:
            return
        values.add(value)
        self.steps.append(step)
        for index in self.products_of[node]:
            self._products.add(index)
        bounds = self.ranges[node]
        if bounds is not None and bounds[0] < bounds[1] and value in bounds:
            low, high = bounds
            self._record_range(node, (low + (value == low), high - (value == high)))
            if self.is_constant(node):
                self.determine([node])

    def _exclude_zero(self, term: Affine, product: int) -> None:
        """Record that an affine term of a product is never 0."""
        value = zero_of(term, self.prime)
        step = self.product_step(Rule.NONZERO, product, (term.node,))
        self.exclude(term.node, value, step._replace(bounds=(value, value)))

    def is_determined(self, term: Affine) -> bool:
        """Return whether an affine term is determined."""
        return not term.factor or bool(self.determined[term.node])

    def is_constant(self, node: int) -> bool:
        """Return whether the range of a node has a single value."""
        bounds = self.ranges[node]
        return bounds is not None and bounds[0] == bounds[1]

    def is_nonzero(self, term: Affine) -> bool:
        """Return whether an affine term is never 0."""
        if not term.factor:
            return term.constant != 0
        bounds, values = self.ranges[term.node], self.excluded.get(term.node)
        if bounds is None and values is None:
            return False
        value = zero_of(term, self.prime)
        return (values is not None and value in values) or (
            bounds is not None and not contains(bounds, value, self.prime)
        )

    # --- the loop

    def run(self, *, derives_ranges: bool = True) -> None:
        """Apply rules until none applies or all targets are determined; raises TimeIsUp.

        derives_ranges: whether to derive ranges from those of other nodes, once that is needed.
        """
        while True:
            self._ticks += 1
            if not self._ticks % _CLOCK_INTERVAL and monotonic() > self.deadline:
                raise TimeIsUp
            if self._stack:
                self._count(self._stack.pop())
            elif (index := self._products.pop()) is not None:
                self._apply_to_product(index)
            elif (index := self._digits.pop()) is not None:
                self._apply_digits(index)
            elif self._derives_ranges and (index := self._sums.pop()) is not None:
                self._apply_sum(index)
            elif self._derives_ranges or not derives_ranges or self.are_targets_determined():
                return
            else:
                self._derives_ranges = True
                for index in range(len(self.form.products)):
                    self._products.add(index)

    def are_targets_determined(self) -> bool:
        """Return whether the inputs determine all targets."""
        return all(self.determined[wire] for wire in self.rows.targets)

    def _count(self, node: int) -> None:
        """Count a determined node in its equations, and solve those with one node left."""
        self._is_counted[node] = 1
        is_open = self.ranges[node] is None
        for index in self.equations_of[node]:
            self.undetermined[index] -= 1
            self._undetermined_sum[index] -= node
            if is_open:
                self._open[index] -= 1
            if self.undetermined[index] == 1:
                last = self._undetermined_sum[index]
                self.determine([last], self.equation_step(Rule.DIGITS, index))
            elif self.undetermined[index] and not self._open[index]:
                self._digits.add(index)
        for index in self.products_of[node]:
            self._products.add(index)

    # --- equations

    def equation_step(
        self, rule: Rule, equation: int, nodes: tuple[int, ...] = (), multiplier: int = 1
    ) -> Step:  # fmt: skip
        """Return a step about a multiple of an equation."""
        return Step(rule, ((self.references[equation], multiplier),), nodes)

    def product_step(self, rule: Rule, product: int, nodes: tuple[int, ...] = ()) -> Step:
        """Return a step about a product."""
        return Step(rule, ((self.form.products[product].row, 1),), nodes)

    def undetermined_nodes(self, index: int) -> list[int]:
        """Return the undetermined nodes of an equation."""
        return [node for node in self.equations[index].nodes if not self.determined[node]]

    def _apply_digits(self, index: int) -> None:
        equation, nodes, coefficients, widths = self.equations[index], [], [], []
        for node, coefficient in zip(equation.nodes, equation.coefficients):
            if not self.determined[node]:
                if (bounds := self.ranges[node]) is None:
                    return
                nodes.append(node)
                coefficients.append(coefficient)
                widths.append(bounds[1] - bounds[0])
        if nodes and (scale := digit_scale(coefficients, widths, self.prime)) is not None:
            self.determine(nodes, self.equation_step(Rule.DIGITS, index, (), scale))

    def _apply_sum(self, index: int) -> None:
        """Derive the range of the only node without one, or narrow wide ranges."""
        equation = self.equations[index]
        ranges = [self.ranges[node] for node in equation.nodes]
        if self._unranged[index]:
            positions = [position for position, bounds in enumerate(ranges) if bounds is None]
        else:
            # A long equation hardly ever narrows a bit.
            least_width = int(len(ranges) > _MAX_WIDE_NODES)
            positions = [
                position
                for position, bounds in enumerate(ranges)
                if bounds is not None and bounds[1] - bounds[0] > least_width
            ][:_MAX_WIDE_NODES]
        for position in positions:
            others = [bounds for at, bounds in enumerate(ranges) if at != position and bounds]
            coefficients = [k for at, k in enumerate(equation.coefficients) if at != position]
            if len(others) != len(coefficients):
                return
            node = equation.nodes[position]
            derived = sum_range(
                coefficients, equation.constant, others, equation.coefficients[position], self.prime
            )
            multiplier = -inverse(equation.coefficients[position], self.prime)
            step = self.equation_step(Rule.RANGE, index, (node,), multiplier)
            self._set_range(node, derived, step)
        if not self._unranged[index] and self.undetermined[index] > 1:
            self._apply_split(index)

    def _apply_split(self, index: int) -> None:
        """Split an equation of small numbers at different offsets, once; see `Rule.SPLIT`."""
        if index in self._split:
            return
        self._split.add(index)
        equation = self.equations[index]
        nodes, coefficients, ranges, constant, row = [], [], [], equation.constant, equation.row
        for node, k in zip(equation.nodes, equation.coefficients):
            if (bounds := self.ranges[node]) and bounds[0] < bounds[1]:
                nodes.append(node)
                coefficients.append(k)
                ranges.append(bounds)
            elif bounds:
                constant = (constant + k * bounds[0]) % self.prime
        if (point := split_point(coefficients, constant, ranges, self.prime)) is None:
            return
        modulus, low_constant = point
        signed = [centred(k, self.prime) for k in coefficients]
        low = [low_part(k, modulus) for k in signed]
        high = [(k - part) // modulus for k, part in zip(signed, low)]
        # One of the two representatives of the constant makes the sum of integers 0.
        high_constant = (constant - low_constant) // modulus
        if (constant - low_constant) % modulus:
            high_constant = (constant - self.prime - low_constant) // modulus
        parts = [
            ([(node, k) for node, k in zip(nodes, ks) if k], offset)
            for ks, offset in ((low, low_constant), (high, high_constant))
        ]
        polynomials = tuple(
            (*(((node,), k) for node, k in terms), ((), offset)) for terms, offset in parts
        )
        step = self.equation_step(Rule.SPLIT, index)
        self.steps.append(step._replace(bounds=(modulus, modulus), polynomials=polynomials))
        for terms, offset in parts:
            self.references.append(self.derived)
            self.derived += 1
            self._add_equation(
                Equation(
                    tuple([node for node, _ in terms]), tuple([k % self.prime for _, k in terms]),
                    offset % self.prime, row,
                )
            )  # fmt: skip

    def _add_equation(self, equation: Equation) -> None:
        """Add a derived equation, with the counters of its nodes."""
        index = len(self.equations)
        self.equations.append(equation)
        uncounted = [node for node in equation.nodes if not self._is_counted[node]]
        self.undetermined.append(len(uncounted))
        self._undetermined_sum.append(sum(uncounted))
        self._unranged.append(sum(self.ranges[node] is None for node in equation.nodes))
        self._open.append(sum(self.ranges[node] is None for node in uncounted))
        for node in equation.nodes:
            self.equations_of[node].append(index)
        self._digits.extend()
        self._sums.extend()
        if len(uncounted) == 1:
            (last,) = uncounted
            self.determine([last], self.equation_step(Rule.DIGITS, index))
        self._digits.add(index)
        self._sums.add(index)

    # --- products

    def _roots(self, index: int) -> None:
        """Derive the range of a node that is alone in a product, but for constants."""
        product = self.form.products[index]
        a, b, c = map(self._with_value, product[:3])
        if (coefficients := polynomial(product._replace(a=a, b=b, c=c), self.prime)) is None:
            return
        node = next(term.node for term in (a, b, c) if term.factor)
        if self.ranges[node] is not None:
            return
        roots = quadratic_roots(*coefficients, self.prime)
        if roots:
            self._set_range(
                node, hull(roots, self.prime), self.product_step(Rule.ROOTS, index, (node,))
            )

    def _with_value(self, term: Affine) -> Affine:
        """Return an affine term as a constant if its node is."""
        bounds = self.ranges[term.node] if term.factor else None
        if bounds is None or bounds[0] < bounds[1]:
            return term
        return Affine(0, 0, (term.factor * bounds[0] + term.constant) % self.prime)

    def _apply_to_product(self, index: int) -> None:
        """Apply all rules of products."""
        product = self.form.products[index]
        a, b, c, _ = product
        fixed_a, fixed_b, fixed_c = map(self.is_determined, (a, b, c))
        if fixed_a and fixed_b:
            if not fixed_c:
                self.determine([c.node], self.product_step(Rule.DIGITS, index))
        elif fixed_c:
            if a.node == b.node and a.factor and b.factor:
                bounds = self.ranges[a.node]
                if bounds and fixes_sign(bounds, sum_of_roots(product, self.prime), self.prime):
                    self.determine([a.node], self.product_step(Rule.SIGN, index))
            elif fixed_a or fixed_b:
                factor, quotient = (a, b) if fixed_a else (b, a)
                if self.is_nonzero(factor):
                    node = quotient.node
                    self.determine([node], self.product_step(Rule.QUOTIENT, index, (node,)))
                else:
                    self._apply_zero_test(index, factor, quotient)
        for factor, other in ((a, b), (b, a)):
            if not c.factor and not c.constant and other.factor and self.is_nonzero(factor):
                zero = centred(zero_of(other, self.prime), self.prime)
                node = other.node
                step = self.product_step(Rule.QUOTIENT, index, (node,))
                self._set_range(node, (zero, zero), step)
        if self.is_nonzero(c):
            for term in (a, b):
                if term.factor and not self.is_nonzero(term):
                    self._exclude_zero(term, index)
        elif c.factor and self.is_nonzero(a) and self.is_nonzero(b):
            self._exclude_zero(c, index)
        if self._derives_ranges:
            self._apply_product_ranges(index)

    def _apply_zero_test(self, index: int, factor: Affine, flag: Affine) -> None:
        """Determine the flag of X * W = Z by a second product X * U = V, for X = 0 and otherwise.

        If X is 0, then V = 0; else W = Z / X. X decides which, equally for both witnesses.
        """
        zero = zero_of(factor, self.prime)
        node = (flag.node,)
        suppose = Step(Rule.SUPPOSE, (), (factor.node, *node), (zero, zero))
        quotient = self.product_step(Rule.QUOTIENT, index, node)
        conclusion = Step(Rule.OTHERWISE, ()), quotient, Step(Rule.JOIN, ())
        dividend = self.form.products[index].c
        if dividend.node == factor.node and zero_of(dividend, self.prime) != zero:
            # If X is 0, Z is not.
            self.steps += [suppose, self.product_step(Rule.ROOTS, index, node), *conclusion]
            self.determine(node)
            return
        for other in self.products_of[flag.node]:
            a, b, c, _ = self.form.products[other]
            if c.factor and c.node == flag.node:
                for term in (a, b):
                    if term.node == factor.node and term.factor and (
                        zero_of(term, self.prime) == zero
                    ):  # fmt: skip
                        self.steps += [suppose, self.product_step(Rule.DIGITS, other), *conclusion]
                        self.determine(node)
                        return

    def _apply_product_ranges(self, index: int) -> None:
        """Derive a range from the ranges of the other nodes or wires of a product."""
        product = self.form.products[index]
        a, b, c, row = product
        self._roots(index)
        if c.factor and a.factor and b.factor and self.ranges[c.node] is None:
            first, second = self.ranges[a.node], self.ranges[b.node]
            if first and second:
                derived = product_range(product, first, second, self.prime)
                sources = ((row, inverse(c.factor, self.prime)),)
                self._set_range(c.node, derived, Step(Rule.RANGE, sources, (c.node,)))
        wires = self.rows.wires_of(row)
        if not 1 < len(wires) <= MAX_CASE_WIRES + 1:
            return
        unranged = [wire for wire in wires if self.ranges[wire] is None]
        if len(unranged) != 1:
            return
        (wire,) = unranged
        others = (self.form.products[each] for w in wires for each in self.products_of[w])
        if case := case_range(self.rows, row, wire, self.ranges, (other.row for other in others)):
            self._set_range(wire, case[0], Step(Rule.CASES, case[1], (wire,)))
