"""Batch decompression of Edwards points, against the decoder of single points."""

from __future__ import annotations

import random

import pytest

from quod.curve import EDWARDS, decode_edwards, edwards_group
from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.edwards.decompression import DecompressedPoints, decompress, decompressed_edwards
from quod.curve.edwards.operations import to_edwards_points
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.errors import TraceError

JUBJUB = EDWARDS["jubjub"]
P = JUBJUB.fq.value


def encoding(y: int, sign: int = 0) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


SPECIAL = [
    encoding(y, sign) for y in (0, 1, 2, P - 2, P - 1, P, P + 1, (1 << 255) - 1) for sign in (0, 1)
]
"""Points of small order, ordinates above the modulus, and zeros with a sign."""


def check(name: str, encodings: list[bytes], decoded: DecompressedPoints) -> int:
    """Compare with the decoder of single points; return the number of points."""
    curve, group, count = EDWARDS[name], edwards_group(EDWARDS[name]), 0
    points = to_edwards_points(curve, decoded.points)
    for index, data in enumerate(encodings):
        try:
            point = decode_edwards(curve, data, check_subgroup=False)
        except InputError as error:
            verdict = (False, "x is 0" in str(error))
        else:
            verdict = (True, True)
        assert (decoded.is_canonical[index], decoded.is_on_curve[index]) == verdict
        if not verdict[0]:
            continue
        assert points[index] == point
        assert decoded.has_small_order[index] == group.has_small_order(point)
        count += 1
    return count


@pytest.mark.parametrize("name", list(EDWARDS))
def test_random_encodings(device: AnyDevice, name: str) -> None:
    source, curve = random.Random(3), EDWARDS[name]
    encodings = [
        encoding(source.randrange(curve.fq.value), source.randrange(2)) for _ in range(150)
    ]
    encodings += [encoding(y, sign) for y in (1, curve.fq.value - 1) for sign in (0, 1)]
    count = check(name, encodings, decompress(device, curve, encodings))
    assert 40 < count < 110


def test_special_encodings(device: AnyDevice) -> None:
    decoded = decompress(device, JUBJUB, SPECIAL)
    assert check("jubjub", SPECIAL, decoded) >= 4
    signed_zeros = [SPECIAL.index(encoding(y, 1)) for y in (1, P - 1)]
    for index in signed_zeros:
        assert decoded.has_small_order[index]
        assert not decoded.is_canonical[index]


def test_all_points_of_small_order(device: AnyDevice) -> None:
    """Seven multiples of a point of order eight, and the neutral element."""
    group = edwards_group(JUBJUB)
    eighth = next(
        torsion
        for y in range(3, 99)
        for decoded in [decompress(device, JUBJUB, [encoding(y)])]
        if decoded.is_on_curve[0]
        for torsion in [
            group.multiply(JUBJUB.fr.value, to_edwards_points(JUBJUB, decoded.points)[0])
        ]
        if group.multiply(4, torsion) != (0, 1)
    )
    points = [group.multiply(factor, eighth) for factor in range(8)]
    encodings = [encoding(y, x & 1) for x, y in points]
    decoded = decompress(device, JUBJUB, encodings)
    assert decoded.is_canonical.all()
    assert decoded.has_small_order.all()
    assert to_edwards_points(JUBJUB, decoded.points) == points


def test_gpus_decompress_the_same_points(gpu_device: AnyDevice) -> None:
    encodings = SPECIAL[:4] + [encoding(y, y & 1) for y in range(10, 14)]
    assert check("jubjub", encodings, decompress(gpu_device, JUBJUB, encodings)) >= 4


def test_arguments(device: AnyDevice) -> None:
    assert len(decompress(device, JUBJUB, []).points) == 0
    with pytest.raises(InputError, match="a point must be 32 bytes, not 31"):
        decompress(device, JUBJUB, [bytes(31)])


def test_errors_of_single_points(device: AnyDevice) -> None:
    encodings = [*SPECIAL, bytes(31), bytes(33), b""]
    decoded = decompressed_edwards(device, JUBJUB, encodings)
    for data, result in zip(encodings, decoded, strict=True):
        try:
            expected: object = decode_edwards(JUBJUB, data, check_subgroup=False)
        except InputError as error:
            expected, result = str(error), str(result)
        assert result == expected


def test_other_curves_are_refused(device: AnyDevice) -> None:
    curve = EdwardsCurve.unchecked(
        "threefold", JUBJUB.fq, JUBJUB.fr, JUBJUB.a, JUBJUB.d, JUBJUB.generator, 24
    )
    with pytest.raises(TraceError, match="threefold are not decompressed in kernels"):
        decompress(device, curve, [bytes(32)])
