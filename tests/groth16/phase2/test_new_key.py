"""Keys from powers of tau: equal to the files of snarkjs, and rejected inputs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod.ceremony import new_powers, prepare
from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, MismatchError, OutputError, QuodError
from quod.field.roots import root_of_unity
from quod.formats import R1cs, Zkey
from quod.formats.ptau import PowersOfTau
from quod.groth16 import ProvingKey
from quod.groth16.phase2 import circuit_hash, contribute, new_key, verify_from_r1cs
from quod.groth16.phase2.lagrange_powers import LagrangePowers
from quod.groth16.phase2.lagrange_wires import WireTerms, wire_points
from quod.groth16.setup import Secret
from tests.formats.tiny import replaced
from tests.groth16.circuits import Circuit
from tests.groth16.phase2.circuits import PTAU_SEED, known_powers, mixed
from tests.reference import circom, groth16
from tests.reference.curve import g1_of, g2_of
from tests.support.node import PACKAGES, package, run_program
from tests.support.thorough import one_and_others

# What snarkjs 0.7.6 printed for `mixed` with powers of 2**5.
HASHES = {
    "bn254": (
        "bbc67bb10670e3789bd5adaabb40cf61dad94ffeacc9060062437b43872ef0f3"
        "0375d4799742be0c03fc7432799f00a4d8c4e8e385e281afc4147c33f1593163"
    ),
    "bls12_381": (
        "80fb875211718e6a9b186862e1d8f230ab0deed3d1d1712d2a8455c00f841130"
        "a427fb7d9bb8bcd393c0b62562dc3f291e2a138c7b12beefd389d33d025203bd"
    ),
}

Files = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The circuit and powers of 2**5 for it, by curve."""
    folder = tmp_path_factory.mktemp("powers")

    def made(curve: str) -> tuple[Path, Path]:
        r1cs = folder / f"{curve}.r1cs"
        if not r1cs.exists():
            mixed(curve).write_r1cs(r1cs)
        return r1cs, known_powers(folder, curve, 5)

    return made


