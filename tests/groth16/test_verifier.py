"""The verifier accepts honest proofs only."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quod.curve.affine_law import AffineGroup
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.device.webgpu.device import WebGpuDevice
from quod.errors import DeviceError, InputError, MismatchError
from quod.frozen import replace
from quod.groth16 import Proof, ProvingKey, VerifyingKey
from tests.groth16.circuits import CIRCOM_SETS
from tests.groth16.conftest import Made
from tests.reference import circom
from tests.support.node import run_program
from tests.support.thorough import one_and_others

Make = Callable[[str], Made]
Proved = tuple[VerifyingKey, list[int], Proof]


def point_outside_the_subgroup(law: AffineGroup[Any]) -> Any:
    """A point of the curve that has not the order r."""
    for x in range(1, 100):
        for candidate in ((x, 0), (0, x), (x, 1)) if "g2" in law.name else (x,):
            root = law.field.square_root(law.right_side(candidate))
            if root is not None and law.multiply(law.order, (candidate, root)) is not None:
                return candidate, root
    raise AssertionError("every point tried is in the subgroup")


ON_BN254 = pytest.mark.parametrize("proved", ["bn254"], indirect=True)
"""For tests of code that no curve has of its own."""

EACH_CURVE = pytest.mark.crossed("device", "proved")
"""Each curve on one device, since the compilation of a curve's pairing takes long."""


@pytest.fixture(scope="module", params=one_and_others(CURVES, ["bn254", "bls12_381"]))
def proved(request: pytest.FixtureRequest, circuit_files: Make, device: AnyDevice) -> Proved:
    """A verifying key, public inputs and a proof that hold."""
    files = circuit_files(request.param)
    key = ProvingKey.from_zkey(files.zkey, device=device, allow_insecure=True)
    proof, public = key.prove(files.wtns, seed=11, self_check=False)
    return key.verifying_key, public, proof


def law_of(proof: Proof, name: str) -> Any:
    return affine_group(GROUPS[f"{proof.curve}.g{2 if name == 'b' else 1}"])


def verify(key: VerifyingKey, public: Sequence[Any], proof: Proof) -> bool:
    """Return the verifier's answer for a proof, verified at once and point by point."""

    def point_by_point() -> bool:
        verification = key.begin(public)
        verification.start(proof.a, proof.b)
        verification.start_last(proof.c)
        return verification.finish()

    try:
        answer = key.verify(public, proof)
    except InputError as error:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            point_by_point()
        raise
    assert point_by_point() is answer
    return answer


# --- what holds


@EACH_CURVE
def test_an_honest_proof(proved: Proved) -> None:
    key, public, proof = proved
    assert verify(key, public, proof) is True
    assert verify(key, tuple(public), proof) is True


def test_a_device_without_pairings_is_refused(
    circuit_files: Make, webgpu_device: WebGpuDevice
) -> None:
    with pytest.raises(DeviceError, match=r"cannot compute pairings, .*; verify with --device cpu"):
        VerifyingKey.from_zkey(circuit_files("bn254").zkey, device=webgpu_device)


@pytest.mark.fixtures
@pytest.mark.parametrize("name", CIRCOM_SETS)
def test_snarkjs_proofs_are_accepted(
    shared_fixtures: Path, pairing_device: AnyDevice, name: str
) -> None:
    folder = shared_fixtures / "circom" / name
    key = VerifyingKey.from_json(
        folder / "verification_key.json", device=pairing_device, allow_insecure=True
    )
    public = circom.read_public(folder / "public.json")
    proof = Proof.from_json(folder / "circom.proof")
    assert verify(key, public, proof)
    for index in range(len(public)):
        changed = [*public]
        changed[index] = (changed[index] + 1) % CURVES[key.curve].fr.value
        assert not verify(key, changed, proof)


