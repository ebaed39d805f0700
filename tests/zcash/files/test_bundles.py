"""JSON files of transactions, with an error for each wrong field, and signed bundles of a chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.errors import InputError, MismatchError
from quod.zcash.assets import asset_identifier
from quod.zcash.conversion import AllowedConversion
from quod.zcash.files.descriptions import read_descriptions
from quod.zcash.files.transaction import TransactionFile, read_transaction
from quod.zcash.proofs import sapling_verifying_keys, verify_descriptions
from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, SpendInfo
from quod.zcash.scalars import encode_scalar
from tests.zcash.files.test_infos import ORDER, convert_json, little, output_json, spend_json

SIGHASH = "5a" * 32
FIRST, SECOND = asset_identifier(b"first"), asset_identifier(b"second")
_DIVERSIFIER = bytes.fromhex("f19d9b797e39f337445839")  # has a point in both protocols

# alpha for which rk is the neutral element.
OPPOSITE = little(ORDER - zcash.ExpandedSpendingKey.from_spending_key(bytes(32), zcash.SAPLING).ask)

Change = Callable[[dict[str, Any]], None]


def transaction(protocol: zcash.Protocol = zcash.SAPLING) -> dict[str, Any]:
    """Return a complete document: two Spends and two Outputs, in MASP with a Convert."""
    key = zcash.ExpandedSpendingKey.from_spending_key(bytes(32), protocol)
    address = key.full_viewing_key.address(_DIVERSIFIER)
    asset, other = (FIRST, SECOND) if protocol.has_assets else (None, None)
    notes = [zcash.Note.from_seed(address, value, bytes([value] * 32), asset) for value in (70, 50)]
    tree = zcash.CommitmentTree(protocol=protocol)
    positions = [tree.append(note.cmu, mark=True) for note in notes]
    spends = [
        spend_json(SpendInfo.draw(key.proof_generation_key, note, tree.path(position)))
        for note, position in zip(notes, positions, strict=True)
    ]
    outputs = [
        output_json(OutputInfo.draw(zcash.Note.from_seed(address, value, bytes(32), each), 7))
        for value, each in ((100, asset), (8, other))
    ]
    document: dict[str, Any] = {
        "spends": [spend | {"ask": encode_scalar(key.ask).hex()} for spend in spends],
        "outputs": outputs, "valueBalance": 12, "sighash": SIGHASH,
    }  # fmt: skip
    if protocol.has_assets:
        conversion = AllowedConversion({FIRST: -1, SECOND: 2})
        path = zcash.MerklePath(range(32), 5)
        document["converts"] = [convert_json(ConvertInfo.draw(conversion, 4, path))]
        document["valueBalance"] = {FIRST.hex(): "16"}
    return document


SAPLING_DOCUMENT, MASP_DOCUMENT = transaction(), transaction(zcash.MASP)


def read(folder: Path, document: object) -> TransactionFile:
    path = folder / "bundle.json"
    path.write_text(json.dumps(document))
    return read_transaction(path)


def copied(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document))


@pytest.mark.parametrize("document", [SAPLING_DOCUMENT, MASP_DOCUMENT], ids=["sapling", "masp"])
def test_transactions_with_all_fields(document: dict[str, Any], tmp_path: Path) -> None:
    file = read(tmp_path, document)
    protocol = zcash.MASP if "converts" in document else zcash.SAPLING
    assert file.content.protocol == protocol
    assert file.content.value_balance == ({FIRST: 16} if protocol.has_assets else 12)
    assert file.drawn == []
    signed = file.sign(file.content)
    assert signed is not None
    signed.verify_signatures(bytes.fromhex(SIGHASH))
    assert "(...)" in repr(file.keys)
    assert document["spends"][0]["ask"] not in repr(file)


def test_drawn_scalars_complete_a_transaction(tmp_path: Path) -> None:
    document = copied(SAPLING_DOCUMENT)
    del document["sighash"]
    for entry in [*document["spends"], *document["outputs"]]:
        for scalar in ("ask", "alpha", "esk", "rcv"):
            entry.pop(scalar, None)
    file = read(tmp_path, document)
    assert file.drawn == [
        "spends[0].alpha", "spends[0].rcv", "spends[1].alpha", "spends[1].rcv",
        "outputs[0].esk", "outputs[0].rcv", "outputs[1].esk", "outputs[1].rcv",
    ]  # fmt: skip
    assert file.sign(file.content) is None
    for name, scalars in json.loads(file.secrets_to_json()).items():
        for entry, fields in zip(document[name], scalars, strict=True):
            entry |= fields
    again = read(tmp_path, document)
    assert again.drawn == []
    assert again.content.spend_statements == file.content.spend_statements
    assert again.content.output_statements == file.content.output_statements


def _set(*path: str | int, value: object) -> Change:
    """Return a change that sets a field of a document, or removes it if `value` is None."""

    def change(document: Any) -> None:
        *parents, last = path
        for key in parents:
            document = document[key]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return change


WRONG: list[tuple[Change, str, str]] = [
    (_set("valueBalance", value=None), "valueBalance", "is missing"),
    (_set("valueBalance", value="1.5"), "valueBalance", "whole number, or text of its digits"),
    (_set("valueBalance", value="٣"), "valueBalance", "whole number, or text of its digits"),
    (_set("valueBalance", value="+12"), "valueBalance", "whole number, or text of its digits"),
    (_set("valueBalance", value=True), "valueBalance", "must be a whole number"),
    (_set("valueBalance", value=[12]), "valueBalance", "must be a whole number"),
    (_set("valueBalance", value=1 << 60), "valueBalance", "must be a whole number"),
    (_set("valueBalance", value={}), "spends[0]", "is of Sapling, but valueBalance of MASP"),
    (_set("valueBalance", value={"00": 1}), "valueBalance", "must be 32 bytes"),
    (_set("valueBalance", value={"02" * 32: 1}), "valueBalance", "no point"),
    (_set("valueBalance", value=13), "", "the values do not balance"),
    (_set("outputs", 0, "value", value=101), "", "the values do not balance"),
    (_set("version", value=3), "version", "the version must be"),
    (_set("version", value="v5"), "version", "text of its digits"),
    (_set("spends", value={}), "spends", "must be a list"),
    (_set("spend", value=[]), "", "unknown field; it may have valueBalance, spends"),
    (_set("spends", 1, value=5), "spends[1]", "must be an object"),
    (_set("spends", 1, "nsk", value=None), "spends[1].nsk", "is missing"),
    (_set("spends", 1, "note", "value", value=-1), "spends[1].note.value", "the value"),
    (_set("spends", 1, "note", "rcm", value=None), "spends[1].note", "either rseed or rcm"),
    (_set("outputs", 1, "address", value="00"), "outputs[1].address", "43 bytes"),
    (_set("outputs", 1, "rcm", value=None), "outputs[1]", "either rseed or rcm"),
    (_set("converts", value=MASP_DOCUMENT["converts"]), "converts[0]", "is of MASP, but"),
    (_set("outputs", 0, value=MASP_DOCUMENT["outputs"][0]), "outputs[0]", "is of MASP, but"),
    (_set("spends", 1, value=SAPLING_DOCUMENT["spends"][0]), "", r"spends\[1\]: nullifier is"),
    (_set("sighash", value="00" * 31), "sighash", "must be 32 bytes, not 31"),
    (_set("sighash", value=None), "spends[0].ask", "has no use without sighash"),
    (_set("spends", 1, "ask", value=None), "spends[1].ask", "with sighash each Spend needs it"),
    (_set("spends", 1, "ask", value=little(5)), "spends[1].ask", "is not the key of ak"),
    (_set("spends", 1, "ask", value=little(0)), "spends[1].ask", "ask|signing key must be"),
    (_set("spends", 1, "ask", value="ff" * 32), "spends[1].ask", "ask must be a scalar"),
    (_set("spends", 1, "alpha", value=None), "spends[1].alpha", "and sighash depends on it"),
    (_set("outputs", 0, "rcv", value=None), "outputs[0].rcv", "and sighash depends on it"),
    (_set("outputs", 1, "esk", value=little(0)), "outputs[1].esk", "from 1 to r - 1"),
    (_set("spends", 1, "alpha", value=OPPOSITE), "spends[1]", "rk is a point of small order"),
]


@pytest.mark.parametrize(("change", "section", "message"), WRONG)
def test_wrong_transactions(tmp_path: Path, change: Change, section: str, message: str) -> None:
    document = copied(SAPLING_DOCUMENT)
    change(document)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, document)
    assert caught.value.path == str(tmp_path / "bundle.json")
    assert (caught.value.section or "") == section
    for secret in ("nsk", "alpha", "rcv", "ask"):
        assert SAPLING_DOCUMENT["spends"][0][secret] not in str(caught.value)


def test_wrong_transactions_of_masp(tmp_path: Path) -> None:
    for balance in ({}, {FIRST.hex(): 15}, {FIRST.hex(): 16, SECOND.hex(): -1}):
        with pytest.raises(MismatchError, match="the values do not balance"):
            read(tmp_path, MASP_DOCUMENT | {"valueBalance": balance})
    for document, section, message in (
        (MASP_DOCUMENT | {"version": 5}, "version", "only transactions of Sapling"),
        (
            MASP_DOCUMENT | {"valueBalance": {FIRST.hex(): 16, FIRST.hex().upper(): 16}},
            "valueBalance", "has an asset twice",
        ),
        (MASP_DOCUMENT | {"valueBalance": {FIRST.hex(): 1 << 63}}, None, "do not balance"),
        (MASP_DOCUMENT | {"valueBalance": {FIRST.hex(): str(1 << 127)}}, "valueBalance", "balance"),
        ({"valueBalance": 0}, None, "has no spends, outputs or converts"),
        ([], None, "must be an object"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message) as caught:
            read(tmp_path, document)
        assert caught.value.section == section


def test_anchors_differ_only_in_version_4(tmp_path: Path) -> None:
    document = copied(SAPLING_DOCUMENT)
    note = zcash.Note.from_seed(_address(), 70, bytes([70] * 32))
    path = zcash.MerklePath(range(32), 9)
    document["spends"][0] |= {
        "position": 9, "path": [little(sibling) for sibling in path.siblings],
        "anchor": little(path.root(note.cmu)),
    }  # fmt: skip
    for version in ({}, {"version": 5}, {"version": 6}):
        with pytest.raises(MismatchError, match=r"spends\[1\]: anchor is not that of spends\[0\]"):
            read(tmp_path, document | version)
    assert not read(tmp_path, document | {"version": 4}).content.shared_anchors


def _address() -> zcash.PaymentAddress:
    key = zcash.ExpandedSpendingKey.from_spending_key(bytes(32))
    return key.full_viewing_key.address(_DIVERSIFIER)


def chain_document(row: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a transaction of the chain, in the names of Quod's files."""
    spends = [
        {field: spend[field] for field in ("cv", "anchor", "nullifier", "rk", "spendAuthSig")}
        | {"proof": spend["zkproof"]}
        for spend in row["spends"]
    ]
    outputs = [
        {"cv": output["cv"], "epk": output["ephemeralKey"], "cmu": output["cmu"],
         "proof": output["zkproof"]}
        for output in row["outputs"]
    ]  # fmt: skip
    return {
        "spends": spends, "outputs": outputs, "valueBalance": row["value_balance"],
        "version": row["tx_version"], "sighash": row["sighash"], "bindingSig": row["binding_sig"],
    }  # fmt: skip


