"""Perceptrons of 8-bit weights whose outputs are the same integers on every device.

A layer has the sums acc = W x + b. A hidden layer rescales each sum by the multiplier of its row
and clamps the result to 0 to 127:

    x' = min(max((acc * m + 2**23) >> 24, 0), 127)

The sums of the last layer are the logits. Files are GGUF (`quod.formats.Gguf`) with the tensors
`layer.N.weight` (I8), `layer.N.bias` (I32) and, of hidden layers, `layer.N.multiplier` (I32).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.file import Gguf
from quod.formats.gguf.writer import write_gguf
from quod.formats.source import Path
from quod.frozen import frozen
from quod.validation import plain_array, shown_kind

T = TypeVar("T", bound=np.generic)

Numbers = NDArray[np.int64]

SHIFT = 24
"""Bits by which products with multipliers are shifted."""

HALF = 1 << (SHIFT - 1)

MAX_ACTIVATION = 127

MAX_WIDTH = 1 << 12
MAX_LAYERS = 9
MAX_TABLE_BITS = 16

_MAX_SUM = 1 << 31
# The weights of the largest layers, and as much again for the rest of the file.
_MAX_BYTES = 2 * MAX_LAYERS * MAX_WIDTH**2
_ARCHITECTURE = "general.architecture"
_KIND = "quod-perceptron"
_PARTS = ("weight", "bias", "multiplier")


@frozen(eq=False)
class Layer:
    """A layer of a perceptron.

    weights: int8 of shape (outputs, inputs).
    biases: a bias per output.
    multipliers: a multiplier per output of a hidden layer; None for the last layer.
    """

    weights: NDArray[np.int8]
    biases: Numbers
    multipliers: Numbers | None

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return int(self.weights.shape[0])

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return int(self.weights.shape[1])

    def largest_sums(self) -> Numbers:
        """Return an upper bound on the absolute value of each output's sum, for any activations."""
        rows: Numbers = np.abs(self.weights.astype(np.int64)).sum(axis=1)
        rows = MAX_ACTIVATION * rows + np.abs(self.biases)
        return rows


@frozen(eq=False)
class Perceptron:
    """A perceptron with at least one hidden layer; it has read-only copies of the arrays.

    InputError for layers that do not fit together, and for rows whose sums could reach 2**31 or,
    rescaled, 2**15.
    """

    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        sequence: object = self.layers
        if not isinstance(sequence, tuple):
            raise InputError(f"the layers must be a tuple, not {shown_kind(sequence)}")
        layers = tuple(_checked(number, layer) for number, layer in enumerate(sequence))
        self.__dict__.update(layers=layers)
        if not 2 <= len(layers) <= MAX_LAYERS:
            raise InputError(f"a perceptron must have 2 to {MAX_LAYERS} layers, not {len(layers)}")
        for number, layer in enumerate(layers):
            if (layer.multipliers is None) != (number == len(layers) - 1):
                raise InputError(f"layer {number}: all layers but the last must have multipliers")
            if number and layer.inputs != layers[number - 1].outputs:
                raise InputError(
                    f"layer {number} takes {layer.inputs} activations; the one before it gives "
                    f"{layers[number - 1].outputs}"
                )
            if (layer.largest_sums() >= _MAX_SUM).any():
                raise InputError(f"layer {number}: the sums of a row can reach 2^31")
        if self.table_bits > MAX_TABLE_BITS:
            raise InputError(
                f"a rescaled sum can have {self.table_bits} bits, more than {MAX_TABLE_BITS}; "
                "use smaller multipliers"
            )

    @property
    def hidden(self) -> tuple[Layer, ...]:
        """All layers except the last."""
        return self.layers[:-1]

    @property
    def table_bits(self) -> int:
        """The number of bits, including the sign, of the largest possible rescaled sum."""
        largest = 0
        for layer in self.hidden:
            assert layer.multipliers is not None
            rescaled = (layer.largest_sums() * layer.multipliers + HALF) >> SHIFT
            largest = max(largest, int(rescaled.max()))
        return max(largest.bit_length() + 1, 8)

    @classmethod
    def open(cls, path: Path) -> Perceptron:
        """Read a GGUF file; InputError names a tensor that is missing or of another type."""
        file = Gguf.open(path, owned=True, max_bytes=_MAX_BYTES)
        kind = file.metadata.get(_ARCHITECTURE)
        if not isinstance(kind, str) or kind != _KIND:
            raise InputError(f"{file.path}: {_ARCHITECTURE} must be {_KIND}")
        layers: list[Layer] = []
        while f"layer.{len(layers)}.weight" in file.tensors and len(layers) < MAX_LAYERS:
            name = f"layer.{len(layers)}"
            multipliers = None
            if f"{name}.multiplier" in file.tensors:
                multipliers = _tensor(file, f"{name}.multiplier", "I32", 1)
            weights = _tensor(file, f"{name}.weight", "I8", 2)
            layers.append(Layer(weights, _tensor(file, f"{name}.bias", "I32", 1), multipliers))
        tensor_count = sum(3 if layer.multipliers is not None else 2 for layer in layers)
        if tensor_count != len(file.tensors):
            names = {f"layer.{n}.{part}" for n in range(len(layers)) for part in _PARTS}
            unknown = next(name for name in file.tensors if name not in names)
            raise InputError(
                f"{file.path}: tensor {unknown} is unknown in a perceptron of {len(layers)} layers"
            )
        try:
            return cls(tuple(layers))
        except InputError as error:
            raise InputError(f"{file.path}: {error}") from None

    def write(self, path: Path) -> None:
        """Write a GGUF file."""
        tensors: dict[str, tuple[str, NDArray[Any]]] = {}
        for number, layer in enumerate(self.layers):
            tensors[f"layer.{number}.weight"] = "I8", layer.weights
            tensors[f"layer.{number}.bias"] = "I32", layer.biases.astype(np.int32)
            if layer.multipliers is not None:
                multipliers = layer.multipliers.astype(np.int32)
                tensors[f"layer.{number}.multiplier"] = "I32", multipliers
        write_gguf(path, {_ARCHITECTURE: _KIND}, tensors)


