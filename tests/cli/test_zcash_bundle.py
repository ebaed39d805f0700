"""quod zcash prove-bundle and verify: the proofs and signatures of a transaction."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.cli import entry
from quod.zcash.proofs.kinds import (
    MASP_CONVERT,
    MASP_OUTPUT,
    MASP_SPEND,
    SAPLING_OUTPUT,
    SAPLING_SPEND,
    ProofKind,
)
from quod.zcash.proofs.parameters import make_test_parameters
from tests.cli.json_files import read, write
from tests.zcash.files.test_bundles import chain_document, copied, transaction

Captured = pytest.CaptureFixture[str]
TEST_KEY = "--insecure-test-key"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return options for INSECURE parameters of Sapling."""
    folder = tmp_path_factory.mktemp("parameters")
    return key_options(folder, {"--spend": SAPLING_SPEND, "--output": SAPLING_OUTPUT})


def key_options(folder: Path, kinds: dict[str, ProofKind]) -> list[str]:
    options = [TEST_KEY]
    for option, kind in kinds.items():
        path = folder / kind.file_name
        make_test_parameters(kind, path, seed=1)
        options += [option, str(path)]
    return options


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_transaction_is_proved_signed_and_verified(
    folder: Path, keys: list[str], capsys: Captured
) -> None:
    document = transaction()
    write("b.json", document)
    assert entry.run(["zcash", "prove-bundle", "b.json", "-o", "p.json", *keys, "--timings"]) == 0
    said = capsys.readouterr().err
    assert "Proved and signed" in said
    assert "2 spends, 2 outputs: p.json" in said
    proved = read("p.json")
    assert list(proved) == ["spends", "outputs", "valueBalance", "sighash", "bindingSig"]
    assert list(proved["spends"][0]) == [
        "cv", "anchor", "nullifier", "rk", "proof", "spendAuthSig"
    ]  # fmt: skip
    assert list(proved["outputs"][1]) == ["cv", "epk", "cmu", "proof"]
    for secret in ("ask", "nsk", "alpha", "rcv"):
        assert document["spends"][0][secret] not in Path("p.json").read_text()
    verify = ["zcash", "verify", "v.json", *keys]
    write("v.json", proved)
    assert entry.run(verify) == 0
    assert "all 4 proofs are valid, all signatures too, and the values balance" in (
        capsys.readouterr().out
    )
    # The proofs alone, and a bundle of which something differs.
    write("v.json", {name: proved[name] for name in ("spends", "outputs")})
    assert entry.run(verify) == 0
    first, second = proved["spends"]
    changes: list[tuple[dict[str, Any], int, str]] = [
        ({"valueBalance": 13}, 6, "bindingSig is invalid: the values do not balance"),
        ({"sighash": "00" * 32}, 6, "spends[0].spendAuthSig is invalid"),
        ({"bindingSig": "ff" * 64}, 3, "bindingSig: S of the signature is not below"),
        ({"bindingSig": first["spendAuthSig"]}, 6, "bindingSig is invalid"),
        ({"spends": [first, second | {"spendAuthSig": first["spendAuthSig"]}]}, 6,
         "spends[1].spendAuthSig is invalid"),
        ({"spends": [first]}, 6, "bindingSig is invalid"),
        ({"spends": [first, first]}, 3, "spends[1]: nullifier is that of spends[0]"),
        ({"spends": [second, first | {"proof": second["proof"]}]}, 6, "(spends[1])"),
        ({"outputs": [proved["outputs"][0], 5]}, 6, "outputs[1] is malformed"),
    ]  # fmt: skip
    for change, code, message in changes:
        write("v.json", proved | change)
        assert entry.run(verify) == code, message
        assert message in capsys.readouterr().err
    assert entry.run(["zcash", "verify", "p.json", "--masp"]) == 2
    assert "--masp needs a valueBalance of assets" in capsys.readouterr().err
    check_spends_alone(proved, verify, capsys)


def check_spends_alone(proved: dict[str, Any], verify: list[str], capsys: Captured) -> None:
    """A Spend outside a bundle, with sighash, is verified with its signature."""
    first, second = ({**spend, "sighash": proved["sighash"]} for spend in proved["spends"])
    without = dict(proved["outputs"][0], spendAuthSig=first["spendAuthSig"])
    for document, said in (
        (first, "the proof is valid, 1 signature too"),
        ([first, second, without], "all 3 proofs are valid, 2 signatures too"),
        ({"spends": [second], "outputs": [without]}, "all 2 proofs are valid, 1 signature too"),
    ):
        write("v.json", document)
        assert entry.run(verify) == 0
        captured = capsys.readouterr()
        assert said in captured.out
        assert ("not verified" in captured.err) == (document is not first)
    assert "not verified: outputs[0].spendAuthSig; add sighash" in captured.err
    other, high = {"spendAuthSig": second["spendAuthSig"]}, first["spendAuthSig"][:64] + "ff" * 32
    errors: list[tuple[Any, int, str]] = [
        (first | other, 6, "v.json: spendAuthSig is invalid: it is of another key than rk"),
        (first | {"sighash": "00" * 32}, 6, "v.json: spendAuthSig is invalid"),
        ([second, first | other], 6, "v.json: [1].spendAuthSig is invalid"),
        ({"spends": [first | other]}, 6, "v.json: spends[0].spendAuthSig is invalid"),
        (first | {"spendAuthSig": high}, 3, "v.json, section spendAuthSig: S of the signature"),
        (first | {"spendAuthSig": "00"}, 3, "v.json, section spendAuthSig: must be 64 bytes"),
        ([first | {"sighash": 7}], 3, "v.json, section [0].sighash: must be text in hex"),
        # A proof that is not valid is reported first.
        (first | other | {"proof": second["proof"]}, 6, "not valid for this key"),
        (first | {"rk": second["rk"]}, 6, "not valid for this key"),
    ]
    for document, code, message in errors:
        write("v.json", document)
        assert entry.run(verify) == code, message
        assert message in capsys.readouterr().err


