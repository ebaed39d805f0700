"""Rounding, saturation, packing and sums in kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel import Builder, Machine, Value, i64, u32
from quod.kernel.machine import Capability

_MAX_JOINED_BY_EACH = 16


def is_bytewise(machine: Machine) -> bool:
    """Return whether products are of 16-bit integers and bytes, not of two 16-bit integers."""
    return machine.has(Capability.BYTE_PRODUCTS)


@frozen
class Planes:
    """The division of a product's inputs into 16-bit integers.

    count: The number of parts. An input is the sum of its parts, each times 2**bits of the one
        before; only the last is signed.
    """

    count: int
    bits: int


def overlap_launches(k: Builder) -> None:
    """Let the next launch start early, and wait for those before this one.

    Otherwise most of a token's time is the time between launches.
    """
    k.launch_dependents()
    k.dependency_wait()


def rounded(k: Builder, value: Value, shift: Value) -> Value:
    """Return value / 2**shift rounded to nearest, ties upward; value is i64, shift u32."""
    half = (k.constant(1, i64) << shift.cast(i64)) >> 1
    return (value + half) >> shift.cast(i64)


def clamped(k: Builder, value: Value, limit: Value) -> Value:
    """Return a value between -limit and limit."""
    return k.minimum(k.maximum(value, -limit), limit)


def store_pair(
    k: Builder, x: Value, index: Value, plane_words: Value, pair: Sequence[Value], planes: Planes
) -> None:  # fmt: skip
    """Store two neighbouring inputs, i32, at a word of each plane; a plane has `plane_words`."""
    for plane in range(planes.count):
        shift = plane * planes.bits
        parts = [value >> shift if shift else value for value in pair]
        if plane < planes.count - 1:
            parts = [part & ((1 << planes.bits) - 1) for part in parts]
        x[index + plane_words * plane] = packed(parts[0], parts[1])


def packed(low: Value, high: Value) -> Value:
    """Return the low 16 bits of two integers as a word."""
    return (low.cast(u32) & 0xFFFF) | (high.cast(u32) << 16)


def over_workgroup(
    k: Builder, room: Value, value: Value, join: Callable[[Value, Value], Value]
) -> Value:
    """Return the join of the values of all instances, from shared memory of one element each."""
    count, local_id = k.workgroup_size, k.local_id()
    k.barrier()
    room[local_id] = value
    k.barrier()
    while count > _MAX_JOINED_BY_EACH:
        half = (count + 1) // 2
        with k.if_(local_id < count - half):
            room[local_id] = join(room[local_id], room[local_id + half])
        k.barrier()
        count = half
    total = room[k.constant(0, u32)]
    for index in range(1, count):
        total = join(total, room[k.constant(index, u32)])
    return k.uniform(total)
