"""Entries sorted by bucket and cut into chunks, against plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.curve.sums.entries import SIGN_BIT
from quod.device.emulated.device import EmulatedDevice, KernelForm
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.frozen import replace
from quod.msm.gpu.buckets import chunks
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.device_plan import SortShape
from quod.msm.gpu.run.record_sort import Scalars, record_chunks
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace, workspace_bytes
from quod.msm.gpu.sort.digits import position_of_too_large
from quod.msm.scalars import window_count
from tests.msm.inputs import scalar_words
from tests.support.thorough import one_and_others

GROUP = GROUPS["bls12_381.g1"]
BITS = 40
# Tiles of few entries, of which a bin then has several.
SMALL: dict[str, Any] = {"lanes": 64, "items": 4}


def plan_of(
    count: int, window_bits: int, *, windows: int = 1, batch: int = 1, longest: int = 20,
    bits: int = BITS, device: AnyDevice | None = None, **tuning: Any,
) -> GpuMsmPlan:  # fmt: skip
    """A plan for a device, by default a large GPU, with changes to how it sorts."""
    limits = DeviceLimits() if device is None else DeviceLimits.of(device)
    most = limits.sort.bins
    tuning["bins"] = min(most, tuning.get("bins", most))
    limits = replace(limits, sort=replace(limits.sort, **tuning))
    maximum = min((1 << bits) - 1, GROUP.scalars.value - 1)
    copies = -(-window_count(maximum, window_bits) // windows)
    return GpuMsmPlan(
        GROUP, count, window_bits, windows, copies, maximum, longest, batch, limits=limits
    )  # fmt: skip


def signed_digits(scalar: int, window_bits: int, number: int) -> list[int]:
    """Digits in base 2**window_bits from -2**(window_bits - 1) on, the lowest first."""
    digits, half = [], 1 << (window_bits - 1)
    for _ in range(number):
        digit = (scalar + half) % (2 * half) - half
        scalar = (scalar - digit) >> window_bits
        digits.append(digit)
    assert scalar == 0
    return digits


@dataclass
class Sorted:
    """Scalars sorted into buckets by the kernels."""

    entries: Words
    starts: Words
    lengths: Words
    numbers: Words
    first_chunk: Words
    count: int
    too_large: int


def run(
    device: AnyDevice, plan: GpuMsmPlan, vectors: Sequence[Sequence[int]], *,
    bases: int | None = None, first: int = 0, indices: Sequence[int] | None = None,
    infinite: Sequence[int] | None = None,
) -> Sorted:  # fmt: skip
    words = device.upload(np.concatenate([scalar_words(vector) for vector in vectors]))
    bases = plan.count if bases is None else bases
    marks: Buffer | None = None
    if infinite is not None:
        table = np.zeros(-(-bases * plan.copies // 32), np.uint32)
        for base in infinite:
            table[base // 32] |= 1 << (base % 32)
        marks = device.upload(table)
    numbers = None if indices is None else device.upload(np.array(indices, np.uint32))
    scalars = Scalars(words, len(vectors[0]), bases, first, numbers, marks)
    workspace = Workspace(device, workspace_bytes(device, plan))
    arrays = MsmBuffers.of(device, plan, Arena(device, workspace))
    recording = device.stream().record()
    recording.fill(arrays.zeroed)
    record_chunks(recording, device, plan, scalars, arrays)
    recording.finish().submit().wait()

    def words_of(buffer: Buffer) -> Words:
        out = np.zeros(buffer.nbytes // 4, np.uint32)
        device.download(buffer, out)
        return out

    cuts = arrays.chunks
    return Sorted(
        words_of(arrays.entries), words_of(cuts.starts), words_of(cuts.lengths),
        words_of(cuts.numbers), words_of(cuts.first_chunk), int(words_of(cuts.count)[0]),
        int(words_of(arrays.too_large)[0]),
    )  # fmt: skip


def expected_buckets(
    plan: GpuMsmPlan, vectors: Sequence[Sequence[int]], *, bases: int | None = None, first: int = 0,
    indices: Sequence[int] | None = None, infinite: Sequence[int] = (),
) -> list[Counter[int]]:  # fmt: skip
    """The entries of every bucket."""
    bases = plan.count if bases is None else bases
    buckets: list[Counter[int]] = [Counter() for _ in range(plan.all_buckets)]
    for number, vector in enumerate(vectors):
        for i in range(plan.count):
            scalar = vector[i if indices is None else indices[i]]
            for j, digit in enumerate(signed_digits(scalar, plan.window_bits, plan.digit_windows)):
                base = j // plan.windows * bases + first + i
                if digit == 0 or base in infinite:
                    continue
                window = number * plan.windows + j % plan.windows
                bucket = window * plan.buckets + abs(digit) - 1
                buckets[bucket][base | (SIGN_BIT if digit < 0 else 0)] += 1
    return buckets


def check(plan: GpuMsmPlan, binned: Sorted, buckets: list[Counter[int]]) -> None:
    assert binned.too_large == 0
    total = sum(bucket.total() for bucket in buckets)
    count = binned.count
    assert count <= plan.max_chunks
    assert binned.first_chunk[0] == 0
    assert binned.first_chunk[-1] == count
    lengths = binned.lengths[:count].astype(int)
    assert (np.diff(lengths) <= 0).all()
    assert lengths.sum() == total
    assert count == 0 or 1 <= lengths[-1] <= lengths[0] <= plan.longest
    assert sorted(binned.numbers[:count]) == list(range(count))
    place = np.empty(count, int)
    place[binned.numbers[:count]] = np.arange(count)
    position = 0
    for bucket, wanted in enumerate(buckets):
        bucket_chunks = range(int(binned.first_chunk[bucket]), int(binned.first_chunk[bucket + 1]))
        assert len(bucket_chunks) == -(-wanted.total() // plan.longest)
        entries: Counter[int] = Counter()
        for chunk in bucket_chunks:
            start, length = int(binned.starts[place[chunk]]), int(lengths[place[chunk]])
            assert start == position
            position += length
            entries.update(binned.entries[start : start + length].tolist())
        assert entries == wanted
        sizes = [int(lengths[place[chunk]]) for chunk in bucket_chunks]
        assert not sizes or max(sizes) - min(sizes) <= 1


def kinds(count: int) -> dict[str, list[int]]:
    source = random.Random(count)
    uniform = [source.getrandbits(BITS) for _ in range(count)]
    return {
        "uniform": uniform,
        "zeros": [0] * count,
        "ones": [1] * count,
        "all ones": [(1 << BITS) - 1] * count,
        "equal": [uniform[0]] * count,
        "bits": [source.getrandbits(1) for _ in range(count)],
        "giant": [uniform[0] if i % 16 else uniform[i] for i in range(count)],
        "steps": [(i << (i % 33)) % (1 << BITS) for i in range(count)],
    }


KINDS = list(kinds(1))


@pytest.mark.parametrize(
    ("bins", "kind"), [*((8192, kind) for kind in KINDS), (64, "uniform"), (64, "giant")]
)
def test_sorting(sort_device: AnyDevice, bins: int, kind: str) -> None:
    """In one step where every bucket has a bin, and in two; a bin may have several tiles."""
    count = 64 * 4 + 50
    plan = plan_of(count, 8, longest=99, device=sort_device, bins=bins, **SMALL)
    assert SortShape.of(plan).direct == (bins == 8192)
    scalars = kinds(count)[kind]
    check(plan, run(sort_device, plan, [scalars]), expected_buckets(plan, [scalars]))


@pytest.mark.parametrize(
    ("bins", "staged", "kind", "executor"),
    [(8192, True, "giant", "ir"), (64, True, "uniform", "ir"), (64, True, "giant", "ir"),
     (64, False, "giant", "ir"), (64, True, "giant", "ptx"),
     *(pytest.param(*case, "ptx", marks=pytest.mark.thorough)
       for case in ((8192, True, "giant"), (64, False, "giant")))],
)  # fmt: skip
def test_sorting_with_small_limits(
    bins: int, staged: bool, kind: str, executor: KernelForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many tiles of few entries, and buckets that whole workgroups cut."""
    monkeypatch.setattr(chunks, "_MANY_CHUNKS", 4)
    plan = plan_of(300, 8, bins=bins, lanes=64, items=1, staged=staged)
    scalars = kinds(300)[kind]
    # A device of its own: the limits are part of the kernels.
    device = EmulatedDevice(executor=executor)
    check(plan, run(device, plan, [scalars]), expected_buckets(plan, [scalars]))


