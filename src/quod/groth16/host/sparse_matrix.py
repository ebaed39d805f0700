"""A·w and B·w: sparse matrices times a vector, with the entries in the format of a zkey.

An entry of a zkey's section 4 is the u32 words matrix, constraint and signal, then the value v,
stored as ``v * R**2 mod r``, where R is the Montgomery radix of elements in memory. Interpreted as
an element in Montgomery form, it is v·R. A witness value x is stored canonically; interpreted as
Montgomery form, it is x/R. The product of the two is v·x, which is stored in Montgomery form. So an
entry takes one product and no conversion, for limbs of any size. (With 52-bit limbs the witness is
loaded with `linear`, in the radix of memory, so that the product is in the radix of memory too and
storing it needs no shift.)

One instance computes one row. If a workgroup has several lanes, rows are ordered by length, so that
the lanes of a workgroup finish at about the same time; with one lane, the entries are in file
order. Entries are not rearranged. Kernels do not check the indices in entries, so these are checked
beforehand, in memory that no other process can write: the entries of a mapped file are copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, mark
from quod.errors import InputError
from quod.field.array import Words
from quod.field.kernels import field_multiply
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.ir import types

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quod.kernel.builder.builder import Builder

Coefficients = np.ndarray[Any, np.dtype[Any]]

# The number of words before the value in an entry: matrix, constraint, signal.
HEAD_WORDS = 3
_, CONSTRAINT, SIGNAL = range(HEAD_WORDS)

# The number of entries that are copied and checked at a time, few enough to stay in the cache.
_CHUNK = 1 << 15


@kernel
def sparse_rows(
    k: Builder,
    rows: U32,
    target: Pointer[U32],
    start: Pointer[U32],
    stop: Pointer[U32],
    entries: Pointer[U32],
    vector: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
    index: int,
) -> None:
    """out[target[i]] = the sum of value * vector[factor] over entries start[i] to stop[i] - 1.

    index: the word of an entry that has the index of its factor in `vector`.
    Values are stored as value * R**2, the vector is canonical, the sums are in Montgomery form.
    """
    f = prime_field(k, modulus)
    row = k.global_id()
    with k.if_(row < rows):
        zero = f.bounded(f.raw_constant(0, f.memory_exponent))
        with k.range(start[row], stop[row], carry=zero) as loop:
            offset = loop.index.cast(types.u64) * (HEAD_WORDS + modulus.words)
            (element,) = k.load(entries, offset + index)
            halves = k.load(entries, offset + HEAD_WORDS, modulus.words)
            value = f.from_words(
                [
                    low.cast(types.u64) | high.cast(types.u64) << 32
                    for low, high in zip(halves[::2], halves[1::2])
                ]
            )
            factor = f.load(vector, element, linear=True)
            loop.next(f.bounded(loop.carried + value * factor))
        f.store(out, target[row], loop.results)


def safe_entries(
    coefficients: Coefficients, domain_size: int, variables: int, *, owned: bool
) -> Coefficients:
    """Return the entries of A and B in private memory, with checked indices.

    owned: whether the entries are in private memory already; otherwise they are copied.
    Raises InputError for an entry outside the matrices.
    """
    words = np.ascontiguousarray(coefficients).view(np.uint32)
    words = words.reshape(len(coefficients), coefficients.dtype.itemsize // 4)
    entries = words if owned else np.empty_like(words)
    max_indices = np.array([1, domain_size - 1, variables - 1], dtype=np.uint32)
    for start in range(0, len(words), _CHUNK):
        chunk = entries[start : start + _CHUNK]
        if not owned:
            chunk[:] = words[start : start + _CHUNK]
        if (chunk[:, :HEAD_WORDS] > max_indices).any():
            raise InputError(
                f"an entry of the key's matrices is outside their {domain_size} rows "
                f"and {variables} columns; the key changed while it was opened, or is "
                "damaged"
            )
    safe: Coefficients = entries.view(coefficients.dtype).reshape(-1)
    return safe


def row_and_order(
    coefficients: Coefficients, domain_size: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each entry's row, ``domain_size * matrix + constraint``, and snarkjs's sort key."""
    matrix, constraint = coefficients["matrix"], coefficients["constraint"]
    # 32 bits where possible, to save time whenever a key is opened.
    index_type = np.uint32 if domain_size <= 1 << 30 else np.uint64
    return matrix * index_type(domain_size) + constraint, constraint * index_type(2) + matrix


