"""Lines of buckets and what the host makes of them."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx.emitter import emit
from quod.codegen.ptx.machine import ptx_machine
from quod.curve.groups import GROUPS
from quod.curve.sums.forms import Form
from quod.curve.sums.four_lanes import LANES
from quod.kernel.errors import TraceError
from quod.kernel.interpreter.interpreter import interpret
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce import weighted_sums
from quod.msm.gpu.reduce.finish import Finisher
from tests.curve.test_edwards_sums import affine, edwards_sums, mapped
from tests.msm.inputs import points, reference
from tests.msm.sums import bases_of, machine, points_of, sums_of, traced
from tests.support.ptx_assembler import ARCHITECTURES, assemble, usage
from tests.support.thorough import one_and_others


def choices(name: str, count: int) -> list[Any]:
    group = GROUPS[name]
    p, q = points(group, 2)
    law = reference(group)
    return random.Random(count).choices([p, q, law.neg(p), law.add(p, q), None], k=count)


SHAPES = [
    (4, 4, 2, 0, 0), (3, 3, 1, 0, 1), (2, 2, 2, 0, 0), (5, 3, 1, 0, 0), (5, 3, 1, 0, 1),
    (4, 4, 1, 2, 1), (5, 4, 2, 1, 0), (5, 3, 3, 1, 0),
]  # fmt: skip
"""Bits, width, kept bits, bits of parts, whether the low ones are kept."""


def line_of(number: int, shape: tuple[int, int, int, int, int]) -> int:
    """The line that point `number` belongs to, by the definition."""
    bits, width, kept, parts, low = shape
    vector, index = divmod(number, 1 << bits)
    weighted = index % (1 << width)
    line = weighted % (1 << kept) if low else weighted >> (width - kept)
    # The other bits in their order, of which the highest say the part.
    if low:
        others = index >> kept
    else:
        low_bits = weighted % (1 << (width - kept))
        others = (index >> width) << (width - kept) | low_bits
    part = others >> (bits - kept - parts)
    return (vector << (kept + parts)) + (part << kept) + line


@pytest.mark.parametrize(
    "shape",
    [pytest.param(s, marks=() if s in SHAPES[4:6] else pytest.mark.thorough) for s in SHAPES],
)
def test_summing_lines(shape: tuple[int, int, int, int, int]) -> None:
    group, law = GROUPS["bn254.g1"], reference(GROUPS["bn254.g1"])
    vectors, (bits, _, kept, parts, _) = 3, shape
    vector_points = choices(group.name, vectors << bits)
    lines = vectors << (kept + parts)
    out = np.zeros(lines * 16, np.uint64)
    expected: list[Any] = [None] * lines
    for i, point in enumerate(vector_points):
        line = line_of(i, shape)
        expected[line] = law.add(expected[line], point)
    static: dict[str, Any] = {"group": group, "form": "weierstrass"}
    first = np.zeros(1, np.uint32)
    groups = -(-lines // 8)
    all_points = traced(weighted_sums.sum_lines, machine(8, 4), **static, gathered=False)
    interpret(all_points, groups, [lines, *shape, sums_of(group, vector_points), first, out])
    assert points_of(group, out) == expected
    # The same with the finite ones only, gathered.
    finite = [point for point in vector_points if point is not None]
    first = np.concatenate([[0], np.cumsum([point is not None for point in vector_points])]).astype(
        np.uint32
    )
    finite_points = traced(weighted_sums.sum_lines, machine(8, 4), **static, gathered=True)
    out[:] = 0
    interpret(finite_points, groups, [lines, *shape, sums_of(group, finite), first, out])
    assert points_of(group, out) == expected


@pytest.mark.parametrize(
    ("name", "form", "quads"),
    one_and_others(
        [("bn254.g1", "weierstrass", 1), ("bn254.g1", "weierstrass", 2),
         ("bn254.g1", "weierstrass", 4), ("bn254.g2", "weierstrass", 2),
         ("bls12_377.g1", "edwards", 4)],
        always=[("bls12_377.g1", "edwards", 4)],
    ),
)  # fmt: skip
def test_summing_short_lines(name: str, form: Form, quads: int) -> None:
    """Equal, opposite and infinite pairs, in quads of one subgroup."""
    group, law = GROUPS[name], reference(GROUPS[name])
    make: Callable[[list[Any]], Any] = edwards_sums
    read: Callable[[Any], list[Any]] = affine
    if form == "weierstrass":
        make, read = functools.partial(sums_of, group), functools.partial(points_of, group)
    shape = (4, 3, 1, 1, 1)
    vector_points = choices(name, 3 << 4)
    vector_points[0:8:2] = [vector_points[0] or points(group, 1)[0]] * 4  # doubles of doubles
    lines = 12
    expected: list[Any] = [None] * lines
    for i, point in enumerate(vector_points):
        line = line_of(i, shape)
        expected[line] = law.add(expected[line], point)
    if form == "edwards":
        expected = [mapped(point) for point in expected]
    static: dict[str, Any] = {"group": group, "form": form, "groups_per_line": quads}
    out = np.zeros(lines * 4 * group.coordinate_words, np.uint64)
    groups = -(-lines * quads * 4 // 16)
    first = np.zeros(1, np.uint32)
    small = machine(16, 32)
    kernel = weighted_sums.sum_short_lines.trace(small, **static)
    interpret(kernel, groups, [lines, *shape, 0, make(vector_points), first, out])
    assert read(out) == expected
    finite = [point for point in vector_points if point is not None]
    first = np.concatenate([[0], np.cumsum([point is not None for point in vector_points])]).astype(
        np.uint32
    )
    out[:] = 0
    interpret(kernel, groups, [lines, *shape, 1, make(finite), first, out])
    assert read(out) == expected


def test_quads_of_points_of_order_two() -> None:
    """Doubles are infinity, and cancelling pairs are distinguished from doubled ones."""
    group = GROUPS["bls12_377.g1"]
    law, (p, _) = reference(group), points(group, 2)
    two = (group.coordinates.value - 1, 0)
    pairs = [(two, two), (p, p), (p, law.neg(p)), (p, two)]
    pair_points = [point for pair in pairs for point in pair]
    out = np.zeros(4 * 24, np.uint64)
    kernel = weighted_sums.sum_short_lines.trace(
        machine(32, 32), group=group, form="weierstrass", groups_per_line=2
    )
    interpret(
        kernel, 1, [4, 1, 1, 0, 0, 0, 0, sums_of(group, pair_points), np.zeros(1, np.uint32), out]
    )
    assert points_of(group, out) == [law.add(*pair) for pair in pairs]


@pytest.mark.parametrize("resident", [256, 16384, 270336])
def test_cuts_compute_the_weighted_sum(resident: int) -> None:
    """With whole numbers for points: what the host weighs makes up the weighted sum of buckets."""
    rng = np.random.default_rng(1)
    shared = 0
    for window_bits, windows in ((2, 1), (6, 3), (7, 1), (8, 2), (11, 1), (13, 5), (16, 1)):
        plan = GpuMsmPlan(GROUPS["bn254.g1"], 10, window_bits, windows, 1, 1, 4)
        buckets = rng.integers(0, 1 << 20, plan.all_buckets)
        vectors: dict[weighted_sums.Vector, Any] = {}
        for cut in weighted_sums.cuts_of(plan, resident):
            source, target = cut.source, cut.target
            bits = source.bits + source.parts
            shape = (bits, source.bits, target.bits, target.parts, int(cut.is_low))
            points = vectors.get(source, buckets)
            lines = np.zeros(cut.lines, np.int64)
            np.add.at(lines, [line_of(i, shape) for i in range(len(points))], points)
            assert len(points) == cut.lines * cut.length
            vectors[target] = lines
            shared += target.parts > 0
        host_vectors = weighted_sums.vectors_of(plan)
        assert [vector for vector in vectors if vector.is_short] == list(host_vectors)
        assert host_vectors[-1].place == 0
        totals = np.zeros(windows, np.int64)
        for vector in host_vectors:
            # The lowest vector adds the weight 1 that every bucket has besides.
            weights = (np.arange(1 << vector.bits) << vector.place) + (vector is host_vectors[-1])
            totals += vectors[vector].reshape(windows, -1) @ weights
        expected = buckets.reshape(windows, -1) @ np.arange(1, plan.buckets + 1)
        assert np.array_equal(totals, expected)
    assert shared or resident < 270336


def lines_of(plan: GpuMsmPlan, buckets: dict[int, Any]) -> list[Any]:
    """Return the lines that the host weighs, where all other buckets are empty."""
    law = reference(plan.group)
    lines: list[Any] = []
    for vector in weighted_sums.vectors_of(plan):
        vector_points: list[Any] = [None] * (plan.all_windows << vector.bits)
        for number, point in buckets.items():
            window, b = divmod(number, plan.buckets)
            place = (window << vector.bits) + (b >> vector.place & ((1 << vector.bits) - 1))
            vector_points[place] = law.add(vector_points[place], point)
        lines += vector_points
    return lines


def results_of(plan: GpuMsmPlan, buckets: dict[int, Any]) -> list[Any]:
    law = reference(plan.group)
    totals: list[Any] = [None] * plan.batch
    for number, point in buckets.items():
        window, b = divmod(number, plan.buckets)
        result, place = divmod(window, plan.windows)
        multiple = law.mul((b + 1) << (plan.window_bits * place), point)
        totals[result] = law.add(totals[result], multiple)
    return totals


@pytest.mark.parametrize("name", one_and_others(["bn254.g1", "bls12_381.g2"]))
def test_finishing(name: str) -> None:
    """Three results of three windows of 2**6 buckets; one of 2**10; both beside each other."""
    group, law = GROUPS[name], reference(GROUPS[name])
    p, q = points(group, 2)
    plans_and_buckets = [
        (GpuMsmPlan(group, 10, 7, 3, 1, 1, 4, batch=3),
         {0: p, 63: q, 64: q, 65: law.neg(p), 100: p, 127: p, 191: q, 192: p, 300: law.neg(q),
          301: q, 383: p, 385: q, 386: q, 388: law.neg(q)}),
        (GpuMsmPlan(group, 10, 11, 1, 24, 1, 4), {0: p, 31: q, 32: p, 700: q, 1023: law.neg(p)}),
    ]  # fmt: skip
    lines = [sums_of(group, lines_of(plan, buckets)) for plan, buckets in plans_and_buckets]
    assert [memory.nbytes for memory in lines] == [
        weighted_sums.line_bytes(plan) for plan, _ in plans_and_buckets
    ]
    expected = [bases_of(group, results_of(plan, buckets)) for plan, buckets in plans_and_buckets]
    plans = [plan for plan, _ in plans_and_buckets]
    assert results_of(*plans_and_buckets[0])[2] is None
    together = Finisher(plans)
    for _ in range(2):
        results = together.finish(lines)
        assert [words.shape[0] for words in results] == [3, 1]
        for words, right in zip(results, expected, strict=True):
            assert np.array_equal(words.reshape(-1), right)
    (alone,) = Finisher(plans[1:]).finish(lines[1:])
    assert np.array_equal(alone.reshape(-1), expected[1])


def test_mixed_plans_cannot_be_finished_together() -> None:
    plans = [GpuMsmPlan(GROUPS[f"bn254.g{i}"], 10, 4, 1, 1, 1, 4) for i in (1, 2)]
    with pytest.raises(ValueError, match="share their group and form"):
        Finisher(plans)


@pytest.mark.parametrize(
    "arch",
    [pytest.param(arch, marks=() if arch == "sm_90a" else pytest.mark.thorough)
     for arch in ARCHITECTURES],
)  # fmt: skip
def test_quads_assemble(arch: str) -> None:
    """Without spills; they are not among the kernels by name, which have larger workgroups."""
    small = ptx_machine(LANES, arch)
    static: dict[str, Any] = {"group": GROUPS["bls12_377.g1"], "form": "edwards"}
    kernel = weighted_sums.sum_short_lines.trace(small, **static, groups_per_line=8)
    _, log = assemble(emit(kernel, small), arch)
    resources = usage(log)
    assert resources.spill_load_bytes == 0
    assert resources.registers <= 192
    with pytest.raises(TraceError, match="sums of four lanes need a workgroup"):
        weighted_sums.sum_short_lines.trace(
            ptx_machine(64, arch), **static, groups_per_line=8
        )  # fmt: skip
