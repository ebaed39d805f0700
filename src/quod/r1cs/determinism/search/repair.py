"""Repair of a witness: after a node gets another value, the others follow where constraints fail.

Each constraint that fails moves nodes that the inputs do not determine, the last ones in the order
of computation first. Only nodes that depend on the changed one are computed again, so an attempt
in a large system takes as long as the part that differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from time import monotonic

from quod.r1cs.determinism.arithmetic import centred, contains, inverse, quadratic_roots
from quod.r1cs.determinism.normal_form import Affine
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import polynomial
from quod.r1cs.determinism.search.positional import MAX_WRAPS, Digit, decompositions, digits_of

_MAX_BACKTRACKS = 40
_KEPT_DECISIONS = 64
"""The number of the latest decisions that are taken back."""
_MAX_SINGLES = 3
"""The number of single nodes that an equation moves, of those with and of those without a range."""
_STEPS_PER_NODE = 4
_MAX_REPAIRS = 12
"""The number of times that an attempt repairs a constraint."""
_FURTHER_STEPS = 1000
"""The number of repairs after the first one that fails."""
_CLOCK_INTERVAL = 256

_Move = Sequence[tuple[int, int]]
"""Nodes with their values."""


class Repair:
    """A witness of a system, and the nodes that an attempt has moved.

    values: the value of each node.
    """

    def __init__(self, facts: Propagation) -> None:
        self._facts, self._form, self._prime = facts, facts.form, facts.prime
        form, equations = facts.form, facts.equations
        self._count = len(equations)
        self.ranks = _ranks(facts)
        self._terms_of: list[list[tuple[int, int]]] = [[] for _ in range(form.nodes)]
        self._products_of: list[list[int]] = [[] for _ in range(form.nodes)]
        keys = []
        for index, equation in enumerate(equations):
            for node, k in zip(equation.nodes, equation.coefficients):
                self._terms_of[node].append((index, k))
            # An equation that says nothing about any node is always satisfied.
            keys.append(max((self.ranks[node] for node in equation.nodes), default=0))
        for index, product in enumerate(form.products):
            nodes = {term.node for term in product[:3] if term.factor}
            for node in nodes:
                self._products_of[node].append(index)
            keys.append(max(self.ranks[node] for node in nodes))
        # Relations are equations, then products; they are repaired in the order of computation.
        self._relations = sorted(range(len(keys)), key=keys.__getitem__)
        self._positions = [0] * len(keys)
        for position, relation in enumerate(self._relations):
            self._positions[relation] = position
        self._movable: dict[int, list[tuple[int, int]]] = {}
        self._weights: dict[int, tuple[int, dict[int, list[tuple[int, int]]]]] = {}
        self._groups: dict[int, tuple[int, list[Digit]]] = {}
        self.values: list[int] = []

    def start(self, values: Sequence[int]) -> None:
        """Start from a witness: the values of all nodes."""
        self.values = list(values)
        self._totals = [
            equation.constant
            + sum([values[node] * k for node, k in zip(equation.nodes, equation.coefficients)])
            for equation in self._facts.equations
        ]
        self._trail: list[tuple[int, int, int | None]] = []
        # The relation that moved each moved node, or -1 for the changed one.
        self._owners: dict[int, int] = {}
        self._queue: list[int] = []
        self._queued: set[int] = set()

    def undo(self) -> None:
        """Go back to the witness that the attempts start from."""
        self._undo(0, [])

    def attempt(self, node: int, value: int, deadline: float) -> bool:
        """Change a node and repair what fails; return whether `values` is a witness again."""
        self.undo()
        if not self._is_permitted(node, value):
            return False
        self._set(node, value, -1)
        decisions: deque[tuple[int, list[int], int, Iterator[_Move]]]
        decisions = deque(maxlen=_KEPT_DECISIONS)
        repairs: dict[int, int] = {}
        steps, backtracks, limit = 0, 0, _STEPS_PER_NODE * self._form.nodes + 100
        while (relation := self._next_failing()) is not None:
            steps += 1
            if steps > limit or (not steps % _CLOCK_INTERVAL and monotonic() > deadline):
                return False
            repairs[relation] = repairs.get(relation, 0) + 1
            # Two constraints may move each other's nodes again and again.
            is_cycle = repairs[relation] > _MAX_REPAIRS
            moves = iter(()) if is_cycle else self._moves(relation)
            mark, queue = len(self._trail), list(self._queue)
            while (move := next(moves, None)) is None:
                backtracks += 1
                limit = min(limit, steps + _FURTHER_STEPS)
                if backtracks > _MAX_BACKTRACKS or not decisions:
                    return False
                mark, queue, relation, moves = decisions.pop()
                self._undo(mark, queue)
            decisions.append((mark, queue, relation, moves))
            for each, moved in move:
                self._set(each, moved, relation)
        return True

    # --- values

    def _set(self, node: int, value: int, owner: int) -> None:
        values, totals = self.values, self._totals
        previous = values[node]
        self._trail.append((node, previous, self._owners.get(node)))
        self._owners[node] = owner
        values[node] = value
        difference = value - previous
        queue, queued, positions = self._queue, self._queued, self._positions
        for index, k in self._terms_of[node]:
            totals[index] += k * difference
            if (position := positions[index]) not in queued:
                queued.add(position)
                heappush(queue, position)
        for index in self._products_of[node]:
            if (position := positions[self._count + index]) not in queued:
                queued.add(position)
                heappush(queue, position)

    def _undo(self, mark: int, queue: list[int]) -> None:
        """Take back all moves since a mark; the queue is that of the time of the mark."""
        trail, values, totals = self._trail, self.values, self._totals
        while len(trail) > mark:
            node, previous, owner = trail.pop()
            difference = previous - values[node]
            values[node] = previous
            for index, k in self._terms_of[node]:
                totals[index] += k * difference
            if owner is None:
                del self._owners[node]
            else:
                self._owners[node] = owner
        self._queue = list(queue)
        self._queued = set(queue)

    def _next_failing(self) -> int | None:
        """Return the first relation of the queue that fails, or None."""
        while self._queue:
            position = heappop(self._queue)
            self._queued.discard(position)
            relation = self._relations[position]
            if relation < self._count:
                if self._totals[relation] % self._prime:
                    return relation
            else:
                a, b, c, _ = self._form.products[relation - self._count]
                if (self._term(a) * self._term(b) - self._term(c)) % self._prime:
                    return relation
        return None

    def _term(self, term: Affine) -> int:
        return term.factor * self.values[term.node] + term.constant

    def _is_permitted(self, node: int, value: int) -> bool:
        bounds = self._facts.ranges[node]
        if bounds is not None and not contains(bounds, value, self._prime):
            return False
        return value not in self._facts.excluded.get(node, ())

    def _is_free(self, node: int, relation: int) -> bool:
        """Return whether a relation may move an undetermined node."""
        owner = self._owners.get(node)
        return owner is None or owner == relation

    # --- moves

    def _moves(self, relation: int) -> Iterator[_Move]:
        """Yield moves after which a relation holds."""
        if relation < self._count:
            return self._equation_moves(relation)
        return self._product_moves(relation)

    def _equation_moves(self, index: int) -> Iterator[_Move]:
        """Yield moves of an equation: of its last node, of digits, then of other single nodes."""
        ranges, owners = self._facts.ranges, self._owners
        nodes = [pair for pair in self._movable_nodes(index) if self._is_free(pair[0], index)]
        if not nodes:
            return
        wide = [(node, k) for node, k in nodes if ranges[node] is None]
        # A node that this equation has moved before follows again.
        wide.sort(key=lambda pair: owners.get(pair[0]) != index)
        if wide and (wide[0][0] == nodes[0][0] or owners.get(wide[0][0]) == index):
            yield from self._single(index, *wide.pop(0))
        yield from self._ripples(index)
        yield from self._digits(index)
        for node, k in wide[:_MAX_SINGLES]:
            yield from self._single(index, node, k)
        count = 0
        for node, k in nodes:
            if ranges[node] is not None:
                for move in self._single(index, node, k):
                    yield move
                    count += 1
                if count == _MAX_SINGLES:
                    return

    def _movable_nodes(self, index: int) -> list[tuple[int, int]]:
        """Return the undetermined nodes of an equation with coefficients, the last ones first."""
        nodes = self._movable.get(index)
        if nodes is None:
            equation, determined = self._facts.equations[index], self._facts.determined
            nodes = self._movable[index] = sorted(
                [
                    (node, k)
                    for node, k in zip(equation.nodes, equation.coefficients)
                    if not determined[node]
                ],
                key=lambda pair: -self.ranks[pair[0]],
            )
        return nodes

    def _single(self, index: int, node: int, k: int) -> Iterator[_Move]:
        """Yield the move of a single node of an equation, if its range permits it."""
        value = (self.values[node] - self._totals[index] * inverse(k, self._prime)) % self._prime
        if self._is_permitted(node, value):
            yield ((node, value),)

    def _digits(self, index: int) -> Iterator[_Move]:
        """Yield moves of the last nodes of an equation that are digits of a number."""
        group = self._groups.get(index)
        if group is None:
            group = self._groups[index] = self._group(index)
        scale, all_digits = group
        values, prime = self.values, self._prime
        digits = [digit for digit in all_digits if self._is_free(digit.node, index)]
        total = self._totals[index] * scale
        total -= sum([digit.weight * values[digit.node] for digit in digits])
        for move in decompositions(digits, -total, prime):
            yield [(node, value % prime) for node, value in move if (value - values[node]) % prime]

    def _ripples(self, index: int) -> Iterator[_Move]:
        """Yield moves by 1 of several nodes of an equation, from the lowest weight on.

        The sum of the weights that move clears the error bit by bit, as carries do. Sums that
        share an equation at different offsets need not be told apart.
        """
        prime, values, ranges = self._prime, self.values, self._facts.ranges
        weights = self._weights.get(index)
        if weights is None:
            weights = self._weights[index] = self._weights_of(index)
        scale, nodes_of = weights
        if not nodes_of:
            return
        error = centred(self._totals[index] * scale, prime)
        for total in (error, error - prime if error > 0 else error + prime):
            for absorbs in (False, True):
                move, has_wide = dict[int, int](), False
                while total:
                    level = (total & -total).bit_length()
                    node, weight = next(
                        (
                            pair
                            for pair in nodes_of.get(level, ())
                            if pair[0] not in move and self._is_free(pair[0], index)
                        ),
                        (0, 0),
                    )
                    if not node:
                        break
                    bounds, value = ranges[node], values[node]
                    if bounds is None:
                        has_wide = True
                        step = -total // weight if absorbs and not total % weight else 1
                        if step == 1 and (total > 0) == (weight > 0):
                            step = -1
                    else:
                        step = -1 if (value - bounds[1]) % prime == 0 else 1
                    move[node] = (value + step) % prime
                    total += step * weight
                if not total and move:
                    yield tuple(move.items())
                if not has_wide:
                    break

    def _weights_of(self, index: int) -> tuple[int, dict[int, list[tuple[int, int]]]]:
        """Return a factor, and the movable nodes with weights by their lowest bit."""
        nodes = self._movable_nodes(index)
        prime, ranges = self._prime, self._facts.ranges
        for divisor in dict.fromkeys((1, *(k for _, k in nodes[:1]), *(k for _, k in nodes[-1:]))):
            scale = inverse(divisor, prime)
            weights = [(node, centred(k * scale, prime)) for node, k in nodes]
            reach = sum(
                abs(weight) * (bounds[1] - bounds[0])
                for node, weight in weights
                if (bounds := ranges[node]) is not None
            )
            if reach < MAX_WRAPS * prime:
                nodes_of: dict[int, list[tuple[int, int]]] = {}
                for node, weight in weights:
                    nodes_of.setdefault((weight & -weight).bit_length(), []).append((node, weight))
                for pairs in nodes_of.values():
                    # Nodes with a range first, in the order of `nodes`.
                    pairs.sort(key=lambda pair: ranges[pair[0]] is None)
                return scale, nodes_of
        return 1, {}

    def _group(self, index: int) -> tuple[int, list[Digit]]:
        """Return the last nodes of an equation that are digits of a number, and a factor.

        The factor turns coefficients into weights. The highest digits come first.
        """
        ranges = self._facts.ranges
        nodes = [
            (node, k, bounds)
            for node, k in self._movable_nodes(index)
            if (bounds := ranges[node]) is not None and bounds[0] < bounds[1]
        ]
        best: tuple[int, list[Digit]] = 1, []
        if not nodes:
            return best
        for divisor in dict.fromkeys((1, nodes[0][1], nodes[-1][1])):
            scale = inverse(divisor, self._prime)
            # The longest prefix; a part of digits are digits.
            low, high = len(best[1]), len(nodes)
            while low < high:
                middle = (low + high + 1) // 2
                if digits_of(nodes[:middle], scale, self._prime):
                    low = middle
                else:
                    high = middle - 1
            if low > len(best[1]):
                best = scale, digits_of(nodes[:low], scale, self._prime)
        return best

    def _product_moves(self, relation: int) -> Iterator[_Move]:
        """Yield moves of single nodes of a product, the last ones first."""
        product, prime = self._form.products[relation - self._count], self._prime
        determined = self._facts.determined
        nodes = {
            term.node
            for term in product[:3]
            if term.factor and not determined[term.node] and self._is_free(term.node, relation)
        }
        for node in sorted(nodes, key=lambda node: -self.ranks[node]):
            a, b, c = (
                term
                if term.factor and term.node == node
                else Affine(0, 0, self._term(term) % prime)
                for term in product[:3]
            )
            if not a.factor and not b.factor:
                roots = [(a.constant * b.constant - c.constant) * inverse(c.factor, prime) % prime]
            else:
                coefficients = polynomial(product._replace(a=a, b=b, c=c), prime)
                assert coefficients is not None
                roots = quadratic_roots(*coefficients, prime) or []
            for root in roots:
                if self._is_permitted(node, root):
                    yield ((node, root),)


def _ranks(facts: Propagation) -> list[int]:
    """Return for each node its position in the order of computation.

    Wires are computed in the order of their numbers, but targets after the others of a constraint.
    A form is computed after its wires, or, if it is the product of nodes before its last wire,
    before that wire.
    """
    form = facts.form
    keys = [3 * wire for wire in range(form.wires)]
    targets = set(facts.rows.targets)
    last_wires = {node: max(wires) for node, (wires, _) in enumerate(form.forms, form.wires)}
    for wire in targets:
        parts = [facts.equations[index].nodes for index in facts.equations_of[wire]]
        parts += [
            tuple(facts.rows.wires_of(form.products[index].row))
            for index in facts.products_of[wire]
        ]
        ends = [
            max(
                [
                    3 * form.wires if each in targets else 3 * last_wires.get(each, each)
                    for each in nodes
                    if each != wire
                ],
                default=0,
            )
            for nodes in parts
        ]
        keys[wire] = min((end for end in ends if end), default=keys[wire] - 1) + 1
    keys += [max([keys[wire] for wire in wires]) + 1 for wires, _ in form.forms]
    for a, b, c, _ in form.products:
        if c.factor and c.node >= form.wires:
            last = keys[c.node] - 1
            if all(keys[term.node] < last for term in (a, b) if term.factor):
                keys[c.node] = last - 1
    ranks = [0] * form.nodes
    for rank, node in enumerate(sorted(range(form.nodes), key=keys.__getitem__)):
        ranks[node] = rank
    return ranks
