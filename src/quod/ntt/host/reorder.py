"""Kernels that go over the data once: bit reversal and scaling by powers.

In place, what never ran looks like a result. What such a kernel does to an element or two says that
it ran; their own values may be zero, or equal, and be left as they are, so that others take their
places meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import not_written
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.ordering import reversed_bits
from quod.ntt.twiddles import multiplied_by_power


@kernel
def reverse_bits(
    k: Builder,
    data: Pointer[U64],
    order: Pointer[U32],
    log_size: U64,
    groups_each: U64,
    *,
    words: int,
) -> None:
    """Swaps the elements of transforms of 2**log_size points whose indices are bit-reversals.

    Elements have `words` 32-bit words. With 2**t lanes a workgroup moves a tile of 2**t by 2**t
    elements, which the top and the lowest t bits of the index tell apart, to where the middle bits
    are reversed, and that tile to its place, so that it reads and writes whole rows. log_size is at
    least 2t; `order` reverses half of the middle bits, rounded up; each transform has `groups_each`
    tiles.
    """
    lanes = k.workgroup_size
    bits = lanes.bit_length() - 1
    # One word, or whole words of 64 bits.
    array = data.cast(types.u32 if words == 1 else types.u64)
    count = -(-words // 2)
    group, lane = k.workgroup_id().cast(types.u64), k.local_id().cast(types.u64)
    middle = group % groups_each
    start = (group // groups_each) << log_size
    middle_bits = log_size - 2 * bits
    upper = middle_bits >> 1
    lower = middle_bits - upper
    mask = (k.constant(1, types.u64) << lower) - 1
    reversed_middle = (order[middle & mask].cast(types.u64) << upper) | (
        order[middle >> lower].cast(types.u64) >> (lower - upper)
    )
    reversed_lane = k.constant(0, types.u64)
    for bit in range(bits):
        reversed_lane = reversed_lane | (((lane >> bit) & 1) << (bits - 1 - bit))

    def row(tile: Value, number: int) -> Value:
        place = (k.constant(number, types.u64) << (log_size - bits)) | (tile << bits)
        return (start + place + lane) * count

    def column(tile: Value, number: int) -> Value:
        place = (reversed_lane << (log_size - bits)) | (tile << bits)
        return (start + place + reversed_bits(number, bits)) * count

    with k.if_(middle <= reversed_middle):
        here = [k.load(array, row(middle, number), count) for number in range(lanes)]
        there = [k.load(array, row(reversed_middle, number), count) for number in range(lanes)]
        for number in range(lanes):
            k.store(array, column(reversed_middle, number), *here[number])
            k.store(array, column(middle, number), *there[number])


@kernel
def scale_by_powers(
    k: Builder,
    data: Pointer[U64],
    powers: Pointer[U64],
    total: U64,
    log_size: U64,
    run: U64,
    *,
    modulus: Modulus,
) -> None:
    """Multiplies element i of each transform of 2**log_size points by c * b**i.

    `powers` holds c, b**lanes, and then b**(2**i), in Montgomery form, for i below log_size. A
    workgroup scales `run` elements a lane, no more than a transform has.
    """
    f = prime_field(k, modulus)
    lanes = k.workgroup_size
    group, lane = k.workgroup_id().cast(types.u64), k.local_id().cast(types.u64)
    first = group * run * lanes + lane
    exponent = first & ((k.constant(1, types.u64) << log_size) - 1)
    power = multiplied_by_power(k, f, f.load(powers, 0), powers, exponent, log_size)
    step = f.load(powers, 1)
    with k.range(k.constant(0, types.u64), run, carry=power) as steps:
        element = first + steps.index * lanes
        with k.if_(element < total):
            f.store(data, element, f.load(data, element, linear=True) * steps.carried)
        steps.next(f.carried(steps.carried * step))


@frozen(eq=False)
class StandIn:
    """An element in place, the words that it has before a kernel and must have after it, and what
    it becomes then."""

    element: Words
    before: ArrayLike
    after: ArrayLike
    result: Words


def multiplied(modulus: Modulus, element: Words, factor: int) -> list[StandIn]:
    """For an element that a kernel multiplies, by no 1."""
    was = int.from_bytes(element.tobytes(), "little")
    # Numbers as they are in memory: factors are in Montgomery form, so that these need not be.
    words = [
        np.frombuffer((number % modulus.value).to_bytes(modulus.bytes, "little"), np.uint32)
        for number in (1, factor, was * factor)
    ]
    return [StandIn(element, *words)]


def exchanged(a: Words, b: Words) -> list[StandIn]:
    """For two elements that a kernel exchanges."""
    ones = np.iinfo(np.uint32).max
    return [StandIn(a, 0, ones, b.copy()), StandIn(b, ones, 0, a.copy())]


@contextmanager
def checked(device: AnyDevice, elements: Sequence[StandIn]) -> Iterator[None]:
    """Elements that have other words inside; DeviceError unless these became what they must.

    What fails inside leaves them as they were.
    """
    if not all(own.element.flags.writeable for own in elements):
        yield  # refused by the launch
        return
    were = [own.element.copy() for own in elements]
    for own in elements:
        own.element[:] = own.before
    try:
        yield
    except BaseException:
        for own, words in zip(elements, were, strict=True):
            own.element[:] = words
        raise
    if any((own.element != own.after).any() for own in elements):
        raise not_written(device, "a transform")
    for own in elements:
        own.element[:] = own.result
