"""Assignment of a program's values to the layers of a circuit.

A value is in the lowest layer that its operands allow, or higher if that saves relays. A relay is a
gate that copies a value one layer up; all users of the value share it. Public inputs and challenges
are constants of the layer that uses them. Values that no assertion depends on are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quod.field.moduli import Modulus
from quod.layered.builder import CircuitBuilder
from quod.layered.circuit import Coefficient, LayeredCircuit
from quod.layered.nodes import ConstantNode, InputNode, Node, gates_of
from quod.layered.wire import Terms


def layers_of(
    field: Modulus, nodes: list[Node], outputs: list[int], inputs: int, public: int
) -> LayeredCircuit:
    """Return the layered circuit that computes values of a program which must be 0.

    nodes: the values of the program.
    outputs: the indices of the values that must be 0. They are the first outputs of the circuit.
    inputs: the number of inputs, without public inputs.
    public: the number of public inputs.
    """
    plan = _Plan(nodes, outputs)
    plan.raise_values()
    builder = CircuitBuilder(field, _log_size(inputs), public=public)
    below = {number: node.index for number, node in enumerate(nodes) if isinstance(node, InputNode)}
    for layer, values in enumerate(plan.layers(), 1):
        layer_values = outputs if layer == plan.top else values
        index_of = {number: index for index, number in enumerate(layer_values)}
        gates = builder.layer(_log_size(len(layer_values)))
        for number, index in index_of.items():
            node = nodes[number]
            if isinstance(node, ConstantNode):
                gates.constant(index, node.coefficient)
            elif isinstance(node, InputNode) or plan.level[number] < layer:
                gates.add(index, below[number])
            else:
                for operands, coefficient in plan.gates(number, node):
                    if len(operands) == 2 and operands[0] != operands[1]:
                        first, second = operands
                        gates.multiply(index, below[first], below[second], coefficient)
                    elif operands:
                        gates.power(index, below[operands[0]], len(operands), coefficient)
                    else:
                        gates.constant(index, coefficient)
        below = index_of
    return builder.finished(zeros=len(outputs))


def _log_size(count: int) -> int:
    return max(1, (count - 1).bit_length())


class Levels:
    """The lowest layer that each value can be in, computed for new values on demand.

    The level of a value is the index of its layer.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self.constants: dict[int, ConstantNode] = {}
        """The public inputs and challenges among the values examined so far."""
        self.mixed = set[int]()
        """The examined sums in which a public input or challenge is a factor."""
        self.operands: list[Sequence[int]] = []
        """For each examined value, its operands in the layer below."""
        self._lowest: list[int] = []

    def of(self, number: int) -> int:
        """Return the lowest layer that a value can be in: 0 for inputs, 1 for constants."""
        lowest = self._lowest
        for index in range(len(lowest), number + 1):
            node = self._nodes[index]
            operands: Sequence[int] = ()
            if isinstance(node, ConstantNode):
                self.constants[index] = node
                lowest.append(1)
            elif isinstance(node, InputNode):
                lowest.append(0)
            else:
                factors = set[int]().union(*node)
                if not self.constants.keys().isdisjoint(factors):
                    self.mixed.add(index)
                    factors = set[int]().union(
                        *(product for product, _ in gates_of(self.constants, node))
                    )
                # The garbage collector does not track tuples of numbers.
                operands = tuple(factors)
                lowest.append(1 + max([lowest[operand] for operand in operands], default=0))
            self.operands.append(operands)
        return lowest[number]


class _Plan:
    """The assignment of a layer to each value that an assertion depends on."""

    def __init__(self, nodes: list[Node], outputs: list[int]) -> None:
        self._nodes = nodes
        lowest = Levels(nodes)
        lowest.of(max(outputs))
        self._constants, self._mixed = lowest.constants, lowest.mixed
        self._operands = lowest.operands
        reached, pending = set[int](), list(outputs)
        while pending:
            number = pending.pop()
            if number not in reached:
                reached.add(number)
                pending += self._operands[number]
        self._order = sorted(reached)
        # A constant has a gate in each layer that uses it, and so no layer of its own. Its level 0
        # is a placeholder.
        self.level = {
            number: 0 if number in self._constants else lowest.of(number) for number in self._order
        }
        self.top = max(1, *self.level.values())
        # For each value and each layer, the number of uses that read the value from that layer.
        # Relays carry a value up to the highest of its layers.
        self._uses: dict[int, dict[int, int]] = {number: {} for number in self._order}
        for number in self._order:
            layer = self.level[number] - 1
            for operand in self._operands[number]:
                uses = self._uses[operand]
                uses[layer] = uses.get(layer, 0) + 1
        for number in outputs:
            self._use(number, self.top, 1)

    def gates(self, number: int, terms: Terms) -> Iterable[tuple[tuple[int, ...], Coefficient]]:
        """Return the operands and the coefficient of each gate of a value."""
        return gates_of(self._constants, terms) if number in self._mixed else terms.items()

    def _use(self, operand: int, layer: int, change: int) -> None:
        """Add `change` to the number of uses that read an operand from a layer; -1 removes one."""
        uses = self._uses[operand]
        count = uses.get(layer, 0) + change
        if count:
            uses[layer] = count
        else:
            del uses[layer]

    def raise_values(self) -> None:
        """Move values up where that saves relays, from the last value to the first.

        A value thus moves after all values that use it.
        """
        for number in reversed(self._order):
            low, high = self.level[number], min(self._uses[number])
            if not isinstance(self._nodes[number], dict) or low == high:
                continue
            # Each layer up saves one relay of the value, and costs a relay of each operand whose
            # other uses are below.
            last_layers = []
            for operand in self._operands[number]:
                self._use(operand, low - 1, -1)
                if operand not in self._constants:
                    last_layers.append(max(self._uses[operand], default=self.level[operand]))
            candidates = {
                low,
                high,
                *(last_layer + 1 for last_layer in last_layers if low <= last_layer < high),
            }
            best = min(
                candidates,
                key=lambda candidate: (
                    sum(max(0, candidate - 1 - last_layer) for last_layer in last_layers)
                    - candidate,
                    candidate,
                ),
            )
            self.level[number] = best
            for operand in self._operands[number]:
                self._use(operand, best - 1, 1)

    def layers(self) -> list[list[int]]:
        """Return the values of each layer above the inputs: new, relayed and constant values."""
        new_values: list[list[int]] = [[] for _ in range(self.top + 1)]
        constants: list[list[int]] = [[] for _ in range(self.top + 1)]
        last_use: dict[int, int] = {}
        for number in self._order:
            if number in self._constants:
                for layer in self._uses[number]:
                    constants[layer].append(number)
            else:
                new_values[self.level[number]].append(number)
                last_use[number] = max(self._uses[number])
        layers, alive = [], new_values[0]
        for layer in range(1, self.top + 1):
            relayed = [number for number in alive if last_use[number] >= layer]
            alive = new_values[layer] + relayed
            layers.append(alive + constants[layer])
        return layers
