"""Exchange of elements between instances through workgroup memory.

Limbs that fill their words are stored directly, up to 16 bytes at a time. Lazy limbs take up to
three times the memory of their integer, so its bits are packed into 32-bit words. Each word has a
separate plane, so that neighbouring instances use different banks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from quod.field.element import Element
from quod.field.prime import PrimeField
from quod.kernel import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.gpu.layout import Tile, padded
from quod.ntt.rows import RowForm

_CHUNK_BYTES = 16
_WORD_BITS = 32


class Exchange(Protocol):
    """Storage for the elements of a tile; a place is an index of `layout.padded`."""

    @property
    def most(self) -> int | None:
        """Exclusive bound of the integers of stored elements; None if only limbs are bounded."""

    def store(self, place: Value, element: Element) -> None: ...

    def load(self, place: Value, form: RowForm) -> Element:
        """Load an element whose form was `form` when it was stored."""


def is_packed(f: PrimeField) -> bool:
    """Return whether limbs take more memory than the integer in memory."""
    return f.limb_type.bytes * f.limb_count > f.modulus.bytes


def exchange(k: Builder, f: PrimeField, tile: Tile) -> Exchange:
    """Declare workgroup memory for the elements of a tile."""
    return Packed(k, f, tile) if is_packed(f) else Limbs(k, f, tile)


def places(tile: Tile) -> int:
    """Return the number of places, with padding, of a tile."""
    return padded((1 << tile.log_size) - 1, tile.log_banks) + 1


class Limbs:
    """An exchange that stores limbs unchanged."""

    most = None

    def __init__(self, k: Builder, f: PrimeField, tile: Tile) -> None:
        self._k, self._f = k, f
        # The widest access of at most 16 bytes that divides the limbs evenly.
        self._chunk = math.gcd(_CHUNK_BYTES // f.limb_type.bytes, f.limb_count)
        self._plane = places(tile) * self._chunk
        self._shared = k.shared(f.limb_type, self._plane * (f.limb_count // self._chunk))

    def store(self, place: Value, element: Element) -> None:
        place = place * self._chunk
        for start in range(0, self._f.limb_count, self._chunk):
            limbs = element.limbs[start : start + self._chunk]
            self._k.store(self._shared, place + self._plane * (start // self._chunk), *limbs)

    def load(self, place: Value, form: RowForm) -> Element:
        place = place * self._chunk
        limbs: list[Value] = []
        for start in range(0, self._f.limb_count, self._chunk):
            at = place + self._plane * (start // self._chunk)
            limbs += self._k.load(self._shared, at, self._chunk)
        return Element(self._f, tuple(limbs), form.bound, form.maxima, form.exponent)


class Packed:
    """An exchange that packs the integer's bits into the words of an element in memory."""

    def __init__(self, k: Builder, f: PrimeField, tile: Tile) -> None:
        self._k, self._f = k, f
        self._words = f.modulus.words
        self._plane = places(tile)
        self._shared = k.shared(types.u32, self._plane * self._words)

    @property
    def most(self) -> int | None:
        return 1 << (_WORD_BITS * self._words)

    def store(self, place: Value, element: Element) -> None:
        limbs = [limb.cast(types.u32) for limb in self._f.normalise(element).limbs]
        for word in range(self._words):
            parts = []
            for j, limb in enumerate(limbs):
                offset = self._f.limb_bits * j - _WORD_BITS * word
                if -self._f.limb_bits < offset < _WORD_BITS:
                    parts.append(limb << offset if offset >= 0 else limb >> -offset)
            self._k.store(self._shared, place + self._plane * word, _union(parts))

    def load(self, place: Value, form: RowForm) -> Element:
        words = [self._shared[place + self._plane * word] for word in range(self._words)]
        bits = self._f.limb_bits
        limbs = []
        for j in range(self._f.limb_count):
            parts = []
            for index, word in enumerate(words):
                offset = _WORD_BITS * index - bits * j
                if -_WORD_BITS < offset < bits:
                    parts.append(word << offset if offset >= 0 else word >> -offset)
            limb = _union(parts) if parts else self._k.constant(0, types.u32)
            # The highest limb takes all remaining bits.
            is_highest = bits * j + bits >= _WORD_BITS * self._words
            limbs.append((limb if is_highest else limb & ((1 << bits) - 1)).cast(self._f.limb_type))
        # Stored elements were normalised.
        maxima = _normal_maxima(self._f, form.bound)
        return Element(self._f, tuple(limbs), form.bound, maxima, form.exponent)


def _normal_maxima(f: PrimeField, bound: int) -> tuple[int, ...]:
    """Return the largest limbs of a normalised integer below `bound`."""
    mask = (1 << f.limb_bits) - 1
    return tuple(
        min(mask, (bound - 1) >> (f.limb_bits * j)) for j in range(f.limb_count)
    )  # fmt: skip


def _union(parts: Sequence[Value]) -> Value:
    combined = parts[0]
    for part in parts[1:]:
        combined = combined | part
    return combined