@pytest.mark.fixtures
def test_bundles_of_the_chain(shared_fixtures: Path, tmp_path: Path) -> None:
    """34 transactions under the ceremony's keys; the proofs of all are one batch."""
    rows = json.loads((shared_fixtures / "zcash" / "sapling_bundles.json").read_text())
    documents = [chain_document(row) for row in rows if row["sighash"] is not None]
    assert len(documents) == 34
    path, descriptions = tmp_path / "bundle.json", []
    for document in documents:
        path.write_text(json.dumps(document))
        file = read_descriptions(path)
        entries = [each for each in file.descriptions.values() if not isinstance(each, InputError)]
        descriptions += entries
        assert file.signatures is not None
        bundle = file.signatures.bundle(entries)
        bundle.verify_signatures(file.signatures.sighash)
    assert all(verify_descriptions(sapling_verifying_keys(), descriptions))


SIGNED: dict[str, Any] = {
    "spends": [{"spendAuthSig": "00" * 64}], "valueBalance": 0, "sighash": SIGHASH,
    "bindingSig": "00" * 64,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "section", "message"),
    [
        (_set("bindingSig", value=None), "bindingSig", "is missing: sign the bundle, or remove"),
        (_set("bindingSig", value="00" * 63), "bindingSig", "must be 64 bytes, not 63"),
        (_set("bindingSig", value=5), "bindingSig", "must be text in hex"),
        (_set("valueBalance", value=None), "valueBalance", "is missing"),
        (_set("sighash", value=None), "sighash", "is missing"),
        (_set("sighash", value="zz" * 32), "sighash", "must be text in hex"),
        (_set("spends", 0, value={}), "spends[0].spendAuthSig", "is missing: each Spend"),
        (_set("spends", 0, value=7), "spends[0].spendAuthSig", "is missing: each Spend"),
        (_set("spends", 0, "spendAuthSig", value="00"), "spends[0].spendAuthSig", "64 bytes"),
        (_set("spends", value=7), "spends", "must be a list"),
        (_set("outputs", value=7), "outputs", "must be a list"),
        (_set("Outputs", value=[]), "", "unknown field; it may have valueBalance, sighash"),
        (_set("spends", value=None), "", "has no descriptions"),
    ],
)
def test_wrong_signed_bundles(tmp_path: Path, change: Change, section: str, message: str) -> None:
    document = copied(SIGNED)
    change(document)
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        read_descriptions(path)
    assert (caught.value.path, caught.value.section or "") == (str(path), section)
