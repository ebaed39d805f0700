"""Layered circuits: gates of one layer read values of the layer below it.

A layer has 2**log_size values, each the sum of the gates that have it as output:

    constant   coefficient
    add        coefficient * V[x]
    multiply   coefficient * V[x] * V[y]
    power2     coefficient * V[x]**2, and so on up to power5

A coefficient is a number, a public input, or a challenge that is drawn after the inputs are
committed to. The inputs are the lowest layer. Inputs satisfy a circuit if its first `zeros`
outputs, values of the last layer, are 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.validation import instance, plain_array, shown_kind, whole_number

MIN_LOG_SIZE, MAX_LOG_SIZE = 1, 26
MAX_LAYERS = 1 << 12
MAX_PUBLIC = 1 << 24
MAX_RANDOMS = 1 << 20

_MAX_DEGREE = 1 << 60
"""The bound at which degrees saturate; five times the bound plus one fits into a machine word."""

Indices = NDArray[np.uint32]

POWERS = {f"power{exponent}": exponent for exponent in range(2, 6)}
"""The exponents of the kinds of gates that raise their input to a power."""

KINDS = {"constant": 0, "add": 1, "multiply": 2, **dict.fromkeys(POWERS, 1)}
"""The number of inputs of each kind of gate, in the order in which gates are stored."""


@frozen
class Public:
    """A coefficient that is a public input; `number` counts from 0."""

    number: int

    def __post_init__(self) -> None:
        number = whole_number("the number of a public input", self.number, 0, MAX_PUBLIC - 1)
        self.__dict__.update(number=number)


@frozen
class Random:
    """A coefficient that is a challenge; `number` counts from 0."""

    number: int

    def __post_init__(self) -> None:
        number = whole_number("the number of a challenge", self.number, 0, MAX_RANDOMS - 1)
        self.__dict__.update(number=number)


Coefficient = int | Public | Random

_TAGS = {int: 0, Public: 1, Random: 2}


@frozen(eq=False)
class Gates:
    """The gates of one kind in a layer, as arrays with an entry per gate.

    output: wires of the layer.
    inputs: an array of wires of the layer below for each input.
    coefficient: indices into the circuit's table of coefficients.
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
    gates: Mapping[str, Gates]


