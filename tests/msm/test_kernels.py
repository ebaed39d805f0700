"""Each kernel of an MSM on CPUs in the interpreter and on every executor there, bit for bit."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.array import from_points
from quod.curve.edwards.weierstrass_model import model_of
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.device.cpu.device import CpuDevice
from quod.kernel.builder.structs import with_structs
from quod.kernel.interpreter.interpreter import interpret
from quod.msm.fixed_base import list_table_entries
from quod.msm.host import bucket_reduction as rows_and_columns
from quod.msm.host import counting_sort as counting
from quod.msm.host.affine_rounds import accumulate
from quod.msm.host.precompute import double_repeatedly
from quod.msm.host.segments import NO_POINT, cut_segments
from quod.msm.scalars import window_count
from tests.msm.inputs import points, reference, scalar_words, uniform
from tests.support import executors
from tests.support.thorough import one_and_others

Array = NDArray[Any]
SIGN = 1 << 31

run_everywhere = functools.partial(executors.run_everywhere, on_gpu=False)


def wide(array: Any) -> NDArray[np.uint64]:
    """Return the same memory as 64-bit words, which the kernels read."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint64)


def u32(*values: int) -> NDArray[np.uint32]:
    return np.array(values, np.uint32)


@pytest.mark.parametrize(
    ("name", "window_bits"),
    one_and_others(
        [*(("bn254.g1", bits) for bits in (5, 2, 13, 16)), ("bls12_381.g1", 5)],
        always=[("bn254.g1", 5), ("bn254.g1", 13)],
    ),
)
def test_digits(name: str, window_bits: int) -> None:
    """Digits recompose the scalars, and are within their range."""
    order = GROUPS[name].scalars.value
    half = 1 << (window_bits - 1)
    scalars = [
        0, 1, order - 1, half - 1, half, half + 1, order // 2,
        *uniform(GROUPS[name], 3), sum(half << s for s in range(0, 250, window_bits)) % order,
    ]  # fmt: skip
    count, windows = len(scalars), window_count(order - 1, window_bits)
    infinite = np.zeros(count, np.uint8)
    infinite[7] = 1
    for masked in (False, True):
        buffers = run_everywhere(
            counting.digits, 2,
            (count, wide(scalar_words(scalars)), infinite,
             np.zeros(windows * count, np.uint16), u32(0)),
            window_bits=window_bits, windows=windows, maximum=order - 1, masked=masked,
        )  # fmt: skip
        stored, overflow = buffers[2].view(np.int16).reshape(windows, count), buffers[3]
        assert not overflow[0]
        assert (np.abs(stored.astype(int)) <= half).all()
        for i, scalar in enumerate(scalars):
            total = sum(int(d) << (window_bits * w) for w, d in enumerate(stored[:, i]))
            assert total == (0 if masked and infinite[i] else scalar)


@pytest.mark.parametrize("excess", [1, 1 << 64, 1 << 128, 1 << 192])
def test_digits_of_an_oversized_scalar(excess: int) -> None:
    order = GROUPS["bn254.g1"].scalars.value
    buffers = run_everywhere(
        counting.digits, 1,
        (3, wide(scalar_words([5, order - 1 + excess, 6])), np.zeros(3, np.uint8),
         np.zeros(3 * 20, np.uint16), u32(0)),
        window_bits=13, windows=20, maximum=order - 1, masked=False,
    )  # fmt: skip
    assert buffers[3][0] == 1


