"""A constraint system by wires: of which points in Lagrange bases each wire's points are sums."""

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

MOST_TERMS = 1 << 18
"""Terms that are summed at a time, by weight: with points of G2 some 100 MiB."""


@frozen(eq=False)
class WireTerms:
    """A matrix by columns: the entries of wire j are starts[j] to starts[j + 1]."""

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    coefficients: Coefficients

    @classmethod
    def of(cls, modulus: Modulus, matrix: SparseMatrix, wires: int, tied: int = 0) -> WireTerms:
        """Collect the terms of a matrix by wire.

        After the matrix come `tied` more rows; row i of these has one term, 1 at wire i.
        """
        rows = np.repeat(np.arange(matrix.rows, dtype=np.uint32), np.diff(matrix.row_ptr))
        ties = np.arange(tied, dtype=np.uint32)
        ones = np.zeros((tied, modulus.words), np.uint32)
        ones[:, 0] = 1
        column = np.concatenate([matrix.column, ties])
        order = np.argsort(column, kind="stable")
        coefficients = Coefficients.joined(
            [Coefficients.of(modulus, matrix.value), Coefficients.of(modulus, ones)]
        )
        starts = np.zeros(wires + 1, np.int64)
        np.cumsum(np.bincount(column, minlength=wires), out=starts[1:])
        return cls(
            starts,
            np.concatenate([rows, matrix.rows + ties])[order],
            coefficients.gathered(order),
        )

    def weights(self, first: int, last: int) -> NDArray[np.int64]:
        """Return, for each wire from `first` to `last`, the weight of all terms before it."""
        starts = self.starts[first : last + 1]
        return starts + (HARD_WEIGHT - 1) * np.searchsorted(self.coefficients.hard, starts)


def wire_points(
    device: AnyDevice,
    group: Group,
    parts: Sequence[tuple[WireTerms, Words]],
    first: int,
    last: int,
    most_terms: int = MOST_TERMS,
) -> Iterator[Words]:
    """The points of wires `first` to before `last`, in order, some at a time.

    Each is the sum of coefficient times basis[row] over the wire's terms in all parts. Only as many
    points as `most_terms` terms need are in memory.
    """
    begin = first
    weights = sum((terms.weights(first, last) for terms, _ in parts), np.zeros(1, np.int64))
    while first < last:
        before = weights[first - begin]
        until = begin + int(np.searchsorted(weights, before + most_terms, "right")) - 1
        if until <= first:
            yield _heavy_wire(device, group, parts, first, most_terms // HARD_WEIGHT)
            first += 1
            continue
        until = min(until, last)
        owners = np.arange(until - first, dtype=np.int64)
        spans = [(int(terms.starts[first]), int(terms.starts[until])) for terms, _ in parts]
        counts = [np.diff(terms.starts[first : until + 1]) for terms, _ in parts]
        yield _sums(
            device, group, parts, spans, np.concatenate([np.repeat(owners, n) for n in counts]),
            until - first,
        )  # fmt: skip
        first = until


def _heavy_wire(
    device: AnyDevice,
    group: Group,
    parts: Sequence[tuple[WireTerms, Words]],
    wire: int,
    most: int,
) -> Words:
    """The point of one wire with more terms than fit, as the constant 1 may have."""
    sums = []
    for part in parts:
        begin, end = map(int, part[0].starts[wire : wire + 2])
        for start in range(begin, end, most):
            span = (start, min(start + most, end))
            owners = np.zeros(span[1] - start, np.int64)
            sums.append(_sums(device, group, [part], [span], owners, 1))
    return sum_points(device, group, np.concatenate(sums))[None]


def _sums(
    device: AnyDevice,
    group: Group,
    parts: Sequence[tuple[WireTerms, Words]],
    spans: Sequence[tuple[int, int]],
    owners: NDArray[np.int64],
    count: int,
) -> Words:
    points = np.concatenate(
        [basis[terms.rows[begin:end]] for (terms, basis), (begin, end) in zip(parts, spans)]
    )
    coefficients = Coefficients.joined(
        [terms.coefficients.part(begin, end) for (terms, _), (begin, end) in zip(parts, spans)]
    )
    return sparse_sums(device, group, points, owners, coefficients, count)