def rescaled(sums: Numbers, multipliers: Numbers) -> tuple[Numbers, Numbers]:
    """Return quotient and remainder of sums times multipliers, rounded to nearest."""
    products = sums * multipliers + HALF
    return products >> SHIFT, products & ((1 << SHIFT) - 1)


def clamped(quotients: Numbers) -> Numbers:
    """Return the activations of rescaled sums."""
    return np.clip(quotients, 0, MAX_ACTIVATION)


def check_images(images: object, inputs: int) -> Numbers:
    """Return images as int64 (images, inputs); InputError for values outside 0 to 127."""
    array = plain_array("the images", images)
    if (
        array.dtype.kind not in "iu"
        or array.ndim != 2
        or array.shape[1] != inputs
        or not len(array)
    ):
        raise InputError(
            f"images must be integers of shape (images, {inputs}), not {array.dtype} of "
            f"{array.shape}"
        )
    if ((array < 0) | (array > MAX_ACTIVATION)).any():
        raise InputError(f"images must be integers from 0 to {MAX_ACTIVATION}")
    return array.astype(np.int64)


def _checked(number: int, layer: object) -> Layer:
    if not isinstance(layer, Layer):
        raise InputError(f"layer {number} must be a Layer(weights, biases, multipliers)")
    weights = plain_array(f"the weights of layer {number}", layer.weights)
    if weights.dtype != np.int8 or weights.ndim != 2 or not weights.size:
        raise InputError(
            f"the weights of layer {number} must be int8 of shape (outputs, inputs), not "
            f"{weights.dtype} of {weights.shape}"
        )
    if max(weights.shape) > MAX_WIDTH:
        raise InputError(f"layer {number} has more than {MAX_WIDTH} inputs or outputs")
    biases = _row(f"the biases of layer {number}", layer.biases, len(weights), -(1 << 31))
    multipliers = layer.multipliers
    if multipliers is not None:
        multipliers = _row(f"the multipliers of layer {number}", multipliers, len(weights), 0)
    return Layer(_read_only_copy(weights), biases, multipliers)


def _row(what: str, value: object, count: int, least: int) -> Numbers:
    array = plain_array(what, value)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise InputError(f"{what} must be {count} integers, not {array.dtype} of {array.shape}")
    # Check before the conversion: uint64 values from 2^63 on would become negative.
    if (array < least).any() or (array >= 1 << 31).any():
        raise InputError(f"{what} must be from {least} to 2^31 - 1")
    return _read_only_copy(array.astype(np.int64))


def _read_only_copy(array: NDArray[T]) -> NDArray[T]:
    """Return a read-only copy of an array."""
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy


def _tensor(file: Gguf, name: str, kind: str, dimensions: int) -> NDArray[Any]:
    tensor = file.tensors.get(name)
    if tensor is None:
        raise InputError(f"{file.path}: tensor {name} is missing")
    if tensor.type.name != kind or len(tensor.shape) != dimensions:
        raise InputError(
            f"{file.path}: tensor {name} at offset {tensor.offset} is {tensor.type.name} of "
            f"{len(tensor.shape)} dimensions, not {kind} of {dimensions}"
        )
    return tensor.array().copy()
