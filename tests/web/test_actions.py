"""Spends, Outputs and Converts in the runtime's JavaScript, compared with Python's."""

from __future__ import annotations

import hashlib
import json
import re
from hashlib import blake2b, blake2s
from pathlib import Path
from typing import Any

import pytest

from quod.curve.edwards.affine import edwards_group
from quod.curve.edwards.encoding import encode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.groth16.proof import Proof
from quod.r1cs.inputs import Inputs
from quod.web.action import action_to_json
from quod.web.signals import signals_of
from quod.zcash.files.descriptions import description_to_json
from quod.zcash.files.infos import secrets_to_json
from quod.zcash.proofs.description import Description
from quod.zcash.proofs.kinds import KINDS
from tests.web.runtime import Node
from tests.zcash.files.test_infos import WRONG_CONVERTS, WRONG_NOTES, WRONG_SPENDS, json_of, little

pytestmark = pytest.mark.node

READ = """
    const { statement, protocol, texts } = given;
    const reader = new action.Action({ statement, protocol });
    return Promise.all(texts.map((text) => tried(() => reader.read(reader.parse(text)))));
"""
DRAWN = ("alpha", "esk", "rcv")


def read(node: Node, name: str, documents: list[Any]) -> list[Any]:
    """Read documents with the page's code; a text stands for itself."""
    texts = [text if isinstance(text, str) else json.dumps(text) for text in documents]
    answers: list[Any] = node(READ, **action_to_json(KINDS[name]), texts=texts)
    return answers


def as_text(inputs: Inputs) -> dict[str, Any]:
    """Return the inputs of a circuit as the runtime's tests write them."""
    return {
        name: [*map(str, value)] if isinstance(value, tuple) else str(value)
        for name, value in inputs.items()
    }


@pytest.mark.parametrize("name", [*KINDS])
def test_documents_give_the_inputs_of_the_circuit(node: Node, name: str, tmp_path: Path) -> None:
    document, python_reader = json_of(name)
    path = tmp_path / "info.json"
    path.write_text(json.dumps(document))
    file = python_reader(path)
    optional = [field for field in (*DRAWN, "anchor") if field in document]
    drawn = {key: value for key, value in document.items() if key not in optional}
    complete, first, second = read(node, name, [document, drawn, drawn])
    expected = as_text(file.info.inputs)
    got = {key: str(value) if isinstance(value, int) else value
           for key, value in complete[1]["inputs"].items()}  # fmt: skip
    assert got == expected
    assert complete[1]["secrets"] == json.loads(secrets_to_json(file.secrets))
    assert first[0] == second[0] == "ok"
    assert first[1]["inputs"].get("rt") == expected.get("rt")
    for secret in file.secrets:
        assert first[1]["secrets"][secret] != second[1]["secrets"][secret]
        assert (
            int.from_bytes(bytes.fromhex(first[1]["secrets"][secret]), "little") < JUBJUB.fr.value
        )


WITNESS = """
    const { statement, protocol, text, wasm, signals } = given;
    const reader = new action.Action({ statement, protocol });
    const { r } = curve.curveOf("bls12381");
    const { WitnessCalculator } = witness;
    const calculator = await WitnessCalculator.load(fs.readFileSync(wasm), r, signals);
    const values = await calculator.witness(reader.read(reader.parse(text)).inputs);
    const file = witnessFile.witnessFile(values, calculator.variables, r);
    fs.writeFileSync(given.target, file);
    return Buffer.from(await crypto.subtle.digest("SHA-256", values)).toString("hex");
"""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "sapling-output" else pytest.mark.thorough)
        for name in KINDS
    ],
)
def test_documents_give_the_witness_of_python(node: Node, name: str, tmp_path: Path) -> None:
    """The file for programs elsewhere is the one that Python writes."""
    document, python_reader = json_of(name)
    path, circuit = tmp_path / "info.json", KINDS[name].circuit()
    path.write_text(json.dumps(document))
    circuit.write_wasm(tmp_path / "circuit.wasm")
    inputs = python_reader(path).info.inputs
    digest = node(
        WITNESS, **action_to_json(KINDS[name]), text=json.dumps(document),
        wasm=str(tmp_path / "circuit.wasm"), target=str(tmp_path / "page.wtns"),
        signals=[signal.to_json() for signal in signals_of(circuit).signals],
    )  # fmt: skip
    expected = circuit.witness(inputs).values.astype("<u4").tobytes()
    assert digest == hashlib.sha256(expected).hexdigest()
    circuit.write_wtns(tmp_path / "python.wtns", inputs)
    assert (tmp_path / "page.wtns").read_bytes() == (tmp_path / "python.wtns").read_bytes()


