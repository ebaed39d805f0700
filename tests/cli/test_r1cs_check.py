"""quod r1cs check: verdicts, exit codes, and the files that it writes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod import r1cs
from quod.cli import entry
from quod.errors import InputError
from quod.formats import SparseMatrix, Witness
from quod.formats.r1cs import write_r1cs
from quod.formats.wtns import write_wtns
from quod.testing import assert_deterministic

System = r1cs.ConstraintSystem


def square_root(system: System) -> None:
    """Both roots satisfy the constraint."""
    x = system.public("x")
    (root,) = system.hint(lambda square: round(square**0.5), [x])
    system.assert_equal(root * root, x)
    system.output("root", root)
    system.output("x_again", x + 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    circuit = r1cs.trace(square_root)
    circuit.write_r1cs("root.r1cs")
    circuit.write_sym("root.sym")
    r1cs.trace(lambda s: s.output("y", s.private("x") ** 3)).write_r1cs("cube.r1cs")
    return tmp_path


def test_unique_outputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["r1cs", "check", "cube.r1cs"]) == 0
    output = capsys.readouterr()
    assert output.out == "wire 1: unique\n"
    assert "1 target unique: 3 constraints" in output.err


def test_ambiguous_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two witnesses are written, and differ in the target alone among inputs and outputs."""
    words = ["r1cs", "check", "root.r1cs", "root.sym", "--targets", "root"]
    words += ["--inputs", "x", "--counterexample", "pair", "--sarif", "log.sarif"]
    assert entry.run(words) == 13
    output = capsys.readouterr()
    assert output.out.startswith("main.root: ambiguous, ")
    assert "root.r1cs: 1 target of 1 is ambiguous, first main.root" in output.err
    first, second = (Witness.open(f"pair-{number}.wtns").values for number in (1, 2))
    assert np.array_equal(first[1], second[1])
    assert not np.array_equal(first[2], second[2])
    for number in (1, 2):
        assert entry.run(["wtns", "check", "root.r1cs", f"pair-{number}.wtns"]) == 0
    (run,) = json.loads((folder / "log.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["ambiguous"]


def test_search_from_a_witness(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first witness of the counterexample is the one that the search starts from."""
    circuit = r1cs.trace(square_root)
    write_wtns("start.wtns", "bn254", circuit.witness({"x": 49}).values)
    words = ["r1cs", "check", "root.r1cs", "root.sym", "--targets", "root", "--inputs", "x"]
    words += ["--witness", "start.wtns", "--counterexample", "pair"]
    assert entry.run(words) == 13
    assert "for the inputs main.x = 49" in capsys.readouterr().out
    assert np.array_equal(Witness.open("pair-1.wtns").values, Witness.open("start.wtns").values)


def test_search_from_no_witness(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A witness that violates a constraint, or is of another circuit or field, is refused."""
    circuit = r1cs.trace(square_root)
    values = circuit.witness({"x": 49}).values.copy()
    values[2, 0] += 1
    write_wtns("wrong.wtns", "bn254", values)
    write_wtns("short.wtns", "bn254", values[:2])
    write_wtns("other.wtns", "bls12_381", values)
    for name, code, message in (
        ("wrong", 3, "the witness does not satisfy constraint 2"),
        ("short", 4, "short.wtns: has 2 values; root.r1cs has 6 wires"),
        ("other", 4, "the witness is over bls12_381, not bn254"),
    ):
        words = ["r1cs", "check", "root.r1cs", "--targets", "1", "--witness", f"{name}.wtns"]
        assert entry.run(words) == code
        assert message in capsys.readouterr().err
    with pytest.raises(InputError, match=r"does not satisfy constraint \d .*test_r1cs_check.py"):
        circuit.check(targets=["root"], start=[1, 49, 8, 49, 0, 0])


def test_search_from_inputs() -> None:
    """A circuit computes the witness that the search starts from."""
    report = r1cs.trace(square_root).check(targets=["root"], start={"x": 49})
    (pair,) = report.pairs.values()
    assert sorted([pair.first[2], report.rows.prime - pair.second[2]]) == [7, 7]


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["r1cs", "check", "root.r1cs", "root.sym", "--targets", "root,x_again", "--json"]
    assert entry.run([*words, "--inputs", "x"]) == 13
    report = json.loads(capsys.readouterr().out)
    assert [(target["signal"], target["verdict"]) for target in report["targets"]] == [
        ("main.root", "ambiguous"), ("main.x_again", "unique"),
    ]  # fmt: skip


def test_waivers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["r1cs", "check", "root.r1cs", "root.sym", "--inputs", "x", "--targets", "root,x_again"]
    waiver = {"signal": "main.root", "reason": "either root will do", "source": "test"}
    Path("waivers.json").write_text(json.dumps([waiver]))
    assert entry.run([*words, "--waivers", "waivers.json"]) == 0
    output = capsys.readouterr()
    assert "1 target unique, 1 waived" in output.err
    assert "; waived: either root will do (test)\n" in output.out
    waived = [*words, "--waivers", "waivers.json", "--json", "--sarif", "log.sarif"]
    assert entry.run([*waived, "--counterexample", "pair"]) == 0
    targets = json.loads(capsys.readouterr().out)["targets"]
    reason = {"reason": "either root will do", "source": "test"}
    assert [target["waived"] for target in targets] == [reason, None]
    (run,) = json.loads(Path("log.sarif").read_text())["runs"]
    assert run["results"][0]["suppressions"][0]["justification"] == "either root will do (test)"
    assert Path("pair-1.wtns").exists()
    for document, message in [
        (
            [{**waiver, "signal": "main.x_again"}],
            "waivers.json: the waiver of 'main.x_again' applies to nothing",
        ),
        ([{**waiver, "signal": "root"}], "did you mean 'main.root'?"),
        ([{"signal": "main.root"}], "waiver 1 is not an object with signal, reason, source"),
        ([{**waiver, "reason": ""}], "a value of waiver 1 is not a nonempty string"),
        ({}, "is not a list of waivers"),
    ]:
        Path("waivers.json").write_text(json.dumps(document))
        assert entry.run([*words, "--waivers", "waivers.json"]) == 3
        assert message in capsys.readouterr().err


def test_signals_with_one_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A .sym file may give two wires one name: each is counted, and a waiver applies to both."""

    def circuit(system: System) -> None:
        for name in ("first", "second"):
            system.output(name, system.hint(lambda x: x, [system.public(f"x_{name}")])[0])

    r1cs.trace(circuit).write_r1cs("two.r1cs")
    r1cs.trace(circuit).write_sym("two.sym")
    text = Path("two.sym").read_text()
    Path("two.sym").write_text(text.replace("main.second", "main.first"))
    words = ["r1cs", "check", "two.r1cs", "two.sym", "--targets", "first"]
    assert entry.run(words) == 13
    assert "2 targets of 2 are ambiguous" in capsys.readouterr().err
    waiver = {"signal": "main.first", "reason": "free", "source": "test"}
    Path("waivers.json").write_text(json.dumps([waiver]))
    assert entry.run([*words, "--waivers", "waivers.json"]) == 0
    assert "2 waived" in capsys.readouterr().err


def test_undecided(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["r1cs", "check", "root.r1cs", "--targets", "2", "--time", "0"]) == 14
    assert "1 target of 1 is undecided, first wire 2 within 0 s" in capsys.readouterr().err


def test_private_inputs_without_wires(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """circom may replace an input by the outputs, so nothing is shown ambiguous."""
    bit = SparseMatrix(np.array([0, 1]), np.array([1], np.uint32), _words(1))
    zero = SparseMatrix(np.array([0, 0]), np.empty(0, np.uint32), _words())
    system: dict[str, Any] = {
        "curve": "bn254", "wires": 2, "public_outputs": 1, "public_inputs": 0,
        "a": bit, "b": bit, "c": zero,
    }  # fmt: skip
    write_r1cs("lost.r1cs", private_inputs=1, labels=3, **system)
    write_r1cs("free.r1cs", private_inputs=0, **{**system, "a": zero})
    assert entry.run(["r1cs", "check", "lost.r1cs"]) == 0
    write_r1cs("lost.r1cs", private_inputs=1, labels=3, **{**system, "a": zero})
    assert entry.run(["r1cs", "check", "lost.r1cs"]) == 14
    assert "1 private input of the circuit without a wire" in capsys.readouterr().err
    assert entry.run(["r1cs", "check", "free.r1cs"]) == 13


def _words(*values: int) -> Any:
    words = np.zeros((len(values), 8), np.uint32)
    words[:, 0] = values
    return words


def test_wrong_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["r1cs", "check", "root.r1cs", "--targets", "rot"]) == 3
    assert "root.r1cs: no wire has the name 'rot'" in capsys.readouterr().err
    assert entry.run(["r1cs", "check", "root.r1cs", "--targets", "2", "--inputs", "1,2"]) == 3
    assert "'wire 2' cannot be both an input and a target" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--targets", ""], "no signal is named as a target"),
        (["--targets", " , "], "no signal is named as a target"),
        (["--inputs", "all"], "all targets are inputs"),
        (["--inputs", "1,2"], "all targets are inputs"),
        (["--inputs", "all", "--targets", "all"], "all targets are inputs"),
    ],
)
def test_question_without_targets(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check that decides nothing, as for an unset variable in a script, does not pass."""
    assert entry.run(["r1cs", "check", "cube.r1cs", *words]) == 3
    assert f"cube.r1cs: {message}" in capsys.readouterr().err


def last_digit(system: System) -> None:
    """The digit is public, and declared after a public input."""
    x = system.public("x")
    quotient, digit = system.hint(lambda value: divmod(value, 10), [x], 2)
    system.assert_equal(10 * quotient + digit, x)
    system.output("digit", digit)


def test_outputs_after_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The labels of a file mark outputs that the header counts as inputs."""

    def both(system: System) -> None:
        last_digit(system)
        system.output("root", system.hint(lambda value: value, [system.private("late")])[0])

    circuit = r1cs.trace(both)
    circuit.write_files(Path("both.r1cs"), sym=Path("both.sym"))
    words = ["r1cs", "check", "both.r1cs", "both.sym", "--json"]
    for targets, names in (
        ([], ["main.digit", "main.root"]),
        # The other output is no input.
        (["--targets", "root"], ["main.root"]),
    ):
        assert entry.run([*words, *targets]) == 13
        report = json.loads(capsys.readouterr().out)
        assert (report["inputs"], report["public_inputs"]) == (2, 1)
        assert [each["signal"] for each in report["targets"]] == names
        assert {each["verdict"] for each in report["targets"]} == {"ambiguous"}


def test_file_that_marks_no_outputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check that decides nothing fails at once, and says so in each format."""
    circuit = r1cs.trace(last_digit)
    # Other compilers write files without labels.
    a, b, c = circuit.matrices
    write_r1cs(
        "digit.r1cs", curve="bn254", wires=circuit.wires, public_outputs=0, public_inputs=2,
        private_inputs=0, a=a, b=b, c=c,
    )  # fmt: skip
    words = ["r1cs", "check", "digit.r1cs"]
    assert entry.run([*words, "--quiet", "--json", "--sarif", "log.sarif"]) == 14
    output = capsys.readouterr()
    message = "digit.r1cs marks no outputs, so nothing is decided; name them: --targets NAMES"
    assert message in output.err
    assert "marks no outputs" in json.loads(output.out)["error"]
    (run,) = json.loads(Path("log.sarif").read_text())["runs"]
    assert not run["invocations"][0]["executionSuccessful"]
    assert entry.run([*words, "--targets", "all"]) == 0
    assert "marks no outputs: 2 public signals were taken as inputs" in capsys.readouterr().err
    assert entry.run([*words, "--targets", "2"]) == 13


def test_circuit_without_outputs() -> None:
    """Nothing is decided, so it does not pass."""
    circuit = r1cs.trace(lambda system: system.assert_nonzero(system.private("x")))
    report = circuit.check()
    assert not report.is_unique
    assert repr(report) == "<Report: no targets; 0 findings>"
    with pytest.raises(AssertionError, match="the circuit has no outputs; name targets"):
        assert_deterministic(circuit)
    assert_deterministic(circuit, targets=["all"])


def test_report_shows_the_counterexample() -> None:
    circuit = r1cs.trace(last_digit)
    report = circuit.check()
    assert repr(report).startswith("<Report: 1 ambiguous; ")
    verdict, inputs, differing, *lines = str(report).splitlines()
    first, second = report.witnesses("digit")
    for witness in (first, second):
        assert not circuit.check(witness)
    values = [int.from_bytes(each.values[2].tobytes(), "little") for each in (first, second)]
    assert verdict == f"digit: ambiguous, {values[0]} or {values[1]}"
    assert inputs.startswith("  for the inputs x = ")
    assert differing.startswith("  other signals that differ: ")
    assert all(line.startswith("finding: ") for line in lines)
    with pytest.raises(InputError, match="'x' is no ambiguous target"):
        report.witnesses("x")


def test_assertion_about_no_targets_does_not_pass() -> None:
    with pytest.raises(InputError, match="no signal is named as a target"):
        assert_deterministic(r1cs.trace(square_root), targets=[])


def test_counterexample_that_cannot_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error comes before the search, and no input is replaced."""
    words = ["r1cs", "check", "root.r1cs", "--targets", "2", "--counterexample"]
    assert entry.run([*words, "no folder/pair"]) == 5
    output = capsys.readouterr()
    assert "no directory" in output.err
    assert not output.out
    Path("pair-2.wtns").write_bytes(Path("root.r1cs").read_bytes())
    words[2] = "pair-2.wtns"
    assert entry.run([*words, "pair"]) == 2
    assert Path("pair-2.wtns").read_bytes() == Path("root.r1cs").read_bytes()


def test_a_full_disk_leaves_no_counterexample(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full once one of the two witnesses is written."""
    flush, flushed = os.fsync, []

    def full(descriptor: int) -> None:
        if flushed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flushed.append(descriptor)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    before = sorted(os.listdir())
    words = ["r1cs", "check", "root.r1cs", "--targets", "2", "--counterexample", "pair"]
    assert entry.run(words) == 5
    assert "pair-2.wtns: could not be written (No space left" in capsys.readouterr().err
    assert sorted(os.listdir()) == before


def test_sarif_has_the_uri_of_an_unusual_name(folder: Path) -> None:
    name = os.fsdecode("wörk #1%41 ".encode() + b"\xff.r1cs")
    Path("root.r1cs").rename(name)
    assert entry.run(["r1cs", "check", name, "--targets", "2", "--sarif", "log.sarif"]) == 13
    (run,) = json.loads((folder / "log.sarif").read_text())["runs"]
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "w%C3%B6rk%20%231%2541%20%FF.r1cs"}


def test_sarif_names_the_file_of_findings_as_that_of_verdicts(folder: Path) -> None:
    def division(system: System) -> None:
        dividend, divisor = system.private("dividend"), system.private("divisor")
        (quotient,) = system.hint(lambda x, y: x // y, [dividend, divisor])
        system.assert_equal(quotient * divisor, dividend)
        system.output("quotient", quotient)

    r1cs.trace(division).write_r1cs("a division.r1cs")
    words = ["r1cs", "check", "a division.r1cs", "--targets", "1", "--sarif", "log.sarif"]
    assert entry.run(words) == 13
    (run,) = json.loads((folder / "log.sarif").read_text())["runs"]
    assert {result["level"] for result in run["results"]} == {"error", "warning"}
    for result in run["results"]:
        location = result["locations"][0]["physicalLocation"]
        assert location == {"artifactLocation": {"uri": "a%20division.r1cs"}}


@pytest.mark.parametrize(("modulus", "code"), [(2**61 - 1, 0), (2**62 + 1, 3), (97, 0)])
def test_any_prime_modulus(modulus: int, code: int, tmp_path: Path) -> None:
    """circom's primes are not the only ones; a composite modulus is refused."""
    path = tmp_path / "c.r1cs"
    r1cs.trace(lambda s: s.output("y", s.private("x") * 3), "bn254").write_r1cs(path)
    data = path.read_bytes()
    # A constraint system of the same shape over another modulus, written by hand.
    header = b"r1cs" + (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
    prime = (8).to_bytes(4, "little") + modulus.to_bytes(8, "little")
    counts = b"".join(number.to_bytes(4, "little") for number in (3, 1, 0, 1))
    first = prime + counts + (3).to_bytes(8, "little") + (1).to_bytes(4, "little")
    terms = [[(2, 3)], [(0, 1)], [(1, 1)]]
    second = b"".join(
        len(side).to_bytes(4, "little")
        + b"".join(wire.to_bytes(4, "little") + k.to_bytes(8, "little") for wire, k in side)
        for side in terms
    )
    sections = b"".join(
        number.to_bytes(4, "little") + len(body).to_bytes(8, "little") + body
        for number, body in ((1, first), (2, second))
    )
    assert data.startswith(header[:4])
    path.write_bytes(header + sections)
    assert entry.run(["r1cs", "check", str(path)]) == code


def test_assert_deterministic() -> None:
    assert_deterministic(r1cs.trace(lambda s: s.output("y", s.private("x") ** 3)))
    circuit = r1cs.trace(square_root)
    with pytest.raises(
        AssertionError, match=r"^root: ambiguous, \d+ or \d+\n  for the inputs x = "
    ):
        assert_deterministic(circuit)
    assert_deterministic(circuit, waived=["root"])
    assert_deterministic(circuit, waived=["ro*"])
    with pytest.raises(InputError, match=r"the waiver of 'rot' .* did you mean 'root'\?"):
        assert_deterministic(circuit, waived=["rot"])
    assert_deterministic(circuit, targets=["x_again"])
    assert not circuit.check(circuit.witness({"x": 25}))
