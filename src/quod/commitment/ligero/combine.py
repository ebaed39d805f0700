"""Kernels that compute sums over a matrix of the prime field, and gather its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.integers import ELEMENT, load_integer
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.field.strategy import prime_field
from quod.hash.function import STATE_WORDS
from quod.hash.words import Words, message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums


@kernel
def sum_rows(
    k: Builder,
    columns: U32,
    matrix: Pointer[U32],
    weights: Pointer[U32],
    factor: Pointer[U32],
    sums: Pointer[U32],
    *,
    field: FieldSpec,
    unrolled: int,
    type_name: str = ELEMENT,
) -> None:
    """Set sums[i] = factor[0] * the sum of weights[j] * matrix[i][j]; one workgroup per row.

    The matrix is over the prime field, or of integers of the type `type_name`. The length of a row
    must be a multiple of `unrolled` times the workgroup size, or `unrolled` 1.
    """
    mixed = MixedField(k, field)
    f, base = mixed.extended, mixed.base
    workgroup_sums = WorkgroupSums(k, f, 1)
    row, lanes = k.workgroup_id(), k.workgroup_size
    with k.range(k.local_id(), columns, lanes * unrolled, carry=f.bounded(f.zero())) as loop:
        indices = [loop.index + lanes * part for part in range(unrolled)]
        pairs = [
            (f.load(weights, index), load_integer(base, type_name, matrix, row * columns + index))
            for index in indices
        ]
        loop.next(f.bounded(loop.carried + mixed.sum_of_products(pairs)))
    (total,) = workgroup_sums.totals([loop.results])
    with k.if_(k.local_id() == 0):
        f.store(sums, row, total * f.load(factor, 0))


@kernel
def add_parts(
    k: Builder,
    columns: U32,
    parts: U32,
    partial: Pointer[U32],
    message: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Set message[j] to the sum of partial[s][j] over all s, as canonical integers."""
    f = MixedField(k, field).extended
    column = k.global_id()
    with k.if_(column < columns):
        with k.range(0, parts, carry=f.bounded(f.zero())) as loop:
            part = f.load(partial, loop.index * columns + column)
            loop.next(f.bounded(loop.carried + part))
        _store_message(k, message, column, message_words(f, loop.results))


@kernel
def gather_columns(
    k: Builder,
    count: U32,
    log_rows: U32,
    columns: U32,
    matrix: Pointer[U32],
    places: Pointer[U32],
    message: Pointer[U32],
    *,
    modulus: Modulus,
) -> None:
    """Copy the columns with the indices `places`, `count` elements in total, to a message."""
    f: Any = prime_field(k, modulus)
    index = k.global_id()
    with k.if_(index < count):
        row = index & ((k.constant(1, index.type) << log_rows) - 1)
        element = f.load(matrix, row * columns + places[index >> log_rows])
        _store_message(k, message, index, message_words(f, element))


@kernel
def gather_nodes(
    k: Builder, count: U32, tree: Pointer[U32], nodes: Pointer[U32], message: Pointer[U32]
) -> None:
    """Copy the digests of `count` nodes of a tree."""
    index = k.global_id()
    with k.if_(index < count):
        words = k.load(tree, nodes[index] * STATE_WORDS, STATE_WORDS)
        k.store(message, index * STATE_WORDS, *words)


def _store_message(k: Builder, message: Value, index: Value, words: Words) -> None:
    values: Sequence[Value] = words
    k.store(message, index * len(values), *values)
