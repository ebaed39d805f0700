"""The circuits of MASP's Spend and Convert: upstream's hashes, the statements, violations."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from quod import zcash
from quod.curve import EDWARDS, edwards_group, encode_edwards
from quod.errors import InputError, MismatchError
from quod.field.array import words_to_integers
from quod.r1cs import Circuit
from quod.r1cs.inputs import Inputs
from quod.testing import assert_fails
from quod.zcash.assets import asset_generator, asset_identifier
from quod.zcash.conversion import AllowedConversion, convert_inputs, convert_statement
from quod.zcash.generators import (
    note_randomness_generator,
    nullifier_generator,
    proof_generator,
    spend_authorizing_generator,
    value_randomness_generator,
)
from quod.zcash.masp import masp_convert_circuit, masp_spend_circuit
from quod.zcash.note import asset_value_commitment, value_commitment
from quod.zcash.spend import spend_inputs, spend_statement
from tests.zcash.test_spend import RandomSpend, changed, number

JUBJUB = EDWARDS["jubjub"]
P = JUBJUB.fq.value
GROUP = edwards_group(JUBJUB)
SPEND_HASH = "34e4a634c80e4e4c6250e63b7855532e60b36d1371d4d7b1163218b69f09eb3d"
CONVERT_HASH = "f74b47ef6e59081548f81f5806bd15b1f4a65d2e57681e6db2b8db7eef2ff814"
"""Circuit hashes of `masp_proofs`' tests with BLS12-381."""
ASSET = asset_identifier(b"default")


@cache
def random_spend() -> RandomSpend:
    return RandomSpend(2, zcash.MASP, ASSET)


@cache
def conversion() -> AllowedConversion:
    """Upstream's test: one unit of the first asset becomes the second, and a reward."""
    names = (b"asset 0", b"asset 1", b"reward")
    identifiers = [asset_identifier(name) for name in names]
    return AllowedConversion(dict(zip(identifiers, (-1, 1, 1), strict=True)))


def public_values(circuit: Circuit, inputs: Inputs) -> list[int]:
    (witness,) = circuit.witnesses([inputs])
    return words_to_integers(circuit.field, witness.values)[1 : 1 + circuit.public]


def test_the_spend_circuit_matches_upstream() -> None:
    circuit = masp_spend_circuit()
    assert circuit.circuit_hash() == SPEND_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (100637, 100497 + 8, 7)
    assert [matrix.nonzeros for matrix in circuit.matrices] == [262100, 101876, 208719]


def test_the_convert_circuit_matches_upstream() -> None:
    circuit = masp_convert_circuit()
    assert circuit.circuit_hash() == CONVERT_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (47358, 47322 + 4, 3)
    assert [matrix.nonzeros for matrix in circuit.matrices] == [126639, 47584, 109212]


def test_generators() -> None:
    heads = {
        spend_authorizing_generator: "5b389522", proof_generator: "4caaeaca",
        nullifier_generator: "50de6d98", value_randomness_generator: "1c6da0ce",
        note_randomness_generator: "434c9be1",
    }  # fmt: skip
    for function, head in heads.items():
        assert f"{function(zcash.MASP)[0]:064x}".startswith(head)
        assert function(zcash.MASP) != function(zcash.SAPLING)


def test_public_values_of_a_spend_are_the_statement() -> None:
    circuit, spend = masp_spend_circuit(), random_spend()
    inputs, statement = spend_inputs(*spend.arguments), spend_statement(*spend.arguments)
    assert public_values(circuit, inputs) == statement.public
    note = zcash.Note(spend.note.address, 0, spend.note.rcm, ASSET)
    arguments = (spend.key, note, spend.path, spend.alpha, spend.rcv, 5)
    assert public_values(circuit, spend_inputs(*arguments)) == spend_statement(*arguments).public


@pytest.mark.parametrize("name", ["nsk", "value", "path[3]/bit", "path[3]/sibling", "rt"])
def test_other_notes_are_refused(name: str) -> None:
    inputs = spend_inputs(*random_spend().arguments)
    value = inputs[name]
    assert isinstance(value, int)
    assert_fails(masp_spend_circuit(), changed(inputs, name, value ^ 1), "conditional anchor")


def test_other_assets_are_refused() -> None:
    circuit, inputs = masp_spend_circuit(), spend_inputs(*random_spend().arguments)
    u, v = asset_generator(ASSET)
    for generator in ((P - u, v), asset_generator(asset_identifier(b"other"))):
        changes = {**inputs, "asset_generator": generator}
        assert_fails(circuit, changes, "conditional anchor")
    small = {**inputs, "asset_generator": (0, P - 1)}
    assert_fails(circuit, small, "value commitment/asset_generator not small order")


def test_keys_of_one_protocol_spend_no_notes_of_the_other() -> None:
    spend = random_spend()
    key, note, *others = spend.arguments
    with pytest.raises(MismatchError, match="not one of the proof generation key"):
        spend_inputs(zcash.ProofGenerationKey(key.ak, key.nsk), note, *others)
    assert note.protocol is zcash.MASP
    assert zcash.PaymentAddress.from_bytes(note.address.to_bytes(), zcash.MASP) == note.address


