"""From the values of a program to the layers of a circuit.

A value stands in the lowest layer that its operands allow, or higher where that saves relays: gates
that carry a value one layer up, one a layer for all who use it. Public inputs and challenges are
constants of the layer where they are needed. What no assertion depends on is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.circuit.builder import CircuitBuilder
from quod.circuit.layered import Coefficient, LayeredCircuit
from quod.circuit.nodes import Given, Known, Node, gates_of, operands_of
from quod.circuit.wire import Terms
from quod.field.moduli import Modulus


def layers_of(
    field: Modulus, nodes: list[Node], outputs: list[int], inputs: int, public: int
) -> LayeredCircuit:
    """The circuit whose first outputs are these values."""
    plan = _Plan(nodes, outputs)
    plan.raise_values()
    builder = CircuitBuilder(field, _log_size(inputs), public=public)
    below = {number: node.place for number, node in enumerate(nodes) if isinstance(node, Given)}
    for layer, values in enumerate(plan.layers(), 1):
        own = outputs if layer == plan.top else values
        place = {number: at for at, number in enumerate(own)}
        gates = builder.layer(_log_size(len(own)))
        for number, at in place.items():
            node = nodes[number]
            if isinstance(node, Known):
                gates.constant(at, node.coefficient)
            elif isinstance(node, Given) or plan.level[number] < layer:
                gates.add(at, below[number])
            else:
                for coefficient, operands in plan.gates(node):
                    if not operands:
                        gates.constant(at, coefficient)
                    elif len(set(operands)) == 1:
                        gates.power(at, below[operands[0]], len(operands), coefficient)
                    else:
                        x, y = operands
                        gates.multiply(at, below[x], below[y], coefficient)
        below = place
    return builder.finished(zeros=len(outputs))


def _log_size(count: int) -> int:
    return max(1, (count - 1).bit_length())


class Levels:
    """The lowest layer that each value can stand in, also of those that come later."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._known: dict[int, Known] = {}
        self._lowest: list[int] = []

    def of(self, number: int) -> int:
        """That of a value; constants are not among the inputs."""
        lowest = self._lowest
        for at in range(len(lowest), number + 1):
            node = self._nodes[at]
            if isinstance(node, Known):
                self._known[at] = node
                lowest.append(1)
            elif isinstance(node, Given):
                lowest.append(0)
            else:
                operands = operands_of(self._known, node)
                lowest.append(1 + max((lowest[one] for one in operands), default=0))
        return lowest[number]


class _Plan:
    """The layer of each value that an assertion depends on."""

    def __init__(self, nodes: list[Node], outputs: list[int]) -> None:
        self._nodes = nodes
        self._known = {at: node for at, node in enumerate(nodes) if isinstance(node, Known)}
        # Those that each value takes from the layer below.
        self._operands: dict[int, set[int]] = {}
        pending = list(outputs)
        while pending:
            number = pending.pop()
            if number in self._operands:
                continue
            self._operands[number] = operands_of(self._known, nodes[number])
            pending += self._operands[number]
        self._order = sorted(self._operands)
        lowest = Levels(nodes)
        self.level = {
            number: 0 if number in self._known else lowest.of(number) for number in self._order
        }
        self.top = max(1, *self.level.values())
        # How many take each value from each layer: the last one is how far it is carried.
        self._uses: dict[int, dict[int, int]] = {number: {} for number in self._order}
        for number in self._order:
            for operand in self._operands[number]:
                self._use(operand, self.level[number] - 1, 1)
        for number in outputs:
            self._use(number, self.top, 1)

    def gates(self, terms: Terms) -> Iterable[tuple[Coefficient, tuple[int, ...]]]:
        """The coefficient of each gate of a value, and what it takes from the layer below."""
        if self._known.keys().isdisjoint(set[int]().union(*terms)):
            return ((coefficient, product) for product, coefficient in terms.items())
        return gates_of(self._known, terms)

    def _use(self, operand: int, layer: int, change: int) -> None:
        uses = self._uses[operand]
        count = uses.get(layer, 0) + change
        if count:
            uses[layer] = count
        else:
            del uses[layer]

    def raise_values(self) -> None:
        """Moves values up where that saves relays, those that are used last first."""
        for number in reversed(self._order):
            low, high = self.level[number], min(self._uses[number])
            if not isinstance(self._nodes[number], dict) or low == high:
                continue
            # A layer up saves a relay of the value, and costs one of each operand that would
            # otherwise end below.
            reach = []
            for operand in self._operands[number]:
                self._use(operand, low - 1, -1)
                if operand not in self._known:
                    reach.append(max(self._uses[operand], default=self.level[operand]))
            places = {low, high, *(far + 1 for far in reach if low <= far < high)}
            best = min(places, key=lambda at: (sum(max(0, at - 1 - far) for far in reach) - at, at))
            self.level[number] = best
            for operand in self._operands[number]:
                self._use(operand, best - 1, 1)

    def layers(self) -> list[list[int]]:
        """The values of each layer above the inputs: new ones, relayed ones, constants."""
        fresh: list[list[int]] = [[] for _ in range(self.top + 1)]
        constants: list[list[int]] = [[] for _ in range(self.top + 1)]
        last: dict[int, int] = {}
        for number in self._order:
            if number in self._known:
                for layer in self._uses[number]:
                    constants[layer].append(number)
            else:
                fresh[self.level[number]].append(number)
                last[number] = max(self._uses[number])
        found, alive = [], fresh[0]
        for layer in range(1, self.top + 1):
            relayed = [number for number in alive if last[number] >= layer]
            alive = fresh[layer] + relayed
            found.append(alive + constants[layer])
        return found
