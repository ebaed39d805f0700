"""Fixed-base scalar multiplication: one point by many scalars, for key generation.

With a table of d * 2**(window_bits * w) * P for every window w and digit d, a multiple is a sum of
one entry per window (Brickell, Gordon, McCurley, Wilson, EUROCRYPT '92). On a CPU these entries are
one chunk, which the affine additions of MSM buckets sum.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from quod.curve.array import Point, check_scalars_array, from_points
from quod.curve.group import Group
from quod.curve.sums.entries import SIGN_BIT
from quod.curve.weierstrass import operations
from quod.device.discovery import resolve_device
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice, HostDevice, in_host_memory
from quod.device.runtime.sentinel import check_written, mark, unwritten
from quod.errors import InputError
from quod.field.array import Words
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U16, U32, Pointer
from quod.msm.host.counting_sort import digits
from quod.msm.host.point_sums import PointSums
from quod.msm.host.precompute import double_repeatedly
from quod.msm.host.segments import NO_POINT
from quod.msm.scalars import window_count
from quod.validation import whole_number

if TYPE_CHECKING:
    from quod.msm.gpu.run.fixed_base import GpuTable

# The table of a wider window does not fit a cache.
_MAX_WINDOW_BITS = 13

# Field products to add an entry to a multiple; to compute a table entry as a sum of two seeds; and
# to compute a seed: a multiple of a window's base by the low or by the high bits of a digit.
_MULTIPLE_PRODUCTS, _ENTRY_PRODUCTS, _SEED_PRODUCTS = 6, 25, 800

# The number of scalars of one pass, few enough that their digits and entries take little memory.
_CHUNK = 1 << 17


@kernel
def list_table_entries(
    k: Builder,
    count: U32,
    windows: U32,
    half: U32,
    stored: Pointer[U16],
    entries: Pointer[U32],
    starts: Pointer[U32],
    lengths: Pointer[U32],
) -> None:
    """List the table entries that sum to each scalar's multiple.

    Digit w of scalar i is stored[w * count + i]; its entry is number w * half + |digit| - 1, with
    the sign in bit 31. Compiled for one lane: an instance handles one scalar.
    """
    i = k.global_id()
    start = i * windows
    with k.range(0, windows, carry=start) as loop:
        entry_index = loop.carried
        digit = stored[loop.index * count + i]
        negative = digit >= 0x8000
        magnitude = k.select(negative, 0x10000 - digit, digit)
        with k.if_(magnitude != 0):
            sign = k.select(negative, k.constant(SIGN_BIT, types.u32), 0)
            entries[entry_index] = (loop.index * half + (magnitude - 1)) | sign
        loop.next(entry_index + k.minimum(magnitude, 1))
    starts[i] = start
    lengths[i] = loop.results - start


@frozen
class _Shape:
    """The number of windows of a table, and the width of their signed digits."""

    window_bits: int
    windows: int

    @property
    def half(self) -> int:
        """The number of table entries per window, half of 2**window_bits because digits are
        signed."""
        return 1 << (self.window_bits - 1)

    def cost(self, count: int) -> float:
        """Estimate the field products for the table and `count` multiples."""
        table = self.half * _ENTRY_PRODUCTS + 2 * sqrt(self.half) * _SEED_PRODUCTS
        return self.windows * (count * _MULTIPLE_PRODUCTS + table)


class FixedBase:
    """A table of multiples of one point.

    count: the expected total number of scalars, which determines the size of the table.
    """

    def __init__(self, device: AnyDevice, group: Group, point: Point, count: int) -> None:
        device = resolve_device(device)
        count = whole_number("count", count, 0)
        self.device = device
        self.group = group
        shape = _shape_for(group, count)
        base = from_points(group, [point])
        self._multiples: _HostTable | GpuTable
        if in_host_memory(device):
            self._multiples = _HostTable(device, group, _table(device, group, base, shape), shape)
        else:
            from quod.msm.gpu.run.fixed_base import GpuTable

            # The host builds the table, which is little work for many kernels.
            table = _table(resolve_device("cpu"), group, base, shape)
            self._multiples = GpuTable(device, group, table, shape.window_bits, shape.windows)

    def multiply(self, scalars: Words) -> Words:
        """Return scalars[i] * point, affine points of shape (n, *group.shape).

        scalars: canonical integers, uint32 of shape (n, words).
        Raises InputError if a scalar is not below the order.
        """
        check_scalars_array(self.group, scalars)
        return self._multiples.multiply(scalars)

    def multiply_into(self, scalars: Buffer, out: Buffer) -> None:
        """Compute `multiply` from device memory to device memory.

        Raises InputError on a device that computes in host memory.
        """
        if isinstance(self._multiples, _HostTable):
            raise InputError(
                f"{self.device.name} computes in host memory; use multiply with arrays"
            )
        self._multiples.multiply_into(scalars, out)


class _HostTable:
    """A table of multiples in host memory."""

    def __init__(self, device: HostDevice, group: Group, table: Array, shape: _Shape) -> None:
        self.device, self.group = device, group
        self._table, self._shape = table, shape

    def multiply(self, scalars: Words) -> Words:
        """See `FixedBase.multiply`."""
        results = np.zeros((len(scalars), *self.group.shape), np.uint32)
        for start in range(0, len(scalars), _CHUNK):
            chunk = np.require(scalars[start : start + _CHUNK], requirements=("C", "A"))
            results[start : start + len(chunk)] = self._multiply(chunk)
        return results

    def _multiply(self, scalars: Words) -> Words:
        """Compute `multiply` for one chunk of scalars."""
        device, group, shape, count = self.device, self.group, self._shape, len(scalars)
        stored = np.empty(shape.windows * count, np.uint16)
        overflow = np.zeros(1, np.uint32)
        kernel = device.compile(
            digits, window_bits=shape.window_bits, windows=shape.windows,
            maximum=group.scalars.value - 1, masked=False,
        )  # fmt: skip
        words = scalars.reshape(-1).view(np.uint64)
        unused_mask = np.zeros(1, np.uint8)
        mark(stored)
        device.launch(
            kernel, -(-count // device.lanes), count, words, unused_mask, stored, overflow
        )
        check_written(device, "digits of scalars", stored)
        entries = np.empty(shape.windows * count, np.uint32)
        starts, lengths = np.empty(count, np.uint32), unwritten(count)
        kernel = device.compile(list_table_entries, lanes=1)
        device.launch(
            kernel, count, count, shape.windows, shape.half, stored, entries, starts, lengths
        )  # fmt: skip
        check_written(device, "entries of a table", lengths)
        sums = PointSums(device, group, count, longest=shape.windows, chunk_length=shape.windows)
        sums.add_up(self._table, entries, starts, lengths)
        results = np.zeros((count, group.point_words), np.uint64)
        has_sum = sums.point_indices != NO_POINT
        results[has_sum] = sums.points.reshape(-1, group.point_words)[sums.point_indices[has_sum]]
        return results.view(np.uint32).reshape(count, *group.shape)


def multiply_generator(device: AnyDevice, group: Group, scalars: Words) -> Words:
    """Return scalars[i] * G for the group's generator; see `FixedBase.multiply`."""
    check_scalars_array(group, scalars)
    return FixedBase(device, group, group.parameters.generator, len(scalars)).multiply(scalars)


