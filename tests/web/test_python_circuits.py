"""Sites of circuits in Python: their form, their witnesses in Node, and a page in Chromium."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from quod import r1cs
from quod.cli import entry
from quod.errors import MismatchError
from quod.groth16 import generate_key
from quod.r1cs.functions.source import circuit_of_source
from quod.r1cs.reference import poseidon_hash
from quod.web.serve import HEADERS
from quod.web.signals import signals_of
from quod.web.site import export_site
from tests.r1cs.calculator.agreement import interface_inputs
from tests.r1cs.test_signature import VALUES, all_types
from tests.support.browser import Browser, Page
from tests.support.node import run_program
from tests.support.site import serve
from tests.web.runtime import Node
from tests.web.test_page import ENDED, READY

AGE = """
from typing import Annotated

from quod import r1cs
from quod.r1cs import gadgets


def age(
    system: r1cs.ConstraintSystem,
    latest: r1cs.Public,
    card: r1cs.Public,
    birthday: Annotated[r1cs.PrivateBits, 16],
    salt: Annotated[r1cs.PrivateBytes, 16],
) -> None:
    days = system.pack(birthday)
    system.bits(latest, 16)
    with system.namespace("early"):
        gadgets.assert_at_most(system, days, latest, 16)
    system.assert_equal(gadgets.poseidon_hash(system, [days, system.pack(salt)]), card)


def older(system: r1cs.ConstraintSystem, latest: r1cs.Public, card: r1cs.Public) -> None:
    birthday = system.private_bits("birthday", 16)
    age(system, latest, card, birthday, system.private_bytes("salt", 16)[::-1])


