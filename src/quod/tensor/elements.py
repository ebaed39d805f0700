"""Some elements of a tensor in one access: as they are, or of 16 bits two in a word."""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, bf16, f16, u32
from quod.kernel.types import HALVES, Type


class Elements:
    """Accesses of `vector` elements together, which are f32 in registers."""

    def __init__(self, k: Builder, element: Type, vector: int) -> None:
        self._k = k
        self._element, self._vector = element, vector
        self._paired = element in HALVES and vector > 1
        self.words = vector // 2 if self._paired else vector
        """What an access has in memory: elements, or words."""

    def of(self, pointer: Value) -> Value:
        """A pointer to elements as what `load` and `store` take."""
        return pointer.cast(u32) if self._paired else pointer

    def load(self, pointer: Value, at: Value) -> tuple[Value, ...]:
        """The elements of access `at`, as f32."""
        k = self._k
        found = k.load(pointer, at * self.words, self.words)
        if not self._paired:
            return found
        unpack = k.unpack_f16 if self._element is f16 else k.unpack_bf16
        return tuple(value for word in found for value in unpack(word))

    def store(self, pointer: Value, at: Value, values: Sequence[Value]) -> None:
        """Rounds values to the elements of access `at`."""
        k = self._k
        if self._paired:
            pack = k.pack_bf16 if self._element is bf16 else k.pack_f16
            values = [pack(*values[i : i + 2]) for i in range(0, self._vector, 2)]
        k.store(pointer, at * self.words, *values)
