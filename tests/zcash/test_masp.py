"""The circuit of MASP's Output: bellman's hash, the values of an asset's note, violations."""

from __future__ import annotations

import pytest

from quod import zcash as sapling
from quod.curve import EDWARDS, edwards_group
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.r1cs.reference import find_group_hash
from quod.testing import assert_fails
from quod.zcash.masp import (
    asset_generator,
    asset_identifier,
    masp_output_circuit,
    masp_output_inputs,
)
from quod.zcash.output import output_inputs
from quod.zcash.protocol import MASP
from tests.zcash.test_output import ADDRESS

MASP_HASH = "93e445d7858e98c7138558df341f020aedfe75893535025587d64731e244276a"
"""Circuit hash of masp_proofs' `test_output_circuit_with_bls12_381`."""
GROUP = edwards_group(EDWARDS["jubjub"])


DIVERSIFIER = bytes.fromhex("f19d9b797e39f337445839")
"""A diversifier with a point in Sapling and in MASP."""


@pytest.fixture(scope="module")
def note() -> sapling.Note:
    key = sapling.ExpandedSpendingKey.from_spending_key(bytes(32), MASP).full_viewing_key
    address = key.address(DIVERSIFIER)
    return sapling.Note.from_seed(address, 77, bytes(32), asset_identifier(b"default"))


@pytest.mark.thorough
def test_circuit_matches_bellman() -> None:
    circuit = masp_output_circuit()
    assert circuit.circuit_hash() == MASP_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (31205, 30896 + 6, 5)
    assert [matrix.nonzeros for matrix in circuit.matrices] == [73431, 31750, 57329]


def test_public_values_match_the_asset(note: sapling.Note) -> None:
    circuit = masp_output_circuit()
    circuit.prepare()
    inputs = masp_output_inputs(note, 9, 5)
    (witness,) = circuit.witnesses([inputs])
    values = words_to_integers(circuit.field, witness.values)
    # BLAKE2s is a repeated part, with a program of its own.
    assert len(circuit.program.schedule.stages) == 2
    assert values == circuit.values(inputs)
    public = values[1:6]
    shown = GROUP.multiply(8 * note.value, asset_generator(asset_identifier(b"default")))
    hidden = GROUP.multiply(5, find_group_hash(b"MASP__r_", b"r"))
    assert public == [*GROUP.add(shown, hidden), *note.ephemeral_key(9), note.cmu]
    u, v = inputs["asset_generator"]  # type: ignore[misc]
    negated = {"asset_generator": (-u, v)}
    assert_fails(circuit, {**inputs, **negated}, "asset_generator is hashed")
    assert_fails(circuit, {**inputs, "asset_identifier": 5}, "asset_generator is hashed")
    with pytest.raises(InputError, match="32 bytes"):
        asset_generator(b"no such")
    for wrong in (b"short", "text", 5):
        with pytest.raises(InputError, match="an asset's identifier must be"):
            sapling.Note(note.address, 1, 2, wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs the identifier of its asset"):
        sapling.Note(note.address, 1, 2)
    plain = sapling.Note(sapling.PaymentAddress.from_bytes(bytes.fromhex(ADDRESS)), 1, 2)
    with pytest.raises(InputError, match="a note of Sapling has no asset"):
        sapling.Note(plain.address, 1, 2, bytes(32))
    with pytest.raises(InputError, match="must be one of MASP"):
        masp_output_inputs(plain, 9, 5)
    with pytest.raises(InputError, match="use masp_output_inputs"):
        output_inputs(note, 9, 5)