def gathered(coefficients: Coefficients, indices: NDArray[Any]) -> Coefficients:
    """Return coefficients[indices]; faster than NumPy, which copies records field by field."""
    words = np.ascontiguousarray(coefficients).view(np.uint32)
    rows = words.reshape(len(coefficients), coefficients.dtype.itemsize // 4)
    entries: Coefficients = np.take(rows, indices, axis=0).view(coefficients.dtype).reshape(-1)
    return entries


@frozen(eq=False)
class RowEntries:
    """The entries of matrices row by row: those of row[i] are entries start[i] to stop[i] - 1.

    height: the number of rows; rows without entries are not in `row`.
    index_word: the word of an entry that has the index of its factor in a vector.
    """

    height: int
    entries: Coefficients
    index_word: int
    row: NDArray[Any]
    start: NDArray[Any]
    stop: NDArray[Any]

    @classmethod
    def of(
        cls,
        coefficients: Coefficients,
        order: NDArray[Any],
        row: NDArray[Any],
        height: int,
        index_word: int,
    ) -> RowEntries:
        """Sort entries by `order`; entries of equal order form a row, whose index is in `row`."""
        if np.any(order[1:] < order[:-1]):
            permutation = np.argsort(order, kind="stable")
            coefficients = gathered(coefficients, permutation)
            order, row = order[permutation], row[permutation]
        row_starts = np.flatnonzero(order[1:] != order[:-1]) + 1
        start = np.concatenate(([0], row_starts)) if len(order) else row_starts
        stop = np.append(start[1:], len(order)) if len(order) else row_starts
        return cls(height, coefficients, index_word, row[start], start, stop)


class SparseMatrix(ABC):
    """One or more matrices, stacked vertically, for products with vectors.

    Row t of the result is ``sum(value * vector[index])`` over the entries of the row. The result
    has `height` rows; those without entries are zero.
    """

    @abstractmethod
    def __init__(self, device: AnyDevice, modulus: Modulus, rows: RowEntries) -> None:
        """Move the entries to the memory in which the device multiplies them."""

    @classmethod
    def from_coefficients(
        cls,
        device: AnyDevice,
        modulus: Modulus,
        coefficients: Coefficients,
        domain_size: int,
        variables: int,
        *,
        owned: bool = False,
    ) -> Self:
        """Return A stacked on B, for products with a witness; rows are as in `row_and_order`.

        coefficients: the entries of a `quod.formats.Zkey`. They are used in place if they are
            `owned` (see `safe_entries`) and ordered by constraint and matrix, as by snarkjs.
        """
        coefficients = safe_entries(coefficients, domain_size, variables, owned=owned)
        row, order = row_and_order(coefficients, domain_size)
        entries = RowEntries.of(coefficients, order, row, 2 * domain_size, SIGNAL)
        return cls(device, modulus, entries)

    @classmethod
    def transposed(
        cls,
        device: AnyDevice,
        modulus: Modulus,
        coefficients: Coefficients,
        matrices: int,
        variables: int,
    ) -> Self:
        """Return the transposed matrices, stacked, for products with a vector over the constraints.

        The row of an entry is ``variables * matrix + signal``.
        """
        row = coefficients["matrix"].astype(np.uint64) * variables + coefficients["signal"]
        entries = RowEntries.of(coefficients, row, row, matrices * variables, CONSTRAINT)
        return cls(device, modulus, entries)

    @abstractmethod
    def multiply(self, vector: Words, out: Words) -> None:
        """Write the products to `out`, in Montgomery form, of shape (height, words).

        vector: canonical integers of shape (n, words), with n above every index.
        out: must be zero, as rows without entries are not written.
        """


class HostMatrix(SparseMatrix):
    """A matrix for devices in host memory, which read the entries in place."""

    def __init__(self, device: AnyDevice, modulus: Modulus, rows: RowEntries) -> None:
        self.device, self.modulus, self.height = device, modulus, rows.height
        row_order = _longest_first(rows.stop - rows.start) if device.lanes > 1 else slice(None)
        words = np.require(
            np.ascontiguousarray(rows.entries).view(np.uint32), requirements=("C", "A")
        )
        self.entries: Words = words.reshape(-1)
        self.index_word = rows.index_word
        self.target, self.start, self.stop = (
            np.ascontiguousarray(array[row_order], dtype=np.uint32)
            for array in (rows.row, rows.start, rows.stop)
        )

    @property
    def nonzeros(self) -> int:
        """The number of entries of all rows."""
        return len(self.entries) // (HEAD_WORDS + self.modulus.words)

    def multiply(self, vector: Words, out: Words) -> None:
        """See `SparseMatrix`."""
        device, rows = self.device, len(self.target)
        # The row of the last instance shows whether the launch ran.
        last_row = out[self.target[-1] :][:1] if rows else out[:0]
        mark(last_row)
        compiled = device.compile(sparse_rows, modulus=self.modulus, index=self.index_word)
        device.launch(
            compiled,
            -(-rows // device.lanes),
            rows,
            self.target,
            self.start,
            self.stop,
            self.entries,
            np.ascontiguousarray(vector),
            out,
        )
        check_written(device, "products of matrices", last_row)


def _longest_first(lengths: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the indices of the rows, longest first, so that no thread gets a long row last."""
    longest = int(lengths.max(initial=0))
    shortness = longest - lengths
    # NumPy sorts 16-bit integers by radix.
    return np.argsort(
        shortness.astype(np.uint16) if longest < 1 << 16 else shortness, kind="stable"
    )


def multiply_pointwise(device: AnyDevice, modulus: Modulus, a: Words, b: Words, out: Words) -> None:
    """Set out = a * b elementwise, in Montgomery form, for contiguous arrays (n, words)."""
    compiled = device.compile(field_multiply, spec=modulus)
    # Checking that the last product was written suffices; skip it if `out` is also a factor.
    last_product = (
        out[-1:] if not (np.shares_memory(a, out) or np.shares_memory(b, out)) else out[:0]
    )
    mark(last_product)
    device.launch(compiled, -(-len(a) // device.lanes), len(a), a, b, out)
    check_written(device, "products", last_product)
