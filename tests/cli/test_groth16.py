"""quod groth16 and quod zkey: arguments passed on, files written, and errors."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from quod.cli import entry
from quod.errors import MismatchError, VerificationError
from tests.cli.fakes import FakeProvingKey, fake_groth16


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[FakeProvingKey]:
    monkeypatch.chdir(tmp_path)
    for name in ("c.zkey", "w.wtns", "c.r1cs", "vkey.json"):
        (tmp_path / name).write_bytes(b"x")
    return fake_groth16(monkeypatch)


PROVE = ["groth16", "prove", "c.zkey", "w.wtns", "proof.json", "public.json"]


def names() -> set[str]:
    return set(os.listdir()) - {"c.zkey", "w.wtns", "c.r1cs", "vkey.json"}


def test_prove_writes_both_files(
    key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(PROVE) == 0
    assert names() == {"proof.json", "public.json"}
    assert json.loads(Path("public.json").read_text()) == ["1", "2", "3"]
    assert json.loads(Path("proof.json").read_text()) == {"valid": True}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Proved in ")
    assert "(checked)" in captured.err
    assert key.calls == [
        {"zkey": Path("c.zkey"), "device": "cpu"},
        {"witness": Path("w.wtns"), "seed": None, "self_check": True},
    ]


def test_options_reach_the_prover(
    key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run([*PROVE, "--device", "cpu:scalar", "--seed", "7", "--no-self-check"]) == 0
    assert key.calls == [
        {"zkey": Path("c.zkey"), "device": "cpu:scalar"},
        {"witness": Path("w.wtns"), "seed": 7, "self_check": False},
    ]
    captured = capsys.readouterr()
    assert "quod: warning: --seed" in captured.err
    assert "(not checked)" in captured.err


def test_quiet_leaves_only_warnings(
    key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run([*PROVE, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert entry.run([*PROVE, "-q", "--seed", "1"]) == 0
    assert capsys.readouterr().err.startswith("quod: warning: --seed")


def test_timings_and_trace(key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run([*PROVE, "--timings", "--trace", "trace.json"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    for word in ("stage", "share", "read key", "  map", "prove", "  msm", "write"):
        assert word in captured.err
    trace = json.loads(Path("trace.json").read_text())
    stages = {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"}
    assert stages == {"read key", "map", "prove", "msm", "write"}


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (MismatchError("the witness is of another circuit"), 4),
        (VerificationError("the proof did not verify"), 6),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("surprise"), 70),
    ],
    ids=["mismatch", "self-check", "ctrl-c", "defect"],
)
def test_a_failed_proof_leaves_no_file(
    key: type[FakeProvingKey],
    failure: BaseException,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key.failure = failure
    assert entry.run([*PROVE, "--trace", "trace.json", "--timings"]) == code
    assert names() == set()
    assert capsys.readouterr().err.count("\n") == 1


def test_a_failed_proof_leaves_old_files_as_they_were(key: type[FakeProvingKey]) -> None:
    Path("proof.json").write_text("old")
    key.failure = MismatchError("the witness is of another circuit")
    assert entry.run(PROVE) == 4
    assert Path("proof.json").read_text() == "old"
    assert names() == {"proof.json"}


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse access to the folder "hidden", as for users other than root."""
    look = os.stat

    def stat(path: Any, **options: Any) -> os.stat_result:
        if "hidden" in Path(path).parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return look(path, **options)

    monkeypatch.setattr(os, "stat", stat)


@pytest.mark.parametrize(
    ("proof", "public", "code"),
    [
        ("same.json", "same.json", 2),
        ("same.json", "./same.json", 2),
        ("c.zkey", "public.json", 2),
        ("proof.json", "w.wtns", 2),
        ("missing/proof.json", "public.json", 5),
        ("proof.json", "directory", 5),
        ("proof.json", "c.zkey/public.json", 5),
        ("p" * 300, "public.json", 5),
        ("proof.json", "hidden/public.json", 5),
    ],
)
def test_unwritable_outputs_are_rejected_before_proving(
    key: type[FakeProvingKey], monkeypatch: pytest.MonkeyPatch, proof: str, public: str, code: int
) -> None:
    Path("directory").mkdir()
    forbid(monkeypatch)
    assert entry.run(["groth16", "prove", "c.zkey", "w.wtns", proof, public]) == code
    assert key.calls == []
    assert names() == {"directory"}
    assert Path("c.zkey").read_bytes() == b"x"
    assert Path("w.wtns").read_bytes() == b"x"


