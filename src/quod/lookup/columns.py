"""Columns of lookups: field elements or integers, in host or device memory, and affine forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.errors import InputError
from quod.field.array import Words, check_canonical
from quod.field.integers import ELEMENT, TYPE_OF_DTYPE, Integers, bias_of, check_fits
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.lookup.statement import AffineForm
from quod.validation import plain_array


@frozen(eq=False)
class Affine:
    """A virtual column: constant + the sum of coefficients times columns of integers, modulo p.

    The prover computes it wherever it reads it, and never stores it. Coefficients are public.

    terms: pairs of a coefficient and a column: a one-dimensional array of integers, or `Integers`.
    """

    constant: int
    terms: Sequence[tuple[int, Any]]


@frozen(eq=False)
class Array:
    """Numbers in memory: elements of the prime field, or integers.

    type: a name in `INTEGER_TYPES`, or `ELEMENT`.
    memory: an array of the host, or device memory.
    """

    type: str
    memory: Words | Buffer
    rows: int

    @property
    def bias(self) -> int:
        """The number that `load_biased` adds to each element."""
        return bias_of(self.type)


@frozen(eq=False)
class Entry:
    """One element of the rows of a column: an affine form of arrays."""

    form: AffineForm
    arrays: tuple[Array, ...]


def entries_of(modulus: Modulus, what: str, value: object) -> list[Entry]:
    """Validate a column: an array or affine form, or a list of them, one per element of a row."""
    return [_entry(modulus, what, element) for element in parts_of(what, value)]


def parts_of(what: str, value: object) -> list[Any]:
    """Return the parts of a tuple, or a single value as one part; InputError if there is none."""
    if not isinstance(value, (list, tuple)):
        return [value]
    if not value:
        raise InputError(f"{what} must have at least one array")
    return list(value)


def element_array(modulus: Modulus, what: str, value: object) -> Words:
    """Return an array of field elements in memory form; InputError for other values."""
    array = plain_array(what, value)
    if array.dtype != np.uint32 or array.ndim != 2 or array.shape[1] != modulus.words:
        raise InputError(
            f"{what} must be uint32 of shape (entries, {modulus.words}), of {modulus.name}, or a "
            f"one-dimensional array of integers, not {array.dtype} of {array.shape}"
        )
    check_canonical(modulus, array)
    return np.ascontiguousarray(array)


def _entry(modulus: Modulus, what: str, value: object) -> Entry:
    if not isinstance(value, Affine):
        return Entry(AffineForm(0, (1,)), (_array(modulus, what, value),))
    terms: Any = value.terms
    if not isinstance(terms, (list, tuple)) or not terms:
        raise InputError(f"{what}: an affine form must have a list of at least one term")
    arrays, coefficients = [], []
    for term in terms:
        if not isinstance(term, (list, tuple)) or len(term) != 2:
            raise InputError(f"{what}: a term must be a pair of a coefficient and a column")
        coefficients.append(term[0])
        array = _array(modulus, what, term[1])
        if array.type == ELEMENT:
            raise InputError(f"{what}: a term of an affine form must be integers, not elements")
        arrays.append(array)
    return Entry(AffineForm(value.constant, tuple(coefficients)), tuple(arrays))


def _array(modulus: Modulus, what: str, value: object) -> Array:
    if isinstance(value, Buffer) and value.dtype is not None:
        value = Integers(value, value.dtype)
    if isinstance(value, Integers):
        check_fits(modulus, what, value.type)
        return Array(value.type, value.memory, value.count)
    array: Any = plain_array(what, value)
    if array.ndim == 1 and array.dtype in TYPE_OF_DTYPE:
        type_name = TYPE_OF_DTYPE[array.dtype]
        check_fits(modulus, what, type_name)
        return Array(type_name, np.ascontiguousarray(array), len(array))
    elements = element_array(modulus, what, array)
    return Array(ELEMENT, elements, len(elements))