@pytest.mark.parametrize("name", ["sapling-output", "masp-output"])
def test_rseed_determines_rcm_and_esk(node: Node, name: str, tmp_path: Path) -> None:
    document, python_reader = json_of(name)
    for field in ("rcm", "esk"):
        del document[field]
    document["rseed"] = "07" * 32
    path = tmp_path / "info.json"
    path.write_text(json.dumps(document))
    esk = {"esk": little(python_reader(path).secrets["esk"])}
    ((_, answer), error, (_, same)) = read(
        node, name, [document, document | {"esk": little(1)}, document | esk]
    )
    assert same["inputs"]["esk"] == answer["inputs"]["esk"]
    expected = as_text(python_reader(path).info.inputs)
    assert {key: answer["inputs"][key] for key in ("rcm", "esk")} == {
        key: expected[key] for key in ("rcm", "esk")
    }
    assert error == ["InputError", "esk: is not the scalar that rseed determines"]


def check_refused(answer: list[str], document: Any, section: str, message: str) -> None:
    """Compare an error with Python's; it shows no secret."""
    kind, text = answer
    assert kind == "InputError", answer
    assert text.startswith(f"{section}: " if section else "the input "), (answer, section)
    assert re.search(message, text), (answer, message)
    for secret in ("nsk", *DRAWN):
        if secret in document:
            assert str(document[secret]) not in text


def test_wrong_documents_are_refused_as_by_the_command(node: Node) -> None:
    spend, _ = json_of("sapling-spend")
    wrong = [(spend | change, section, said) for change, section, said in WRONG_SPENDS]
    for change, section, said in WRONG_NOTES:
        wrong.append((spend | {"note": spend["note"] | change}, section, said))
    convert, _ = json_of("masp-convert")
    converts = [(convert | change, section, said) for change, section, said in WRONG_CONVERTS]
    for name, cases in (("sapling-spend", wrong), ("masp-convert", converts)):
        for field in ("note", "nsk", "weights", "value", "position", "path"):
            if field in cases[0][0]:
                document = {key: value for key, value in cases[0][0].items() if key != field}
                cases.append((document, field, "is missing"))
        answers = read(node, name, [document for document, *_ in cases])
        for answer, (document, section, message) in zip(answers, cases, strict=True):
            check_refused(answer, document, section, message)


def test_texts_that_are_no_documents(node: Node) -> None:
    note, _ = json_of("sapling-output")
    text = json.dumps(note)
    masp_note, _ = json_of("masp-output")
    secret = note["rcm"]
    answers = read(node, "sapling-output", [
        "[]", text[:-1], text[:-1] + f', "rcm": "{secret}"}}', json.dumps(note | {"value": 0.5}),
        masp_note, json.dumps(note)[:-1] + f', "{secret}": 1}}', "[" * 40,
    ])  # fmt: skip
    said = [answer[1] for answer in answers]
    assert [answer[0] for answer in answers] == [
        *["InputError"] * 4,
        "MismatchError",
        "InputError",
        "InputError",
    ]
    assert said[0] == "the input must be an object"
    assert said[1].startswith("the input is not JSON: there is an error at position")
    assert said[2] == 'the input has the key "rcm" twice'
    assert re.search("not an integer|must be a whole number", said[3])
    assert said[4] == "the note has an asset, and this page proves notes of Sapling"
    assert "an unknown field; it may have address, value" in said[5]
    assert not any(secret in text for text in said)


# --- hashes and points