def test_public_values_of_a_conversion_are_the_statement() -> None:
    circuit, allowed = masp_convert_circuit(), conversion()
    path = zcash.MerklePath(range(32), 1 << 31 | 5)
    anchor = path.root(allowed.leaf, zcash.MASP)
    inputs = convert_inputs(allowed, 12345, path, 1000, anchor)
    statement = convert_statement(allowed, 12345, 1000, anchor)
    assert public_values(circuit, inputs) == statement.public
    assert zcash.ConvertStatement.from_bytes(*statement.to_bytes()) == statement
    for name in ("path[0]/bit", "path[31]/sibling", "rt"):
        value = inputs[name]
        assert isinstance(value, int)
        wrong = changed(inputs, name, value ^ 1)
        assert_fails(circuit, wrong, "conditional anchor")
        # A conversion of nothing needs no conversion of the tree.
        assert public_values(circuit, {**wrong, "value": 0})[2] == wrong["rt"]
    u, v = allowed.generator
    assert_fails(circuit, {**inputs, "asset_generator": (P - u, v)}, "conditional anchor")


def test_a_conversion_balances_its_assets() -> None:
    """A Spend of the first asset and a Convert balance Outputs of the second and the reward."""
    first, second, reward = (asset_generator(asset) for asset in conversion().weights)
    converted = GROUP.add(
        asset_value_commitment(first, 7, 1), asset_value_commitment(conversion().generator, 7, 2)
    )
    created = GROUP.add(asset_value_commitment(second, 7, 1), asset_value_commitment(reward, 7, 2))
    assert converted == created


def test_conversions_are_validated() -> None:
    allowed, path = conversion(), zcash.MerklePath([0] * 32, 0)
    for weights, message in (
        ({}, "small order"),
        ({ASSET: 0}, "small order"),
        ({ASSET: 1 << 64}, "the weight of an asset"),
        ({ASSET: 0.5}, "the weight of an asset"),
        ({b"short": 1}, "an asset's identifier must be"),
        ([ASSET], "must be a mapping"),
    ):
        with pytest.raises(InputError, match=message):
            AllowedConversion(weights)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="value of a note"):
        convert_inputs(allowed, 1 << 64, path, 1, 1)
    with pytest.raises(InputError, match="rcv must be a scalar"):
        convert_inputs(allowed, 1, path, -1, 1)
    with pytest.raises(InputError, match="the anchor is not below the modulus"):
        convert_inputs(allowed, 1, path, 1, P)
    with pytest.raises(InputError, match="the anchor is not below the modulus"):
        convert_statement(allowed, 1, 1, P)
    small = encode_edwards(JUBJUB, (0, P - 1))
    with pytest.raises(InputError, match="cv is a point of small order"):
        zcash.ConvertStatement.from_bytes(small, bytes(32))


@pytest.mark.fixtures
def test_vectors_of_conversions(shared_fixtures: Path) -> None:
    text = (shared_fixtures / "zcash" / "masp_convert_vectors.json").read_text()
    circuit = masp_convert_circuit()
    vectors = json.loads(text)["vectors"]
    assert len(vectors) == 3
    for vector in vectors:
        weights = {bytes.fromhex(asset): weight for asset, weight in vector["assets"]}
        names = [name.encode() for name in vector["names"]]
        assert list(weights) == [asset_identifier(name) for name in names]
        allowed = AllowedConversion(weights)
        assert encode_edwards(JUBJUB, allowed.generator).hex() == vector["generator"]
        expected = vector["expected"]
        assert allowed.leaf == number(expected["cmu"])
        siblings = [number(sibling) for sibling in vector["siblings_leaf_first"]]
        path = zcash.MerklePath(siblings, vector["position"])
        anchor, rcv = path.root(allowed.leaf, zcash.MASP), number(vector["rcv"])
        statement = convert_statement(allowed, vector["value"], rcv, anchor)
        texts = [part.hex() for part in statement.to_bytes()]
        assert texts == [expected["cv"], expected["anchor"]]
        assert [str(value) for value in statement.public] == expected["public_inputs"]
        inputs = convert_inputs(allowed, vector["value"], path, rcv, anchor)
        assert public_values(circuit, inputs) == statement.public


@pytest.mark.fixtures
def test_upstream_value_commitments_and_empty_roots(shared_fixtures: Path) -> None:
    folder = shared_fixtures / "zcash"
    expected = json.loads((folder / "upstream_value_commitments.json").read_text())
    generator = asset_generator(bytes.fromhex(expected["masp_asset_identifier"]))
    for index in range(10):
        rcv = 1000 * (index + 1)
        sapling = [str(part) for part in value_commitment(index, rcv)]
        masp = [str(part) for part in asset_value_commitment(generator, index, rcv)]
        assert (sapling, masp) == (expected["sapling"][index], expected["masp"][index])
    roots = json.loads((folder / "masp_empty_roots.json").read_text())["empty_roots"]
    empty = [number(text) for text in roots]
    assert zcash.MerklePath(empty[:32], 0).root(empty[0], zcash.MASP) == empty[32]
