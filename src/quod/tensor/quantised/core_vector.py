"""A vector as 32-bit integers in signed bytes, the form in which tensor cores multiply it.

Every 512 elements, or 256 if two groups of subgroups convert them, share a power-of-two scale that
puts the largest below 2^30. Fractions, which are at most 2^-29 of the largest, are dropped. Byte i
of all elements of a group is one column of an MMA matrix; its eight columns are the four bytes of
two groups of a block. Of four adjacent instances, 0 and 1 have elements of one group, 2 and 3 of
the next, with zeros in the other group's columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, f32, i32, u32
from quod.tensor.accesses import Accesses
from quod.tensor.matmul.mma_fragments import lane_of
from quod.tensor.matmul.tiles import log2
from quod.tensor.quantised.core_layout import SUBGROUP, UNIT, CoreLayout
from quod.tensor.quantised.decoders import each_byte
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.product import element_of, sum_of
from quod.tensor.rows.plan import WIDEST

_CHUNK = 16
"""Elements of a pair of blocks that one instance converts if one group of subgroups does."""
_PLANES = 4
"""Bytes of an element."""
_PAIRS, _ZEROS = 4, 32
"""Pairs of groups in 512 elements, and the index of a pair's zeros, in units of four words."""
_PAIR = 4 * (_ZEROS + 2)
"""Words of a pair of groups, with its zeros."""
_FRACTION = 156
"""Elements are multiples of 2^(e - _FRACTION), where e is the f32 exponent of the largest."""
_MIN_EXPONENT = 7
"""The least exponent used: every f32 is a multiple of 2^(_MIN_EXPONENT - _FRACTION)."""
_SMALL = 64
"""Elements with exponents below this are multiplied by two powers of two; see `convert`."""
_NORMAL = _FRACTION - 126
"""The exponent from which 2^(e - _FRACTION) is a normal f32."""
_INFINITY_EXPONENT = 255
_NAN = 0x7FC00000
_SIGNS = each_byte(128)
"""The sign bit of each byte of a word."""


