"""Each kernel of Groth16 in the interpreter and on every executor, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.field.array import Words, from_integers, integers_to_words, random_elements
from quod.field.moduli import Modulus
from quod.formats import coefficient_dtype
from quod.groth16.host.sparse_matrix import sparse_rows
from quod.groth16.lagrange import lagrange_values, scale_elements, weighted_sums
from tests.support.executors import run_everywhere
from tests.support.thorough import one_and_others

FIELDS = pytest.mark.parametrize(
    "fr", one_and_others([curve.fr for curve in CURVES.values()]), ids=lambda fr: fr.name
)
COUNT = 19


def wide(array: Words) -> NDArray[np.uint64]:
    """Return the same memory as the 64-bit words that the kernels read."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint64)


def zeros(fr: Modulus, count: int = COUNT) -> NDArray[np.uint64]:
    return np.zeros(count * fr.words // 2, dtype=np.uint64)


def hostile(fr: Modulus, seed: int) -> Words:
    """Stored words that fill limbs and set carries off, then random ones."""
    p = fr.value
    edges = [0, 1, p - 1, p - 2, (1 << fr.bits - 1) - 1, p & ((1 << 208) - 1) % p, (1 << 64) - 1]
    array = random_elements(fr, COUNT, seed)
    array[: len(edges)] = integers_to_words(fr, edges)
    return np.roll(array, seed, axis=0)


@FIELDS
def test_sparse_rows(fr: Modulus) -> None:
    lengths = [5, 3, 3, 2, 1, 1, 1, 0, 0, 4]
    entries = np.zeros(sum(lengths), dtype=coefficient_dtype(fr.words))
    entries["signal"] = np.arange(len(entries)) * 7 % COUNT
    entries["value"] = np.resize(hostile(fr, 1), (len(entries), fr.words))
    stop = np.cumsum(lengths).astype(np.uint32)
    start = stop - np.array(lengths, dtype=np.uint32)
    target = np.array([3, 1, 4, 0, 5, 9, 2, 6, 8, 7], dtype=np.uint32)
    arguments = (
        10, target, start, stop, entries.view(np.uint32), wide(hostile(fr, 2)), zeros(fr, 10)
    )  # fmt: skip
    run_everywhere(sparse_rows, 2, arguments, modulus=fr, index=2)


@pytest.mark.parametrize(
    "fr", one_and_others([curve.fr for curve in CURVES.values()]), ids=lambda fr: fr.name
)
def test_lagrange_values(fr: Modulus) -> None:
    constants = from_integers(fr, [fr.value - 3, 5, pow(5, -1, fr.value), fr.value - 1])
    starts = from_integers(fr, [2 * 5 ** (4 * i) for i in range(5)])
    arguments = (COUNT, 4, wide(constants), wide(starts), zeros(fr))
    run_everywhere(lagrange_values, 1, arguments, modulus=fr)


@FIELDS
@pytest.mark.parametrize("factor", [0, 1, -1])
def test_scale_elements(fr: Modulus, factor: int) -> None:
    arguments = (COUNT, wide(hostile(fr, 3)), zeros(fr))
    run_everywhere(scale_elements, 3, arguments, modulus=fr, factor=factor % fr.value)


@FIELDS
def test_weighted_sums(fr: Modulus) -> None:
    weights = from_integers(fr, [fr.value - 1, 1, fr.value - 2])
    arrays = (wide(hostile(fr, seed)) for seed in (4, 5, 6))
    arguments = (COUNT, wide(weights), *arrays, zeros(fr))
    run_everywhere(weighted_sums, 3, arguments, modulus=fr)
