"""The points of a key for each wire, as sums over the points of Lagrange bases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from quod.curve.group import Group
from quod.curve.weierstrass.operations import sum_points
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.formats import SparseMatrix
from quod.frozen import frozen
from quod.msm.host.sparse_sums import HARD_WEIGHT, Coefficients, sparse_sums

MAX_WEIGHT = 1 << 18
"""The total weight of terms that are summed at a time; for G2 this takes some 100 MiB.

A term weighs 1 if its coefficient is 1 or -1, else HARD_WEIGHT, in proportion to the memory.
"""


@frozen(eq=False)
class WireTerms:
    """A matrix by columns: the terms of wire j are those from starts[j] to starts[j + 1] - 1.

    rows: the row of each term.
    coefficients: the coefficient of each term.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    coefficients: Coefficients

    @classmethod
    def of(
        cls, modulus: Modulus, matrix: SparseMatrix, wires: int, public_rows: int = 0
    ) -> WireTerms:
        """Collect the terms of a matrix by wire.

        The matrix is extended by `public_rows` rows, one for each of the first wires.
        Row i has only the coefficient 1 at wire i.
        """
        rows = np.repeat(np.arange(matrix.rows, dtype=np.uint32), np.diff(matrix.row_ptr))
        extra_wires = np.arange(public_rows, dtype=np.uint32)
        ones = np.zeros((public_rows, modulus.words), np.uint32)
        ones[:, 0] = 1
        column = np.concatenate([matrix.column, extra_wires])
        order = np.argsort(column, kind="stable")
        coefficients = Coefficients.joined(
            [Coefficients.of(modulus, matrix.value), Coefficients.of(modulus, ones)]
        )
        starts = np.zeros(wires + 1, np.int64)
        np.cumsum(np.bincount(column, minlength=wires), out=starts[1:])
        return cls(
            starts,
            np.concatenate([rows, matrix.rows + extra_wires])[order],
            coefficients.gathered(order),
        )

    def weights(self, first: int, last: int) -> NDArray[np.int64]:
        """Return, for each wire from `first` to `last`, the weight of all terms before its first.

        A term weighs HARD_WEIGHT if its coefficient is neither 1 nor -1, else 1.
        """
        starts = self.starts[first : last + 1]
        return starts + (HARD_WEIGHT - 1) * np.searchsorted(self.coefficients.hard, starts)


def wire_points(
    device: AnyDevice,
    group: Group,
    parts: Sequence[tuple[WireTerms, Words]],
    first: int,
    last: int,
    max_weight: int = MAX_WEIGHT,
) -> Iterator[Words]:
    """Yield the points of wires `first` to `last` - 1, in order, in arrays.

    parts: pairs of terms and a Lagrange basis. A wire's point is the sum over its terms in all
        parts of coefficient * basis[row].
    max_weight: the largest weight of the terms of one array, which bounds the memory; see
        `MAX_WEIGHT`.
    """
    wire = first
    weights = sum((terms.weights(first, last) for terms, _ in parts), np.zeros(1, np.int64))
    while wire < last:
        start_weight = weights[wire - first]
        end = first + int(np.searchsorted(weights, start_weight + max_weight, "right")) - 1
        if end <= wire:
            yield _heavy_wire(device, group, parts, wire, max_weight // HARD_WEIGHT)
            wire += 1
            continue
        end = min(end, last)
        owners = np.arange(end - wire, dtype=np.int64)
        spans = [(int(terms.starts[wire]), int(terms.starts[end])) for terms, _ in parts]
        counts = [np.diff(terms.starts[wire : end + 1]) for terms, _ in parts]
        yield _sums(
            device, group, parts, spans, np.concatenate([np.repeat(owners, n) for n in counts]),
            end - wire,
        )  # fmt: skip
        wire = end


def _heavy_wire(
    device: AnyDevice,
    group: Group,
    parts: Sequence[tuple[WireTerms, Words]],
    wire: int,
    max_terms: int,
) -> Words:
    """Return the point of a wire with too many terms for one sum, such as the constant 1.

    max_terms: the number of terms that are summed at a time.
    """
    sums = []
    for part in parts:
        begin, end = map(int, part[0].starts[wire : wire + 2])
        for start in range(begin, end, max_terms):
            term_range = (start, min(start + max_terms, end))
            owners = np.zeros(term_range[1] - start, np.int64)
            sums.append(_sums(device, group, [part], [term_range], owners, 1))
    return sum_points(device, group, np.concatenate(sums))[None]


def _sums(
    device: AnyDevice,
    group: Group,
    parts: Sequence[tuple[WireTerms, Words]],
    spans: Sequence[tuple[int, int]],
    owners: NDArray[np.int64],
    count: int,
) -> Words:
    """Return `count` sums; term i of those selected by `spans` belongs to sum owners[i]."""
    points = np.concatenate(
        [basis[terms.rows[begin:end]] for (terms, basis), (begin, end) in zip(parts, spans)]
    )
    coefficients = Coefficients.joined(
        [terms.coefficients.part(begin, end) for (terms, _), (begin, end) in zip(parts, spans)]
    )
    return sparse_sums(device, group, points, owners, coefficients, count)
