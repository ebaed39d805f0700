from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.formats import (
    R1cs,
    Witness,
    Zkey,
    coefficient_dtype,
    read_proof,
    read_public,
    read_verification_key,
    write_zkey,
)
from quod.formats.iden3 import Words
from tests.conftest import REPOSITORY
from tests.formats.tiny import DATA, TINY_CURVES, integers, refused, replaced, rows_of, split
from tests.support.thorough import one_and_others

BN254 = (DATA / "bn254" / "circuit.zkey").read_bytes()
FQ = CURVES["bn254"].fq
FR = CURVES["bn254"].fr
SINGLE = ["alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2"]
POINTS = [*SINGLE, "ic", "a", "b_g1", "b_g2", "c", "h"]


def opened(tmp_path: Path, data: bytes) -> Zkey:
    (tmp_path / "c.zkey").write_bytes(data)
    return Zkey.open(tmp_path / "c.zkey")


def written(key: Zkey, path: Path, circuit_hash: bytes | None) -> None:
    write_zkey(
        path,
        curve=key.curve,
        public=key.public,
        domain_size=key.domain_size,
        coefficients=key.coefficients,
        circuit_hash=circuit_hash,
        **{name: getattr(key, name) for name in POINTS},
    )


def affine(key: Zkey, point: Words) -> list[int]:
    return [key.fq.from_montgomery(coordinate) for coordinate in integers(point)]


def check_set(folder: Path, proof: str) -> None:
    """Check a key against the other files of its circuit."""
    key = Zkey.open(folder / "circuit.zkey")
    system = R1cs.open(folder / "circuit.r1cs")
    vkey = read_verification_key(folder / "verification_key.json")
    assert key.curve == system.curve == vkey.curve
    assert key.variables == system.wires == len(Witness.open(folder / "witness.wtns"))
    assert key.public == system.public == vkey.public
    assert key.constraints == system.constraints
    assert read_proof(folder / proof).curve == key.curve
    assert len(read_public(folder / "public.json", curve=key.curve)) == key.public
    assert 1 << key.log2_domain == key.domain_size
    key.check_points()

    assert affine(key, key.alpha_g1) == list(vkey.alpha_g1 or ())
    for name in ("beta_g2", "gamma_g2", "delta_g2"):
        (x0, x1), (y0, y1) = getattr(vkey, name)
        assert affine(key, getattr(key, name)) == [x0, x1, y0, y1]
    assert [tuple(affine(key, point)) for point in key.ic] == list(vkey.ic)

    # Section 4 is A and B of the r1cs, and a row for each public variable and the constant.
    r, radix = key.fr.value, key.fr.montgomery_radix
    unit = pow(radix, -2, r)
    matrices: dict[int, list[list[tuple[int, int]]]] = {
        m: [[] for _ in range(key.constraints + key.public + 1)] for m in (0, 1)
    }
    values = integers(key.coefficients["value"])
    for entry, value in zip(key.coefficients, values):
        row = matrices[int(entry["matrix"])][int(entry["constraint"])]
        row.append((int(entry["signal"]), value * unit % r))
    extra = [[(signal, 1)] for signal in range(key.public + 1)]
    assert matrices[0] == rows_of(system.a) + extra
    assert matrices[1] == rows_of(system.b) + [[] for _ in extra]


@pytest.mark.parametrize("curve", TINY_CURVES)
def test_tiny_set(curve: str) -> None:
    check_set(DATA / curve, "proof.json")
    key = Zkey.open(DATA / curve / "circuit.zkey")
    assert (key.variables, key.public, key.domain_size, key.constraints) == (5, 2, 8, 2)
    assert (key.contributions, len(key.circuit_hash or b"")) == (1, 64)
    words = key.fq.words
    assert key.b_g2.shape == (5, 2, 2, words)
    assert key.c.shape == (2, 2, words)
    assert key.h.shape == (8, 2, words)
    # Wire 4 is in no row of B: its point is infinity.
    assert not key.b_g1[4].any()
    assert key.b_g1[3].any()


