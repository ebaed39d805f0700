"""The search for points at infinity that no correct proving key has.

All zeros encode infinity, and the missing bytes of an incomplete download are zeros, too. A point
of a, b_g1 or b_g2 is infinity if the matrix A or B does not use its wire, and a point of c only if
neither does. Every other point of a key is a multiple of a generator by a number that is 0 with a
probability of about 2**-250: alpha, beta, gamma and delta, h, and ic, for each of whose wires
A has an extra row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.infinity import infinite_points
from quod.field.moduli import Modulus
from quod.formats.zkey.header import HEADER_POINTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Words = np.ndarray[Any, np.dtype[np.uint32]]

SINGLE_POINTS = frozenset(name for name, _ in HEADER_POINTS)
"""The names of a key's single points; the others are arrays."""

MAY_BE_INFINITE = frozenset({"a", "b_g1", "b_g2", "c"})
"""The arrays that may have points at infinity, for wires that no constraint uses."""

# The matrices by array: a point is not infinity if one of its matrices uses the point's wire.
_MATRICES = {"a": (0,), "b_g1": (1,), "b_g2": (1,), "c": (0, 1)}
_CHUNK = 1 << 15
# Sums of entries are slow Python integers. In a damaged key no sum is 0, so the first few wires
# show the damage. Later batches are larger, so that a key with many sums of 0 is read only a few
# times.
_FIRST_BATCH = 1 << 10
_GROWTH = 64


def wrong_infinity(
    points: Mapping[str, Words],
    coefficients: NDArray[Any],
    *,
    variables: int,
    public: int,
    fr: Modulus,
) -> tuple[str, int] | None:
    """Return the name and index of a point at infinity that no correct key has, or None.

    points: The points of a key by name. Reads one word of every point, and the coefficients if any
    point is infinity. In a key with many such points it finds one of the first.
    """
    infinity_indices = {
        name: infinite_points(array[None] if name in SINGLE_POINTS else array)
        for name, array in points.items()
    }
    for name, indices in infinity_indices.items():
        if name not in MAY_BE_INFINITE and len(indices):
            return name, int(indices[0])
    wires = {
        name: indices + (public + 1 if name == "c" else 0)
        for name, indices in infinity_indices.items()
        if name in MAY_BE_INFINITE and len(indices)
    }
    if not wires:
        return None
    used_wires = _used_wires(coefficients, variables)
    to_check = np.zeros_like(used_wires)
    for name, indices in wires.items():
        for matrix in _MATRICES[name]:
            to_check[matrix, indices] = True
    for batch in _batches(used_wires & to_check):
        remaining = _without_cancelled(coefficients, batch, fr)
        for name, indices in wires.items():
            wrong_positions = np.flatnonzero(
                remaining[list(_MATRICES[name])][:, indices].any(axis=0)
            )
            if len(wrong_positions):
                return name, int(infinity_indices[name][wrong_positions[0]])
    return None


def _batches(wires: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """Yield the wires of a mask in masks of growing size."""
    indices, size = np.flatnonzero(wires), _FIRST_BATCH
    while len(indices):
        batch = np.zeros_like(wires)
        batch.reshape(-1)[indices[:size]] = True
        yield batch
        indices, size = indices[size:], size * _GROWTH


def _used_wires(coefficients: NDArray[Any], variables: int) -> NDArray[np.bool_]:
    """Return a mask of the wires with a non-zero entry in A (row 0) and B (row 1)."""
    used = np.zeros(2 * variables, np.bool_)
    for start in range(0, len(coefficients), _CHUNK):
        entries = coefficients[start : start + _CHUNK]
        mask_indices = entries["signal"].astype(np.int64) + variables * entries["matrix"].astype(
            np.int64
        )
        zeros = infinite_points(entries["value"])
        used[np.delete(mask_indices, zeros) if len(zeros) else mask_indices] = True
    return used.reshape(2, variables)


def _without_cancelled(
    coefficients: NDArray[Any], wires: NDArray[np.bool_], fr: Modulus
) -> NDArray[np.bool_]:
    """Return the mask `wires` without those whose entries add up to 0 in every constraint."""
    remaining = np.zeros_like(wires)
    sums: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    for start in range(0, len(coefficients), _CHUNK):
        entries = coefficients[start : start + _CHUNK]
        for entry in entries[wires[entries["matrix"], entries["signal"]]]:
            key = int(entry["matrix"]), int(entry["signal"]), int(entry["constraint"])
            sums[key] += int.from_bytes(entry["value"].tobytes(), "little")
    for (matrix, wire, _), total in sums.items():
        if total % fr.value:
            remaining[matrix, wire] = True
    return remaining
