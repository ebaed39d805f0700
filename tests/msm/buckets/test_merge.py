"""Sums of buckets with few and with many chunks, by the interpreter."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.kernel.interpreter.interpreter import interpret
from quod.msm.gpu.buckets import merge
from tests.msm.inputs import points, reference
from tests.msm.sums import machine, points_of, sums_of
from tests.support.thorough import one_and_others

STATIC: dict[str, Any] = {"group": GROUPS["bn254.g1"], "form": "weierstrass"}


def choices(rng: random.Random, count: int) -> list[Any]:
    """Points of which many are equal, opposite or infinite."""
    group = STATIC["group"]
    p, q = points(group, 2)
    law = reference(group)
    return rng.choices([p, q, law.neg(p), law.add(p, q), None], k=count)


def total_of(points: Any) -> Any:
    law, total = reference(STATIC["group"]), None
    for point in points:
        total = law.add(total, point)
    return total


@pytest.mark.parametrize("lanes", one_and_others([4, 1]))
def test_merging_buckets(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of more than three rounds of lanes become runs of at most eight chunks."""
    monkeypatch.setattr(merge, "_MAX_ROUNDS", 3)
    monkeypatch.setattr(merge, "_RUN", 8)
    sizes = [0, 1, 2, 3, 0, 4, 5, 6, 7, 12, 13, 16, 17, 0, 1, 40, 0]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
    chunk_sums = choices(random.Random(lanes), int(first[-1]))
    sums = sums_of(STATIC["group"], chunk_sums)
    before = sums.copy().reshape(len(chunk_sums), -1)
    counters, runs, run_sums = (
        np.zeros(2, np.uint32),
        np.zeros(64, np.uint32),
        np.zeros(16, np.uint32),
    )
    traced = merge.merge_buckets.trace(machine(8, 4), **STATIC, lanes_per_bucket=lanes)
    groups = -(-len(sizes) * lanes // 8)
    interpret(traced, groups, [len(sizes), first, sums, counters, runs, run_sums])
    words = sums.reshape(len(chunk_sums), -1)
    found_runs, found_sums = [], []
    for begin, size in zip(first.tolist(), sizes):
        if size > 3 * lanes:
            pieces = [(begin + at, min(8, size - at)) for at in range(0, size, 8)]
            found_runs += pieces
            if len(pieces) > 1:
                found_sums.append((begin, len(pieces)))
            assert np.array_equal(words[begin : begin + size], before[begin : begin + size])
        elif size:
            assert points_of(STATIC["group"], words[begin]) == [
                total_of(chunk_sums[begin : begin + size])
            ]
    assert sorted(map(tuple, runs.reshape(-1, 2)[: counters[0]].tolist())) == found_runs
    assert sorted(map(tuple, run_sums.reshape(-1, 2)[: counters[1]].tolist())) == found_sums
    assert found_runs
    # The runs, and their sums, by fewer workgroups than there are.
    traced = merge.merge_runs.trace(machine(8, 4), **STATIC)
    interpret(traced, 2, [counters, 0, 1, runs, sums])
    interpret(traced, 2, [counters, 1, 8, run_sums, sums])
    for begin, size in zip(first.tolist(), sizes):
        if size:
            assert points_of(STATIC["group"], words[begin]) == [
                total_of(chunk_sums[begin : begin + size])
            ]


@pytest.mark.parametrize(("lanes", "subgroup"), [(16, 4), (4, 4), (4, 32)])
def test_merging_one_run(lanes: int, subgroup: int) -> None:
    traced = merge.merge_runs.trace(machine(lanes, subgroup), **STATIC)
    for count in (2, 3, 7, 8, 9, 21):
        chunk_sums = choices(random.Random(count), 3 * count)
        sums = sums_of(STATIC["group"], chunk_sums)
        runs = np.array([1, count], np.uint32)
        interpret(traced, 3, [np.array([9, 1], np.uint32), 1, 3, runs, sums])
        run_sums = points_of(STATIC["group"], sums.reshape(3 * count, -1)[1])
        assert run_sums == [total_of(chunk_sums[1::3])], count


def test_carrying_sums() -> None:
    sizes = [1, 0, 2, 0, 1]
    first = np.array([0, 1, 1, 3, 3, 4], np.uint32)
    p, q = points(STATIC["group"], 2)
    law = reference(STATIC["group"])
    carried = [None, q, p, None, law.neg(q)]
    chunk_sums = [p, p, q, q]
    sums, totals = sums_of(STATIC["group"], chunk_sums), sums_of(STATIC["group"], carried, 2)
    totals[:16] = 0  # what a buffer has at first
    traced = merge.carry_sums.trace(machine(8, 4), **STATIC)
    interpret(traced, 1, [len(sizes), first, sums, totals])
    assert points_of(STATIC["group"], totals) == [p, q, law.add(p, p), None, None]


def test_begin_sums_initialises_carried_sums() -> None:
    first = np.array([0, 1, 1, 3, 3, 4], np.uint32)
    p, q = points(STATIC["group"], 2)
    sums, carried = sums_of(STATIC["group"], [p, p, q, None]), np.full(5 * 16, 7, np.uint64)
    traced = merge.begin_sums.trace(machine(8, 4), sum_words=16)
    interpret(traced, 6, [5 * 8, first, sums, carried])
    assert points_of(STATIC["group"], carried) == [p, None, p, None, None]
    assert not carried[16:32].any()
