"""Verification of descriptions: those of the chain, in batches, and all that consensus refuses."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from quod.curve.edwards.affine import edwards_group
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError, MismatchError
from quod.zcash.output_statement import OutputStatement
from quod.zcash.proofs.description import Description, decode_descriptions
from quod.zcash.proofs.kinds import Statement
from quod.zcash.proofs.sapling_keys import sapling_verifying_keys
from quod.zcash.proofs.verification import VerifyingKeys, verify_description, verify_descriptions
from quod.zcash.scalars import encoded
from quod.zcash.spend_statement import ConvertStatement, SpendStatement

P = JUBJUB.fq.value
Parts = tuple[type[Statement], tuple[bytes, ...]]


@cache
def keys() -> VerifyingKeys:
    return sapling_verifying_keys()


def parts_of(row: dict[str, Any]) -> Parts:
    """Return the parts of a row of the fixtures."""
    statement = SpendStatement if "nullifier" in row else OutputStatement
    names = {"epk": "ephemeralKey", "proof": "zkproof"}
    fields = [*statement.fields, "proof"]
    return statement, tuple(
        bytes.fromhex(row[name] if name in row else row[names[name]]) for name in fields
    )


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return all Spends and Outputs of the fixtures."""
    rows: list[dict[str, Any]] = []
    for name in ("mainnet_sapling_spends", "testnet_sapling_spends", "mainnet_sapling_outputs"):
        rows += json.loads((folder / "zcash" / f"{name}.json").read_text())
    for bundle in json.loads((folder / "zcash" / "sapling_bundles.json").read_text()):
        rows += [*bundle["spends"], *bundle["outputs"]]
    return rows


@pytest.mark.fixtures
def test_the_chain_s_descriptions(shared_fixtures: Path) -> None:
    """One batch over two statements and their keys; then some of them alone."""
    entries = [parts_of(row) for row in rows_of(shared_fixtures)]
    spends = sum(statement is SpendStatement for statement, _ in entries)
    assert spends >= 25
    assert len(entries) - spends >= 24
    descriptions = decode_descriptions(entries)
    assert all(verify_descriptions(keys(), descriptions))
    for description, (_, parts) in zip(descriptions, entries, strict=True):
        assert isinstance(description, Description)
        assert description.to_bytes() == parts
    for statement, parts in (entries[0], entries[30]):
        description = Description.from_bytes(statement, parts)
        assert verify_description(keys(), description)


@pytest.mark.fixtures
def test_changed_descriptions_of_the_chain(shared_fixtures: Path) -> None:
    rows = rows_of(shared_fixtures)
    spend, other = (parts_of(row)[1] for row in rows[:2])
    output = next(parts_of(row) for row in rows if "nullifier" not in row)
    cv, anchor, nullifier, rk, proof = spend
    next_anchor = (int.from_bytes(anchor, "little") + 1).to_bytes(32, "little")
    wrong: list[Parts] = [
        (SpendStatement, (rk, anchor, nullifier, cv, proof)),
        (SpendStatement, (cv, next_anchor, nullifier, rk, proof)),
        (SpendStatement, (cv, anchor, bytes([nullifier[0] ^ 1]) + nullifier[1:], rk, proof)),
        (SpendStatement, (cv, anchor, nullifier[:31] + bytes([nullifier[31] ^ 128]), rk, proof)),
        (SpendStatement, (cv, anchor, nullifier, rk, other[-1])),
        (OutputStatement, (*output[1][:3], proof)),
    ]
    descriptions = decode_descriptions([(SpendStatement, spend), *wrong, output])
    verdicts = verify_descriptions(keys(), descriptions)
    assert [bool(verdict) for verdict in verdicts] == [True, *[False] * len(wrong), True]
    assert all(verdict.error is None for verdict in verdicts)
    for description in descriptions[1:3]:
        assert isinstance(description, Description)
        assert not verify_description(keys(), description)


