"""Blocks: consecutive constraints that occur several times with other wires.

Block boundaries depend only on the constraints near them, so repeated parts of a system have the
same boundaries. A boundary is a constraint whose hash, over it and a few that follow, is the least
within a distance. Blocks overlap by some constraints, so that each group of a few constraints is
within a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from quod.frozen import frozen
from quod.r1cs.determinism.rows import Matrix, Rows

Array = np.ndarray[Any, np.dtype[Any]]

_GRAM = 8
"""The number of constraints of a hash."""
_DISTANCE = 24
_NEAR_BOUNDARIES = 6
_OVERLAP = 24


@frozen(eq=False)
class Block:
    """The occurrence of a template.

    first: the first row; the rows from `core_end` on also belong to the next block.
    wires: the wire for each wire of the template, from 1 on.
    """

    first: int
    core_end: int
    template: int
    wires: tuple[int, ...]


@frozen(eq=False)
class Template:
    """Constraints with wires numbered in the order of their occurrence.

    interface: the wires that occur outside of the constraints, or in the next block.
    """

    wires: int
    matrices: tuple[Matrix, Matrix, Matrix]
    interface: tuple[int, ...]


class _Entries:
    """A matrix as arrays; the entries of a row are in the order of their coefficients."""

    def __init__(self, matrix: Matrix, numbers: dict[int, int]) -> None:
        self.ends = np.array(matrix.ends, np.int64)
        self.starts = np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])
        self.rows = np.repeat(np.arange(len(self.ends)), self.ends - self.starts)
        wires = np.array(matrix.wires, np.int64)
        coefficients = np.array(
            [numbers.setdefault(k, len(numbers)) for k in matrix.coefficients], np.int64
        )
        order = np.lexsort((coefficients, self.rows))
        self.wires, self.coefficients = wires[order], coefficients[order]

    def slice_of(self, first: int, end: int) -> slice:
        """Return the entries of some rows."""
        return slice(int(self.starts[first]), int(self.ends[end - 1]))


def repeated_blocks(rows: Rows) -> tuple[list[Block], list[Template]]:
    """Return the blocks that occur at least twice, in the order of their rows, and their templates.

    A block's template has equal coefficients, and its wires in equal places.
    """
    if not rows.count:
        return [], []
    numbers: dict[int, int] = {}
    entries = [_Entries(matrix, numbers) for matrix in rows.matrices]
    first_row, last_row = _extent(rows, entries)
    blocks: list[Block] = []
    templates: list[Template] = []
    segments = [(0, rows.count)]
    for boundaries in _boundaries(_row_hashes(entries)):
        digests: dict[bytes, list[tuple[int, int, int, Array]]] = {}
        for first, core_end in _divided(segments, boundaries):
            end = min(core_end + _OVERLAP, rows.count)
            digest, wires = _digest(entries, first, core_end, end, first_row, last_row)
            digests.setdefault(digest, []).append((first, core_end, end, wires))
        segments = []
        for occurrences in digests.values():
            if len(occurrences) == 1:
                segments.append(occurrences[0][:2])
                continue
            templates.append(_template(rows, *occurrences[0], first_row, last_row))
            blocks += [
                Block(first, core_end, len(templates) - 1, tuple(wires[1:].tolist()))
                for first, core_end, _, wires in occurrences
            ]
    return sorted(blocks, key=lambda block: block.first), templates


def _divided(
    segments: Sequence[tuple[int, int]], boundaries: Array
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """Yield the parts of segments between boundaries."""
    for first, end in segments:
        inside = boundaries[np.searchsorted(boundaries, first, "right") :]
        ends = [first, *inside[: np.searchsorted(inside, end)].tolist(), end]
        yield from pairwise(ends)


def _extent(rows: Rows, entries: Sequence[_Entries]) -> tuple[Array, Array]:
    """Return the first and the last row of each wire; inputs and targets occur everywhere."""
    first = np.full(rows.wires, rows.count, np.int64)
    last = np.full(rows.wires, -1, np.int64)
    for matrix in entries:
        np.minimum.at(first, matrix.wires, matrix.rows)
        np.maximum.at(last, matrix.wires, matrix.rows)
    ends = [*rows.inputs, *rows.targets]
    first[ends], last[ends] = -1, rows.count
    return first, last


def _mixed(values: Array) -> Array:
    """Return hashes of 64-bit numbers (SplitMix64)."""
    with np.errstate(over="ignore"):
        values = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes: Array = values ^ (values >> np.uint64(31))
    return hashes


def _row_hashes(entries: Sequence[_Entries]) -> Array:
    """Return a hash of the coefficients of each row."""
    total = np.zeros(len(entries[0].ends), np.uint64)
    for number, matrix in enumerate(entries):
        keys = _mixed(matrix.coefficients * 8 + number * 2 + (matrix.wires == 0))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(keys, dtype=np.uint64)])
        total += sums[matrix.ends] - sums[matrix.starts]
    return _mixed(total)


def _boundaries(hashes: Array) -> tuple[Array, Array]:
    """Return boundaries far from each other, then also those between them.

    They are the rows at which the hash of a few rows is the least within a distance, in rows or in
    boundaries.
    """
    grams = np.zeros(len(hashes), np.uint64)
    for offset in range(min(_GRAM, len(hashes))):
        grams[: len(hashes) - offset] += hashes[offset:] * np.uint64(2 * offset + 1)
    grams = _mixed(grams)
    near = np.flatnonzero(_is_least(grams, _DISTANCE))
    near = near[near > 0]
    # A boundary in each period of a periodic part, but not in each row of equal rows.
    return near[_is_least(grams[near], _NEAR_BOUNDARIES, np.less_equal)], near


def _is_least(numbers: Array, distance: int, compare: np.ufunc = np.less) -> Array:
    """Return which numbers are the least ones within a distance.

    compare: how they compare with numbers before them.
    """
    is_least = np.ones(len(numbers), bool)
    for offset in range(1, min(distance, len(numbers) - 1) + 1):
        is_least[offset:] &= compare(numbers[offset:], numbers[:-offset])
        is_least[:-offset] &= numbers[:-offset] <= numbers[offset:]
    return is_least


def _digest(
    entries: Sequence[_Entries], first: int, core_end: int, end: int, first_row: Array,
    last_row: Array,
) -> tuple[bytes, Array]:  # fmt: skip
    """Return a digest of rows up to the names of wires, and the wires in the order of occurrence.

    Wire 0, the constant, comes first.
    """
    slices = [matrix.slice_of(first, end) for matrix in entries]
    columns = np.concatenate(
        [np.zeros(1, np.int64), *(m.wires[s] for m, s in zip(entries, slices))]
    )
    wires, index, inverse = np.unique(columns, return_index=True, return_inverse=True)
    order = np.argsort(index)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    wires = wires[order]
    digest = blake2b(digest_size=32)
    digest.update(np.int64(core_end - first).tobytes())
    digest.update(rank[inverse].tobytes())
    for matrix, entry in zip(entries, slices):
        digest.update((matrix.ends[first:end] - entry.start).tobytes())
        digest.update(matrix.coefficients[entry].tobytes())
    digest.update(_is_interface(wires, first, core_end, first_row, last_row).tobytes())
    return digest.digest(), wires


def _is_interface(
    wires: Array, first: int, core_end: int, first_row: Array, last_row: Array
) -> Array:  # fmt: skip
    """Return which wires occur outside of the rows from `first` to `core_end`."""
    result: Array = (first_row[wires] < first) | (last_row[wires] >= core_end)
    return result


def _template(
    rows: Rows, first: int, core_end: int, end: int, wires: Array, first_row: Array,
    last_row: Array,
) -> Template:  # fmt: skip
    """Return the template of a block."""
    numbers = {wire: number for number, wire in enumerate(wires.tolist())}
    matrices = []
    for matrix in rows.matrices:
        start = matrix.ends[first - 1] if first else 0
        entries = slice(start, matrix.ends[end - 1])
        matrices.append(
            Matrix(
                [each - start for each in matrix.ends[first:end]],
                [numbers[wire] for wire in matrix.wires[entries]], matrix.coefficients[entries],
            )
        )  # fmt: skip
    is_interface = _is_interface(wires, first, core_end, first_row, last_row)
    interface = tuple(int(each) for each in np.flatnonzero(is_interface) if each)
    return Template(len(wires), (matrices[0], matrices[1], matrices[2]), interface)
