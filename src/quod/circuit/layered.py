"""Layered circuits: gates of one layer take values of the layer below it.

A layer has 2**log_size values, each the sum of the gates that have it as output:

    add        coefficient * V[x]
    multiply   coefficient * V[x] * V[y]
    constant   coefficient
    power5     coefficient * V[x]**5

The inputs are the lowest layer. A circuit is satisfied by inputs with which all its outputs, the
values of the last layer, are 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.validation import instance, whole_number

LEAST_LOG_SIZE, MOST_LOG_SIZE = 1, 26
MOST_LAYERS = 1 << 12

Indices = NDArray[np.uint32]

KINDS = {"add": 1, "multiply": 2, "constant": 0, "power5": 1}
"""The kinds of gates, in the order in which they are kept, and how many inputs each has."""


@frozen(eq=False)
class Gates:
    """Gates of one kind: `output`, `inputs`, one array for each, and `coefficient`, as indices.

    Coefficients are counted in the circuit's table of them.
    """

    output: Indices
    inputs: tuple[Indices, ...]
    coefficient: Indices

    def __len__(self) -> int:
        return len(self.output)


@frozen(eq=False)
class Layer:
    """One layer above the inputs: its size, and its gates by kind."""

    log_size: int
    gates: dict[str, Gates]


class LayeredCircuit:
    """Layers over a prime field.

    `field` is the field, `log_inputs` the logarithm of how many inputs there are, `coefficients`
    the table of the gates' and `layers` what stands above the inputs. InputError for gates that
    reach beyond a layer.
    """

    def __init__(
        self, field: Modulus, log_inputs: int, coefficients: Sequence[int], layers: Sequence[Layer]
    ) -> None:
        instance("the field of a circuit", field, Modulus, "take one of quod.field.NAMED")
        self.field = field
        self.log_inputs = _log_size("log_inputs", log_inputs)
        given: tuple[object, object] = (coefficients, layers)
        if not all(isinstance(part, (tuple, list)) for part in given):
            raise InputError("the coefficients and the layers of a circuit are lists")
        if any(type(c) is not int for c in coefficients):
            raise InputError("the coefficients of a circuit are int")
        for layer in layers:
            instance(
                "a layer of a circuit", layer, Layer, "CircuitBuilder.layer collects its gates"
            )
        self.coefficients = tuple(c % field.value for c in coefficients)
        self.layers = tuple(layers)
        if not 1 <= len(self.layers) <= MOST_LAYERS:
            raise InputError(f"a circuit has 1 to {MOST_LAYERS} layers, not {len(self.layers)}")
        below = self.log_inputs
        for number, layer in enumerate(self.layers):
            self._check(number, layer, below)
            below = layer.log_size

    def _check(self, number: int, layer: Layer, below: int) -> None:
        _log_size(f"the log_size of layer {number}", layer.log_size)
        if set(layer.gates) != set(KINDS):
            raise InputError(f"layer {number} has gates of the kinds {', '.join(KINDS)}")
        for kind, gates in layer.gates.items():
            arrays = {
                "output": (gates.output, 1 << layer.log_size),
                "coefficient": (gates.coefficient, len(self.coefficients)),
                **{f"input {at}": (x, 1 << below) for at, x in enumerate(gates.inputs)},
            }
            if len(gates.inputs) != KINDS[kind]:
                raise InputError(f"{kind} gates of layer {number} have {KINDS[kind]} inputs")
            for what, (array, limit) in arrays.items():
                if array.dtype != np.uint32 or array.shape != gates.output.shape:
                    raise InputError(f"the {what}s of {kind} gates of layer {number} are no uint32")
                if len(array) and int(array.max()) >= limit:
                    raise InputError(
                        f"{what} {int(array.max())} of a {kind} gate of layer {number} is beyond "
                        f"the last one, {limit - 1}"
                    )

    @property
    def log_outputs(self) -> int:
        """The logarithm of how many outputs there are."""
        return self.layers[-1].log_size

    def log_below(self, number: int) -> int:
        """The logarithm of the values that gates of a layer take."""
        return self.layers[number - 1].log_size if number else self.log_inputs

    @cached_property
    def digest(self) -> bytes:
        """SHA3-256 of all that the circuit is: two circuits with one digest are the same."""
        state = hashlib.sha3_256(b"quod layered circuit 1\0")
        numbers = [self.field.value, self.log_inputs, len(self.coefficients), len(self.layers)]
        for number in [*numbers, *self.coefficients]:
            state.update(number.to_bytes(72, "little"))
        for layer in self.layers:
            state.update(layer.log_size.to_bytes(8, "little"))
            for kind in KINDS:
                gates = layer.gates[kind]
                state.update(len(gates).to_bytes(8, "little"))
                for array in (gates.output, *gates.inputs, gates.coefficient):
                    state.update(np.ascontiguousarray(array, "<u4").tobytes())
        return state.digest()

    def evaluate(self, inputs: Sequence[int]) -> list[list[int]]:
        """The values of all layers, the inputs first, on the host. InputError for other inputs."""
        p = self.field.value
        if len(inputs) != 1 << self.log_inputs or any(type(value) is not int for value in inputs):
            raise InputError(f"the circuit takes {1 << self.log_inputs} inputs, each an int")
        values = [[value % p for value in inputs]]
        for layer in self.layers:
            below, own = values[-1], [0] * (1 << layer.log_size)
            for kind, gates in layer.gates.items():
                columns: list[Any] = [gates.output.tolist(), gates.coefficient.tolist()]
                columns += [array.tolist() for array in gates.inputs]
                for output, coefficient, *taken in zip(*columns, strict=True):
                    part = self.coefficients[coefficient]
                    for x in taken:
                        part = part * below[x] % p
                    if kind == "power5":
                        part = part * pow(below[taken[0]], 4, p) % p
                    own[output] += part
            values.append([value % p for value in own])
        return values


def _log_size(name: str, value: object) -> int:
    return whole_number(name, value, LEAST_LOG_SIZE, MOST_LOG_SIZE)


class LayerBuilder:
    """Collects gates of one layer; `CircuitBuilder.layer` gives one."""

    def __init__(self, owner: CircuitBuilder, log_size: int) -> None:
        self._owner, self.log_size = owner, log_size
        self._rows: dict[str, list[tuple[int, ...]]] = {kind: [] for kind in KINDS}

    def add(self, output: int, x: int, coefficient: int = 1) -> None:
        """V[output] += coefficient * below[x]."""
        self._rows["add"].append((output, x, self._owner.coefficient(coefficient)))

    def multiply(self, output: int, x: int, y: int, coefficient: int = 1) -> None:
        """V[output] += coefficient * below[x] * below[y]."""
        self._rows["multiply"].append((output, x, y, self._owner.coefficient(coefficient)))

    def constant(self, output: int, value: int) -> None:
        """V[output] += value."""
        self._rows["constant"].append((output, self._owner.coefficient(value)))

    def power5(self, output: int, x: int, coefficient: int = 1) -> None:
        """V[output] += coefficient * below[x]**5."""
        self._rows["power5"].append((output, x, self._owner.coefficient(coefficient)))

    def finished(self) -> Layer:
        """The layer of all gates so far."""
        gates = {}
        for kind, rows in self._rows.items():
            for row in rows:
                for number in row:
                    whole_number(f"the places of {kind} gates", number, 0, (1 << 32) - 1)
            width = KINDS[kind] + 2
            table = np.array(rows, np.uint32).reshape(-1, width)
            columns = [np.ascontiguousarray(table[:, at]) for at in range(width)]
            gates[kind] = Gates(columns[0], tuple(columns[1:-1]), columns[-1])
        return Layer(self.log_size, gates)


class CircuitBuilder:
    """Puts a circuit together, from the inputs upwards."""

    def __init__(self, field: Modulus, log_inputs: int) -> None:
        instance("the field of a circuit", field, Modulus, "take one of quod.field.NAMED")
        self.field, self.log_inputs = field, _log_size("log_inputs", log_inputs)
        self._coefficients: dict[int, int] = {}
        self._layers: list[LayerBuilder] = []

    def coefficient(self, value: int) -> int:
        """The place of a coefficient in the circuit's table."""
        if type(value) is not int:
            raise InputError(f"the coefficient of a gate is an int, not {type(value).__name__}")
        return self._coefficients.setdefault(value % self.field.value, len(self._coefficients))

    def layer(self, log_size: int) -> LayerBuilder:
        """The next layer, of 2**log_size values."""
        builder = LayerBuilder(self, _log_size("log_size", log_size))
        self._layers.append(builder)
        return builder

    def finished(self) -> LayeredCircuit:
        """The circuit of all layers."""
        layers = [layer.finished() for layer in self._layers]
        return LayeredCircuit(self.field, self.log_inputs, list(self._coefficients), layers)