def small_points() -> list[bytes]:
    """Return the encodings of the eight points whose order divides 8."""
    group, generator = edwards_group(JUBJUB), None
    for y in range(2, 99):
        entry = decode_descriptions([_convert(y.to_bytes(32, "little"))])[0]
        if isinstance(entry, Description):
            point = group.multiply(JUBJUB.fr.value, entry.statement.cv)
            if group.multiply(4, point) != (0, 1):
                generator = point
                break
    assert generator is not None
    return [encoded(group.multiply(index, generator)) for index in range(8)]


def _convert(cv: bytes) -> Parts:
    return ConvertStatement, (cv, bytes(32), _some_proof())


@cache
def _some_proof() -> bytes:
    """Return 192 bytes that decode as a proof: generators."""
    from quod.curve.named.bls12_381 import BLS12_381
    from quod.groth16.encodings.bellman import proof_to_bytes
    from quod.groth16.proof import Proof

    g1, g2 = BLS12_381.g1.generator, BLS12_381.g2.generator
    return proof_to_bytes(Proof("bls12_381", g1, g2, g1))


def test_encodings_that_consensus_refuses() -> None:
    """Batch and single decoding give the same errors, with the name of the field."""
    good, proof = encoded(JUBJUB.generator), _some_proof()
    wrong: list[tuple[bytes, str]] = [
        *((data, "is a point of small order") for data in small_points()),
        ((P + 1).to_bytes(32, "little"), "y is not below the modulus"),
        (b"\xff" * 32, "y is not below the modulus"),
        ((1 | 1 << 255).to_bytes(32, "little"), "x is 0, which has no sign"),
        ((P - 1 | 1 << 255).to_bytes(32, "little"), "x is 0, which has no sign"),
        ((6).to_bytes(32, "little"), "no point of the curve has this y"),
        (good[1:], "must be 32 bytes, not 31"),
    ]
    parts: dict[type[Statement], tuple[bytes, ...]] = {
        SpendStatement: (good, bytes(32), b"\xff" * 32, good, proof),
        OutputStatement: (good, good, bytes(32), proof),
        ConvertStatement: (good, bytes(32), proof),
    }
    entries: list[Parts] = []
    messages: list[str] = []
    for statement, valid in parts.items():
        assert isinstance(decode_descriptions([(statement, valid)])[0], Description)
        for index, name in enumerate(statement.fields):
            changes = wrong if name in ("cv", "rk", "epk") else []
            if name in ("anchor", "cmu"):
                changes = [(P.to_bytes(32, "little"), "is not below the modulus")]
            for data, message in changes:
                entries.append((statement, (*valid[:index], data, *valid[index + 1 :])))
                messages.append(f"{name}.*{message}")
        for data, message in (
            (proof[:-1], "192 bytes"),
            (b"\xff" * 192, "proof"),
            (b"\xc0" + bytes(47) + proof[48:], "infinity"),
        ):
            entries.append((statement, (*valid[:-1], data)))
            messages.append(f"proof.*{message}")
    decoded = decode_descriptions(entries)
    for entry, result, message in zip(entries, decoded, messages, strict=True):
        assert isinstance(result, InputError), message
        with pytest.raises(InputError, match=message) as caught:
            Description.from_bytes(*entry)
        assert str(caught.value) == str(result)
    with pytest.raises(InputError, match="has cv, anchor and a proof, not 1 parts"):
        Description.from_bytes(ConvertStatement, [good])


def test_missing_and_wrong_keys() -> None:
    description = decode_descriptions([_convert(encoded(JUBJUB.generator))])[0]
    assert isinstance(description, Description)
    for call in (
        lambda: verify_description(keys(), description),
        lambda: verify_descriptions(keys(), [description]),
    ):
        with pytest.raises(MismatchError, match="there is no key for a Convert"):
            call()
    with pytest.raises(MismatchError, match="has 5 public inputs, and the proof of a Spend 7"):
        VerifyingKeys(spend=keys().output)
    with pytest.raises(InputError, match="must be of the type Description"):
        verify_descriptions(keys(), ["description"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="the descriptions must be a list"):
        verify_descriptions(keys(), "text")  # type: ignore[arg-type]
    error = InputError("malformed")
    (verdict,) = verify_descriptions(keys(), [error])
    assert not verdict
    assert verdict.error is error