def halved(system: r1cs.ConstraintSystem) -> None:
    system.hint(lambda x: x // 2, [system.private("x")])
"""
SALT = bytes(range(100, 116))
BIRTHDAY, LATEST = 36_524, 39_773
CARD = poseidon_hash([BIRTHDAY, int.from_bytes(SALT, "little")])
INPUT = {"latest": LATEST, "card": str(CARD), "birthday": BIRTHDAY, "salt": SALT.hex()}
# What a visitor enters; the page publishes the other input as its example.
OTHER_SALT, OTHER_BIRTHDAY = bytes(range(200, 216)), 31_337
OTHER_CARD = poseidon_hash([OTHER_BIRTHDAY, int.from_bytes(OTHER_SALT, "little")])
OTHER = {
    "latest": LATEST, "card": str(OTHER_CARD), "birthday": OTHER_BIRTHDAY, "salt": OTHER_SALT.hex()
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the circuit, its constraint system and a key."""
    folder = tmp_path_factory.mktemp("age")
    (folder / "age.py").write_text(AGE)
    files = [str(folder / f"age.{suffix}") for suffix in ("sym", "wasm")]
    command = ["r1cs", "compile", f"{folder}/age.py:age", str(folder / "age.r1cs"), "--quiet"]
    assert entry.run([*command, "--sym", files[0], "--wasm", files[1]]) == 0
    generate_key(folder / "age.r1cs", folder / "age.zkey", seed=1)
    return folder


@pytest.fixture(scope="module")
def exported(project: Path) -> Path:
    (project / "input.json").write_text(json.dumps(INPUT))
    options = ["--key", f"{project}/age.zkey", "--input", f"{project}/input.json", "--quiet"]
    command = ["export-web", f"{project}/age.py:age", *options, "-o", f"{project}/site"]
    assert entry.run([*command, "--name", "Old enough", "--insecure-test-key"]) == 0
    return project / "site"


def test_site_describes_the_inputs(project: Path, exported: Path) -> None:
    site = json.loads((exported / "site.json").read_text())
    assert site["signals"] == [
        {"name": "latest", "dims": [], "public": True, "kind": "field"},
        {"name": "card", "dims": [], "public": True, "kind": "field"},
        {"name": "birthday", "dims": [16], "public": False, "kind": "bits"},
        {"name": "salt", "dims": [128], "public": False, "kind": "bytes"},
    ]
    assert site["publics"] == ["latest", "card"]
    assert site["example"]["salt"] == SALT.hex()
    assert (exported / "witness.wasm").read_bytes() == (project / "age.wasm").read_bytes()


def test_calculator_of_the_command(project: Path) -> None:
    """Other commands compute witnesses with the calculator; bits and bytes are lists of bits."""
    circuit = circuit_of_source(f"{project}/age.py:age", "bn254")
    bits = interface_inputs(circuit, {**INPUT, "card": CARD, "salt": SALT})
    (project / "bits.json").write_text(json.dumps(bits))
    files = [str(project / name) for name in ("age.wasm", "bits.json", "age.wtns")]
    assert entry.run(["wtns", "calculate", *files, "--quiet"]) == 0
    check = [str(project / name) for name in ("age.r1cs", "age.wtns", "age.sym")]
    assert entry.run(["wtns", "check", *check, "--quiet"]) == 0


@pytest.mark.node
def test_snarkjs_runs_the_calculator(project: Path, tmp_path: Path) -> None:
    """Its witness is that of Python, byte for byte."""
    circuit = circuit_of_source(f"{project}/age.py:age", "bn254")
    values = {**INPUT, "card": CARD, "salt": SALT}
    circuit.write_wtns(tmp_path / "python.wtns", values)
    # JavaScript rounds numbers above 2^53.
    inputs = interface_inputs(circuit, values) | {"card": str(CARD)}
    (tmp_path / "bits.json").write_text(json.dumps(inputs))
    files = [project / "age.wasm", tmp_path / "bits.json", tmp_path / "snarkjs.wtns"]
    done = run_program("snarkjs", "wtns", "calculate", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    witnesses = [(tmp_path / f"{name}.wtns").read_bytes() for name in ("python", "snarkjs")]
    assert witnesses[0] == witnesses[1]


CALCULATE = """
    const wasm = fs.readFileSync(given.wasm);
    const { r } = curve.curveOf("bn254");
    const calculator = await witness.WitnessCalculator.load(wasm, r, given.signals);
    const answers = [];
    for (const text of given.texts) {
        const result = await tried(async () => calculator.witness(witness.parseInput(text)));
        answers.push(result[0] === "ok" ? ["ok", Buffer.from(result[1]).toString("hex")] : result);
    }
    return answers;
"""


def calculate(node: Node, folder: Path, circuit: r1cs.Circuit, texts: list[str]) -> Any:
    circuit.write_wasm(folder / "circuit.wasm")
    signals = [signal.to_json() for signal in signals_of(circuit).signals]
    return node(CALCULATE, wasm=str(folder / "circuit.wasm"), signals=signals, texts=texts)


@pytest.mark.node
def test_all_types_of_inputs(node: Node, tmp_path: Path) -> None:
    circuit = r1cs.trace(all_types)
    expected = circuit.witness(VALUES).values.astype("<u4").tobytes().hex()
    document = {**VALUES, "f": "0180ff"}
    others: list[dict[str, Any]] = [
        {"f": "0x0180FF", "e": "200"},
        {"e": "0xc8", "g": ["8", "0x9"]},
        {"e": [200 >> index & 1 for index in range(8)]},
    ]
    texts = [json.dumps({**document, **change}) for change in [{}, *others]]
    assert calculate(node, tmp_path, circuit, texts) == [["ok", expected]] * len(texts)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"birthday": 65_536}, "birthday must be a number of 16 bits"),
    ({"birthday": -3}, "birthday must be a number of 16 bits"),
    ({"birthday": "7654321x"}, "birthday must be a whole number"),
    ({"birthday": "7" * 500}, "birthday has too many digits"),
    ({"birthday": None}, "birthday must be a whole number"),
    ({"birthday": [1, 0]}, "input birthday takes 16 values, not 2"),
    ({"birthday": [7654321] * 16}, "the input does not satisfy the circuit (age.py:8)"),
    ({"salt": "7654321"}, "salt must be 16 bytes, as 32 hexadecimal digits"),
    ({"salt": "g" * 32}, "salt must be 16 bytes"),
    ({"salt": 7654321}, "salt must be 16 bytes"),
    ({"card": [1, 7654321]}, "input card takes 1 value, not 2"),
    ({"card": {"x": "7654321"}}, "the circuit has no input card.x"),
    ({"card": "7654321e"}, "card must be a whole number"),
    ({"card": 7654321.5}, "card must be a whole number"),
    ({"other": "7654321"}, "the circuit has no input other"),
    ({"birthday": 39_774}, "the input does not satisfy the circuit (age.py:18, in early)"),
    ({"card": "7654321"}, "the input does not satisfy the circuit (age.py:19)"),
]


@pytest.mark.node
def test_errors_name_the_input_or_the_line_and_no_value(
    node: Node, project: Path, tmp_path: Path
) -> None:
    circuit = circuit_of_source(f"{project}/age.py:age", "bn254")
    texts = [json.dumps({**INPUT, **change}) for change, _ in WRONG]
    missing = json.dumps({name: value for name, value in INPUT.items() if name != "salt"})
    malformed = [missing, '{"salt": 7654321, "x": }', "[7654321]", '"7654321"', '{"salt": 7654321']
    answers = calculate(node, tmp_path, circuit, [*texts, *malformed])
    for (change, message), (name, said) in zip(WRONG, answers, strict=False):
        assert (name, message in said) == ("InputError", True), (change, said)
    assert answers[len(WRONG)][1] == "input salt is missing"
    for name, said in answers:
        assert name == "InputError"
        assert not any(value in said for value in ("7654321", SALT.hex()[:8], str(BIRTHDAY)))


