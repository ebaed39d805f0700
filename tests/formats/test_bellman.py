"""bellman's files: written files round-trip, and damaged files are rejected with the offset."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod.curve.encoding.points import encode_zcash_g1, encode_zcash_g2
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.errors import InputError
from quod.field.array import Words, integers_to_words
from quod.field.moduli import BLS12_381_FQ
from quod.formats import (
    BellmanParameters,
    BellmanVerifyingKey,
    write_bellman_key,
    write_bellman_parameters,
)
from quod.formats.bellman import LISTS, VERIFYING_KEY

COUNTS = {"ic": 3, "h": 3, "l": 2, "a": 4, "b_g1": 2, "b_g2": 2}
KEY_BYTES = 96 * 3 + 192 * 3 + 4 + 96 * COUNTS["ic"]


def multiples(degree: int, first: int, count: int) -> list[tuple[object, object]]:
    law = affine_group(GROUPS[f"bls12_381.g{degree}"])
    law_multiples = [law.multiply(first + at, law.generator) for at in range(count)]
    return [point for point in law_multiples if point is not None]


def words(degree: int, points: list[tuple[object, object]]) -> Words:
    flat: list[int] = []
    for x, y in points:
        flat += [x, y] if degree == 1 else [*x, *y]  # type: ignore[list-item, misc]
    shape = (len(points), 2, 12) if degree == 1 else (len(points), 2, 2, 12)
    return integers_to_words(BLS12_381_FQ, flat).reshape(shape)


@pytest.fixture(scope="module")
def points() -> dict[str, Words]:
    """Points of the right kinds for a small key."""
    by_name: dict[str, Words] = {}
    for start, (name, degree) in enumerate(VERIFYING_KEY.items()):
        by_name[name] = words(degree, multiples(degree, 2 + start, 1))[0]
    for start, (name, degree) in enumerate({"ic": 1, **LISTS}.items()):
        by_name[name] = words(degree, multiples(degree, 20 + 5 * start, COUNTS[name]))
    return by_name


@pytest.fixture
def data(points: dict[str, Words], tmp_path: Path) -> bytes:
    write_bellman_parameters(tmp_path / "params", points)
    return (tmp_path / "params").read_bytes()


def same(left: dict[str, Words], right: dict[str, Words]) -> bool:
    return all(np.array_equal(left[name], right[name]) for name in right)


def test_written_parameters_round_trip(
    points: dict[str, Words], data: bytes, tmp_path: Path
) -> None:
    read = BellmanParameters.open(tmp_path / "params")
    assert same(dict(read.points), points)
    assert (read.public, read.circuit_hash, read.contributions) == (2, None, 0)
    assert read.size == len(data)
    write_bellman_key(tmp_path / "key", points)
    assert (tmp_path / "key").read_bytes() == data[:KEY_BYTES]
    for path in ("key", "params"):
        key = BellmanVerifyingKey.open(tmp_path / path)
        assert key.public == 2
        assert same(dict(points), dict(key.points))


def test_written_bytes_match_the_point_encoders(data: bytes) -> None:
    """Against the encoders of single points, which tests hold against arkworks."""
    (alpha,) = multiples(1, 2, 1)
    assert data[:96] == encode_zcash_g1(alpha, compressed=False)  # type: ignore[arg-type]
    (beta,) = multiples(2, 4, 1)
    assert data[192:384] == encode_zcash_g2(beta, compressed=False)  # type: ignore[arg-type]
    assert data[KEY_BYTES - 96 * 3 - 4 : KEY_BYTES - 96 * 3] == b"\0\0\0\3"
    ic = b"".join(encode_zcash_g1(p, compressed=False) for p in multiples(1, 20, 3))  # type: ignore[arg-type]
    assert data[KEY_BYTES - 96 * 3 : KEY_BYTES] == ic


def test_parameters_with_contributions(data: bytes, tmp_path: Path) -> None:
    circuit = bytes(range(64))
    (tmp_path / "params").write_bytes(data + circuit + (2).to_bytes(4, "big") + bytes(2 * 544))
    read = BellmanParameters.open(tmp_path / "params")
    assert (read.circuit_hash, read.contributions) == (circuit, 2)


def put(at: int, change: Callable[[int], int]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes([change(data[place])]) + data[place + 1 :]

    return changed


AT_H = KEY_BYTES + 4
AT_B2 = KEY_BYTES + 4 * 5 + 96 * (3 + 2 + 4 + 2)
Q = BLS12_381_FQ.value.to_bytes(48, "big")


@pytest.mark.parametrize(
    ("change", "section", "offset", "message"),
    [
        (put(0, lambda b: b | 0x80), "alpha_g1", 0, "point 0 is flagged as compressed"),
        (put(96, lambda b: b | 0x20), "beta_g1", 96, "point 0 has a sign bit"),
        (put(AT_H + 96, lambda b: b | 0x40), "h", AT_H + 96, "point 1 is the point at infinity"),
        (put(AT_B2 + 192, lambda b: b | 0x40), "b_g2", AT_B2 + 192, "point 1 is the point at inf"),
        (lambda d: d[:AT_H] + Q + d[AT_H + 48 :], "h", AT_H, "of point 0 is not below q"),
        (lambda d: d[:-48] + Q, "b_g2", AT_B2 + 192, "a coordinate of point 1 is not below q"),
        (lambda d: d[:-1], "b_g2", AT_B2, "the list of 2 points needs 384 bytes and 383 are left"),
        (lambda d: d[:50], "alpha_g1", 0, "needs 96 bytes and 50 are left"),
        (lambda d: d[:AT_H - 2], "h", AT_H - 4, "the count of h needs 4 bytes and 2 are left"),
        (put(AT_H - 4, lambda b: 0xFF), "h", AT_H, "the list of 4278190083 points needs"),
        (lambda d: d + b"\0", "transcript", None, "the hash of the circuit needs 64 bytes"),
        (lambda d: d + bytes(64), "transcript", None, "the count of contributions needs 4 bytes"),
        (lambda d: d + bytes(68) + b"x", "transcript", None, "1 bytes more than the header"),
        (lambda d: d + bytes(67) + b"\1", "transcript", None, "1 contributions needs 544 bytes"),
        (lambda d: d[: KEY_BYTES - 292] + bytes(4) + d[KEY_BYTES:], "ic", None, "ic is empty"),
        (lambda d: d[: AT_B2 - 4] + b"\0\0\0\1" + d[AT_B2 : AT_B2 + 192], "b_g2", AT_B2,
         "b has 2 points in G1 and 1 in G2"),
    ],
)  # fmt: skip
def test_damaged_files(
    data: bytes,
    tmp_path: Path,
    change: Callable[[bytes], bytes],
    section: str,
    offset: int | None,
    message: str,
) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(change(data))
    for kind in (BellmanParameters, BellmanVerifyingKey):
        with pytest.raises(InputError, match=re.escape(message)) as caught:
            kind.open(path)
        assert caught.value.path == str(path)
        assert caught.value.section == section
        assert caught.value.offset is not None
        assert offset is None or caught.value.offset == offset


def test_every_truncation_is_rejected(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    for length in range(0, len(data), 61):
        path.write_bytes(data[:length])
        if length == KEY_BYTES:
            continue
        with pytest.raises(InputError, match=r"are left in the section|is empty"):
            BellmanParameters.open(path)


def test_verifying_key_alone_is_rejected_as_parameters(
    points: dict[str, Words], tmp_path: Path
) -> None:
    write_bellman_key(tmp_path / "key", points)
    with pytest.raises(InputError, match="is only a verifying key; give the parameters"):
        BellmanParameters.open(tmp_path / "key")


def test_empty_lists(points: dict[str, Words], tmp_path: Path) -> None:
    """A circuit without private variables, on a domain of one point."""
    empty = {name: points[name][:0] for name in ("h", "l", "b_g1", "b_g2")}
    write_bellman_parameters(tmp_path / "params", points | empty)
    read = BellmanParameters.open(tmp_path / "params")
    assert [len(read.points[name]) for name in ("h", "l", "a", "b_g2")] == [0, 0, 4, 0]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("h", lambda a: a.astype(np.int64), "h must be uint32"),
        ("b_g2", lambda a: a[:, :, 0], "b_g2 must be uint32 of shape"),
        ("l", np.zeros_like, "l has the point at infinity"),
        ("ic", lambda a: np.full_like(a, 0xFFFFFFFF), "ic has a coordinate that is not below q"),
    ],
)
def test_invalid_points_are_not_written(
    points: dict[str, Words], tmp_path: Path, name: str, change: Callable[[Words], Words],
    message: str,
) -> None:  # fmt: skip
    with pytest.raises(InputError, match=message):
        write_bellman_parameters(tmp_path / "out", points | {name: change(points[name])})
    assert not (tmp_path / "out").exists()


@pytest.mark.fixtures
def test_sapling_parameters_round_trip(shared_fixtures: Path, tmp_path: Path) -> None:
    path = shared_fixtures / "zcash" / "sapling-output.params"
    data = path.read_bytes()
    assert hashlib.blake2b(data).hexdigest().startswith("657e3d38")
    read = BellmanParameters.open(path)
    assert {name: len(read.points[name]) for name in LISTS} == {
        "h": 8191, "l": 7821, "a": 6298, "b_g1": 4850, "b_g2": 4850,
    }  # fmt: skip
    assert (read.public, read.contributions, read.size) == (5, 97, len(data))
    write_bellman_parameters(tmp_path / "again", read.points)
    again = (tmp_path / "again").read_bytes()
    assert again == data[: len(again)]
    assert len(data) == len(again) + 68 + 97 * 544
    assert read.circuit_hash == data[len(again) : len(again) + 64]
