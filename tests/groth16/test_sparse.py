"""A·w and B·w against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words, from_integers, integers_to_words, to_integers
from quod.field.moduli import Modulus
from quod.formats import coefficient_dtype
from quod.groth16.host.sparse_matrix import HostMatrix, multiply_pointwise, safe_entries

Entry = tuple[int, int, int, int]


def coefficients(fr: Modulus, entries: list[Entry]) -> NDArray[np.void]:
    """Entries (matrix, constraint, signal, value) as a zkey holds them."""
    array = np.zeros(len(entries), dtype=coefficient_dtype(fr.words))
    for field, column in zip(("matrix", "constraint", "signal"), zip(*entries)):
        array[field] = column
    twice = (fr.to_montgomery(value) for *_, value in entries)
    array["value"] = from_integers(fr, twice)
    return array


def sums(
    fr: Modulus, entries: list[Entry], vector: list[int], height: int, *, transposed: bool
) -> list[int]:
    result = [0] * height
    for matrix, constraint, signal, value in entries:
        row, column = (signal, constraint) if transposed else (constraint, signal)
        at = matrix * (height // 2) + row
        result[at] = (result[at] + value * vector[column]) % fr.value
    return result


def multiplied(matrix: HostMatrix, vector: list[int]) -> Words:
    out = np.zeros((matrix.height, matrix.modulus.words), dtype=np.uint32)
    matrix.multiply(integers_to_words(matrix.modulus, vector), out)
    return out


def random_entries(rng: random.Random, r: int, rows: int, columns: int) -> list[Entry]:
    """Rows of very different lengths, some empty, with hostile values and repeated entries."""
    entries = []
    for constraint in range(rows):
        for matrix in (0, 1):
            for _ in range(rng.choice((0, 1, 1, 2, 5, 40))):
                value = rng.choice((0, 1, 2, r - 1, r - 2, r // 2, rng.randrange(r)))
                entries.append((matrix, constraint, rng.randrange(columns), value))
    return entries


@pytest.mark.parametrize(
    ("order", "curve"),
    [("as snarkjs", "bn254"), ("shuffled", "bn254"), ("by matrix", "bn254"),
     ("shuffled", "bls12_381"), ("shuffled", "bls12_377")],
)  # fmt: skip
def test_products_with_a_witness(device: AnyDevice, curve: str, order: str) -> None:
    fr = CURVES[curve].fr
    rng = random.Random(f"{curve} {order}")
    entries = random_entries(rng, fr.value, 37, 29)
    if order == "shuffled":
        rng.shuffle(entries)
    if order == "by matrix":
        entries.sort(key=lambda entry: entry[0])
    edges = [0, 1, fr.value - 1, fr.value - 2]
    vector = edges + [rng.randrange(fr.value) for _ in range(25)]
    matrix = HostMatrix.from_coefficients(device, fr, coefficients(fr, entries), 64, 29)
    products = multiplied(matrix, vector)
    assert matrix.nonzeros == len(entries)
    assert to_integers(fr, products) == sums(fr, entries, vector, 128, transposed=False)


def test_transposed_products(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    rng = random.Random("bn254")
    entries = random_entries(rng, fr.value, 37, 29)
    vector = [rng.randrange(fr.value) for _ in range(37)]
    matrix = HostMatrix.transposed(device, fr, coefficients(fr, entries), 2, 29)
    products = multiplied(matrix, vector)
    assert to_integers(fr, products) == sums(fr, entries, vector, 58, transposed=True)


@pytest.mark.parametrize("curve", CURVES)
def test_a_long_sum_of_the_largest_values(device: AnyDevice, curve: str) -> None:
    fr = CURVES[curve].fr
    # One lane makes a sum, and Mesa's driver in software ends its loops after 65,535 rounds.
    terms = 1000 if getattr(device, "drops_long_loops", False) else 5000
    entries = [(0, 0, 0, fr.value - 1)] * terms + [(1, 0, 0, 1)]
    matrix = HostMatrix.from_coefficients(device, fr, coefficients(fr, entries), 1, 1)
    products = multiplied(matrix, [fr.value - 1])
    assert to_integers(fr, products) == [terms, fr.value - 1]


def test_no_entries(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    empty = np.zeros(0, dtype=coefficient_dtype(fr.words))
    for matrix in (
        HostMatrix.from_coefficients(device, fr, empty, 4, 4),
        HostMatrix.transposed(device, fr, empty, 2, 4),
    ):
        assert matrix.nonzeros == 0
        assert not multiplied(matrix, [1, 2, 3, 4]).any()


def test_only_owned_entries_are_used_in_place(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    entries = coefficients(fr, [(0, 0, 0, 1), (1, 0, 1, 2), (0, 1, 2, 3)])
    for owned in (True, False):
        matrix = HostMatrix.from_coefficients(device, fr, entries, 2, 3, owned=owned)
        assert np.shares_memory(matrix.entries, entries) == owned


@pytest.mark.parametrize("owned", [True, False])
def test_entries_outside_the_matrices(owned: bool) -> None:
    fr = CURVES["bn254"].fr
    good: list[Entry] = [(0, 0, 0, 1), (1, 1, 2, 2)] * 20_000
    array = coefficients(fr, good)
    for bad in ((2, 0, 0, 1), (0, 2, 0, 1), (1, 0, 3, 1), (0, 0, 1 << 20, 1)):
        with pytest.raises(InputError, match="outside their 2 rows and 3 columns"):
            safe_entries(np.append(array, coefficients(fr, [bad])), 2, 3, owned=owned)
    assert (safe_entries(array, 2, 3, owned=owned)["signal"] < 3).all()


def test_later_changes_to_file_entries_are_ignored(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    entries = coefficients(fr, [(0, 0, 0, 3), (1, 0, 1, 2), (0, 1, 2, 3)])
    matrix = HostMatrix.from_coefficients(device, fr, entries, 2, 3)
    entries["signal"] = 1 << 20
    entries["value"] = 0
    assert to_integers(fr, multiplied(matrix, [5, 6, 7])) == [15, 21, 12, 0]


def test_entries_at_an_unaligned_file_offset(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    entries = [(0, 0, 0, 3), (1, 0, 1, fr.value - 2), (0, 1, 2, 3)]
    aligned = coefficients(fr, entries)
    moved = np.frombuffer(b"\0" + aligned.tobytes(), dtype=aligned.dtype, offset=1)
    matrix = HostMatrix.from_coefficients(device, fr, moved, 2, 3)
    products = multiplied(matrix, [5, 6, 7])
    assert to_integers(fr, products) == [15, 21, fr.value - 12, 0]


def test_multiply_pointwises(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    left = [0, 1, fr.value - 1, fr.value - 1, 5, 7, 9, 11, 13]
    right = [3, fr.value - 1, fr.value - 1, 2, 5, 7, 9, 11, 13]
    products = np.zeros((len(left), fr.words), dtype=np.uint32)
    multiply_pointwise(device, fr, from_integers(fr, left), from_integers(fr, right), products)
    assert to_integers(fr, products) == [x * y % fr.value for x, y in zip(left, right)]
