"""Small kernels that the tests of devices launch."""

from __future__ import annotations

from quod.kernel import F32, F64, I32, U8, U32, U64, Bool, Builder, Pointer, kernel, u32


@kernel
def scale(k: Builder, n: U32, factor: U32, a: Pointer[U32], out: Pointer[U32]) -> None:
    """out[i] = factor * a[i] for n elements."""
    i = k.global_id()
    with k.if_(i < n):
        out[i] = a[i] * factor


@kernel
def increment(k: Builder, n: U32, a: Pointer[U32]) -> None:
    """Adds one to n elements."""
    i = k.global_id()
    with k.if_(i < n):
        a[i] = a[i] + 1


@kernel
def raise_to(k: Builder, n: U32, a: Pointer[U32], *, amount: int) -> None:
    """Adds a fixed amount to n elements."""
    i = k.global_id()
    with k.if_(i < n):
        a[i] = a[i] + amount


@kernel(workgroup=384)
def in_roles(k: Builder, out: Pointer[U32]) -> None:
    """A warpgroup with few registers tells two others, which have the rest, what to store."""
    room, local = k.shared(u32, 128), k.local_id()
    with k.if_(k.subgroup_id() < 4) as producer:
        k.registers(24)
        room[local] = local * 3
        k.named_barrier_arrive(1, 384)
    with producer.otherwise():
        k.registers(240)
        k.named_barrier(1, 384)
        out[local - 128] = room[local & 127] + local


@kernel
def spin(k: Builder, rounds: U32, out: Pointer[U32]) -> None:
    """Takes about two nanoseconds a round, and stores something that depends on all of them."""
    with k.range(0, rounds, carry=k.global_id()) as loop:
        x = loop.carried
        x = x * x + loop.index
        loop.next(x ^ (x >> 7))
    with k.if_(k.local_id() == 0):
        out[k.workgroup_id()] = loop.results


@kernel
def spin_for_hours(k: Builder, rounds: U32, out: Pointer[U32]) -> None:
    """`spin` as often as it has rounds: one workgroup that does not end."""
    with k.range(0, rounds, carry=k.global_id()) as outer:
        with k.range(0, rounds, carry=outer.carried) as loop:
            x = loop.carried
            x = x * x + loop.index
            loop.next(x ^ (x >> 7))
        outer.next(loop.results + outer.index)
    with k.if_(k.local_id() == 0):
        out[k.workgroup_id()] = outer.results


@kernel
def sum_in_shared(k: Builder, n: U32, out: Pointer[U32], *, words: int) -> None:
    """Fills an array of shared memory and adds it up again, element by element."""
    memory = k.shared(u32, words)
    with k.range(0, words) as fill:
        memory[fill.index] = fill.index * n
    k.barrier()
    with k.range(0, words, carry=n) as loop:
        loop.next(loop.carried + memory[loop.index])
    out[k.workgroup_id()] = loop.results


@kernel
def numbers(
    k: Builder,
    a: U32,
    b: U64,
    c: I32,
    d: F32,
    e: F64,
    f: Bool,
    out: Pointer[F64],
) -> None:
    """Stores each of its numbers."""
    from quod.kernel import f64

    with k.if_(k.global_id() == 0):
        for index, value in enumerate((a, b, c, d, e, f)):
            out[index] = value.cast(f64) if value is not e else value


@kernel
def copy_bytes(k: Builder, n: U32, a: Pointer[U8], out: Pointer[U8]) -> None:
    """out[i] = a[i] for n bytes."""
    i = k.global_id()
    with k.if_(i < n):
        out[i] = a[i]


@kernel
def add_words(k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64]) -> None:
    """out[i] += a[i] for n 64-bit words."""
    i = k.global_id()
    with k.if_(i < n):
        out[i] = out[i] + a[i]


@kernel
def halve(k: Builder, n: U32, a: Pointer[F32]) -> None:
    """Halves n floats."""
    i = k.global_id()
    with k.if_(i < n):
        a[i] = a[i] * 0.5
