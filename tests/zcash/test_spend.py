"""The circuit of Sapling's Spend: bellman's hash, the statement, and violations of it."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.curve import EDWARDS, decode_edwards, edwards_group, encode_edwards
from quod.errors import InputError, MismatchError
from quod.field.array import words_to_integers
from quod.r1cs.inputs import Inputs
from quod.testing import assert_fails
from quod.zcash.spend import spend_circuit, spend_inputs, spend_statement

JUBJUB = EDWARDS["jubjub"]
ORDER, P = JUBJUB.fr.value, JUBJUB.fq.value
GROUP = edwards_group(JUBJUB)
BELLMAN_HASH = "d37c738e83df5d9b0bb6495ac96abf21bcb2697477e2c15c2c7916ff7a3b6a89"
"""Circuit hash of `test_input_circuit_with_bls12_381` in sapling-crypto."""


class RandomSpend:
    """A random note of 1,000 in a tree, with the arguments of `spend_inputs`."""

    def __init__(self, seed: int, protocol: zcash.Protocol, asset: bytes | None = None) -> None:
        draw = random.Random(seed)
        spending_key = zcash.ExpandedSpendingKey.from_spending_key(draw.randbytes(32), protocol)
        self.key = spending_key.proof_generation_key
        diversifier = draw.randbytes(11)
        while zcash.diversify_hash(diversifier, protocol) is None:
            diversifier = draw.randbytes(11)
        address = spending_key.full_viewing_key.address(diversifier)
        self.note = zcash.Note(address, 1000, draw.randrange(ORDER), asset)
        siblings = [draw.randrange(P) for _ in range(32)]
        self.path = zcash.MerklePath(siblings, draw.randrange(1 << 32))
        self.alpha, self.rcv = draw.randrange(ORDER), draw.randrange(ORDER)
        self.anchor = self.path.root(self.note.cmu, protocol)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.key, self.note, self.path, self.alpha, self.rcv, self.anchor


@cache
def random_spend() -> RandomSpend:
    return RandomSpend(1, zcash.SAPLING)


def changed(inputs: Inputs, name: str, number: int) -> Inputs:
    return {**inputs, name: number}


def test_circuit_matches_bellman() -> None:
    circuit = spend_circuit()
    assert circuit.circuit_hash() == BELLMAN_HASH
    assert (circuit.constraints, circuit.wires, circuit.public) == (98777, 98638 + 8, 7)
    assert [matrix.nonzeros for matrix in circuit.matrices] == [258351, 99918, 205741]


def test_public_values_are_the_statement() -> None:
    circuit, spend = spend_circuit(), random_spend()
    inputs = spend_inputs(*spend.arguments)
    (witness,) = circuit.witnesses([inputs])
    statement = spend_statement(*spend.arguments)
    assert words_to_integers(circuit.field, witness.values)[1:8] == statement.public
    assert zcash.SpendStatement.from_bytes(*statement.to_bytes()) == statement
    key = spend.key
    expected = GROUP.add(
        key.ak, GROUP.multiply(spend.alpha, zcash.generators.spend_authorizing_generator())
    )
    assert statement.rk == expected
    assert statement.nullifier == spend.note.nullifier(key.nk, spend.path.position)


@pytest.mark.parametrize(
    "name", ["nsk", "value", "rcm", "path[0]/bit", "path[31]/bit", "path[7]/sibling", "rt"]
)
def test_other_notes_are_refused(name: str) -> None:
    """Each of these changes gives the leaf, the path or the anchor another value."""
    inputs = spend_inputs(*random_spend().arguments)
    number = inputs[name]
    assert isinstance(number, int)
    assert_fails(spend_circuit(), changed(inputs, name, number ^ 1), "conditional anchor")


def test_notes_of_value_zero_prove_for_any_anchor() -> None:
    """The circuit accepts any anchor; consensus wants one that the chain has had."""
    circuit, spend = spend_circuit(), random_spend()
    note = zcash.Note(spend.note.address, 0, spend.note.rcm)
    for anchor in (spend.anchor, 5, P - 1):
        arguments = (spend.key, note, spend.path, spend.alpha, spend.rcv, anchor)
        (witness,) = circuit.witnesses([spend_inputs(*arguments)])
        public = words_to_integers(circuit.field, witness.values)[1:8]
        assert public == spend_statement(*arguments).public
        assert public[4] == anchor


def test_points_of_small_order_are_refused() -> None:
    circuit, inputs = spend_circuit(), spend_inputs(*random_spend().arguments)
    u, v = random_spend().key.ak
    assert_fails(circuit, {**inputs, "ak": (u + 1, v)}, "ak")
    for name in ("ak", "g_d"):
        assert_fails(circuit, {**inputs, name: (0, P - 1)}, f"{name} not small order")


def test_arguments_are_validated() -> None:
    key, note, path, alpha, rcv, anchor = random_spend().arguments
    other = zcash.ProofGenerationKey(key.ak, key.nsk ^ 1)
    for function in (spend_inputs, spend_statement):
        with pytest.raises(MismatchError, match="not one of the proof generation key"):
            function(other, note, path, alpha, rcv, anchor)
        for wrong in (-1, ORDER, None):
            with pytest.raises(InputError, match="alpha must be a scalar"):
                function(key, note, path, wrong, rcv, anchor)  # type: ignore[arg-type]
            with pytest.raises(InputError, match="rcv must be a scalar"):
                function(key, note, path, alpha, wrong, anchor)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="the anchor is not below the modulus"):
            function(key, note, path, alpha, rcv, P)
    with pytest.raises(InputError, match="32 siblings, not 31"):
        zcash.MerklePath(path.siblings[1:], 0)
    with pytest.raises(InputError, match="a sibling"):
        zcash.MerklePath([P, *path.siblings[1:]], 0)
    for position in (-1, 1 << 32):
        with pytest.raises(InputError, match="the position must be"):
            zcash.MerklePath(path.siblings, position)
    with pytest.raises(InputError, match="the leaf"):
        path.root(P)
    with pytest.raises(InputError, match="nsk must be a scalar"):
        zcash.ProofGenerationKey(key.ak, ORDER)
    with pytest.raises(InputError, match="ak is the neutral element"):
        zcash.ProofGenerationKey((0, 1), key.nsk)
    with pytest.raises(InputError, match="ak is not in the subgroup"):
        zcash.ProofGenerationKey(GROUP.add(key.ak, (0, P - 1)), key.nsk)
    assert "(...)" in repr(key)
    assert "(...)" in repr(path)


def test_statements_that_consensus_refuses() -> None:
    good = spend_statement(*random_spend().arguments).to_bytes()
    small = encode_edwards(JUBJUB, (0, P - 1))
    wrong = [
        (0, small, "cv is a point of small order"),
        (3, small, "rk is a point of small order"),
        (0, (P + 1).to_bytes(32, "little"), "cv: .*y is not below the modulus"),
        (3, (1 | 1 << 255).to_bytes(32, "little"), "rk: .*x is 0, which has no sign"),
        (1, P.to_bytes(32, "little"), "the anchor is not below the modulus"),
        (2, good[2][1:], "the nullifier must be 32 bytes"),
    ]
    for index, data, message in wrong:
        parts = list(good)
        parts[index] = data
        with pytest.raises(InputError, match=message):
            zcash.SpendStatement.from_bytes(*parts)
    # The nullifier is a hash: each value of 32 bytes is one.
    assert zcash.SpendStatement.from_bytes(*good[:2], b"\xff" * 32, good[3]).public[6] == 3


@pytest.mark.fixtures
def test_vectors_with_published_nullifiers(shared_fixtures: Path) -> None:
    text = (shared_fixtures / "zcash" / "sapling_spend_vectors.json").read_text()
    batch, statements = [], []
    for vector in json.loads(text)["vectors"]:
        expected = vector["expected"]
        ak = decode_edwards(JUBJUB, bytes.fromhex(vector["ak"]))
        key = zcash.ProofGenerationKey(ak, number(vector["nsk"]))
        address = bytes.fromhex(vector["diversifier"] + vector["pk_d"])
        note = zcash.Note(
            zcash.PaymentAddress.from_bytes(address), vector["value"], number(vector["rcm"])
        )
        path = zcash.MerklePath(
            [number(sibling) for sibling in vector["siblings_leaf_first"]], vector["position"]
        )
        assert note.cmu == number(expected["cmu"])
        anchor = path.root(note.cmu)
        arguments = (key, note, path, number(vector["ar"]), number(vector["rcv"]), anchor)
        statement = spend_statement(*arguments)
        texts = [part.hex() for part in statement.to_bytes()]
        assert texts == [expected[name] for name in ("cv", "anchor", "nullifier", "rk")]
        assert [str(value) for value in statement.public] == expected["public_inputs"]
        batch.append(spend_inputs(*arguments))
        statements.append(statement)
    assert len(batch) == 10
    circuit = spend_circuit()
    for witness, statement in zip(circuit.witnesses(batch), statements, strict=True):
        assert words_to_integers(circuit.field, witness.values)[1:8] == statement.public


@pytest.mark.fixtures
def test_statements_of_the_chain(shared_fixtures: Path) -> None:
    for name, count in (("mainnet", 20), ("testnet", 5)):
        spends = json.loads((shared_fixtures / f"zcash/{name}_sapling_spends.json").read_text())
        rows = spends if isinstance(spends, list) else spends["spends"]
        assert len(rows) == count
        for row in rows:
            parts = [bytes.fromhex(row[field]) for field in ("cv", "anchor", "nullifier", "rk")]
            statement = zcash.SpendStatement.from_bytes(*parts)
            assert [str(value) for value in statement.public] == [*map(str, row["public_inputs"])]
            assert list(statement.to_bytes()) == parts


@pytest.mark.fixtures
def test_roots_of_the_chain(shared_fixtures: Path) -> None:
    """Roots of empty trees, and those of blocks from the first leaves of mainnet."""
    folder = shared_fixtures / "zcash"
    empty = [number(text) for text in json.loads((folder / "sapling_empty_roots.json").read_text())]
    assert zcash.MerklePath(empty[:32], 12345).root(empty[0]) == empty[32]
    tree = json.loads((folder / "mainnet_sapling_tree_419202.json").read_text())
    leaves = [number(text) for text in tree["leaves"]]
    # After five leaves the path of the fifth has the node of the first four; seven are all.
    first_four = subtree(leaves[:4], 2)
    path = zcash.MerklePath([*empty[:2], first_four, *empty[3:32]], 4)
    assert path.root(leaves[4]) == number(tree["roots"]["419201"])
    siblings = [empty[0], subtree(leaves[4:6], 1), first_four, *empty[3:32]]
    assert zcash.MerklePath(siblings, 6).root(leaves[6]) == number(tree["roots"]["419202"])


def subtree(leaves: list[int], height: int) -> int:
    from quod.r1cs import reference

    for level in range(height):
        leaves = [
            reference.sapling_node(level, *leaves[index : index + 2])
            for index in range(0, len(leaves), 2)
        ]
    (root,) = leaves
    return root


def number(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")
