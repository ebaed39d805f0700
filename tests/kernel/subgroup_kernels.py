"""Kernels in which the instances of a subgroup or workgroup exchange values, each with what it
must leave in its buffers, in plain Python, for any sizes of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quod.kernel import (
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    Builder,
    KernelDefinition,
    Pointer,
    Value,
    bool_,
    f32,
    function,
    i32,
    i64,
    kernel,
    u32,
)

Array = np.ndarray[Any, Any]
INSTANCES = 256
MASK32 = (1 << 32) - 1


@dataclass(frozen=True)
class Shape:
    """Sizes of the groups of instances: `workgroup` of a workgroup, `subgroup` of a subgroup."""

    workgroup: int
    subgroup: int

    def subgroup_of(self, i: int) -> range:
        """The instances of the grid that are in the same subgroup as instance i."""
        local = i % self.workgroup
        first = i - local + local // self.subgroup * self.subgroup
        end = i - local + self.workgroup
        return range(first, min(first + self.subgroup, end))


@dataclass(frozen=True)
class Exchange:
    """A kernel over 256 instances, its arguments, and its buffers afterwards by a model."""

    definition: KernelDefinition
    arguments: list[Any]
    model: Callable[[Shape, int], tuple[Any, ...]]
    """Values at index i of each buffer that is not an input, in order."""
    inputs: int

    def __str__(self) -> str:
        return self.definition.name


def numbers(dtype: Any, seed: int = 1) -> Array:
    """Random bits, with the ends of the range among them."""
    words = np.random.default_rng(seed).integers(0, 1 << 64, INSTANCES, np.uint64)
    words[:4] = [0, 1, (1 << 64) - 1, 1 << 63]
    converted: Array = words.astype(dtype)
    return converted


def zeros(dtype: Any = np.uint32) -> Array:
    return np.zeros(INSTANCES, dtype)


_X32, _X64, _LANES = numbers(np.uint32), numbers(np.uint64), numbers(np.uint32, 2)
# Lane numbers beyond every size count modulo the size.
_LANES[10:20] = np.arange(10) * 0x1111_1111


@kernel
def where_am_i(k: Builder, lane: Pointer[U32], subgroup: Pointer[U32], size: Pointer[U32]) -> None:
    i = k.global_id()
    lane[i], subgroup[i], size[i] = k.lane_id(), k.subgroup_id(), k.constant(k.subgroup_size, u32)


def _where(shape: Shape, i: int) -> tuple[Any, ...]:
    local = i % shape.workgroup
    return local % shape.subgroup, local // shape.subgroup, shape.subgroup


@kernel
def butterflies(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
    """Sums over each subgroup, in every instance; sizes are powers of two."""
    i = k.global_id()
    total = x[i]
    step = min(k.subgroup_size, k.workgroup_size) // 2
    while step:
        total = total + k.shuffle(total, k.lane_id() ^ step)
        step //= 2
    y[i] = total


def _sum(shape: Shape, i: int) -> tuple[Any, ...]:
    return (sum(int(_X32[j]) for j in shape.subgroup_of(i)) & MASK32,)


@kernel
def shuffles_of_every_type(
    k: Builder, x: Pointer[U32], w: Pointer[U64], at: Pointer[U32], a: Pointer[U32],
    b: Pointer[U64], c: Pointer[I32], d: Pointer[F64], e: Pointer[U32],
) -> None:  # fmt: skip
    i = k.global_id()
    lane = at[i] % min(k.subgroup_size, k.workgroup_size)
    far = lane + k.subgroup_size * (at[i] >> 28)
    a[i] = k.shuffle(x[i], far)
    b[i] = k.shuffle(w[i], lane)
    c[i] = k.shuffle(x[i].cast(c.type.element), lane)  # type: ignore[attr-defined]
    d[i] = k.shuffle(w[i].cast(d.type.element), lane)  # type: ignore[attr-defined]
    e[i] = k.bitcast(k.shuffle((x[i] & 0xFFFF).cast(f32), 0), u32) + k.shuffle(
        k.constant(7, u32), lane
    )


def _every_type(shape: Shape, i: int) -> tuple[Any, ...]:
    lanes = shape.subgroup_of(i)
    source = lanes[int(_LANES[i]) % len(lanes)]
    first = np.float32(int(_X32[lanes[0]]) & 0xFFFF)
    word = int(_X32[source])
    return (
        word, int(_X64[source]), word - (word >> 31 << 32), float(int(_X64[source])),
        int(first.view(np.uint32)) + 7,
    )  # fmt: skip


@kernel
def shuffles_in_known_orders(
    k: Builder, x: Pointer[U32], w: Pointer[U64], a: Pointer[U32], b: Pointer[U64],
    c: Pointer[U64], d: Pointer[U32],
) -> None:  # fmt: skip
    """Lanes that follow from the instance's own number: what they are is known beforehand."""
    i, lane, local = k.global_id(), k.lane_id(), k.local_id()
    word, wide, count = x[i], w[i], min(k.subgroup_size, k.workgroup_size)
    a[i] = k.shuffle(word, (local * 7 + 3) % count)
    b[i] = k.shuffle(wide, k.select(lane == 1, 0, k.select(lane < 3, 1, lane ^ 1) & ~(lane >> 31)))
    # Numbers of lanes count modulo the size.
    c[i] = k.shuffle(wide, (lane - 5) % count + 4 * k.subgroup_size)
    d[i] = k.shuffle(word, local // 3) + k.shuffle(word, x[i] % 1)


def _known_orders(shape: Shape, i: int) -> tuple[Any, ...]:
    lanes = shape.subgroup_of(i)
    count, local = len(lanes), i % shape.workgroup
    lane = local % count
    chosen = 0 if lane == 1 else 1 if lane < 3 else lane ^ 1
    return (
        int(_X32[lanes[(local * 7 + 3) % count]]), int(_X64[lanes[chosen % count]]),
        int(_X64[lanes[(lane - 5) % count]]),
        (int(_X32[lanes[local // 3 % count]]) + int(_X32[lanes[0]])) & MASK32,
    )  # fmt: skip


@kernel
def ballots(
    k: Builder, n: U32, x: Pointer[U32], odd: Pointer[U32], rank: Pointer[U32], facts: Pointer[U32]
) -> None:
    """Votes, and the rank of an instance among those of its subgroup that vote as it does."""
    i = k.global_id()
    votes = k.ballot((x[i] & 1) == 1)
    odd[i] = votes
    below = (k.constant(1, u32) << k.lane_id()) - 1
    rank[i] = k.emit("popcount", (votes & below,))
    facts[i] = (
        k.any_lane(x[i] == 0).cast(u32)
        + k.all_lanes(x[i] != 0).cast(u32) * 2
        + k.all_lanes(n > 3).cast(u32) * 4
        + k.any_lane(n > 300).cast(u32) * 8
        + (k.ballot(k.constant(True, bool_)) << 4)
    )


def _votes(shape: Shape, i: int) -> tuple[Any, ...]:
    lanes = shape.subgroup_of(i)
    odd = sum(1 << at for at, j in enumerate(lanes) if _X32[j] & 1)
    rank = sum(int(_X32[j] & 1) for j in lanes if j < i)
    zero = any(_X32[j] == 0 for j in lanes)
    facts = zero + 2 * (not zero) + 4 + (((1 << len(lanes)) - 1) << 4)
    return odd, rank, facts & MASK32


@kernel
def uniform_loops(k: Builder, counts: Pointer[U32], x: Pointer[U32], y: Pointer[U32]) -> None:
    """A loop whose length is in memory, with an exchange in it."""
    i = k.global_id()
    room = k.shared(u32, k.workgroup_size)
    other = (k.local_id() + 1) % k.workgroup_size

    @function
    def turn(k: Builder, room: Value, other: Value, value: Value) -> Value:
        room[k.local_id()] = value
        k.barrier()
        exchanged = room[other]
        k.barrier()
        return exchanged + 1

    with k.range(0, k.uniform(counts[0]), carry=x[i]) as loop:
        loop.next(turn(k, room, other, loop.carried))
    with k.if_(k.uniform(counts[1] > 3)) as branch:
        branch.yield_(k.shuffle(loop.results, 0))
    with branch.otherwise():
        branch.yield_(loop.results)
    y[i] = branch.results


def _turned(shape: Shape, i: int) -> tuple[Any, ...]:
    first = shape.subgroup_of(i)[0]
    group = first // shape.workgroup * shape.workgroup
    return (int(_X32[group + (first - group + 3) % shape.workgroup]) + 3 & MASK32,)


@kernel
def in_uniform_branches(k: Builder, n: U32, x: Pointer[U32], y: Pointer[U32]) -> None:
    """Exchanges in regions that whole workgroups enter or not."""
    i = k.global_id()
    with k.if_(k.workgroup_id() % 2 == 0) as branch:
        with k.range(0, n, carry=x[i]) as loop:
            loop.next(k.shuffle(loop.carried, k.lane_id() ^ 1) + loop.index)
        branch.yield_(loop.results)
    with branch.otherwise():
        branch.yield_(k.ballot(x[i] > n))
    y[i] = branch.results


def _branches(shape: Shape, i: int) -> tuple[Any, ...]:
    lanes = shape.subgroup_of(i)
    if i // shape.workgroup % 2:
        return (sum(1 << at for at, j in enumerate(lanes) if _X32[j] > 5),)
    partner = lanes[(i - lanes[0]) ^ 1] if len(lanes) > 1 else i
    return (int(_X32[partner]) + 10 & MASK32,)


@kernel
def combinations(
    k: Builder, x: Pointer[U32], w: Pointer[U64], a: Pointer[U32], b: Pointer[I32],
    c: Pointer[U64], d: Pointer[I64], e: Pointer[F32], f: Pointer[U32], g: Pointer[F32],
    h: Pointer[U32],
) -> None:  # fmt: skip
    """Sums and extremes of a subgroup, of every type of at most 64 bits that all targets have."""
    i = k.global_id()
    word, wide, number = x[i], w[i], (x[i] & 0xFFFFFF).cast(f32) * 1e-3
    a[i] = k.subgroup_sum(word)
    b[i] = k.subgroup_maximum(word.cast(i32))
    c[i] = k.subgroup_sum(wide)
    d[i] = k.subgroup_minimum(wide.cast(i64))
    e[i] = k.subgroup_sum(number)
    f[i] = k.subgroup_maximum(word) - k.subgroup_minimum(word)
    g[i] = k.subgroup_minimum(-number)
    h[i] = k.subgroup_sum(k.constant(3, u32)) + k.subgroup_sum(k.constant(0.5, f32)).cast(u32)


def _float_sum(rows: list[np.float32]) -> np.float32:
    distance = 1 << (len(rows) - 1).bit_length()
    while distance := distance // 2:
        rows = [
            row + rows[at ^ distance] if at ^ distance < len(rows) else row
            for at, row in enumerate(rows)
        ]
    return rows[0]


def _combinations(shape: Shape, i: int) -> tuple[Any, ...]:
    lanes = shape.subgroup_of(i)
    x, w = [int(_X32[j]) for j in lanes], [int(_X64[j]) for j in lanes]
    numbers = [np.float32(v & 0xFFFFFF) * np.float32(1e-3) for v in x]
    total = _float_sum(numbers)
    return (
        sum(x) & MASK32, max(v - (v >> 31 << 32) for v in x), sum(w) & (1 << 64) - 1,
        min(v - (v >> 63 << 64) for v in w), float(total), max(x) - min(x), float(-max(numbers)),
        3 * len(lanes) + len(lanes) // 2,
    )  # fmt: skip


EXCHANGES = [
    Exchange(where_am_i, [zeros(), zeros(), zeros()], _where, 0),
    Exchange(butterflies, [_X32, zeros()], _sum, 1),
    Exchange(
        shuffles_of_every_type,
        [
            _X32, _X64, _LANES, zeros(), zeros(np.uint64), zeros(np.int32), zeros(np.float64),
            zeros(),
        ],
        _every_type,
        3,
    ),
    Exchange(
        shuffles_in_known_orders,
        [_X32, _X64, zeros(), zeros(np.uint64), zeros(np.uint64), zeros()],
        _known_orders,
        2,
    ),
    Exchange(ballots, [5, _X32, zeros(), zeros(), zeros()], _votes, 2),
    Exchange(
        combinations,
        [
            _X32, _X64, zeros(), zeros(np.int32), zeros(np.uint64), zeros(np.int64),
            zeros(np.float32), zeros(), zeros(np.float32), zeros(),
        ],
        _combinations,
        2,
    ),
    Exchange(uniform_loops, [np.array([3, 4], np.uint32), _X32, zeros()], _turned, 2),
    Exchange(in_uniform_branches, [5, _X32, zeros()], _branches, 2),
]  # fmt: skip
