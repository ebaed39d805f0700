"""JSON files of private information and descriptions, with an error for each wrong field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.bench.proofs.zcash import info_of
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.zcash.assets import asset_identifier
from quod.zcash.files import infos as files
from quod.zcash.files.descriptions import read_descriptions
from quod.zcash.proofs.description import Description
from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, SpendInfo
from quod.zcash.scalars import encode_scalar, encoded

Read = Callable[[Path], files.InfoFile]
ORDER, P = JUBJUB.fr.value, JUBJUB.fq.value


def little(number: int) -> str:
    return number.to_bytes(32, "little").hex()


def note_json(note: zcash.Note) -> dict[str, Any]:
    fields = {
        "address": note.address.to_bytes().hex(), "value": note.value,
        "rcm": encode_scalar(note.rcm).hex(),
    }  # fmt: skip
    return fields if note.asset is None else fields | {"asset": note.asset.hex()}


def path_json(path: zcash.MerklePath) -> dict[str, Any]:
    return {"position": path.position, "path": [little(sibling) for sibling in path.siblings]}


def spend_json(info: SpendInfo) -> dict[str, Any]:
    return {
        "ak": encoded(info.key.ak).hex(), "nsk": little(info.key.nsk),
        "note": note_json(info.note), **path_json(info.path), "alpha": little(info.alpha),
        "rcv": little(info.rcv), "anchor": little(info.anchor),
    }  # fmt: skip


def output_json(info: OutputInfo) -> dict[str, Any]:
    return {**note_json(info.note), "esk": little(info.esk), "rcv": little(info.rcv)}


def convert_json(info: ConvertInfo) -> dict[str, Any]:
    weights = {asset.hex(): weight for asset, weight in info.conversion.weights.items()}
    return {
        "weights": weights, "value": info.value, **path_json(info.path), "rcv": little(info.rcv),
        "anchor": little(info.anchor),
    }  # fmt: skip


def json_of(name: str) -> tuple[dict[str, Any], Read]:
    info = info_of(name)
    if isinstance(info, SpendInfo):
        return spend_json(info), files.read_spend_info
    if isinstance(info, OutputInfo):
        return output_json(info), files.read_output_info
    assert isinstance(info, ConvertInfo)
    return convert_json(info), files.read_convert_info


@pytest.mark.parametrize(
    "name", ["sapling-spend", "masp-spend", "sapling-output", "masp-output", "masp-convert"]
)
def test_files_have_all_fields(name: str, tmp_path: Path) -> None:
    document, read = json_of(name)
    path = tmp_path / "info.json"
    path.write_text(json.dumps(document))
    assert read(path) == files.InfoFile(info_of(name), ())
    # Scalars that the file lacks are drawn, and the default of the anchor is the root.
    drawn = [field for field in ("alpha", "esk", "rcv") if field in document]
    path.write_text(
        json.dumps({key: document[key] for key in document if key not in (*drawn, "anchor")})
    )
    first, second = read(path), read(path)
    assert first.drawn == tuple(drawn)
    assert list(first.secrets) == drawn
    assert all(first.secrets[field] != second.secrets[field] for field in drawn)
    assert getattr(first.info, "anchor", None) == getattr(info_of(name), "anchor", None)
    text = json.loads(files.secrets_to_json(first.secrets))
    path.write_text(json.dumps(document | text))
    assert read(path).secrets == first.secrets
    assert "(...)" in repr(first.info)
    assert str(first.secrets["rcv"]) not in repr(first)


def test_numbers_as_text(tmp_path: Path) -> None:
    document, read = json_of("masp-convert")
    weights = {asset: str(weight) for asset, weight in document["weights"].items()}
    numbers = {name: str(document[name]) for name in ("value", "position")}
    path = tmp_path / "info.json"
    path.write_text(json.dumps(document | {"weights": weights, **numbers}))
    assert read(path).info == info_of("masp-convert")


WRONG_SPENDS: list[tuple[dict[str, Any], str, str]] = [
    ({"ak": "00"}, "ak", "must be 32 bytes, not 1"),
    ({"ak": 5}, "ak", "must be text in hex"),
    ({"ak": little(P + 1)}, "ak", "not below the modulus"),
    ({"ak": little(1)}, "ak", "neutral element"),
    ({"ak": little(P - 1)}, "ak", "not in the subgroup"),
    ({"nsk": little(ORDER)}, "nsk", "must be a scalar"),
    ({"nsk": little(5)}, "note.address", "not an address of ak and nsk"),
    ({"note": []}, "note", "must be an object"),
    ({"position": 1 << 32}, "position", "the position must be"),
    ({"position": "7.0"}, "position", "text of its digits"),
    ({"path": little(1)}, "path", "must be a list of siblings"),
    ({"path": [little(1)] * 31}, "path", "32 siblings, not 31"),
    ({"path": [little(P)] * 32}, "path", "a sibling is not below"),
    ({"path": [little(1)] * 32}, "anchor", "not the root of the path"),
    ({"position": 0}, "anchor", "not the root of the path"),
    ({"anchor": little(P)}, "anchor", "not below the modulus"),
    ({"alpha": little(ORDER)}, "alpha", "must be a scalar"),
    ({"rcv": "ff" * 32}, "rcv", "must be a scalar"),
    ({"ask": little(1)}, "", "unknown field; it may have ak"),
]


@pytest.mark.parametrize(("change", "section", "message"), WRONG_SPENDS)
def test_wrong_spends(tmp_path: Path, change: dict[str, Any], section: str, message: str) -> None:
    document, _ = json_of("sapling-spend")
    check_refused(tmp_path, files.read_spend_info, document | change, section, message)


WRONG_NOTES: list[tuple[dict[str, Any], str, str]] = [
    ({"address": "00"}, "note.address", "43 bytes"),
    ({"value": -1}, "note.value", "the value"),
    ({"value": 1 << 64}, "note.value", "the value"),
    ({"value": "0x10"}, "note.value", "or text of its digits"),
    ({"rcm": little(ORDER)}, "note.rcm", "must be a scalar"),
    ({"rseed": "07" * 32}, "note", "either rseed or rcm"),
    ({"asset": "00" * 31}, "note.asset", "must be 32 bytes"),
    ({"esk": little(1)}, "note", "unknown field"),
]


@pytest.mark.parametrize(("change", "section", "message"), WRONG_NOTES)
def test_wrong_notes_of_spends(
    tmp_path: Path, change: dict[str, Any], section: str, message: str
) -> None:
    document, _ = json_of("sapling-spend")
    document["note"] |= change
    check_refused(tmp_path, files.read_spend_info, document, section, message)


WRONG_CONVERTS: list[tuple[dict[str, Any], str, str]] = [
    ({"weights": []}, "weights", "must be an object"),
    ({"weights": {}}, "weights", "small order"),
    ({"weights": {"00": 1}}, "weights", "must be 32 bytes"),
    ({"weights": {asset_identifier(b"a").hex(): 1 << 64}}, "weights", "the weight of an asset"),
    ({"weights": {asset_identifier(b"a").hex(): "1.0"}}, "weights", "or text of its digits"),
    (
        {"weights": {asset_identifier(b"a").hex(): 1, asset_identifier(b"a").hex().upper(): 1}},
        "weights",
        "has an asset twice",
    ),
    ({"value": True}, "value", "the value must be a whole number"),
    ({"value": 1, "anchor": little(1)}, "anchor", "not the root"),
]


@pytest.mark.parametrize(("change", "section", "message"), WRONG_CONVERTS)
def test_wrong_converts(tmp_path: Path, change: dict[str, Any], section: str, message: str) -> None:
    document, _ = json_of("masp-convert")
    check_refused(tmp_path, files.read_convert_info, document | change, section, message)


@pytest.mark.parametrize("name", ["sapling-spend", "sapling-output", "masp-convert"])
def test_missing_fields(tmp_path: Path, name: str) -> None:
    document, read = json_of(name)
    optional = {"alpha", "esk", "rcv", "anchor", "rcm"}
    for field in document.keys() - optional:
        remaining = {key: document[key] for key in document if key != field}
        check_refused(tmp_path, read, remaining, field, "is missing")
    check_refused(tmp_path, read, [document], "", "must be an object")


def test_any_anchor_of_a_note_of_value_zero(tmp_path: Path) -> None:
    """The circuit accepts it; consensus wants one that the chain has had."""
    document, _ = json_of("sapling-spend")
    document["note"]["value"] = 0
    document["anchor"] = little(7)
    path = tmp_path / "info.json"
    path.write_text(json.dumps(document))
    info = files.read_spend_info(path).info
    assert isinstance(info, SpendInfo)
    assert info.anchor == 7


@pytest.mark.fixtures
def test_a_spend_alone(shared_fixtures: Path, tmp_path: Path) -> None:
    """Its fields include those of a Convert; those of an Output too are of two kinds."""
    rows = json.loads((shared_fixtures / "zcash" / "mainnet_sapling_spends.json").read_text())
    document = {**rows[0], "proof": rows[0]["zkproof"]}
    path = tmp_path / "description.json"
    path.write_text(json.dumps(document))
    (description,) = read_descriptions(path).descriptions.values()
    assert isinstance(description, Description)
    assert description.statement.to_bytes()[2].hex() == document["nullifier"]
    path.write_text(json.dumps(document | {"epk": document["rk"], "cmu": document["anchor"]}))
    (error,) = read_descriptions(path).descriptions.values()
    assert "the fields of two kinds" in str(error)


def check_refused(folder: Path, read: Read, document: object, section: str, message: str) -> None:
    """Check the error's file, field and message, and that it shows no secret."""
    path = folder / "info.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert caught.value.path == str(path)
    assert (caught.value.section or "") == section
    for secret in ("nsk", "alpha", "rcv", "esk"):
        if isinstance(document, dict) and secret in document:
            assert document[secret] not in str(caught.value)
