"""Lines of buckets and what the host makes of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.kernel.interpreter import interpret
from quod.msm.gpu import reduce
from quod.msm.gpu.layout import GpuMsmPlan
from tests.msm.gpu.sums import bases_of, machine, points_of, sums_of
from tests.msm.inputs import points, reference


def choices(name: str, count: int) -> list[Any]:
    group = GROUPS[name]
    p, q = points(group, 2)
    law = reference(group)
    return random.Random(count).choices([p, q, law.neg(p), law.add(p, q), None], k=count)


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize(("bits", "kept", "low"), [(4, 2, 0), (3, 1, 1), (3, 2, 0), (2, 2, 0)])
def test_summing_lines(bits: int, kept: int, low: int, lanes: int) -> None:
    group, law = GROUPS["bn254.g1"], reference(GROUPS["bn254.g1"])
    vectors = 3
    own = choices(group.name, vectors << bits)
    lines, out = vectors << kept, np.zeros((vectors << kept) * 16, np.uint64)
    expected: list[Any] = [None] * lines
    for i, point in enumerate(own):
        vector, number = divmod(i, 1 << bits)
        line = number & ((1 << kept) - 1) if low else number >> (bits - kept)
        at = (vector << kept) + line
        expected[at] = law.add(expected[at], point)
    static: dict[str, Any] = {"group": group, "form": "weierstrass", "lanes_a_line": lanes}
    traced = reduce.sum_lines.trace(machine(8, 4), **static, gathered=False)
    first = np.zeros(1, np.uint32)
    groups = -(-lines * lanes // 8)
    interpret(traced, groups, [lines, bits, kept, low, sums_of(group, own), first, out])
    assert points_of(group, out) == expected
    # The same with the finite ones only, gathered.
    finite = [point for point in own if point is not None]
    first = np.concatenate([[0], np.cumsum([point is not None for point in own])]).astype(np.uint32)
    traced = reduce.sum_lines.trace(machine(8, 4), **static, gathered=True)
    out[:] = 0
    interpret(traced, groups, [lines, bits, kept, low, sums_of(group, finite), first, out])
    assert points_of(group, out) == expected


def test_vectors() -> None:
    """Weights of all vectors make up those of the buckets."""
    for window_bits in range(2, 25):
        plan = GpuMsmPlan(GROUPS["bn254.g1"], 10, window_bits, 1, 1, 1, 4)
        vectors = reduce.vectors_of(plan)
        assert vectors[-1].place == 0
        place = window_bits - 1
        for vector in vectors:
            assert vector.bits <= 5
            place -= vector.bits
            assert vector.place == place


@pytest.mark.parametrize("name", ["bn254.g1", "bls12_381.g2"])
def test_finishing(name: str) -> None:
    """Two results of three windows of 2**6 buckets, all but a few empty."""
    group, law = GROUPS[name], reference(GROUPS[name])
    plan = GpuMsmPlan(group, 10, 7, 3, 1, 1, 4, batch=3)
    p, q = points(group, 2)
    buckets: list[Any] = [None] * plan.all_buckets
    for place, point in ((0, p), (63, q), (64, q), (65, law.neg(p)), (100, p), (127, p), (191, q),
                         (192, p), (300, law.neg(q)), (301, q), (383, p)):  # fmt: skip
        buckets[place] = point
    lines: list[Any] = []
    for vector in reduce.vectors_of(plan):
        for window in range(plan.all_windows):
            own: list[Any] = [None] * (1 << vector.bits)
            for b in range(64):
                digit = b >> vector.place & ((1 << vector.bits) - 1)
                own[digit] = law.add(own[digit], buckets[64 * window + b])
            lines += own
    memory = sums_of(group, lines)
    assert memory.nbytes == reduce.line_bytes(plan)
    found = reduce.finish(plan, memory)
    expected: list[Any] = []
    for vector_number in range(3):
        total = None
        for window in range(3):
            first = 64 * (3 * vector_number + window)
            for b in range(64):
                weight = (b + 1) << (7 * window)
                total = law.add(total, law.mul(weight, buckets[first + b]))
        expected.append(total)
    assert expected[2] is None
    assert np.array_equal(found.reshape(-1), bases_of(group, expected))
