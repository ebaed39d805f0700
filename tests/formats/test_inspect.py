from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.formats import describe
from tests.formats.tiny import DATA, container, piped, refused, replaced

FOLDER = DATA / "bn254"


def test_groth16_key() -> None:
    path = FOLDER / "circuit.zkey"
    report = describe(path)
    assert list(report)[:3] == ["file", "kind", "bytes"]
    circuit_hash = report.pop("circuit_hash")
    assert isinstance(circuit_hash, str)
    assert len(bytes.fromhex(circuit_hash)) == 64
    assert report.pop("sections") == {
        "1": 4,
        "2": 660,
        "3": 192,
        "4": 4 + 8 * 44,
        "5": 320,
        "6": 320,
        "7": 640,
        "8": 128,
        "9": 512,
        "10": 68 + 434,
    }
    assert report == {
        "file": str(path),
        "kind": "groth16 proving key (zkey)",
        "bytes": path.stat().st_size,
        "protocol": "groth16",
        "curve": "bn254",
        "constraints": 2,
        "domain_size": 8,
        "log2_domain": 3,
        "public": 2,
        "variables": 5,
        "coefficients": 8,
        "contributions": 1,
    }


def test_plonk_key_is_described() -> None:
    report = describe(FOLDER / "plonk.zkey")
    assert report["kind"] == "plonk proving key (zkey)"
    assert (report["curve"], report["constraints"], report["public"]) == ("bn254", 4, 2)
    assert "Groth16 only" in str(report["note"])


def test_json_of_other_protocols_is_named(tmp_path: Path) -> None:
    for document, kind in (
        ({"A": ["1", "2", "1"], "protocol": "plonk", "curve": "bn128"}, "plonk proof (JSON)"),
        ({"protocol": "fflonk", "nPublic": 1, "power": 3}, "fflonk verifying key (JSON)"),
    ):
        (tmp_path / "file").write_text(json.dumps(document))
        report = describe(tmp_path / "file")
        assert report["kind"] == kind
        assert "Groth16 only" in str(report["note"])


def test_pipes_are_read_once(tmp_path: Path) -> None:
    for name in ("verification_key.json", "public.json", "proof.json", "circuit.zkey"):
        with piped((FOLDER / name).read_bytes()) as pipe:
            report = describe(pipe)
        expected = describe(FOLDER / name)
        assert report == expected | {"file": pipe}


def test_witness_and_constraint_system() -> None:
    report = describe(FOLDER / "witness.wtns")
    assert (report["kind"], report["curve"], report["values"]) == ("witness (wtns)", "bn254", 5)
    assert (report["zeros_and_ones"], report["below_2**32"]) == (1, 2)
    report = describe(DATA / "bls12_381" / "circuit.r1cs")
    assert (report["kind"], report["curve"]) == ("constraint system (r1cs)", "bls12_381")
    assert (report["constraints"], report["wires"], report["public_inputs"]) == (2, 5, 1)
    assert report["nonzeros"] == {"a": 3, "b": 2, "c": 2}


def test_json_files(tmp_path: Path) -> None:
    report = describe(FOLDER / "proof.json")
    assert (report["kind"], report["curve"]) == ("proof (proof.json)", "bn254")
    report = describe(FOLDER / "verification_key.json")
    assert (report["curve"], report["public"]) == ("bn254", 2)
    report = describe(FOLDER / "public.json")
    # Its first value, -95 modulo the BN254 prime, is above the BLS12-377 one.
    assert (report["public"], report["fits"]) == (2, ["bn254", "bls12_381"])
    document = json.loads((FOLDER / "proof.json").read_text())
    del document["curve"]
    (tmp_path / "p.json").write_text(json.dumps(document))
    report = describe(tmp_path / "p.json")
    assert report["curve"] is None
    assert "bn254" in report["fits"]  # type: ignore[operator]


def test_powers_of_tau(tmp_path: Path) -> None:
    def stored(q: int) -> Path:
        header = struct.pack("<I", 32) + q.to_bytes(32, "little") + struct.pack("<II", 12, 28)
        (tmp_path / "p.ptau").write_bytes(container(b"ptau", 1, [(1, header), (12, b"")]))
        return tmp_path / "p.ptau"

    facts = describe(stored(CURVES["bn254"].fq.value))
    assert (facts["kind"], facts["curve"]) == ("powers of tau (ptau)", "bn254")
    assert (facts["log2_powers"], facts["log2_ceremony_powers"]) == (12, 28)
    assert facts["prepared"] is True
    with pytest.raises(InputError, match="not the prime of a supported curve"):
        describe(stored(101))


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"\x7fELF....", "is not a file that Quod knows"),
        (b"hello", "is not a file that Quod knows"),
        (b"{}", "is JSON, but not a proof, a verification key or a list of public inputs"),
        (b"3", "is JSON, but not a proof"),
        (b'["-1"]', "is JSON, but not a proof"),
        (b'{"pi_a": []}', "pi_a must have 3 elements"),
        (b'{"pi_a": [], "curve": "secp256k1"}', '"curve" must be one of'),
        (b'{"pi_a": [NaN]}', "holds a value that is not a number (NaN)"),
        (b"\n [1.5]", "holds a fraction"),
        (b"[1, 2", "is not JSON"),
        (b"", "is empty"),
        (b"zkey", "ends within its header"),
    ],
)
def test_unknown_file_kinds_are_rejected(tmp_path: Path, data: bytes, part: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(InputError) as error:
        describe(tmp_path / "file")
    refused(error, str(tmp_path / "file"), part)


def test_damage_is_reported(tmp_path: Path) -> None:
    data = (FOLDER / "circuit.r1cs").read_bytes()
    (tmp_path / "c.r1cs").write_bytes(replaced(data, {2: b"\xff" * 24}))
    with pytest.raises(InputError, match="section 2"):
        describe(tmp_path / "c.r1cs")
