"""MPC parameters of a key: the bytes of snarkjs, powers of a known tau, and proofs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.ceremony import Beacon
from quod.ceremony.point_bytes import from_uncompressed
from quod.cli import entry
from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError, OutputError, QuodError, VerificationError
from quod.field.array import Words
from quod.formats import Zkey
from quod.formats.bellman import LISTS, VERIFYING_KEY
from quod.formats.iden3 import Iden3File, write_iden3
from quod.groth16 import ProvingKey, VerifyingKey, generate_key
from quod.groth16.phase2 import (
    add_beacon,
    contribute,
    export_bellman,
    import_bellman,
    new_key,
    verify_from_init,
    verify_from_r1cs,
)
from quod.groth16.phase2.mpc_parameters import quotient_powers
from quod.groth16.setup import Secret
from quod.ntt.ordering import bit_reversal
from tests.groth16.circuits import Circuit, recurrence
from tests.groth16.phase2.circuits import known_powers, mixed
from tests.groth16.test_verifier import point_outside_the_subgroup
from tests.support.devices import present
from tests.support.node import run_program
from tests.support.thorough import one_and_others

# SHA-256 of what `snarkjs zkey export bellman` and `export json` 0.7.6 make of the key of `mixed`,
# powers of 2**5 and the beacon.
SNARKJS = {
    "bn254": (
        "12b21fba18a405525a0711c26ec438ce9c42c7c7526e7cb796e1a7ebff27cecd",
        "2cc0ee95d7842e0e6ce50112323df9576c0af36bd37c18f45f4a04c8ddb75d44",
    ),
    "bls12_381": (
        "eb037f505b26b4facd229e33b5e484cbc270e90ae2b0318dad775f2a9c265c02",
        "098a09c9921a4e16d81cb25d1f6330a5e76861367f6976df483a41ee16ef0b4e",
    ),
}
SEED = 3
FEW = {"bn254": (32, 64, 384), "bls12_381": (48, 96, 544)}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Keys with a contribution of which all is public."""
    folder = tmp_path_factory.mktemp("keys")
    key_paths = {}
    for curve in SNARKJS:
        r1cs = mixed(curve).write_r1cs(folder / f"{curve}.r1cs")
        new_key(r1cs, known_powers(folder, curve, 5), folder / f"{curve}.0.zkey")
        key_paths[curve] = folder / f"{curve}.zkey"
        beacon = Beacon.from_hex("0102030405060708", 10)
        add_beacon(folder / f"{curve}.0.zkey", key_paths[curve], beacon, name="all")
    return key_paths


def _read(path: Path, curve: str) -> tuple[dict[str, Words], bytes]:
    """The points of a file by name, in Montgomery form, and what is behind them."""
    data, lists, at = path.read_bytes(), {}, 0
    host = open_device("cpu")
    for name, degree in {**VERIFYING_KEY, "ic": 1, **LISTS}.items():
        group = GROUPS[f"{curve}.g{degree}"]
        count = 1
        if name not in VERIFYING_KEY:
            count, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        size = 8 * group.point_words * count
        points = from_uncompressed(host, group, data[at : at + size])
        assert points is not None
        lists[name], at = points, at + size
    return lists, data[at:]