def test_hashes(node: Node) -> None:
    messages = [
        bytes(range(256))[:size] * (1 + size // 256) for size in (0, 1, 63, 64, 65, 128, 129, 256)
    ]
    answers = node(
        """return given.messages.map((hex) => {
            const bytes = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
            return [blake2.blake2s(bytes, "Zcash_gd"), blake2.blake2b(bytes, "Zcash_ExpandSeed")]
                .map((digest) => Buffer.from(digest).toString("hex"));
        });""",
        messages=[message.hex() for message in messages],
    )
    hashes: tuple[Any, Any] = (blake2s, blake2b)
    persons = b"Zcash_gd", b"Zcash_ExpandSeed"
    assert answers == [
        [hash_(message, person=person).hexdigest() for hash_, person in zip(hashes, persons)]
        for message in messages
    ]  # fmt: skip


def test_points_of_jubjub(node: Node) -> None:
    """Encode and decode points of every order; refuse what Python refuses."""
    group, p = edwards_group(JUBJUB), JUBJUB.fq.value
    base = JUBJUB.generator
    points = [(0, 1), base, group.multiply(77, base), (0, p - 1)]
    encodings = [encode_edwards(JUBJUB, point).hex() for point in points]
    wrong = {
        little(p): "not below",
        little(2): "no point",
        little(1 | 1 << 255): "no sign",
        little(p - 1 | 1 << 255): "no sign",
    }
    answers = node(
        """const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
        return Promise.all(given.texts.map((hex) => tried(() => {
            const point = jubjub.decode(bytes(hex));
            const text = Buffer.from(jubjub.encode(point)).toString("hex");
            return [point, jubjub.inSubgroup(point), jubjub.hasSmallOrder(point), text];
        })));""",
        texts=[*encodings, *wrong],
    )
    for answer, point, text in zip(answers, points, encodings, strict=False):
        assert answer == [
            "ok",
            [[*map(str, point)], group.in_subgroup(point), group.has_small_order(point), text],
        ]
    for (kind, said), message in zip(answers[len(points) :], wrong.values(), strict=True):
        assert (kind, message in said) == ("InputError", True), said


# --- descriptions


DESCRIBE = """
    const { statement, protocol, description, changes } = given;
    const reader = new action.Action({ statement, protocol });
    const { publicSignals, proof } = reader.statementOf(description);
    const encoded = { ...reader.encode(publicSignals), proof: reader.encodeProof(proof) };
    const wrong = changes.map((change) => ({ ...description, ...change }));
    const errors = await Promise.all(wrong.map((row) => tried(() => reader.statementOf(row))));
    return [publicSignals, proof, encoded, errors];
"""


@pytest.mark.fixtures
def test_descriptions_of_the_chain(node: Node, shared_fixtures: Path) -> None:
    """Parse Spends and Outputs of the chain as Python does, and write the same bytes again."""
    fixtures = shared_fixtures / "zcash"
    spends = json.loads((fixtures / "mainnet_sapling_spends.json").read_text())
    outputs = json.loads((fixtures / "mainnet_sapling_outputs.json").read_text())
    for name, rows in (("sapling-spend", spends), ("sapling-output", outputs)):
        kind = KINDS[name]
        for row in rows[:3]:
            row.setdefault("proof", row.get("zkproof"))
            parts = [bytes.fromhex(row[field]) for field in (*kind.statement.fields, "proof")]
            expected = Description.from_bytes(kind.statement, parts)
            document = json.loads(description_to_json(expected))
            proof = document["proof"]
            changes = [
                {"cv": little(1)}, {"cv": "00"}, {"proof": "00" * 192}, {"proof": proof[:-2]},
                {"proof": f"{int(proof[:2], 16) & 0x7F:02x}{proof[2:]}"},
                {"proof": proof[:96] + "e0" + proof[98:]},
            ]  # fmt: skip
            publics, parsed, written, errors = node(
                DESCRIBE, **action_to_json(kind), description=document | {"txid": 5},
                changes=changes,
            )  # fmt: skip
            assert publics == [*map(str, expected.statement.public)]
            assert Proof.from_dict(parsed) == expected.proof
            assert written == document
            assert {kind for kind, _ in errors} == {"InputError"}
            said = [message for _, message in errors]
            assert "small order" in said[0]
            assert said[1].startswith("cv: must be 32 bytes")
            assert all(text.startswith("proof: ") for text in said[2:])