@pytest.mark.parametrize("curve", one_and_others(HASHES))
def test_key_points_match_the_secrets(files: Files, curve: str, tmp_path: Path) -> None:
    """Sums on plain integers; the reference prover accepts the key."""
    r1cs, ptau = files(curve)
    circuit_hash = new_key(r1cs, ptau, tmp_path / "c.zkey")
    key = circom.read_zkey(tmp_path / "c.zkey")
    circuit, fr = mixed(curve), CURVES[curve].fr
    r, n = fr.value, key.domain
    secret = Secret.from_seed(PTAU_SEED, fr, 64)
    root = root_of_unity(fr, "snarkjs", 5)
    vanishing = pow(secret.tau, n, r) - 1
    lagrange = [
        vanishing * x * pow(n * (secret.tau - x), -1, r) % r
        for x in (pow(root, i, r) for i in range(n))
    ]
    sums = []
    for matrix in (circuit.a, circuit.b, circuit.c):
        wire_sums = [0] * len(circuit.witness)
        for number, row in enumerate(matrix):
            for wire, value in row:
                wire_sums[wire] = (wire_sums[wire] + value * lagrange[number]) % r
        sums.append(wire_sums)
    for wire in range(3):
        sums[0][wire] += lagrange[len(circuit.a) + wire]
    g1, g2 = g1_of(CURVES[curve]), g2_of(CURVES[curve])
    first, second = CURVES[curve].g1.generator, CURVES[curve].g2.generator
    assert key.a[::4] == [g1.mul(s % r, first) for s in sums[0][::4]]
    assert key.b1[::4] == [g1.mul(s, first) for s in sums[1][::4]]
    assert key.b2[::4] == [g2.mul(s, second) for s in sums[1][::4]]
    mixed_sums = [
        (secret.beta * a + secret.alpha * b + c) % r for a, b, c in zip(*sums, strict=True)
    ]
    assert [*key.ic, *key.c][::4] == [g1.mul(s, first) for s in mixed_sums[::4]]
    proof, public = groth16.prove(key, circuit.witness, 3, 4)
    assert groth16.verify(groth16.verifying_key(key), public, proof)
    assert circuit_hash.hex() == HASHES[curve] == Zkey.open(tmp_path / "c.zkey").circuit_hash.hex()
    assert ProvingKey.from_zkey(tmp_path / "c.zkey").weakness is not None


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.parametrize("curve", one_and_others(HASHES))
def test_key_file_matches_snarkjs(files: Files, curve: str, tmp_path: Path) -> None:
    """Over BN254 with powers that snarkjs prepared, more of them than the circuit needs."""
    r1cs, ptau = files(curve)
    prepare = (
        ("powersoftau", "new", CURVES[curve].snarkjs_name, "6", "new.ptau"),
        ("powersoftau", "beacon", "new.ptau", "one.ptau", "01" * 32, "10"),
        ("powersoftau", "prepare", "phase2", "one.ptau", "p.ptau"),
    )
    if curve == "bn254":
        ptau = tmp_path / "p.ptau"
    for arguments in (
        *(prepare if curve == "bn254" else ()),
        ("groth16", "setup", r1cs, ptau, "theirs.zkey"),
    ):
        done = run_program("snarkjs", *arguments, directory=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    circuit_hash = new_key(r1cs, ptau, tmp_path / "ours.zkey")
    assert (tmp_path / "ours.zkey").read_bytes() == (tmp_path / "theirs.zkey").read_bytes()
    assert circuit_hash.hex()[:8] in done.stdout


@pytest.mark.thorough
@pytest.mark.node
def test_a_circuit_without_labels_has_the_same_key(files: Files, tmp_path: Path) -> None:
    """snarkjs makes the same key of the file with and without labels."""
    r1cs, ptau = files("bn254")
    for labels in (None, b""):
        (tmp_path / "bare.r1cs").write_bytes(replaced(r1cs.read_bytes(), {3: labels}))
        circuit_hash = new_key(tmp_path / "bare.r1cs", ptau, tmp_path / "ours.zkey", replace=True)
        assert circuit_hash.hex() == HASHES["bn254"]
        done = run_program(
            "snarkjs", "groth16", "setup", "bare.r1cs", ptau, "theirs.zkey", directory=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert circuit_hash.hex()[:8] in done.stdout
        assert (tmp_path / "ours.zkey").read_bytes() == (tmp_path / "theirs.zkey").read_bytes()


@pytest.mark.node
@pytest.mark.parametrize(
    ("curve", "power"), one_and_others([("bn254", 5), ("bn254", 6), ("bls12_381", 5)])
)
def test_the_hash_of_large_domains(
    files: Files, curve: str, power: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """snarkjs, told to read 16 powers at a time, does with 32 what it else does with 2**15."""
    r1cs, _ = files(curve)
    ptau = known_powers(tmp_path, curve, power)
    snarkjs = package("snarkjs")
    (tmp_path / "build").mkdir()
    (tmp_path / "package.json").write_text((snarkjs / "package.json").read_text())
    source = (snarkjs / "build" / "cli.cjs").read_text()
    patched = source.replace("const CHUNK_SIZE = 1<<14", "const CHUNK_SIZE = 16")
    assert patched != source
    (tmp_path / "build" / "cli.cjs").write_text(patched)
    modules = f"{snarkjs / 'node_modules'}:{PACKAGES}"
    done = subprocess.run(
        ["node", "build/cli.cjs", "groth16", "setup", r1cs, ptau, "theirs.zkey"],
        cwd=tmp_path, env={**os.environ, "NODE_PATH": modules},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setattr(circuit_hash, "CHUNK", 16)
    key_hash = new_key(r1cs, ptau, tmp_path / "ours.zkey")
    assert key_hash.hex() != HASHES[curve]
    assert (tmp_path / "ours.zkey").read_bytes() == (tmp_path / "theirs.zkey").read_bytes()


def test_more_terms_than_a_summation_chunk(files: Files) -> None:
    """A few wires at a time, and a wire's terms a few at a time."""
    r1cs, ptau = files("bn254")
    system = R1cs.open(r1cs)
    powers = LagrangePowers.open(PowersOfTau.open(ptau), 5, "it")
    terms = WireTerms.of(system.fr, system.a, system.wires, 3)
    parts = [(terms, powers.beta_tau_g1), (terms, powers.tau_g1)]
    device, group = resolve_device("cpu"), GROUPS["bn254.g1"]

    def points(most: int) -> list[object]:
        chunks = list(wire_points(device, group, parts, 0, system.wires, most))
        assert most > 1000 or len(chunks) > 5
        return to_points(group, np.concatenate(chunks))

    assert points(64) == points(200) == points(1 << 18)


def test_devices_agree(gpu_device: AnyDevice, tmp_path: Path) -> None:
    rows = [[(2, 1), (3, -1)], [(4, 1), (2, 1)]]
    small = Circuit("bn254", rows, rows[::-1], [[(4, 1)], [(1, 1)]], [0] * 5, 1, 0)
    r1cs = small.write_r1cs(tmp_path / "c.r1cs")
    ptau = known_powers(tmp_path, "bn254", 2)
    keys = []
    for number, device in enumerate(("cpu", gpu_device)):
        new_key(r1cs, ptau, tmp_path / f"{number}.zkey", device=device)
        keys.append((tmp_path / f"{number}.zkey").read_bytes())
    assert keys[0] == keys[1]


def test_timeline_reports_progress(files: Files, tmp_path: Path) -> None:
    timeline = Timeline()
    new_key(*files("bn254"), tmp_path / "c.zkey", timeline=timeline)
    stages = {stage.name: stage for stage in timeline.rows()}
    for name in ("coefficients", "ic", "h", "c", "a", "b_g1", "b_g2"):
        assert stages[name].done == stages[name].total > 0, name


def _sections(data: bytes) -> dict[int, tuple[int, int]]:
    sections, at = {}, 12
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 12], "little")
        sections[int.from_bytes(data[at : at + 4], "little")] = (at + 12, length)
        at += 12 + length
    return sections


def _unprepared(data: bytes) -> bytes:
    sections = _sections(data)
    return data[:8] + (7).to_bytes(4, "little") + data[12 : sections[12][0] - 12]


def _short_section(data: bytes) -> bytes:
    """As of a file that was cut to fewer powers without its Lagrange bases."""
    start, length = _sections(data)[14]
    return (
        data[: start - 8]
        + (length - 64).to_bytes(8, "little")
        + data[start : start + length - 64]
        + data[start + length :]
    )


def _off_curve(data: bytes) -> bytes:
    start, _ = _sections(data)[15]
    at = start + 64 * (31 + 7)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "unprepared": (_unprepared, "is not prepared for the second phase; run `quod powersoftau"),
    "cut": (lambda data: data[:-100], "truncated"),
    "short": (_short_section, "truncated or damaged, prepare the powers again"),
    "off the curve": (
        _off_curve, "point 7 of the Lagrange basis beta_tau_g1 of 2\\*\\*5 is not on the curve",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_powers(files: Files, name: str, tmp_path: Path) -> None:
    damage, message = DAMAGES[name]
    r1cs, ptau = files("bn254")
    (tmp_path / "bad.ptau").write_bytes(damage(ptau.read_bytes()))
    with pytest.raises(InputError, match=message):
        new_key(r1cs, tmp_path / "bad.ptau", tmp_path / "c.zkey")
    assert not (tmp_path / "c.zkey").exists()


def test_unsuitable_powers_are_rejected(files: Files, tmp_path: Path) -> None:
    r1cs, ptau = files("bn254")
    few = known_powers(tmp_path, "bn254", 4)
    out = tmp_path / "c.zkey"
    for error, arguments, message in (
        (InputError, (r1cs, few), r"has 2\*\*4 powers and .* needs 2\*\*5; use a larger file"),
        (MismatchError, (files("bls12_381")[0], ptau), "over bn254 do not fit a circuit over"),
        (InputError, (ptau, ptau), "is not a r1cs file"),
        (InputError, (r1cs, r1cs), "is not a ptau file"),
    ):
        raised: type[QuodError] = error
        with pytest.raises(raised, match=message):
            new_key(*arguments, out)
    with pytest.raises(OutputError, match="directory"):
        new_key(r1cs, ptau, tmp_path / "missing" / "c.zkey")
    assert not out.exists()


@pytest.mark.parametrize(
    ("section", "index", "message"),
    [
        (2, 0, "point 0 of tau_g1"),
        (2, 62, "point 62 of tau_g1"),
        (4, 0, "point 0 of alpha_tau_g1"),
        (5, 0, "point 0 of beta_tau_g1"),
        (6, 0, "point 0 of beta_g2"),
        (12, 31, "point 0 of the Lagrange basis tau_g1 of 2**5"),
        (12, 63 + 9, "point 4 of the Lagrange basis h of 2**5"),
        (13, 62, "point 31 of the Lagrange basis tau_g2 of 2**5"),
        (14, 32, "point 1 of the Lagrange basis alpha_tau_g1 of 2**5"),
        (15, 33, "point 2 of the Lagrange basis beta_tau_g1 of 2**5"),
    ],
)
def test_powers_with_zeroed_points_are_rejected(
    files: Files, section: int, index: int, message: str, tmp_path: Path
) -> None:
    """Zeros replace points, as in an incomplete download; verification rejects them too."""
    r1cs, ptau = files("bn254")
    data = bytearray(ptau.read_bytes())
    size = 128 if section in (6, 13) else 64
    start = _sections(bytes(data))[section][0] + index * size
    data[start : start + size] = bytes(size)
    (tmp_path / "p.ptau").write_bytes(data)
    new_key(r1cs, ptau, tmp_path / "0.zkey")
    contribute(tmp_path / "0.zkey", tmp_path / "1.zkey")
    for run, zkey in ((new_key, "c.zkey"), (verify_from_r1cs, "1.zkey")):
        with pytest.raises(InputError) as error:
            run(r1cs, tmp_path / "p.ptau", tmp_path / zkey)
        assert f"{message} is the point at infinity" in str(error.value)
        assert str(error.value.section).startswith(f"{section} (")
        assert error.value.offset == start
    assert not (tmp_path / "c.zkey").exists()


def test_uncontributed_powers_are_rejected(files: Files, tmp_path: Path) -> None:
    """All Lagrange polynomials but one are 0 at a tau of 1."""
    new_powers("bn254", 5, tmp_path / "0.ptau")
    prepare(tmp_path / "0.ptau", tmp_path / "p.ptau")
    with pytest.raises(InputError, match="nobody contributed to its powers"):
        new_key(files("bn254")[0], tmp_path / "p.ptau", tmp_path / "c.zkey")


def test_powers_section_may_come_last(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing behind them for the hash of snarkjs to run into."""
    r1cs, ptau = files("bn254")
    data = ptau.read_bytes()
    start, length = _sections(data)[2]
    moved = data[: start - 12] + data[start + length :] + data[start - 12 : start + length]
    (tmp_path / "moved.ptau").write_bytes(moved)
    assert new_key(r1cs, tmp_path / "moved.ptau", tmp_path / "c.zkey").hex() == HASHES["bn254"]
    monkeypatch.setattr(circuit_hash, "CHUNK", 16)
    with pytest.raises(InputError, match="ends after section 2"):
        new_key(r1cs, tmp_path / "moved.ptau", tmp_path / "d.zkey")


def test_power_equal_to_the_bytes_after_the_section(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """snarkjs divides by their difference."""
    r1cs, ptau = files("bn254")
    data = bytearray(ptau.read_bytes())
    start, length = _sections(bytes(data))[2]
    end = start + length
    data[start + 31 * 64 : start + 31 * 64 + 32] = data[end : end + 32]
    (tmp_path / "same.ptau").write_bytes(data)
    monkeypatch.setattr(circuit_hash, "CHUNK", 16)
    with pytest.raises(InputError, match=r"are not a point, but snarkjs"):
        new_key(r1cs, tmp_path / "same.ptau", tmp_path / "c.zkey")
    assert not (tmp_path / "c.zkey").exists()


def test_known_powers_are_consistent(files: Files) -> None:
    """The Lagrange bases of every level belong to the powers."""
    _, path = files("bn254")
    ptau = PowersOfTau.open(path)
    group, g1 = GROUPS["bn254.g1"], g1_of(CURVES["bn254"])
    tau = Secret.from_seed(PTAU_SEED, CURVES["bn254"].fr, 64).tau
    assert to_points(group, ptau.tau_g1)[:3] == [
        g1.mul(pow(tau, i, group.scalars.value), CURVES["bn254"].g1.generator) for i in range(3)
    ]
    for power in (1, 3, 5):
        powers = LagrangePowers.open(ptau, power, "it")
        total = None
        for point in to_points(group, powers.tau_g1):
            total = g1.add(total, point)
        # Lagrange polynomials add up to 1.
        assert from_points(group, [total]).tobytes() == ptau.tau_g1[:1].tobytes()
