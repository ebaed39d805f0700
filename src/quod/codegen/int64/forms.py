"""The two forms of a 64-bit integer, and its representation in carries, calls and memory."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import KernelError
from quod.kernel.builder.builder import Builder, tracer_of
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value

HALF = 32
"""Bits of one half."""


class Wide:
    """A u64 or i64: its halves (u32), or one value of its type, or both.

    Conversions between the forms are not cached, as they may belong to an inner region.
    """

    __slots__ = ("halves", "native", "type")

    def __init__(
        self, type_: Type, halves: tuple[Value, Value] | None = None, native: Value | None = None
    ) -> None:
        self.type = type_
        self.halves = halves
        self.native = native


Number = Value | Wide


class WideForms:
    """Conversions of numbers that may be wide: to parts, to words and between the two forms.

    With `native`, 64-bit values may be recorded. KernelError for f64, which WGSL lacks.
    """

    def __init__(self, k: Builder, *, native: bool) -> None:
        self.k = k
        self.native = native

    def no_double(self) -> KernelError:
        """Return the error for a kernel that needs f64, with the line that does."""
        location = tracer_of(self.k).location
        where = "" if location is None else f"{location}: "
        return KernelError(
            f"{where}WGSL has no 64-bit floating point numbers; take f32, or a whole number"
        )

    # --- parts: the form in which a value is carried and passed

    def part_types(self, type_: Type) -> list[Type]:
        """Return the types of the parts of a value of this type."""
        if type_ is types.f64:
            raise self.no_double()
        if type_ is types.cc:
            return [types.bool_]
        if type_ in (types.u64, types.i64):
            return [type_] if self.native else [types.u32, types.u32]
        return [type_]

    def parts(self, number: object) -> list[Value]:
        """Split a number into the parts in which it is carried and passed."""
        if isinstance(number, Wide):
            return [self.whole(number)] if self.native else list(self.halves(number))
        assert isinstance(number, Value)
        return [number]

    def joined(self, type_: Type, parts: Sequence[Value]) -> Number:
        """Assemble a number from its parts."""
        if type_ not in (types.u64, types.i64):
            return parts[0]
        if self.native:
            return Wide(type_, native=parts[0])
        return Wide(type_, (parts[0], parts[1]))

    # --- words: the form of a value in memory

    def from_words(self, type_: Type, words: Sequence[Value]) -> Number:
        """Assemble a number from its 32-bit words, low word first."""
        if type_ in (types.u64, types.i64):
            return Wide(type_, (words[0], words[1]))
        if type_ is types.bool_:
            return words[0] != 0
        if type_ is types.f64:
            raise self.no_double()
        return words[0] if type_ is types.u32 else self.k.bitcast(words[0], type_)

    def to_words(self, number: object) -> list[Value]:
        """Split a number into 32-bit words, low word first."""
        if isinstance(number, Wide):
            return list(self.halves(number))
        assert isinstance(number, Value)
        if number.type is types.bool_:
            return [number.cast(types.u32)]
        return [number if number.type is types.u32 else self.k.bitcast(number, types.u32)]

    # --- the two forms

    def halves(self, number: Wide) -> tuple[Value, Value]:
        """Return the low and the high 32 bits of a wide number."""
        if number.halves is None:
            number_bits = number.native
            assert number_bits is not None
            if number_bits.type is types.i64:
                number_bits = self.k.bitcast(number_bits, types.u64)
            low = self.k.cast(number_bits, types.u32)
            high = self.k.cast(
                self.k.emit("shr", (number_bits, self.whole_constant(HALF))), types.u32
            )
            return low, high
        return number.halves

    def whole(self, number: object) -> Value:
        """Return the number as one value; wide numbers need `native`."""
        if not isinstance(number, Wide):
            assert isinstance(number, Value)
            return number
        if number.native is None:
            assert number.halves is not None
            k, (low, high) = self.k, number.halves
            wide = k.cast(low, types.u64)
            if high.constant != 0:
                wide = wide | k.emit("shl", (k.cast(high, types.u64), self.whole_constant(HALF)))
            return wide if number.type is types.u64 else k.bitcast(wide, types.i64)
        return number.native

    def low(self, number: object) -> Value:
        """Return the low 32 bits of a number."""
        if isinstance(number, Wide):
            return self.halves(number)[0]
        assert isinstance(number, Value)
        return number

    # --- constants

    def whole_constant(self, value: int) -> Value:
        """Return a 64-bit constant as one value; needs `native`."""
        return self.k.constant(value, types.u64)

    def word(self, value: int) -> Value:
        """Return a 32-bit constant."""
        return self.k.constant(value, types.u32)

    def constant(self, number: int, type_: Type) -> Wide:
        """Return a wide constant."""
        bits = number & (1 << 64) - 1
        return Wide(type_, (self.word(bits & 0xFFFFFFFF), self.word(bits >> HALF)))
