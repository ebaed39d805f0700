"""Files as a forger, or another program, might write them: one table for both verifiers.

Each row changes the text of one file of an honest set over BN254, and says what a verifier
answers: True, False, or the name of its error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from quod.curve.named import CURVES

Files = dict[str, str]
"""The texts of the files ``key``, ``public`` and ``proof``."""

Q, R = CURVES["bn254"].fq.value, CURVES["bn254"].fr.value

_ABSENT = object()


def put(file: str, path: str, value: Any) -> Callable[[Files], Files]:
    """Another value at a path such as ``IC.0.1``; a function makes it of the one that is there."""

    def changed(files: Files) -> Files:
        document: Any = json.loads(files[file])
        *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
        at = document
        for step in way:
            at = at[step]
        if value is _ABSENT:
            del at[last]
        else:
            at[last] = value(at[last]) if callable(value) else value
        return files | {file: json.dumps(document)}

    return changed


def text(file: str, old: str, new: str) -> Callable[[Files], Files]:
    """The first `old` in the text of a file becomes `new`."""

    def changed(files: Files) -> Files:
        assert old in files[file]
        return files | {file: files[file].replace(old, new, 1)}

    return changed


def whole(file: str, content: str) -> Callable[[Files], Files]:
    return lambda files: files | {file: content}


def _negated(point: Any) -> Any:
    x, y, z = point
    return [x, [str(-int(c) % Q) for c in y], z]


def _copied(file: str, source: str, target: str, change: Callable[[Any], Any] = lambda v: v) -> Any:
    def changed(files: Files) -> Files:
        document = json.loads(files[file])
        document[target] = change(document[source])
        return files | {file: json.dumps(document)}

    return changed


G2 = [*([str(c) for c in pair] for pair in CURVES["bn254"].g2.generator), ["1", "0"]]

TABLE: list[tuple[str, Callable[[Files], Files], bool | str]] = [
    ("as it is", lambda files: files, True),
    # What other provers leave out, and whitespace.
    ("no curve", put("proof", "curve", _ABSENT), True),
    ("no protocol", put("proof", "protocol", _ABSENT), True),
    ("spaces", text("proof", "{", " \n{\t"), True),
    ("more keys", put("proof", "seen", ["1", {"a": 3}]), True),
    ("no pairing in the key", put("key", "vk_alphabeta_12", _ABSENT), True),
    # Another statement.
    ("another input", put("public", "0", lambda v: str(int(v) ^ 1)), False),
    ("another point", put("proof", "pi_c", ["1", "2", "1"]), False),
    # Numbers in other forms.
    ("leading zeros", put("public", "2", "0033"), "InputError"),
    ("a zero in front", put("proof", "pi_a.0", lambda v: "0" + v), "InputError"),
    ("zero twice", put("public", "2", "00"), "InputError"),
    ("a sign", put("public", "0", lambda v: "+" + v), "InputError"),
    ("minus", put("public", "0", "-1"), "InputError"),
    ("a space", put("public", "0", lambda v: v + " "), "InputError"),
    ("a line break", put("public", "0", lambda v: v + "\n"), "InputError"),
    ("hexadecimal", put("public", "0", lambda v: hex(int(v))), "InputError"),
    ("other digits", put("public", "2", "\u0663"), "InputError"),
    ("empty", put("public", "0", ""), "InputError"),
    ("a number without quotes", put("public", "2", 7), "InputError"),
    ("true", put("public", "2", True), "InputError"),
    ("null", put("public", "2", None), "InputError"),
    ("a list", put("public", "2", ["1"]), "InputError"),
    ("x + r", put("public", "0", lambda v: str(int(v) + R)), "InputError"),
    ("x + q", put("proof", "pi_a.0", lambda v: str(int(v) + Q)), "InputError"),
    ("5000 digits", put("public", "0", "1" * 5000), "InputError"),
    # Points in other shapes.
    ("one coordinate more", put("proof", "pi_a", lambda v: [*v, "1"]), "InputError"),
    ("two points for one", put("proof", "pi_a", lambda v: [*v, *v]), "InputError"),
    ("a pair more", put("proof", "pi_b", lambda v: [*v, ["1", "0"]]), "InputError"),
    ("three in a pair", put("proof", "pi_b.0", lambda v: [*v, "0"]), "InputError"),
    ("one coordinate less", put("proof", "pi_a", lambda v: v[:2]), "InputError"),
    ("a point of G1 for G2", _copied("proof", "pi_a", "pi_b"), "InputError"),
    ("a point of G2 for G1", _copied("proof", "pi_b", "pi_a"), "InputError"),
    ("not affine", put("proof", "pi_a.2", "2"), "InputError"),
    ("infinity", put("proof", "pi_c", ["0", "1", "0"]), "InputError"),
    ("z of zero", put("proof", "pi_c.2", "0"), "InputError"),
    ("another infinity in IC", put("key", "IC.1", ["1", "2", "0"]), "InputError"),
    ("off the curve", put("proof", "pi_c.1", lambda v: str(int(v) ^ 1)), "InputError"),
    ("no point", put("proof", "pi_c", None), "InputError"),
    # Documents in other shapes.
    ("a key twice", text("proof", "{", '{"pi_a": ["1", "2", "1"],'), "InputError"),
    ("a key twice, escaped", text("proof", "{", '{"pi\\u005fa": 1,'), "InputError"),
    ("a key twice inside", put("proof", "x", "y"), True),
    ("twice in an object inside", text("proof", "{", '{"x": {"y": 1, "y": 1},'), "InputError"),
    ("a fraction", text("proof", "{", '{"x": 1.0,'), "InputError"),
    ("an exponent", text("proof", "{", '{"x": 1e2,'), "InputError"),
    ("NaN", text("proof", "{", '{"x": NaN,'), "InputError"),
    ("a long number", text("proof", "{", '{"x": 111111111111111111111,'), "InputError"),
    ("a long number with a sign", text("proof", "{", '{"x": -11111111111111111111,'), "InputError"),
    ("half of a pair", text("proof", "{", '{"x": "\\uD800",'), "InputError"),
    ("the other half, in a key", text("proof", "{", '{"\\udc00": 1,'), "InputError"),
    ("a pair", text("proof", "{", '{"x": "\\ud83d\\ude00",'), True),
    ("a twin of a key in escapes", text("proof", "{", '{"\\ud83d\\ude00": 1, "\U0001f600": 2,'),
     "InputError"),
    ("deep", whole("proof", "[" * 100_000), "InputError"),
    ("deep and closed", text("proof", "{", '{"x":' + "[" * 40 + "]" * 40 + ","), "InputError"),
    ("cut off", whole("proof", '{"pi_a": ["1'), "InputError"),
    ("no end of a string", whole("proof", '"' + '\\"' * 50_000 + "\\"), "InputError"),
    ("something behind", whole("public", "[] x"), "InputError"),
    ("a list for a proof", whole("proof", "[]"), "InputError"),
    ("null for a proof", whole("proof", "null"), "InputError"),
    ("an object for a list", whole("public", "{}"), "InputError"),
    ("nothing", whole("proof", ""), "InputError"),
    # Of other kinds.
    ("another protocol", put("proof", "protocol", "plonk"), "InputError"),
    ("another protocol of the key", put("key", "protocol", "plonk"), "InputError"),
    ("a key of no protocol", put("key", "protocol", _ABSENT), "InputError"),
    ("a key of no curve", put("key", "curve", _ABSENT), "InputError"),
    ("another curve", put("proof", "curve", "bls12381"), "MismatchError"),
    ("the curve by another name", put("proof", "curve", "BN254"), True),
    ("the curve by a third name", put("key", "curve", "alt_bn-128"), True),
    ("a list of curves", put("key", "curve", ["bn128"]), "InputError"),
    ("a curve that objects have", put("key", "curve", "constructor"), "InputError"),
    ("no such curve", put("proof", "curve", "secp256k1"), "InputError"),
    ("one input less", put("public", "2", _ABSENT), "MismatchError"),
    ("one input more", whole("public", '["1", "2", "3", "4"]'), "MismatchError"),
    # Keys that disagree with themselves.
    ("nPublic of another IC", put("key", "nPublic", 2), "InputError"),
    ("nPublic of -1", lambda files: put("key", "nPublic", -1)(put("key", "IC", [])(files)),
     "InputError"),
    ("nPublic as text", put("key", "nPublic", "3"), "InputError"),
    ("nPublic of true", put("key", "nPublic", True), "InputError"),
    ("no nPublic", put("key", "nPublic", _ABSENT), "InputError"),
    ("an IC less", put("key", "IC", lambda v: v[:-1]), "InputError"),
    ("no IC", put("key", "IC", []), "InputError"),
    ("a pairing of another shape", put("key", "vk_alphabeta_12.0", []), "InputError"),
    ("alpha at infinity", put("key", "vk_alpha_1", ["0", "1", "0"]), "InputError"),
    ("delta at infinity", put("key", "vk_delta_2", [["0"] * 2, ["1", "0"], ["0"] * 2]),
     "InputError"),
    # Keys with which anyone forges.
    ("delta is gamma", _copied("key", "vk_gamma_2", "vk_delta_2"), "InsecureKeyError"),
    ("delta is -gamma", _copied("key", "vk_gamma_2", "vk_delta_2", _negated), "InsecureKeyError"),
    ("beta is gamma", _copied("key", "vk_gamma_2", "vk_beta_2"), "InsecureKeyError"),
    ("beta is -delta", _copied("key", "vk_delta_2", "vk_beta_2", _negated), "InsecureKeyError"),
    ("alpha is a generator", put("key", "vk_alpha_1", ["1", "2", "1"]), "InsecureKeyError"),
    ("beta is a generator", put("key", "vk_beta_2", G2), "InsecureKeyError"),
]  # fmt: skip
