"""The Edwards form of bls12_377.g1, its sums and bases."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.curve.sums.edwards import edwards_form
from quod.device.emulated.device import EmulatedDevice
from quod.field.array import from_integers, to_integers
from quod.kernel.interpreter.interpreter import interpret
from quod.msm.gpu.buckets import merge
from quod.msm.gpu.buckets.accumulate import accumulate
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.finish import Finisher
from quod.msm.gpu.run import base_multiples
from tests.msm.inputs import points, reference
from tests.msm.sums import bases_of, machine, wide

GROUP = GROUPS["bls12_377.g1"]
P = GROUP.coordinates.value
SIGN = 1 << 31
STATIC: dict[str, Any] = {"group": GROUP, "form": "edwards"}


def mapped(point: Any) -> tuple[int, int]:
    """A point of odd order on the Edwards curve."""
    form = edwards_form(GROUP)
    assert form is not None
    if point is None:
        return 0, 1
    u = form.s * (point[0] - form.alpha) % P
    x = form.scale * (point[0] - form.alpha) * pow(point[1], -1, P) % P
    return x, (u - 1) * pow(u + 1, -1, P) % P


def elements(numbers: list[int]) -> NDArray[np.uint64]:
    return wide(from_integers(GROUP.coordinates, [number % P for number in numbers]))


def edwards_bases(points: list[Any]) -> NDArray[np.uint64]:
    form = edwards_form(GROUP)
    assert form is not None
    flat: list[int] = []
    for x, y in map(mapped, points):
        flat += [y - x, y + x, 2 * form.d * x * y]
    return elements(flat)


def edwards_sums(points: list[Any]) -> NDArray[np.uint64]:
    flat: list[int] = []
    for i, (x, y) in enumerate(map(mapped, points)):
        z = 3 * i + 1
        flat += [x * z, y * z, z, x * y * z]
    return elements(flat)


def affine(sums: Any) -> list[tuple[int, int]]:
    """The points of sums; X*Y = Z*T is checked."""
    flat = to_integers(GROUP.coordinates, wide(sums).view(np.uint32).reshape(-1, 12))
    points = []
    for x, y, z, t in zip(*(flat[i::4] for i in range(4)), strict=True):
        assert x * y % P == z * t % P
        inverse = pow(z, -1, P)
        points.append((x * inverse % P, y * inverse % P))
    return points


def test_edwards_form_matches_the_curve() -> None:
    form = edwards_form(GROUP)
    assert form is not None
    law = reference(GROUP)
    p, q = points(GROUP, 2)
    for point in (p, q, law.add(p, q)):
        x, y = mapped(point)
        assert (-x * x + y * y - 1 - form.d * x * x * y * y) % P == 0
    (x1, y1), (x2, y2) = mapped(p), mapped(q)
    product = form.d * x1 * x2 * y1 * y2
    total = (
        (x1 * y2 + y1 * x2) * pow(1 + product, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P,
    )
    assert total == mapped(law.add(p, q))


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "bls12_377.g1"])
def test_other_groups_have_no_edwards_form(name: str) -> None:
    assert edwards_form(GROUPS[name]) is None


def test_accumulation() -> None:
    """Equal, opposite and neutral pairs need no special case."""
    law = reference(GROUP)
    p, q, s = points(GROUP, 3)
    bases = [p, q, s, law.neg(p), law.add(p, q), None]
    units = [
        [0, 0, 0 | SIGN, 3, 3], [0, 1, 4 | SIGN, 2], [0, 1, 4 | SIGN], [5, 0, 5 | SIGN], [0, 0],
        [0, 3], [1 | SIGN, 1], [2], [5], [2 | SIGN],
    ]  # fmt: skip
    lengths = np.array([len(unit) for unit in units], np.uint32)
    starts = (np.cumsum(lengths) - lengths).astype(np.uint32)
    entries = np.array([entry for unit in units for entry in unit], np.uint32)
    numbers = np.array(random.Random(1).sample(range(len(units)), len(units)), np.uint32)
    sums, retries = np.zeros(len(units) * 24, np.uint64), np.zeros(1, np.uint32)
    traced = accumulate.trace(
        machine(8, 4, words=32), **STATIC, resident=3, ahead=False, inlined=True
    )
    count = np.array([len(units)], np.uint32)
    interpret(
        traced, 2, [count, starts, lengths, numbers, entries, edwards_bases(bases), sums, retries]
    )
    expected = []
    for unit in units:
        total = None
        for entry in unit:
            point = bases[entry & ~SIGN]
            total = law.add(total, law.neg(point) if entry & SIGN else point)
        expected.append(mapped(total))
    totals = affine(sums)
    assert [totals[number] for number in numbers] == expected


def test_merging_and_carrying() -> None:
    law = reference(GROUP)
    p, q = points(GROUP, 2)
    bases = [p, p, law.neg(p), q, None, q, q]
    sums = edwards_sums(bases)
    traced = merge.merge_runs.trace(machine(4, 4), **STATIC)
    interpret(
        traced, 1, [np.array([1], np.uint32), 0, 1, np.array([0, 7], np.uint32), sums]
    )  # fmt: skip
    total = law.add(p, law.add(q, law.add(q, q)))
    assert affine(sums)[0] == mapped(total)
    # Zeros, which memory has at first, are neutral.
    carried = np.zeros(24, np.uint64)
    traced = merge.carry_sums.trace(machine(4, 4), **STATIC)
    interpret(traced, 1, [1, np.array([0, 1], np.uint32), sums, carried])
    assert affine(carried) == [mapped(total)]


def test_finishing() -> None:
    law = reference(GROUP)
    plan = GpuMsmPlan(GROUP, 10, 4, 2, 1, 1, 4, batch=2, form="edwards")
    p, q = points(GROUP, 2)
    buckets: list[Any] = [None] * 32
    for place, point in ((0, p), (7, q), (8, law.neg(p)), (15, q), (17, q), (18, law.neg(q))):
        buckets[place] = point
    buckets[16] = q  # 1*q + 2*q - 3*q
    (finished,) = Finisher([plan]).finish([edwards_sums(buckets)])
    expected: list[Any] = []
    for vector in range(2):
        total = None
        for place, point in enumerate(buckets[16 * vector : 16 * vector + 16]):
            total = law.add(total, law.mul((place % 8 + 1) << (4 * (place // 8)), point))
        expected.append(total)
    assert expected[1] is None
    assert np.array_equal(finished.reshape(-1), bases_of(GROUP, expected))


def test_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    law = reference(GROUP)
    device = EmulatedDevice(workgroup=32, resident_lanes=8)
    bases: list[Any] = [*points(GROUP, 5), None, *points(GROUP, 4), None]
    monkeypatch.setattr(base_multiples, "_SCRATCH_BYTES", 6 * 9 * 8 * GROUP.coordinate_words)
    monkeypatch.setattr(base_multiples, "_SHARING", 3)
    plan = GpuMsmPlan(GROUP, len(bases), 3, 1, 3, 1, 4, form="edwards")
    buffer = base_multiples.multiples(device, GROUP, from_points(GROUP, bases), plan)
    copies = np.zeros(3 * len(bases) * 3 * 6, np.uint64)
    device.download(buffer, copies)
    expected: list[Any] = []
    for copy in range(3):
        expected += [law.mul(1 << (3 * copy), point) for point in bases]
    assert np.array_equal(copies, edwards_bases(expected))
