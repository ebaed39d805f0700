"""The common parts of the decoders with which kernels unpack blocks of quantised weights.

The files of `types` have the decoder of each type. A block is `groups` groups, and a group has
`positions` positions. A group consists of runs; each run has one element at each position. Group
and position determine where the integers, scales and minima of these elements are. Adjacent
instances read adjacent positions, which are contiguous in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from quod.frozen import frozen, replace
from quod.kernel import Builder, Value, f32, i32, u16, u32
from quod.tensor.quantised.kinds import BlockKind

Index = Value | int

MAGIC = 0x4B000000
"""The bits of 2^23: an f32 with this exponent holds a 23-bit integer in its mantissa."""


@frozen(eq=False)
class DecodePosition:
    """Adjacent positions that an instance decodes at a time.

    block: The index of the block in the matrix.
    group: The index of the group in the block.
    position: The first position in the group.
    sixteenth: position // 16; an int if it is the same for all instances.
    width: The number of positions.
    magic: `MAGIC`, possibly as a value that the assembler cannot fold.
    """

    block: Value
    group: Index
    position: Value
    sixteenth: Index
    width: int
    magic: Index = MAGIC


@frozen(eq=False)
class Run:
    """Adjacent elements of a block, from element `start`: scale * integer - minimum.

    integers: Whole numbers as f32, or levels.
    minimum: The subtrahend, or None.
    shifts: integers[i] is still to be divided by 2^shifts[i % len(shifts)]; empty for no shift.
    """

    start: Value
    integers: list[Value]
    scale: Value
    minimum: Value | None
    shifts: tuple[int, ...] = ()

    def shift(self, number: int) -> int:
        """Return the bits by which integer number `number` is still shifted up."""
        return self.shifts[number % len(self.shifts)] if self.shifts else 0

    def values(self) -> list[Value]:
        """Return the elements; products are exact (see `reference`), so fusing changes nothing."""
        products = [scale * number for scale, number in self._scaled()]
        if self.minimum is None:
            return products
        return [product - self.minimum for product in products]

    def fused(self, k: Builder) -> list[Value]:
        """Return the elements, one fused instruction each."""
        if self.minimum is None:
            return self.values()
        less = -self.minimum
        return [k.fma(scale, number, less) for scale, number in self._scaled()]

    def _scaled(self) -> list[tuple[Value, Value]]:
        """Return pairs of scale and integer, with the integers' shifts moved to the scales."""
        scales = {0: self.scale}
        for shift in self.shifts:
            if shift:
                scales[shift] = self.scale * 2.0**-shift
        return [(scales[self.shift(index)], number) for index, number in enumerate(self.integers)]


@frozen
class BlockDecoder:
    """A block format: its division into groups, and the function that decodes positions.

    Elements of a group are its runs one after the other, of `positions` each.

    kind: The elements and bytes of a block.
    groups: Groups of a block.
    positions: Positions of a group.
    width: The maximum number of positions decoded at a time; a smaller number must divide it.
    decode: Returns the runs, given the builder, the blocks as u8, the `DecodePosition`, and a table
        of `levels` if there are any.
    levels: The f32 values that the integers index, or empty if the integers are the values.
    """

    kind: BlockKind
    groups: int
    positions: int
    width: int
    decode: Callable[..., list[Run]]
    levels: tuple[float, ...] = ()

    def with_table(self, k: Builder) -> BlockDecoder:
        """Return the decoder with its table of levels, at the start of a kernel."""
        if not self.levels:
            return self
        table = k.table(f32, self.levels)
        return replace(self, decode=lambda *arguments: self.decode(*arguments, table), levels=())

    @property
    def elements(self) -> int:
        """Elements of a block."""
        return self.kind.elements

    @property
    def runs(self) -> int:
        """Elements at a position, one of each run."""
        return self.elements // (self.groups * self.positions)

    @property
    def bytes(self) -> int:
        """Bytes of a block."""
        return self.kind.bytes


def each_byte(byte: int) -> int:
    """Return a word of four equal bytes."""
    return byte * 0x01010101


