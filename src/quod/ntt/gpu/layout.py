"""Where the elements of a tile are: which instance holds which, step by step.

A workgroup of a pass transforms a *tile*, some columns of 2**log_rows rows each. A bit of the index
of an element in its tile is a bit of its column (the lowest ones) or of its row. In a *step* some
of the bits tell the elements of one instance apart, among them the bits of the levels that the step
does, and the others tell the instances apart. Between steps the elements change hands through
shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.ir.value import Value


@frozen
class Tile:
    """The sizes of a tile: 2**log_rows rows in 2**log_columns columns, 2**log_elements of them
    an instance.

    Shared memory serves 2**log_banks instances at a time, from banks of their own: eight of 16
    bytes each, or more of shorter elements.
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
        """Instances of the workgroup."""
        return 1 << (self.log_size - self.log_elements)

    @property
    def column_bits(self) -> range:
        return range(self.log_columns)

    @property
    def row_bits(self) -> range:
        return range(self.log_columns, self.log_size)


@frozen
class Step:
    """Levels `first` to `first + levels` of a pass, in registers.

    `registers` are the bits of the index that tell the elements of one instance apart, those of the
    levels first, `threads` the bits that tell the instances apart, both from the lowest bit of the
    element's or the instance's number.
    """

    first: int
    levels: int
    registers: tuple[int, ...]
    threads: tuple[int, ...]


def arrange(tile: Tile, first: int, levels: int, preferred: Sequence[int]) -> Step:
    """The step of some levels whose neighbouring instances differ in the `preferred` bits.

    The lowest bits of the instance's number go to different banks of shared memory.
    """
    own = [tile.log_columns + first + level for level in range(levels)]
    others = [bit for bit in (*tile.column_bits, *tile.row_bits) if bit not in own]
    spare = tile.log_elements - levels
    registers = own + (others[-spare:] if spare else [])
    rest = [bit for bit in others if bit not in registers]
    order = [bit for bit in preferred if bit in rest]
    order += [bit for bit in rest if bit not in order]
    threads: list[int] = []
    while order and len(threads) < tile.log_banks:
        taken = {bit % tile.log_banks for bit in threads}
        free = [bit for bit in order if bit % tile.log_banks not in taken]
        threads.append((free or order)[0])
        order.remove(threads[-1])
    return Step(first, levels, tuple(registers), (*threads, *order))


def padded(index: int, log_banks: int = 3) -> int:
    """The place in shared memory of an index in the tile.

    Of eight banks, a place is left free behind every 8, another behind every 64, ...: two bits of
    the index lead to the same bank only if they are a multiple of three apart. Of numbers without a
    bit in common, the sum's place is the sum of the places.
    """
    return sum(index >> shift for shift in range(0, index.bit_length(), log_banks))


def padded_value(index: Value, tile: Tile) -> Value:
    """`padded` of an index in a tile, a u32 that is known when the kernel runs."""
    place = index
    for shift in range(tile.log_banks, tile.log_size, tile.log_banks):
        place = place + (index >> shift)
    return place


def gathered(k: Builder, number: Value, bits: Sequence[int], weigh: Callable[[int], int]) -> Value:
    """The sum over bits i of a u32 of ``weigh(bits[i])`` times that bit.

    A weight of 0 leaves a bit out. Runs of bits whose weights double are moved together.
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
    """The same for a number that is known: the sum of the weights of the bits set in it."""
    return sum(weigh(bit) for i, bit in enumerate(bits) if number >> i & 1)


class RolledStep:
    """A step whose first level `first` is known when the kernel runs.

    Instances are told apart by the columns first, then by the rows; the elements of an instance by
    the bits of the levels.
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
        """The place in shared memory of an element."""
        return self._place + padded_value(self._digit * number, self._tile)

    def power(self, digit: int) -> Value:
        """The exponent of the twiddle of the output with that digit, of the pass's own root."""
        unit = self._tile.log_rows - self._tile.log_elements - self.first
        return (self._position << unit) * digit
