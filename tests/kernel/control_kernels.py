"""Kernels for control flow, functions and memory, each with arguments and, in plain Python, what
it must leave in its buffers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quod.kernel import (
    F32,
    I32,
    U8,
    U16,
    U32,
    U64,
    Builder,
    KernelDefinition,
    Pointer,
    Value,
    bool_,
    function,
    kernel,
    u8,
    u16,
    u32,
    u64,
)

Array = np.ndarray[Any, Any]
N = 32
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, and its buffers afterwards; four workgroups of eight run it."""

    definition: KernelDefinition
    arguments: list[Any]
    expected: dict[int, list[int]]
    """The buffers that the kernel changes: number of the argument, and what is in it."""
    per_workgroup: bool = False

    def __str__(self) -> str:
        return self.definition.name


CASES: list[Case] = []


def case(*arguments: Any, per_workgroup: bool = False) -> Callable[[Any], Any]:
    """Adds a kernel to the cases; the decorated function gives (kernel, expected buffers)."""

    def add(make: Callable[[], tuple[KernelDefinition, dict[int, list[int]]]]) -> Any:
        definition, expected = make()
        CASES.append(Case(definition, list(arguments), expected, per_workgroup))
        return make

    return add


def indices(dtype: Any = np.uint32) -> Array:
    return np.arange(N, dtype=dtype)


def zeros(dtype: Any = np.uint32, count: int = N) -> Array:
    return np.zeros(count, dtype)


