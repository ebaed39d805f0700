"""Neptune's Poseidon against its published vectors and against its uncompressed form."""

from __future__ import annotations

import random
import re

import pytest

from quod.errors import InputError
from quod.field.moduli import BLS12_381_FR
from quod.hash import neptune_hash
from quod.hash.neptune import ARBITRARY_TAG, PARTIAL_ROUNDS, neptune_parameters, round_keys
from tests.reference.neptune import neptune_hash as uncompressed_hash
from tests.support.thorough import one_and_others

P = BLS12_381_FR.value

VECTORS = {
    2: 0x396508D75E76A56B739E0FD902EFE161A6FBA9339D05A69D2E203C369A02E7FF,
    4: 0x58A54B10A9E5848A00DB3C6579229399FB6B4605BF1327EC019814FF6662075D,
    8: 0x2394611DA3A5DE5512010042116770774B682E9D9CC4AED92A9934F56D38A5E6,
    11: 0x0C0FC1B2E5227F286CA537E232EBE87A09F3DCD8CCB08FC1CEE3BBC32B693163,
}
"""Hashes of 0, 1, 2, ... (neptune, src/poseidon.rs, `hash_values`)."""


@pytest.mark.parametrize("arity", VECTORS)
def test_published_vectors(arity: int) -> None:
    assert neptune_hash(range(arity)) == VECTORS[arity]


@pytest.mark.parametrize("arity", one_and_others(PARTIAL_ROUNDS, always=(2, 4, 8, 11)))
def test_compressed_form_equals_uncompressed_form(arity: int) -> None:
    generator = random.Random(arity)
    for inputs in ([P - 1] * arity, [generator.randrange(P) for _ in range(arity)]):
        for tag in (0, ARBITRARY_TAG, P - 1):
            assert neptune_hash(inputs, tag=tag) == uncompressed_hash(inputs, tag)


@pytest.mark.parametrize("arity", VECTORS)
def test_number_of_constants(arity: int) -> None:
    """8 * width + partial rounds constants remain of (8 + partial rounds) * width."""
    parameters, width = neptune_parameters(arity), arity + 1
    vectors = [
        parameters.initial_constants,
        *parameters.first_constants,
        parameters.partial_constants,
        *parameters.last_constants,
    ]
    assert sum(map(len, vectors)) == 8 * width + PARTIAL_ROUNDS[arity]
    assert sum(map(len, round_keys(arity))) == (8 + PARTIAL_ROUNDS[arity]) * width
    assert all(matrix.row[0] != 0 for matrix in parameters.sparse_matrices)


@pytest.mark.parametrize(
    ("inputs", "tag", "message"),
    [
        ([1, 2, 3], None, "the arity of Poseidon must be 2, 4, 8, 11, 16, 24 or 36, not 3"),
        ([], None, "the arity of Poseidon must be"),
        ([0, P], None, "an input of Poseidon is not below the modulus"),
        ([0, -1], None, "an input of Poseidon must be a whole number from 0 on"),
        ([0, 1], P, "the tag is not below the modulus"),
        (5, None, "an input of Poseidon must be a list"),
    ],
)
def test_wrong_inputs_are_refused(inputs: object, tag: int | None, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        neptune_hash(inputs, tag=tag)  # type: ignore[arg-type]