class LayeredCircuit:
    """A layered circuit over a prime field.

    field: the prime field.
    log_inputs: the base-2 logarithm of the number of inputs.
    coefficients: the table of the gates' coefficients.
    layers: the layers above the inputs.
    public: the number of public inputs.
    zeros: the number of outputs that must be 0; None for all.
    InputError for gates with wires outside a layer.
    """

    def __init__(
        self, field: Modulus, log_inputs: int, coefficients: Sequence[Coefficient],
        layers: Sequence[Layer], *, public: int = 0, zeros: int | None = None,
    ) -> None:  # fmt: skip
        instance("the field of a circuit", field, Modulus, "take one of quod.field.NAMED")
        self.field = field
        self.log_inputs = checked_log_size("log_inputs", log_inputs)
        lists: tuple[object, object] = (coefficients, layers)
        if not all(isinstance(part, (tuple, list)) for part in lists):
            raise InputError("the coefficients and the layers of a circuit must be lists")
        for layer in layers:
            instance("a layer of a circuit", layer, Layer, "make it with CircuitBuilder.layer")
        self.public = whole_number("the public inputs", public, 0, MAX_PUBLIC)
        self.coefficients = tuple(
            checked_coefficient(field, coefficient) for coefficient in coefficients
        )
        """The table of coefficients; numbers are in 0 to p - 1."""
        self.randoms = 1 + max(
            (c.number for c in self.coefficients if isinstance(c, Random)), default=-1
        )
        """The number of challenges among the coefficients."""
        max_public = max((c.number for c in self.coefficients if isinstance(c, Public)), default=-1)
        if max_public >= self.public:
            raise InputError(
                f"public input {max_public} is out of range; the last one is {self.public - 1}"
            )
        if not 1 <= len(layers) <= MAX_LAYERS:
            raise InputError(f"a circuit must have 1 to {MAX_LAYERS} layers, not {len(layers)}")
        log_below, checked_layers = self.log_inputs, []
        for number, layer in enumerate(layers):
            checked_layers.append(self._checked(number, layer, log_below))
            log_below = checked_layers[-1].log_size
        self.layers = tuple(checked_layers)
        outputs = 1 << self.log_outputs
        self.zeros = outputs if zeros is None else whole_number("zeros", zeros, 1, outputs)

    def _checked(self, number: int, layer: Layer, log_below: int) -> Layer:
        """Validate a layer and return it with read-only arrays, as the digest depends on them."""
        log_size = checked_log_size(f"the log_size of layer {number}", layer.log_size)
        by_kind: object = layer.gates
        if not isinstance(by_kind, Mapping) or set(by_kind) != set(KINDS):
            raise InputError(
                f"layer {number} must have an entry for each of the kinds {', '.join(KINDS)}"
            )
        checked_gates = {}
        for kind in KINDS:
            gates, what = by_kind[kind], f"{kind} gates of layer {number}"
            instance(what, gates, Gates, "make it from arrays")
            inputs: object = gates.inputs
            if not isinstance(inputs, tuple) or len(inputs) != KINDS[kind]:
                raise InputError(f"{what} must have {KINDS[kind]} inputs")
            limits = [1 << log_size, *[1 << log_below] * len(inputs), len(self.coefficients)]
            names = ["output", *(f"input {index}" for index in range(len(inputs))), "coefficient"]
            columns = [
                _checked_indices(name, what, array, limit)
                for name, array, limit in zip(
                    names, (gates.output, *inputs, gates.coefficient), limits, strict=True
                )
            ]
            if any(len(column) != len(columns[0]) for column in columns):
                raise InputError(f"{what} must have as many inputs and coefficients as outputs")
            checked_gates[kind] = Gates(columns[0], tuple(columns[1:-1]), columns[-1])
        return Layer(log_size, checked_gates)

    @property
    def log_outputs(self) -> int:
        """log2 of the number of outputs."""
        return self.layers[-1].log_size

    def log_below(self, number: int) -> int:
        """Return log2 of the size of the layer below layer `number`."""
        return self.layers[number - 1].log_size if number else self.log_inputs

    @cached_property
    def is_random(self) -> NDArray[np.bool_]:
        """A mask of the coefficient table, true for challenges."""
        return np.array([isinstance(c, Random) for c in self.coefficients], bool)

    @cached_property
    def gate_count(self) -> int:
        """The number of gates of all layers."""
        return sum(len(gates) for layer in self.layers for gates in layer.gates.values())

    @cached_property
    def kinds(self) -> tuple[frozenset[str], ...]:
        """The kinds of gates of each layer."""
        return tuple(
            frozenset(kind for kind, gates in layer.gates.items() if len(gates))
            for layer in self.layers
        )

    @cached_property
    def degree_in_randoms(self) -> int:
        """An upper bound on the total degree of the outputs as polynomials in the challenges."""
        if not self.randoms:
            return 0
        degree = self._degree_bound(np.int64)
        return degree if degree < _MAX_DEGREE else self._degree_bound(object)

    def _degree_bound(self, dtype: Any) -> int:
        """Propagate a bound of each value's degree from layer to layer.

        With a machine word as `dtype`, bounds saturate at `_MAX_DEGREE`.
        """
        below = np.zeros(1 << self.log_inputs, dtype)
        for layer in self.layers:
            degrees = np.zeros(1 << layer.log_size, dtype)
            for name, gates in layer.gates.items():
                degree = self.is_random[gates.coefficient].astype(dtype)
                for wires in gates.inputs:
                    degree = degree + below[wires] * POWERS.get(name, 1)
                np.maximum.at(degrees, gates.output, degree)
            below = degrees if dtype is object else np.minimum(degrees, _MAX_DEGREE)
        return int(below[: self.zeros].max())

    @cached_property
    def public_factors(self) -> tuple[int, ...]:
        """The public inputs that multiply values, in order."""
        is_factor = np.zeros(len(self.coefficients), bool)
        for layer in self.layers:
            for kind, gates in layer.gates.items():
                if kind != "constant":
                    is_factor[gates.coefficient] = True
        factors = (self.coefficients[index] for index in np.flatnonzero(is_factor).tolist())
        return tuple(sorted({c.number for c in factors if isinstance(c, Public)}))

    @cached_property
    def digest(self) -> bytes:
        """SHA3-256 of the whole circuit: circuits with equal digests are equal."""
        state = hashlib.sha3_256(b"quod layered circuit 1\0")
        numbers = [
            self.field.value, self.log_inputs, self.public, self.zeros, len(self.coefficients),
            len(self.layers),
        ]  # fmt: skip
        # 72 bytes hold every supported prime.
        for number in numbers:
            state.update(number.to_bytes(72, "little"))
        for coefficient in self.coefficients:
            number = coefficient if isinstance(coefficient, int) else coefficient.number
            state.update(bytes([_TAGS[type(coefficient)]]) + number.to_bytes(72, "little"))
        for layer in self.layers:
            state.update(layer.log_size.to_bytes(8, "little"))
            for kind in KINDS:
                gates = layer.gates[kind]
                state.update(len(gates).to_bytes(8, "little"))
                for array in (gates.output, *gates.inputs, gates.coefficient):
                    state.update(np.ascontiguousarray(array, "<u4").tobytes())
        return state.digest()

    def evaluate(self, inputs: Sequence[int], public: Sequence[int] = ()) -> list[list[int]]:
        """Compute the values of all layers on the host, the inputs first.

        InputError for inputs that do not fit, and for a circuit with challenges, which are unknown
        before a proof.
        """
        p = self.field.value
        if self.randoms:
            raise InputError(
                "a circuit with random coefficients has no values outside a proof, which draws them"
            )
        for what, values, count in (
            ("inputs", inputs, 1 << self.log_inputs), ("public inputs", public, self.public),
        ):  # fmt: skip
            sequence: object = values
            if (
                not isinstance(sequence, (list, tuple))
                or len(sequence) != count
                or any(type(value) is not int for value in sequence)
            ):
                raise InputError(f"the {what} of the circuit must be a list of {count} int")
        coefficients = [
            public[c.number] if isinstance(c, Public) else c for c in self.coefficients
        ]  # fmt: skip
        levels = [[value % p for value in inputs]]
        for layer in self.layers:
            below, layer_values = levels[-1], [0] * (1 << layer.log_size)
            for kind, gates in layer.gates.items():
                columns: list[Any] = [gates.output.tolist(), gates.coefficient.tolist()]
                columns += [array.tolist() for array in gates.inputs]
                for output, coefficient, *wires in zip(*columns, strict=True):
                    product: Any = coefficients[coefficient]
                    for wire in wires:
                        product = product * pow(below[wire], POWERS.get(kind, 1), p) % p
                    layer_values[output] += product
            levels.append([value % p for value in layer_values])
        return levels


