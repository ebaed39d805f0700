"""The tensors of a language model in a GGUF file, as integers and as exact vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.file import Gguf, GgufTensor
from quod.frozen import frozen
from quod.inference.transformer.architecture import Architecture, read_architecture
from quod.inference.transformer.integer_weights import IntegerMatrix, read_matrix, read_vector

Vector = NDArray[np.float64]


@frozen(eq=False)
class Linear:
    """A product, and the bias that is added; None if there is none."""

    matrix: IntegerMatrix
    bias: Vector | None


@frozen(eq=False)
class Norm:
    """The gains of a norm, and the biases of a LayerNorm."""

    name: str
    gains: Vector
    bias: Vector | None


@frozen(eq=False)
class Layer:
    """The tensors of a layer; `gate` is None in a model whose feed-forward network has no gate."""

    attention_norm: Norm
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    feed_forward_norm: Norm
    gate: Linear | None
    up: Linear
    down: Linear


@frozen(eq=False)
class Model:
    """A language model.

    path: Its file.
    architecture: Its shape.
    embedding: A row per token.
    positions: A row per position, if positions are learned.
    rope_factors: The divisors of the angles of rotary positions, if the file has them.
    layers: The layers.
    norm: The last norm.
    head: The product that gives the logits; it may share the matrix of the embedding.
    """

    path: str
    architecture: Architecture
    embedding: IntegerMatrix
    positions: IntegerMatrix | None
    rope_factors: tuple[float, ...] | None
    layers: tuple[Layer, ...]
    norm: Norm
    head: Linear

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return self.embedding.rows


def read_model(file: Gguf) -> Model:
    """Return the tensors of a language model.

    Raises InputError, with the file and the tensor, for missing tensors, for shapes that contradict
    the metadata, for tensors that the program does not use, and for those that `read_matrix` and
    `read_vector` refuse.
    """
    model = _Reader(file, read_architecture(file)).model()
    check_unchanged(file)
    return model


def check_unchanged(file: Gguf) -> None:
    """Raise InputError if a file has changed: it is mapped, and read while matrices are used."""
    if file.identity is not None:
        file.identity.check()


class _Reader:
    def __init__(self, file: Gguf, architecture: Architecture) -> None:
        self._file = file
        self._architecture = architecture
        self._unused = dict(file.tensors)

    def model(self) -> Model:
        shape = self._architecture
        embedding = read_matrix(self._take("token_embd.weight"), self._file.path)
        self._check_shape(embedding, embedding.rows, shape.width)
        positions, factors = None, None
        if not shape.family.rotary:
            positions = self._matrix("position_embd", shape.context, shape.width)
        elif "rope_freqs.weight" in self._unused:
            tensor = self._take("rope_freqs.weight")
            vector = read_vector(tensor, self._file.path, shape.head_width // 2)
            if not (vector > 0).all():
                raise InputError(
                    "has a divisor that is not above zero", path=self._file.path,
                    section=f"tensor {tensor.name!r}", offset=tensor.offset,
                )  # fmt: skip
            factors = tuple(vector.tolist())
        layers = tuple([self._layer(f"blk.{index}.") for index in range(shape.layers)])
        norm = self._norm("output_norm")
        head = Linear(embedding, None)
        if "output.weight" in self._unused:
            head = self._linear("output", embedding.rows, shape.width)
        self._check_all_used()
        return Model(self._file.path, shape, embedding, positions, factors, layers, norm, head)

    def _layer(self, prefix: str) -> Layer:
        shape = self._architecture
        width, queries, keys = shape.width, shape.query_width, shape.kv_width
        if prefix + "attn_qkv.weight" in self._unused:
            joined = self._linear(prefix + "attn_qkv", queries + 2 * keys, width)
            query, key, value = _split(joined, (queries, keys, keys))
        else:
            query = self._linear(prefix + "attn_q", queries, width)
            key = self._linear(prefix + "attn_k", keys, width)
            value = self._linear(prefix + "attn_v", keys, width)
        if shape.family.rotates_halves:
            query, key = (_interleaved(linear, shape.head_width) for linear in (query, key))
        gate = (
            self._linear(prefix + "ffn_gate", shape.hidden, width) if shape.family.gated else None
        )
        return Layer(
            self._norm(prefix + "attn_norm"), query, key, value,
            self._linear(prefix + "attn_output", width, queries),
            self._norm(prefix + "ffn_norm"), gate,
            self._linear(prefix + "ffn_up", shape.hidden, width),
            self._linear(prefix + "ffn_down", width, shape.hidden),
        )  # fmt: skip

    def _take(self, name: str) -> GgufTensor:
        tensor = self._unused.pop(name, None)
        if tensor is None:
            raise InputError(
                f"has no tensor {name!r}; the model is incomplete", path=self._file.path
            )
        return tensor

    def _matrix(self, name: str, rows: int, columns: int) -> IntegerMatrix:
        matrix = read_matrix(self._take(name + ".weight"), self._file.path)
        self._check_shape(matrix, rows, columns)
        return matrix

    def _check_shape(self, matrix: IntegerMatrix, rows: int, columns: int) -> None:
        if (matrix.rows, matrix.columns) != (rows, columns):
            raise InputError(
                f"has {matrix.rows} rows of {matrix.columns}; the metadata of the model require "
                f"{rows} of {columns}",
                path=self._file.path, section=f"tensor {matrix.name!r}",
                offset=self._file.tensors[matrix.name].offset,
            )  # fmt: skip

    def _linear(self, name: str, rows: int, columns: int) -> Linear:
        matrix = self._matrix(name, rows, columns)
        return Linear(matrix, self._optional_vector(name + ".bias", rows))

    def _norm(self, name: str) -> Norm:
        width = self._architecture.width
        gains = read_vector(self._take(name + ".weight"), self._file.path, width)
        bias = None
        if self._architecture.family.centred:
            bias = self._optional_vector(name + ".bias", width)
        return Norm(name + ".weight", gains, bias)

    def _optional_vector(self, name: str, length: int) -> Vector | None:
        if name not in self._unused:
            return None
        return read_vector(self._take(name), self._file.path, length)

    def _check_all_used(self) -> None:
        if self._unused:
            name, tensor = next(iter(self._unused.items()))
            raise InputError(
                "is not a part of this architecture as Quod runs it, so the results would be wrong",
                path=self._file.path, section=f"tensor {name!r}", offset=tensor.offset,
            )  # fmt: skip


def _interleaved(linear: Linear, head_width: int) -> Linear:
    """Return queries or keys in the order of the program, from heads that rotate halves.

    Channels i and i + half of a head rotate together, and become channels 2 i and 2 i + 1. As
    queries and keys have the same order, no score changes.
    """
    heads = np.arange(linear.matrix.rows).reshape(-1, 2, head_width // 2)
    order = heads.transpose(0, 2, 1).reshape(-1)
    bias = None if linear.bias is None else linear.bias[order]
    return Linear(linear.matrix.take_rows(order), bias)


def _split(linear: Linear, sizes: tuple[int, ...]) -> Iterator[Linear]:
    start = 0
    for size in sizes:
        stop = start + size
        bias = None if linear.bias is None else linear.bias[start:stop]
        yield Linear(linear.matrix.take_rows(slice(start, stop)), bias)
        start = stop