@pytest.mark.thorough
def test_default_tile_sizes() -> None:
    """Default tiles need more shared memory than the static limit."""
    plan = plan_of(2600, 10, longest=50, bins=64)
    scalars = kinds(2600)["giant"]
    device = EmulatedDevice(executor="ptx")
    check(plan, run(device, plan, [scalars]), expected_buckets(plan, [scalars]))


@pytest.mark.parametrize(
    ("count", "window_bits", "bins"),
    one_and_others(
        [*((33, bits, bins) for bits in (2, 3, 7, 10, 13) for bins in (8192, 16)), (1, 7, 8192),
         (2, 3, 16)],
        always=[(33, 2, 8192), (1, 7, 8192), (2, 3, 16)],
    ),
)  # fmt: skip
def test_widths_and_counts(
    sort_device: AnyDevice, count: int, window_bits: int, bins: int
) -> None:  # fmt: skip
    if window_bits == 13 and bins == 16:
        bins = 64
    plan = plan_of(count, window_bits, windows=2, longest=3, device=sort_device, bins=bins)
    scalars = kinds(count)["uniform"]
    check(plan, run(sort_device, plan, [scalars]), expected_buckets(plan, [scalars]))


@pytest.mark.parametrize("bins", [8192, 32])
def test_batches(sort_device: AnyDevice, bins: int) -> None:
    """Vectors that are further apart than they are long."""
    count = 70
    vectors = [kinds(count + 5)[kind] for kind in ("uniform", "ones", "steps")]
    plan = plan_of(count, 6, windows=3, batch=3, longest=7, device=sort_device, bins=bins)
    binned = run(sort_device, plan, vectors, bases=90)
    check(plan, binned, expected_buckets(plan, vectors, bases=90))


