"""Weights of GGUF files as exact integers: 2**exponent * (scale * quant - minimum).

An f16 is a multiple of 2**-24, so the scales and minima of a file's blocks are integers over a
power of two that all blocks of a tensor share. docs/integer-transformer.md, "Weights".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.file import GgufTensor
from quod.frozen import frozen
from quod.names import NameTable
from quod.tensor.quantised.types.k_scales import six_bit_scales
from quod.tensor.quantised.types.numpy_blocks import Bytes, nibbles
from quod.tensor.quantised.types.q6_k import quants_of

Integers = NDArray[np.int64]

_F16_EXPONENT = -24
"""Each finite f16 is a multiple of 2**-24."""
_SCALE_BITS = 16
"""Smaller scales are multiplied by a power of two, until the largest one has these bits."""
_MAX_SCALE = 1 << 31
_BLOCK_ELEMENTS = 1 << 21
"""The elements of a matrix that are integers of 64 bits at once."""
_QUANT_LIMIT = 32767
"""The largest quant of a matrix of floats."""


Rows = slice | NDArray[Any]
"""A choice of rows: a slice, or their indices."""


class Quants(Protocol):
    """The quants of a matrix, uint8 or int16: an array, or `StoredQuants`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Any) -> NDArray[Any]: ...


class StoredQuants:
    """The quants of a tensor of a file, which are decoded when rows of them are read.

    As arrays they would take a byte each, up to twice as much memory as in the file.
    decode: Return the quants of rows of the file.
    rows: The rows of the file that the rows of the matrix are.
    """

    def __init__(
        self, shape: tuple[int, int], decode: Callable[[Rows], NDArray[Any]],
        rows: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        self.shape = shape
        self._decode, self._rows = decode, rows

    def __getitem__(self, rows: Rows) -> NDArray[Any]:
        return self._decode(rows if self._rows is None else self._rows[rows])

    def take(self, rows: Rows) -> StoredQuants:
        """Return some of the rows, or all of them in another order; nothing is decoded."""
        chosen = (np.arange(self.shape[0]) if self._rows is None else self._rows)[rows]
        return StoredQuants((len(chosen), self.shape[1]), self._decode, chosen)


@frozen(eq=False)
class IntegerMatrix:
    """A matrix of integers, with a row per output.

    name: The name of its tensor.
    bits: The bits of a quant: 4 and 8 (unsigned), or 16 (signed).
    group: The number of columns that share a scale.
    quants: The quants, uint8 or int16 of shape (rows, columns).
    scales, minima: int32 of shape (rows, columns / group).
    exponent: The weights are 2**exponent * (scale * quant - minimum).
    """

    name: str
    bits: int
    group: int
    quants: Quants
    scales: NDArray[np.int32]
    minima: NDArray[np.int32]
    exponent: int

    @property
    def rows(self) -> int:
        """The number of outputs."""
        return self.quants.shape[0]

    @property
    def columns(self) -> int:
        """The number of inputs."""
        return self.quants.shape[1]

    def integers(self, rows: Rows = slice(None)) -> Integers:
        """Return scale * quant - minimum, int64 of shape (rows, columns)."""
        quants = self.quants[rows].astype(np.int64)
        grouped = quants.reshape(len(quants), -1, self.group)
        grouped *= self.scales[rows][:, :, None]
        grouped -= self.minima[rows][:, :, None]
        return quants

    def row_blocks(self) -> Iterator[slice]:
        """Yield the rows in blocks, whose integers take some tens of megabytes."""
        size = max(1, _BLOCK_ELEMENTS // self.columns)
        for start in range(0, self.rows, size):
            yield slice(start, min(start + size, self.rows))

    def take_rows(self, rows: Rows) -> IntegerMatrix:
        """Return some of the rows, or all of them in another order."""
        quants = self.quants
        return IntegerMatrix(
            self.name, self.bits, self.group,
            quants.take(rows) if isinstance(quants, StoredQuants) else quants[rows],
            self.scales[rows], self.minima[rows], self.exponent,
        )  # fmt: skip


@frozen(eq=False)
class _Blocks:
    """The content of blocks: quants (n, elements), and scales and minima (n, groups) over 2**24."""

    quants: NDArray[np.uint8]
    scales: Integers
    minima: Integers


@frozen
class _Form:
    """The conversion of a type of blocks to integers.

    bits: The bits of a quant in `IntegerMatrix`.
    group: The number of elements that share a scale.
    floats: The bytes of a block at which its f16 are.
    decode: Return the content of blocks.
    """

    bits: int
    group: int
    floats: tuple[int, ...]
    decode: Callable[[Bytes], _Blocks]


def _f16(blocks: Bytes, at: int) -> Integers:
    """Return the f16 at a byte of each block, times 2**24, of shape (n, 1)."""
    values = blocks[:, at : at + 2].copy().view("<f2").astype(np.float64)
    return np.asarray(np.ldexp(values, -_F16_EXPONENT).astype(np.int64))


def _centred(quants: NDArray[np.uint8], scales: Integers, centre: int) -> _Blocks:
    return _Blocks(quants, scales, scales * centre)


def _q4_0(blocks: Bytes) -> _Blocks:
    return _centred(nibbles(blocks[:, 2:], 16), _f16(blocks, 0), 8)


def _q4_1(blocks: Bytes) -> _Blocks:
    return _Blocks(nibbles(blocks[:, 4:], 16), _f16(blocks, 0), -_f16(blocks, 2))


def _q5_0(blocks: Bytes) -> _Blocks:
    top_bits = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    return _centred(
        (nibbles(blocks[:, 6:], 16) | top_bits << 4).astype(np.uint8), _f16(blocks, 0), 16
    )


def _q8_0(blocks: Bytes) -> _Blocks:
    return _centred(blocks[:, 2:] ^ np.uint8(128), _f16(blocks, 0), 128)


def _q4_k(blocks: Bytes) -> _Blocks:
    scales, minima = six_bit_scales(blocks)
    return _Blocks(nibbles(blocks[:, 16:], 32), _f16(blocks, 0) * scales, _f16(blocks, 2) * minima)


def _q5_k(blocks: Bytes) -> _Blocks:
    scales, minima = six_bit_scales(blocks)
    # Bit r of a byte belongs to run r of 32 elements.
    bits = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little")
    top_bits = bits.transpose(0, 2, 1).reshape(len(blocks), 256)
    return _Blocks(
        (nibbles(blocks[:, 48:], 32) | top_bits << 4).astype(np.uint8), _f16(blocks, 0) * scales,
        _f16(blocks, 2) * minima,
    )  # fmt: skip


def _q6_k(blocks: Bytes) -> _Blocks:
    scales = blocks[:, 192:208].view(np.int8).astype(np.int64)
    return _centred(quants_of(blocks), _f16(blocks, 208) * scales, 32)


_FORMS: dict[str, _Form] = NameTable(
    "the types of weights", "a type of weights that the integer program reads",
    {
        "Q4_0": _Form(4, 32, (0,), _q4_0),
        "Q4_1": _Form(4, 32, (0, 2), _q4_1),
        "Q5_0": _Form(8, 32, (0,), _q5_0),
        "Q8_0": _Form(8, 32, (0,), _q8_0),
        "Q4_K": _Form(4, 32, (0, 2), _q4_k),
        "Q5_K": _Form(8, 32, (0, 2), _q5_k),
        "Q6_K": _Form(8, 16, (208,), _q6_k),
    },
)  # fmt: skip
_FLOATS = ("F16", "F32")


def stored_form(tensor: GgufTensor) -> tuple[int, int] | None:
    """Return the bits of a quant and the columns of a group that `read_matrix` would give.

    None for a tensor that is no matrix of a supported type.
    """
    if len(tensor.shape) != 2:
        return None
    if tensor.type.name in _FLOATS:
        return 16, _float_group(tensor.shape[1])
    form = _FORMS.get(tensor.type.name)
    return None if form is None else (form.bits, form.group)


def _float_group(columns: int) -> int:
    return 32 if columns % 32 == 0 else 16


def read_matrix(tensor: GgufTensor, path: str) -> IntegerMatrix:
    """Return a matrix of a file as integers.

    Raises InputError, which names the file, the tensor and the offset, for infinite and NaN scales
    and values, for a type that is not supported, and for scales that need more than 31 bits.
    """
    if len(tensor.shape) != 2:
        raise _error(tensor, path, f"has {len(tensor.shape)} dimensions; a matrix has two")
    if 0 in tensor.shape:
        raise _error(tensor, path, "has no elements")
    if tensor.type.name in _FLOATS:
        return _matrix_of_floats(tensor, path)
    if tensor.type.name not in _FORMS:
        supported = ", ".join([*_FORMS, *_FLOATS])
        raise _error(
            tensor, path,
            f"is of type {tensor.type.name}; the integer program reads {supported}, so convert the "
            "model to one of these",
        )  # fmt: skip
    form = _FORMS[tensor.type.name]
    rows, columns = tensor.shape
    stored = tensor.array()
    blocks = stored.reshape(-1, tensor.type.bytes)

    def quants(chosen: Rows) -> NDArray[Any]:
        some = stored[chosen].reshape(-1, tensor.type.bytes)
        return form.decode(some).quants.reshape(-1, columns)

    for at in form.floats:
        _check_finite(tensor, path, blocks[:, at : at + 2].copy().view("<f2"), at)
    content = form.decode(blocks)
    largest_shift = _trailing_zeros(content.scales, content.minima)
    scales, minima = content.scales >> largest_shift, content.minima >> largest_shift
    exponent = _F16_EXPONENT + largest_shift
    largest = max(int(np.abs(scales).max()), int(np.abs(minima).max()))
    if largest >= _MAX_SCALE:
        raise _error(
            tensor, path,
            "has scales of different blocks that differ by too much: as integers over the same "
            f"power of two they need {largest.bit_length()} bits, and the limit is 31",
        )  # fmt: skip
    scale_bits = int(np.abs(scales).max()).bit_length()
    growth = max(
        0, min(_SCALE_BITS - scale_bits, _MAX_SCALE.bit_length() - 1 - largest.bit_length())
    )
    shape = rows, columns // form.group
    return IntegerMatrix(
        tensor.name, form.bits, form.group, StoredQuants((rows, columns), quants),
        (scales << growth).astype(np.int32).reshape(shape),
        (minima << growth).astype(np.int32).reshape(shape), exponent - growth,
    )  # fmt: skip


def read_vector(tensor: GgufTensor, path: str, length: int) -> NDArray[np.float64]:
    """Return gains or biases as f64; InputError for another length or type, NaN and infinity."""
    if tensor.type.name not in _FLOATS:
        raise _error(tensor, path, f"is of type {tensor.type.name}; vectors are F32 or F16")
    if tensor.shape != (length,):
        raise _error(tensor, path, f"has the shape {tensor.shape}, not ({length},)")
    values = tensor.array()
    _check_finite(tensor, path, values[:, None], 0)
    return np.asarray(values.astype(np.float64))


def _matrix_of_floats(tensor: GgufTensor, path: str) -> IntegerMatrix:
    """Round floats to 16 bits, with a power of two as the scale of each row."""
    stored = tensor.array()
    _check_finite(tensor, path, stored.reshape(-1, 1), 0, tensor.type.bytes)
    rows, columns = tensor.shape
    if columns % 16:
        raise _error(tensor, path, f"has {columns} columns, which is no multiple of 16")
    largest = np.abs(stored).max(axis=1).astype(np.float64)
    # A row's scale is the least power of two at which its quants fit into 16 bits.
    exponents = np.frexp(largest)[1] - 15
    exponents += np.floor(np.ldexp(largest, -exponents) + 0.5) > _QUANT_LIMIT
    # Scales are below 2**31, so rows that are far smaller than others keep fewer bits.
    exponents = np.maximum(exponents, int(exponents.max()) - 30)

    def quants(chosen: Rows) -> NDArray[Any]:
        values = np.ldexp(stored[chosen].astype(np.float64), -exponents[chosen, None])
        return np.asarray(np.floor(values + 0.5).astype(np.int16))

    base = int(exponents.min())
    group = _float_group(columns)
    scales = np.repeat(
        (1 << (exponents - base).astype(np.int64))[:, None], columns // group, axis=1
    )
    return IntegerMatrix(
        tensor.name, 16, group, StoredQuants((rows, columns), quants), scales.astype(np.int32),
        np.zeros(scales.shape, np.int32), base,
    )  # fmt: skip


def _trailing_zeros(*arrays: Integers) -> int:
    """Return the largest power of two that divides all elements; 0 if all are zero."""
    joined = 0
    for array in arrays:
        joined |= int(np.bitwise_or.reduce(array, axis=None))
    return (joined & -joined).bit_length() - 1 if joined else 0


def _check_finite(
    tensor: GgufTensor, path: str, values: NDArray[Any], at: int, size: int | None = None
) -> None:
    """Raise InputError for the first row of values that is NaN or infinite."""
    finite = np.isfinite(values)[:, 0]
    if not finite.all():
        row = int(finite.argmin())
        value = float(values[row, 0])
        raise InputError(
            f"has the value {value}, which no integer stands for; the model is damaged or "
            "was not converted correctly",
            path=path, section=f"tensor {tensor.name!r}",
            offset=tensor.offset + row * (size or tensor.type.bytes) + at,
        )  # fmt: skip


def _error(tensor: GgufTensor, path: str, message: str) -> InputError:
    return InputError(message, path=path, section=f"tensor {tensor.name!r}", offset=tensor.offset)
