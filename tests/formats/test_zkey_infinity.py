"""The search for points at infinity that no correct key has, in keys with many of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.field.moduli import BN254_FR
from quod.formats import coefficient_dtype
from quod.formats.zkey import infinity as zkey_infinity
from quod.formats.zkey.infinity import wrong_infinity

WIRES = 3000


def words(value: int) -> list[int]:
    return [value >> 32 * word & 0xFFFFFFFF for word in range(8)]


def of_matrix_a(signals: NDArray[np.int64], value: int) -> NDArray[np.void]:
    """One entry of the matrix A for each of the wires, in the constraint of its number."""
    entries = np.zeros(len(signals), coefficient_dtype(8))
    entries["constraint"] = entries["signal"] = signals
    entries["value"] = words(value)
    return entries


def search(entries: NDArray[np.void]) -> tuple[str, int] | None:
    points = {"a": np.zeros((WIRES, 2, 8), np.uint32)}
    return wrong_infinity(points, entries, variables=WIRES, public=0, fr=BN254_FR)


def test_damage_is_found_with_the_sums_of_few_wires(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large key of zeros would take minutes and memory for the sums of all its wires."""
    summed = []
    function = zkey_infinity._without_cancelled

    def counting(
        coefficients: NDArray[np.void], wires: NDArray[np.bool_], *others: object
    ) -> object:
        summed.append(np.count_nonzero(wires))
        return function(coefficients, wires, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(zkey_infinity, "_without_cancelled", counting)
    assert search(of_matrix_a(np.arange(WIRES), 5)) == ("a", 0)
    assert len(summed) == 1
    assert summed[0] <= 1 << 10


@pytest.mark.parametrize("wrong", [0, 1023, 1024, WIRES - 1, None])
def test_wires_after_many_zero_sums_are_searched(wrong: int | None) -> None:
    wires = np.arange(WIRES)
    opposite = of_matrix_a(wires[wires != wrong], BN254_FR.value - 5)
    entries = np.concatenate([of_matrix_a(wires, 5), opposite])
    assert search(entries) == (None if wrong is None else ("a", wrong))
