"""Kernels that go over the data once: bit reversal, scaling by powers, and Groth16's quotient.

In place, what never ran looks like a result. What such a kernel does to an element or two says that
it ran; their own values may be zero, or equal, and be left as they are, so that others take their
places meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice
from quod.device.written import not_written
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel, types
from quod.kernel.value import Value

Element = np.ndarray[Any, Any]
"""The words of an element, where they are."""

SCALING_RUN = 32
"""Multiplications, of one step each, that follow a power found by squaring."""


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
        reverse = int(format(number, f"0{bits}b")[::-1], 2) if bits else 0
        return (start + place + reverse) * count

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
    zero = k.constant(0, types.u64)
    with k.range(zero, log_size, carry=f.carried(f.load(powers, 0))) as loop:
        chosen = ((exponent >> loop.index) & 1) != 0
        product = f.carried(loop.carried * f.load(powers, loop.index + 2))
        loop.next(f.select(chosen, product, loop.carried))
    step = f.load(powers, 1)
    with k.range(zero, run, carry=loop.results) as steps:
        element = first + steps.index * lanes
        with k.if_(element < total):
            f.store(data, element, f.load(data, element, linear=True) * steps.carried)
        steps.next(f.carried(steps.carried * step))


@kernel
def quotient_scalars(
    k: Builder,
    a: Pointer[U64],
    b: Pointer[U64],
    c: Pointer[U64],
    out: Pointer[U64],
    weights: Pointer[U64],
    count: U64,
    *,
    modulus: Modulus,
) -> None:
    """out[i] = weights[0] * a[i] * b[i] + weights[1] * c[i], in Montgomery form all of them."""
    f = prime_field(k, modulus)
    i = k.minimum(k.global_id().cast(types.u64), count - 1)
    product = f.load(a, i) * f.load(b, i)
    terms = [(product, f.load(weights, 0)), (f.load(c, i), f.load(weights, 1))]
    first, second = f.multiply_many(terms)
    f.store(out, i, first + second)


@contextmanager
def multiplied(
    device: AnyDevice, modulus: Modulus, element: Element, factor: int
) -> Iterator[None]:
    """An element that is multiplied inside, by no 1; DeviceError if it was not.

    What fails inside leaves it as it was.
    """
    if not element.flags.writeable:
        yield  # refused by the launch
        return
    before = element.copy()
    was = int.from_bytes(before.tobytes(), "little")
    # Numbers as they are in memory: factors are in Montgomery form, so that these need not be.
    element.view(np.uint8)[:] = _bytes_of(modulus, 1)
    try:
        yield
    except BaseException:
        element[:] = before
        raise
    if element.tobytes() != _bytes_of(modulus, factor).tobytes():
        raise not_written(device, "a transform")
    element.view(np.uint8)[:] = _bytes_of(modulus, was * factor)


@contextmanager
def exchanged(device: AnyDevice, a: Element, b: Element) -> Iterator[None]:
    """Two elements that are exchanged inside; DeviceError if they were not.

    What fails inside leaves them as they were.
    """
    if not a.flags.writeable:
        yield  # refused by the launch
        return
    first, second = a.copy(), b.copy()
    a[:], b[:] = 0, np.iinfo(b.dtype).max
    try:
        yield
    except BaseException:
        a[:], b[:] = first, second
        raise
    if not a.all() or b.any():
        raise not_written(device, "a transform")
    a[:], b[:] = second, first


def _bytes_of(modulus: Modulus, number: int) -> NDArray[np.uint8]:
    return np.frombuffer((number % modulus.value).to_bytes(modulus.bytes, "little"), np.uint8)
