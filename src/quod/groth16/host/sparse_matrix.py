"""A·w and B·w: sparse matrices times a vector, from the entries as they lie in the proving key.

An entry of a key's section 4 is the u32 words matrix, constraint, signal and the value v, stored as
``v * R**2 mod r`` with the R of memory. Read as an element in Montgomery form it is v·R. A witness
value x is stored canonically; read as though it were in Montgomery form it is x/R. Their product
is v·x, and storing it gives its Montgomery form: one product an entry and no conversion, whatever
radix the limbs have. (With 52-bit limbs the witness is loaded `linear`, in the radix of memory, so
that the product is in the radix of memory as well and its store has nothing to shift out.)

One instance computes one row. Where a workgroup has several lanes rows are ordered by length, so
that the lanes leave their loops together; one lane goes through the entries in their own order. The
entries are read where they are. Kernels follow the indices in them wherever these lead, so that
entries are checked in memory that nobody else writes to: those of a mapped file are copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, mark
from quod.errors import InputError
from quod.field.array import Words
from quod.field.kernels import field_multiply
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types

Coefficients = NDArray[Any]

# Words of an entry before its value: matrix, constraint, signal.
HEAD_WORDS = 3
_, CONSTRAINT, SIGNAL = range(HEAD_WORDS)

# Entries copied and checked at a time: few enough to stay in the cache.
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
    """out[target[i]] = the sum of value * vector[word `index`] over entries start[i] to stop[i].

    Values are stored as value * R**2, the vector is canonical, the sums are in Montgomery form.
    """
    f = prime_field(k, modulus)
    row = k.global_id()
    with k.if_(row < rows):
        nothing = f.carried(f.raw_constant(0, f.memory_exponent))
        with k.range(start[row], stop[row], carry=nothing) as loop:
            at = loop.index.cast(types.u64) * (HEAD_WORDS + modulus.words)
            (element,) = k.load(entries, at + index)
            halves = k.load(entries, at + HEAD_WORDS, modulus.words)
            value = f.from_words(
                [
                    low.cast(types.u64) | high.cast(types.u64) << 32
                    for low, high in zip(halves[::2], halves[1::2])
                ]
            )
            factor = f.load(vector, element, linear=True)
            loop.next(f.carried(loop.carried + value * factor))
        f.store(out, target[row], loop.results)


def safe_entries(
    coefficients: Coefficients, domain_size: int, variables: int, *, owned: bool
) -> Coefficients:
    """Return the entries of A and B in private memory; InputError for one outside the matrices.

    They are copied unless they are `owned`, that is, in private memory already, and then checked.
    """
    words = np.ascontiguousarray(coefficients).view(np.uint32)
    words = words.reshape(len(coefficients), coefficients.dtype.itemsize // 4)
    entries = words if owned else np.empty_like(words)
    last = np.array([1, domain_size - 1, variables - 1], dtype=np.uint32)
    for start in range(0, len(words), _CHUNK):
        part = entries[start : start + _CHUNK]
        if not owned:
            part[:] = words[start : start + _CHUNK]
        if (part[:, :HEAD_WORDS] > last).any():
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
    # In 32 bits where they do: this is done for every key that is opened.
    number = np.uint32 if domain_size <= 1 << 30 else np.uint64
    return matrix * number(domain_size) + constraint, constraint * number(2) + matrix


def gathered(coefficients: Coefficients, places: NDArray[Any]) -> Coefficients:
    """coefficients[places], as rows of words: NumPy copies records field by field."""
    words = np.ascontiguousarray(coefficients).view(np.uint32)
    rows = words.reshape(len(coefficients), coefficients.dtype.itemsize // 4)
    chosen: Coefficients = np.take(rows, places, axis=0).view(coefficients.dtype).reshape(-1)
    return chosen


@frozen(eq=False)
class RowEntries:
    """The entries of matrices row by row: those of row[i] are entries start[i] to stop[i] - 1.

    Of `height` rows those without entries are left out. Word `index_word` of an entry is the place
    of its factor in a vector.
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
        """Sort entries by `order`; entries of equal order form a row, whose number is in `row`."""
        if np.any(order[1:] < order[:-1]):
            permutation = np.argsort(order, kind="stable")
            coefficients = gathered(coefficients, permutation)
            order, row = order[permutation], row[permutation]
        heads = np.flatnonzero(order[1:] != order[:-1]) + 1
        start = np.concatenate(([0], heads)) if len(order) else heads
        stop = np.append(start[1:], len(order)) if len(order) else heads
        return cls(height, coefficients, index_word, row[start], start, stop)


class SparseMatrix(ABC):
    """One or more matrices, one above the other, ready to be multiplied by a vector.

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
        """A above B: row ``domain_size * matrix + constraint``, to be multiplied by a witness.

        `coefficients` is what `quod.formats.Zkey` has. They are used in place if they are `owned`,
        see `safe_entries`, and ordered by constraint and matrix, as snarkjs writes them.
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
        """Row ``variables * matrix + signal``, for a vector over the constraints."""
        row = coefficients["matrix"].astype(np.uint64) * variables + coefficients["signal"]
        entries = RowEntries.of(coefficients, row, row, matrices * variables, CONSTRAINT)
        return cls(device, modulus, entries)

    @abstractmethod
    def multiply(self, vector: Words, out: Words) -> None:
        """Put the products into `out`, shape (height, words), Montgomery form; it must be zero.

        `vector` holds canonical integers, shape (n, words) with n above every index.
        """


class HostMatrix(SparseMatrix):
    """A matrix for a CPU, which reads the entries in place."""

    def __init__(self, device: AnyDevice, modulus: Modulus, rows: RowEntries) -> None:
        self.device, self.modulus, self.height = device, modulus, rows.height
        by_rank = _by_length(rows.stop - rows.start) if device.lanes > 1 else slice(None)
        flat = np.require(
            np.ascontiguousarray(rows.entries).view(np.uint32), requirements=("C", "A")
        )
        self.entries: Words = flat.reshape(-1)
        self.index_word = rows.index_word
        self.target, self.start, self.stop = (
            np.ascontiguousarray(array[by_rank], dtype=np.uint32)
            for array in (rows.row, rows.start, rows.stop)
        )

    @property
    def nonzeros(self) -> int:
        """The number of entries of all rows."""
        return len(self.entries) // (HEAD_WORDS + self.modulus.words)

    def multiply(self, vector: Words, out: Words) -> None:
        """See `SparseMatrix`."""
        device, rows = self.device, len(self.target)
        last = out[self.target[-1] :][:1] if rows else out[:0]
        mark(last)
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
        check_written(device, "products of matrices", last)


def _by_length(lengths: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the rows, longest first, so that no thread ends with a long row alone."""
    longest = int(lengths.max(initial=0))
    shortness = longest - lengths
    # Numbers of few bits are sorted by radix.
    return np.argsort(
        shortness.astype(np.uint16) if longest < 1 << 16 else shortness, kind="stable"
    )


def multiply_pointwise(device: AnyDevice, modulus: Modulus, a: Words, b: Words, out: Words) -> None:
    """out = a * b element by element, Montgomery form, contiguous arrays of shape (n, words)."""
    compiled = device.compile(field_multiply, spec=modulus)
    # The last product tells as much as all of them would; `out` may be one of the factors.
    last = out[-1:] if not (np.shares_memory(a, out) or np.shares_memory(b, out)) else out[:0]
    mark(last)
    device.launch(compiled, -(-len(a) // device.lanes), len(a), a, b, out)
    check_written(device, "products", last)
