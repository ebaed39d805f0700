"""The runtime's curves, pairings and verifier in Node."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.formats.strict_json import CIRCUIT_INPUT, PROOF, PUBLIC, VERIFICATION_KEY
from tests.groth16.hostile import TABLE
from tests.web.runtime import EXAMPLE, Node

pytestmark = pytest.mark.node

Q = str(CURVES["bn254"].fq.value)
R = CURVES["bn254"].fr.value


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
    answers = node(
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
    assert answers == [True, False, False, True, True, None, None, [str(v) for v in fifth]]


@pytest.mark.parametrize("name", ["bn254", "bls12_381"])
def test_groups_add_every_pair_of_points(node: Node, name: str) -> None:
    curve = CURVES[name]
    g2 = g2_group(curve)
    points = [None, *(g2.multiply(k, curve.g2.generator) for k in (1, 2, 3))]
    points += [g2.negate(point) for point in points[1:]]
    text = json.loads(json.dumps(points), parse_int=str)
    answers = node(
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
    assert answers == json.loads(json.dumps([expected, multiples]), parse_int=str)


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
    changed_proof: dict[str, Any] = copy
    return changed_proof


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
    ("proof.pi_b", [["1", "2"]], "InputError pi_b is not a list of three coordinates"),
    ("proof.protocol", "plonk", "InputError the key or the proof is not for Groth16"),
    ("proof.curve", "bls12381", "MismatchError the proof is on the curve bls12381"),
    ("key.curve", "secp256k1", 'InputError curve "secp256k1" is neither'),
    ("key.vk_gamma_2", [["0", "0"], ["1", "0"], ["0", "0"]], "InputError vk_gamma_2 is the"),
    ("key.IC", None, "InputError the key has no list IC"),
]


def test_verification(node: Node, proof: dict[str, Any]) -> None:
    proofs = [changed(proof, path, value) for path, value, _ in CASES]
    answers = node(
        """
        return Promise.all(given.cases.map(
            ({ key, publics, proof }) => tried(() => verify.verify(key, publics, proof))));
        """,
        cases=proofs,
    )
    for (path, _, expected), (name, said) in zip(CASES, answers, strict=True):
        assert f"{name} {said}".startswith(expected), path


def test_hostile_files_give_the_same_errors_as_python(node: Node, proof: dict[str, Any]) -> None:
    """See `tests.groth16.test_hostile` for the other verifier."""
    honest = {
        name: json.dumps(proof[field], indent=1)
        for name, field in (("key", "key"), ("public", "publics"), ("proof", "proof"))
    }
    answers = node(
        """
        return Promise.all(given.cases.map((files) => tried(() => {
            const [key, publics, proof] =
                ["key", "public", "proof"].map((name) => verify.parseStrict(files[name], name));
            return verify.verify(key, publics, proof);
        })));
        """,
        cases=[change(honest) for _, change, _ in TABLE],
    )
    for (name, _, expected), (kind, said) in zip(TABLE, answers, strict=True):
        assert (said if kind == "ok" else kind) == expected, (name, said)


def test_texts_are_limited_by_kind(node: Node) -> None:
    """As `quod.formats.strict_json` limits files.

    A parser that is quadratic in the length of a string exceeds the time limit of `node`.
    """
    kinds = {"proof": PROOF, "publicSignals": PUBLIC, "key": VERIFICATION_KEY}
    limits, answers, long, many, twice = node(
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
        found.push(await ask(`["${"a".repeat(LIMITS.key.length - 4)}"]`, LIMITS.key));
        await ask(`["${"a".repeat(LIMITS.key.length - 2)}`, LIMITS.key);
        return [LIMITS, found, long, many, twice];
        """
    )
    assert limits["input"]["length"] == CIRCUIT_INPUT.max_bytes
    for name, kind in kinds.items():
        assert limits[name] == {"length": kind.max_bytes, "values": kind.max_values}
    for at, limit in enumerate(limits.values()):
        length, values, fits = answers[3 * at : 3 * at + 3]
        assert length[0] == values[0] == "InputError"
        assert f"has {limit['length'] + 1} characters, and at most" in length[1]
        assert f"has more than {limit['values']} values" in values[1]
        assert fits[0] == "ok"
    assert long[0] == many[0] == "InputError"
    assert "more than 524288 values" in many[1]
    assert twice == ["InputError", 'the input has the key "a" twice']
    assert answers[-1][0] == "InputError"
    assert "has a string of more than 65536 characters" in answers[-1][1]


def test_an_insecure_key_may_be_allowed(node: Node, proof: dict[str, Any]) -> None:
    key = proof["key"]
    weak = changed({"key": key}, "key.vk_delta_2", key["vk_gamma_2"])["key"]
    answers = node(
        """
        const { key, publics, proof } = given;
        const ask = (options) => tried(() => verify.verify(key, publics, proof, options));
        return [await ask(), await ask({ allowInsecure: true })];
        """,
        **{**proof, "key": weak},
    )  # fmt: skip
    assert answers[0][0] == "InsecureKeyError"
    assert "quod zkey contribute" in answers[0][1]
    assert answers[1] == ["ok", False]


def test_keys_and_proofs_of_the_first_snarkjs(node: Node, proof: dict[str, Any]) -> None:
    key = {name: value for name, value in proof["key"].items() if name != "curve"}
    old = {**key, "protocol": "groth", "vk_alfa_1": key["vk_alpha_1"]}
    del old["vk_alpha_1"]
    old_proof = {**proof["proof"], "protocol": "groth"}
    del old_proof["curve"]
    answers = node(
        """
        const { key, publics, proof, twice } = given;
        return [await tried(() => verify.verify(key, publics, proof, { allowInsecure: true })),
                await tried(() => verify.verify(twice, publics, proof))];
        """,
        key=old, proof=old_proof, publics=proof["publics"],
        twice={**old, "vk_alpha_1": old["vk_alfa_1"]},
    )  # fmt: skip
    assert answers[0] == ["ok", True]
    assert answers[1][0] == "InputError"
    assert "vk_alfa_1 occurs together with vk_alpha_1" in answers[1][1]


def test_insecure_test_key_is_recognised(node: Node, tmp_path: Path) -> None:
    from quod.groth16 import ProvingKey, generate_key
    from tests.groth16.circuits import recurrence

    for curve in ("bn254", "bls12_381"):
        r1cs = recurrence(curve, 3).write_r1cs(tmp_path / "c.r1cs")
        wtns = recurrence(curve, 3).write_wtns(tmp_path / "w.wtns")
        generate_key(r1cs, tmp_path / "c.zkey", 1)
        pk = ProvingKey.from_zkey(tmp_path / "c.zkey", allow_insecure=True)
        key_proof, public = pk.prove(wtns)
        documents = {
            "key": json.loads(pk.verifying_key.to_json()), "proof": json.loads(key_proof.to_json()),
            "publics": [str(value) for value in public],
        }  # fmt: skip
        first, second = node(
            """
            const { key, publics, proof } = given;
            const ask = (options) => tried(() => verify.verify(key, publics, proof, options));
            return [await ask(), await ask({ allowInsecure: true })];
            """,
            **documents,
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
        error = node(
            "return tried(() => verify.verify(given.key, [], given.proof))",
            key=key, proof={**good, bad: point},
        )  # fmt: skip
        assert error == ["InputError", f"{bad} is not in the group of order r"]
    error = node(
        "return tried(() => verify.verify({...given.key, IC: [given.point]}, [], given.proof))",
        key=key, proof=good, point=point,
    )  # fmt: skip
    assert error == ["InputError", "IC[0] is not in the group of order r"]
