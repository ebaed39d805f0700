"""In-place kernels over all data: bit reversal and scaling by powers.

If an in-place kernel does not run, its unchanged data looks like a result. To detect that, one or
two elements are replaced by known values during the launch. Their own values would not do: the
kernel leaves elements unchanged that are zero or equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import not_written
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.ordering import reversed_bits
from quod.ntt.twiddles import multiplied_by_power

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from quod.kernel.builder.builder import Builder


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
    """Permute transforms of 2**log_size points to bit-reversed order, in place.

    With 2**t lanes, a tile is 2**t by 2**t elements that differ in the highest and lowest t bits of
    the index. A workgroup exchanges its tile with the one whose middle bits are reversed, reading
    and writing whole rows. log_size is at least 2t.

    order: bit reversal of half of the middle bits, rounded up.
    groups_each: tiles per transform.
    words: 32-bit words per element.
    """
    lanes = k.workgroup_size
    bits = lanes.bit_length() - 1
    # Elements are one 32-bit word or whole 64-bit words.
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

    def row(tile: Value, row_index: int) -> Value:
        offset = (k.constant(row_index, types.u64) << (log_size - bits)) | (tile << bits)
        return (start + offset + lane) * count

    def column(tile: Value, column_index: int) -> Value:
        offset = (reversed_lane << (log_size - bits)) | (tile << bits)
        return (start + offset + reversed_bits(column_index, bits)) * count

    with k.if_(middle <= reversed_middle):
        own_rows = [k.load(array, row(middle, index), count) for index in range(lanes)]
        partner_rows = [k.load(array, row(reversed_middle, index), count) for index in range(lanes)]
        for index in range(lanes):
            k.store(array, column(reversed_middle, index), *own_rows[index])
            k.store(array, column(middle, index), *partner_rows[index])


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
    """Multiply element i of each transform of 2**log_size points by c * b**i.

    powers: c, b**lanes, then b**(2**i) for i below log_size, in Montgomery form.
    run: elements that each lane scales; a workgroup scales no more elements than a transform has.
    """
    f = prime_field(k, modulus)
    lanes = k.workgroup_size
    group, lane = k.workgroup_id().cast(types.u64), k.local_id().cast(types.u64)
    first_element = group * run * lanes + lane
    exponent = first_element & ((k.constant(1, types.u64) << log_size) - 1)
    power = multiplied_by_power(k, f, f.load(powers, 0), powers, exponent, log_size)
    step = f.load(powers, 1)
    with k.range(k.constant(0, types.u64), run, carry=power) as steps:
        element = first_element + steps.index * lanes
        with k.if_(element < total):
            f.store(data, element, f.load(data, element, linear=True) * steps.carried)
        steps.next(f.bounded(steps.carried * step))


@frozen(eq=False)
class Canary:
    """Known values for an element during a launch.

    element: a view of the element in the data.
    before: its value before the launch.
    after: its expected value after the launch.
    result: the real result, to be stored after the check.
    """

    element: Words
    before: ArrayLike
    after: ArrayLike
    result: Words


def multiplied(modulus: Modulus, element: Words, factor: int) -> list[Canary]:
    """Return the known value for an element that a kernel multiplies by a factor other than 1."""
    integer = int.from_bytes(element.tobytes(), "little")
    # Integers as stored: the factor is in Montgomery form, so the element's form does not matter.
    words = [
        np.frombuffer((number % modulus.value).to_bytes(modulus.bytes, "little"), np.uint32)
        for number in (1, factor, integer * factor)
    ]
    return [Canary(element, *words)]


def exchanged(a: Words, b: Words) -> list[Canary]:
    """Return the known values for two elements that a kernel exchanges."""
    ones = np.iinfo(np.uint32).max
    return [Canary(a, 0, ones, b.copy()), Canary(b, ones, 0, a.copy())]


@contextmanager
def checked(device: AnyDevice, elements: Sequence[Canary]) -> Iterator[None]:
    """Replace elements by known values inside the context, and check them at its end.

    Raises DeviceError if a value is not the expected one. An exception inside restores the
    elements.
    """
    if not all(canary.element.flags.writeable for canary in elements):
        yield  # the launch rejects read-only data
        return
    originals = [canary.element.copy() for canary in elements]
    for canary in elements:
        canary.element[:] = canary.before
    try:
        yield
    except BaseException:
        for canary, words in zip(elements, originals, strict=True):
            canary.element[:] = words
        raise
    if any((canary.element != canary.after).any() for canary in elements):
        raise not_written(device, "a transform")
    for canary in elements:
        canary.element[:] = canary.result
