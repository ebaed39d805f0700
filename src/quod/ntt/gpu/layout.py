"""Data layout of a tile: the elements that each instance holds, step by step.

A workgroup of a pass transforms a *tile*: several columns of 2**log_rows rows. The index of an
element in its tile has the bits of its column (lowest) and of its row. In a *step* some of these
bits, including those of the step's levels, number the elements of one instance; the other bits
number the instances. Between steps instances exchange elements through shared memory.
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
    log_banks: log2 of the instances that shared memory serves at a time, each from another bank:
        eight for accesses of 16 bytes, more for shorter elements.
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
        """Number of instances of the workgroup."""
        return 1 << (self.log_size - self.log_elements)

    @property
    def column_bits(self) -> range:
        return range(self.log_columns)

    @property
    def row_bits(self) -> range:
        return range(self.log_columns, self.log_size)


@frozen
class Step:
    """Levels `first` to `first + levels - 1` of a pass, in registers.

    registers: the index bits that number an instance's elements, lowest first; the bits of the
        levels come first.
    threads: the index bits that number the instances, lowest first.
    """

    first: int
    levels: int
    registers: tuple[int, ...]
    threads: tuple[int, ...]


def arrange(tile: Tile, first: int, levels: int, preferred: Sequence[int]) -> Step:
    """Return the step of some levels whose neighbouring instances differ in the `preferred` bits.

    The lowest bits of the instance's number are chosen to select different banks.
    """
    level_bits = [tile.log_columns + first + level for level in range(levels)]
    others = [bit for bit in (*tile.column_bits, *tile.row_bits) if bit not in level_bits]
    spare = tile.log_elements - levels
    registers = level_bits + (others[-spare:] if spare else [])
    thread_bits = [bit for bit in others if bit not in registers]
    order = [bit for bit in preferred if bit in thread_bits]
    order += [bit for bit in thread_bits if bit not in order]
    threads: list[int] = []
    while order and len(threads) < tile.log_banks:
        used_banks = {bit % tile.log_banks for bit in threads}
        free = [bit for bit in order if bit % tile.log_banks not in used_banks]
        threads.append((free or order)[0])
        order.remove(threads[-1])
    return Step(first, levels, tuple(registers), (*threads, *order))


def padded(index: int, log_banks: int = 3) -> int:
    """Return the place in shared memory of an index in the tile, padded against bank conflicts.

    With eight banks there is a gap after every 8 places, another after every 64, and so on: two
    index bits select the same bank only if their distance is a multiple of three. The place is
    additive over indices without common bits.
    """
    return sum(index >> shift for shift in range(0, index.bit_length(), log_banks))


def padded_value(index: Value, tile: Tile) -> Value:
    """Compute `padded` of a u32 index in a tile at run time."""
    place = index
    for shift in range(tile.log_banks, tile.log_size, tile.log_banks):
        place = place + (index >> shift)
    return place


def gathered(k: Builder, number: Value, bits: Sequence[int], weigh: Callable[[int], int]) -> Value:
    """Sum ``weigh(bits[i])`` over the set bits i of a u32 at run time.

    Bits of weight 0 are skipped. A run of bits with doubling weights takes one shift and mask.
    """
    weights = [weigh(bit) for bit in bits]
    total = k.constant(0, number.type)
    start = 0
    while start < len(weights):
        stop = start + 1
        while stop < len(weights) and weights[stop] == 2 * weights[stop - 1]:
            stop += 1
        if weights[start]:
            run = (number >> start) & ((1 << (stop - start)) - 1)
            total = total + run * weights[start]
        start = stop
    return total


def spread(number: int, bits: Sequence[int], weigh: Callable[[int], int]) -> int:
    """Sum ``weigh(bits[i])`` over the set bits i of a static number."""
    return sum(weigh(bit) for i, bit in enumerate(bits) if number >> i & 1)


class RolledStep:
    """A step whose first level is only known at run time.

    Instances are numbered by column, then by row; the bits of the levels number the elements of an
    instance.
    """

    def __init__(self, tile: Tile, k: Builder, local: Value, first: Value) -> None:
        self._tile = tile
        self.first = first
        rows = local >> tile.log_columns
        self._position = rows & ((k.constant(1, local.type) << first) - 1)
        above = (rows >> first) << (first + tile.log_elements)
        column = local & ((1 << tile.log_columns) - 1)
        index = ((above + self._position) << tile.log_columns) + column
        self._place = padded_value(index, tile)
        self._digit = k.constant(1, local.type) << (first + tile.log_columns)

    def place(self, number: int) -> Value:
        """Return the place in shared memory of the instance's element `number`."""
        return self._place + padded_value(self._digit * number, self._tile)

    def power(self, digit: int) -> Value:
        """Return the exponent, to the pass's root, of the twiddle of output `digit`."""
        unit = self._tile.log_rows - self._tile.log_elements - self.first
        return (self._position << unit) * digit
