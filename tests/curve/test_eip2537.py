"""The vectors of EIP-2537 through the plain-integer groups."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from quod.curve.encoding.points import encode_eip2537_g1, encode_eip2537_g2
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.parameters import G1Point, G2Point
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.errors import InputError
from tests.reference.eip2537 import (
    FAILURES,
    SUCCESSES,
    Groups,
    Precompiles,
    ReferenceGroups,
    Vector,
    check_vectors,
    load_vectors,
)

COUNTS = {
    "add_G1_bls": 9,
    "add_G2_bls": 9,
    "mul_G1_bls": 11,
    "mul_G2_bls": 11,
    "map_fp_to_G1_bls": 5,
    "map_fp2_to_G2_bls": 5,
    "pairing_check_bls": 15,
    "fail-add_G1_bls": 7,
    "fail-add_G2_bls": 7,
    "fail-mul_G1_bls": 8,
}
MESSAGES = {
    "invalid input length": "expected",
    "invalid field element top bytes": "not below the modulus",
    "invalid fp.Element encoding": "not below the modulus",
    "invalid point: not on curve": "not on the curve",
    "g1 point is not in the correct subgroup": "not in the subgroup of order r",
}


class HostGroups(ReferenceGroups):
    """The groups of `quod.curve.weierstrass.affine`; pairings are the reference's."""

    def add_g1(self, left: G1Point, right: G1Point) -> G1Point:
        return g1_group(BLS12_381).add(left, right)

    def add_g2(self, left: G2Point, right: G2Point) -> G2Point:
        return g2_group(BLS12_381).add(left, right)

    def msm_g1(self, scalars: Sequence[int], points: Sequence[G1Point]) -> G1Point:
        total: G1Point = None
        for scalar, point in zip(scalars, points, strict=True):
            total = self.add_g1(total, g1_group(BLS12_381).multiply(scalar, point))
        return total

    def msm_g2(self, scalars: Sequence[int], points: Sequence[G2Point]) -> G2Point:
        total: G2Point = None
        for scalar, point in zip(scalars, points, strict=True):
            total = self.add_g2(total, g2_group(BLS12_381).multiply(scalar, point))
        return total


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("groups", "file"),
    [*((ReferenceGroups(), file) for file in (*SUCCESSES, *FAILURES)),
     # Pairings and maps are those of the reference.
     *((HostGroups(), file) for file in SUCCESSES if file.startswith(("add", "mul")))],
)  # fmt: skip
def test_vectors(shared_fixtures: Path, groups: Groups, file: str) -> None:
    vectors = load_vectors(shared_fixtures / "eip2537", file)
    assert len(vectors) == COUNTS[file]
    assert all((vector.expected is None) == (file in FAILURES) for vector in vectors)
    check_vectors(groups, vectors)


@pytest.mark.fixtures
@pytest.mark.parametrize("file", FAILURES)
def test_failures_report_the_reason(shared_fixtures: Path, file: str) -> None:
    precompiles = Precompiles(ReferenceGroups())
    for vector in load_vectors(shared_fixtures / "eip2537", file):
        assert vector.error is not None
        with pytest.raises(InputError, match=MESSAGES[vector.error]):
            precompiles.run(vector.operation, vector.data)


@pytest.mark.parametrize("operation", Precompiles(ReferenceGroups()).operations)
def test_lengths(operation: str) -> None:
    precompiles = Precompiles(ReferenceGroups())
    for size in (0, 1, 63, 127, 129, 159, 255, 287, 383, 511, 1000):
        with pytest.raises(InputError, match="expected"):
            precompiles.run(operation, bytes(size))


@pytest.mark.parametrize("operation", ["g2_msm", "pairing_check"])
def test_g2_points_outside_the_subgroup(operation: str) -> None:
    group = g2_group(BLS12_381)
    field = group.field
    outside = next(
        (x, y)
        for i in range(1, 50)
        if (y := field.square_root(group.right_side(x := (i, 1)))) is not None
    )
    encoded = encode_eip2537_g2(outside)
    data = encoded + bytes(32) if operation == "g2_msm" else bytes(128) + encoded
    with pytest.raises(InputError, match="not in the subgroup"):
        Precompiles(ReferenceGroups()).run(operation, data)
    # Addition takes them.
    total = Precompiles(ReferenceGroups()).run("g2_add", encoded + encoded)
    assert total == encode_eip2537_g2(group.add(outside, outside))


def test_sums_of_several_terms() -> None:
    rng = random.Random(2537)
    group = g1_group(BLS12_381)
    scalars = [rng.getrandbits(256) for _ in range(3)]
    logs = [rng.randrange(1, 1000) for _ in range(3)]
    data = b"".join(
        encode_eip2537_g1(group.multiply(log, group.generator)) + scalar.to_bytes(32, "big")
        for log, scalar in zip(logs, scalars)
    )
    expected = group.multiply(sum(a * b for a, b in zip(logs, scalars)), group.generator)
    assert Precompiles(HostGroups()).run("g1_msm", data) == encode_eip2537_g1(expected)


@pytest.mark.parametrize(
    "damage",
    [
        lambda vector: Vector("changed", vector.operation, vector.data, bytes(128), None),
        lambda vector: Vector("must fail", vector.operation, vector.data, None, "why"),
        lambda vector: Vector("short", vector.operation, vector.data[1:], vector.expected, None),
    ],
)
def test_wrong_results_are_detected(damage: Callable[[Vector], Vector]) -> None:
    generator = encode_eip2537_g1(BLS12_381.g1.generator)
    vector = Vector("g + 0", "g1_add", generator + bytes(128), generator, None)
    check_vectors(ReferenceGroups(), [vector])
    with pytest.raises(AssertionError, match=r"changed|must fail|short"):
        check_vectors(ReferenceGroups(), [damage(vector)])
