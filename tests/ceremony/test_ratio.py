"""Ratios of points, random sums, and the bytes that transcripts hash."""

from __future__ import annotations

import numpy as np
import pytest

from quod.ceremony import windows
from quod.ceremony.point_bytes import compressed, uncompressed, uncompressed_points
from quod.ceremony.ratio import consecutive_sums, random_sums, same_ratio
from quod.curve.array import from_points, to_points
from quod.curve.encoding.points import encode_eip196_g1
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group, g1_group, g2_group
from quod.device.protocol import AnyDevice
from quod.formats.ptau import PowersOfTau
from tests.ceremony.ceremonies import PTAU
from tests.support.thorough import one_and_others


@pytest.mark.parametrize("name", sorted(PTAU))
def test_same_ratio(name: str) -> None:
    curve = CURVES[name]
    first, second = g1_group(curve), g2_group(curve)
    p, q = first.multiply(5, first.generator), second.multiply(7, second.generator)
    assert same_ratio(curve, (p, first.multiply(9, p)), (q, second.multiply(9, q)))
    assert not same_ratio(curve, (p, first.multiply(9, p)), (q, second.multiply(8, q)))
    for pair in ((None, p), (p, None)):
        assert not same_ratio(curve, pair, (q, q))
    for twist_pair in ((None, q), (q, None), (None, None)):
        assert not same_ratio(curve, (p, p), twist_pair)


@pytest.mark.parametrize("name", one_and_others(sorted(PTAU), always=["bn254"]))
def test_powers_of_snarkjs_have_one_ratio(
    name: str, device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "MAX_BYTES", 700)
    file = PowersOfTau.open(PTAU[name])
    curve = file.curve_parameters
    group = GROUPS[f"{name}.g1"]
    of_tau = tuple(to_points(GROUPS[f"{name}.g2"], file.tau_g2[:2]))
    for points in (file.tau_g1, file.alpha_tau_g1):
        assert same_ratio(curve, consecutive_sums(device, group, points), of_tau)
        wrong = points.copy()
        wrong[5] = points[6]
        assert not same_ratio(curve, consecutive_sums(device, group, wrong), of_tau)


def test_random_sums_are_random_and_of_one_kind(device: AnyDevice) -> None:
    group = GROUPS["bn254.g1"]
    law = affine_group(group)
    points = [law.multiply(i + 1, law.generator) for i in range(9)]
    doubled = [law.add(point, point) for point in points]
    arrays = from_points(group, points), from_points(group, doubled)
    first, second = random_sums(device, group, *arrays)
    assert second == law.add(first, first)
    assert random_sums(device, group, arrays[0]) != [first]


@pytest.mark.parametrize("name", ["bn254.g1", "bn254.g2", "bls12_381.g1", "bls12_381.g2"])
def test_bytes_of_points(name: str, device: AnyDevice) -> None:
    group = GROUPS[name]
    law = affine_group(group)
    points = [law.generator, None, law.negate(law.generator), law.multiply(3, law.generator)]
    if group.degree == 2:
        # y in Fq: its first coefficient tells which is larger.
        points.append((points[0][0], (1, 0)))
        points.append((points[0][0], (law.field.p - 1, 0)))
    array = from_points(group, points)
    size = group.coordinates.bytes

    def packed(value: object) -> bytes:
        parts = value if isinstance(value, tuple) else (value,)
        return b"".join(part.to_bytes(size, "big") for part in reversed(parts))

    full, short = uncompressed(device, group, array), compressed(device, group, array)
    for point, plain, flagged in zip(points, full, short, strict=True):
        if point is None:
            assert not plain.any()
            assert flagged.tobytes() == bytes([0x40]) + bytes(len(flagged) - 1)
            continue
        assert plain.tobytes() == packed(point[0]) + packed(point[1])
        expected = bytearray(packed(point[0]))
        expected[0] |= 0x80 if law.field.is_larger(point[1]) else 0
        assert flagged.tobytes() == bytes(expected)
    if name == "bn254.g1":
        assert uncompressed_points(device, group, points[:1]) == encode_eip196_g1(points[0])
    assert np.array_equal(full[:2], uncompressed(device, group, array[:2]))
