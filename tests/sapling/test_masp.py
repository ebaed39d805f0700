"""The circuit of MASP's Output: bellman's hash, the values of an asset's note, what fails."""

from __future__ import annotations

import pytest

from quod import sapling
from quod.curve import EDWARDS, edwards_group
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.r1cs.native import find_group_hash
from quod.sapling.masp import (
    asset_generator,
    asset_identifier,
    masp_output_circuit,
    masp_output_inputs,
)
from quod.testing import assert_fails
from tests.sapling.test_output import ADDRESS

MASP_HASH = "93e445d7858e98c7138558df341f020aedfe75893535025587d64731e244276a"
"""Of masp_proofs' `test_output_circuit_with_bls12_381`."""
GROUP = edwards_group(EDWARDS["jubjub"])


@pytest.fixture(scope="module")
def note() -> sapling.Note:
    address = sapling.PaymentAddress.from_bytes(bytes.fromhex(ADDRESS))
    return sapling.Note.from_seed(address, 77, bytes(32))


def test_it_is_bellmans_circuit() -> None:
    circuit = masp_output_circuit()
    assert circuit.circuit_hash() == MASP_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (31205, 30896 + 6, 5)
    assert [matrix.nonzeros for matrix in circuit.matrices] == [73431, 31750, 57329]


def test_its_values_are_those_of_an_asset(note: sapling.Note) -> None:
    circuit, identifier = masp_output_circuit(), asset_identifier(b"default")
    circuit.prepare()
    (witness,) = circuit.witnesses([masp_output_inputs(note, identifier, 9, 5)])
    public = words_to_integers(circuit.field, witness.values[1:6])
    shown = GROUP.multiply(8 * note.value, asset_generator(identifier))
    hidden = GROUP.multiply(5, find_group_hash(b"MASP__r_", b"r"))
    assert public[:4] == [*GROUP.add(shown, hidden), *note.ephemeral_key(9)]
    inputs = masp_output_inputs(note, identifier, 9, 5)
    u, v = asset_generator(identifier)
    negated = {"asset_generator": (-u, v)}
    assert_fails(circuit, {**inputs, **negated}, "asset_generator is hashed")
    assert_fails(circuit, {**inputs, "asset_identifier": 5}, "asset_generator is hashed")
    with pytest.raises(InputError, match="32 bytes"):
        asset_generator(b"no such")
    for wrong in (b"short", "text", None, 5):
        with pytest.raises(InputError, match="an asset's identifier must be"):
            masp_output_inputs(note, wrong, 9, 5)  # type: ignore[arg-type]
