"""The runtime's JavaScript in Node: types, fields and pairings, witnesses, what sites get of it."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.formats import Witness
from quod.formats.strict_json import CIRCUIT_INPUT, PROOF, PUBLIC, VERIFICATION_KEY
from quod.web.curve_table import render
from quod.web.runtime_text import MODULES, PAGE, runtime_files, stripped
from quod.web.witness_wasm import read_calculator
from tests.groth16.hostile import TABLE
from tests.support.node import program
from tests.web.early_circom import early_calculator

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"
RUNTIME = Path(__file__).resolve().parents[2] / "src" / "quod" / "web" / "runtime"

Node = Callable[..., Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Runs the body of an async function with modules of the runtime, as sites get them."""
    program("snarkjs")  # Node is there where its programs are.
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "package.json").write_text('{"type": "module"}')
    for name, content in runtime_files().items():
        (folder / name).write_bytes(content)

    def run(body: str, **given: Any) -> Any:
        text = f"""
            import * as curve from "./curve.js";
            import * as verify from "./verify.js";
            import * as witness from "./witness.js";
            import * as witnessFile from "./witness_file.js";
            import * as errors from "./errors.js";
            import fs from "node:fs";
            const given = JSON.parse(fs.readFileSync(0, "utf8"));
            const tried = async (f) => {{
                try {{ return ["ok", await f()]; }} catch (e) {{ return [e.name, e.message]; }}
            }};
            const answer = await (async () => {{ {body} }})();
            const plain = (_, v) => typeof v === "bigint" ? String(v) : v;
            process.stdout.write(JSON.stringify(answer, plain));
        """
        (folder / "main.js").write_text(text)
        done = subprocess.run(
            ["node", "main.js"], cwd=folder, input=json.dumps(given), capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


pytestmark = pytest.mark.node


def test_types(tmp_path: Path) -> None:
    packages = Path(program("tsc")).parents[1]
    config = {
        "compilerOptions": {
            "noEmit": True, "checkJs": True, "allowJs": True, "strict": True, "target": "es2023",
            "module": "es2022", "moduleResolution": "bundler", "skipLibCheck": True,
            "lib": ["es2023", "dom", "dom.iterable", "webworker.importscripts"],
            "types": ["@webgpu/types"], "typeRoots": [str(packages)],
        },
        "include": [f"{RUNTIME}/*.js", f"{RUNTIME}/*.d.ts"],
    }  # fmt: skip
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    found = subprocess.run(
        [program("tsc"), "-p", str(tmp_path)], capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


def test_the_runtime_is_small() -> None:
    sizes = {name: len(content) for name, content in runtime_files().items()}
    page = sum(sizes[name] for name in (*MODULES, *PAGE))
    assert page <= 63_000, sizes
    assert sum(sizes[name] for name in MODULES) <= 46_000, sizes
    assert set(runtime_files(page=False)) == {*MODULES, "quod.d.ts"}


def test_every_module_is_written_and_nothing_else_is_there() -> None:
    assert {path.name for path in RUNTIME.iterdir()} == {*MODULES, *PAGE, "quod.d.ts"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/** a */ const a = 1; // b\nconst b = a + +a;\n", "const a=1;\nconst b=a+ +a;\n"),
        ('x = "a  // b" + `c  ${ f("/* d */") }  e`;', 'x="a  // b"+`c  ${ f("/* d */") }  e`;\n'),
        ("const r = /[/ ]+'/g.test( s );", "const r=/[/ ]+'/g.test(s);\n"),
        ("return a in b / c / d", "return a in b/c/d\n"),
        ("f(`${ `}` }  x`) ;", "f(`${ `}` }  x`);\n"),
        ("{\n  a();\n\n  // b\n}\nc()\nd()", "{a();}\nc()\nd()\n"),
    ],
)
def test_stripping_keeps_the_meaning(text: str, expected: str) -> None:
    got = stripped(text)
    assert got.replace(";\n", ";").strip() == expected.replace(";\n", ";").strip()


# --- witnesses that were computed elsewhere


def test_witness_files(node: Node) -> None:
    """What is right, and what is refused, each by its bytes."""
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
    found = node(
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
    assert found[0][0] == "InputError"
    assert [kind for kind, _ in found[1:]] == list(cases.values())
    assert found[1][1] == witness.values.tobytes().hex()


# --- curves and pairings


@pytest.mark.parametrize("name", ["bn254", "bls12_381"])
def test_pairings_are_bilinear(node: Node, name: str) -> None:
    curve = CURVES[name]
    rows = random.Random(name)
    a, b = rows.randrange(1, curve.fr.value), rows.randrange(1, curve.fr.value)
    g1, g2 = g1_group(curve), g2_group(curve)
    p, q = g1.multiply(a, curve.g1.generator), g2.multiply(b, curve.g2.generator)
    product = g1.negate(g1.multiply(a * b % curve.fr.value, curve.g1.generator))
    assert p is not None
    assert q is not None
    assert product is not None
    text = [[str(v) for v in p], [[str(v) for v in c] for c in q], [str(v) for v in product]]
    generator = [[str(v) for v in c] for c in curve.g2.generator]
    found = node(
        """
        const c = curve.curveOf(given.name);
        const big = (v) => Array.isArray(v) ? v.map(big) : BigInt(v);
        const [p, q, n] = big(given.points), g = big(given.generator);
        const pairs = (x, y, z) => verify.pairingProductIsOne(c, [[x, y], [z, g]]);
        return [
            pairs(p, q, n), pairs(p, q, c.g1.neg(n)), pairs(p, g, n), pairs(null, q, null),
            verify.inG2(c, q), c.g1.mul(c.r, p), c.g2.mul(c.r, q),
            c.g1.mul(c.r + 5n, p).map(String),
        ];
        """,
        name=name, points=text, generator=generator,
    )  # fmt: skip
    fifth = g1.multiply(5, p)
    assert fifth is not None
    assert found == [True, False, False, True, True, None, None, [str(v) for v in fifth]]


@pytest.mark.parametrize("name", ["bn254", "bls12_381"])
def test_groups_add_every_pair_of_points(node: Node, name: str) -> None:
    curve = CURVES[name]
    g2 = g2_group(curve)
    points = [None, *(g2.multiply(k, curve.g2.generator) for k in (1, 2, 3))]
    points += [g2.negate(point) for point in points[1:]]
    text = json.loads(json.dumps(points), parse_int=str)
    found = node(
        """
        const { g2 } = curve.curveOf(given.name);
        const big = (v) => v && (Array.isArray(v) ? v.map(big) : BigInt(v));
        const points = given.points.map(big);
        return [points.map((p) => points.map((q) => g2.add(p, q))),
                points.map((p) => [0n, 1n, 2n, 3n, 7n].map((k) => g2.mul(k, p)))];
        """,
        name=name, points=text,
    )  # fmt: skip
    expected = [[g2.add(p, q) for q in points] for p in points]
    multiples = [[g2.multiply(k, p) for k in (0, 1, 2, 3, 7)] for p in points]
    assert found == json.loads(json.dumps([expected, multiples]), parse_int=str)


# --- verification


@pytest.fixture
def proof(tmp_path: Path) -> dict[str, Any]:
    from quod.cli import entry

    out = [tmp_path / "proof.json", tmp_path / "public.json"]
    files = [EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns", *out]
    assert entry.run(["groth16", "prove", *map(str, files), "--quiet"]) == 0
    key = json.loads((EXAMPLE / "verification_key.json").read_text())
    return {
        "key": key,
        "proof": json.loads(out[0].read_text()),
        "publics": json.loads(out[1].read_text()),
    }


def changed(proof: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy in which one thing is another."""
    copy: Any = json.loads(json.dumps(proof))
    *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    at = copy
    for step in way:
        at = at[step]
    at[last] = value(at[last]) if callable(value) else value
    found: dict[str, Any] = copy
    return found


Q = str(CURVES["bn254"].fq.value)
R = CURVES["bn254"].fr.value


CASES = [
    ("proof.pi_a.2", "1", "ok True"),
    ("publics.0", lambda v: str(int(v) + 1), "ok False"),
    ("publics.0", lambda v: str(int(v) + R), "InputError public signal 0 is not below"),
    ("publics.0", 5, "InputError public signal 0 is not a decimal number"),
    ("publics.0", "-1", "InputError public signal 0 is not a decimal number"),
    ("publics", ["1"], "MismatchError the key has 3 public signals, not 1"),
    ("publics", None, "InputError the public signals are not a list"),
    ("proof.pi_a", ["0", "1", "0"], "InputError pi_a is the point at infinity"),
    ("proof.pi_a.0", "1", "InputError pi_a is not on the curve"),
    ("proof.pi_a.0", Q, "InputError pi_a[0] is not below"),
    ("proof.pi_a.2", "2", "InputError pi_a is not affine"),
    ("proof.pi_c", ["1", "2", "1"], "ok False"),
    ("proof.pi_b.0.0", "7", "InputError pi_b is not on the curve"),
    ("proof.pi_b", [["1", "2"]], "InputError pi_b has no three coordinates"),
    ("proof.protocol", "plonk", "InputError the key or the proof is not one of Groth16"),
    ("proof.curve", "bls12381", "MismatchError the proof is of bls12381"),
    ("key.curve", "secp256k1", 'InputError curve "secp256k1" is neither'),
    ("key.vk_gamma_2", [["0", "0"], ["1", "0"], ["0", "0"]], "InputError vk_gamma_2 is the"),
    ("key.IC", None, "InputError the key has no list IC"),
]


def test_verification(node: Node, proof: dict[str, Any]) -> None:
    given = [changed(proof, path, value) for path, value, _ in CASES]
    found = node(
        """
        return Promise.all(given.cases.map(
            ({ key, publics, proof }) => tried(() => verify.verify(key, publics, proof))));
        """,
        cases=given,
    )
    for (path, _, expected), (name, said) in zip(CASES, found, strict=True):
        assert f"{name} {said}".startswith(expected), path


def test_hostile_files_are_answered_as_python_does(node: Node, proof: dict[str, Any]) -> None:
    """See `tests.groth16.test_hostile` for the other verifier."""
    honest = {
        name: json.dumps(proof[own], indent=1)
        for name, own in (("key", "key"), ("public", "publics"), ("proof", "proof"))
    }
    found = node(
        """
        return Promise.all(given.cases.map((files) => tried(() => {
            const [key, publics, proof] =
                ["key", "public", "proof"].map((name) => verify.parseStrict(files[name], name));
            return verify.verify(key, publics, proof);
        })));
        """,
        cases=[change(honest) for _, change, _ in TABLE],
    )
    for (name, _, expected), (kind, said) in zip(TABLE, found, strict=True):
        assert (said if kind == "ok" else kind) == expected, (name, said)


def test_texts_are_limited_by_kind(node: Node) -> None:
    """As `quod.formats.strict_json` limits files; what is at the limit takes no time."""
    kinds = {"proof": PROOF, "publicSignals": PUBLIC, "key": VERIFICATION_KEY}
    limits, found, long, many, twice, seconds = node(
        """
        const { LIMITS } = await import("./files.js");
        const ask = (text, limit) => tried(() => verify.parseStrict(text, "it", limit));
        const found = [];
        for (const limit of Object.values(LIMITS)) {
            const values = (count) => `[${"7,".repeat(count - 1)}7]`;
            found.push(await ask(" ".repeat(limit.length + 1), limit));
            found.push(await ask(values(limit.values + 1), limit));
            found.push([(await ask(values(limit.values), limit))[0], null]);
        }
        const long = await tried(() => witness.parseInput(" ".repeat(LIMITS.input.length + 1)));
        const list = `[${"1,".repeat(LIMITS.input.values)}1]`;
        const many = await tried(() => witness.parseInput(`{"a":${list}}`));
        const twice = await tried(() => witness.parseInput('{"a":1,"b":[{"a":2}],"\\u0061":3}'));
        const begin = performance.now();
        found.push(await ask(`["${"a".repeat(LIMITS.key.length - 4)}"]`, LIMITS.key));
        await ask(`["${"a".repeat(LIMITS.key.length - 2)}`, LIMITS.key);
        return [LIMITS, found, long, many, twice, (performance.now() - begin) / 1000];
        """
    )
    assert limits["input"]["length"] == CIRCUIT_INPUT.most_bytes
    for name, kind in kinds.items():
        assert limits[name] == {"length": kind.most_bytes, "values": kind.most_values}
    for at, limit in enumerate(limits.values()):
        length, values, fits = found[3 * at : 3 * at + 3]
        assert length[0] == values[0] == "InputError"
        assert f"has {limit['length'] + 1} characters, and such may have" in length[1]
        assert f"has more than {limit['values']} values" in values[1]
        assert fits[0] == "ok"
    assert long[0] == many[0] == "InputError"
    assert "more than 524288 values" in many[1]
    assert twice == ["InputError", 'the input has the key "a" twice']
    assert found[-1][0] == "InputError"
    assert "has a string of more than 65536 characters" in found[-1][1]
    assert seconds < 2


def test_an_insecure_key_may_be_allowed(node: Node, proof: dict[str, Any]) -> None:
    key = proof["key"]
    weak = changed({"key": key}, "key.vk_delta_2", key["vk_gamma_2"])["key"]
    found = node(
        """
        const { key, publics, proof } = given;
        const ask = (options) => tried(() => verify.verify(key, publics, proof, options));
        return [await ask(), await ask({ allowInsecure: true })];
        """,
        **{**proof, "key": weak},
    )  # fmt: skip
    assert found[0][0] == "InsecureKeyError"
    assert "quod zkey contribute" in found[0][1]
    assert found[1] == ["ok", False]


def test_keys_and_proofs_of_the_first_snarkjs(node: Node, proof: dict[str, Any]) -> None:
    key = {name: value for name, value in proof["key"].items() if name != "curve"}
    old = {**key, "protocol": "groth", "vk_alfa_1": key["vk_alpha_1"]}
    del old["vk_alpha_1"]
    made = {**proof["proof"], "protocol": "groth"}
    del made["curve"]
    found = node(
        """
        const { key, publics, proof, twice } = given;
        return [await tried(() => verify.verify(key, publics, proof, { allowInsecure: true })),
                await tried(() => verify.verify(twice, publics, proof))];
        """,
        key=old, proof=made, publics=proof["publics"],
        twice={**old, "vk_alpha_1": old["vk_alfa_1"]},
    )  # fmt: skip
    assert found[0] == ["ok", True]
    assert found[1][0] == "InputError"
    assert "vk_alfa_1 occurs together with vk_alpha_1" in found[1][1]


def test_a_test_key_of_quod_is_known(node: Node, tmp_path: Path) -> None:
    from quod.groth16 import ProvingKey, generate_key
    from tests.groth16.circuits import recurrence

    for curve in ("bn254", "bls12_381"):
        r1cs = recurrence(curve, 3).write_r1cs(tmp_path / "c.r1cs")
        wtns = recurrence(curve, 3).write_wtns(tmp_path / "w.wtns")
        generate_key(r1cs, tmp_path / "c.zkey", 1)
        made = ProvingKey.from_zkey(tmp_path / "c.zkey", allow_insecure=True)
        found, public = made.prove(wtns)
        given = {
            "key": json.loads(made.verifying_key.to_json()), "proof": json.loads(found.to_json()),
            "publics": [str(value) for value in public],
        }  # fmt: skip
        first, second = node(
            """
            const { key, publics, proof } = given;
            const ask = (options) => tried(() => verify.verify(key, publics, proof, options));
            return [await ask(), await ask({ allowInsecure: true })];
            """,
            **given,
        )  # fmt: skip
        assert first[0] == "InsecureKeyError"
        assert "test key" in first[1]
        assert second == ["ok", True]


def test_points_outside_the_subgroup_are_refused(node: Node) -> None:
    """BLS12-381 has points on the curve whose order is not r."""
    curve = CURVES["bls12_381"]
    q = curve.fq.value
    x = next(
        x for x in range(1, 100)
        if pow(x**3 + 4, (q - 1) // 2, q) == 1
        and g1_group(curve).multiply(curve.fr.value, (x, pow(x**3 + 4, (q + 1) // 4, q)))
        is not None
    )  # fmt: skip
    point = [str(x), str(pow(x**3 + 4, (q + 1) // 4, q)), "1"]
    g1 = [*map(str, curve.g1.generator), "1"]
    g2 = [*([*map(str, c)] for c in curve.g2.generator), ["1", "0"]]
    key = {
        "protocol": "groth16", "curve": "bls12381", "vk_alpha_1": g1, "vk_beta_2": g2,
        "vk_gamma_2": g2, "vk_delta_2": g2, "nPublic": 0, "IC": [g1],
    }  # fmt: skip
    good = {"protocol": "groth16", "curve": "bls12381", "pi_a": g1, "pi_b": g2, "pi_c": g1}
    for bad in ("pi_a", "pi_c"):
        found = node(
            "return tried(() => verify.verify(given.key, [], given.proof))",
            key=key, proof={**good, bad: point},
        )  # fmt: skip
        assert found == ["InputError", f"{bad} is not in the group of order r"]
    found = node(
        "return tried(() => verify.verify({...given.key, IC: [given.point]}, [], given.proof))",
        key=key, proof=good, point=point,
    )  # fmt: skip
    assert found == ["InputError", "IC[0] is not in the group of order r"]


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
    given = str(wasm or EXAMPLE / "circuit.wasm")
    return node(CALCULATE, wasm=given, texts=texts, curve=curve)


def test_witnesses_are_those_of_circom(node: Node) -> None:
    text = (EXAMPLE / "input.json").read_text()
    expected = Witness.open(EXAMPLE / "witness.wtns").values.astype("<u4").tobytes().hex()
    assert calculate(node, text) == [["ok", expected]]
    # Numbers without quotes, in hexadecimal, as lists of lists, and less their modulus.
    document = json.loads(text)
    document["root"] = str(int(document["root"]) - R)
    document["scope"] = hex(int(document["scope"]))
    document["turns"] = [[int(turn) for turn in document["turns"]]]
    text = json.dumps(document).replace(f'"{document["secret"]}"', document["secret"])
    (found,) = calculate(node, text)
    # Where JSON.parse does not tell the digits of a number, it is refused and never rounded.
    assert found == ["ok", expected] or "write numbers above 2^53 in quotes" in found[1]


WRONG = [
    ({"secret": "1"}, "the input does not satisfy the circuit (Error in template"),
    ({"secret": None}, "secret is null, and must be a whole number"),
    ({"secret": 1.5}, "secret is"),
    ({"secret": "1e3"}, 'secret is "1e3", and must be a whole number'),
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


def test_an_input_that_is_missing_or_none(node: Node) -> None:
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
    assert "more values than the inputs have" in others[0][1]
    assert read_calculator(wasm).variables == len(Witness.open(EXAMPLE / "witness.wtns"))


def test_a_calculator_of_another_field_or_none(node: Node, tmp_path: Path) -> None:
    text = (EXAMPLE / "input.json").read_text()
    ((name, said),) = calculate(node, text, curve="bls12_381")
    assert (name, "another field" in said) == ("MismatchError", True)
    other = tmp_path / "other.wasm"
    other.write_bytes(b"\0asm\x01\0\0\0")
    assert "exports no init" in calculate(node, text, wasm=other)[0][1]
    other.write_bytes((EXAMPLE / "circuit.wasm").read_bytes()[:1000])
    assert calculate(node, text, wasm=other)[0][0] == "InputError"


# --- what is kept for later

CACHES = """
    globalThis.caches = {
        held: new Map(given.held.map((key) => [key, new Map()])),
        async keys() { return [...this.held.keys()]; },
        async delete(key) { return this.held.delete(key); },
        async open(key) {
            if (!this.held.has(key)) this.held.set(key, new Map());
            const kept = this.held.get(key);
            return {
                match: async (request) => kept.get(request.url),
                put: async (request, answer) => void kept.set(request.url, answer),
            };
        },
    };
"""


def test_a_damaged_file_forgets_this_site_alone(node: Node) -> None:
    body = """
        const here = new URL("./", import.meta.url).href;
        const others = [`quod ${here}sub/ 1`, "quod https://other.example/ 1", "somebody else's"];
        given.held = [`quod ${here} 1`, ...others];
        CACHES
        const { checkedFile } = await import("./files.js");
        const table = { a: { bytes: 3, sha256: "00" } };
        const found = await tried(() => checkedFile(async () => new Uint8Array(3), table, "a"));
        return [found, (await caches.keys()).map((key) => key.replace(here, "HERE/"))];
    """.replace("CACHES", CACHES)
    found, left = node(body, held=[])
    assert found[0] == "InputError"
    assert "damaged" in found[1]
    assert left == ["quod HERE/sub/ 1", "quod https://other.example/ 1", "somebody else's"]


def test_files_are_kept_under_the_name_of_the_site(node: Node) -> None:
    body = """
        const listeners = {};
        globalThis.addEventListener = (name, listener) => { listeners[name] = listener; };
        globalThis.registration = { scope: "https://here.example/site/" };
        globalThis.clients = { claim: async () => {} };
        let fetched = 0;
        globalThis.fetch = async () => (fetched++, new Response("new"));
        CACHES
        await import("./offline.js");
        let waited;
        listeners.activate({ waitUntil: (promise) => { waited = promise; } });
        await waited;
        const answers = [];
        for (const url of ["https://here.example/site/a", "https://here.example/site/a", "https://here.example/b"])
        {
            const respondWith = (answer) => answers.push(answer);
            listeners.fetch({ request: { method: "GET", url }, respondWith });
            await answers.at(-1);
            await new Promise((done) => setTimeout(done));
        }
        await Promise.all(answers);
        return [await caches.keys(), answers.length, fetched];
    """.replace("CACHES", CACHES)
    held = ["quod https://here.example/site/ old", "quod https://here.example/ 7", "mine"]
    keys, answered, fetched = node(body, held=held)
    assert keys == [
        "quod https://here.example/ 7",
        "mine",
        "quod https://here.example/site/ VERSION",
    ]
    assert (answered, fetched) == (2, 1)


def test_the_table_of_curves_is_that_of_the_named_ones() -> None:
    """To write it again: python -m quod.web.curve_table > src/quod/web/runtime/curves.js"""
    assert (RUNTIME / "curves.js").read_text() == render()