@pytest.mark.fixtures
@pytest.mark.parametrize("name", CIRCOM_SETS)
def test_a_key_from_a_zkey_is_the_published_one(
    shared_fixtures: Path, pairing_device: AnyDevice, name: str
) -> None:
    folder = shared_fixtures / "circom" / name
    key = VerifyingKey.from_zkey(
        folder / "circuit.zkey", device=pairing_device, allow_insecure=True
    )
    ours = json.loads(key.to_json())
    published = json.loads((folder / "verification_key.json").read_text())
    assert ours == published
    again = VerifyingKey.from_json(
        folder / "verification_key.json", device=pairing_device, allow_insecure=True
    )
    assert (again.alpha_g1, again.ic) == (key.alpha_g1, key.ic)


def test_public_inputs_of_every_kind(
    circuit_files: Make, device: AnyDevice, tmp_path: Path
) -> None:
    """Zero, one and r - 1 among the public inputs."""
    from quod.groth16 import generate_key
    from tests.groth16.circuits import Circuit

    r = CURVES["bn254"].fr.value
    witness = [1, 0, 1, r - 1, 0]
    rows = [[(1, 1)], [(2, 1)], [(3, 1)]]
    circuit = Circuit("bn254", rows, [[(0, 1)]] * 3, rows, witness, 0, 4)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 5)
    key = ProvingKey.from_zkey(tmp_path / "c.zkey", device=device, allow_insecure=True)
    proof, public = key.prove(circuit.write_wtns(tmp_path / "c.wtns"))
    assert public == [0, 1, r - 1, 0]
    assert key.verifying_key.verify(public, proof)
    assert not key.verifying_key.verify([0, 1, 0, r - 1], proof)


@pytest.mark.parametrize("curve", one_and_others(CURVES, ["bn254", "bls12_381"]))
def test_inverse_pairing_product_is_rejected(pairing_device: AnyDevice, curve: str) -> None:
    """The inverse differs in the sign of half of its coefficients."""
    g1, g2 = (affine_group(GROUPS[f"{curve}.g{degree}"]) for degree in (1, 2))
    alpha, beta, gamma, delta, ic, c = 2, 3, 5, 7, 11, 1
    key = VerifyingKey(
        curve, g1.multiply(alpha, g1.generator),
        *(g2.multiply(log, g2.generator) for log in (beta, gamma, delta)),
        [g1.multiply(ic, g1.generator)], device=pairing_device, allow_insecure=True,
    )  # fmt: skip
    for factor, holds in ((1, True), (-1, False), (0, False), (2, False)):
        a = factor * alpha * beta + ic * gamma + c * delta
        proof = Proof(curve, g1.multiply(a, g1.generator), g2.generator, g1.generator)
        assert verify(key, [], proof) is holds


@ON_BN254
def test_points_may_be_passed_in_any_order_but_all_are_needed(proved: Proved) -> None:
    key, public, proof = proved
    verification = key.begin(public)
    with pytest.raises(InputError, match="needs A, B and C"):
        verification.finish()
    verification.start_last(proof.c)
    with pytest.raises(InputError, match="needs A, B and C"):
        verification.finish()
    verification.start(proof.a, proof.b)
    assert verification.finish()


# --- tampered proofs


@EACH_CURVE
def test_other_group_points_are_rejected(proved: Proved) -> None:
    key, public, proof = proved
    for name in ("a", "b", "c"):
        law = law_of(proof, name)
        point = getattr(proof, name)
        for other in (law.negate(point), law.add(point, law.generator), law.generator):
            assert verify(key, public, replace(proof, **{name: other})) is False


@ON_BN254
def test_swapped_points_are_rejected(proved: Proved) -> None:
    key, public, proof = proved
    assert verify(key, public, replace(proof, a=proof.c, c=proof.a)) is False


@ON_BN254
def test_two_negations_that_cancel_are_the_same_statement(proved: Proved) -> None:
    """Groth16 proofs are malleable: (-A, -B, C) holds as well. That is no forgery."""
    key, public, proof = proved
    g1, g2 = law_of(proof, "a"), law_of(proof, "b")
    other = replace(proof, a=g1.negate(proof.a), b=g2.negate(proof.b))
    assert verify(key, public, other) is True


