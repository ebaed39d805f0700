"""Forged files, Python values and keys are rejected."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.curve.affine_law import plain_point
from quod.curve.array import from_points
from quod.curve.edwards.operations import from_edwards_points
from quod.curve.encoding.points import encode_eip197_g2, encode_zcash_g1
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.weierstrass.affine import affine_group
from quod.errors import InputError, InsecureKeyError, MismatchError, QuodError
from quod.formats import Witness
from quod.frozen import replace
from quod.groth16 import (
    Proof,
    ProvingKey,
    VerifyingKey,
    public_from_json_text,
    verify_batch,
)
from tests.groth16.conftest import Made
from tests.groth16.hostile import TABLE, Files

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"

Make = Callable[[str], Made]
Set = tuple[VerifyingKey, list[int], Proof]


@pytest.fixture(scope="module")
def files() -> Files:
    """An honest key, public inputs and proof as text."""
    key = ProvingKey.from_zkey(EXAMPLE / "circuit.zkey")
    proof, public = key.prove(EXAMPLE / "witness.wtns", seed=1, self_check=False)
    return {
        "key": (EXAMPLE / "verification_key.json").read_text(),
        "public": json.dumps([str(value) for value in public]),
        "proof": proof.to_json(),
    }


def answer(files: Files) -> bool | str:
    try:
        key = VerifyingKey.from_json_text(files["key"])
        public = public_from_json_text(files["public"].encode(), curve=key.curve)
        return key.verify(public, Proof.from_json_text(files["proof"], curve=key.curve))
    except QuodError as error:
        return type(error).__name__ if "\n" not in str(error) else "an error of several lines"


def test_hostile_files_give_the_documented_answers(files: Files) -> None:
    answers = {name: answer(change(files)) for name, change, _ in TABLE}
    assert len(answers) == len(TABLE)
    assert answers == {name: expected for name, _, expected in TABLE}


# --- values of Python


@pytest.fixture(scope="module")
def honest(circuit_files: Make) -> Set:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns, seed=1, self_check=False)
    return key.verifying_key, public, proof


def unchecked(proof: Proof, **points: Any) -> Proof:
    """A proof that is not as its constructor would have it."""
    other = replace(proof)
    for name, point in points.items():
        object.__setattr__(other, name, point)
    return other


def test_extra_coordinates_add_no_pairings(honest: Set) -> None:
    """With arrays of two pairs for one, the forger's other pair would cancel what is wrong."""
    key, public, proof = honest
    g1 = affine_group(GROUPS[f"{key.curve}.g1"])
    # e(A, B) as it should be for another input, times what makes up for it.
    changed = [public[0] ^ 1, *public[1:]]
    difference = g1.multiply(public[0] - changed[0], key.ic[1])
    a, b = (*proof.a, *g1.negate(difference)), (*proof.b, *key.gamma_g2)
    for forged in (unchecked(proof, a=a, b=b), unchecked(proof, a=[*a], b=[*b])):
        with pytest.raises(InputError, match=r"^pi_a must be None or \(x, y\) of int"):
            key.verify(changed, forged)
        with pytest.raises(InputError, match=r"^pi_a must be"):
            key.begin(changed).start(forged.a, forged.b)
    with pytest.raises(InputError, match=r"^pi_a must be"):
        replace(proof, a=a)


BAD_POINTS: list[Any] = [
    (), (1,), (1, 2, 3), (1, 2, 1, 2), "12", b"12", 7, {1: 2, 3: 4}, {1, 2}, (1, None), (True, 2),
    (1.0, 2.0), (np.int64(1), np.int64(2)), np.array([1, 2]), ("1", "2"), ((1, 2), 3), Ellipsis,
]  # fmt: skip


def test_invalid_points_are_rejected(honest: Set) -> None:
    for bad in BAD_POINTS:
        check_no_point(honest, bad)


def check_no_point(honest: Set, bad: Any) -> None:
    key, public, proof = honest
    for name, values in (("a", [bad]), ("c", [bad]), ("b", [bad, (bad, bad), ((1, 2), bad)])):
        for value in values:
            with pytest.raises(InputError, match=f"^pi_{name} must be None or"):
                key.verify(public, unchecked(proof, **{name: value}))
            with pytest.raises(InputError, match=f"^pi_{name} must be None or"):
                replace(proof, **{name: value})
    with pytest.raises(InputError, match=r"^point 1 must be None or"):
        from_points(GROUPS[f"{key.curve}.g1"], [proof.a, bad])
    with pytest.raises(InputError, match=r"^v.json: IC\[1\] must be None or"):
        rebuilt(key, ic=[key.ic[0], bad, *key.ic[2:]])
    for encode in (encode_zcash_g1, encode_eip197_g2):
        with pytest.raises(InputError, match="a point must be None or"):
            encode(bad)
    with pytest.raises(InputError, match=r"^point 0 must be None or"):
        from_edwards_points(EDWARDS_BLS12, [bad])