def test_indices_infinite_bases_and_a_first_base(sort_device: AnyDevice) -> None:
    count, bases, first = 50, 80, 13
    source = random.Random(2)
    scalars = kinds(64)["uniform"]
    indices = [source.randrange(64) for _ in range(count)]
    plan = plan_of(count, 9, device=sort_device)
    infinite = source.sample(range(bases * plan.copies), 60)
    where = {"bases": bases, "first": first}
    binned = run(sort_device, plan, [scalars], indices=indices, infinite=infinite, **where)
    check(
        plan, binned,
        expected_buckets(plan, [scalars], indices=indices, infinite=infinite, **where),
    )  # fmt: skip


def test_full_scalars(sort_device: AnyDevice) -> None:
    """Scalars of all 255 bits, with the greatest."""
    order = GROUP.scalars.value
    source = random.Random(3)
    scalars = [order - 1, order - 2, 0, 1, order >> 1, *(source.randrange(order) for _ in range(9))]
    plan = plan_of(len(scalars), 11, windows=3, bits=256, device=sort_device)
    check(plan, run(sort_device, plan, [scalars]), expected_buckets(plan, [scalars]))


@pytest.mark.parametrize(
    ("bits", "word"), [(BITS, 1 << BITS), (BITS, (1 << 256) - 1), (256, GROUP.scalars.value)]
)
def test_oversized_scalar_is_reported(sort_device: AnyDevice, bits: int, word: int) -> None:
    scalars = [(1 << BITS) - 1] * 300
    plan = plan_of(300, 8, bits=bits, device=sort_device)
    for positions in ([0], [299], [270, 41]):
        for position in positions:
            scalars[position] = word
        binned = run(sort_device, plan, [scalars])
        assert position_of_too_large(binned.too_large) == min(positions)
        for position in positions:
            scalars[position] = 1


def test_one_bucket_of_very_many_chunks(sort_device: AnyDevice) -> None:
    """More than a subgroup writes, with the constant as it is."""
    count = 2100
    plan = plan_of(count, 5, bits=3, longest=2, device=sort_device)
    scalars = [3] * count
    binned = run(sort_device, plan, [scalars])
    assert binned.count == 1050 > chunks._MANY_CHUNKS
    check(plan, binned, expected_buckets(plan, [scalars]))