@pytest.mark.parametrize("curve", one_and_others(SNARKJS, always=["bn254"]))
def test_exported_files_match_snarkjs_hashes(
    curve: str, keys: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, expected in zip(("bellman", "json"), SNARKJS[curve], strict=True):
        out = tmp_path / kind
        assert entry.run(["zkey", "export", kind, str(keys[curve]), str(out)]) == 0
        assert hashlib.sha256(out.read_bytes()).hexdigest() == expected
    assert f"Wrote {tmp_path / 'json'}." in capsys.readouterr().err
    _, tail = _read(tmp_path / "bellman", curve)
    size, _, contribution = FEW[curve]
    assert (len(tail), size) == (64 + 4 + contribution, CURVES[curve].fq.bytes)


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.parametrize("curve", ["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def test_exports_match_snarkjs_and_round_trip(
    curve: str, keys: dict[str, Path], tmp_path: Path
) -> None:
    """snarkjs exports the same files, also of another circuit, and contributes to ours."""
    generate_key(recurrence(curve, 9).write_r1cs(tmp_path / "c.r1cs"), tmp_path / "t.zkey", SEED)
    for name, zkey in (("own", keys[curve]), ("test", tmp_path / "t.zkey")):
        for kind in ("bellman", "json"):
            words = ["zkey", "export", kind, str(zkey)]
            assert entry.run([*words, str(tmp_path / f"{name}.ours"), "-q"]) == 0
            done = run_program("snarkjs", *words, f"{name}.theirs", directory=tmp_path)
            assert done.returncode == 0, done.stdout
            ours, theirs = ((tmp_path / f"{name}.{who}").read_bytes() for who in ("ours", "theirs"))
            assert ours == theirs, (name, kind)
    export_bellman(keys[curve], tmp_path / "c.params")
    done = run_program("snarkjs", "zkey", "bellman", "contribute", CURVES[curve].snarkjs_name,
                       "c.params", "r.params", "-e=text", directory=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stdout
    before, after = (_read(tmp_path / name, curve)[1] for name in ("c.params", "r.params"))
    assert (before[64:68], after[64:68]) == (b"\0\0\0\1", b"\0\0\0\2")
    # And what she makes a key of again follows.
    words = ["zkey", "import", "bellman", str(keys[curve]), "r.params", "two.zkey", "-n=them"]
    done = run_program("snarkjs", *words, directory=tmp_path)
    assert done.returncode == 0, done.stdout
    first, ptau = keys[curve].with_suffix(".0.zkey"), known_powers(keys[curve].parent, curve, 5)
    import_bellman(keys[curve], tmp_path / "r.params", tmp_path / "ours.zkey", name="them")
    theirs, ours = (_sections(tmp_path / name) for name in ("two.zkey", "ours.zkey"))
    assert theirs == ours
    verified = verify_from_init(first, ptau, tmp_path / "two.zkey")
    assert [contribution.details.name for contribution, _ in verified.contributions] == [
        "all",
        "them",
    ]
    assert (
        verify_from_r1cs(keys[curve].with_suffix(".r1cs"), ptau, tmp_path / "two.zkey") == verified
    )


@pytest.mark.parametrize(
    ("steps", "curve"),
    one_and_others(
        [(9, "bn254"), (0, "bn254"), (1, "bn254"), (9, "bls12_381")],
        always=[(9, "bn254"), (0, "bn254"), (1, "bn254")],
    ),
)
def test_h_matches_a_known_tau(
    curve: str, steps: int, tmp_path: Path
) -> None:  # fmt: skip
    """Domains of 1 to 16: tau**i * (tau**n - 1) / delta times the generator, i to n - 2."""
    circuit = recurrence(curve, steps) if steps else Circuit(curve, [], [], [], [1], 0, 0)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", SEED)
    export_bellman(tmp_path / "c.zkey", tmp_path / "c.params")
    n = Zkey.open(tmp_path / "c.zkey").domain_size
    lists, _ = _read(tmp_path / "c.params", curve)
    fr, group = CURVES[curve].fr, GROUPS[f"{curve}.g1"]
    r, law, secret = fr.value, affine_group(group), Secret.from_seed(SEED, fr, n)
    scale = (pow(secret.tau, n, r) - 1) * pow(secret.delta, -1, r)
    expected = [
        law.multiply(pow(secret.tau, i, r) * scale % r, law.generator) for i in range(n - 1)
    ]
    assert to_points(group, lists["h"]) == expected
    assert n == {0: 1, 1: 8, 9: 16}[steps]


@pytest.mark.parametrize("gpu_device", present("cuda", "webgpu"), indirect=True)
def test_devices_agree(gpu_device: AnyDevice, tmp_path: Path) -> None:
    circuit = Circuit("bn254", [[(1, 1)]], [[(1, 1)]], [[(0, 49)]], [1, 7], 0, 0)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", SEED)
    zkey = Zkey.open(tmp_path / "c.zkey")
    (cpu_powers,), (gpu_powers,) = (
        quotient_powers(at, zkey) for at in (open_device("cpu"), gpu_device)
    )
    assert cpu_powers.tobytes() == gpu_powers.tobytes()


def test_proofs_with_an_imported_key_verify(keys: dict[str, Path], tmp_path: Path) -> None:
    """Over BN254 the roots of snarkjs and of arkworks are the same ones."""
    before = Zkey.open(keys["bn254"])
    export_bellman(keys["bn254"], tmp_path / "c.params")
    points, _ = _read(tmp_path / "c.params", "bn254")
    h = np.zeros_like(before.h)
    h[:-1] = points["h"]
    points |= {"h": h[bit_reversal(before.log2_domain)], "c": points.pop("l")}
    converted = Zkey.from_arrays(
        "c.params", curve="bn254", public=before.public, domain_size=before.domain_size,
        constraints=before.constraints, coefficients=before.coefficients, owned=True,
        monomial=True,
        **{name: array[0] if name in VERIFYING_KEY else array for name, array in points.items()},
    )  # fmt: skip
    circuit = mixed("bn254")
    proof, public = ProvingKey(converted).prove(circuit.write_wtns(tmp_path / "w.wtns"), seed=1)
    assert (proof, public) == ProvingKey(before).prove(tmp_path / "w.wtns", seed=1)
    assert VerifyingKey.from_zkey(before).verify(circuit.public, proof)


def _changed(source: Path, out: Path, section: int, at: int, data: bytes) -> Path:
    file = Iden3File.open(source, "zkey", 1)
    parts = {number: bytearray(file.section(number, "").rest()) for number in file.sections}
    start = at % len(parts[section])
    parts[section][start : start + len(data)] = data
    write_iden3(out, "zkey", 1, [(number, [bytes(content)]) for number, content in parts.items()])
    return out


def _outside(curve: str, degree: int) -> bytes:
    group = GROUPS[f"{curve}.g{degree}"]
    return from_points(group, [point_outside_the_subgroup(affine_group(group))]).tobytes()


@pytest.mark.parametrize(
    ("section", "at", "data", "message"),
    [
        (9, 96 * 5, b"\1", "point 5 of h is not on the curve"),
        (9, 96 * 6, "g1", "point 6 of h is not in the subgroup of prime order"),
        (8, 96 * 2, "g1", "point 2 of c is not in the subgroup of prime order"),
        (7, 192 * 3, "g2", "point 3 of b_g2 is not in the subgroup of prime order"),
        (5, 0, bytes([255]) * 48, "a coordinate of point 0 of a is not below the modulus"),
        (2, -192, bytes(192), "delta_g2 is the point at infinity"),
        (10, 64, b"\2", "contribution 1"),
    ],
)
def test_bad_keys_are_refused(
    section: int, at: int, data: Any, message: str, keys: dict[str, Path], tmp_path: Path
) -> None:
    raw = data if isinstance(data, bytes) else _outside("bls12_381", int(data[1]))
    bad = _changed(keys["bls12_381"], tmp_path / "bad.zkey", section, at, raw)
    with pytest.raises(InputError, match=message) as refused:
        export_bellman(bad, tmp_path / "out")
    assert str(bad) in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_other_files_are_refused(keys: dict[str, Path], tmp_path: Path) -> None:
    zkey = keys["bn254"]
    with pytest.raises(InputError, match="is not a zkey file"):
        export_bellman(zkey.with_suffix(".r1cs"), tmp_path / "out")
    with pytest.raises(OutputError, match="create its directory first"):
        export_bellman(zkey, tmp_path / "none" / "out")
    file = Iden3File.open(zkey, "zkey", 1)
    parts = [
        (number, [bytes(file.section(number, "").rest())])
        for number in file.sections
        if number < 10
    ]
    write_iden3(tmp_path / "short.zkey", "zkey", 1, parts)
    with pytest.raises(InputError, match="contributions"):
        export_bellman(tmp_path / "short.zkey", tmp_path / "out")
    assert entry.run(["zkey", "export", "bellman", str(zkey), str(zkey)]) == 2
    assert entry.run(["zkey", "export", "json", str(tmp_path / "no.zkey"), "out"]) == 3


# --- and back


def _sections(path: Path) -> dict[int, bytes]:
    file = Iden3File.open(path, "zkey", 1)
    return {number: bytes(file.section(number, "").rest()) for number in file.sections}


@pytest.fixture(scope="module")
def returned(keys: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MPC parameters of the key over BN254 after one contribution more."""
    folder = tmp_path_factory.mktemp("returned")
    contribute(keys["bn254"], folder / "next.zkey", name="them")
    export_bellman(folder / "next.zkey", folder / "r.params")
    return folder / "r.params"


def test_imported_key_equals_the_contributed_key(
    keys: dict[str, Path], returned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The keys are equal except for the part of h that no quotient uses."""
    zkey, out = keys["bn254"], tmp_path / "out.zkey"
    words = ["zkey", "import", "bellman", str(zkey), str(returned), str(out)]
    assert entry.run([*words, "--name", "them"]) == 0
    assert "Contribution 2: " in capsys.readouterr().out
    sections, expected = _sections(out), _sections(returned.with_name("next.zkey"))
    assert {**sections, 9: b""} == {**expected, 9: b""}
    export_bellman(out, tmp_path / "again.params")
    assert (tmp_path / "again.params").read_bytes() == returned.read_bytes()
    ptau = known_powers(zkey.parent, "bn254", 5)
    verified = verify_from_r1cs(zkey.with_suffix(".r1cs"), ptau, out)
    assert [contribution.details.name for contribution, _ in verified.contributions] == [
        "all",
        "them",
    ]
    circuit, key = mixed("bn254"), ProvingKey.from_zkey(out)
    proof, public = key.prove(circuit.write_wtns(tmp_path / "w.wtns"))
    assert key.verifying_key.verify(public, proof)


def _place(name: str, number: int) -> int:
    """Return the offset of a point in the MPC parameters over BN254 of `mixed` with 32 rows."""
    counts = {"ic": 3, "h": 31, "l": 30, "a": 33, "b_g1": 33, "b_g2": 33}
    at = 0
    for list_name, degree in {**VERIFYING_KEY, "ic": 1, **LISTS}.items():
        at += 4 * (list_name in counts)
        if list_name == name:
            return at + 64 * degree * number
        at += 64 * degree * counts.get(list_name, 1)
    # The circuit hash, the count, and contributions of 384 bytes.
    return at + 68 + 384 * number


@pytest.mark.parametrize(
    ("name", "number", "change", "error", "message"),
    [
        ("alpha_g1", 0, "swap", MismatchError, "alpha_g1 differs from that of"),
        ("ic", 1, "swap", MismatchError, "ic differs from that of"),
        ("a", 0, "swap", MismatchError, "a differs from that of"),
        ("b_g2", 2, "bit", MismatchError, "b_g2 differs from that of"),
        ("h", 3, "swap", VerificationError, "h is not the key's h divided by"),
        ("l", 3, "swap", VerificationError, "l is not the key's l divided by"),
        ("h", 3, "bit", InputError, "h: point 3 is not on the curve"),
        ("l", 2, "full", InputError, "l: a coordinate is not below the modulus"),
        ("delta_g1", 0, "generator", VerificationError, "delta differs from the last"),
        ("end", 1, "generator", VerificationError, "contribution 2 is not valid"),
        ("end", 1, "bit", InputError, "contribution 2: delta_g1 is not on the curve"),
        ("end", 1, "full", InputError, "has a coordinate that is not below"),
        ("end", 0, "bit", MismatchError, "the contributions do not begin with those of"),
    ],
)
def test_invalid_contributions_are_rejected(
    name: str, number: int, change: str, error: type[QuodError], message: str,
    keys: dict[str, Path], returned: Path, tmp_path: Path,
) -> None:  # fmt: skip
    data, at = bytearray(returned.read_bytes()), _place(name, number)
    generator = b"".join(value.to_bytes(32, "big") for value in (1, 2))
    if change == "swap":
        data[at : at + 128] = data[at + 64 : at + 128] + data[at : at + 64]
    elif change == "generator":
        data[at : at + 64] = generator
    elif change == "bit":
        data[at + 63] ^= 1
    else:
        data[at : at + 32] = bytes([255]) * 32
    (tmp_path / "bad.params").write_bytes(data)
    with pytest.raises(error, match=message) as refused:
        import_bellman(keys["bn254"], tmp_path / "bad.params", tmp_path / "out.zkey")
    assert not (tmp_path / "out.zkey").exists()
    if isinstance(refused.value, InputError):
        # Of lists with numbers that are too large, where they begin.
        first = _place(name, 0) if (name, change) == ("l", "full") else at
        assert refused.value.offset in range(first, first + 64)


def test_invalid_responses_are_rejected(
    keys: dict[str, Path], returned: Path, tmp_path: Path
) -> None:
    zkey, data, bad = keys["bn254"], returned.read_bytes(), tmp_path / "bad.params"
    export_bellman(zkey, tmp_path / "same.params")
    with pytest.raises(InputError, match="there are 1 contributions, and the key has 1"):
        import_bellman(zkey, tmp_path / "same.params", tmp_path / "out")
    ends = _place("end", 0) - 68
    for content, error, message in (
        (data[:-1], InputError, "contribution 2: its transcript"),
        (data + b"x", InputError, "1 bytes more"),
        (data[:100], InputError, "MPC parameters"),
        (data[:ends] + bytes(64) + data[ends + 64 :], MismatchError, "the circuit hash differs"),
    ):
        bad.write_bytes(content)
        with pytest.raises(error, match=message) as refused:
            import_bellman(zkey, bad, tmp_path / "out")
        assert isinstance(refused.value, InputError)
        assert refused.value.offset is not None
    generate_key(recurrence("bn254", 9).write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", SEED)
    with pytest.raises(MismatchError, match=r"ic has 3|h has 31 points, not 15"):
        import_bellman(tmp_path / "c.zkey", returned, tmp_path / "out")
    assert not (tmp_path / "out").exists()