def test_list_changed_during_validation_is_safe() -> None:
    """Another thread (here a tracer) changes the list between length check and copy."""
    pair: list[int] = [1, 2]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename.endswith("affine.py"):
            pair[:] = [1, 2] if len(pair) > 2 else [1, 2, 3, 4]
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in range(20):
            with contextlib.suppress(InputError):
                x, y = plain_point(([0, 0], pair), 2, "point")
                assert len(x) == len(y) == 2
    finally:
        sys.settrace(before)


def test_values_of_wrong_types_are_rejected(honest: Set, circuit_files: Make) -> None:
    key, public, proof = honest
    for bad in (None, proof.to_json(), (proof.a, proof.b, proof.c)):
        with pytest.raises(InputError, match=r"^the proof must be a Proof, not"):
            key.verify(public, bad)  # type: ignore[arg-type]
    for none in (bytearray(len(public)), memoryview(bytes(len(public)))):
        with pytest.raises(InputError, match=r"^the public inputs must be a list, not"):
            key.verify(none, proof)
    with pytest.raises(MismatchError, match=f"has {len(public)} .* {len(public) + 1} or more were"):
        key.verify(itertools.count(), proof)
    points = {name: getattr(key, name) for name in ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2")}
    curves: list[Any] = [[], "bn128"]
    for curve in curves:
        with pytest.raises(InputError, match=r"^the curve must be one of"):
            VerifyingKey(curve, ic=key.ic, **points)
    lists: list[Any] = [None, 7]
    for ic in lists:
        with pytest.raises(InputError, match=r"^v.json: IC must be a list of points, not"):
            rebuilt(key, ic=ic)
    texts: list[Any] = [None, 7, [], bytearray(b"{}"), memoryview(b"{}")]
    for text in texts:
        for read in (Proof.from_json_text, VerifyingKey.from_json_text):
            with pytest.raises(InputError, match=r"must be given as str or bytes, not"):
                read(text)
    with pytest.raises(InputError, match="the curve must be one of"):
        public_from_json_text("[]", curve="nope")


def test_witness_with_wrong_words_is_rejected(circuit_files: Make) -> None:
    """Kernels would read beyond its end."""
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    values = Witness.open(files.wtns).values
    words: list[Any] = [
        values[:, :4], values.astype(np.uint64), values.view(np.uint64), values.tolist(), values[0]
    ]  # fmt: skip
    for bad in words:
        with pytest.raises(InputError, match=r"^x: the values of a witness must be uint32 words"):
            key.prove(Witness("x", "bn254", bad, 0))


def test_encoders_refuse_coordinates_that_are_not_reduced() -> None:
    x, y = CURVES["bls12_381"].g1.generator
    for bad in ((x + CURVES["bls12_381"].fq.value, y), (x, -y)):
        with pytest.raises(InputError, match="not below the modulus"):
            encode_zcash_g1(bad)


def rebuilt(key: VerifyingKey, **changes: Any) -> VerifyingKey:
    names = ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2", "ic")
    points = {name: getattr(key, name) for name in names} | changes
    return VerifyingKey(key.curve, **points, path="v.json", allow_insecure=True)


def test_key_copies_its_arguments(honest: Set) -> None:
    key, public, proof = honest
    ic = [list(point) for point in key.ic if point is not None]
    rebuilt_key = rebuilt(key, ic=ic, gamma_g2=[list(pair) for pair in key.gamma_g2 or ()])
    ic[1][:] = ic[2]
    ic[0] = ic[2]
    assert rebuilt_key.ic == key.ic
    assert rebuilt_key.verify(public, proof)
    for name in ("ic", "gamma_g2", "curve", "device", "_alphabeta"):
        with pytest.raises(AttributeError):
            setattr(rebuilt_key, name, None)
        with pytest.raises(AttributeError):
            delattr(rebuilt_key, name)


def test_public_inputs_are_read_once(honest: Set) -> None:
    key, public, proof = honest

    class Changing(list[int]):
        """Others when they are read again."""

        def __iter__(self) -> Iterator[int]:
            values, self[:] = [*self[:]], [1] * len(self)
            return iter(values)

    assert key.verify(iter(public), proof)
    assert key.verify(Changing(public), proof)
    wrong = [public[0] ^ 1, *public[1:]]
    assert not key.verify(Changing(wrong), proof)


def test_public_inputs_as_json_strings(honest: Set) -> None:
    key, public, proof = honest
    text = [str(value) for value in public]
    assert key.verify(text, proof)
    assert not key.verify([str(public[0] ^ 1), text[1]], proof)
    r = CURVES[key.curve].fr.value
    for bad in ("007", "00", "-1", "+1", " 1", "1\n", "1_0", "0x1", "", "\u0663", "1.0"):
        with pytest.raises(InputError, match=r"^public input 1 must be an int or a decimal string"):
            key.verify([text[0], bad], proof)
    for bad in (str(public[1] + r), str(r), "9" * 100_000):
        with pytest.raises(
            InputError, match=r"^public input 1 is negative or not below the order r"
        ):
            key.verify([text[0], bad], proof)
    for bad in ("12", b"12", {"1": 1, "2": 2}, {1, 2}, 7, None):
        with pytest.raises(InputError, match=r"^the public inputs must be a list, not"):
            key.verify(bad, proof)  # type: ignore[arg-type]


# --- keys with which anyone can forge


def forgeries(key: VerifyingKey, inputs: Any) -> dict[str, tuple[VerifyingKey, Proof]]:
    """Proofs of any statement by someone who knows the key alone; X = sum of inputs."""
    g1, g2 = (affine_group(GROUPS[f"{key.curve}.g{degree}"]) for degree in (1, 2))
    gamma, beta = key.gamma_g2, key.beta_g2
    alpha, minus = key.alpha_g1, g1.negate(key.alpha_g1)
    minus_gamma = g2.negate(gamma)
    return {
        "delta = gamma": (
            rebuilt(key, delta_g2=gamma), Proof(key.curve, alpha, beta, g1.negate(inputs))
        ),
        "delta = -gamma": (
            rebuilt(key, delta_g2=minus_gamma), Proof(key.curve, alpha, beta, inputs)
        ),
        "delta = beta": (rebuilt(key, delta_g2=beta), Proof(key.curve, inputs, gamma, minus)),
        "delta = -beta": (
            rebuilt(key, delta_g2=g2.negate(beta)), Proof(key.curve, inputs, gamma, alpha)
        ),
    }  # fmt: skip


def test_weak_keys_are_forged_and_refused(honest: Set) -> None:
    key, _, _ = honest
    g1 = affine_group(GROUPS[f"{key.curve}.g1"])
    wanted = [5, 6]
    inputs = key.ic[0]
    for value, point in zip(wanted, key.ic[1:], strict=True):
        inputs = g1.add(inputs, g1.multiply(value, point))
    for name, (weak, forged) in forgeries(key, inputs).items():
        assert weak.verify(wanted, forged), name
        # Once it is not a test key by its gamma, the relation alone tells.
        with pytest.raises(InsecureKeyError, match=r"allow_insecure=True"):
            VerifyingKey.from_json_text(weak.to_json())


def test_a_test_key_is_known_by_its_verifying_key(honest: Set, tmp_path: Path) -> None:
    """The file itself does not mark the key as a test key."""
    key, public, proof = honest
    (tmp_path / "v.json").write_text(key.to_json())
    with pytest.raises(InsecureKeyError, match=r"v.json: anyone .* test key .* quod zkey contr"):
        VerifyingKey.from_json(tmp_path / "v.json")
    taken = VerifyingKey.from_json(tmp_path / "v.json", allow_insecure=True)
    assert taken.verify(public, proof)


def test_a_marked_proving_key_gives_no_verifying_key(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey)
    key.prove(files.wtns)
    assert key.insecure
    for ask in (lambda: key.verifying_key, lambda: VerifyingKey.from_zkey(files.zkey)):
        with pytest.raises(InsecureKeyError, match="it is a test key of quod groth16 test-key"):
            ask()


def test_contributed_key_is_accepted() -> None:
    assert ProvingKey.from_zkey(EXAMPLE / "circuit.zkey").weakness is None
    assert VerifyingKey.from_json(EXAMPLE / "verification_key.json").public == 3


@pytest.mark.parametrize("name", ["alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1"])
def test_a_proving_key_with_infinity_does_not_open(
    circuit_files: Make, tmp_path: Path, name: str
) -> None:
    from quod.formats import Zkey

    zkey = Zkey.open(circuit_files("bn254").zkey)
    zkey = replace(zkey, **{name: np.zeros_like(getattr(zkey, name))})
    with pytest.raises(InputError, match=f"{name} is the point at infinity"):
        ProvingKey(zkey)


def test_parsed_documents_are_accepted(files: Files) -> None:
    """Parsed JSON verifies as it is, and is read as strictly as its text."""
    key = VerifyingKey.from_json_text(files["key"])
    public, proof = json.loads(files["public"]), json.loads(files["proof"])
    assert key.verify(public, proof)
    assert [verdict.valid for verdict in verify_batch([(key, public, proof)] * 2)] == [True, True]
    assert not key.verify(["8"] * len(public), proof)
    for change in (
        {"pi_a": [1, 2, 1]}, {"pi_a": None}, {"pi_c": [object()]}, {"protocol": "plonk"},
        {"pi_a": [float("nan")] * 3},
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"^proof"):
            key.verify(public, proof | change)
    with pytest.raises(MismatchError):
        key.verify(public, proof | {"curve": "bls12381"})


def test_a_proof_over_another_curve_in_text(files: Files) -> None:
    with pytest.raises(MismatchError, match="over bn254 and the verifying key over bls12_381"):
        Proof.from_json_text(files["proof"], curve="bls12_381")
