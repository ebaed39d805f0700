"""The runtime's witnesses in Node: files of others, and circom's calculators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quod.curve.named import CURVES
from quod.formats import Witness
from quod.web.witness_wasm import read_calculator
from tests.web.early_circom import early_calculator
from tests.web.runtime import EXAMPLE, Node

pytestmark = pytest.mark.node

R = CURVES["bn254"].fr.value


def test_witness_files(node: Node) -> None:
    """Valid and refused files, each by its bytes."""
    data = (EXAMPLE / "witness.wtns").read_bytes()
    witness = Witness.open(EXAMPLE / "witness.wtns")
    prime = CURVES["bn254"].fr.value
    start = len(data) - 32 * len(witness)

    def put(at: int, new: bytes) -> str:
        return (data[:at] + new + data[at + len(new) :]).hex()

    damaged, other = "InputError", "MismatchError"
    cases = {
        data.hex(): "ok",
        "": damaged,
        data[:27].hex(): damaged,
        data[: start - 1].hex(): damaged,
        put(0, b"r1cs"): damaged,
        put(4, b"\1"): damaged,
        put(8, b"\3"): damaged,
        put(12, b"\2"): damaged,
        put(16, b"\x27"): damaged,
        put(20, b"\1"): damaged,
        put(24, bytes(4)): damaged,
        put(24, b"\xff\xff\xff\xff"): damaged,
        put(28, b"\0"): other,
        put(60, b"\0\0"): other,
        put(64, b"\1"): damaged,
        put(68, b"\1"): damaged,
        put(72, b"\1"): damaged,
        put(start, b"\2"): damaged,
        put(start + 32, prime.to_bytes(32, "little")): damaged,
        data[:-1].hex(): damaged,
        (data + b"x").hex(): damaged,
    }
    answers = node(
        """
        const file = new witnessFile.WitnessFile(given.variables, BigInt(given.prime));
        const hex = (bytes) => Buffer.from(bytes).toString("hex");
        const bytes = (text) => new Uint8Array(Buffer.from(text, "hex"));
        const run = (text) => tried(async () => hex(await file.witness(bytes(text))));
        const wrong = await tried(() => file.witness({ a: 1 }));
        return [wrong, ...await Promise.all(given.cases.map(run))];
        """,
        variables=len(witness), prime=str(prime), cases=list(cases),
    )  # fmt: skip
    assert answers[0][0] == "InputError"
    assert [kind for kind, _ in answers[1:]] == list(cases.values())
    assert answers[1][1] == witness.values.tobytes().hex()


# --- witnesses

CALCULATE = """
    const wasm = fs.readFileSync(given.wasm);
    const { r } = curve.curveOf(given.curve);
    const one = await tried(() => witness.WitnessCalculator.load(wasm, r));
    if (one[0] !== "ok") return given.texts.map(() => one);
    const answers = [];
    for (const text of given.texts) {
        const found = await tried(async () => one[1].witness(witness.parseInput(text)));
        answers.push(found[0] === "ok" ? ["ok", Buffer.from(found[1]).toString("hex")] : found);
    }
    return answers;
"""


def calculate(node: Node, *texts: str, curve: str = "bn254", wasm: Path | None = None) -> Any:
    wasm_path = str(wasm or EXAMPLE / "circuit.wasm")
    return node(CALCULATE, wasm=wasm_path, texts=texts, curve=curve)


def test_witnesses_match_circom(node: Node) -> None:
    text = (EXAMPLE / "input.json").read_text()
    expected = Witness.open(EXAMPLE / "witness.wtns").values.astype("<u4").tobytes().hex()
    assert calculate(node, text) == [["ok", expected]]
    # Numbers without quotes, in hexadecimal, as lists of lists, and less their modulus.
    document = json.loads(text)
    document["root"] = str(int(document["root"]) - R)
    document["scope"] = hex(int(document["scope"]))
    document["turns"] = [[int(turn) for turn in document["turns"]]]
    text = json.dumps(document).replace(f'"{document["secret"]}"', document["secret"])
    (answer,) = calculate(node, text)
    # Where JSON.parse does not tell the digits of a number, it is refused and never rounded.
    assert answer == ["ok", expected] or "write numbers above 2^53 in quotes" in answer[1]


WRONG = [
    ({"secret": "1"}, "the input does not satisfy the circuit (Error in template"),
    ({"secret": None}, "secret must be a whole number"),
    ({"secret": 1.5}, "secret must be a whole number"),
    ({"secret": "1e3"}, "secret must be a whole number"),
    ({"secret": str(R)}, "secret is not below the modulus"),
    ({"secret": ["1", "2"]}, "input secret takes 1 value, not 2"),
    ({"turns": ["1"]}, "input turns takes 10 values, not 1"),
    ({"turns": ["2"] * 10}, "the input does not satisfy the circuit"),
    ({"sceret": "1"}, "the circuit has no input sceret"),
    ({"secret": {"x": "1"}}, "the circuit has no input secret.x"),
]


def test_a_wrong_input_is_an_error(node: Node) -> None:
    document = json.loads((EXAMPLE / "input.json").read_text())
    texts = [json.dumps(document | change) for change, _ in WRONG]
    for (change, message), (name, said) in zip(WRONG, calculate(node, *texts), strict=True):
        assert name == "InputError", change
        assert message in said


def test_missing_and_invalid_inputs_are_reported(node: Node) -> None:
    document = json.loads((EXAMPLE / "input.json").read_text())
    del document["scope"]
    texts = [json.dumps(document), "{}", "", "[1]", "null", "7", '"x"', "{"]
    first, *others = calculate(node, *texts)
    assert "some input is missing" in first[1]
    assert {name for name, _ in [first, *others]} == {"InputError"}


@pytest.mark.parametrize("own_memory", [True, False])
def test_calculators_of_the_first_circom_2(node: Node, tmp_path: Path, own_memory: bool) -> None:
    wasm = tmp_path / "early.wasm"
    wasm.write_bytes(early_calculator((EXAMPLE / "circuit.wasm").read_bytes(), own_memory))
    text = (EXAMPLE / "input.json").read_text()
    expected = Witness.open(EXAMPLE / "witness.wtns").values.astype("<u4").tobytes().hex()
    document = json.loads(text)
    unknown = json.dumps(document | {"more": "1"})
    longer = json.dumps(document | {"scope": ["1", "2"]})
    first, *others = calculate(node, text, unknown, longer, wasm=wasm)
    assert first == ["ok", expected]
    assert [name for name, _ in others] == ["InputError"] * 2
    assert "the input has too many values" in others[0][1]
    assert read_calculator(wasm).variables == len(Witness.open(EXAMPLE / "witness.wtns"))


def test_wrong_or_invalid_calculators_are_reported(node: Node, tmp_path: Path) -> None:
    text = (EXAMPLE / "input.json").read_text()
    ((name, said),) = calculate(node, text, curve="bls12_381")
    assert (name, "another field" in said) == ("MismatchError", True)
    other = tmp_path / "other.wasm"
    other.write_bytes(b"\0asm\x01\0\0\0")
    assert "does not export init" in calculate(node, text, wasm=other)[0][1]
    other.write_bytes((EXAMPLE / "circuit.wasm").read_bytes()[:1000])
    assert calculate(node, text, wasm=other)[0][0] == "InputError"
