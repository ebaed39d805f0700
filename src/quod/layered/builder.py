"""Construction of layered circuits, gate by gate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.layered.circuit import (
    KINDS,
    MAX_PUBLIC,
    POWERS,
    Coefficient,
    Gates,
    Indices,
    Layer,
    LayeredCircuit,
    checked_coefficient,
    checked_log_size,
)
from quod.validation import whole_number


class LayerBuilder:
    """A builder of one layer; `CircuitBuilder.layer` returns one.

    In the methods V has the values of the layer, and `below` those of the layer below it.
    """

    def __init__(self, owner: CircuitBuilder, log_size: int) -> None:
        self._owner, self.log_size = owner, log_size
        # For each kind the rows of its gates, concatenated.
        self._rows: dict[str, list[int]] = {kind: [] for kind in KINDS}

    def constant(self, output: int, value: Coefficient) -> None:
        """Add a gate: V[output] += value."""
        self._rows["constant"] += (output, self._owner.coefficient(value))

    def add(self, output: int, x: int, coefficient: Coefficient = 1) -> None:
        """Add a gate: V[output] += coefficient * below[x]."""
        self._rows["add"] += (output, x, self._owner.coefficient(coefficient))

    def multiply(self, output: int, x: int, y: int, coefficient: Coefficient = 1) -> None:
        """Add a gate: V[output] += coefficient * below[x] * below[y]."""
        self._rows["multiply"] += (output, x, y, self._owner.coefficient(coefficient))

    def power(self, output: int, x: int, exponent: int, coefficient: Coefficient = 1) -> None:
        """Add a gate: V[output] += coefficient * below[x]**exponent; the exponent is 1 to 5."""
        exponent = whole_number("the exponent of a gate", exponent, 1, max(POWERS.values()))
        kind = "add" if exponent == 1 else f"power{exponent}"
        self._rows[kind] += (output, x, self._owner.coefficient(coefficient))

    def unary(self, output: int, x: int, polynomial: Sequence[Coefficient]) -> None:
        """Add to V[output] the value of a polynomial at below[x].

        polynomial: at most six coefficients, constant term first.
        """
        coefficients: object = polynomial
        max_count = max(POWERS.values()) + 1
        if not isinstance(coefficients, (list, tuple)) or len(coefficients) > max_count:
            raise InputError(
                f"the polynomial of a gate must be a list of at most {max_count} coefficients"
            )
        for exponent, coefficient in enumerate(coefficients):
            if type(coefficient) is int and coefficient % self._owner.field.value == 0:
                continue
            if exponent == 0:
                self.constant(output, coefficient)
            else:
                self.power(output, x, exponent, coefficient)

    def finished(self) -> Layer:
        """Return the layer with all gates so far."""
        gates = {}
        for kind, rows in self._rows.items():
            width = KINDS[kind] + 2
            table = _places(kind, rows).reshape(-1, width)
            columns = [np.ascontiguousarray(table[:, index]) for index in range(width)]
            gates[kind] = Gates(columns[0], tuple(columns[1:-1]), columns[-1])
        return Layer(self.log_size, gates)


def _places(kind: str, numbers: list[int]) -> Indices:
    """Return wires as an array; InputError for a number that is not a wire."""
    if set(map(type, numbers)) - {int} or (
        numbers and not (min(numbers) >= 0 and max(numbers) < 1 << 32)
    ):
        what = f"the places of {kind} gates"
        numbers = [whole_number(what, number, 0, (1 << 32) - 1) for number in numbers]
    return np.array(numbers, np.uint32)


class CircuitBuilder:
    """A builder of a circuit, from the inputs up."""

    def __init__(self, field: Modulus, log_inputs: int, *, public: int = 0) -> None:
        """Begin a circuit with 2**log_inputs inputs and `public` public inputs."""
        self.field, self.log_inputs = field, checked_log_size("log_inputs", log_inputs)
        self.public = whole_number("the public inputs", public, 0, MAX_PUBLIC)
        self._coefficients: dict[Coefficient, int] = {}
        self._layers: list[LayerBuilder] = []

    def coefficient(self, value: Coefficient) -> int:
        """Return the index of a coefficient in the circuit's table; adds it if it is new."""
        if type(value) is int and (index := self._coefficients.get(value)) is not None:
            return index
        reduced = checked_coefficient(self.field, value)
        return self._coefficients.setdefault(reduced, len(self._coefficients))

    def layer(self, log_size: int) -> LayerBuilder:
        """Begin the next layer, of 2**log_size values."""
        builder = LayerBuilder(self, checked_log_size("log_size", log_size))
        self._layers.append(builder)
        return builder

    def finished(self, *, zeros: int | None = None) -> LayeredCircuit:
        """Return the circuit; its first `zeros` outputs, by default all, must be 0."""
        layers = [layer.finished() for layer in self._layers]
        return LayeredCircuit(
            self.field, self.log_inputs, list(self._coefficients), layers, public=self.public,
            zeros=zeros,
        )  # fmt: skip
