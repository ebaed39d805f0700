"""Single points of Edwards curves: against the Weierstrass model; encodings; hostile bytes."""

from __future__ import annotations

import random
import re

import pytest

from quod.curve import (
    EDWARDS,
    EdwardsCurve,
    affine_group,
    decode_edwards,
    edwards_group,
    encode_edwards,
)
from quod.curve.edwards.decompression import decompressed_edwards
from quod.curve.edwards.weierstrass_model import model_of
from quod.curve.named.jubjub import JUBJUB
from quod.device.protocol import AnyDevice
from quod.errors import InputError

SIGNS = ("zcash", "circomlib")
every_curve = pytest.mark.parametrize("curve", EDWARDS.values(), ids=lambda curve: curve.name)


@every_curve
def test_group_law_matches_the_model(curve: EdwardsCurve) -> None:
    """Sums and multiples in the Weierstrass model, whose law shares nothing with this one."""
    chance, group, model = random.Random(1), edwards_group(curve), model_of(curve)
    other = affine_group(model)
    order = (0, curve.fq.value - 1)
    points = [(0, 1), order, curve.generator]
    points += [group.multiply(chance.randrange(1 << 300), curve.generator) for _ in range(2)]
    points.append(group.add(points[-1], order))
    for point in points:
        image = model.from_edwards(point)
        for second in points:
            added = other.add(image, model.from_edwards(second))
            assert group.add(point, second) == model.to_edwards(added)
            assert group.sum([point, second, second]) == group.add(point, group.double(second))
        for scalar in (0, 1, -1, 8, curve.fr.value, chance.randrange(1 << 260)):
            product = model.to_edwards(other.multiply(scalar, image))
            assert group.multiply(scalar, point) == product
            assert group.multiply_fixed(scalar, point) == product
        assert group.add(point, group.negate(point)) == (0, 1)
    assert [group.in_subgroup(point) for point in points] == [True, False, True, True, True, False]
    assert [group.has_small_order(point) for point in points] == [True, True] + [False] * 4
    assert group.sum([]) == (0, 1)


@every_curve
def test_montgomery_form(curve: EdwardsCurve) -> None:
    group = edwards_group(curve)
    points = [group.multiply(k, curve.generator) for k in (1, 2, 5)]
    forms = [curve.to_montgomery(point) for point in points]
    assert all(curve.montgomery.contains(form) for form in forms)
    first, second, five = forms
    assert first is not None
    assert second is not None
    assert five is not None
    assert group.double_montgomery(first) == second
    four = group.double_montgomery(second)
    assert group.add_montgomery(first, four) == five
    with pytest.raises(InputError, match="the same u"):
        group.add_montgomery(first, first)
    with pytest.raises(InputError, match="its double is infinity"):
        group.double_montgomery((0, 0))


@every_curve
@pytest.mark.parametrize("sign", SIGNS)
def test_encodings(curve: EdwardsCurve, sign: str) -> None:
    group, q = edwards_group(curve), curve.fq.value
    size = q.bit_length() // 8 + 1
    for k in range(1, 9):
        point = group.multiply(k, curve.generator)
        data = encode_edwards(curve, point, sign=sign)
        assert decode_edwards(curve, data, sign=sign) == point
        flipped = data[:-1] + bytes([data[-1] ^ 0x80])
        assert decode_edwards(curve, flipped, sign=sign) == group.negate(point)
        shifted = (point[1] + q).to_bytes(size + 1, "little")[:size]
        with pytest.raises(InputError):
            decode_edwards(curve, shifted, sign=sign)
    neutral = encode_edwards(curve, (0, 1), sign=sign)
    assert neutral == (1).to_bytes(size, "little")
    assert decode_edwards(curve, neutral, sign=sign) == (0, 1)
    with pytest.raises(InputError, match="x is 0, which has no sign"):
        decode_edwards(curve, neutral[:-1] + b"\x80", sign=sign)
    with pytest.raises(InputError, match=f"expected {size} bytes, not {size - 1}"):
        decode_edwards(curve, neutral[:-1], sign=sign)
    small = encode_edwards(curve, (0, q - 1), sign=sign)
    with pytest.raises(InputError, match="not in the subgroup of prime order"):
        decode_edwards(curve, small, sign=sign)
    assert decode_edwards(curve, small, sign=sign, check_subgroup=False) == (0, q - 1)


@every_curve
def test_random_bytes(curve: EdwardsCurve) -> None:
    """Either refused, or the very bytes that are written again."""
    chance = random.Random(2)
    size, kept = curve.fq.bits // 8 + 1, 0
    for _ in range(60):
        number = chance.randrange(curve.fq.value) | chance.getrandbits(1) << 8 * size - 1
        data = number.to_bytes(size, "little")
        try:
            point = decode_edwards(curve, data, check_subgroup=False)
        except InputError:
            continue
        kept += 1
        assert encode_edwards(curve, point) == data
    assert 10 < kept < 50


def test_hostile_points() -> None:
    curve = EDWARDS["jubjub"]
    q = curve.fq.value
    x, y = curve.generator
    for point, message in (
        ((x, y + 1), "the point is not on jubjub"), ((x + q, y), "a coordinate of the point"),
        ([x, y], "must be a point"), (None, "must be a point"), ((x, y, 1), "must be a point"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            encode_edwards(curve, point)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sign must be zcash or circomlib"):
        decode_edwards(curve, bytes(32), sign="other")
    with pytest.raises(InputError, match="a point is encoded in bytes"):
        decode_edwards(curve, "00" * 32)  # type: ignore[arg-type]


def test_decompression_of_many_points(device: AnyDevice) -> None:
    """Both signs, all points of small order, and every kind of malformed encoding."""
    curve, group = JUBJUB, edwards_group(JUBJUB)
    q = curve.fq.value
    points = [group.multiply(i, curve.generator) for i in (1, -1, 5, -5)]
    encodings = [encode_edwards(curve, point) for point in (*points, (0, 1), (0, q - 1))]
    sign = 1 << 255
    encodings += [
        number.to_bytes(32, "little")
        for number in (0, 2, 4, 6, sign, 1 | sign, q - 1 | sign, q, q | sign, 2 * sign - 1)
    ]
    encodings += [b"", bytes(31), bytes(33)]
    decoded = decompressed_edwards(device, curve, encodings)
    assert decoded[: len(points)] == points
    errors = 0
    for data, result in zip(encodings, decoded, strict=True):
        if isinstance(result, InputError):
            errors += 1
            with pytest.raises(InputError, match=re.escape(str(result))):
                decode_edwards(curve, data, check_subgroup=False)
        else:
            assert result == decode_edwards(curve, data, check_subgroup=False)
    assert errors == 11
    assert decompressed_edwards(device, curve, []) == []


def test_small_order() -> None:
    for curve in EDWARDS.values():
        group = edwards_group(curve)
        assert group.has_small_order((0, 1))
        assert group.has_small_order((0, curve.fq.value - 1))
        assert not group.has_small_order(curve.generator)
        mixed = group.add(curve.generator, (0, curve.fq.value - 1))
        assert not group.has_small_order(mixed)
