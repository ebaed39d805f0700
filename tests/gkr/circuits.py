"""Random layered circuits that their inputs satisfy."""

from __future__ import annotations

import random
from typing import Any

from quod.field import Modulus
from quod.frozen import replace
from quod.gkr import VerifyingKey
from quod.layered import CircuitBuilder, LayeredCircuit, Public, Random

Rows = list[list[int]]


def satisfied(
    field: Modulus, seed: int, *, log_inputs: int = 3, layers: int = 3, gates: int = 12,
    powers: bool = True, instances: int = 1, randoms: bool = False,
) -> tuple[LayeredCircuit, Rows, Rows]:  # fmt: skip
    """A circuit with gates of all kinds, and the inputs and public inputs of all instances.

    Public inputs 0 and 1 are factors, the others what the outputs are to be.
    """
    generator, p = random.Random(seed), field.value

    def number() -> int:
        return generator.choice([0, 1, p - 1, generator.randrange(p)])

    inputs = [[number() for _ in range(1 << log_inputs)] for _ in range(instances)]
    sizes = [generator.randrange(1, log_inputs + 2) for _ in range(layers)]
    outputs = 1 << sizes[-1]
    zeros = generator.randrange(1, outputs + 1)
    circuit = CircuitBuilder(field, log_inputs, public=2 + zeros)
    below = log_inputs
    for at, size in enumerate(sizes):
        layer = circuit.layer(size)

        def place(log_size: int) -> int:
            # Half of the gates share places.
            return generator.randrange(1 << generator.choice([0, log_size]))

        def coefficient() -> int | Public:
            some: list[int | Public] = [1, -1, 2, 0, generator.randrange(p), Public(0), Public(1)]
            return generator.choice(some)

        for _ in range(gates):
            layer.add(place(size), place(below), coefficient())
            if at != 1:
                layer.multiply(place(size), place(below), place(below), coefficient())
        if powers and at % 2 == 0:
            for _ in range(3):
                layer.power(place(size), place(below), generator.randrange(2, 6), coefficient())
        layer.constant(place(size), number())
        layer.constant(place(size), Public(1))
        below = size
    factors = [number(), number()]
    public_row = [*factors, *[0] * zeros]
    finished = circuit.finished()
    expected = [finished.evaluate(row, public_row)[-1][:zeros] for row in inputs]
    last = circuit.layer(below)
    for at in range(outputs):
        last.add(at, at, -1)
        if at < zeros:
            last.constant(at, Public(2 + at))
    if randoms:
        # Once more, each output multiplied by a challenge and by the square of one.
        mixed = circuit.layer(below)
        for at in range(outputs):
            mixed.add(at, at, Random(at % 3))
        square = circuit.layer(below)
        for at in range(outputs):
            square.multiply(at, at, at, Random(1))
            square.constant(at, Random(0) if at >= zeros else 0)
    return circuit.finished(zeros=zeros), inputs, [[*factors, *row] for row in expected]


def with_other(key: VerifyingKey, **parts: Any) -> VerifyingKey:
    """Return the key with other fields."""
    return replace(key, **parts)
