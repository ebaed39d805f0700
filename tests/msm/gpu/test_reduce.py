"""Lines of buckets and what the host makes of them."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.kernel.errors import TraceError
from quod.kernel.interpreter import interpret
from quod.msm.gpu import reduce
from quod.msm.gpu.layout import Form, GpuMsmPlan
from quod.msm.gpu.quads import LANES
from quod.target.ptx import emit
from quod.target.ptx_machine import ptx_machine
from tests.msm.gpu.sums import bases_of, machine, points_of, sums_of
from tests.msm.gpu.test_edwards import affine, edwards_sums, mapped
from tests.msm.inputs import points, reference
from tests.ptx_assembler import ARCHITECTURES, assemble, usage


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


@pytest.mark.parametrize("quads", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "form"),
    [("bn254.g1", "weierstrass"), ("bn254.g2", "weierstrass"), ("bls12_377.g1", "edwards")],
)
def test_summing_short_lines(name: str, form: Form, quads: int) -> None:
    """Equal, opposite and infinite pairs, in quads of one subgroup."""
    group, law = GROUPS[name], reference(GROUPS[name])
    if form == "weierstrass":
        make, read = functools.partial(sums_of, group), functools.partial(points_of, group)
    else:
        make, read = edwards_sums, affine
    bits, kept, low = 3, 1, 1
    own = choices(name, 3 << bits)
    own[0:8:2] = [own[0] or points(group, 1)[0]] * 4  # doubles of doubles
    expected: list[Any] = [None] * 6
    for i, point in enumerate(own):
        vector, number = divmod(i, 8)
        expected[2 * vector + number % 2] = law.add(expected[2 * vector + number % 2], point)
    if form == "edwards":
        expected = [mapped(point) for point in expected]
    static: dict[str, Any] = {"group": group, "form": form, "quads_a_line": quads}
    out = np.zeros(6 * 4 * group.coordinate_words, np.uint64)
    groups = -(-6 * quads * 4 // 16)
    first = np.zeros(1, np.uint32)
    small = machine(16, 32)
    traced = reduce.sum_short_lines.trace(small, **static, gathered=False)
    interpret(traced, groups, [6, bits, kept, low, make(own), first, out])
    assert read(out) == expected
    finite = [point for point in own if point is not None]
    first = np.concatenate([[0], np.cumsum([point is not None for point in own])]).astype(np.uint32)
    traced = reduce.sum_short_lines.trace(small, **static, gathered=True)
    out[:] = 0
    interpret(traced, groups, [6, bits, kept, low, make(finite), first, out])
    assert read(out) == expected


def test_quads_of_points_of_order_two() -> None:
    """Their doubles are infinity, and cancelling pairs stay apart from doubled ones beside them."""
    group = GROUPS["bls12_377.g1"]
    law, (p, _) = reference(group), points(group, 2)
    two = (group.coordinates.value - 1, 0)
    pairs = [(two, two), (p, p), (p, law.neg(p)), (p, two)]
    own = [point for pair in pairs for point in pair]
    out = np.zeros(4 * 24, np.uint64)
    traced = reduce.sum_short_lines.trace(
        machine(32, 32), group=group, form="weierstrass", gathered=False, quads_a_line=2
    )
    interpret(traced, 1, [4, 1, 0, 0, sums_of(group, own), np.zeros(1, np.uint32), out])
    assert points_of(group, out) == [law.add(*pair) for pair in pairs]


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


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_quads_assemble(arch: str) -> None:
    """Without spills; they are not among the kernels by name, which have larger workgroups."""
    small = ptx_machine(LANES, arch)
    static: dict[str, Any] = {"group": GROUPS["bls12_377.g1"], "form": "edwards"}
    traced = reduce.sum_short_lines.trace(small, **static, gathered=True, quads_a_line=8)
    _, log = assemble(emit(traced, small), arch)
    found = usage(log)
    assert found.spill_load_bytes == 0
    assert found.registers <= 192
    with pytest.raises(TraceError, match="quads need a workgroup of one subgroup"):
        reduce.sum_short_lines.trace(
            ptx_machine(64, arch), **static, gathered=True, quads_a_line=8
        )  # fmt: skip
