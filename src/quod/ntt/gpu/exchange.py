"""Exchange of elements between instances through workgroup memory.

Limbs that fill their words are stored directly, up to 16 bytes at a time. Limbs with unused high
bits take up to three times the memory of their integer, so the integer is packed into 32-bit words.
Each word of an element is in a separate plane, so that neighbouring instances use different banks.
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
    """Storage for the elements of a tile, by the padded indices that `layout.padded` returns.

    A barrier must separate stores from loads by other instances.
    """

    @property
    def bound(self) -> int | None:
        """Exclusive bound of storable integers; None if limbs are stored unchanged."""

    def store(self, padded_index: Value, element: Element) -> None:
        """Store an element, whose bound is at most `bound`."""

    def load(self, padded_index: Value, form: RowForm) -> Element:
        """Load an element that had the form `form` when it was stored."""


def is_packed(f: PrimeField) -> bool:
    """Return whether limbs take more memory than the words of the integer."""
    return f.limb_type.bytes * f.limb_count > f.modulus.bytes


def exchange(k: Builder, f: PrimeField, tile: Tile) -> Exchange:
    """Declare workgroup memory for the elements of a tile."""
    return Packed(k, f, tile) if is_packed(f) else Limbs(k, f, tile)


def places(tile: Tile) -> int:
    """Return the number of padded indices of a tile, including unused ones."""
    return padded((1 << tile.log_size) - 1, tile.log_banks) + 1


class Limbs:
    """An exchange that stores limbs unchanged."""

    bound = None

    def __init__(self, k: Builder, f: PrimeField, tile: Tile) -> None:
        self._k, self._f = k, f
        # The widest access of at most 16 bytes that divides the limbs evenly.
        self._chunk_limbs = math.gcd(_CHUNK_BYTES // f.limb_type.bytes, f.limb_count)
        self._plane_words = places(tile) * self._chunk_limbs
        self._shared = k.shared(
            f.limb_type, self._plane_words * (f.limb_count // self._chunk_limbs)
        )

    def store(self, padded_index: Value, element: Element) -> None:
        offset = padded_index * self._chunk_limbs
        for start in range(0, self._f.limb_count, self._chunk_limbs):
            limbs = element.limbs[start : start + self._chunk_limbs]
            self._k.store(
                self._shared, offset + self._plane_words * (start // self._chunk_limbs), *limbs
            )

    def load(self, padded_index: Value, form: RowForm) -> Element:
        base_offset = padded_index * self._chunk_limbs
        limbs: list[Value] = []
        for start in range(0, self._f.limb_count, self._chunk_limbs):
            offset = base_offset + self._plane_words * (start // self._chunk_limbs)
            limbs += self._k.load(self._shared, offset, self._chunk_limbs)
        return Element(self._f, tuple(limbs), form.bound, form.maxima, form.exponent)


class Packed:
    """An exchange that normalises elements and packs each into ``modulus.words`` 32-bit words."""

    def __init__(self, k: Builder, f: PrimeField, tile: Tile) -> None:
        self._k, self._f = k, f
        self._words = f.modulus.words
        self._plane_words = places(tile)
        self._shared = k.shared(types.u32, self._plane_words * self._words)

    @property
    def bound(self) -> int | None:
        return 1 << (_WORD_BITS * self._words)

    def store(self, padded_index: Value, element: Element) -> None:
        limbs = [limb.cast(types.u32) for limb in self._f.normalise(element).limbs]
        for word in range(self._words):
            shifted_limbs = []
            for j, limb in enumerate(limbs):
                offset = self._f.limb_bits * j - _WORD_BITS * word
                if -self._f.limb_bits < offset < _WORD_BITS:
                    shifted_limbs.append(limb << offset if offset >= 0 else limb >> -offset)
            self._k.store(
                self._shared, padded_index + self._plane_words * word, _or_all(shifted_limbs)
            )

    def load(self, padded_index: Value, form: RowForm) -> Element:
        words = [
            self._shared[padded_index + self._plane_words * word] for word in range(self._words)
        ]
        bits = self._f.limb_bits
        limbs = []
        for j in range(self._f.limb_count):
            shifted_words = []
            for index, word in enumerate(words):
                offset = _WORD_BITS * index - bits * j
                if -_WORD_BITS < offset < bits:
                    shifted_words.append(word << offset if offset >= 0 else word >> -offset)
            limb = _or_all(shifted_words) if shifted_words else self._k.constant(0, types.u32)
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


def _or_all(parts: Sequence[Value]) -> Value:
    combined = parts[0]
    for part in parts[1:]:
        combined = combined | part
    return combined
