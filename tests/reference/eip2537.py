"""EIP-2537's precompiles over any implementation of the groups, and its published vectors.

`Precompiles` reads and writes the bytes; a `Groups` object computes. To run the vectors through
another implementation, give it the three methods and call `check_vectors`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from quod.curve.encoding.map_to_curve import map_fp2_to_g2, map_fp_to_g1
from quod.curve.encoding.points import (
    decode_eip2537_fp,
    decode_eip2537_fp2,
    decode_eip2537_g1,
    decode_eip2537_g2,
    encode_eip2537_g1,
    encode_eip2537_g2,
)
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.parameters import G1Point, G2Point
from quod.errors import InputError
from tests.reference.curve import g1_of, g2_of
from tests.reference.msm import msm_naive
from tests.reference.pairing import pairing_check

SUCCESSES = {
    "add_G1_bls": "g1_add",
    "add_G2_bls": "g2_add",
    "mul_G1_bls": "g1_msm",
    "mul_G2_bls": "g2_msm",
    "map_fp_to_G1_bls": "map_fp_to_g1",
    "map_fp2_to_G2_bls": "map_fp2_to_g2",
    "pairing_check_bls": "pairing_check",
}
FAILURES = {
    "fail-add_G1_bls": "g1_add",
    "fail-add_G2_bls": "g2_add",
    "fail-mul_G1_bls": "g1_msm",
}


@dataclass(frozen=True)
class Vector:
    """One call of a precompile. `expected` is None where the call must fail, as `error` says."""

    name: str
    operation: str
    data: bytes
    expected: bytes | None
    error: str | None


def load_vectors(folder: Path, file: str) -> list[Vector]:
    """The vectors of ``folder/file.json``."""
    operation = {**SUCCESSES, **FAILURES}[file]
    return [
        Vector(
            name=entry["Name"],
            operation=operation,
            data=bytes.fromhex(entry["Input"]),
            expected=bytes.fromhex(entry["Expected"]) if "Expected" in entry else None,
            error=entry.get("ExpectedError"),
        )
        for entry in json.loads((folder / f"{file}.json").read_text())
    ]


class Groups(Protocol):
    """Operations of BLS12-381 that the precompiles need. Points are on their curve; all but those
    that are added are in the subgroup. Scalars are any integers below 2^256.
    """

    def add_g1(self, left: G1Point, right: G1Point) -> G1Point: ...

    def add_g2(self, left: G2Point, right: G2Point) -> G2Point: ...

    def msm_g1(self, scalars: Sequence[int], points: Sequence[G1Point]) -> G1Point: ...

    def msm_g2(self, scalars: Sequence[int], points: Sequence[G2Point]) -> G2Point: ...

    def pairing_check(self, pairs: Sequence[tuple[G1Point, G2Point]]) -> bool: ...


class ReferenceGroups:
    """The groups on plain integers."""

    def add_g1(self, left: G1Point, right: G1Point) -> G1Point:
        return g1_of(BLS12_381).add(left, right)

    def add_g2(self, left: G2Point, right: G2Point) -> G2Point:
        return g2_of(BLS12_381).add(left, right)

    def msm_g1(self, scalars: Sequence[int], points: Sequence[G1Point]) -> G1Point:
        return msm_naive(g1_of(BLS12_381), scalars, points)

    def msm_g2(self, scalars: Sequence[int], points: Sequence[G2Point]) -> G2Point:
        return msm_naive(g2_of(BLS12_381), scalars, points)

    def pairing_check(self, pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
        return pairing_check(BLS12_381, pairs)


class Precompiles:
    """The seven precompiles, from bytes to bytes; InputError for what EIP-2537 makes fail."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.operations: dict[str, Callable[[bytes], bytes]] = {
            "g1_add": self.g1_add,
            "g1_msm": self.g1_msm,
            "g2_add": self.g2_add,
            "g2_msm": self.g2_msm,
            "pairing_check": self.pairing_check,
            "map_fp_to_g1": self.map_fp_to_g1,
            "map_fp2_to_g2": self.map_fp2_to_g2,
        }

    def run(self, operation: str, data: bytes) -> bytes:
        return self.operations[operation](data)

    def g1_add(self, data: bytes) -> bytes:
        left, right = _halves(data, 128)
        return encode_eip2537_g1(
            self.groups.add_g1(
                decode_eip2537_g1(left, check_subgroup=False),
                decode_eip2537_g1(right, check_subgroup=False),
            )
        )

    def g2_add(self, data: bytes) -> bytes:
        left, right = _halves(data, 256)
        return encode_eip2537_g2(
            self.groups.add_g2(
                decode_eip2537_g2(left, check_subgroup=False),
                decode_eip2537_g2(right, check_subgroup=False),
            )
        )

    def g1_msm(self, data: bytes) -> bytes:
        parts = _split(data, 160)
        points = [decode_eip2537_g1(part[:128]) for part in parts]
        scalars = [int.from_bytes(part[128:], "big") for part in parts]
        return encode_eip2537_g1(self.groups.msm_g1(scalars, points))

    def g2_msm(self, data: bytes) -> bytes:
        parts = _split(data, 288)
        points = [decode_eip2537_g2(part[:256]) for part in parts]
        scalars = [int.from_bytes(part[256:], "big") for part in parts]
        return encode_eip2537_g2(self.groups.msm_g2(scalars, points))

    def pairing_check(self, data: bytes) -> bytes:
        pairs = [
            (decode_eip2537_g1(part[:128]), decode_eip2537_g2(part[128:]))
            for part in _split(data, 384)
        ]
        return int(self.groups.pairing_check(pairs)).to_bytes(32, "big")

    def map_fp_to_g1(self, data: bytes) -> bytes:
        return encode_eip2537_g1(map_fp_to_g1(decode_eip2537_fp(data)))

    def map_fp2_to_g2(self, data: bytes) -> bytes:
        return encode_eip2537_g2(map_fp2_to_g2(decode_eip2537_fp2(data)))


def _halves(data: bytes, size: int) -> tuple[bytes, bytes]:
    if len(data) != 2 * size:
        raise InputError(f"expected {2 * size} bytes, not {len(data)}")
    return data[:size], data[size:]


def _split(data: bytes, size: int) -> list[bytes]:
    if not data or len(data) % size:
        raise InputError(f"expected a positive multiple of {size} bytes, not {len(data)}")
    return [data[at : at + size] for at in range(0, len(data), size)]


def check_vectors(groups: Groups, vectors: Sequence[Vector]) -> None:
    """Run vectors and compare; AssertionError that names the first that differs."""
    precompiles = Precompiles(groups)
    for vector in vectors:
        result: bytes | None
        try:
            result = precompiles.run(vector.operation, vector.data)
        except InputError:
            result = None
        if result != vector.expected:
            shown = "an error" if result is None else result.hex()
            wanted = vector.error if vector.expected is None else vector.expected.hex()
            raise AssertionError(f"{vector.name}: {shown}, not {wanted}")