def _shape_for(group: Group, count: int) -> _Shape:
    shapes = (
        _Shape(bits, window_count(group.scalars.value - 1, bits))
        for bits in range(3, _MAX_WINDOW_BITS + 1)
    )
    return min(shapes, key=lambda shape: shape.cost(count))


def _table(device: AnyDevice, group: Group, base: Words, shape: _Shape) -> Array:
    """Return the 64-bit words of all entries.

    An entry is the sum of two multiples of its window's base: by the low bits of the digit (1 to
    `low_count`) and by the high bits.
    """
    powers = unwritten(shape.windows, *group.shape)
    powers[0] = base[0]
    kernel = device.compile(double_repeatedly, lanes=1, group=group)
    device.launch(kernel, 1, 1, shape.windows, shape.window_bits, powers)
    check_written(device, "powers of two of a point", powers)
    low_count = 1 << shape.window_bits // 2
    high_count = max(1, shape.half // low_count)
    low_count = shape.half // high_count

    def multiples(factors: range) -> Words:
        """Return each window's base times each factor, window by window."""
        scalars = np.zeros((len(factors), 2), np.uint32)
        scalars[:, 0] = factors
        return operations.multiply(
            device,
            group,
            np.repeat(powers, len(factors), axis=0),
            np.tile(scalars, (shape.windows, 1)),
        )

    low = multiples(range(1, low_count + 1)).reshape(shape.windows, 1, low_count, *group.shape)
    high = multiples(range(0, high_count * low_count, low_count)).reshape(
        shape.windows, high_count, 1, *group.shape
    )
    shape_of_entries = (shape.windows, high_count, low_count, *group.shape)
    first_terms, second_terms = (
        np.broadcast_to(part, shape_of_entries).reshape(-1, *group.shape) for part in (low, high)
    )  # fmt: skip
    table: Array = (
        operations.add(device, group, first_terms, second_terms).reshape(-1).view(np.uint64)
    )
    return table
