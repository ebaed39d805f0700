"""Arithmetic, comparisons and shifts of numbers that may be wide (64 bits)."""

from __future__ import annotations

from quod.codegen.int64.forms import HALF, Number, Wide, WideForms
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value


class WideArithmetic(WideForms):
    """The arithmetic of wide numbers, including full products of words."""

    # --- products of words

    def high_word(self, a: Value, b: Value) -> Value:
        """Return the upper half of the product of two words."""
        k = self.k
        if a.constant is not None and b.constant is not None:
            return k.emit("mul_hi", (a, b))
        if self.native:
            product = k.cast(a, types.u64) * k.cast(b, types.u64)
            return k.cast(k.emit("shr", (product, self.whole_constant(HALF))), types.u32)
        high: Value = k.call("multiply_high", _multiply_high, a, b)
        return high

    def multiply_words(self, a: Number, b: Number) -> Wide:
        """Return the product of two words."""
        k = self.k
        assert isinstance(a, Value)
        assert isinstance(b, Value)
        if self.native:
            return Wide(types.u64, native=k.cast(a, types.u64) * k.cast(b, types.u64))
        return Wide(types.u64, (a * b, self.high_word(a, b)))

    # --- sums, with a carry that is a bool

    def add_with_carry(
        self, a: Number, b: Number, carry: Value | None, subtract: bool
    ) -> tuple[Number, Value]:
        """Return a + b + carry or a - b - borrow, and the carry or borrow out."""
        if isinstance(a, Wide) and isinstance(b, Wide):
            if not self.native:
                (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
                low, low_carry = self._add_step(a0, b0, carry, subtract)
                high, carry_out = self._add_step(a1, b1, low_carry, subtract)
                return Wide(a.type, (low, high)), carry_out
            total, carry_out = self._add_step(self.whole(a), self.whole(b), carry, subtract)
            return Wide(a.type, native=total), carry_out
        assert isinstance(a, Value)
        assert isinstance(b, Value)
        return self._add_step(a, b, carry, subtract)

    def _add_step(
        self, a: Value, b: Value, carry: Value | None, subtract: bool
    ) -> tuple[Value, Value]:
        """Return a + b + carry or a - b - borrow of single values, and the carry or borrow out."""
        k = self.k

        def add_once(x: Value, y: Value) -> tuple[Value, Value]:
            if y.constant == 0:
                return x, k.constant(False, types.bool_)
            total = x - y if subtract else x + y
            return total, (x < total) if subtract else (total < x)

        total, carry_out = add_once(a, b)
        if carry is None or (carry.constant is not None and not carry.constant):
            return total, carry_out
        total, second_carry = add_once(total, k.cast(carry, a.type))
        return total, carry_out | second_carry

    def add(self, a: Wide, b: Wide) -> Wide:
        total, _ = self.add_with_carry(a, b, None, False)
        assert isinstance(total, Wide)
        return total

    def subtract(self, a: Wide, b: Wide) -> Wide:
        total, _ = self.add_with_carry(a, b, None, True)
        assert isinstance(total, Wide)
        return total

    def negate(self, a: Wide) -> Wide:
        return self.subtract(self.constant(0, a.type), a)

    # --- products

    def multiply(self, a: Wide, b: Wide) -> Wide:
        """Return the low 64 bits of the product."""
        if self.native:
            return Wide(a.type, native=self.whole(a) * self.whole(b))
        (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
        return Wide(a.type, (a0 * b0, self.high_word(a0, b0) + a0 * b1 + a1 * b0))

    def multiply_high(self, a: Wide, b: Wide) -> Wide:
        """Return the high 64 bits of the product, unsigned."""
        (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
        unsigned = types.u64

        def wide(low: Value, high: Value | None = None) -> Wide:
            return Wide(unsigned, (low, self.word(0) if high is None else high))

        middle = self.add(self.multiply_words(a1, b0), wide(self.high_word(a0, b0)))
        low, high = self.halves(middle)
        cross = self.add(self.multiply_words(a0, b1), wide(low))
        top = self.add(self.multiply_words(a1, b1), wide(high))
        return self.add(top, wide(self.halves(cross)[1]))

    # --- comparison and choice

    def compare(self, name: str, a: Wide, b: Wide) -> Value:
        """Compare two numbers of one type: ``eq``, ``ne``, ``lt`` or ``le``."""
        k = self.k
        if self.native and (a.native is not None or b.native is not None):
            return k.emit(name, (self.whole(a), self.whole(b)))
        (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
        if name == "eq":
            return (a0 == b0) & (a1 == b1)
        if name == "ne":
            return (a0 != b0) | (a1 != b1)
        high_words: tuple[Value, Value] = (a1, b1)
        if a.type is types.i64:
            high_words = (k.bitcast(a1, types.i32), k.bitcast(b1, types.i32))
        low_result = k.emit(name, (a0, b0))
        return (high_words[0] < high_words[1]) | ((a1 == b1) & low_result)

    def select(self, condition: Value, a: object, b: object) -> Number:
        """Select one of two numbers of one type."""
        if isinstance(a, Wide) and isinstance(b, Wide):
            return self.select_wide(condition, a, b)
        assert isinstance(a, Value)
        assert isinstance(b, Value)
        return self.k.select(condition, a, b)

    def select_wide(self, condition: Value, a: Wide, b: Wide) -> Wide:
        """Select one of two wide numbers of one type."""
        k = self.k
        if self.native and (a.native is not None or b.native is not None):
            return Wide(a.type, native=k.select(condition, self.whole(a), self.whole(b)))
        pairs = zip(self.halves(a), self.halves(b), strict=True)
        low, high = (k.select(condition, x, y) for x, y in pairs)
        return Wide(a.type, (low, high))

    def extreme(self, name: str, a: Wide, b: Wide) -> Wide:
        return self.select_wide(self.compare("lt", a, b), *((a, b) if name == "min" else (b, a)))

    def is_negative(self, a: Wide) -> Value:
        """Test if the highest bit is set."""
        return (self.halves(a)[1] >> 31) != 0

    def absolute(self, a: Wide) -> Wide:
        return self.select_wide(self.is_negative(a), self.negate(a), a)

    # --- bits

    def bitwise(self, name: str, a: Wide, b: Wide) -> Wide:
        if self.native and None in (a.halves, b.halves):
            return Wide(a.type, native=self.k.emit(name, (self.whole(a), self.whole(b))))
        pairs = zip(self.halves(a), self.halves(b), strict=True)
        low, high = (self.k.emit(name, pair) for pair in pairs)
        return Wide(a.type, (low, high))

    def complement(self, a: Wide) -> Wide:
        low, high = self.halves(a)
        return Wide(a.type, (~low, ~high))

    def count(self, name: str, a: Wide) -> Wide:
        k = self.k
        low, high = self.halves(a)
        counts = {half: k.emit(name, (half,)) for half in (low, high)}
        if name == "popcount":
            total = counts[low] + counts[high]
        elif name == "clz":
            total = k.select(high == 0, counts[low] + HALF, counts[high])
        else:
            total = k.select(low == 0, counts[high] + HALF, counts[low])
        return Wide(a.type, (total, self.word(0)))

    # --- shifts

    def shift_left(self, a: Wide, amount: Wide) -> Wide:
        n = self._amount(amount)
        if n.constant is None:
            return self.shift_by_value("shl", a, n)
        count = int(n.constant)
        if self.native and a.halves is None and count != HALF:
            shifted = self.k.emit("shl", (self.whole(a), self._constant_like(a, count)))
            return Wide(a.type, native=shifted)
        low, high = self.halves(a)
        if count == 0:
            return a
        if count >= HALF:
            return Wide(a.type, (self.word(0), low << (count - HALF)))
        return Wide(a.type, (low << count, (high << count) | (low >> (HALF - count))))

    def shift_right(self, a: Wide, amount: Wide) -> Wide:
        n = self._amount(amount)
        if n.constant is None:
            return self.shift_by_value("shr", a, n)
        count = int(n.constant)
        if self.native and a.halves is None and count != HALF:
            shifted = self.k.emit("shr", (self.whole(a), self._constant_like(a, count)))
            return Wide(a.type, native=shifted)
        low, high = self.halves(a)
        if count == 0:
            return a
        top = self._shift_top(a.type, high, count % HALF) if count % HALF else high
        if count >= HALF:
            return Wide(a.type, (top, self._sign_fill(a.type, high)))
        return Wide(a.type, ((low >> count) | (high << (HALF - count)), top))

    def _amount(self, amount: Wide) -> Value:
        """Return the amount of a shift, modulo 64."""
        return self.low(amount) & 63

    def _constant_like(self, a: Wide, count: int) -> Value:
        return self.k.constant(count, a.type)

    def _shift_top(self, type_: Type, high: Value, count: int) -> Value:
        """Shift the upper half right, arithmetically for signed types."""
        k = self.k
        if type_ is types.u64:
            return high >> count
        return k.bitcast(k.bitcast(high, types.i32) >> count, types.u32)

    def _sign_fill(self, type_: Type, high: Value) -> Value:
        return self.word(0) if type_ is types.u64 else self._shift_top(type_, high, 31)

    def shift_by_value(self, name: str, a: Wide, n: Value) -> Wide:
        """Shift left or right (``shl``, ``shr``) by a word below 64."""
        k = self.k
        if self.native:
            amount = k.cast(n, a.type)
            return Wide(a.type, native=k.emit(name, (self.whole(a), amount)))
        low, high = self.halves(a)
        shift, is_far, is_zero = n & 31, n >= HALF, (n & 31) == 0
        complement = (HALF - shift) & 31
        if name == "shl":
            crossing_bits = k.select(is_zero, 0, low >> complement)
            shifted_half = low << shift
            shifted_far = (self.word(0), shifted_half)
            shifted_near = (shifted_half, (high << shift) | crossing_bits)
        else:
            crossing_bits = k.select(is_zero, 0, high << complement)
            if a.type is types.u64:
                shifted_half = high >> shift
            else:
                signed = k.bitcast(high, types.i32) >> k.bitcast(shift, types.i32)
                shifted_half = k.bitcast(signed, types.u32)
            shifted_far = (shifted_half, self._sign_fill(a.type, high))
            shifted_near = ((low >> shift) | crossing_bits, shifted_half)
        new_low, new_high = (
            k.select(is_far, x, y) for x, y in zip(shifted_far, shifted_near, strict=True)
        )
        return Wide(a.type, (new_low, new_high))


def _multiply_high(k: Builder, a: Value, b: Value) -> Value:
    """Return the high word of a product, from products of 16-bit halves."""
    a0, a1, b0, b1 = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    middle = a1 * b0 + ((a0 * b0) >> 16)
    cross = (middle & 0xFFFF) + a0 * b1
    return a1 * b1 + (middle >> 16) + (cross >> 16)