@pytest.mark.fixtures
def test_shared_fixtures(shared_fixtures: Path) -> None:
    folders = sorted(path.parent for path in shared_fixtures.glob("circom/*/circuit.zkey"))
    assert len(folders) >= 9
    for folder in folders:
        check_set(folder, "circom.proof")


def test_arrays_are_read_only_views_of_the_file() -> None:
    key = Zkey.open(DATA / "bn254" / "circuit.zkey")
    for array in [getattr(key, name) for name in POINTS] + [key.coefficients]:
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert key.size == len(BN254)


@pytest.mark.parametrize("curve", TINY_CURVES)
def test_written_sections_match_snarkjs(tmp_path: Path, curve: str) -> None:
    path = DATA / curve / "circuit.zkey"
    key = Zkey.open(path)
    assert key.circuit_hash is not None
    written(key, tmp_path / "c.zkey", key.circuit_hash)
    expected = dict(split(path.read_bytes())[2])
    expected[10] = expected[10][:64] + bytes(4)
    assert dict(split((tmp_path / "c.zkey").read_bytes())[2]) == expected
    again = Zkey.open(tmp_path / "c.zkey")
    assert (again.circuit_hash, again.contributions) == (key.circuit_hash, 0)


@pytest.mark.fixtures
def test_shared_fixtures_round_trip(tmp_path: Path, shared_fixtures: Path) -> None:
    for path in sorted(shared_fixtures.glob("circom/*/circuit.zkey")):
        key = Zkey.open(path)
        written(key, tmp_path / "c.zkey", key.circuit_hash)
        expected = dict(split(path.read_bytes())[2])
        expected[10] = expected[10][:64] + bytes(4)
        assert dict(split((tmp_path / "c.zkey").read_bytes())[2]) == expected


def test_bls12_377_round_trips(tmp_path: Path) -> None:
    key = Zkey.open(DATA / "bls12_381" / "circuit.zkey")
    fq, fr = CURVES["bls12_377"].fq, CURVES["bls12_377"].fr
    arrays = {name: np.ones_like(getattr(key, name)) for name in POINTS}
    arrays["c"][1, 0] = np.frombuffer((fq.value - 1).to_bytes(48, "little"), dtype="<u4")
    entries = np.zeros(3, dtype=coefficient_dtype(fr.words))
    entries["constraint"] = [0, 1, 7]
    write_zkey(
        tmp_path / "k", curve="bls12_377", public=2, domain_size=8, coefficients=entries, **arrays
    )
    reopened = Zkey.open(tmp_path / "k")
    assert (reopened.curve, reopened.constraints, reopened.variables) == ("bls12_377", 5, 5)
    assert np.array_equal(reopened.c, arrays["c"])
    assert np.array_equal(reopened.coefficients, entries)
    reopened.check_points()
    first = reopened.circuit_hash
    arrays["c"][1, 0, 0] += 1  # q itself
    write_zkey(
        tmp_path / "k", curve="bls12_377", public=2, domain_size=8, coefficients=entries, **arrays
    )
    forged = Zkey.open(tmp_path / "k")
    assert forged.circuit_hash != first
    with pytest.raises(InputError, match="point 1 of c is not below the modulus of bls12_377"):
        forged.check_points()
    # The same arrays without a file have no section and no offset.
    key = Zkey.from_arrays(
        "a key", curve="bls12_377", public=2, domain_size=8, constraints=5, coefficients=entries,
        **arrays,
    )  # fmt: skip
    with pytest.raises(InputError, match="point 1 of c is not below the modulus") as error:
        key.check_points()
    assert (error.value.section, error.value.offset) == (None, None)


def _zeroed(data: bytes, name: str, index: int = 0) -> tuple[bytes, int]:
    """A key with zeros in place of a point, and where that is."""
    key = Zkey.open(DATA / "bn254" / "circuit.zkey")
    array = getattr(key, name)
    size = array.nbytes if name in SINGLE else array[0].nbytes
    place = key._locations[name].offset + index * size
    return data[:place] + bytes(size) + data[place + size :], place


