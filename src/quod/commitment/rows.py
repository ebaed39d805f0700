"""Weighted sums of the rows of a matrix in device memory.

A kernel instance sums entries of one column, so adjacent instances read adjacent addresses. If a
device has more instances than there are columns, the rows are divided, and partial sums are added
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.field.array import canonical
from quod.field.element_bytes import Plain
from quod.field.integers import ELEMENT, load_integer
from quod.field.kernels import field_sum
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, kernel
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.run import elements_to_words, words_to_elements

_AT_ONCE = 4
"""The number of products that share one modular reduction."""


@kernel
def add_rows(
    k: Builder,
    n: U32,
    log_columns: U32,
    rows_each: U32,
    matrix: Pointer[U32],
    weights: Pointer[U32],
    sums: Pointer[U32],
    *,
    field: FieldSpec,
    at_once: int,
    type_name: str = ELEMENT,
) -> None:
    """Compute n weighted sums of `rows_each` rows: sums[i] adds weights[row] * matrix[row][column].

    The column is the lower `log_columns` bits of i; the upper bits select the rows. The matrix is
    over the prime field or of integers of the type `type_name`, the weights over `field`.
    """
    mixed, i = MixedField(k, field), k.global_id()
    f, base = mixed.extended, mixed.base
    with k.if_(i < n):
        first = (i >> log_columns) * rows_each
        column = i - ((i >> log_columns) << log_columns)
        with k.range(first, first + rows_each, at_once, carry=f.bounded(f.zero())) as loop:
            rows = [loop.index + offset for offset in range(at_once)]
            part = mixed.sum_of_products(
                [
                    (
                        f.load(weights, row),
                        load_integer(base, type_name, matrix, (row << log_columns) + column),
                    )
                    for row in rows
                ]
            )
            loop.next(f.bounded(loop.carried + part))
        f.store(sums, i, loop.results)


def weighted_rows(
    device: AnyDevice, field: FieldSpec, matrix: Buffer, weights: Sequence[Plain], log_columns: int
) -> list[Plain]:
    """Return the sum of weights[i] times row i: 2**log_columns elements of `field`.

    matrix: a row of 2**log_columns elements of the prime field for each weight.
    weights: their number is a power of two.
    """
    rows, columns = len(weights), 1 << log_columns
    parts = 1
    while parts < rows and parts * columns < device.resident_lanes:
        parts *= 2
    at_once = min(_AT_ONCE, rows // parts)
    sums = device.allocate(4 * field.words * parts * columns)
    recording = device.stream("rows").record()
    kernel = device.compile(add_rows, field=field, at_once=at_once)
    recording.launch(
        kernel, -(-parts * columns // kernel.lanes), parts * columns, log_columns, rows // parts,
        matrix, device.upload(elements_to_words(field, weights)), sums, label="rows",
    )  # fmt: skip
    row_sum = device.upload(np.full((columns, field.words), UNWRITTEN, np.uint32))
    sum_kernel = device.compile(field_sum, spec=field)
    recording.launch(
        sum_kernel, -(-columns // sum_kernel.lanes), columns, parts, sums, row_sum, label="rows"
    )  # fmt: skip
    recording.finish().run()
    return downloaded(device, field, row_sum, columns, "a sum of rows")


def downloaded(
    device: AnyDevice, field: FieldSpec, memory: Buffer, count: int, what: str
) -> list[Plain]:
    """Download `count` elements; raise DeviceError if the device did not write them."""
    words = np.full((count, field.words), UNWRITTEN, np.uint32)
    device.download(memory, words)
    if not canonical(field.modulus, words.reshape(-1, field.modulus.words)).all():
        raise not_written(device, what)
    return words_to_elements(field, words)