def test_unstattable_inputs_are_left_to_the_reader(
    key: type[FakeProvingKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    for zkey in ("k" * 300, "hidden/c.zkey"):
        assert entry.run(["groth16", "prove", zkey, *PROVE[3:]]) == 0
        assert key.calls[-2]["zkey"] == Path(zkey)


def test_removed_working_directory_is_reported(
    key: type[FakeProvingKey], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    os.rmdir("../gone")
    assert entry.run(PROVE) == 5
    assert "proof.json: could not be written (No such file" in capsys.readouterr().err
    assert key.calls == []


def test_an_output_that_fails_late_leaves_neither_file(
    key: type[FakeProvingKey], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert entry.run(PROVE) == 5
    assert names() == set()
    assert "No space left" in capsys.readouterr().err


def test_outputs_may_be_devices(key: type[FakeProvingKey]) -> None:
    assert entry.run(["groth16", "prove", "c.zkey", "w.wtns", "/dev/null", "/dev/null"]) == 0
    assert names() == set()


def test_verify_prints_the_verdict(
    key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run([*PROVE, "-q"]) == 0
    verify = ["groth16", "verify", "vkey.json", "public.json", "proof.json"]
    assert entry.run(verify) == 0
    assert capsys.readouterr() == ("OK: the proof is valid.\n", "")
    assert entry.run([*verify, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    Path("proof.json").write_text('{"valid": false}')
    assert entry.run([*verify, "--quiet"]) == 6
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("quod: error: proof.json: not valid")
    assert entry.run([*verify, "--quiet", "--device", "cpu:scalar"]) == 6
    assert sys.modules["quod.groth16"].VerifyingKey.devices[-2:] == ["cpu", "cpu:scalar"]


def test_setup_requires_the_insecure_option(
    key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]
) -> None:
    setup = ["groth16", "test-key", "c.r1cs", "out.zkey", "--seed", "5"]
    assert entry.run(setup) == 2
    assert names() == set()
    assert "--insecure-test-key" in capsys.readouterr().err
    assert entry.run([*setup, "--insecure-test-key", "--quiet"]) == 0
    assert "INSECURE" in capsys.readouterr().err
    assert sys.modules["quod.groth16"].setups == [(Path("c.r1cs"), Path("out.zkey"), 5, "cpu")]
    assert entry.run([*setup, "--insecure-test-key", "--quiet", "--device", "cuda:1"]) == 0
    assert sys.modules["quod.groth16"].setups[-1][3] == "cuda:1"
    assert entry.run(["groth16", "test-key", "c.r1cs", "out.zkey", "--insecure-test-key"]) == 2


def test_setup_does_not_overwrite_its_input(key: type[FakeProvingKey]) -> None:
    arguments = ["groth16", "test-key", "c.r1cs", "c.r1cs", "--seed", "5", "--insecure-test-key"]
    assert entry.run(arguments) == 2
    assert Path("c.r1cs").read_bytes() == b"x"


def test_export_of_a_verifying_key(
    key: type[FakeProvingKey], capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["zkey", "export", "verificationkey", "c.zkey"]
    assert entry.run([*export, "out.json"]) == 0
    assert json.loads(Path("out.json").read_text()) == {"protocol": "groth16"}
    assert capsys.readouterr() == ("", "Wrote out.json.\n")
    assert entry.run([*export, "c.zkey"]) == 2
    assert entry.run([*export, "missing/out.json"]) == 5
    assert Path("c.zkey").read_bytes() == b"x"
