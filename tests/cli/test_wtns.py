"""quod wtns calculate: the file it writes, what it says, and how each refusal ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.cli import entry
from tests.witness.circuits import LOOP, circuit

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
WASM, INPUT = str(EXAMPLE / "circuit.wasm"), str(EXAMPLE / "input.json")


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "w.wtns"
    assert entry.run(["wtns", "calculate", WASM, INPUT, str(out)]) == 0
    assert out.read_bytes() == (EXAMPLE / "witness.wtns").read_bytes()
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.startswith("Computed 3,993 values in ")
    assert entry.run(["wtns", "calculate", WASM, INPUT, str(out), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changes", "inputs", "options", "code", "message"),
    [
        ({}, '{"b": 778899}', [], 3, 'inputs.json: the circuit has no input "b"'),
        ({}, '{"a": 778899.5}', [], 3, "inputs.json, offset 6: holds a fraction"),
        ({}, '{"a": 778899', [], 3, "inputs.json"),
        ({"set": "(call $say) (call $fail (i32.const 4))"}, '{"a": 778899}', [], 3,
         "inputs.json: the inputs do not satisfy the circuit: an assertion failed (Test_1 line 7)"),
        ({"set": LOOP}, '{"a": 778899}', ["--seconds", "0.1"], 10, "takes more than 0.1 s"),
        ({"pages": "20"}, '{"a": 778899}', ["--memory", "1"], 10, "1,048,576 bytes of memory"),
        ({"words": 9}, '{"a": 778899}', [], 10, "circuit.wasm: computes modulo"),
        ({"witness": "(i32.store offset=284 (i32.const 0) (i32.const -1))"}, '{"a": 778899}', [],
         3, "value 0 must be the constant 1"),
        ({}, '{"a": 1}', ["--seconds", "-1"], 3, "seconds of a witness must be above 0"),
        ({}, '{"a": 1}', ["--memory", "0"], 2, "--memory"),
    ],
)  # fmt: skip
def test_invalid_files_are_rejected(
    changes: dict[str, str], inputs: str, options: list[str], code: int, message: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    wasm, inputs_file, out = (tmp_path / name for name in ("circuit.wasm", "inputs.json", "w.wtns"))
    wasm.write_bytes(circuit(**changes))  # type: ignore[arg-type]
    inputs_file.write_text(inputs)
    assert entry.run(["wtns", "calculate", str(wasm), str(inputs_file), str(out), *options]) == code
    said = capsys.readouterr().err
    assert message in said
    assert "778899" not in said
    assert not out.exists()


def test_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "witness", WASM, INPUT, "--threads", "2", "--repeats", "1", "--seconds", "0"]
    assert entry.run([*words, "--json", "--quiet"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["what"] for row in rows] == [
        "open", "witness", "witnesses by threads"
    ]  # fmt: skip
    assert {row["parameters"]["values"] for row in rows} == {3993}
    assert all(row["median"] > 0 for row in rows)
