"""The layout of a tile: the elements that each instance holds in each step.

A workgroup of a pass transforms a *tile*: several columns of 2**log_rows rows. The index of an
element in its tile consists of the bits of its column (lowest) and of its row. In a *step* some of
these bits, including those of the step's levels, index the elements of one instance; the other bits
index the instances. Between steps instances exchange elements through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.ir.value import Value


@frozen
class Tile:
    """The sizes of a tile: 2**log_rows rows in 2**log_columns columns.

    log_elements: log2 of the elements of an instance.
    log_banks: log2 of the instances that shared memory serves at a time if their banks differ:
        eight instances for accesses of 16 bytes, more for shorter elements.
    """

    log_rows: int
    log_columns: int
    log_elements: int
    log_banks: int = 3

    @property
    def log_size(self) -> int:
        return self.log_rows + self.log_columns

    @property
    def lanes(self) -> int:
        """The number of instances of the workgroup."""
        return 1 << (self.log_size - self.log_elements)

    @property
    def column_bits(self) -> range:
        return range(self.log_columns)

    @property
    def row_bits(self) -> range:
        return range(self.log_columns, self.log_size)


@frozen
class Step:
    """A step, which computes levels `first` to `first + levels - 1` of a pass in registers.

    registers: the index bits of which an element's register number consists, lowest first; the bits
        of the levels come first.
    threads: the index bits of which an instance's number consists, lowest first.
    """

    first: int
    levels: int
    registers: tuple[int, ...]
    threads: tuple[int, ...]


def arrange(tile: Tile, first: int, levels: int, preferred: Sequence[int]) -> Step:
    """Return a step of `levels` levels in which neighbouring instances differ in `preferred` bits.

    preferred: index bits in order of preference. The lowest log_banks bits of the instance's number
        are the first of them that select different banks.
    """
    level_bits = [tile.log_columns + first + level for level in range(levels)]
    other_bits = [bit for bit in (*tile.column_bits, *tile.row_bits) if bit not in level_bits]
    spare_count = tile.log_elements - levels
    registers = level_bits + (other_bits[-spare_count:] if spare_count else [])
    thread_bits = [bit for bit in other_bits if bit not in registers]
    order = [bit for bit in preferred if bit in thread_bits]
    order += [bit for bit in thread_bits if bit not in order]
    threads: list[int] = []
    while order and len(threads) < tile.log_banks:
        used_banks = {bit % tile.log_banks for bit in threads}
        conflict_free = [bit for bit in order if bit % tile.log_banks not in used_banks]
        threads.append((conflict_free or order)[0])
        order.remove(threads[-1])
    return Step(first, levels, tuple(registers), (*threads, *order))


def padded(index: int, log_banks: int = 3) -> int:
    """Return the index in shared memory of an index in the tile, padded against bank conflicts.

    The padded index is index + floor(index / 8) + floor(index / 64) + ... with eight banks. So two
    index bits select the same bank only if their distance is a multiple of three. The padded index
    of a sum of indices without common bits is the sum of their padded indices.
    """
    return sum(index >> shift for shift in range(0, index.bit_length(), log_banks))


def padded_value(index: Value, tile: Tile) -> Value:
    """Compute `padded` of a u32 index in a tile at run time."""
    padded_index = index
    for shift in range(tile.log_banks, tile.log_size, tile.log_banks):
        padded_index = padded_index + (index >> shift)
    return padded_index


def gathered(k: Builder, number: Value, bits: Sequence[int], weigh: Callable[[int], int]) -> Value:
    """Sum ``weigh(bits[i])`` over the set bits i of a u32 at run time.

    Bits of weight 0 are skipped. Consecutive bits whose weights double take one shift and mask.
    """
    weights = [weigh(bit) for bit in bits]
    total = k.constant(0, number.type)
    start = 0
    while start < len(weights):
        stop = start + 1
        while stop < len(weights) and weights[stop] == 2 * weights[stop - 1]:
            stop += 1
        if weights[start]:
            field_bits = (number >> start) & ((1 << (stop - start)) - 1)
            total = total + field_bits * weights[start]
        start = stop
    return total


def spread(number: int, bits: Sequence[int], weigh: Callable[[int], int]) -> int:
    """Sum ``weigh(bits[i])`` over the set bits i of a compile-time number."""
    return sum(weigh(bit) for i, bit in enumerate(bits) if number >> i & 1)


class RolledStep:
    """A step whose first level is only known at run time.

    local: the instance's number, whose lowest bits are the column and whose others are those of the
        row without the bits of the levels.
    first: the first level.
    """

    def __init__(self, tile: Tile, k: Builder, local: Value, first: Value) -> None:
        self._tile = tile
        self.first = first
        rows = local >> tile.log_columns
        self._position = rows & ((k.constant(1, local.type) << first) - 1)
        row_above = (rows >> first) << (first + tile.log_elements)
        column = local & ((1 << tile.log_columns) - 1)
        index = ((row_above + self._position) << tile.log_columns) + column
        self._padded_index = padded_value(index, tile)
        self._digit = k.constant(1, local.type) << (first + tile.log_columns)

    def place(self, number: int) -> Value:
        """Return the index in shared memory of element `number` of the instance."""
        return self._padded_index + padded_value(self._digit * number, self._tile)

    def power(self, digit: int) -> Value:
        """Return the exponent of the twiddle of output `digit`, in powers of the pass's root."""
        exponent_shift = self._tile.log_rows - self._tile.log_elements - self.first
        return (self._position << exponent_shift) * digit
