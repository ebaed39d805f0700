"""Proofs with bellman's parameters, made in plain integers, on every device."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.cli import entry
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.errors import InputError, InsecureKeyError, MismatchError, VerificationError
from quod.field.array import Words
from quod.formats import write_bellman_key, write_bellman_parameters
from quod.formats.bellman import LISTS, VERIFYING_KEY, BellmanParameters
from quod.groth16 import ProvingKey
from quod.groth16.encodings import bellman_key
from quod.groth16.encodings.bellman import read_proof, read_verifying_key
from quod.groth16.gpu import bases
from tests.groth16.bellman_key import parameters, words
from tests.groth16.circuits import Circuit, recurrence
from tests.groth16.test_verifier import point_outside_the_subgroup

Points = dict[str, Words]


@pytest.fixture(scope="module")
def circuit() -> Circuit:
    """Terms that cancel and that add up to nothing are among its rows, and a domain not full."""
    extended = recurrence("bls12_381", 9)
    wires = len(extended.witness)
    extended.b[3] = [*extended.b[3], (wires - 1, 5), (wires - 1, -5)]
    extended.b[4] = [*extended.b[4], (0, 3), (0, -2), (0, -1)]
    # A variable that is in C alone.
    extended.witness.append(7)
    extended.a.append([(0, 7)])
    extended.b.append([(0, 1)])
    extended.c.append([(wires, 1)])
    return extended


@pytest.fixture(scope="module")
def points(circuit: Circuit) -> Points:
    return parameters(circuit)


@pytest.fixture
def files(
    circuit: Circuit, points: Points, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path, Path]:
    """The parameters, the constraint system and a witness."""
    monkeypatch.chdir(tmp_path)
    write_bellman_parameters("c.params", points)
    paths = circuit.write_r1cs(tmp_path / "c.r1cs"), circuit.write_wtns(tmp_path / "c.wtns")
    return tmp_path / "c.params", *paths


def test_example_circuit_leaves_some_wires_unused(circuit: Circuit, points: Points) -> None:
    assert circuit.satisfied(circuit.witness)
    wires = len(circuit.witness)
    # Neither A nor B uses every variable, and B not those whose terms cancel.
    assert len(points["a"]) < wires
    assert len(points["b_g1"]) == len(points["b_g2"]) < len(points["a"])
    assert len(points["h"]) == 15


def test_a_proof(files: tuple[Path, Path, Path], circuit: Circuit, device: AnyDevice) -> None:
    params, r1cs, wtns = files
    key = ProvingKey.from_bellman(params, r1cs, device=device)
    proof, public = key.prove(wtns)
    assert public == circuit.public
    # A key of its own, from the file alone.
    verifying = read_verifying_key(params)
    assert verifying.verify(public, proof)
    assert not verifying.verify([public[0] ^ 1, *public[1:]], proof)
    assert key.prove(wtns, seed=5) == ProvingKey.from_bellman(params, r1cs).prove(wtns, seed=5)
    key.check()
    key.close()


@pytest.mark.thorough
def test_gpu_proof_matches_the_cpu(
    files: tuple[Path, Path, Path], gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))
    params, r1cs, wtns = files
    expected = ProvingKey.from_bellman(params, r1cs).prove(wtns, seed=5)
    key = ProvingKey.from_bellman(params, r1cs, device=gpu_device, checked=False)
    assert key.prove(wtns, seed=5) == expected
    key.close()


def test_unsatisfying_witness_is_rejected(
    files: tuple[Path, Path, Path], circuit: Circuit, tmp_path: Path
) -> None:
    params, r1cs, _ = files
    wrong = [*circuit.witness]
    wrong[-1] += 1
    key = ProvingKey.from_bellman(params, r1cs)
    with pytest.raises(VerificationError, match="the proof does not verify"):
        key.prove(circuit.write_wtns(tmp_path / "wrong.wtns", wrong))


@pytest.mark.parametrize(("name", "count"), [("ic", 1), ("h", 1), ("l", 2), ("a", 1), ("b_g1", 1)])
def test_parameters_of_another_circuit(
    files: tuple[Path, Path, Path], points: Points, name: str, count: int
) -> None:
    params, r1cs, _ = files
    lists = ("b_g1", "b_g2") if name == "b_g1" else (name,)
    less = {list_name: points[list_name][:-count] for list_name in lists}
    write_bellman_parameters(params, points | less)
    available, needed = len(points[name]) - count, len(points[name])
    message = f"there are {available} points; {needed} are needed for .*c.r1cs: use the para"
    with pytest.raises(MismatchError, match=message) as caught:
        ProvingKey.from_bellman(params, r1cs)
    assert (caught.value.path, caught.value.section) == (str(params), name)


def test_inspect(
    files: tuple[Path, Path, Path], points: Points, circuit: Circuit,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    params = files[0]
    write_bellman_key("alone.key", {name: points[name] for name in (*VERIFYING_KEY, "ic")})

    def said(path: str) -> dict[str, object]:
        assert entry.run(["inspect", path, "--json"]) == 0
        report: dict[str, object] = json.loads(capsys.readouterr().out)
        return report

    public = len(circuit.public)
    assert said("alone.key") == {
        "file": "alone.key", "kind": "bellman verifying key",
        "bytes": 96 * 3 + 192 * 3 + 4 + 96 * (public + 1), "protocol": "groth16",
        "curve": "bls12_381", "public": public, "insecure": False,
    }  # fmt: skip
    report = said(params.name)
    assert report["kind"] == "bellman proving key (parameters)"
    assert (report["domain_size"], report["variables"]) == (16, len(circuit.witness))
    assert report["points"] == {name: len(points[name]) for name in LISTS}
    assert (report["contributions"], report["circuit_hash"]) == (0, None)
    write_bellman_key(
        "weak.key",
        {name: points[name] for name in (*VERIFYING_KEY, "ic")} | {"delta_g2": points["gamma_g2"]},
    )
    assert "no contribution to phase 2" in str(said("weak.key")["insecure"])
    params.write_bytes(params.read_bytes()[:-1])
    assert entry.run(["inspect", params.name]) == 3
    assert "section b_g2" in capsys.readouterr().err


def test_files_of_another_kind(files: tuple[Path, Path, Path]) -> None:
    params, r1cs, wtns = files
    for wrong in (r1cs, wtns):
        with pytest.raises(InputError, match=r"offset 0: is a \w{4} file, not a key of bellman"):
            ProvingKey.from_bellman(wrong, r1cs)
        with pytest.raises(InputError, match=r"is a \w{4} file, not a key of bellman"):
            read_verifying_key(wrong)
    with pytest.raises(InputError, match="is not a r1cs file"):
        ProvingKey.from_bellman(params, params)


def test_the_constraint_system_of_another_curve(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    other = recurrence("bn254", 9).write_r1cs(tmp_path / "other.r1cs")
    with pytest.raises(MismatchError, match=r"are over bls12_381 and .* is over bn254; compile"):
        ProvingKey.from_bellman(files[0], other)


@pytest.mark.parametrize("name", ["h", "b_g2", "ic", "alpha_g1", "delta_g2"])
def test_points_are_checked(files: tuple[Path, Path, Path], points: Points, name: str) -> None:
    params, r1cs, _ = files
    degree = 2 if name.endswith("g2") else 1
    law = affine_group(GROUPS[f"bls12_381.g{degree}"])
    outside = words([point_outside_the_subgroup(law)], degree)
    x, y = law.generator
    off = words([(x, law.field.add(y, law.field.one))], degree)
    for bad, message in (
        (outside, f"of {name} is not in the subgroup of prime order"),
        (off, f"of {name} is not on the curve"),
    ):
        single = points[name].ndim == bad.ndim - 1
        changed = bad[0] if single else np.concatenate([points[name][:1], bad, points[name][2:]])
        write_bellman_parameters(params, points | {name: changed})
        with pytest.raises(InputError, match=f"point {0 if single else 1} {message}") as caught:
            ProvingKey.from_bellman(params, r1cs)
        assert caught.value.section == name
        assert caught.value.path == str(params)


def test_forgeable_keys_are_rejected(files: tuple[Path, Path, Path], points: Points) -> None:
    """A key without phase 2: delta is gamma."""
    params, r1cs, _ = files
    write_bellman_parameters(params, points | {"gamma_g2": points["delta_g2"]})
    key = ProvingKey.from_bellman(params, r1cs)
    assert key.insecure
    with pytest.raises(InsecureKeyError, match="delta is gamma"):
        _ = key.verifying_key
    with pytest.raises(InsecureKeyError, match="delta is gamma"):
        read_verifying_key(params)


def through_pipe(content: bytes, words: list[str]) -> int:
    """The exit code of a command whose last file is a pipe with so little in it that it fits."""
    read, write = os.pipe()
    try:
        os.write(write, content)
        os.close(write)
        return entry.run([*words, f"/dev/fd/{read}"])
    finally:
        os.close(read)


def test_the_command(
    files: tuple[Path, Path, Path], circuit: Circuit, capsys: pytest.CaptureFixture[str]
) -> None:
    prove = ["groth16", "prove", "c.params", "c.wtns", "proof", "public.json", "--bellman"]
    assert entry.run([*prove, "c.r1cs", "--quiet"]) == 0
    assert len(Path("proof").read_bytes()) == 192
    assert json.loads(Path("public.json").read_text()) == [str(value) for value in circuit.public]
    assert entry.run(["groth16", "verify", "c.params", "public.json", "proof"]) == 0
    assert read_verifying_key("c.params").verify(circuit.public, read_proof("proof"))
    # Through pipes as well, which are read once.
    single, many = Path("proof").read_bytes(), [circuit.public] * 3
    assert through_pipe(single, ["groth16", "verify", "c.params", "public.json"]) == 0
    Path("publics.json").write_text(json.dumps([list(map(str, inputs)) for inputs in many]))
    verify = ["groth16", "verify", "--batch", "c.params", "publics.json"]
    assert through_pipe(single * 3, verify) == 0
    assert through_pipe(single[:-1], ["groth16", "verify", "c.params", "public.json"]) == 3
    assert "has 192 bytes, or 384 uncompressed, not 191" in capsys.readouterr().err
    assert entry.run([*prove, "c.params"]) == 3
    assert "is not a r1cs file" in capsys.readouterr().err
    assert entry.run([*prove, "proof"]) == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda arguments: arguments | {"checked": 1}, InputError),
        (lambda arguments: arguments | {"r1cs": 5}, InputError),
        (lambda arguments: arguments | {"path": None}, InputError),
        (lambda arguments: arguments | {"allow_insecure": None}, InputError),
    ],
)
def test_wrong_arguments(
    files: tuple[Path, Path, Path], change: Callable[[dict[str, Any]], dict[str, Any]],
    error: type[Exception],
) -> None:  # fmt: skip
    arguments = change({"path": files[0], "r1cs": files[1]})
    with pytest.raises(error):
        ProvingKey.from_bellman(**arguments)


def test_validated_points_are_not_checked_again(
    files: tuple[Path, Path, Path],
    points: Points,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "cache"))
    params, r1cs, _ = files
    looked: list[str] = []
    check = bellman_key._check_points

    def counted(parameters: BellmanParameters, *arguments: Any) -> None:
        looked.append(parameters.path)
        check(parameters, *arguments)

    monkeypatch.setattr(bellman_key, "_check_points", counted)
    for _ in range(2):
        ProvingKey.from_bellman(params, r1cs)
    assert len(looked) == 1
    # Points that are bad are so each time, also where others of the file were found good.
    moved = points | {"h": points["h"].copy()}
    moved["h"][3, 1] = points["h"][3, 0]
    write_bellman_parameters(params, moved)
    for _ in range(2):
        with pytest.raises(InputError, match="point 3 of h is not on the curve"):
            ProvingKey.from_bellman(params, r1cs)
    # The same points in other lists are others.
    swapped = points | {"h": points["h"][::-1].copy()}
    write_bellman_parameters(params, swapped)
    ProvingKey.from_bellman(params, r1cs)
    assert len(looked) == 4