class VectorBytes:
    """512 elements of the vector as bytes, in shared memory in the layout of MMA matrices."""

    def __init__(
        self, k: Builder, layout: CoreLayout, blocks_per_row: Value, x: Value, slice_: Value
    ) -> None:
        self._k, self._x, self._blocks = k, x, blocks_per_row
        self._shared = layout.groups
        size = _PAIRS * _PAIR
        self._buffer = k.shared(u32, layout.slices * size)
        self._runs = k.shared(u32, layout.slices * UNIT // BYTES)
        self._scales = k.shared(f32, layout.slices * 2)
        self._slice_offset, self._slice = slice_ * size, slice_
        self._group = k.local_id() >> log2(layout.slices * SUBGROUP)
        lane = lane_of(k)
        self._quarter, column = lane & 3, lane >> 2
        self._plane, upper = column & 3, self._quarter >> 1
        self._mask = k.select((column >> 2) == upper, each_byte(255), k.constant(0, u32))
        self._starts = []
        has_group = (column >> 2) == upper
        for high in range(2):
            half = (self._plane >> 1) ^ high
            chunk = (2 * upper + high) * 8 + 4 * (self._quarter & 1)
            chunk_index = chunk + 2 * ((self._plane & 1) ^ upper) + half
            self._starts.append(
                self._slice_offset + k.select(has_group, chunk_index, _ZEROS + (half ^ 1)) * 4
            )
        zero = k.constant(0, u32)
        with k.if_(k.local_id() < layout.slices * _PAIRS):
            for number in range(2):
                offset = k.local_id() * _PAIR + 4 * (_ZEROS + number)
                k.store(self._buffer, offset, zero, zero, zero, zero)

    def _place(self, chunk: Value, plane: int) -> Value:
        """Return the index in shared memory of byte `plane` of a chunk's 16 elements.

        Stores of eight chunks use different banks, and so do loads of four columns by two halves of
        a run, with the zeros for other columns.
        """
        half, high, upper = chunk & 1, (chunk >> 1) & 1, (chunk >> 2) & 1
        inside = 2 * (upper ^ plane & 1) + (high ^ plane >> 1)
        fours = ((chunk >> 1) & 3) * 8 + 4 * half + inside
        return self._slice_offset + (chunk >> 3) * _PAIR + fours * 4

    def convert(self, unit: Value) -> None:
        """Convert the elements for blocks 2 * unit and 2 * unit + 1; zeros beyond the row's end."""
        k, lane, per_instance = self._k, lane_of(self._k), _CHUNK // self._shared
        part_index = self._group * SUBGROUP + lane
        exists = unit * 2 + (part_index * per_instance >> 8) < self._blocks
        part_number = k.select(
            exists, unit * (SUBGROUP * self._shared) + part_index, k.constant(0, u32)
        )
        elements = self._loaded(part_number, per_instance)
        largest = k.constant(0, u32)
        for value in elements:
            largest = k.maximum(largest, k.bitcast(value, u32) & 0x7FFFFFFF)
        largest = k.subgroup_maximum(k.select(exists, largest, k.constant(0, u32)))
        exponent = k.maximum(largest >> 23, _MIN_EXPONENT)
        # Two powers of two, because a single one could exceed f32.
        small = exponent < _SMALL
        first_factor = k.select(small, k.constant(2.0**_SMALL, f32), k.constant(1.0, f32))
        first_factor = k.select(exists, first_factor, k.constant(0.0, f32))
        shifted_exponent = exponent + k.select(small, k.constant(_SMALL, u32), k.constant(0, u32))
        second_factor = k.bitcast((127 + _FRACTION - shifted_exponent) << 23, f32)
        scaled = [value * first_factor * second_factor for value in elements]
        words = [self._biased(value) for value in scaled]
        fours = [_planes(words[offset : offset + 4]) for offset in range(0, per_instance, 4)]
        chunk, inside = (
            (part_index, 0) if self._shared == 1 else (part_index >> 1, (part_index & 1) * 2)
        )
        for plane in range(_PLANES):
            plane_words = [four[plane] ^ _SIGNS for four in fours]
            k.store(self._buffer, self._place(chunk, plane) + inside, *plane_words)
        run_sum, lanes_per_run = sum_of(scaled), BYTES // per_instance
        for bit in range(log2(lanes_per_run)):
            run_sum = run_sum + k.shuffle(run_sum, lane ^ (1 << bit))
        with k.if_((lane & (lanes_per_run - 1)) == 0):
            offset = self._slice * (UNIT // BYTES) + (part_index >> log2(lanes_per_run))
            self._runs[offset] = self._biased(run_sum * k.constant(1 / BYTES, f32))
        # As bits: 2^(exponent - 156), subnormal or not, and NaN if an element is not finite.
        bits = k.select(
            exponent < _NORMAL, k.constant(1, u32) << (exponent - _MIN_EXPONENT & 31),
            (exponent - (_NORMAL - 1)) << 23,
        )  # fmt: skip
        bits = k.select(exponent < _INFINITY_EXPONENT, bits, k.constant(_NAN, u32))
        with k.if_(lane < 2 // self._shared):
            offset = self._slice * 2 + self._group + lane
            self._scales[offset] = k.bitcast(bits, f32)

    def _loaded(self, number: Value, count: int) -> list[Value]:
        """Load the elements of a chunk, 16 bytes at a time."""
        k, element = self._k, element_of(self._x)
        together = WIDEST // element.bytes
        accesses = Accesses(k, element, together)
        if element is f32:
            return [v for at in range(0, count, 4) for v in k.load(self._x, number * count + at, 4)]
        source, first = accesses.of(self._x), number * (count // together)
        return [v for at in range(count // together) for v in accesses.load(source, first + at)]

    def _biased(self, value: Value) -> Value:
        """Add 128 to each byte of an integer below 2^30; each byte less 128 is then signed."""
        return self._k.bitcast(value.cast(i32), u32) + _SIGNS

    def scales(self) -> list[Value]:
        """Return the factors of the instance's sums of both blocks.

        Instances with an odd number have sums of the two upper bytes.
        """
        k, odd = self._k, (self._quarter & 1) == 1
        factor = k.select(odd, k.constant(65536.0, f32), k.constant(1.0, f32))
        return [scale * factor for scale in k.load(self._scales, self._slice * 2, 2)]

    def sums(self) -> Value:
        """Return bytes of the sums of four runs, divided by 32, in the layout of an MMA matrix."""
        at = self._slice * (UNIT // BYTES) + self._quarter * 4
        values = self._k.load(self._runs, at, 4)
        run_bytes = [(value >> (self._plane << 3)) & 255 for value in values]
        packed = run_bytes[0] | run_bytes[1] << 8 | (run_bytes[2] | run_bytes[3] << 8) << 16
        return (packed ^ _SIGNS) & self._mask

    def words(self, pair: int, high: int) -> tuple[Value, ...]:
        """Return the words of two products, for a run of two groups, a `pair` of four."""
        return self._k.load(self._buffer, self._starts[high] + pair * _PAIR, 4)


def _blended(a: Value, b: Value, mask: int) -> Value:
    """Select the bits of a where the mask is set, else those of b: one instruction of a GPU."""
    return b ^ (a ^ b) & mask


def _planes(words: Sequence[Value]) -> list[Value]:
    """Transpose the bytes of four words: the lowest bytes first."""
    even, lower = 0x00FF00FF, 0x0000FFFF
    pairs = [
        (_blended(low, high << 8, even), _blended(low >> 8, high, even))
        for low, high in (words[:2], words[2:])
    ]
    of_two = list(zip(*pairs, strict=True))
    return [
        *(_blended(low, high << 16, lower) for low, high in of_two),
        *(_blended(low >> 16, high, lower) for low, high in of_two),
    ]
