"""Messages of points: read as they are written, and refused in every other form."""

from __future__ import annotations

from typing import Any

import pytest

from quod.curve import GROUPS, WEIERSTRASS
from quod.curve.encoding.points import decode_arkworks_g1, encode_point, point_bytes
from quod.curve.group import Group
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.errors import InputError
from quod.transcript import Label, ProofReader, ProofWriter, Transcript
from quod.transcript.points import encode_points

NAMED: dict[str, Group] = {**GROUPS, **WEIERSTRASS}
BN254 = GROUPS["bn254.g1"]


def some_points(group: Group) -> list[Any]:
    law = affine_group(group)
    points = [law.multiply(factor, law.generator) for factor in (1, 2, 5, law.order - 1)]
    return [None, *points]


@pytest.mark.parametrize("name", NAMED)
def test_points_round_trip_and_are_absorbed(name: str) -> None:
    for compressed in (True, False):
        check_round_trip(name, compressed)


def check_round_trip(name: str, compressed: bool) -> None:
    group, size = NAMED[name], point_bytes(NAMED[name], compressed=compressed)
    writer = ProofWriter(Transcript())
    points = some_points(group)
    writer.points(Label.COMMITMENT, group, points, compressed=compressed)
    data = writer.getvalue()
    assert len(data) == len(points) * size
    transcript = Transcript()
    transcript.absorb(Label.COMMITMENT, data)
    assert writer.transcript.state == transcript.state
    reader = ProofReader(data, Transcript())
    assert reader.points(Label.COMMITMENT, group, len(points), compressed=compressed) == points
    assert reader.transcript.state == transcript.state
    reader.end()


def test_bn254_encoding_matches_arkworks() -> None:
    for point in some_points(BN254):
        for compressed in (True, False):
            data = encode_point(BN254, point, compressed=compressed)
            assert decode_arkworks_g1(CURVES["bn254"], data, compressed=compressed) == point


def refused(data: bytes, match: str, group: Group = BN254, **form: Any) -> None:
    """As the second point, whose offset the error has; nothing is absorbed."""
    before = encode_point(group, group.parameters.generator, **form)
    reader = ProofReader(before + data, Transcript())
    with pytest.raises(InputError, match=match) as error:
        reader.points(Label.COMMITMENT, group, 2, **form)
    assert error.value.offset in (0, len(before))
    assert reader.transcript.state == bytes(32)


def test_invalid_points_are_rejected() -> None:
    q = CURVES["bn254"].fq.value
    law = affine_group(BN254)
    x, y = law.generator
    below = q + 1  # x + q in place of x
    refused(below.to_bytes(32, "little"), "point 1 is invalid: .* x is not below the modulus")
    without = next(x for x in range(9) if law.field.square_root(law.right_side(x)) is None)
    refused(without.to_bytes(32, "little"), "no point of the curve has this x")
    sign = (1 << 255) if law.field.is_larger(y) else 0
    encoded_point = (x + (y << 256) + (sign << 256)).to_bytes(64, "little")
    refused((x + ((y + 1) << 256)).to_bytes(64, "little"), "not on the curve", compressed=False)
    refused(
        (encoded_point[:-1] + bytes([encoded_point[-1] ^ 0x80])),
        "sign bit contradicts y",
        compressed=False,
    )
    refused(b"\1" + bytes(30) + b"\x40", "infinity has bits set")
    refused(bytes(31) + b"\xc0", "infinity has bits set")
    refused(bytes(31), "the proof ends at byte 63, within 2 points of bn254.g1, which take 64")


def refusal(group: Group, data: bytes, count: int) -> tuple[str, int | None]:
    """Return the reader's error about points, and its offset."""
    with pytest.raises(InputError) as error:
        ProofReader(data, Transcript()).points(Label.COMMITMENT, group, count)
    return str(error.value).partition(" is invalid: ")[2], error.value.offset


@pytest.mark.parametrize("name", ["bn254.g1", "secp256k1", "pallas", "bls12_381.g1", "bn254.g2"])
def test_batch_and_single_reading_agree(name: str) -> None:
    """Together where the group allows that, and refused at the same place with the same words."""
    group = NAMED[name]
    points = some_points(group) * 5
    data, size = encode_points(group, points), point_bytes(group)
    reader = ProofReader(data, Transcript())
    assert reader.points(Label.COMMITMENT, group, len(points)) == points
    law, infinity = affine_group(group), encode_point(group, None)
    xs = ((x, 0) if group.degree == 2 else x for x in range(1, 40))
    without = next(x for x in xs if law.field.square_root(law.right_side(x)) is None)
    number = without[0] if group.degree == 2 else without
    beyond = group.coordinates.value.to_bytes(size // group.degree, "little") * group.degree
    for wrong in (
        number.to_bytes(size, "little"), infinity[:-1] + b"\xc0", b"\1" + infinity[1:], beyond,
        b"\xff" * size,
    ):  # fmt: skip
        message, offset = refusal(group, data[: 17 * size] + wrong + data[18 * size :], len(points))
        assert offset == 17 * size
        assert (message, 0) == refusal(group, wrong, 1)


@pytest.mark.parametrize("name", ["bls12_381.g1", "bn254.g2"])
def test_points_outside_the_group_are_refused(name: str) -> None:
    group: Group = GROUPS[name]
    law = affine_group(group)
    for first in range(1, 50):
        x = first if group.degree == 1 else (first, 1)
        y = law.field.square_root(law.right_side(x))
        if y is not None and not law.in_subgroup((x, y)):
            break
    refused(encode_point(group, (x, y)), "not in the subgroup of order r", group)


def test_wrong_arguments_are_refused() -> None:
    writer, reader = ProofWriter(Transcript()), ProofReader(bytes(64), Transcript())
    wrong: Any
    for wrong in (None, "text", 5, [(1, 2, 3)], [5], [(-1, 2)], [(1, 1 << 256)]):
        with pytest.raises(InputError):
            writer.points(Label.COMMITMENT, BN254, wrong)
    for wrong in (None, -1, 1.5):
        with pytest.raises(InputError):
            reader.points(Label.COMMITMENT, BN254, wrong)
