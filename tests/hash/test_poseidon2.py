"""Poseidon2 of integers and of arrays against the published permutations."""

from __future__ import annotations

import numpy as np
import pytest

from quod.hash.poseidon2 import PARAMETERS, permuted
from tests.layered.gadgets.test_poseidon import VECTORS


@pytest.mark.parametrize("name", VECTORS)
def test_the_published_permutation(name: str) -> None:
    state, result = VECTORS[name]
    assert permuted(PARAMETERS[name], state) == result


@pytest.mark.parametrize("name", PARAMETERS)
def test_arrays_of_the_largest_elements(name: str) -> None:
    """No sum of products passes the end of int64; a longer field takes arrays of int."""
    parameters = PARAMETERS[name]
    p, width = parameters.field.value, parameters.width
    kind = np.int64 if parameters.field.bits < 32 else object
    columns = permuted(parameters, [np.full(3, p - 1, kind) for _ in range(width)])
    assert [int(column[2]) for column in columns] == permuted(parameters, [p - 1] * width)