@pytest.mark.parametrize("name", POINTS)
def test_points_at_infinity_of_used_wires_are_rejected(tmp_path: Path, name: str) -> None:
    """Every wire but the last one is used by A, B or both; the first point of c is of wire 3."""
    index = {"b_g1": 3, "b_g2": 3, "a": 1, "ic": 2, "h": 7}.get(name, 0)
    data, place = _zeroed(BN254, name, index)
    forged = opened(tmp_path, data)
    with pytest.raises(InputError) as error:
        forged.check_points()
    which = name if name in SINGLE else f"point {index} of {name}"
    refused(error, f"{which} is the point at infinity")
    assert error.value.offset == place
    assert error.value.section is not None


def test_points_at_infinity_of_unused_wires_are_accepted(tmp_path: Path) -> None:
    """Zero entries and cancelling entries do not use a wire."""
    key = Zkey.open(DATA / "bn254" / "circuit.zkey")
    assert not key.b_g1[4].any()
    key.check_points()
    entries = np.array(key.coefficients)
    indices = np.flatnonzero((entries["matrix"] == 1) & (entries["signal"] == 3))
    data, _ = _zeroed(BN254, "b_g1", 3)
    data, _ = _zeroed(data, "b_g2", 3)
    with pytest.raises(
        InputError, match=r"point 3 of b_g1 .* though the circuit uses its variable"
    ):
        opened(tmp_path, data).check_points()

    def check(changed: NDArray[Any]) -> None:
        arrays = {name: getattr(opened(tmp_path, data), name) for name in POINTS}
        write_zkey(
            tmp_path / "k", curve=key.curve, public=key.public, domain_size=key.domain_size,
            coefficients=changed, **arrays,
        )  # fmt: skip
        Zkey.open(tmp_path / "k").check_points()

    zero = entries.copy()
    zero["value"][indices] = 0
    check(zero)
    opposite = entries[indices].copy()
    for entry, value in zip(opposite, integers(entries["value"][indices]), strict=True):
        words = (key.fr.value - value).to_bytes(key.fr.bytes, "little")
        entry["value"] = np.frombuffer(words, "<u4")
    check(np.concatenate([entries, opposite]))
    with pytest.raises(InputError, match="point 3 of b_g1"):
        check(np.concatenate([entries, opposite[:-1], entries[:1]]))


def header(**changes: int) -> bytes:
    """Section 2 with some fields replaced."""
    fields = {"q": FQ.value, "r": FR.value, "variables": 5, "public": 2, "domain": 8} | changes
    points = dict(split(BN254)[2])[2][84:]
    return (
        struct.pack("<I", 32)
        + fields["q"].to_bytes(32, "little")
        + struct.pack("<I", 32)
        + fields["r"].to_bytes(32, "little")
        + struct.pack("<III", fields["variables"], fields["public"], fields["domain"])
        + points
    )


def coefficient(position: int, data: bytes) -> bytes:
    """Section 4 with `data` at `position` of entry 1."""
    section = bytearray(dict(split(BN254)[2])[4])
    at = 4 + 44 + position
    section[at : at + len(data)] = data
    return bytes(section)