@case(indices(), zeros())
def _divergent_if() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def divergent_if(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(x[i] % 3 == 0):
            y[i] = x[i] + 100

    return divergent_if, {1: [i + 100 if i % 3 == 0 else 0 for i in range(N)]}


@case(indices(), zeros())
def _both_sides() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def both_sides(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(x[i] < 10) as outer:
            with k.if_((x[i] & 1) == 1) as inner:
                inner.yield_(x[i] * 2, x[i])
            with inner.otherwise():
                inner.yield_(x[i] * 3, k.constant(7, u32))
            a, b = inner.results
            outer.yield_(a + b)
        with outer.otherwise():
            outer.yield_(x[i] - 1)
        y[i] = outer.results

    def model(i: int) -> int:
        if i < 10:
            return 2 * i + i if i & 1 else 3 * i + 7
        return i - 1

    return both_sides, {1: [model(i) for i in range(N)]}


@case(9, zeros())
def _uniform_if() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def uniform_if(k: Builder, n: U32, y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(n > 8) as branch:
            branch.yield_(i + n)
        with branch.otherwise():
            branch.yield_(i)
        with k.if_(n > 100) as other:
            other.yield_(n)
        with other.otherwise():
            other.yield_(n + 1)
        y[i] = branch.results + other.results

    return uniform_if, {1: [i + 19 for i in range(N)]}


@case(zeros())
def _divergent_trips() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def divergent_trips(k: Builder, y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.range(0, i, carry=k.constant(1, u32)) as loop:
            loop.next(loop.carried * 3 + loop.index)
        y[i] = loop.results

    def model(i: int) -> int:
        total = 1
        for j in range(i):
            total = (total * 3 + j) & MASK32
        return total

    return divergent_trips, {0: [model(i) for i in range(N)]}


@case(zeros(), zeros())
def _nested_loops() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def nested_loops(k: Builder, y: Pointer[U32], z: Pointer[U32]) -> None:
        i = k.global_id()
        zero = k.constant(0, u32)
        with k.range(i % 3, i, 2, carry=(zero, zero)) as outer:
            count, total = outer.carried
            with k.range(0, outer.index, carry=total) as inner:
                with k.if_((inner.index & 1) == 0) as branch:
                    branch.yield_(inner.carried + inner.index)
                with branch.otherwise():
                    branch.yield_(inner.carried ^ i)
                inner.next(branch.results)
            outer.next((count + 1, inner.results))
        y[i], z[i] = outer.results

    counts, totals = [], []
    for i in range(N):
        count = total = 0
        for a in range(i % 3, i, 2):
            for b in range(a):
                total = total + b if b % 2 == 0 else total ^ i
            count += 1
        counts.append(count)
        totals.append(total & MASK32)
    return nested_loops, {0: counts, 1: totals}


@case(np.array([5], np.int32), zeros(np.int32))
def _signed_loop() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def signed_loop(k: Builder, x: Pointer[I32], y: Pointer[I32]) -> None:
        i = k.global_id()
        low = -x[0] - i.cast(y.type.element)  # type: ignore[attr-defined]
        with k.range(low, x[0], 3, carry=x[0]) as loop:
            loop.next(loop.carried - loop.index)
        y[i] = loop.results

    return signed_loop, {1: [5 - sum(range(-5 - i, 5, 3)) for i in range(N)]}


@case(indices(), zeros())
def _collatz() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def collatz(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.while_((x[i] + 1, k.constant(0, u32))) as loop:
            n, steps = loop.carried
            odd = n & 1
            loop.check(n != 1)
            loop.next((k.select(odd == 1, n * 3 + 1, n >> 1), steps + 1))
        y[i] = loop.results[1]

    def model(n: int) -> int:
        steps = 0
        while n != 1:
            n, steps = (3 * n + 1 if n & 1 else n // 2), steps + 1
        return steps

    return collatz, {1: [model(i + 1) for i in range(N)]}


@case(zeros(), zeros())
def _stores_in_while() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def stores_in_while(k: Builder, y: Pointer[U32], z: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i % 4 != 0), k.while_(i) as loop:
            z[i] = z[i] + 1
            loop.check(loop.carried > 3)
            y[i] = y[i] + loop.carried
            loop.next(loop.carried - 3)

    y, z = [0] * N, [0] * N
    for i in range(N):
        if i % 4:
            n = i
            z[i] += 1
            while n > 3:
                y[i] += n
                n -= 3
                z[i] += 1
    return stores_in_while, {0: y, 1: z}


@case(7, zeros())
def _uniform_while() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def uniform_while(k: Builder, n: U32, y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.while_((n, i)) as loop:
            remaining, total = loop.carried
            loop.check(remaining != 0)
            loop.next((remaining - 1, total * 2 + remaining))
        y[i] = loop.results[1]

    def model(i: int) -> int:
        for remaining in range(7, 0, -1):
            i = i * 2 + remaining
        return i

    return uniform_while, {1: [model(i) for i in range(N)]}


@dataclass(frozen=True, eq=False)
class Pair:
    """A structured value: what carries, branches and functions pass as one."""

    low: Value
    high: Value
    tag: str

    def flatten(self) -> tuple[list[Value], Hashable, Callable[[Sequence[Value]], Pair]]:
        return [self.low, self.high], ("Pair", self.tag), lambda v: Pair(v[0], v[1], self.tag)


@case(zeros(np.uint64), zeros(np.uint64))
def _structures() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @function
    def step(k: Builder, pair: Pair, addend: Value) -> tuple[Pair, list[Value]]:
        low, carry = k.emit_many("add_cc", (pair.low, addend))
        high = k.emit("addc", (pair.high, k.constant(0, u64), carry))
        return Pair(low, high, pair.tag), [low ^ high]

    @kernel
    def structures(k: Builder, y: Pointer[U64], z: Pointer[U64]) -> None:
        i = k.global_id()
        wide = i.cast(u64)
        start = Pair(~wide, wide, "start")
        with k.range(0, i, carry=[start, (wide,)]) as loop:
            pair, (mixed,) = loop.carried
            pair, (mix,) = step(k, pair, k.constant(1 << 63, u64))
            loop.next([pair, (mixed + mix,)])
        pair, (mixed,) = loop.results
        y[i] = pair.high
        z[i] = mixed

    highs, mixes = [], []
    for i in range(N):
        low, high, mixed = MASK64 - i, i, i
        for _ in range(i):
            low += 1 << 63
            low, high = low & MASK64, high + (low >> 64)
            mixed = (mixed + (low ^ high)) & MASK64
        highs.append(high)
        mixes.append(mixed)
    return structures, {0: highs, 1: mixes}


@case(indices(), zeros())
def _functions() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @function
    def square(k: Builder, a: Value) -> Value:
        return a * a

    @function
    def clamp(k: Builder, a: Value, *, limit: int) -> Value:
        with k.if_(a > limit) as branch:
            branch.yield_(k.constant(limit, u32))
        with branch.otherwise():
            branch.yield_(square(k, a))
        return branch.results  # type: ignore[no-any-return]

    @function
    def put(k: Builder, target: Value, i: Value, a: Value) -> None:
        with k.if_(a != 9):
            target[i] = target[i] + a

    @kernel
    def functions(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        put(k, y, i, clamp(k, x[i], limit=10))
        put(k, y, i, clamp(k, k.constant(3, u32), limit=20))
        with k.if_(i < 20):
            put(k, y, i, clamp(k, x[i], limit=20))

    def clamped(a: int, limit: int) -> int:
        return limit if a > limit else a * a

    def model(i: int) -> int:
        parts = [clamped(i, 10), 9] + ([clamped(i, 20)] if i < 20 else [])
        return sum(part for part in parts if part != 9)

    return functions, {1: [model(i) for i in range(N)]}


@case(indices(np.uint8), indices(np.uint16), zeros(np.uint8), zeros(np.uint16))
def _narrow_storage() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def narrow_storage(
        k: Builder, a: Pointer[U8], b: Pointer[U16], c: Pointer[U8], d: Pointer[U16]
    ) -> None:
        i = k.global_id()
        with k.if_(i != 5):
            c[i] = a[i] * 77
            d[31 - i] = b[i] * 7777 + a[i]

    c = [0 if i == 5 else i * 77 & 0xFF for i in range(N)]
    d = [0 if i == 5 else (i * 7777 + i) & 0xFFFF for i in reversed(range(N))]
    return narrow_storage, {2: c, 3: d}


@case(np.arange(8 * N, dtype=np.uint64), zeros(np.uint64, 8 * N), zeros(np.uint32, 3 * N))
def _several_elements() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def several_elements(k: Builder, x: Pointer[U64], y: Pointer[U64], z: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i % 5 != 2):
            seven = k.load(x, i * 8, 7)
            k.store(y, i * 8 + 1, *reversed(seven))
            words = k.load(x.cast(u32), i * 16, 3)
            k.store(z, i * 3, *words)

    y, z = [0] * (8 * N), [0] * (3 * N)
    for i in range(N):
        if i % 5 != 2:
            y[8 * i + 1 : 8 * i + 8] = reversed(range(8 * i, 8 * i + 7))
            z[3 * i : 3 * i + 3] = [8 * i, 0, 8 * i + 1]
    return several_elements, {1: y, 2: z}


@case(np.arange(2 * N, dtype=np.uint32), zeros())
def _pointers() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def pointers(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i % 2 == 0) as branch:
            branch.yield_(k.pointer_add(x, N))
        with branch.otherwise():
            branch.yield_(y)
        chosen = branch.results
        with k.range(0, i % 4, carry=chosen) as loop:
            loop.next(k.pointer_add(loop.carried, 0))
        k.prefetch(x, i)
        with k.if_(i % 2 == 0):
            y[i] = loop.results[i] + k.pointer_add(x, i.cast(u64))[1]

    return pointers, {1: [N + i + i + 1 if i % 2 == 0 else 0 for i in range(N)]}


@case(np.arange(4, dtype=np.float32), zeros())
def _bytes_of_floats() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def bytes_of_floats(k: Builder, x: Pointer[F32], y: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i < 16):
            y[i] = x.cast(u8)[i] + (x.cast(u16)[i >> 1] << 8)

    raw = np.arange(4, dtype=np.float32)
    eighths, sixteenths = raw.view(np.uint8).tolist(), raw.view(np.uint16).tolist()
    return bytes_of_floats, {
        1: [eighths[i] + (sixteenths[i >> 1] << 8) if i < 16 else 0 for i in range(N)]
    }


@case(zeros(np.uint32, 3), zeros(np.uint64, 5))
def _atomics() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def atomics(k: Builder, a: Pointer[U32], b: Pointer[U64]) -> None:
        i = k.global_id()
        k.atomic_add(a, 0, i)
        with k.if_(i % 3 == 1):
            k.atomic_add(a, i % 3, 2)
            k.atomic_add(b, i % 5, i.cast(u64) << 33)
        k.atomic_add(a, 2, MASK32)

    a = [sum(range(N)), 2 * len(range(1, N, 3)), (N * MASK32) & MASK32]
    b = [sum(i << 33 for i in range(1, N, 3) if i % 5 == j) for j in range(5)]
    return atomics, {0: a, 1: b}


@case(zeros(), per_workgroup=True)
def _atomic_order() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def atomic_order(k: Builder, y: Pointer[U32]) -> None:
        """Each workgroup has a counter of its own; its instances take tickets in their order."""
        i = k.global_id()
        counter = k.shared(u32, 1)
        with k.if_(k.local_id() == 0):
            counter[0] = 0
        k.barrier()
        with k.if_(i % 2 == 0):
            y[i] = k.atomic_add(counter, 0, 5)

    return atomic_order, {0: [5 * (i % 8 // 2) if i % 2 == 0 else 0 for i in range(N)]}


@case(np.arange(N, dtype=np.uint32), zeros(), per_workgroup=True)
def _shared_exchange() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @function
    def exchange(k: Builder, room: Value, value: Value) -> Value:
        room[k.local_id()] = value
        k.barrier()
        other = room[k.workgroup_size - 1 - k.local_id()]
        k.barrier()
        return other

    @kernel
    def shared_exchange(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        room = k.shared(u32, k.workgroup_size)
        i = k.global_id()
        with k.range(0, 3, carry=x[i]) as loop:
            loop.next(exchange(k, room, loop.carried) + 1)
        y[i] = loop.results

    return shared_exchange, {1: [i // 8 * 8 + 7 - i % 8 + 3 for i in range(N)]}


@case(indices(), zeros(np.uint8))
def _flags() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def flags(k: Builder, x: Pointer[U32], y: Pointer[U8]) -> None:
        i = k.global_id()
        a, b = x[i] < 20, (x[i] & 1) == 0
        with k.if_(a) as branch:
            branch.yield_(b ^ True)
        with branch.otherwise():
            branch.yield_(~(a | ~b))
        y.cast(bool_)[i] = branch.results & (x[i] != 3)

    values = [((i % 2 == 1) if i < 20 else i % 2 == 0) and i != 3 for i in range(N)]
    return flags, {1: [int(value) for value in values]}


@case(
    zeros(np.uint32, 3), zeros(np.uint64, 3), indices(), zeros(), indices(np.uint64),
    zeros(np.uint64), zeros(np.uint32, 2),
)  # fmt: skip
def _atomics_of_every_kind() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def atomics_of_every_kind(
        k: Builder, a: Pointer[U32], b: Pointer[U64], x: Pointer[U32], y: Pointer[U32],
        w: Pointer[U64], z: Pointer[U64], lock: Pointer[U32],
    ) -> None:  # fmt: skip
        i = k.global_id()
        wide = i.cast(u64) << 35
        with k.if_(i % 4 != 3):
            k.atomic_max(a, 0, i * 77 % 64)
            k.atomic_or(a, 1, k.constant(1, u32) << i)
            k.atomic_max(b, 0, wide)
            k.atomic_or(b, 1, wide)
        k.atomic_min(a, 2, i + MASK32)
        k.atomic_min(b, 2, ~wide)
        with k.if_(i != 7):
            y[i] = k.atomic_exchange(x, i ^ 1, i + 100)
            z[i] = k.atomic_compare_exchange(w, i, (i & ~k.constant(1, u32)).cast(u64), wide)
        # One instance of all takes the lock.
        with k.if_(k.atomic_compare_exchange(lock, 0, 0, 5) == 0):
            k.atomic_add(lock, 1, 1)
        k.fence()

    some = [i for i in range(N) if i % 4 != 3]
    a = [max(i * 77 % 64 for i in some), sum(1 << i for i in some), 0]
    bits = 0
    for i in some:
        bits |= i << 35
    b = [max(some) << 35, bits, 0]
    x = list(range(N))
    y = [0 if i == 7 else i ^ 1 for i in range(N)]
    for i in range(N):
        if i != 7:
            x[i ^ 1] = i + 100
    w = [i if i % 2 else i << 35 for i in range(N)]
    z = [0 if i == 7 else i for i in range(N)]
    return atomics_of_every_kind, {0: a, 1: b, 2: x, 3: y, 4: w, 5: z, 6: [5, 1]}


@case(np.array([5, MASK32], np.uint32), per_workgroup=True)
def _shared_atomics() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def shared_atomics(k: Builder, y: Pointer[U32]) -> None:
        """The largest and the smallest instance of the grid, by way of each workgroup's."""
        i = k.global_id()
        room = k.shared(u32, 2)
        with k.if_(k.local_id() == 0):
            k.store(room, 0, k.constant(0, u32), k.constant(MASK32, u32))
        k.barrier()
        with k.if_(i % 5 == 1):
            k.atomic_max(room, 0, i)
            k.atomic_min(room, 1, i)
        k.barrier()
        with k.if_(k.local_id() == 0):
            k.atomic_max(y, 0, room[0])
            k.atomic_min(y, 1, room[1])

    return shared_atomics, {0: [31, 1]}


@case(np.arange(4 * N, dtype=np.uint32), zeros(), zeros())
def _asynchronous_copies() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def asynchronous_copies(k: Builder, x: Pointer[U32], y: Pointer[U32], z: Pointer[U32]) -> None:
        """Four, eight and sixteen bytes, by instances that take and that leave them."""
        i, local = k.global_id(), k.local_id()
        quads, pairs = k.shared(u32, 4 * k.workgroup_size), k.shared(u64, k.workgroup_size)
        singles = k.shared(u32, k.workgroup_size)
        singles[local] = i + 7000
        k.copy_async(quads, local * 4, x, i * 4, 4)
        k.copy_async_commit()
        k.copy_async(pairs, local, x.cast(u64), i * 2 + 1)
        with k.if_(i % 3 == 0):
            k.copy_async(singles, local, x, i)
        k.copy_async_commit()
        k.copy_async_wait(1)
        a, b, c, d = k.load(quads, local * 4, 4)
        y[i] = a + b * 3 + c * 5 + d * 7
        k.copy_async_wait()
        z[i] = pairs[local].cast(u32) * 1000 + (pairs[local] >> 32).cast(u32) + singles[local]

    y = [4 * i * 16 + 3 + 10 + 21 for i in range(N)]
    z = [(4 * i + 2) * 1000 + 4 * i + 3 + (i if i % 3 == 0 else i + 7000) for i in range(N)]
    return asynchronous_copies, {1: y, 2: z}


@case(np.arange(N * 6, dtype=np.uint32), zeros(), per_workgroup=True)
def _pipeline() -> tuple[KernelDefinition, dict[int, list[int]]]:
    @kernel
    def pipeline(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        """Two rooms in turn: one is copied to while the other is read, by a neighbour."""
        size, local = k.workgroup_size, k.local_id()
        room = k.shared(u32, 2 * size)
        start = k.workgroup_id() * size * 6
        k.copy_async(room, local, x, start + local)
        k.copy_async_commit()
        with k.range(0, 6, carry=k.constant(0, u32)) as loop:
            turn = loop.index
            with k.if_(turn < 5):
                k.copy_async(
                    room, (turn + 1) % 2 * size + local, x, start + (turn + 1) * size + local
                )
            k.copy_async_commit()
            k.copy_async_wait(1)
            k.barrier()
            neighbour = room[turn % 2 * size + size - 1 - local]
            k.barrier()
            loop.next(loop.carried * 3 + neighbour)
        y[k.global_id()] = loop.results

    def model(i: int) -> int:
        total = 0
        for turn in range(6):
            total = total * 3 + (i // 8 * 6 + turn) * 8 + 7 - i % 8
        return total

    return pipeline, {1: [model(i) for i in range(N)]}
