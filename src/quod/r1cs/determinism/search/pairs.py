"""Search for counterexamples: two witnesses with equal inputs and different targets.

A first witness of the whole system is completed from trial inputs. A second one keeps all values
outside a core, changes a node of the core, and completes the others. The search proves nothing by
failing; a pair that it returns satisfies every constraint.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from time import monotonic

from quod.frozen import frozen
from quod.r1cs.determinism.cores import Core
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import sum_of_roots, zero_of
from quod.r1cs.determinism.search.assignment import Assignment, Conflict
from quod.r1cs.determinism.search.elimination import solve_near
from quod.r1cs.determinism.search.positional import decompositions, digits_of
from quod.r1cs.determinism.search.repair import Repair
from quod.r1cs.determinism.search.undefined import assign_undefined, undefined_quotients

_PLAIN_STARTS = 2
"""The number of attempts before those with a quotient 0/0."""
_ATTEMPTS_PER_QUOTIENT = 4
"""The number of attempts for each quotient."""
_MAX_CONFLICTS = 60
"""The number of conflicts after which an attempt to complete a witness ends."""
_MAX_DEAD_ENDS = 200
"""The number of nodes without a value after which an attempt ends."""
_MAX_CHANGED_NODES = 16
_MAX_ZERO_FACTORS = 12
_MAX_WIDE_NODES = 6
_MAX_COMPENSATED = 8
"""The number of changes of a node that are tried because its equations can compensate them."""
_MAX_REPAIRED = 64
"""The number of nodes with, and of those without a range that are changed before a repair."""
_FIRST_NODES = 4
_REPAIR_SHARE = 4
"""Repairs of a witness take at most this part of the remaining time."""
_RANDOM_VALUES = 4
"""The number of further random values that are tried for a node without a range."""
_FURTHER_ATTEMPTS = 10
"""The number of further attempts from other random inputs."""

Trial = Sequence[tuple[int, int]]
"""Nodes and values that an attempt starts from."""
Candidates = Callable[[int], Sequence[int]]


@frozen(eq=False)
class Pair:
    """Two witnesses with equal inputs, as the values of all wires."""

    first: Sequence[int]
    second: Sequence[int]


class Search:
    """The search in one system; its two assignments are used again for each core."""

    def __init__(
        self, facts: Propagation, deadline: float, seed: int = 0, *,
        solves_equations: bool = True, witnesses: Sequence[Sequence[int]] = (),
    ) -> None:  # fmt: skip
        """Start a search.

        solves_equations: whether linear equations are solved after conflicts.
        witnesses: each the values of all wires; the search starts from them.
        """
        self.facts, self.deadline, self._solves_equations = facts, deadline, solves_equations
        self._witness_values = [facts.form.values(witness) for witness in witnesses]
        self._generator = random.Random(seed)
        self._prime = facts.prime
        self._attempts = 0
        # Whether wires get values in the order of their numbers, as most programs compute them.
        self._is_ordered = False
        self._first = Assignment(facts)
        self._second = Assignment(facts)
        self._repair: Repair | None = None

    def pair(self, core: Core, targets: Sequence[int]) -> Pair | None:
        """Return two witnesses that differ in one of the targets, which the core contains."""
        # First the likeliest changes of all witnesses.
        for is_quick in (True, False):
            for values in self._witness_values:
                pair = self.repaired(core, targets, values, is_quick=is_quick)
                if pair is not None and self._is_valid(pair, targets):
                    return pair
        for witness in self._witnesses(core):
            if monotonic() > self.deadline:
                return None
            if witness is None:
                continue
            first, nodes = witness
            if nodes:
                pair = self.changed(core, nodes, targets, first)
            else:
                is_tried = any(first is values for values in self._witness_values)
                pair = None if is_tried else self.repaired(core, targets, first)
                if pair is None:
                    pair = self._second_witness(core, targets, first)
            if pair is not None and self._is_valid(pair, targets):
                return pair
        return None

    def _is_valid(self, pair: Pair, targets: Sequence[int]) -> bool:
        rows = self.facts.rows
        return (
            any(pair.first[wire] != pair.second[wire] for wire in targets)
            and all(pair.first[wire] == pair.second[wire] for wire in rows.inputs)
            and not rows.failing(pair.first)
            and not rows.failing(pair.second)
        )

    # --- the first witness

    def _witnesses(self, core: Core) -> Iterator[tuple[list[int], list[int]] | None]:
        """Yield witnesses, each with the nodes to change, and None for each failure.

        The witnesses that the search starts from come first. Quotients 0/0 follow the first
        attempts.
        """
        for values in self._witness_values:
            yield values, []
        for number, start in enumerate(self._starts(core)):
            self._set_order(number == 0)
            if number == _PLAIN_STARTS:
                for index in undefined_quotients(self.facts, core):
                    for _ in range(_ATTEMPTS_PER_QUOTIENT):
                        yield self._undefined(core, index)
            first = self._witness(start)
            yield None if first is None else (first, [])

    def _set_order(self, is_ordered: bool) -> None:
        self._is_ordered = is_ordered
        self._first.assume_bits(is_ordered)
        self._second.assume_bits(is_ordered)

    def _undefined(self, core: Core, index: int) -> tuple[list[int], list[int]] | None:
        """Return a witness in which a quotient is 0/0, and the node of the quotient."""
        try:
            self._start()
            quotient = assign_undefined(self._first, index, self._generator)
        except Conflict:
            return None
        values = self._completed([quotient])
        return None if values is None else (values, [quotient])

    def _starts(self, core: Core) -> Iterator[Trial]:
        """Yield values to start from: none, a factor of the core that is 0, equal inputs, ends
        of ranges."""
        form, facts, inputs = self.facts.form, self.facts, sorted(self.facts.rows.inputs)
        yield ()
        yield ()
        zero_factors = dict.fromkeys(
            (term.node, zero_of(term, self._prime))
            for index in core.products
            for term in form.products[index][:2]
            if term.factor and facts.determined[term.node] and not facts.is_nonzero(term)
        )
        for zero_factor in list(zero_factors)[:_MAX_ZERO_FACTORS]:
            yield (zero_factor,)
        for value in (0, 1, self._generator.randrange(self._prime)):
            yield [
                (wire, value)
                for wire in inputs
                if (bounds := facts.ranges[wire]) is None or bounds[0] <= value <= bounds[1]
            ]
        wide = [
            (node, bounds)
            for node in core.nodes
            if (bounds := facts.ranges[node]) is not None and bounds[1] - bounds[0] > 1
        ]
        for node, (low, high) in wide[:_MAX_WIDE_NODES]:
            yield ((node, low),)
            yield ((node, high),)
        for _ in range(_FURTHER_ATTEMPTS):
            yield ()

    def _witness(self, start: Trial) -> list[int] | None:
        """Return the values of all nodes of a witness that has the values of a trial."""
        try:
            self._start()
            self._first.extend(start)
        except Conflict:
            return None
        return self._completed()

    def _start(self) -> None:
        """Start a first witness with the values of constants."""
        self._first.undo((0, 0))
        constants = [
            (node, bounds[0])
            for node, bounds in enumerate(self.facts.ranges)
            if bounds and bounds[0] == bounds[1]
        ]
        self._first.extend([(0, 1), *constants])

    def _completed(self, initial: Sequence[int] = ()) -> list[int] | None:
        """Complete the first witness, some nodes first: return the values of all, or None."""
        rows, form = self.facts.rows, self.facts.form
        inputs = sorted(rows.inputs)
        if self._generator.random() < 0.5:
            self._generator.shuffle(inputs)
        else:
            # Public inputs come first, and are often equated with a result: they are assigned last.
            inputs.reverse()
        # Equations then determine nodes without a range, for any values of the others; targets
        # come last.
        ranges, targets = self.facts.ranges, set(rows.targets)
        others = sorted(
            range(1, form.nodes), key=lambda node: (ranges[node] is None, node in targets)
        )
        order = [*inputs, *others]
        self._attempts += 1
        if self._is_ordered:
            order = [*inputs, *sorted(others, key=lambda node: (node in targets, node))]
        elif not self._attempts % 2:
            # Bits first: an input then follows from its decomposition, and so is in its range.
            is_input = set(inputs)
            bounded = [node for node in others if ranges[node] is not None]
            order = [*(node for node in bounded if node not in is_input), *order]
        order = [*initial, *order]
        if not self._complete(self._first, order, lambda node: self._trial_values(node)):
            return None
        return [value or 0 for value in self._first.values]

    def _trial_values(self, node: int) -> list[int]:
        """Return values to try for a node without a value."""
        generator, bounds = self._generator, self.facts.ranges[node]
        if bounds is not None:
            low, high = bounds
            return list(dict.fromkeys([generator.randint(low, high), low, high]))
        size = generator.choice((self._prime, 16)) if not self._is_ordered else 2
        first = generator.randrange(size)
        # A curve has a point for about half of all coordinates, and few for 0 and 1.
        return [first, 0, 1, *(generator.randrange(self._prime) for _ in range(_RANDOM_VALUES))]

    def _complete(
        self, assignment: Assignment, order: Sequence[int], candidates: Candidates
    ) -> bool:
        """Assign all nodes in order, with backtracking; return whether that succeeds."""
        decisions: list[tuple[tuple[int, int], int, int, list[int]]] = []
        position, conflicts, dead_ends = 0, 0, 0
        while True:
            while position < len(order) and assignment.values[order[position]] is not None:
                position += 1
            if position == len(order):
                return True
            if monotonic() > self.deadline:
                return False
            # First a factor that an equation with 0 leaves open, as other nodes follow from it. In
            # some attempts it is left to follow from others, such as the inputs.
            is_ordered = self._is_ordered or self._attempts % 3 == 2
            free = () if is_ordered else assignment.free
            open_nodes = (each for each in reversed(free) if assignment.values[each] is None)
            node = next(open_nodes, order[position])
            try:
                if conflicts and self._solves_equations:
                    solve_near(assignment, node, self._generator)
                if assignment.values[node] is not None:
                    continue
                values = self._roots(assignment, node) or [
                    *self._digits(assignment, node),
                    *candidates(node),
                ]
            except Conflict:
                values = []
                dead_ends += 1
                if dead_ends > _MAX_DEAD_ENDS:
                    return False
            decisions.append((assignment.checkpoint(), position, node, values))
            while decisions:
                mark, position, node, values = decisions[-1]
                assignment.undo(mark)
                if not values:
                    decisions.pop()
                    continue
                try:
                    assignment.extend([(node, values.pop(0))])
                    break
                except Conflict:
                    conflicts += 1
                    if conflicts > _MAX_CONFLICTS or monotonic() > self.deadline:
                        return False
                    if conflicts == 1 and self._solves_equations:
                        # From now on, equations near a node are solved before values are tried.
                        decisions.pop()
                        assignment.undo(mark)
                        break
            else:
                return False

    def _roots(self, assignment: Assignment, node: int) -> list[int]:
        """Return the values of a node that a product allows, or an empty list for any."""
        for index in self.facts.products_of[node]:
            if roots := assignment.choices(index):
                if self.facts.form.products[index].a.node == node:
                    self._generator.shuffle(roots)
                    return roots
        return []

    def _digits(self, assignment: Assignment, node: int) -> list[int]:
        """Return the values of a node that is a digit of a number, in its decompositions.

        The number is known modulo p alone, and has several decompositions, as one of all bits.
        """
        facts, values = self.facts, assignment.values
        for index in facts.equations_of[node] if facts.ranges[node] else ():
            if assignment.unassigned[index] > 1:
                equation, digits, total = facts.equations[index], [], 0
                for each, k in zip(equation.nodes, equation.coefficients):
                    value = values[each]
                    if value is not None:
                        total += k * value
                    else:
                        # A node without a range is a bit without its constraint, or no digit.
                        digits.append((each, k, facts.ranges[each] or (0, 1)))
                number = -total - equation.constant
                weighted = digits_of(digits, 1, self._prime)
                if weighted:
                    return [
                        dict(decomposition)[node]
                        for decomposition in decompositions(weighted, number, self._prime)
                    ]
        return []

    # --- the second witness

    def repaired(
        self, core: Core, targets: Sequence[int], first: Sequence[int], *, is_quick: bool = False
    ) -> Pair | None:
        """Change one node of a witness after the other, and repair what fails.

        first: the values of all nodes.
        is_quick: whether to change only the first nodes without a range.
        Returns the first pair that differs in a target, or None.
        """
        if self._repair is None:
            self._repair = Repair(self.facts)
        repair, ranges, wires = self._repair, self.facts.ranges, self.facts.form.wires
        repair.start(first)
        deadline = monotonic() + (self.deadline - monotonic()) / _REPAIR_SHARE
        nodes = sorted((node for node in core.nodes if node < wires), key=repair.ranks.__getitem__)
        wide = [node for node in nodes if ranges[node] is None][:_MAX_REPAIRED]
        narrow = [node for node in nodes if ranges[node] is not None][:_MAX_REPAIRED]
        values = {node: self._changed_values(node, first[node]) for node in wide}
        # A constraint that is missing leaves its last node without a range, and so often also
        # those that follow from it: the first of them is changed most thoroughly.
        trials = [(node, value) for node in wide[:_FIRST_NODES] for value in values[node]]
        if is_quick:
            del wide[_FIRST_NODES:], narrow[:]
        wide_trials = [(node, value) for node in wide[_FIRST_NODES:] for value in values[node]]
        narrow_trials = [(node, self._other_value(node, first[node])) for node in narrow]
        for pair in zip_longest(wide_trials, narrow_trials):
            trials += [trial for trial in pair if trial is not None]
        for node, value in trials:
            if monotonic() > deadline:
                return None
            if repair.attempt(node, value, deadline):
                if any(repair.values[wire] != first[wire] for wire in targets):
                    return Pair(list(first[:wires]), repair.values[:wires])
        return None

    def _other_value(self, node: int, before: int) -> int:
        """Return another value in the range of a node."""
        low, high = self.facts.ranges[node] or (0, 1)
        value = self._generator.randint(low, high) % self._prime
        other = high if before == low % self._prime else low
        return value if value != before else other % self._prime

    def _second_witness(
        self, core: Core, targets: Sequence[int], first: Sequence[int]
    ) -> Pair | None:
        """Change a node of the core and complete the others; None if no target differs then."""
        # The first wires that a circuit leaves undetermined often determine the others; forms and
        # nodes with a range follow.
        ranges = self.facts.ranges
        ordered = sorted(
            set(core.nodes) - {*targets}, key=lambda node: (ranges[node] is not None, node)
        )
        free_targets = [wire for wire in targets if ranges[wire] is None]
        nodes = dict.fromkeys(
            [*ordered[:1], *free_targets[:2], *ordered[:_MAX_CHANGED_NODES], *targets[:8]]
        )
        return self.changed(core, list(nodes), targets, first)

    def changed(
        self, core: Core, nodes: Sequence[int], targets: Sequence[int], first: Sequence[int]
    ) -> Pair | None:
        """Change one of some nodes of a core, and complete the others of the core.

        first: the values of all nodes in a witness.
        Returns the first pair that differs in a target, or None.
        """
        second, wires = self._second, self.facts.form.wires
        inside = set(core.nodes)
        # Wires follow from earlier ones more often than from later ones; targets come last.
        order = sorted(core.nodes, key=lambda node: (node in targets, node))
        second.undo((0, 0))
        try:
            second.extend((node, value) for node, value in enumerate(first) if node not in inside)
        except Conflict:
            # Where nodes are taken for bits that are none, even a witness has a conflict.
            return None
        second.values[0] = 1
        mark = second.checkpoint()
        for node in nodes:
            for value in self._changed_values(node, first[node]):
                if monotonic() > self.deadline:
                    return None
                second.undo(mark)
                try:
                    second.extend([(node, value)])
                except Conflict:
                    continue
                if not self._complete(
                    second, order, lambda node: self._second_values(node, first[node])
                ):
                    continue
                values = [value or 0 for value in second.values[:wires]]
                if any(values[wire] != first[wire] for wire in targets):
                    return Pair(list(first[:wires]), values)
        return None

    def _changed_values(self, node: int, before: int) -> list[int]:
        """Return other values of a node: those that missing constraints most often allow."""
        prime, bounds = self._prime, self.facts.ranges[node]
        # A digit without a bound moves by 2 if the next binary digit moves by 1.
        values = [1 - before, before + 1, -before, 0, before - 1, before + 2, before - 2]
        values.append(self._generator.randrange(prime))
        if bounds is not None:
            values += [bounds[0], bounds[1]]
        values += [before + change for change in self._compensated(node)]
        for index in self.facts.products_of[node]:
            product = self.facts.form.products[index]
            if product.a.node == product.b.node == node:
                values.append(sum_of_roots(product, prime) - before)
        return [value for value in dict.fromkeys(v % prime for v in values) if value != before]

    def _compensated(self, node: int) -> list[int]:
        """Return changes of `node` that a change by 1 of another node of an equation offsets."""
        changes: list[int] = []
        for index in self.facts.equations_of[node]:
            equation = self.facts.equations[index]
            k = equation.coefficients[equation.nodes.index(node)]
            inverse = pow(k, -1, self._prime)
            for other, coefficient in zip(equation.nodes, equation.coefficients):
                if other != node and not self.facts.determined[other]:
                    changes += [coefficient * inverse, -coefficient * inverse]
            if len(changes) >= _MAX_COMPENSATED:
                break
        return changes[:_MAX_COMPENSATED]

    def _second_values(self, node: int, before: int) -> list[int]:
        """Return values to try in the second witness: that of the first one, then others."""
        return [before, *self._changed_values(node, before)[:3]]