def test_sorting() -> None:
    """Two vectors of scalars, two copies of the bases, two workers on each of three windows."""
    count, parts, windows, copies, buckets, vectors, stride = 21, 2, 3, 2, 8, 2, 30
    rng = np.random.default_rng(1)
    stored = rng.integers(-8, 8, (vectors, copies, windows, count)).astype(np.int16)
    tasks = vectors * windows * parts
    groups = -(-tasks // 8)
    stored_words = stored.reshape(-1).view(np.uint16)
    # One lane's kernels: idle instances of the last workgroup must have something to read.
    padded = np.zeros(stored_words.size * 2, np.uint16)
    padded[: stored_words.size] = stored_words
    counts = np.zeros(8 * groups * buckets, np.uint32)
    shape = (count, parts, windows, copies, buckets)
    counts = run_everywhere(counting.count_digits, groups, (*shape, padded, counts))[1]
    starts, lengths = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    room = count * copies
    bounds = np.zeros(8 * parts * buckets, np.uint32)
    used = vectors * windows * parts * buckets
    bounds[:used] = counts[:used]
    placed = run_everywhere(
        counting.place_buckets, 1, (room, parts, buckets, bounds, starts, lengths)
    )
    places, starts, lengths = placed
    entries = np.zeros(8 * groups * room, np.uint32)
    moved = np.zeros(8 * groups * buckets, np.uint32)
    moved[:used] = places[:used]
    entries = run_everywhere(
        counting.scatter_digits, groups, (*shape, stride, padded, moved, entries)
    )[2]
    for window in range(vectors * windows):
        vector, scalar_window = divmod(window, windows)
        for bucket in range(buckets):
            segment = window * buckets + bucket
            run = entries[starts[segment] : starts[segment] + lengths[segment]]
            expected = sorted(
                (copy * stride + i) | (SIGN if digit < 0 else 0)
                for copy in range(copies)
                for i, digit in enumerate(stored[vector, copy, scalar_window].tolist())
                if abs(digit) == bucket + 1
            )
            assert sorted(run.tolist()) == expected


@pytest.mark.parametrize("longest", [4, 9, 40])
def test_cutting(longest: int) -> None:
    rng = random.Random(longest)
    lengths = [rng.choice([0, 1, 2, 3, 8, 9, 10, 33, 100]) for _ in range(30)]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    owners = rng.sample(range(30), 30)
    chunk_length, first, room = longest // 2, 1000, 30 + sum(lengths) // (longest // 2)
    out = [np.zeros(size, np.uint32) for size in (longest + 1, room, room, room, 30, 30, 30, 30, 2)]
    buffers = (u32(*starts), u32(*lengths), u32(*owners), *out)
    outputs = run_alone(cut_segments, (30, longest, chunk_length, first, *buffers))
    chunk_starts, chunk_lengths, targets, numbers, *longs_found, totals = outputs[4:]
    long_starts, long_lengths, long_owners = longs_found
    total, long_count = totals.tolist()
    assert chunk_lengths[:total].tolist() == sorted(chunk_lengths[:total].tolist(), reverse=True)
    assert sorted(targets[:total].tolist()) == list(range(first, first + total))
    by_target = dict(zip(targets.tolist()[:total], range(total)))
    longs = dict(zip(long_owners.tolist()[:long_count], range(long_count)))
    for start, length, owner in zip(starts, lengths, owners):
        if length == 0:
            assert numbers[owner] == NO_POINT
            continue
        chunks = 1
        if length > longest:
            place = longs[owner]
            chunks = int(long_lengths[place])
            assert long_starts[place] == numbers[owner]
            assert chunks == -(-length // chunk_length)
        else:
            assert owner not in longs
        at = start
        for number in range(int(numbers[owner]), int(numbers[owner]) + chunks):
            chunk = by_target[number]
            assert chunk_starts[chunk] == at
            assert 0 < chunk_lengths[chunk] <= longest
            at += int(chunk_lengths[chunk])
        assert at == start + length


def run_alone(definition: Any, arguments: Any) -> list[Array]:
    """One instance of a kernel made for one lane, in the interpreter and compiled."""
    results = []
    device = CpuDevice(threads=1)
    for compiled in (False, True):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        if compiled:
            kernel = device.compile(definition, lanes=1)
            device.launch(kernel, 1, *with_structs(kernel.parameters, iter(copies)))
        else:
            interpret(definition.trace(device.machine(1)), 1, copies)
        results.append([a for a in copies if isinstance(a, np.ndarray)])
    for interpreted, executed in zip(*results):
        assert np.array_equal(interpreted, executed)
    return results[0]


def model_points(count: int) -> list[Any]:
    """Points of the Edwards curve's model, of order two and four among them."""
    model = model_of(EDWARDS_BLS12)
    root = pow(11, (EDWARDS_BLS12.fq.value - 1) // 4, EDWARDS_BLS12.fq.value)
    assert root * root % EDWARDS_BLS12.fq.value == EDWARDS_BLS12.fq.value - 1
    generator = model.parameters.generator
    low = [model.from_edwards(p) for p in ((0, 1), (0, EDWARDS_BLS12.fq.value - 1), (root, 0))]
    return [*low, *[generator] * (count - len(low))]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        "bn254.g1",
        pytest.param("bls12_377.g2", marks=pytest.mark.thorough),
        pytest.param("edwards", marks=pytest.mark.thorough),
    ],
)
def test_accumulation(name: str) -> None:
    """Slices of ordinary sums, of doublings, of cancellations and of infinity, side by side."""
    group: Group
    if name == "edwards":
        group, base_points = model_of(EDWARDS_BLS12), model_points(8)
    else:
        group = GROUPS[name]
        p, q, s = points(group, 3)
        double = reference(group).add(p, p)
        base_points = [p, q, s, None, double, reference(group).neg(q), p, s]
    rng = random.Random(name)
    # Two workgroups of eight lanes and four rows, or sixteen of one lane; one has room left.
    count, rows = 61, 4
    lengths = sorted((rng.choice([1, 2, 3, 5, 6]) for _ in range(count)), reverse=True)
    entries = [rng.randrange(8) | rng.choice([0, SIGN]) for _ in range(sum(lengths))]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    targets = rng.sample(range(count), count)
    buffers = run_everywhere(
        accumulate, 2,
        (count, rows, u32(*starts), u32(*lengths), u32(*targets), u32(*entries),
         wide(from_points(group, base_points)), np.zeros(count * group.point_words, np.uint64)),
        per_workgroup=True, group=group, max_rows=8,
    )  # fmt: skip
    if name != "edwards":
        law = reference(group)
        results = buffers[5].view(np.uint32).reshape(count, *group.shape)
        expected: list[Any] = [None] * count
        for start, length, target in zip(starts, lengths, targets):
            for entry in entries[start : start + length]:
                point = base_points[entry & 7]
                signed = law.neg(point) if entry & SIGN else point
                expected[target] = law.add(expected[target], signed)
        assert np.array_equal(results, from_points(group, expected))


@pytest.mark.thorough
def test_reduction() -> None:
    """Two windows of four rows and two columns; some have no point."""
    group = GROUPS["bn254.g1"]
    rows, columns, windows = 4, 2, 2
    numbers = u32(0, NO_POINT, 1, 2, 3, 0, 1, 1, NO_POINT, 4, 2, NO_POINT)
    base_words = wide(from_points(group, [*points(group, 4), None]))
    sums = np.zeros(8 * 4 * group.coordinate_words, np.uint64)
    buffers = run_everywhere(
        rows_and_columns.weigh,
        1,
        (2 * windows, rows, columns, numbers, base_words, sums),
        group=group,
    )
    out = np.zeros(8 * group.point_words, np.uint64)
    # Eight instances of combine want eight results' worth of sums.
    many = np.tile(buffers[2][: 4 * 4 * group.coordinate_words], 8)
    results = run_everywhere(rows_and_columns.combine, 1, (windows, 4, 1, many, out), group=group)[
        1
    ]
    assert np.array_equal(results.reshape(8, -1), np.tile(results[: group.point_words], (8, 1)))


def test_listing_rows_and_columns() -> None:
    rows, columns, windows = 4, 2, 8
    numbers = np.arange(windows * rows * columns, dtype=np.uint32)
    numbers[[1, 4, 5, 20, 63]] = NO_POINT
    segments = windows * (rows + columns)
    room = 2 * windows * rows * columns
    buffers = run_everywhere(
        rows_and_columns.list_rows_and_columns, 1,
        (rows, columns, numbers, np.zeros(room + 1, np.uint32), np.zeros(segments, np.uint32),
         np.zeros(segments, np.uint32)),
        per_workgroup=True,
    )  # fmt: skip
    _, entries, starts, lengths = buffers
    runs = [
        entries[start : start + length].tolist() for start, length in zip(starts, lengths)
    ]  # fmt: skip
    grid = numbers.reshape(windows, rows, columns)
    for window in range(windows):
        lines = [*grid[window], *grid[window].T]
        for line, run in zip(lines, runs[window * 6 : window * 6 + 6]):
            assert run == [int(number) for number in line if number != NO_POINT]


@pytest.mark.thorough
def test_precomputation() -> None:
    group = GROUPS["bls12_377.g1"]
    count, copies = 10, 3
    base_points = [*points(group, 7), None, (group.coordinates.value - 1, 0), (0, 1)]
    memory = np.zeros(copies * count * group.point_words, np.uint64)
    memory[: count * group.point_words] = wide(from_points(group, base_points))
    run_everywhere(double_repeatedly, 2, (count, copies, 5, memory), group=group)


def test_entries_of_a_table() -> None:
    count, windows, half = 8, 3, 8
    stored = np.random.default_rng(2).integers(-8, 8, windows * count).astype(np.int16)
    stored[::3] = 0
    buffers = run_everywhere(
        list_table_entries, 1,
        (count, windows, half, stored.view(np.uint16), np.zeros(windows * count, np.uint32),
         np.zeros(count, np.uint32), np.zeros(count, np.uint32)),
    )  # fmt: skip
    _, entries, starts, lengths = buffers
    for i in range(count):
        column = stored.reshape(windows, count)[:, i]
        expected = [
            (w * half + abs(int(d)) - 1) | (SIGN if d < 0 else 0) for w, d in enumerate(column) if d
        ]
        assert entries[starts[i] : starts[i] + lengths[i]].tolist() == expected
