"""Sums by one lane each, by the interpreter against plain integers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import PORTABLE
from quod.curve.groups import GROUPS
from quod.curve.sums.forms import Form
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.machine import Machine
from quod.msm.gpu.reduce.serial import RUN_BITS, sum_terms
from tests.msm.inputs import points, reference
from tests.msm.reduce.test_weighted_sums import line_of
from tests.msm.sums import machine, points_of, sums_of, traced
from tests.support.thorough import one_and_others

NO_LINES = (0, 0, 0, 0, 0, 0)


def kernel(name: str, words: int) -> Any:
    own_machine: Machine = PORTABLE.machine(8) if words == 13 else machine(8, 4)
    form: Form = "weierstrass"
    return traced(sum_terms, own_machine, group=GROUPS[name], form=form)


def choices(name: str, count: int) -> list[Any]:
    """Points with many equal, opposite and infinite pairs among them."""
    rng, law, (p, q) = random.Random(name), reference(GROUPS[name]), points(GROUPS[name], 2)
    return [rng.choice([None, p, p, q, law.neg(p), law.add(p, q)]) for _ in range(count)]


CASES = one_and_others(
    [("bn254.g1", 13), ("bn254.g1", 64), ("bn254.g2", 13), ("bls12_377.g1", 13)]
)  # fmt: skip
"""Curves with a = 0 and without, over Fq and Fq2; with 13-bit limbs formulas are programs."""


@pytest.mark.parametrize(("name", "words"), CASES)
@pytest.mark.parametrize("gathered", [False, True])
def test_lines(name: str, words: int, gathered: bool) -> None:
    group, law = GROUPS[name], reference(GROUPS[name])
    vectors, shape = 2, (3, 3, 1, 0, 1)
    vector_points = choices(name, vectors << 3)
    lines = vectors << 1
    expected: list[Any] = [None] * lines
    for i, point in enumerate(vector_points):
        line = line_of(i, shape)
        expected[line] = law.add(expected[line], point)
    first_chunk = np.arange(17, dtype=np.uint32)
    source = vector_points
    if gathered:
        present = [point is not None for point in vector_points]
        first_chunk = np.concatenate([[0], np.cumsum(present)]).astype(np.uint32)
        source = [point for point in vector_points if point is not None]
    out = np.full(lines * 4 * group.coordinate_words, 7, np.uint64)
    arguments = [lines, *shape, int(gathered), 0, 0, first_chunk, sums_of(group, source), out]
    interpret(kernel(name, words), 1, arguments)
    assert points_of(group, out) == expected


@pytest.mark.parametrize(("name", "words"), CASES)
def test_chunks_of_a_bucket(name: str, words: int) -> None:
    """Buckets of no chunk, of one, of a few, of one run and of several runs."""
    group, law = GROUPS[name], reference(GROUPS[name])
    counts = [0, 1, 3, 0, 1 << RUN_BITS, 37, 2, 0]
    chunks = choices(name, sum(counts))
    first_chunk = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    expected: list[Any] = []
    for first, count in zip(first_chunk, counts):
        total = None
        for point in chunks[first : first + count]:
            total = law.add(total, point)
        expected.append(total)
    sums, out = sums_of(group, chunks), np.full(4, 7, np.uint64)
    groups = -(-len(chunks) // 8) + 1
    for level in (0, RUN_BITS):
        merged = [*NO_LINES, 0, len(counts), level, first_chunk, sums, out]
        interpret(kernel(name, words), groups, merged)
    merged_sums = sums.reshape(len(chunks), -1)
    for first, count, total in zip(first_chunk, counts, expected):
        if count:
            assert points_of(group, merged_sums[first]) == [total]
    assert (out == 7).all()
