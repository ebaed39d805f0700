from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from quod.curve.named import CURVES
from quod.errors import InputError, MismatchError
from quod.formats import (
    ProofJson,
    VerifyingKeyJson,
    parse_proof,
    parse_public,
    parse_verification_key,
    proof_to_json,
    public_to_json,
    read_proof,
    read_public,
    read_verification_key,
    verification_key_to_json,
)
from tests.formats.tiny import DATA, TINY_CURVES, refused, tiny_witness

FQ = CURVES["bn254"].fq.value
FR = CURVES["bn254"].fr.value
PROOF: dict[str, Any] = json.loads((DATA / "bn254" / "proof.json").read_text())
KEY: dict[str, Any] = json.loads((DATA / "bn254" / "verification_key.json").read_text())


def stored(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "file.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def changed(document: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """A copy with the value at ``key.index.index`` replaced, or removed if it is Ellipsis."""
    result = copy.deepcopy(document)
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    target: Any = result
    for part in path:
        target = target[part]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return result


def check_rewriting(folder: Path, proof: str) -> None:
    key = read_verification_key(folder / "verification_key.json")
    text = (folder / "verification_key.json").read_bytes()
    assert verification_key_to_json(key) == text
    public = read_public(folder / "public.json", curve=key.curve)
    assert public_to_json(public) == (folder / "public.json").read_bytes()
    assert len(public) == key.public
    parsed = read_proof(folder / proof, curve=key.curve)
    assert parsed == read_proof(folder / proof)
    text = (folder / proof).read_bytes()
    if text.startswith(b"{\n  "):  # this one was written by another program, with other spaces
        assert json.loads(proof_to_json(parsed)) == json.loads(text)
    else:
        assert proof_to_json(parsed) == text


@pytest.mark.parametrize("curve", TINY_CURVES)
def test_rewritten_files_match_snarkjs_bytes(curve: str) -> None:
    check_rewriting(DATA / curve, "proof.json")
    assert list(read_public(DATA / curve / "public.json", curve=curve)) == tiny_witness(curve)[1:3]


@pytest.mark.fixtures
def test_rewriting_shared_fixtures(shared_fixtures: Path) -> None:
    folders = sorted(path.parent for path in shared_fixtures.glob("circom/*/circom.proof"))
    assert len(folders) >= 9
    for folder in folders:
        check_rewriting(folder, "circom.proof")


def test_values_are_plain_integers() -> None:
    proof = read_proof(DATA / "bn254" / "proof.json")
    assert proof.a == (int(PROOF["pi_a"][0]), int(PROOF["pi_a"][1]))
    assert proof.b is not None
    assert proof.b[1] == (int(PROOF["pi_b"][1][0]), int(PROOF["pi_b"][1][1]))
    x, y = proof.a
    assert (y * y - x**3 - 3) % FQ == 0
    with pytest.raises(AttributeError):
        proof.a = None  # type: ignore[misc]


def test_infinity_as_snarkjs_writes_it(tmp_path: Path) -> None:
    proof = ProofJson("bn254", None, None, (1, 2))
    text = proof_to_json(proof)
    assert json.loads(text)["pi_a"] == ["0", "1", "0"]
    assert json.loads(text)["pi_b"] == [["0", "0"], ["1", "0"], ["0", "0"]]
    assert read_proof(stored(tmp_path, text.decode())) == proof


def test_no_public_inputs(tmp_path: Path) -> None:
    # The line break is snarkjs's.
    assert public_to_json(()) == b"[\n]"
    assert read_public(stored(tmp_path, "[\n]"), curve="bn254") == ()
    assert read_public(stored(tmp_path, "[]"), curve="bn254") == ()


@pytest.mark.parametrize("name", ["bn128", "bn254", "BN254", "alt_bn128"])
def test_names_of_the_curve(tmp_path: Path, name: str) -> None:
    assert read_proof(stored(tmp_path, changed(PROOF, "curve", name))).curve == "bn254"
    assert read_verification_key(stored(tmp_path, changed(KEY, "curve", name))).curve == "bn254"


def test_proof_without_a_curve_uses_the_key_curve(tmp_path: Path) -> None:
    path = stored(tmp_path, changed(PROOF, "curve", ...))
    assert read_proof(path, curve="bn254").curve == "bn254"
    with pytest.raises(InputError, match='"curve" is missing'):
        read_proof(path)


def test_files_that_name_no_protocol(tmp_path: Path) -> None:
    # Older snarkjs and rapidsnark leave it out, the curve as well.
    bare = changed(changed(PROOF, "protocol", ...), "curve", ...)
    proof = read_proof(stored(tmp_path, bare), curve="bn254")
    assert proof == read_proof(DATA / "bn254" / "proof.json")
    # Every program writes it into keys, and the page asks for it there.
    with pytest.raises(InputError, match='"protocol"'):
        read_verification_key(stored(tmp_path, changed(KEY, "protocol", ...)))


OLD_NAMES = {"vk_alpha_1": "vk_alfa_1", "vk_alphabeta_12": "vk_alfabeta_12"}


def old_form(document: dict[str, Any]) -> dict[str, Any]:
    """A key or a proof as snarkjs 0.1 wrote it."""
    old = {OLD_NAMES.get(name, name): value for name, value in document.items()}
    return {**{name: old[name] for name in old if name != "curve"}, "protocol": "groth"}


def test_keys_and_proofs_of_the_first_snarkjs() -> None:
    key = parse_verification_key(json.dumps(old_form(KEY)))
    assert key == parse_verification_key(json.dumps(KEY))
    assert key.alphabeta is not None
    for curve in (None, "bn254"):
        assert parse_proof(json.dumps(old_form(PROOF)), curve=curve) == parse_proof(
            json.dumps(PROOF)
        )
    # What is written is of today's form.
    assert json.loads(verification_key_to_json(key)) == KEY
    # Some of its successors named the curve already.
    named = old_form(KEY) | {"curve": "bn128"}
    assert parse_verification_key(json.dumps(named)) == key


@pytest.mark.parametrize("curve", ["bls12_381", "bls12_377"])
def test_proof_of_the_first_snarkjs_is_bn254_only(curve: str) -> None:
    with pytest.raises(MismatchError, match="the proof is over bn254"):
        parse_proof(json.dumps(old_form(PROOF)), curve=curve)


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (old_form(KEY) | {"vk_alpha_1": KEY["vk_alpha_1"]}, '"vk_alfa_1" occurs together with'),
        (old_form(KEY) | {"vk_alfa_1": ["1", "2"]}, "vk_alfa_1 must have 3 elements"),
        (old_form(KEY) | {"vk_alfabeta_12": [[]]}, "vk_alfabeta_12 must have 2 elements"),
        (old_form(KEY) | {"curve": "goldilocks"}, '"curve" must be one of'),
        ({**KEY, "protocol": "original"}, '"protocol" must be "groth16", not "original"'),
        (changed(KEY, "curve", ...), '"curve" is missing'),
    ],
)
def test_old_formats_are_parsed_strictly(document: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as error:
        parse_verification_key(json.dumps(document))
    refused(error, part)


def test_text_and_bytes_are_read_as_files_are() -> None:
    folder = DATA / "bn254"
    for name, parse, read in (
        ("proof.json", parse_proof, read_proof),
        ("verification_key.json", parse_verification_key, read_verification_key),
        (
            "public.json",
            lambda data: parse_public(data, curve="bn254"),
            lambda path: read_public(path, curve="bn254"),
        ),
    ):
        data = (folder / name).read_bytes()
        assert parse(data) == parse(data.decode()) == read(folder / name)  # type: ignore[operator]


def test_parse_errors_name_the_document_kind() -> None:
    for parse, name in (
        (parse_proof, "proof"),
        (parse_verification_key, "verification key"),
    ):
        with pytest.raises(InputError, match=f"^{name}: the document must be an object"):
            parse("[]")
    with pytest.raises(InputError, match=r"^public inputs: \[0\] must be a decimal string"):
        parse_public("[1]", curve="bn254")
    with pytest.raises(InputError, match=r"^request 7, offset 1: "):
        parse_proof("{", name="request 7")
    with pytest.raises(InputError, match="half of a pair of surrogates"):
        parse_proof('{"pi_a": "\ud800"}')
    with pytest.raises(InputError, match="must be given as str or bytes, not int"):
        parse_public(10**9, curve="bn254")  # type: ignore[arg-type]


def test_proof_over_another_curve_than_the_key() -> None:
    with pytest.raises(MismatchError, match="over bls12_381 and the verifying key over bn254"):
        read_proof(DATA / "bls12_381" / "proof.json", curve="bn254")


BAD_NUMBERS = [
    (7, 'must be a decimal string such as "7", not a number'),
    (True, "not true or false"),
    (None, "not null"),
    (["1"], "not a list"),
    ("", "must be a decimal integer"),
    ("-1", "must be a decimal integer without sign"),
    ("+1", "must be a decimal integer without sign"),
    ("07", "leading zeros"),
    (" 7", "spaces"),
    ("7\n", "spaces"),
    ("0x7", 'not "0x7"'),
    ("1e3", 'not "1e3"'),
    ("1_000", 'not "1_000"'),
    ("٧", "must be a decimal integer"),
    ("NaN", 'not "NaN"'),
]


@pytest.mark.parametrize(("value", "part"), BAD_NUMBERS)
def test_bad_numbers(tmp_path: Path, value: object, part: str) -> None:
    for place, key in (("pi_a.1", "pi_a[1]"), ("pi_b.1.0", "pi_b[1][0]"), ("pi_c.2", "pi_c[2]")):
        with pytest.raises(InputError) as error:
            read_proof(stored(tmp_path, changed(PROOF, place, value)))
        refused(error, str(tmp_path / "file.json"), key, part)
    with pytest.raises(InputError) as error:
        read_public(stored(tmp_path, ["1", value]), curve="bn254")
    refused(error, "[1] must be", part)


# The last is longer than Python's own limit on reading integers.
@pytest.mark.parametrize("text", [str(FQ), str(FQ + 1), "1" * 160, "1" * 161, "1" * 5000])
def test_numbers_at_or_above_the_modulus(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"pi_b\[0\]\[1\] must be below the modulus bn254.fq"):
        read_proof(stored(tmp_path, changed(PROOF, "pi_b.0.1", text)))


def test_public_input_plus_r_is_refused(tmp_path: Path) -> None:
    assert read_public(stored(tmp_path, [str(FR - 1)]), curve="bn254") == (FR - 1,)
    for value in (FR, FR + 5):
        with pytest.raises(InputError, match=r"\[0\] must be below the modulus bn254.fr"):
            read_public(stored(tmp_path, [str(value)]), curve="bn254")


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        (changed(PROOF, "pi_a", ...), ['"pi_a" is missing']),
        (changed(PROOF, "pi_b", ...), ['"pi_b" is missing']),
        (changed(PROOF, "protocol", None), ['"protocol" must be "groth16", not null']),
        (changed(PROOF, "protocol", "plonk"), ['"protocol" must be "groth16", not "plonk"']),
        (changed(PROOF, "curve", "secp256k1"), ['"curve" must be one of bn254', '"secp256k1"']),
        (changed(PROOF, "curve", 3), ['"curve" must be one of']),
        (changed(PROOF, "curve", ["x" * 100]), ["..."]),
        (changed(PROOF, "pi_a", PROOF["pi_a"][:2]), ["pi_a must have 3 elements, not 2"]),
        (changed(PROOF, "pi_a", PROOF["pi_a"] + ["1"]), ["pi_a must have 3 elements, not 4"]),
        (changed(PROOF, "pi_b.1", ["1"]), ["pi_b[1] must have 2 elements, not 1"]),
        (changed(PROOF, "pi_b", "1"), ["pi_b must be a list, not a string"]),
        (changed(PROOF, "pi_a.2", "2"), ["pi_a[2] must be 1", "affine"]),
        (changed(PROOF, "pi_a.2", "0"), ["pi_a[2] must be 1", "infinity is 0, 1, 0"]),
        (changed(PROOF, "pi_b.2", ["1", "1"]), ["pi_b[2] must be 1"]),
        (["1"], ["the document must be an object (a proof), not a list"]),
        ("", ["is empty"]),
        ("{", ["offset 1", "is not JSON"]),
        ('{"pi_a": NaN}', ["holds a value that is not a number", "NaN"]),
        ('{"pi_a": -Infinity}', ["a value that is not a number", "-Infinity"]),
        ('{"pi_a": 1.5}', ["holds a fraction", "1.5"]),
        ('{"pi_a": 1e999}', ["holds a fraction"]),
        ('{"pi_a": 123456789012345678901}', ["a number with too many digits", "as strings"]),
        ('{"pi_a": ' + "1" * 10000 + "}", ["a number with too many digits", "..."]),
        ('{"pi_a": 1, "pi_a": 2}', ['"pi_a" occurs twice']),
        ('{"x": {"y": 1, "y": 1}}', ['"y" occurs twice']),
        ("[" * 50_000, ["is nested too deeply"]),
        ('{"a": 1} x', ["offset 9", "is not JSON (Extra data"]),
    ],
)
def test_damaged_proof(tmp_path: Path, document: object, parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        read_proof(stored(tmp_path, document))
    refused(error, str(tmp_path / "file.json"), *parts)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match=r"offset 7: is not text in UTF-8"):
        read_proof(path)


@pytest.mark.parametrize(
    ("place", "value", "part"),
    [
        ("nPublic", 3, "IC must have nPublic + 1 = 4 points, not 3"),
        ("nPublic", -1, '"nPublic" must be a count'),
        ("nPublic", True, '"nPublic" must be a count, not true'),
        ("nPublic", "2", '"nPublic" must be a count, not "2"'),
        ("nPublic", ..., '"nPublic" is missing'),
        ("IC", ..., '"IC" is missing'),
        ("IC", {}, "IC must be a list, not an object"),
        ("IC.1", [], r"IC[1] must have 3 elements, not 0"),
        ("IC.2.0", str(FQ), "IC[2][0] must be below the modulus bn254.fq"),
        ("curve", ..., '"curve" is missing'),
        ("protocol", "fflonk", '"protocol" must be "groth16", not "fflonk"'),
        ("vk_alpha_1", ..., '"vk_alpha_1" is missing'),
        ("vk_beta_2.0.1", "x", "vk_beta_2[0][1] must be a decimal integer"),
        ("vk_gamma_2.2", ["0", "0"], "vk_gamma_2[2] must be 1"),
        ("vk_delta_2", None, "vk_delta_2 must be a list, not null"),
        ("vk_alphabeta_12.1.2", ["1"], "vk_alphabeta_12[1][2] must have 2 elements"),
        ("vk_alphabeta_12.0", [], "vk_alphabeta_12[0] must have 3 elements"),
        ("vk_alphabeta_12.0.0.1", str(FQ), "vk_alphabeta_12[0][0][1] must be below"),
    ],
)
def test_damaged_verification_key(tmp_path: Path, place: str, value: object, part: str) -> None:
    path = stored(tmp_path, changed(KEY, place, value))
    with pytest.raises(InputError) as error:
        read_verification_key(path)
    refused(error, str(path), part)


def test_verification_key_without_alphabeta(tmp_path: Path) -> None:
    key = read_verification_key(stored(tmp_path, changed(KEY, "vk_alphabeta_12", ...)))
    assert key.alphabeta is None
    with pytest.raises(InputError, match="alphabeta"):
        verification_key_to_json(key)


@pytest.mark.parametrize("kind", ["negative", "q", "long"])
def test_writers_reject_what_the_reader_rejects(kind: str) -> None:
    coordinate = {"negative": -1, "q": FQ, "long": 10**5000}[kind]
    a, b = (1, 2), ((1, 2), (3, 4))
    key = VerifyingKeyJson("bn254", a, b, b, b, (a, (5, coordinate)), (((0, 0),) * 3,) * 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^a coordinate of IC\[1\] is negative, or not below"):
        verification_key_to_json(key)
    for name, points in (
        ("pi_a", ((coordinate, 2), b, a)),
        ("pi_b", (a, ((1, 2), (coordinate, 4)), a)),
        ("pi_c", (a, b, (1, coordinate))),
    ):
        with pytest.raises(InputError, match=f"^a coordinate of {name} is negative, or not below"):
            proof_to_json(ProofJson("bn254", *points))  # type: ignore[arg-type]
    for value in (-1, 10**5000):
        with pytest.raises(InputError, match=r"^public inputs must be non-negative int below"):
            public_to_json([1, value])


def test_bls12_377_round_trips(tmp_path: Path) -> None:
    point = ((1, 2), (3, 4), (5, CURVES["bls12_377"].fq.value - 1))
    key = VerifyingKeyJson(
        "bls12_377",
        (1, 2),
        ((1, 2), (3, 4)),
        None,
        ((5, 6), (7, 8)),
        ((9, 8), None),
        (point, point),
    )
    text = verification_key_to_json(key)
    assert json.loads(text)["curve"] == "bls12377"
    assert read_verification_key(stored(tmp_path, text.decode())) == key
    assert key.public == 1


@pytest.mark.parametrize("curve", ["nope", "bn128", 7, None, ["bn254"]])
def test_unknown_curves_are_not_written(curve: Any) -> None:
    proof = ProofJson(curve, None, None, None)
    with pytest.raises(InputError, match="the curve must be one of bn254, bls12_381"):
        proof_to_json(proof)
    fq2: Any = (((0, 0),) * 3,) * 2
    key = VerifyingKeyJson(curve, None, None, None, None, (None,), fq2)
    with pytest.raises(InputError, match="the curve must be one of bn254, bls12_381"):
        verification_key_to_json(key)


def test_key_without_protocol_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"protocol" is missing; a key of snarkjs has') as caught:
        read_verification_key(stored(tmp_path, changed(KEY, "protocol", ...)))
    assert "null" not in str(caught.value)
