"""From the values of a program to the layers of a circuit.

A value stands in the lowest layer that its operands allow, or higher where that saves relays: gates
that carry a value one layer up, one a layer for all who use it. Public inputs and challenges are
constants of the layer where they are needed. What no assertion depends on is left out.
"""

from __future__ import annotations

from collections import Counter

from quod.circuit.builder import CircuitBuilder
from quod.circuit.layered import LayeredCircuit
from quod.circuit.nodes import Given, Known, Node, gates_of
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
                for coefficient, operands in gates_of(nodes, node):
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


class _Plan:
    """The layer of each value that an assertion depends on."""

    def __init__(self, nodes: list[Node], outputs: list[int]) -> None:
        self._nodes = nodes
        self._operands: dict[int, tuple[int, ...]] = {}
        self.level: dict[int, int] = {}
        pending = list(outputs)
        while pending:
            number = pending.pop()
            if number in self._operands:
                continue
            node, operands = nodes[number], set[int]()
            if isinstance(node, dict):
                for _, taken in gates_of(nodes, node):
                    operands.update(taken)
            self._operands[number] = tuple(operands)
            pending += operands
        self._order = sorted(self._operands)
        # How many layers take each value as an operand, by layer: the last one is how far it goes.
        self._uses: dict[int, Counter[int]] = {number: Counter() for number in self._order}
        for number in self._order:
            operands_of = self._operands[number]
            floor = max((self._lowest(operand) for operand in operands_of), default=0)
            gate = isinstance(nodes[number], dict)
            self.level[number] = floor + 1 if gate else 0
        self.top = max(1, *self.level.values())
        for number in self._order:
            for operand in self._operands[number]:
                self._uses[operand][self.level[number] - 1] += 1
        for number in outputs:
            self._uses[number][self.top] += 1

    def _lowest(self, operand: int) -> int:
        """The lowest layer in which an operand can be taken; constants are not among the inputs."""
        return 1 if isinstance(self._nodes[operand], Known) else self.level[operand]

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
                uses = self._uses[operand]
                uses[low - 1] -= 1
                if not uses[low - 1]:
                    del uses[low - 1]
                if not isinstance(self._nodes[operand], Known):
                    reach.append(max(uses, default=self.level[operand]))
            places = {low, high, *(far + 1 for far in reach if low <= far < high)}
            best = min(
                places, key=lambda at: (sum(max(0, at - 1 - far) for far in reach) - at, at)
            )
            self.level[number] = best
            for operand in self._operands[number]:
                self._uses[operand][best - 1] += 1

    def layers(self) -> list[list[int]]:
        """The values of each layer above the inputs: new ones, relayed ones, constants."""
        fresh: list[list[int]] = [[] for _ in range(self.top + 1)]
        constants: list[list[int]] = [[] for _ in range(self.top + 1)]
        last: dict[int, int] = {}
        for number in self._order:
            if isinstance(self._nodes[number], Known):
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