def test_refused_exports(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refuse keys of other circuits, hints in Python, and options of circom's circuits."""
    key, out = ["--key", f"{project}/age.zkey"], ["-o", f"{tmp_path}/site", "--insecure-test-key"]

    def refused(*words: str) -> tuple[int, str]:
        code = entry.run(["export-web", *words, *out])
        return code, capsys.readouterr().err

    code, text = refused(f"{project}/age.py:age")
    assert (code, "name its proving key with --key" in text) == (2, True)
    code, text = refused(f"{project}/age.py:older", *key)
    assert (code, "has other constraints than the circuit" in text) == (4, True)
    code, text = refused(f"{project}/age.py:halved", *key)
    assert (code, "belong to different circuits" in text) == (4, True)
    code, text = refused(f"{project}/age.py:ages", *key)
    assert (code, "did you mean age?" in text) == (3, True)
    code, text = refused(f"{project}/age.py:age", *key, "--sym", f"{project}/age.sym")
    assert (code, "for circuits of circom" in text) == (2, True)
    words = [f"{project}/age.py:halved", f"{tmp_path}/x.r1cs", "--wasm", f"{tmp_path}/x.wasm"]
    assert entry.run(["r1cs", "compile", *words]) == 3
    assert "<lambda> (age.py:28) is a Python function" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_key_over_another_curve(project: Path, tmp_path: Path) -> None:
    circuit = circuit_of_source(f"{project}/age.py:halved", "bls12_381")
    with pytest.raises(MismatchError, match="is over bn254 and the circuit over bls12_381"):
        export_site(
            project / "age.zkey", None, tmp_path / "site", circuit=circuit, allow_insecure=True
        )


TRACES = """async (secrets) => {
    const texts = [location.href, document.cookie, document.title, history.state];
    for (const storage of [localStorage, sessionStorage]) texts.push(JSON.stringify(storage));
    texts.push(JSON.stringify(await indexedDB.databases()));
    const files = {};
    for (const key of await caches.keys()) {
        const cache = await caches.open(key);
        for (const request of await cache.keys()) {
            const content = await (await cache.match(request)).arrayBuffer();
            const digest = await crypto.subtle.digest("SHA-256", content);
            files[request.url] = [...new Uint8Array(digest)];
        }
    }
    texts.push(JSON.stringify(performance.getEntriesByType("resource").map((entry) => entry.name)));
    const folder = await navigator.storage.getDirectory();
    for await (const name of folder.keys()) texts.push(name);
    return [files, secrets.filter((secret) => texts.some((text) => String(text).includes(secret)))];
}"""


def enter(page: Page, birthday: int) -> None:
    for name, value in {**OTHER, "birthday": birthday}.items():
        page.fill(f"#in-{name}", str(value))


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_from_the_form_to_a_proof_without_a_network(
    browser: Browser, exported: Path, tmp_path: Path
) -> None:
    """Nothing that is entered leaves the page or stays behind it."""
    secrets = [str(OTHER_BIRTHDAY), OTHER_SALT.hex(), "39774"]
    with serve(exported, HEADERS) as site, browser.page() as page:
        page.navigate(site.url)
        page.wait_for(READY)
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        page.navigate(site.url)
        page.wait_for("!document.querySelector('#prove').disabled")
        page.wait_for("!!navigator.serviceWorker.controller")
        labels = {name: page.text(f"label[for=in-{name}]") for name in INPUT}
        assert "a number of 16 bits; stays secret" in labels["birthday"]
        assert "16 bytes, as 32 hexadecimal digits; stays secret" in labels["salt"]
        assert labels["latest"].endswith("public")
        page.screenshot("web-python-form")
        page.click("#example")
        page.click("#prove")
        # The files are there once the first proof has begun; its end needs no network.
        page.wait_for("/witness|MSM|Done/.test(document.querySelector('#step').textContent)", 900)
        page.set_offline()
        page.wait_for(ENDED, timeout=1500)
        assert page.text("#problem") == ""

        enter(page, 39_774)
        page.click("#prove")
        page.wait_for("document.querySelector('#work').hidden", timeout=900)
        message = "The input does not satisfy the circuit (age.py:18, in early)."
        assert page.text("#problem") == message
        page.screenshot("web-python-refused")
        enter(page, OTHER_BIRTHDAY)
        page.click("#prove")
        page.wait_for("document.querySelector('#work').hidden", timeout=900)
        assert page.text("#problem") == ""
        assert json.loads(page.text("#public")) == [str(LATEST), str(OTHER_CARD)]
        page.screenshot("web-python-proof")
        proof, public = json.loads(page.text("#proof")), json.loads(page.text("#public"))
        cached, traces = page.call(TRACES, secrets)
        assert traces == []
        for url, digest in cached.items():
            name = url.removeprefix(site.url) or "index.html"
            assert digest == [*hashlib.sha256((exported / name).read_bytes()).digest()]
        assert page.console == page.exceptions == []
        urls = [*page.requests, *site.requests]
        assert not [url for url in urls for secret in secrets if secret in url]
        assert {url.split("/")[2] for url in page.requests} == {site.url.split("/")[2]}
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    (tmp_path / "public.json").write_text(json.dumps(public))
    files = [exported / "verification_key.json", tmp_path / "public.json", tmp_path / "proof.json"]
    verify = ["groth16", "verify", *map(str, files), "--quiet", "--insecure-test-key"]
    assert entry.run(verify) == 0
