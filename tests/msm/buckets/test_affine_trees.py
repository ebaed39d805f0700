"""Affine sums of chunks, ordinary and not, by the interpreter against plain integers."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx.emitter import emit
from quod.codegen.ptx.machine import ptx_machine
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.frozen import replace
from quod.kernel.interpreter.interpreter import interpret
from quod.msm import MsmBases, MsmOptions, affine_ints, msm_words
from quod.msm.gpu.buckets import accumulate
from quod.msm.gpu.buckets.accumulate import accumulate_again
from quod.msm.gpu.buckets.affine_trees import accumulate_affine
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.run.device_plan import plan_gpu_msm
from tests.msm.inputs import (
    bases,
    by_logarithms,
    logarithms,
    reference,
    scalar_words,
    uniform,
)
from tests.msm.sums import bases_of, machine, points_of, traced
from tests.support.ptx_assembler import assemble, usage
from tests.support.thorough import one_and_others

SIGN = 1 << 31

LANES = 8

INDEPENDENT = 40


@cache
def own_bases(name: str) -> list[Any]:
    """Bases of which 4 is the sum of 0 and 1, 5 is -1, and 6 is 0; none of the others is a sum."""
    law, rng = reference(GROUPS[name]), random.Random(name)
    generator = GROUPS[name].parameters.generator
    bases = [law.mul(rng.randrange(1 << 60), generator) for _ in range(INDEPENDENT)]
    p, q = bases[:2]
    bases[4:7] = [law.add(p, q), law.neg(q), p]
    return bases


class Case:
    """Chunks over `own_bases`, and the arrays that the kernels have of them."""

    def __init__(self, name: str, chunks: list[list[int]], slots: int) -> None:
        self.group: Group = GROUPS[name]
        self.rng = random.Random(f"{name} {len(chunks)}")
        self.law = reference(self.group)
        self.own = own_bases(name)
        self.chunks = sorted(chunks, key=len, reverse=True)
        self.slots = slots
        self.room = len(chunks) + 5
        lengths = [len(chunk) for chunk in self.chunks]
        starts = [3 + sum(lengths[:i]) for i in range(len(chunks))]
        entries = [9, 9, 9, *(entry for chunk in self.chunks for entry in chunk)]
        self.numbers = self.rng.sample(range(self.room), len(chunks))
        self.sums = np.full(self.room * 4 * self.group.coordinate_words, 7, np.uint64)
        self.retries = np.full(self.room + 1, 99, np.uint32)
        self.retries[0] = 0
        self.arrays = (
            np.array(starts, np.uint32), np.array(lengths, np.uint32),
            np.array(self.numbers, np.uint32), np.array(entries, np.uint32),
            bases_of(self.group, self.own), self.sums, self.retries,
        )  # fmt: skip

    def run(self, groups: int, *, words: int = 64) -> set[int]:
        """The chunks that were noted; all others are checked, and all after their second chance."""
        count = np.array([len(self.chunks)], np.uint32)
        scratch = np.full(
            groups * LANES * self.slots * 3 * self.group.coordinate_words, 11, np.uint64
        )
        first = traced(
            accumulate_affine, machine(LANES, 4, words=words), group=self.group, resident=2,
            inlined=True,
        )  # fmt: skip
        interpret(first, groups, [count, *self.arrays, scratch, self.slots])
        noted = [int(i) for i in self.retries[1 : 1 + self.retries[0]]]
        assert len(set(noted)) == len(noted)
        words_of = self.sums.reshape(self.room, -1)
        expected = [self.expected(chunk) for chunk in self.chunks]
        sums_read = points_of(self.group, words_of[self.numbers])
        assert all(
            sums_read[i] == point for i, point in enumerate(expected) if i not in noted
        )  # fmt: skip
        again = traced(
            accumulate_again, machine(LANES, 4), group=self.group, form="weierstrass"
        )  # fmt: skip
        interpret(again, 1, list(self.arrays))
        assert points_of(self.group, words_of[self.numbers]) == expected
        untouched = set(range(self.room)) - set(self.numbers)
        assert all((words_of[i] == 7).all() for i in untouched)
        return set(noted)

    def expected(self, chunk: list[int]) -> Any:
        total = None
        for entry in chunk:
            point = self.own[entry & ~SIGN]
            total = self.law.add(total, self.law.neg(point) if entry & SIGN else point)
        return total


def ordinary(rng: random.Random, lengths: list[int]) -> list[list[int]]:
    """Chunks of different bases, none of them a sum of others, with any signs."""
    independent = [i for i in range(INDEPENDENT) if i not in (4, 5, 6)]
    return [
        [i | rng.choice([0, SIGN]) for i in rng.sample(independent, length)] for length in lengths
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    one_and_others(
        [("bn254.g1", 32), ("bn254.g1", 64), ("bls12_381.g1", 32), ("bn254.g2", 64)],
        always=[("bn254.g1", 32), ("bn254.g1", 64)],
    ),
)
def test_ordinary_chunks(name: str, words: int) -> None:
    """Nothing is noted; more chunks than instances, which take several at a time, and fewer."""
    rng = random.Random(name)
    lengths = [4, 4, 3, 4, 2, 1, 1, 3, 4, 4, 2, 3, 4, 1, 4, 2, 3, 1, 2, 4, 4, 4, 3, 1, 1, 2, 4]
    case = Case(name, ordinary(rng, lengths), 4)
    assert case.run(1, words=words) == set()


@pytest.mark.parametrize("slots", one_and_others([19, 70]))
def test_long_chunks(slots: int) -> None:
    """Sums of sums over five levels, of lengths that are no powers of two."""
    lengths = [32, 31, 29, 25, 24, 17, 17, 16, 16, 15, 13, 9, 8, 7, 5, 3, 2, 1, 1]
    case = Case("bn254.g1", ordinary(random.Random(slots), lengths), slots)
    assert case.run(1) == set()


SPECIAL = [
    [0, 6], [1, 5], [1 | SIGN, 5], [2, 3, 1, 5], [0, 1, 4 | SIGN], [2, 2, 2, 2, 2],
    [0, 1, 2, 3, 3, 2, 1, 0],
]  # fmt: skip


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_exceptional_pairs(special: list[int]) -> None:
    """A chunk with equal or opposite points is noted, with those of the same instance only."""
    lengths = [4] * 12 + [2] * 3
    chunks = ordinary(random.Random(3), lengths)
    # The chunks of the longest first: the special one is in the middle of those of its length.
    case = Case("bn254.g1", [*chunks, special], 8)
    place = case.chunks.index(special)
    noted = case.run(1)
    assert place in noted
    assert {i % LANES for i in noted} == {place % LANES}


def test_equal_points() -> None:
    """One base in all entries, of chunks of every length."""
    case = Case("bls12_381.g1", [[3] * length for length in range(1, 12)] * 2, 6)
    noted = case.run(2)
    assert {i for i, chunk in enumerate(case.chunks) if len(chunk) > 1} <= noted


def test_empty_input() -> None:
    case = Case("bn254.g1", [], 3)
    assert case.run(2) == set()
    assert (case.sums == 7).all()


def test_fewer_chunks_than_instances() -> None:
    case = Case("bn254.g1", ordinary(random.Random(5), [4, 3, 1]), 9)
    assert case.run(3) == set()


@pytest.mark.parametrize("kind", one_and_others(["uniform", "equal"]))
def test_whole_msm(
    gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:  # fmt: skip
    """Chunks are summed by affine trees if an MSM's tuning says so."""
    if gpu_device.kind == "webgpu":
        pytest.skip("WebGPU has no affine sums (DeviceLimits)")
    group, count = GROUPS["bn254.g1"], 90
    chosen = replace(accumulate.tuning(group), slots=5, min_entries=0)
    monkeypatch.setattr(accumulate, "tuning", lambda _, **__: chosen)
    scalars = [scalar >> 230 for scalar in uniform(group, count)]
    if kind == "equal":
        scalars = scalars[:1] * count
    options = MsmOptions(scalar_bits=24, window_bits=5, precompute_factor=2)
    kept = MsmBases(gpu_device, group, bases(group, count), options)
    timeline = Timeline()
    result = affine_ints(group, msm_words(kept, scalar_words(scalars), timeline=timeline))
    assert result == by_logarithms(group, scalars, logarithms(count))
    stage = next(stage for stage in timeline.rows() if stage.name == "accumulate")
    assert stage.modmuls % 6 == 0