@ON_BN254
def test_changed_coordinates_are_rejected(proved: Proved) -> None:
    key, public, proof = proved
    for name in ("a", "b", "c"):
        q = CURVES[proof.curve].fq.value
        point = getattr(proof, name)
        for index in range(4 if name == "b" else 2):
            flat = list(sum(point, ())) if name == "b" else list(point)
            flat[index] = (flat[index] + 1) % q
            bad = ((flat[0], flat[1]), (flat[2], flat[3])) if name == "b" else tuple(flat)
            with pytest.raises(InputError, match=f"^pi_{name} is not on the curve"):
                verify(key, public, replace(proof, **{name: bad}))


@ON_BN254
def test_unreduced_coordinates_are_rejected(proved: Proved) -> None:
    key, public, proof = proved
    for name in ("a", "b", "c"):
        q = CURVES[proof.curve].fq.value
        x, y = getattr(proof, name)
        for bad in (
            ((x[0] + q, x[1]), y) if name == "b" else (x + q, y),
            (x, (y[0], y[1] - q)) if name == "b" else (x, y - q),
        ):
            with pytest.raises(InputError, match=f"coordinate of pi_{name} is not below q"):
                verify(key, public, replace(proof, **{name: bad}))


@EACH_CURVE
def test_infinity(proved: Proved) -> None:
    key, public, proof = proved
    for name in ("a", "b", "c"):
        with pytest.raises(InputError, match=f"^pi_{name} is the point at infinity"):
            verify(key, public, replace(proof, **{name: None}))
        zero = ((0, 0), (0, 0)) if name == "b" else (0, 0)
        with pytest.raises(InputError, match=f"^pi_{name} is not on the curve"):
            verify(key, public, replace(proof, **{name: zero}))


@EACH_CURVE
def test_points_outside_the_subgroup(proved: Proved) -> None:
    key, public, proof = proved
    for name in ("a", "b", "c"):
        law = law_of(proof, name)
        if law.cofactor == 1:
            continue
        outside = point_outside_the_subgroup(law)
        low = law.multiply(law.order, outside)
        # The honest point plus one of low order: the pairing may not notice, the check must.
        for bad in (outside, low, law.add(getattr(proof, name), low)):
            with pytest.raises(InputError, match=f"^pi_{name} is not in the subgroup"):
                verify(key, public, replace(proof, **{name: bad}))


# --- public inputs


