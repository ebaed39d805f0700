"""64-bit integers where a language may have none: pairs of words, or its own.

Where it has them, a number may be known both ways: halves that come from memory need no joining if
only halves are asked for again, as where field elements are unpacked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from quod.errors import KernelError
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.ir import Op
from quod.kernel.types import Type
from quod.kernel.value import Value

_MASK52_HIGH = (1 << 20) - 1
_HALF = 32


class Wide:
    """A u64 or i64: its halves (u32), or one value of its type, or both.

    What is made of the one for the other is not kept, as it may be in a region that ends.
    """

    __slots__ = ("halves", "native", "type")

    def __init__(
        self, type_: Type, halves: tuple[Value, Value] | None = None, native: Value | None = None
    ) -> None:
        self.type = type_
        self.halves = halves
        self.native = native


Number = Value | Wide


class WideArithmetic:
    """The ops of the table on numbers of which some are wide.

    With `native`, 64-bit values may be recorded. KernelError for what has no form without them.
    """

    def __init__(self, k: Builder, *, native: bool) -> None:
        self._k = k
        self.native = native

    def _no_double(self) -> KernelError:
        """The error of a kernel that needs f64, at the line that does."""
        where = "" if self._k.location is None else f"{self._k.location}: "
        return KernelError(
            f"{where}WGSL has no 64-bit floating point numbers; take f32, or a whole number"
        )

    # --- parts: how a value is carried and passed

    def part_types(self, type_: Type) -> list[Type]:
        """The types of the values that stand for one of this type."""
        if type_ is types.f64:
            raise self._no_double()
        if type_ is types.cc:
            return [types.bool_]
        if type_ in (types.u64, types.i64):
            return [type_] if self.native else [types.u32, types.u32]
        return [type_]

    def parts(self, number: object) -> list[Value]:
        """The values that stand for a number."""
        if isinstance(number, Wide):
            return [self.whole(number)] if self.native else list(self.halves(number))
        assert isinstance(number, Value)
        return [number]

    def joined(self, type_: Type, parts: Sequence[Value]) -> Number:
        """The number that parts stand for."""
        if type_ not in (types.u64, types.i64):
            return parts[0]
        if self.native:
            return Wide(type_, native=parts[0])
        return Wide(type_, (parts[0], parts[1]))

    # --- words: how a value lies in memory

    def from_words(self, type_: Type, words: Sequence[Value]) -> Number:
        """A number from its 32-bit words, the lower first."""
        if type_ in (types.u64, types.i64):
            return Wide(type_, (words[0], words[1]))
        if type_ is types.bool_:
            return words[0] != 0
        if type_ is types.f64:
            raise self._no_double()
        return words[0] if type_ is types.u32 else self._k.bitcast(words[0], type_)

    def to_words(self, number: object) -> list[Value]:
        """Its 32-bit words, the lower first."""
        if isinstance(number, Wide):
            return list(self.halves(number))
        assert isinstance(number, Value)
        if number.type is types.bool_:
            return [number.cast(types.u32)]
        return [number if number.type is types.u32 else self._k.bitcast(number, types.u32)]

    # --- the two forms

    def halves(self, number: Wide) -> tuple[Value, Value]:
        """The lower and the upper 32 bits."""
        if number.halves is None:
            whole = number.native
            assert whole is not None
            if whole.type is types.i64:
                whole = self._k.bitcast(whole, types.u64)
            low = self._k.cast(whole, types.u32)
            high = self._k.cast(self._k.emit("shr", (whole, self._number(_HALF))), types.u32)
            return low, high
        return number.halves

    def whole(self, number: object) -> Value:
        """The number as one value; only where that is possible."""
        if not isinstance(number, Wide):
            assert isinstance(number, Value)
            return number
        if number.native is None:
            assert number.halves is not None
            k, (low, high) = self._k, number.halves
            wide = k.cast(low, types.u64)
            if high.constant != 0:
                wide = wide | k.emit("shl", (k.cast(high, types.u64), self._number(_HALF)))
            return wide if number.type is types.u64 else k.bitcast(wide, types.i64)
        return number.native

    def low(self, number: object) -> Value:
        """The low 32 bits of a number."""
        if isinstance(number, Wide):
            return self.halves(number)[0]
        assert isinstance(number, Value)
        return number

    def _number(self, value: int) -> Value:
        return self._k.constant(value, types.u64)

    def _word(self, value: int) -> Value:
        return self._k.constant(value, types.u32)

    def constant(self, number: int, type_: Type) -> Wide:
        """A wide constant."""
        bits = number & (1 << 64) - 1
        return Wide(type_, (self._word(bits & 0xFFFFFFFF), self._word(bits >> _HALF)))

    # --- ops

    def compute(self, op: Op, operands: Sequence[object]) -> list[Number]:
        """The results of an op of the table that computes values from values."""
        given = [one if isinstance(one, (Value, Wide)) else _not_a_number(op) for one in operands]
        wide_result = any(result.type in (types.u64, types.i64) for result in op.results)
        for value in (*op.results, *op.operands):
            if value.type is types.f64:
                raise self._no_double()
        if op.name == "const":
            number, type_ = op.attributes["value"], op.results[0].type
            if wide_result:
                return [self.constant(number, type_)]
            return [self._k.constant(number, type_)]
        if op.name == "convert":
            return [self._convert(given[0], op.operands[0].type, op.attributes["type"])]
        if op.name == "bitcast":
            return [self._bitcast(given[0], op.attributes["type"])]
        if op.name in _CARRIES:
            return self._carry(op.name, given)
        if op.name == "mul_wide":
            return [self.multiply_words(given[0], given[1])]
        if op.name.startswith("madd52"):
            return [self._madd52(op.name, *given)]
        if not wide_result and not any(isinstance(one, Wide) for one in given):
            return self._narrow(op, [one for one in given if isinstance(one, Value)])
        return [self._wide_op(op, given)]

    def _narrow(self, op: Op, given: list[Value]) -> list[Number]:
        if op.name == "mul_hi":
            return [self.high_word(given[0], given[1])]
        return [*self._k.emit_many(op.name, given)]

    # --- products of words

    def high_word(self, a: Value, b: Value) -> Value:
        """The upper half of the product of two words."""
        k = self._k
        if a.constant is not None and b.constant is not None:
            return k.emit("mul_hi", (a, b))
        if self.native:
            product = k.cast(a, types.u64) * k.cast(b, types.u64)
            return k.cast(k.emit("shr", (product, self._number(_HALF))), types.u32)
        high: Value = k.call("multiply_high", _multiply_high, a, b)
        return high

    def multiply_words(self, a: Number, b: Number) -> Wide:
        """The product of two words."""
        k = self._k
        assert isinstance(a, Value)
        assert isinstance(b, Value)
        if self.native:
            return Wide(types.u64, native=k.cast(a, types.u64) * k.cast(b, types.u64))
        return Wide(types.u64, (a * b, self.high_word(a, b)))

    # --- carries: a carry is a bool

    def _carry(self, name: str, given: Sequence[Number]) -> list[Number]:
        operands = list(given)
        carry: Value | None = None
        if name.startswith(("addc", "subc", "madc")):
            last = operands.pop()
            assert isinstance(last, Value)
            carry = last
        if name.startswith("mad"):
            product = self._product_half(operands[0], operands[1], high="_hi" in name)
            operands = [product, operands[2]]
        a, b = operands
        subtract = name.startswith("sub")
        total, out = self._add_with_carry(a, b, carry, subtract)
        return [total, out] if name.endswith("_cc") else [total]

    def _product_half(self, a: Number, b: Number, *, high: bool) -> Number:
        if isinstance(a, Value) and isinstance(b, Value):
            return self.high_word(a, b) if high else a * b
        assert isinstance(a, Wide)
        assert isinstance(b, Wide)
        return self._multiply_high(a, b) if high else self.multiply(a, b)

    def _add_with_carry(
        self, a: Number, b: Number, carry: Value | None, subtract: bool
    ) -> tuple[Number, Value]:
        if isinstance(a, Wide) and isinstance(b, Wide):
            if not self.native:
                (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
                low, middle = self._step(a0, b0, carry, subtract)
                high, out = self._step(a1, b1, middle, subtract)
                return Wide(a.type, (low, high)), out
            total, out = self._step(self.whole(a), self.whole(b), carry, subtract)
            return Wide(a.type, native=total), out
        assert isinstance(a, Value)
        assert isinstance(b, Value)
        return self._step(a, b, carry, subtract)

    def _step(self, a: Value, b: Value, carry: Value | None, subtract: bool) -> tuple[Value, Value]:
        """a + b + carry or a - b - borrow of one value each, and what comes out."""
        k = self._k

        def one(x: Value, y: Value) -> tuple[Value, Value]:
            if y.constant == 0:
                return x, k.constant(False, types.bool_)
            total = x - y if subtract else x + y
            return total, (x < total) if subtract else (total < x)

        total, out = one(a, b)
        if carry is None or (carry.constant is not None and not carry.constant):
            return total, out
        total, again = one(total, k.cast(carry, a.type))
        return total, out | again

    # --- arithmetic of wide numbers

    def add(self, a: Wide, b: Wide) -> Wide:
        total, _ = self._add_with_carry(a, b, None, False)
        assert isinstance(total, Wide)
        return total

    def subtract(self, a: Wide, b: Wide) -> Wide:
        total, _ = self._add_with_carry(a, b, None, True)
        assert isinstance(total, Wide)
        return total

    def multiply(self, a: Wide, b: Wide) -> Wide:
        """The low 64 bits of the product."""
        if self.native:
            return Wide(a.type, native=self.whole(a) * self.whole(b))
        (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
        return Wide(a.type, (a0 * b0, self.high_word(a0, b0) + a0 * b1 + a1 * b0))

    def _multiply_high(self, a: Wide, b: Wide) -> Wide:
        """The high 64 bits of the product, unsigned."""
        (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
        unsigned = types.u64

        def wide(low: Value, high: Value | None = None) -> Wide:
            return Wide(unsigned, (low, self._word(0) if high is None else high))

        middle = self.add(self.multiply_words(a1, b0), wide(self.high_word(a0, b0)))
        low, high = self.halves(middle)
        cross = self.add(self.multiply_words(a0, b1), wide(low))
        top = self.add(self.multiply_words(a1, b1), wide(high))
        return self.add(top, wide(self.halves(cross)[1]))

    def compare(self, name: str, a: Wide, b: Wide) -> Value:
        """``eq``, ``ne``, ``lt`` or ``le`` of two numbers of one type."""
        k = self._k
        if self.native and (a.native is not None or b.native is not None):
            return k.emit(name, (self.whole(a), self.whole(b)))
        (a0, a1), (b0, b1) = self.halves(a), self.halves(b)
        if name == "eq":
            return (a0 == b0) & (a1 == b1)
        if name == "ne":
            return (a0 != b0) | (a1 != b1)
        above: tuple[Value, Value] = (a1, b1)
        if a.type is types.i64:
            above = (k.bitcast(a1, types.i32), k.bitcast(b1, types.i32))
        below = k.emit(name, (a0, b0))
        return (above[0] < above[1]) | ((a1 == b1) & below)

    def select(self, condition: Value, a: object, b: object) -> Number:
        """One of two numbers of one type."""
        if isinstance(a, Wide) and isinstance(b, Wide):
            return self._select(condition, a, b)
        assert isinstance(a, Value)
        assert isinstance(b, Value)
        return self._k.select(condition, a, b)

    def _select(self, condition: Value, a: Wide, b: Wide) -> Wide:
        k = self._k
        if self.native and (a.native is not None or b.native is not None):
            return Wide(a.type, native=k.select(condition, self.whole(a), self.whole(b)))
        pairs = zip(self.halves(a), self.halves(b), strict=True)
        low, high = (k.select(condition, x, y) for x, y in pairs)
        return Wide(a.type, (low, high))

    def _wide_op(self, op: Op, given: Sequence[Number]) -> Number:
        name = op.name
        if name == "select":
            condition, a, b = given
            assert isinstance(condition, Value)
            return self.select(condition, a, b)
        numbers = [one for one in given if isinstance(one, Wide)]
        rule = _RULES.get(name)
        if rule is None or len(numbers) != len(given):
            raise KernelError(f"{op.location}: WGSL has no {name} of 64-bit numbers")
        return rule(self, *numbers)

    def bitwise(self, name: str, a: Wide, b: Wide) -> Wide:
        if self.native and None in (a.halves, b.halves):
            return Wide(a.type, native=self._k.emit(name, (self.whole(a), self.whole(b))))
        pairs = zip(self.halves(a), self.halves(b), strict=True)
        low, high = (self._k.emit(name, pair) for pair in pairs)
        return Wide(a.type, (low, high))

    def complement(self, a: Wide) -> Wide:
        low, high = self.halves(a)
        return Wide(a.type, (~low, ~high))

    def negate(self, a: Wide) -> Wide:
        return self.subtract(self.constant(0, a.type), a)

    def shift_left(self, a: Wide, amount: Wide) -> Wide:
        n = self._amount(amount)
        if n.constant is None:
            return self._shift_by_value("shl", a, n)
        by = int(n.constant)
        if self.native and a.halves is None and by != _HALF:
            shifted = self._k.emit("shl", (self.whole(a), self._amount_like(a, by)))
            return Wide(a.type, native=shifted)
        low, high = self.halves(a)
        if by == 0:
            return a
        if by >= _HALF:
            return Wide(a.type, (self._word(0), low << (by - _HALF)))
        return Wide(a.type, (low << by, (high << by) | (low >> (_HALF - by))))

    def shift_right(self, a: Wide, amount: Wide) -> Wide:
        n = self._amount(amount)
        if n.constant is None:
            return self._shift_by_value("shr", a, n)
        by = int(n.constant)
        if self.native and a.halves is None and by != _HALF:
            shifted = self._k.emit("shr", (self.whole(a), self._amount_like(a, by)))
            return Wide(a.type, native=shifted)
        low, high = self.halves(a)
        if by == 0:
            return a
        top = self._shift_top(a.type, high, by % _HALF) if by % _HALF else high
        if by >= _HALF:
            return Wide(a.type, (top, self._fill(a.type, high)))
        return Wide(a.type, ((low >> by) | (high << (_HALF - by)), top))

    def _amount(self, amount: Wide) -> Value:
        """How far a shift goes: modulo 64."""
        return self.low(amount) & 63

    def _amount_like(self, a: Wide, by: int) -> Value:
        return self._k.constant(by, a.type)

    def _shift_top(self, type_: Type, high: Value, by: int) -> Value:
        """The upper half shifted right, with copies of its sign where it has one."""
        k = self._k
        if type_ is types.u64:
            return high >> by
        return k.bitcast(k.bitcast(high, types.i32) >> by, types.u32)

    def _fill(self, type_: Type, high: Value) -> Value:
        return self._word(0) if type_ is types.u64 else self._shift_top(type_, high, 31)

    def _shift_by_value(self, name: str, a: Wide, n: Value) -> Wide:
        k = self._k
        if self.native:
            amount = k.cast(n, a.type)
            return Wide(a.type, native=k.emit(name, (self.whole(a), amount)))
        low, high = self.halves(a)
        within, is_far, is_none = n & 31, n >= _HALF, (n & 31) == 0
        rest = (_HALF - within) & 31
        if name == "shl":
            passed = k.select(is_none, 0, low >> rest)
            moved = low << within
            far = (self._word(0), moved)
            near = (moved, (high << within) | passed)
        else:
            passed = k.select(is_none, 0, high << rest)
            if a.type is types.u64:
                moved = high >> within
            else:
                signed = k.bitcast(high, types.i32) >> k.bitcast(within, types.i32)
                moved = k.bitcast(signed, types.u32)
            far = (moved, self._fill(a.type, high))
            near = ((low >> within) | passed, moved)
        new_low, new_high = (k.select(is_far, x, y) for x, y in zip(far, near, strict=True))
        return Wide(a.type, (new_low, new_high))

    def extreme(self, name: str, a: Wide, b: Wide) -> Wide:
        return self._select(self.compare("lt", a, b), *((a, b) if name == "min" else (b, a)))

    def absolute(self, a: Wide) -> Wide:
        return self._select(self._is_negative(a), self.negate(a), a)

    def _is_negative(self, a: Wide) -> Value:
        return (self.halves(a)[1] >> 31) != 0

    def divide(self, name: str, a: Wide, b: Wide) -> Wide:
        """Quotient or remainder; signed numbers are rounded down."""
        if a.type is types.u64:
            return self._divide_sizes(name, a, b)
        sizes = [Wide(types.u64, self.halves(self.absolute(one))) for one in (a, b)]
        rest = Wide(types.i64, self.halves(self._divide_sizes("rem", *sizes)))
        zero, minus = self.constant(0, types.i64), self.constant(-1, types.i64)
        differ = (self.halves(a)[1] ^ self.halves(b)[1]) >> 31 != 0
        inexact = self.compare("ne", rest, zero)
        by_zero = self.compare("eq", b, zero)
        if name == "rem":
            rest = self._select(self._is_negative(a), self.negate(rest), rest)
            return self._select(
                differ & inexact & ~by_zero, self.add(rest, b), self._select(by_zero, a, rest)
            )
        size = Wide(types.i64, self.halves(self._divide_sizes("div", *sizes)))
        down = self._select(inexact, self.subtract(minus, size), self.negate(size))
        return self._select(by_zero, minus, self._select(differ, down, size))

    def _divide_sizes(self, name: str, a: Wide, b: Wide) -> Wide:
        """Of unsigned numbers, by long division, a bit at a time."""
        body = functools.partial(self._divide_body, remainder=name == "rem")
        low, high = self._k.call(f"{name}_wide", body, self.halves(a), self.halves(b))
        return Wide(a.type, (low, high))

    def _divide_body(
        self, k: Builder, a: tuple[Value, Value], b: tuple[Value, Value], *, remainder: bool
    ) -> tuple[Value, Value]:
        halved = WideArithmetic(k, native=False)
        divisor = Wide(types.u64, b)
        zero = (self._word(0), self._word(0))
        with k.range(0, 64, carry=(a, zero)) as loop:
            quotient, rest = (Wide(types.u64, pair) for pair in loop.carried)
            out = halved.halves(rest)[1] >> 31
            low, high = halved.halves(quotient)
            one = halved.constant(1, types.u64)
            moved = halved.shift_left(rest, one)
            below, above = halved.halves(moved)
            moved = Wide(types.u64, (below | (high >> 31), above))
            fits = (out != 0) | ~halved.compare("lt", moved, divisor)
            rest = halved._select(fits, halved.subtract(moved, divisor), moved)
            low, high = halved.halves(halved.shift_left(quotient, one))
            low = low | k.cast(fits, types.u32)
            loop.next(((low, high), halved.halves(rest)))
        quotient_halves, rest_halves = loop.results
        chosen: tuple[Value, Value] = rest_halves if remainder else quotient_halves
        return chosen

    def count(self, name: str, a: Wide) -> Wide:
        k = self._k
        low, high = self.halves(a)
        counts = {half: k.emit(name, (half,)) for half in (low, high)}
        if name == "popcount":
            total = counts[low] + counts[high]
        elif name == "clz":
            total = k.select(high == 0, counts[low] + _HALF, counts[high])
        else:
            total = k.select(low == 0, counts[high] + _HALF, counts[low])
        return Wide(a.type, (total, self._word(0)))

    def _madd52(self, name: str, c: Number, a: Number, b: Number) -> Wide:
        assert isinstance(a, Wide)
        assert isinstance(b, Wide)
        assert isinstance(c, Wide)
        mask = self.constant((1 << 52) - 1, types.u64)
        a, b = self.bitwise("and", a, mask), self.bitwise("and", b, mask)
        low = self.multiply(a, b)
        if name == "madd52_lo":
            return self.add(c, self.bitwise("and", low, mask))
        high = self.shift_left(self._multiply_high(a, b), self.constant(12, types.u64))
        rest = self.shift_right(low, self.constant(52, types.u64))
        return self.add(c, self.bitwise("or", high, rest))

    # --- conversions

    def _convert(self, number: Number, source: Type, target: Type) -> Number:
        k = self._k
        if isinstance(number, Wide):
            return self._convert_wide(number, target)
        if target not in (types.u64, types.i64):
            return k.cast(number, target)
        if source.kind == "float":
            return self._wide_from_float(number, target)
        if source.kind == "signed":
            bits = k.bitcast(number, types.u32)
            return Wide(target, (bits, k.bitcast(number >> 31, types.u32)))
        return Wide(target, (k.cast(number, types.u32), self._word(0)))

    def _convert_wide(self, number: Wide, target: Type) -> Number:
        k = self._k
        if target in (types.u64, types.i64):
            return self._bitcast(number, target)
        if target is types.bool_:
            low, high = self.halves(number)
            return (low | high) != 0
        if target.kind == "float":
            return self._wide_to_float(number)
        low = self.low(number)
        return low if target is types.u32 else k.bitcast(low, target)

    def _bitcast(self, number: Number, target: Type) -> Number:
        if isinstance(number, Wide):
            if number.halves is not None:
                return Wide(target, number.halves)
            assert number.native is not None
            if number.native.type is target:
                return number
            return Wide(target, native=self._k.bitcast(number.native, target))
        return self._k.bitcast(number, target)

    def _wide_from_float(self, number: Value, target: Type) -> Wide:
        """Toward zero, the nearest end of the range if out of it, 0 for NaN."""
        k = self._k
        bits = k.bitcast(number, types.u32)
        exponent = (bits >> 23) & 0xFF
        mantissa = Wide(types.u64, ((bits & 0x7FFFFF) | 0x800000, self._word(0)))
        one, zero = self.constant(1, types.u64), self.constant(0, types.u64)
        # The value is mantissa * 2**(exponent - 150).
        left = self._shift_by_value("shl", mantissa, (exponent - 150) & 63)
        right = self._shift_by_value("shr", mantissa, (150 - exponent) & 63)
        size = self._select(exponent >= 150, left, right)
        size = self._select(exponent < 127, zero, size)
        negative = (bits >> 31) != 0
        is_nan = number != number
        if target is types.u64:
            size = self._select(exponent >= 127 + 64, self.subtract(zero, one), size)
            return self._select(negative | is_nan, zero, size)
        least = self.constant(1 << 63, types.u64)
        too_large = exponent >= 127 + 63
        size = self._select(too_large, self.subtract(least, one), size)
        signed = self._select(negative, self.subtract(zero, size), size)
        signed = self._select(too_large & negative, least, signed)
        signed = self._select(is_nan, zero, signed)
        return Wide(types.i64, self.halves(signed))

    def _wide_to_float(self, number: Wide) -> Value:
        """To nearest even: 26 leading bits, the last of which tells of all below, round once."""
        k = self._k
        sign = self._word(0)
        if number.type is types.i64:
            high = self.halves(number)[1]
            negative = (high >> 31) != 0
            sign = high & 0x80000000
            number = self._select(negative, self.negate(number), number)
        number = Wide(types.u64, self.halves(number))
        length = 64 - self.halves(self.count("clz", number))[0]
        shift = k.select(length > 26, length - 26, 0)
        top = self._shift_by_value("shr", number, shift)
        back = self._shift_by_value("shl", top, shift)
        sticky = k.cast(self.compare("ne", back, number), types.u32)
        leading = self.low(top) | sticky
        # 26 bits round once to 24, by hand, for a conversion may round as it likes.
        spare = k.select(length > 24, k.minimum(length, 26) - 24, 0)
        half = k.select(spare == 0, 0, (k.constant(1, types.u32) << spare) >> 1)
        kept = leading >> spare
        lost = leading - (kept << spare)
        up = (lost > half) | ((lost == half) & (spare != 0) & ((kept & 1) != 0))
        rounded = k.cast(kept + k.cast(up, types.u32), types.f32)
        scale = k.bitcast((shift + spare + 127) << 23, types.f32)
        return k.bitcast(k.bitcast(rounded * scale, types.u32) | sign, types.f32)


def _not_a_number(op: Op) -> Wide:
    raise KernelError(f"{op.location}: WGSL has no {op.name} of pointers")


def _multiply_high(k: Builder, a: Value, b: Value) -> Value:
    """The upper half of a product, from products of 16-bit halves."""
    a0, a1, b0, b1 = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    middle = a1 * b0 + ((a0 * b0) >> 16)
    cross = (middle & 0xFFFF) + a0 * b1
    return a1 * b1 + (middle >> 16) + (cross >> 16)


_CARRIES = frozenset({
    "add_cc", "addc_cc", "addc", "sub_cc", "subc_cc", "subc", "mad_lo_cc", "madc_lo_cc",
    "mad_hi_cc", "madc_hi_cc", "madc_hi",
})  # fmt: skip

_RULES: dict[str, Callable[..., Number]] = {
    "add": WideArithmetic.add,
    "sub": WideArithmetic.subtract,
    "mul": WideArithmetic.multiply,
    "mul_hi": WideArithmetic._multiply_high,
    "neg": WideArithmetic.negate,
    "abs": WideArithmetic.absolute,
    "not": WideArithmetic.complement,
    "shl": WideArithmetic.shift_left,
    "shr": WideArithmetic.shift_right,
    **{name: (lambda self, a, b, _n=name: self.bitwise(_n, a, b)) for name in ("and", "or", "xor")},
    **{name: (lambda self, a, b, _n=name: self.compare(_n, a, b))
       for name in ("eq", "ne", "lt", "le")},
    **{name: (lambda self, a, b, _n=name: self.extreme(_n, a, b)) for name in ("min", "max")},
    **{name: (lambda self, a, b, _n=name: self.divide(_n, a, b)) for name in ("div", "rem")},
    **{name: (lambda self, a, _n=name: self.count(_n, a)) for name in ("clz", "ctz", "popcount")},
}  # fmt: skip