def test_scratch_memory_decides() -> None:
    """Affine sums need many entries, and memory for all slots."""
    plan = plan_gpu_msm(
        GROUPS["bls12_381.g1"], 1 << 20, MsmOptions(), limits=DeviceLimits(), base_budget=1 << 40
    )
    few_entries = replace(plan, count=1 << 16)
    small, large = (EmulatedDevice(memory_budget=budget) for budget in (1 << 20, 1 << 40))
    retry_bytes = 4 * (plan.max_chunks + 1)
    assert accumulate.scratch_bytes(large, plan) > 2 * retry_bytes
    for device, other in (
        (small, plan), (large, few_entries), (large, replace(plan, affine=False)),
    ):  # fmt: skip
        assert accumulate.scratch_bytes(device, other) < retry_bytes + 256


@pytest.mark.thorough
def test_registers() -> None:
    """Three workgroups fit a multiprocessor; only calls of the inversion keep values in memory."""
    arch = "sm_90a"
    machine = ptx_machine(128, arch)
    kernel = accumulate_affine.trace(
        machine, group=GROUPS["bls12_381.g1"], resident=3, inlined=True
    )
    _, log = assemble(emit(kernel, machine), arch)
    used = usage(log)
    assert used.registers <= 65536 // (3 * 128)
    assert used.spill_store_bytes < 256
