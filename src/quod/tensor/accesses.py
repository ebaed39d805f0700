"""How kernels read and write elements: some together, floats of 16 bits two in a word."""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, bf16, f16, u32
from quod.kernel.types import HALVES, Type

Values = tuple[Value, ...]


class Accesses:
    """Accesses of `vector` elements of a type each."""

    def __init__(self, k: Builder, element: Type, vector: int) -> None:
        self._k = k
        self.element = element
        self._vector = vector
        self._paired = element in HALVES and vector > 1
        self.words = vector // 2 if self._paired else vector
        """What an access has in memory: elements, or words."""
        self.held = u32 if self._paired else element
        """The type of these."""

    def of(self, pointer: Value, first: Value | None = None) -> Value:
        """What `load` and `store` take for a pointer, from access `first` (u64) on."""
        pointer = pointer.cast(u32) if self._paired else pointer
        return pointer if first is None else self._k.pointer_add(pointer, first * self.words)

    def load(self, pointer: Value, at: Value) -> Values:
        """The elements of one access; of floats as f32."""
        found = self._k.load(pointer, at * self.words, self.words)
        if not self._paired:
            return found
        unpack = self._k.unpack_f16 if self.element is f16 else self._k.unpack_bf16
        return tuple(value for word in found for value in unpack(word))

    def store(self, pointer: Value, at: Value, values: Sequence[Value]) -> None:
        """Stores the elements of one access."""
        k = self._k
        if self._paired:
            pack = k.pack_bf16 if self.element is bf16 else k.pack_f16
            values = [pack(*values[i : i + 2]) for i in range(0, self._vector, 2)]
        k.store(pointer, at * self.words, *values)