@ON_BN254
def test_public_inputs_changed(proved: Proved) -> None:
    key, public, proof = proved
    r = CURVES[key.curve].fr.value
    for index in range(len(public)):
        for change in (1, -1, r // 2):
            changed = [*public]
            changed[index] = (changed[index] + change) % r
            assert verify(key, changed, proof) is False
    assert verify(key, public[::-1], proof) is False


@ON_BN254
def test_unreduced_public_inputs_are_rejected(proved: Proved) -> None:
    key, public, proof = proved
    r = CURVES[key.curve].fr.value
    for bad in (public[1] + r, public[1] - r, -1, r, 1 << 300):
        with pytest.raises(
            InputError, match=r"^public input 1 is negative or not below the order r"
        ):
            verify(key, [public[0], bad], proof)


@ON_BN254
def test_wrong_number_of_public_inputs_is_rejected(proved: Proved) -> None:
    key, public, proof = proved
    for bad in ([], public[:1], [*public, 0], [*public, *public]):
        with pytest.raises(MismatchError, match=f"2 public inputs and {len(bad)} were given"):
            verify(key, bad, proof)


@ON_BN254
def test_non_integer_public_inputs_are_rejected(proved: Proved) -> None:
    key, public, proof = proved
    for bad in (1.0, None, True, np.int64(1), np.uint64(1), b"1", [1]):
        with pytest.raises(InputError, match=r"^public input 0 must be an int or a dec"):
            verify(key, [bad, public[1]], proof)  # type: ignore[list-item]


def test_a_proof_over_another_curve(circuit_files: Make) -> None:
    first, second = (
        ProvingKey.from_zkey(circuit_files(curve).zkey, allow_insecure=True)
        for curve in ("bn254", "bls12_381")
    )
    proof, public = first.prove(circuit_files("bn254").wtns)
    with pytest.raises(MismatchError, match="over bn254 and the verifying key over bls12_381"):
        second.verifying_key.verify(public, proof)


# --- keys


def rebuilt(key: VerifyingKey, **changes: Any) -> VerifyingKey:
    names = ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2", "ic")
    points = {name: getattr(key, name) for name in names} | changes
    return VerifyingKey(
        key.curve, **points, device=key.device, path="vkey.json", allow_insecure=True
    )


JSON_NAMES = {
    "alpha_g1": "vk_alpha_1", "beta_g2": "vk_beta_2", "gamma_g2": "vk_gamma_2",
    "delta_g2": "vk_delta_2",
}  # fmt: skip


@ON_BN254
def test_rebuilt_key_accepts_the_proof(proved: Proved) -> None:
    key, public, proof = proved
    assert rebuilt(key).verify(public, proof)


@ON_BN254
def test_a_key_with_infinity(proved: Proved) -> None:
    for name, json_name in JSON_NAMES.items():
        with pytest.raises(InputError, match=f"^vkey.json: {json_name} is the point at inf"):
            rebuilt(proved[0], **{name: None})


@ON_BN254
def test_a_key_with_a_point_off_the_curve(proved: Proved) -> None:
    for name, json_name in JSON_NAMES.items():
        x, y = getattr(proved[0], name)
        bad = (x, (y[0], y[1] ^ 1)) if name != "alpha_g1" else (x, y ^ 1)
        with pytest.raises(InputError, match=f"^vkey.json: {json_name} is not on the curve"):
            rebuilt(proved[0], **{name: bad})


@EACH_CURVE
def test_a_key_with_a_point_outside_the_subgroup(proved: Proved) -> None:
    key = proved[0]
    for name, json_name in JSON_NAMES.items():
        law = affine_group(GROUPS[f"{key.curve}.g{name[-1]}"])
        if law.cofactor == 1:
            continue
        with pytest.raises(InputError, match=f"^vkey.json: {json_name} is not in the subgr"):
            rebuilt(key, **{name: point_outside_the_subgroup(law)})


@ON_BN254
def test_a_key_with_a_bad_ic(proved: Proved) -> None:
    key = proved[0]
    x, y = key.ic[2] or (0, 0)
    q = CURVES[key.curve].fq.value
    for bad, reason in (((x, y ^ 1), "is not on the curve"), ((x, y + q), "is not below q")):
        with pytest.raises(InputError, match=rf"IC\[2\] {reason}"):
            rebuilt(key, ic=(*key.ic[:2], bad))
    with pytest.raises(InputError, match="IC must have at least one point"):
        rebuilt(key, ic=())


@ON_BN254
def test_infinite_ic_point_ignores_its_input(proved: Proved) -> None:
    key, public, proof = proved
    longer = rebuilt(key, ic=(*key.ic, None))
    assert longer.verify([*public, 0], proof)
    assert longer.verify([*public, 12345], proof)
    assert not longer.verify([public[0] ^ 1, public[1], 0], proof)


def test_unknown_curve_is_rejected() -> None:
    with pytest.raises(InputError, match="must be one of bn254, bls12_381"):
        VerifyingKey("bw6", (1, 2), None, None, None, ((1, 2),))


@ON_BN254
def test_json_of_a_key(proved: Proved, tmp_path: Path) -> None:
    key, public, proof = proved
    (tmp_path / "vkey.json").write_text(key.to_json())
    read = VerifyingKey.from_json(tmp_path / "vkey.json", device=key.device, allow_insecure=True)
    assert read.to_json() == key.to_json()
    assert read.verify(public, proof)
    assert read.public == 2


@ON_BN254
def test_precomputed_pairing_in_a_file_is_not_trusted(proved: Proved, tmp_path: Path) -> None:
    key, public, proof = proved
    document = json.loads(key.to_json())
    document["vk_alphabeta_12"][0][0][0] = "1"
    (tmp_path / "vkey.json").write_text(json.dumps(document))
    read = VerifyingKey.from_json(tmp_path / "vkey.json", device=key.device, allow_insecure=True)
    assert read.verify(public, proof)
    assert not read.verify([public[0], public[1] ^ 1], proof)


# --- beside snarkjs


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.parametrize("curve", ["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def test_both_verifiers_reject_tampered_proofs(
    circuit_files: Make, curve: str, tmp_path: Path
) -> None:
    files = circuit_files(curve)
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns)
    g1 = law_of(proof, "a")
    (tmp_path / "vkey.json").write_text(key.verifying_key.to_json())
    q = CURVES[curve].fq.value
    cases: dict[str, tuple[list[int], Proof]] = {
        "honest": (public, proof),
        "negated": (public, replace(proof, a=g1.negate(proof.a))),
        "swapped": (public, replace(proof, a=proof.c, c=proof.a)),
        "input": ([public[0] ^ 1, public[1]], proof),
        "unreduced": ([public[0] + CURVES[curve].fr.value, public[1]], proof),
        "off the curve": (public, replace(proof, c=(proof.c[0], (proof.c[1] + 1) % q))),
    }
    for name, (inputs, case) in cases.items():
        (tmp_path / "proof.json").write_text(case.to_json())
        (tmp_path / "public.json").write_text(json.dumps([str(value) for value in inputs]))
        done = run_program("snarkjs", "groth16", "verify", "vkey.json", "public.json",
                           "proof.json", directory=tmp_path)  # fmt: skip
        accepted = "OK!" in done.stdout
        try:
            ours = key.verifying_key.verify(inputs, case)
        except InputError:
            ours = False
        assert ours == (name == "honest"), name
        assert accepted == (name == "honest"), name


# --- anything at all

COORDINATES = st.one_of(
    st.integers(-1, 3),
    st.integers(0, CURVES["bn254"].fq.value),
    st.just(CURVES["bn254"].fq.value - 1),
    st.integers(-(1 << 300), 1 << 300),
)
POINTS = st.one_of(st.none(), st.tuples(COORDINATES, COORDINATES))
TWIST_POINTS = st.one_of(
    st.none(),
    st.tuples(st.tuples(COORDINATES, COORDINATES), st.tuples(COORDINATES, COORDINATES)),
)


@pytest.fixture(scope="module")
def bn254_proof(circuit_files: Make) -> Proved:
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns, seed=1)
    return key.verifying_key, public, proof


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_arbitrary_proofs_are_never_accepted(bn254_proof: Proved, data: st.DataObject) -> None:
    """Any part may be replaced: the proof is rejected, or InputError is raised."""
    key, public, proof = bn254_proof
    parts: dict[str, Any] = {"a": POINTS, "b": TWIST_POINTS, "c": POINTS}
    chosen = data.draw(st.sets(st.sampled_from(["a", "b", "c", "public"]), min_size=1))
    changes = {name: data.draw(parts[name], label=name) for name in chosen & set(parts)}
    inputs: Any = public
    if "public" in chosen:
        inputs = data.draw(st.lists(st.integers(-(1 << 260), 1 << 260), max_size=4))
    other = replace(proof, **changes)
    if (other, list(inputs)) == (proof, public):
        return
    accepted = False
    with contextlib.suppress(InputError):
        accepted = key.verify(inputs, other)
    assert accepted is False