SECTIONS = dict(split(BN254)[2])
# A header that agrees with itself about a domain of 2**29.
TOO_MANY = header(domain=1 << 29)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({1: struct.pack("<I", 2)}, ["is a PLONK proving key and Quod proves Groth16"]),
        ({1: struct.pack("<I", 10)}, ["is a FFLONK proving key", "quod groth16 setup"]),
        ({1: struct.pack("<I", 3)}, ["section 1 (protocol)", "protocol 3 is unknown"]),
        ({1: struct.pack("<II", 1, 0)}, ["section 1 (protocol)", "4 bytes more"]),
        ({1: None}, ["section 1 (protocol)", "is missing"]),
        ({2: header(q=101, r=97)}, ["section 2 (header)", "not the prime of a supported curve"]),
        ({2: header(q=CURVES["bls12_381"].fr.value)}, ["belong to different curves"]),
        ({2: header(r=97)}, ["belong to different curves"]),
        ({2: header(variables=2)}, ["2 variables cannot hold 2 public ones"]),
        ({2: header(public=5)}, ["5 variables cannot hold 5 public ones"]),
        ({2: header(public=2**32 - 1)}, ["5 variables cannot hold 4294967295 public ones"]),
        ({2: header(domain=0)}, ["domain size 0 is not a power of two"]),
        ({2: header(domain=12)}, ["domain size 12 is not a power of two"]),
        ({2: TOO_MANY}, ["domain size 536870912 is more than bn254 has roots", "2**28"]),
        ({2: header(domain=2)}, ["domain size 2 is too small for 2 public variables"]),
        ({2: header(domain=16)}, ["section 9 (h)", "h needs 1024 bytes and 512 are left"]),
        ({2: header(domain=4)}, ["section 9 (h)", "256 bytes more"]),
        ({2: header(variables=6)}, ["section 5 (a)", "a needs 384 bytes and 320 are left"]),
        ({2: header(variables=2**32 - 1)}, ["section 5 (a)", "a needs 274877906880 bytes"]),
        ({2: header(public=1)}, ["section 3 (ic)", "64 bytes more than the header"]),
        ({2: header() + b"\0"}, ["section 2 (header)", "1 bytes more"]),
        ({2: header()[:-1]}, ["section 2 (header)", "delta_g2 needs 128 bytes and 127 are left"]),
        ({2: header()[:3]}, ["section 2 (header)", "the length of q needs 4 bytes"]),
        ({3: SECTIONS[3] + bytes(64)}, ["section 3 (ic)", "64 bytes more"]),
        ({7: SECTIONS[7][:-4]}, ["section 7 (b_g2)", "needs 640 bytes and 636 are left"]),
        ({8: None}, ["section 8 (c)", "is missing"]),
        ({4: struct.pack("<I", 2**32 - 1)}, ["list of 4294967295 coefficients"]),
        ({4: SECTIONS[4] + bytes(44)}, ["section 4 (coefficients)", "44 bytes more"]),
        ({4: SECTIONS[4][:2]}, ["the count of coefficients needs 4 bytes and 2 are left"]),
        ({4: coefficient(0, b"\2")}, ["coefficient 1 is for a matrix other than A (0) and B (1)"]),
        ({4: coefficient(4, b"\x08")}, ["coefficient 1 is for a constraint outside the domain"]),
        ({4: coefficient(8, b"\5")}, ["coefficient 1 is for a variable beyond the circuit's 5"]),
        (
            {4: coefficient(12, FR.value.to_bytes(32, "little"))},
            ["coefficient 1 is not below the prime of bn254"],
        ),
        ({10: SECTIONS[10][:63]}, ["section 10 (contributions)", "the circuit hash needs 64"]),
        ({10: SECTIONS[10][:68]}, ["contribution 0 needs 388 bytes and 0 are left"]),
        ({10: SECTIONS[10] + b"\0"}, ["section 10 (contributions)", "1 bytes more"]),
    ],
)
def test_damaged_key(tmp_path: Path, changes: dict[int, bytes | None], parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        opened(tmp_path, replaced(BN254, changes))
    refused(error, str(tmp_path / "c.zkey"), *parts)


def test_offset_of_a_bad_coefficient(tmp_path: Path) -> None:
    data = replaced(BN254, {4: coefficient(12, FR.value.to_bytes(32, "little"))})
    with pytest.raises(InputError) as error:
        opened(tmp_path, data)
    assert error.value.offset == data.index(FR.value.to_bytes(32, "little"), 200)


def test_plonk_key_of_snarkjs() -> None:
    with pytest.raises(InputError, match="is a PLONK proving key"):
        Zkey.open(DATA / "bn254" / "plonk.zkey")


def test_later_chunks_of_coefficients_are_checked(tmp_path: Path) -> None:
    count = (1 << 15) + 10
    entries = np.zeros(count, dtype=coefficient_dtype(8))
    entries["signal"][count - 2] = 5
    section = struct.pack("<I", count) + entries.tobytes()
    with pytest.raises(InputError, match=f"coefficient {count - 2} is for a variable beyond"):
        opened(tmp_path, replaced(BN254, {4: section}))
    entries["signal"] = 0
    entries["value"][count - 1] = 0xFFFFFFFF
    section = struct.pack("<I", count) + entries.tobytes()
    with pytest.raises(InputError, match=f"coefficient {count - 1} is not below the prime"):
        opened(tmp_path, replaced(BN254, {4: section}))


def test_key_without_coefficients_and_contributions(tmp_path: Path) -> None:
    key = opened(tmp_path, replaced(BN254, {4: bytes(4), 10: None}))
    assert (key.constraints, len(key.coefficients)) == (0, 0)
    assert (key.circuit_hash, key.contributions) == (None, 0)


@pytest.mark.parametrize("name", POINTS)
def test_coordinates_at_the_modulus(tmp_path: Path, name: str) -> None:
    key = Zkey.open(DATA / "bn254" / "circuit.zkey")
    place = key._locations[name]
    array = getattr(key, name)
    last = place.offset + array.nbytes - 32
    data = bytearray(BN254)
    data[last : last + 32] = FQ.value.to_bytes(32, "little")
    forged = opened(tmp_path, bytes(data))
    with pytest.raises(InputError) as error:
        forged.check_points()
    which = name if name in SINGLE else f"point {len(array) - 1} of {name}"
    refused(error, f"a coordinate of {which} is not below the modulus of bn254")
    assert error.value.offset == last
    # One less is a coordinate like any other here.
    data[last : last + 32] = (FQ.value - 1).to_bytes(32, "little")
    opened(tmp_path, bytes(data)).check_points()


def test_writer_rejects_inconsistent_arguments(tmp_path: Path) -> None:
    key = Zkey.open(DATA / "bn254" / "circuit.zkey")
    good: dict[str, object] = {name: getattr(key, name) for name in POINTS} | {
        "curve": "bn254",
        "public": 2,
        "domain_size": 8,
        "coefficients": key.coefficients,
    }
    for change, part in (
        ({"public": 5}, "do not fit into 5 variables"),
        ({"public": 1}, "ic must be uint32 of shape"),
        ({"domain_size": 16}, "h must be uint32 of shape"),
        ({"domain_size": 7}, "domain size 7"),
        ({"domain_size": 2}, "domain size 2"),
        ({"b_g2": key.b_g1}, "b_g2 must be"),
        ({"a": key.a.astype(np.int64)}, "a must be uint32"),
        ({"coefficients": key.a}, "coefficients must be"),
        ({"circuit_hash": b"short"}, "must be None or 64 bytes"),
        ({"a": None}, "a must be a NumPy array, not None"),
    ):
        with pytest.raises(InputError, match=part):
            write_zkey(tmp_path / "k", **(good | change))  # type: ignore[arg-type]
    assert not (tmp_path / "k").exists()


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.parametrize("curve", one_and_others(TINY_CURVES))
def test_snarkjs_accepts_our_key(tmp_path: Path, curve: str) -> None:
    snarkjs = REPOSITORY / "build" / "node" / "node_modules" / ".bin" / "snarkjs"
    if not snarkjs.exists():
        pytest.skip("needs snarkjs: tools/setup.sh node")
    written(Zkey.open(DATA / curve / "circuit.zkey"), tmp_path / "c.zkey", None)

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(
            [snarkjs, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("groth16", "prove", "c.zkey", DATA / curve / "witness.wtns", "proof.json", "public.json")
    run("zkey", "export", "verificationkey", "c.zkey", "vkey.json")
    assert "OK!" in run("groth16", "verify", "vkey.json", "public.json", "proof.json")
    expected = (DATA / curve / "verification_key.json").read_bytes()
    assert (tmp_path / "vkey.json").read_bytes() == expected
    read_proof(tmp_path / "proof.json", curve=curve)
