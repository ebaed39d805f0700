"""Vectorised reads and writes of elements; several small elements share a word.

An access reads or writes `vector` elements. Two 16-bit or four 8-bit elements are packed in a u32.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, bf16, f16, i8, i32, u32
from quod.kernel.ir.types import FLOATS8, HALVES, Type

Values = tuple[Value, ...]


class Accesses:
    """Accesses of `vector` consecutive elements of one type."""

    def __init__(self, k: Builder, element: Type, vector: int) -> None:
        self._k = k
        self.element = element
        self._vector = vector
        self._paired = element in HALVES and vector > 1
        # Two bytes do not fill a word, so they are not packed.
        self._packed = self._paired or (element in (i8, *FLOATS8) and vector % 4 == 0)
        self.words = vector * element.bytes // 4 if self._packed else vector
        """Loads or stores of an access: words if elements are packed, elements if not."""
        self.held = u32 if self._packed else element
        """The type that memory is accessed as: u32 if elements are packed."""

    def of(self, pointer: Value, first: Value | None = None) -> Value:
        """Return the pointer for `load` and `store`, moved to access number `first` (u64)."""
        pointer = pointer.cast(u32) if self._packed else pointer
        return pointer if first is None else self._k.pointer_add(pointer, first * self.words)

    def load(self, pointer: Value, at: Value) -> Values:
        """Load the elements of access `at`: floats as f32, i8 as i32."""
        loaded = self._k.load(pointer, at * self.words, self.words)
        if not self._packed:
            return loaded
        if self.element in FLOATS8:
            return tuple(
                value for word in loaded for value in self._k.unpack_float8(self.element, word)
            )
        if not self._paired:
            return tuple(
                (word.cast(i32) << left_shift) >> 24
                for word in loaded
                for left_shift in (24, 16, 8, 0)
            )
        unpack = self._k.unpack_f16 if self.element is f16 else self._k.unpack_bf16
        return tuple(value for word in loaded for value in unpack(word))

    def store(self, pointer: Value, at: Value, values: Sequence[Value]) -> None:
        """Store the `vector` elements of access `at`."""
        k = self._k
        if self._packed and self.element in FLOATS8:
            values = [
                k.pack_float8(self.element, *values[i : i + 4]) for i in range(0, self._vector, 4)
            ]
        if self._paired:
            pack = k.pack_bf16 if self.element is bf16 else k.pack_f16
            values = [pack(*values[i : i + 2]) for i in range(0, self._vector, 2)]
        k.store(pointer, at * self.words, *values)