def _checked_indices(name: str, described_gates: str, array: Indices, limit: int) -> Indices:
    """Return a read-only array of indices; InputError unless all are below a limit."""
    array = plain_array(f"the {name}s of {described_gates}", array)
    if array.dtype != np.uint32 or array.ndim != 1:
        raise InputError(f"the {name}s of {described_gates} must be a one-dimensional uint32 array")
    if len(array) and int(array.max()) >= limit:
        raise InputError(
            f"{name} {int(array.max())} of {described_gates} is out of range; "
            f"the largest is {limit - 1}"
        )
    if _is_writeable(array):
        array = array.copy()
        array.setflags(write=False)
    return array


def _is_writeable(array: object) -> bool:
    """Return whether an array, or an array that it is a view of, is writeable."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    # An array without a base owns its memory; bytes are immutable.
    return not (array is None or isinstance(array, bytes))


def checked_coefficient(field: Modulus, value: object) -> Coefficient:
    """Return a coefficient, an int reduced modulo p; InputError for a value of another type."""
    if type(value) is int:
        return value % field.value
    if isinstance(value, (Public, Random)) and type(value) in _TAGS:
        return value
    raise InputError(
        f"the coefficient of a gate must be an int, a Public or a Random, not {shown_kind(value)}"
    )


def checked_log_size(name: str, value: object) -> int:
    return whole_number(name, value, MIN_LOG_SIZE, MAX_LOG_SIZE)
