from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.field import integers_to_words
from quod.formats import Witness, write_wtns
from quod.formats.wtns import wtns_head
from tests.formats.tiny import (
    DATA,
    TINY_CURVES,
    container,
    elements,
    integers,
    refused,
    replaced,
    split,
    tiny_witness,
)

BN254 = (DATA / "bn254" / "witness.wtns").read_bytes()
R = CURVES["bn254"].fr.value


def opened(tmp_path: Path, data: bytes) -> Witness:
    (tmp_path / "w.wtns").write_bytes(data)
    return Witness.open(tmp_path / "w.wtns")


def header(prime: int, length: int, count: int) -> bytes:
    return struct.pack("<I", length) + prime.to_bytes(length, "little") + struct.pack("<I", count)


@pytest.mark.parametrize("curve", TINY_CURVES)
def test_tiny_set_matches_the_writer(tmp_path: Path, curve: str) -> None:
    stored = DATA / curve / "witness.wtns"
    witness = Witness.open(stored)
    assert witness.curve == curve
    assert integers(witness.values) == tiny_witness(curve)
    assert len(witness) == 5
    write_wtns(tmp_path / "w.wtns", curve, witness.values)
    assert (tmp_path / "w.wtns").read_bytes() == stored.read_bytes()


def test_all_curves_and_the_largest_value(tmp_path: Path) -> None:
    for name, curve in CURVES.items():
        values = [1, curve.fr.value - 1, 0]
        write_wtns(tmp_path / "w.wtns", name, elements(values, curve.fr.words))
        witness = Witness.open(tmp_path / "w.wtns")
        assert (witness.curve, integers(witness.values)) == (name, values)


@pytest.mark.fixtures
def test_shared_fixtures_round_trip(tmp_path: Path, shared_fixtures: Path) -> None:
    files = sorted(shared_fixtures.glob("circ*/*/witness.wtns"))
    assert len(files) >= 9
    for path in files:
        witness = Witness.open(path)
        write_wtns(tmp_path / "w.wtns", witness.curve, witness.values)
        assert (tmp_path / "w.wtns").read_bytes() == path.read_bytes()


def section(values: list[int]) -> bytes:
    return elements(values, 8).tobytes()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({1: header(R, 32, 6)}, ["section 2 (values)", "witness of 6 values", "160 are left"]),
        ({1: header(R, 32, 4)}, ["section 2 (values)", "32 bytes more than the header"]),
        ({1: header(R, 32, 2**32 - 1)}, ["section 2 (values)", "137438953440 bytes"]),
        ({1: header(R, 32, 5) + b"\0"}, ["section 1 (header)", "1 bytes more"]),
        ({1: header(R, 32, 5)[:-1]}, ["section 1 (header)", "count of values needs 4 bytes"]),
        ({1: header(R, 40, 5)}, ["the prime of bn254 takes 32 bytes, not 40"]),
        ({1: header(7, 31, 5)}, ["cannot be 31 bytes"]),
        ({1: struct.pack("<I", 2**32 - 8)}, ["cannot be 4294967288 bytes long"]),
        ({1: header(2**64 - 2**32 + 1, 8, 5)}, ["section 2 (values)", "120 bytes more than"]),
        (
            {1: header(101, 8, 5)},
            ["the prime 0x65 is not supported", "bn254, bls12_381, ", "goldilocks"],
        ),
        ({1: header(R, 32, 0), 2: b""}, ["has no values"]),
        ({2: section([1, 2, R, 3, 4])}, ["offset 140", "value 2 is not below the prime of bn254"]),
        ({2: section([1, 2, 3, 3, 2**256 - 1])}, ["offset 204", "value 4 is not below"]),
        ({2: section([2, 1, 1, 1, 1])}, ["offset 76", "value 0 must be the constant 1"]),
        ({2: section([1 + 2**64, 1, 1, 1, 1])}, ["value 0 must be the constant 1"]),
        ({2: None}, ["section 2 (values)", "is missing"]),
    ],
)
def test_damaged_witness(
    tmp_path: Path, changes: dict[int, bytes | None], parts: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        opened(tmp_path, replaced(BN254, changes))
    refused(error, str(tmp_path / "w.wtns"), *parts)


def test_wrong_kind_and_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a wtns file"):
        Witness.open(DATA / "bn254" / "circuit.zkey")
    kind, _, sections = split(BN254)
    with pytest.raises(InputError, match="version 1 of the wtns format"):
        opened(tmp_path, container(kind, 1, sections))


def test_writer_rejects_what_the_reader_rejects(tmp_path: Path) -> None:
    for values, part in (
        ([2, 3], "must be 1"),
        ([], "must be 1"),
        ([1, R], "value 1 is not below"),
    ):
        with pytest.raises(InputError, match=part):
            write_wtns(tmp_path / "w", "bn254", elements(values, 8))
    with pytest.raises(InputError, match="shape"):
        write_wtns(tmp_path / "w", "bn254", np.ones((2, 4), dtype=np.uint32))
    assert not (tmp_path / "w").exists()


def test_header_precedes_the_values(tmp_path: Path) -> None:
    values = integers_to_words(CURVES["bls12_381"].fr, [1, 2, 3])
    write_wtns(tmp_path / "w.wtns", "bls12_381", values)
    written = (tmp_path / "w.wtns").read_bytes()
    assert wtns_head("bls12_381", 3) + values.tobytes() == written