class Packed:
    """Adjacent bytes of blocks, loaded as words of one, two or four bytes."""

    def __init__(self, k: Builder, data: Value, at: Value, count: int, *, aligned: int) -> None:
        """Load `count` bytes from `at`, a multiple of `aligned` or of a smaller `count`."""
        self._bytes = 1 if count == 1 else 4 if aligned > 2 and count % 4 == 0 else 2
        if self._bytes == 1:
            self._words = [data[at]]
        elif self._bytes == 2:
            halves = data.cast(u16)
            self._words = [halves[(at >> 1) + index] for index in range(count // 2)]
        else:
            # Visibly aligned, so that each access is one load.
            words = min(count, aligned) // 4
            bits = (4 * words).bit_length() - 1
            wide_pointer = k.pointer_add(data.cast(u32), at >> bits << (bits - 2))
            self._words = [
                word
                for index in range(0, count, 4 * words)
                for word in k.load(wide_pointer, index // 4, words)
            ]
        self._k = k

    def words(self) -> list[Value]:
        """Return words of four bytes, joining halves if needed."""
        if self._bytes == 4:
            return self._words
        pairs = zip(self._words[::2], self._words[1::2], strict=True)
        return [low | high << 16 for low, high in pairs]

    def joined(self, shift: int, tops: Packed, top: Index, bits: int) -> Packed:
        """Join 4 lower bits of each byte, from bit `shift` on, with `bits` upper bits from `tops`.

        top: The first bit taken from each byte of `tops`.
        """
        combined = copy(self)
        fills_words = len(self._words) * self._bytes % 4 == 0
        low, high = ((each.words() if fills_words else each._words) for each in (self, tops))
        combined._bytes = 4 if fills_words else self._bytes
        combined._words = [
            (a >> shift) & each_byte(15) | ((b >> top) & each_byte((1 << bits) - 1)) << 4
            for a, b in zip(low, high, strict=True)
        ]
        return combined

    def floats(
        self, magic: Index, shift: int, bits: int, *, flip: int = 0, less: int = 0
    ) -> tuple[list[Value], tuple[int, ...]]:
        """Return `bits` bits of each byte, from bit `shift` on, XORed with `flip`, as f32 minus
        `less`.

        Also returns the bits by which consecutive numbers are still shifted up, as `Run.shifts`. If
        a word has several bytes, no byte is shifted down: as mantissa bits of 2^23 a byte is its
        value times a power of two, and 2^23 is subtracted exactly. So each instruction has a single
        constant, inline; otherwise the assembler would reload constants.
        """
        if self._bytes == 1:
            integers = self.bits(shift, (1 << bits) - 1)
            return as_floats([number ^ flip for number in integers] if flip else integers, less), ()
        k, floats = self._k, []
        for word in self._words:
            flipped = word ^ each_byte(flip << shift) if flip else word
            upper_half = flipped >> 16
            for byte in range(self._bytes):
                bit = shift + 8 * (byte & 1)
                mantissa = (flipped if byte < 2 else upper_half) & ((1 << bits) - 1) << bit
                subtrahend = k.constant(2.0**23 + less * 2.0**bit, f32)
                floats.append(k.bitcast(mantissa | magic, f32) - subtrahend)
        return floats, (shift, shift + 8)

    def bits(self, shift: Index, mask: int) -> list[Value]:
        """Return the bits of each byte from `shift` on that the mask selects."""
        values = []
        for word in self._words:
            for byte in range(self._bytes):
                values.append((word >> (shift + 8 * byte)) & mask)
        return values


def as_floats(integers: list[Value], offset: int = 0) -> list[Value]:
    """Convert integers below 2^24 to f32, minus an offset."""
    signed = [number.cast(i32) for number in integers]
    return [(number - offset if offset else number).cast(f32) for number in signed]


def joined_bits(low: list[Value], high: list[Value]) -> list[Value]:
    """Join 4 lower bits of each number with the bits above them."""
    return [a | b << 4 for a, b in zip(low, high)]