def test_outputs_alone_with_drawn_secrets(folder: Path, keys: list[str], capsys: Captured) -> None:
    outputs = [{key: value for key, value in output.items() if key not in ("esk", "rcv")}
               for output in transaction()["outputs"]]  # fmt: skip
    write("b.json", {"outputs": outputs, "valueBalance": -108})
    prove = ["zcash", "prove-bundle", "b.json", "-o", "p.json", *keys]
    assert entry.run(prove) == 3
    assert "has no outputs[0].esk and 3 other scalars, which" in capsys.readouterr().err
    assert entry.run(prove[:6]) == 3  # without keys
    assert not Path("p.json").exists()
    assert entry.run([*prove, "--secrets", "s.json"]) == 0
    assert stat.S_IMODE(Path("s.json").stat().st_mode) == 0o600
    assert [list(each) for each in read("s.json")["outputs"]] == [["esk", "rcv"]] * 2
    assert entry.run([*prove, "--secrets", "s.json"]) == 5
    capsys.readouterr()
    assert entry.run(["zcash", "verify", "p.json", *keys]) == 3
    assert "bindingSig: is missing: sign the bundle" in capsys.readouterr().err
    # With the secrets, a caller signs later.
    bsk = zcash.binding_signing_key(
        [], [zcash.decode_scalar("rcv", bytes.fromhex(each["rcv"]))
             for each in read("s.json")["outputs"]]
    )  # fmt: skip
    signature = zcash.binding_signature(bsk, bytes(32))
    signed = read("p.json") | {"sighash": "00" * 32, "bindingSig": signature.hex()}
    assert entry.run(["zcash", "verify", write("v.json", signed), *keys]) == 0
    assert entry.run(["zcash", "prove-bundle", "b.json", "-o", "b.json", *keys]) == 2


def test_errors_before_proofs(folder: Path, keys: list[str], capsys: Captured) -> None:
    document = transaction()
    attempts: list[tuple[dict[str, Any], list[str], int, str]] = [
        ({"valueBalance": 13}, keys, 4, "b.json: the values do not balance"),
        ({}, keys[:3], 2, "--output must name the parameters of outputs"),
        ({}, keys[1:], 9, "--insecure-test-key"),
        ({}, [TEST_KEY, "--spend", keys[4], "--output", keys[4]], 4, "sapling-output.params"),
    ]
    attempts += [
        ({}, [*keys, "--convert", "none.params"], 3, "--convert: none.params: does not exist"),
        ({"spends": 5}, [*keys, "--convert", "."], 3, "--convert: .: is not a regular file"),
    ]
    for change, options, code, message in attempts:
        write("b.json", document | change)
        assert entry.run(["zcash", "prove-bundle", "b.json", "-o", "p.json", *options]) == code
        assert message in capsys.readouterr().err
        assert not Path("p.json").exists()


@pytest.mark.thorough
def test_a_transaction_of_masp(folder: Path, capsys: Captured) -> None:
    kinds = {"--spend": MASP_SPEND, "--output": MASP_OUTPUT, "--convert": MASP_CONVERT}
    options = key_options(folder, kinds)
    document = transaction(zcash.MASP)
    write("b.json", document)
    assert entry.run(["zcash", "prove-bundle", "b.json", "-o", "p.json", *options]) == 0
    assert "2 spends, 2 outputs, 1 convert" in capsys.readouterr().err
    proved = read("p.json")
    assert proved["valueBalance"] == document["valueBalance"]
    assert entry.run(["zcash", "verify", "p.json", *options]) == 0
    wrong = copied(proved)
    wrong["valueBalance"] = dict.fromkeys(wrong["valueBalance"], "15")
    assert entry.run(["zcash", "verify", write("v.json", wrong), *options]) == 6


@pytest.mark.fixtures
def test_a_transaction_of_the_chain(folder: Path, shared_fixtures: Path, capsys: Captured) -> None:
    """A transaction of mainnet with three Spends, under the ceremony's keys."""
    rows = json.loads((shared_fixtures / "zcash" / "sapling_bundles.json").read_text())
    row = next(row for row in rows if len(row["spends"]) == 3 and row["tx_version"] == 5)
    write("b.json", chain_document(row))
    assert entry.run(["zcash", "verify", "b.json"]) == 0
    assert "all 4 proofs are valid, all signatures too" in capsys.readouterr().out
    write("b.json", chain_document(row) | {"valueBalance": row["value_balance"] + 1})
    assert entry.run(["zcash", "verify", "b.json"]) == 6
