"""Aggregates of proofs: the points of upstream's, and malformed ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.cli import entry
from quod.curve.encoding.points import encode_zcash_g1, encode_zcash_g2
from quod.curve.named.bls12_381 import BLS12_381
from quod.errors import InputError
from quod.filecoin.checks import check_aggregate

_G1 = encode_zcash_g1(BLS12_381.g1.generator)
_G2 = encode_zcash_g2(BLS12_381.g2.generator)
_GT = bytes(288)
_Q = BLS12_381.fq.value.to_bytes(48, "little")
_COUNT_AT, _KEYS_AT = 5 * 288 + 48, 5 * 288 + 48 + 4 + 10 * 288 + 2 * 48


def aggregate() -> bytes:
    """Return points in the layout of an aggregate of two proofs; nothing else about it is right."""
    final = _G1 + _G2 + _G1 + 2 * _G2 + 2 * _G1 + 2 * _G2 + 2 * _G1
    return 5 * _GT + _G1 + b"\2\0\0\0" + 10 * _GT + 2 * _G1 + final


def changed(offset: int, part: bytes) -> bytes:
    data = aggregate()
    return data[:offset] + part + data[offset + len(part) :]


def test_the_points_of_an_aggregate() -> None:
    assert check_aggregate(aggregate()) == 2
    assert check_aggregate(changed(288 - 48, bytes([255] * 6))) == 2


# A point of the curve outside the subgroup: x = 4.
_OUTSIDE = bytes([0x80]) + bytes(46) + b"\4"


@pytest.mark.parametrize(
    ("data", "offset", "message"),
    [
        (b"", _COUNT_AT, "is not an aggregate: 0 is not a power of two"),
        (changed(_COUNT_AT, b"\3"), _COUNT_AT, "is not an aggregate: 3 is not a power of two"),
        (changed(_COUNT_AT, b"\1"), _COUNT_AT, "is not an aggregate: 1 is not a power of two"),
        (changed(_COUNT_AT, b"\0\0\1"), _COUNT_AT, "65536 is not a power of two from 2 to 8192"),
        (aggregate()[:-1], len(aggregate()) - 1, "the aggregate is cut off"),
        (aggregate() + b"\0", len(aggregate()), "has 1 bytes after the aggregate"),
        (changed(0, _Q), 0, "Gt: coefficient 0 is not below q"),
        (changed(3 * 288 + 48, _Q), 3 * 288, "Gt: coefficient 1 is not below q"),
        (changed(5 * 288, _OUTSIDE), 5 * 288, "G1: .*subgroup"),
        (changed(_KEYS_AT + 48, bytes(96)), _KEYS_AT + 48, "G2: "),
    ],
)
def test_malformed_aggregates(data: bytes, offset: int, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        check_aggregate(data, "file")
    assert (raised.value.path, raised.value.offset) == ("file", offset)


@pytest.mark.fixtures
def test_an_aggregate_of_upstream(
    shared_fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_fixtures / "filecoin/aggregate_proof_bytes"
    assert check_aggregate(path.read_bytes()) == 512
    assert entry.run(["filecoin", "inspect", str(path), "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    assert (description["kind"], description["proofs"]) == ("aggregate of proofs", 512)
