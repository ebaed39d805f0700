"""Fixed-base scalar multiplication on a GPU: one lane per scalar, one table addition per window."""

from __future__ import annotations

import numpy as np

from quod.curve.group import Group
from quod.curve.weierstrass.normalise import normalise_sums
from quod.curve.weierstrass.point import PointArithmetic
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, check_written
from quod.field.array import Words
from quod.frozen import replace
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

# The number of scalars of one pass: they fill a large GPU several times, and take a few hundred
# MiB.
_CHUNK = 1 << 20


@kernel
def multiply_from_table(
    k: Builder,
    count: U32,
    table: Pointer[U64],
    scalars: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    window_bits: int,
    windows: int,
) -> None:
    """Compute out[i] = scalars[i] * P, in extended coordinates.

    table: affine points d * 2**(window_bits * w) * P, window by window, with d from 1 to
        2**(window_bits - 1).
    scalars: integers below 2**(window_bits * windows - 1).
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    half, full = 1 << (window_bits - 1), 1 << window_bits
    with k.if_(i < count):
        start = (curve.bounded(curve.infinity()), k.constant(0, types.u32))
        with k.range(0, windows, carry=start) as loop:
            total, carry = loop.carried
            unsigned_digit = (
                _bits(k, scalars, i, loop.index * window_bits, window_bits, group) + carry
            )
            negative = unsigned_digit > half
            magnitude = k.select(negative, full - unsigned_digit, unsigned_digit)
            entry = curve.load_affine(table, loop.index * half + (k.maximum(magnitude, 1) - 1))
            f = curve.field
            y = f.select(negative, f.bounded(-entry.y), f.bounded(entry.y))
            entry = replace(entry, y=y, infinity=entry.infinity | (magnitude == 0))
            one = k.constant(1, types.u32)
            loop.next((curve.bounded(curve.add_affine(total, entry)), k.select(negative, one, 0)))
        curve.store_extended(out, i, loop.results[0])


def _bits(
    k: Builder, scalars: Value, scalar_index: Value, low: Value, count: int, group: Group
) -> Value:
    """Read `count` bits of a scalar from bit `low` on; bits above its words are zero."""
    last = group.scalars.words // 2 - 1
    word_index, shift = low // 64, (low % 64).cast(types.u64)

    def word(index: Value) -> Value:
        offset = scalar_index.cast(types.u64) * (last + 1) + k.minimum(index, last).cast(types.u64)
        return k.select(index <= last, scalars[offset], 0)

    # Two shifts, because a shift by 64 is undefined.
    window = word(word_index) >> shift | word(word_index + 1) << 1 << (63 - shift)
    return (window & ((1 << count) - 1)).cast(types.u32)


class GpuTable:
    """A table of multiples in the memory of a GPU."""

    def __init__(
        self, device: AnyDevice, group: Group, table: Array, window_bits: int, windows: int
    ) -> None:
        """Upload a table of 64-bit words in the layout of `multiply_from_table`."""
        self._device, self._group = device, group
        self._table = device.upload(table)
        self._multiply = device.compile(
            multiply_from_table, group=group, window_bits=window_bits, windows=windows
        )
        self._normalise = device.compile(normalise_sums, group=group)

    def multiply(self, scalars: Words) -> Words:
        """Return scalars[i] * P, affine points of shape (n, *group.shape)."""
        group, device = self._group, self._device
        results = np.empty((len(scalars), *group.shape), np.uint32)
        if not len(scalars):
            return results
        pass_size = self._pass_size(len(scalars))
        scalar_memory = device.allocate(pass_size * group.scalars.bytes, zero=False)
        affine = device.allocate(pass_size * 8 * group.point_words, zero=False)
        scratch = self._scratch(pass_size)
        for start in range(0, len(scalars), pass_size):
            chunk = np.require(scalars[start : start + pass_size], requirements=("C", "A"))
            out = results[start : start + pass_size]
            device.upload(chunk, into=scalar_memory.slice(0, chunk.nbytes))
            marking = device.stream("table").record()
            marking.fill(affine, UNWRITTEN)
            marking.finish().run()
            self._multiply_chunk(len(chunk), scalar_memory, affine, scratch)
            device.download(affine.slice(0, out.nbytes), out)
            check_written(device, "multiples of a point", out)
        return results

    def multiply_into(self, scalars: Buffer, out: Buffer) -> None:
        """Write scalars[i] * P to `out` as affine points; both are in device memory.

        A launch that does not run is not detected.
        """
        scalar_bytes, point_bytes = self._group.scalars.bytes, 8 * self._group.point_words
        count = scalars.nbytes // scalar_bytes
        pass_size = self._pass_size(count)
        scratch = self._scratch(pass_size)
        for start in range(0, count, pass_size):
            stop = min(start + pass_size, count)
            self._multiply_chunk(
                stop - start, scalars.slice(start * scalar_bytes, stop * scalar_bytes),
                out.slice(start * point_bytes, stop * point_bytes), scratch,
            )  # fmt: skip

    def _pass_size(self, count: int) -> int:
        """Return the number of scalars of one pass."""
        extended_bytes = 32 * self._group.coordinate_words
        return max(1, min(_CHUNK, count, self._device.largest_buffer // extended_bytes))

    def _scratch(self, count: int) -> tuple[Buffer, Buffer]:
        """Allocate extended points and prefix products."""
        words = self._group.coordinate_words
        extended, prefixes = (
            self._device.allocate(count * size, zero=False) for size in (32 * words, 8 * words)
        )
        return extended, prefixes

    def _multiply_chunk(
        self, count: int, scalar_memory: Buffer, affine: Buffer, scratch: tuple[Buffer, Buffer]
    ) -> None:
        """Multiply the point by `count` scalars, and write affine points."""
        device, (extended, prefixes) = self._device, scratch
        workgroups = -(-count // device.lanes)
        device.launch(self._multiply, workgroups, count, self._table, scalar_memory, extended)
        # More points for each inversion save products, but every lane should have work.
        instances = min(count, max(device.resident_lanes, count // 16))
        device.launch(
            self._normalise,
            -(-instances // device.lanes),
            instances,
            count,
            extended,
            prefixes,
            affine,
        )
