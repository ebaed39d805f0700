"""Random layered circuits that their inputs satisfy."""

from __future__ import annotations

import random

from quod.circuit import CircuitBuilder, LayeredCircuit
from quod.field import Modulus


def satisfied(
    field: Modulus, seed: int, *, log_inputs: int = 3, layers: int = 3, gates: int = 12,
    powers: bool = True,
) -> tuple[LayeredCircuit, list[int]]:  # fmt: skip
    """A circuit with gates of all kinds, runs of none to many, and inputs that make it zero."""
    generator, p = random.Random(seed), field.value
    inputs = [
        generator.choice([0, 1, p - 1, generator.randrange(p)]) for _ in range(1 << log_inputs)
    ]
    circuit, below = CircuitBuilder(field, log_inputs), log_inputs
    for number in range(layers):
        own = generator.randrange(1, log_inputs + 2)
        layer = circuit.layer(own)

        def place(log_size: int) -> int:
            # Half of the gates share places.
            return generator.randrange(1 << generator.choice([0, log_size]))

        def coefficient() -> int:
            return generator.choice([1, -1, 2, 0, generator.randrange(p)])

        for _ in range(gates):
            layer.add(place(own), place(below), coefficient())
            if number != 1:
                layer.multiply(place(own), place(below), place(below), coefficient())
        if powers and number % 2 == 0:
            for _ in range(3):
                layer.power5(place(own), place(below), coefficient())
        layer.constant(place(own), generator.randrange(p))
        below = own
    values = circuit.finished().evaluate(inputs)[-1]
    last = circuit.layer(below)
    for at, value in enumerate(values):
        last.add(at, at)
        last.constant(at, -value)
    return circuit.finished(), inputs
