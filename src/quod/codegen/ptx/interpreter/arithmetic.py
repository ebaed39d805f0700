"""Semantics of PTX instructions, from the PTX ISA, as NumPy functions over all lanes.

Registers are arrays of bits: bool for predicates, unsigned integers for all others. Functions take
and return such arrays; signed and floating-point types reinterpret the bits. Results that the ISA
leaves undefined (of a division by zero) are a conspicuous bit pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quod.kernel.ops.semantics import fused_multiply_add

Array = np.ndarray[Any, Any]
Evaluate = Callable[..., Any]

UNSIGNED: dict[int, type[np.generic]] = {
    1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64
}  # fmt: skip
_SIGNED: dict[int, type[np.generic]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOAT: dict[int, type[np.generic]] = {32: np.float32, 64: np.float64}
_UNSPECIFIED = 0xBAD0BAD0BAD0BAD0

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)


def bits_of(type_: str) -> int:
    """Return the number of bits of a PTX type such as ``u32``; a predicate has 1."""
    return 1 if type_ == "pred" else int(type_[1:])


def numpy_type(type_: str) -> type[np.generic]:
    """Return the NumPy type that a PTX type reads the bits of a register as."""
    bits = bits_of(type_)
    if type_[0] == "s":
        return _SIGNED[bits]
    return _FLOAT[bits] if type_[0] == "f" else UNSIGNED[bits]


def typed(evaluate: Evaluate, type_: str, result: str | None = None) -> Evaluate:
    """Turn a function on numbers of a type into a function on bits."""
    number_type = numpy_type(type_)
    operand_type = UNSIGNED[bits_of(type_)]
    if number_type is operand_type:
        return evaluate
    result_type = UNSIGNED[bits_of(result or type_)]

    def on_bits(*operands: Array) -> Array:
        numbers = evaluate(*(operand.view(number_type) for operand in operands))
        result_bits: Array = numbers.view(result_type)
        return result_bits

    return on_bits


# --- integers


def _high_32(a: Array, b: Array) -> Array:
    product = a.astype(np.uint64) * b.astype(np.uint64)
    # A view of the high words, which assumes a little-endian machine.
    high: Array = product.view(np.uint32)[1::2]
    return high


def _high_64(a: Array, b: Array) -> Array:
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    first = a_high * b_low + (a_low * b_low >> _HALF)
    second = a_low * b_high + (first & _LOW)
    high: Array = a_high * b_high + (first >> _HALF) + (second >> _HALF)
    return high


def _high_signed(a: Array, b: Array) -> Array:
    """Return the high half of a signed product: the unsigned high half minus the signs' terms."""
    bits = a.dtype.itemsize * 8
    unsigned = UNSIGNED[bits]
    x, y = a.view(unsigned), b.view(unsigned)
    high = (_high_32 if bits == 32 else _high_64)(x, y)
    high = high - np.where(a < 0, y, unsigned(0)) - np.where(b < 0, x, unsigned(0))
    return high.view(a.dtype)


def product(half: str, type_: str) -> Evaluate:
    """Return the function for a half of a product, ``lo`` or ``hi``, or for all of it, ``wide``."""
    bits = bits_of(type_)
    if half == "lo":
        return lambda a, b: a * b
    if half == "wide":
        wide = _SIGNED[2 * bits] if type_[0] == "s" else UNSIGNED[2 * bits]
        product_type = UNSIGNED[2 * bits]
        number_type = numpy_type(type_)
        return lambda a, b: (
            a.view(number_type).astype(wide) * b.view(number_type).astype(wide)
        ).view(product_type)
    if type_[0] == "s":
        return typed(_high_signed, type_)
    if bits == 64:
        return _high_64
    return lambda a, b: np.ascontiguousarray(_high_32(a, b))


def _strided_product(half: str, type_: str) -> Evaluate:
    """Return `product` for a product that is only an addend, and may be a strided array."""
    return _high_32 if (half, type_) == ("hi", "u32") else product(half, type_)


def multiply_add(half: str, type_: str) -> Evaluate:
    """Return the function that adds c to a * b, or to a half of it."""
    multiply = _strided_product(half, type_)
    return lambda a, b, c: multiply(a, b) + c


# Carry out is a bool array, the second result; carry in is the last operand.


def add_out(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    return total, total < a


def add_in(a: Array, b: Array, carry: Array) -> Array:
    total: Array = a + b + carry
    return total


def add_in_out(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    partial = a + b
    total = partial + carry
    return total, (partial < a) | (total < partial)


def subtract_out(a: Array, b: Array) -> tuple[Array, Array]:
    return a - b, a < b


def subtract_in(a: Array, b: Array, borrow: Array) -> Array:
    total: Array = a - b - borrow
    return total


def subtract_in_out(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    partial = a - b
    total = partial - borrow
    return total, (a < b) | (partial < total)


def multiply_add_carry(half: str, type_: str, carry_in: bool, carry_out: bool) -> Evaluate:
    """mad and madc with .cc or without; the type is unsigned, or signed with the same low half."""
    multiply = _strided_product(half, type_)
    if carry_in and carry_out:
        return lambda a, b, c, carry: add_in_out(multiply(a, b), c, carry)
    if carry_in:
        return lambda a, b, c, carry: add_in(multiply(a, b), c, carry)
    return lambda a, b, c: add_out(multiply(a, b), c)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        quotient: Array = a / b
        return quotient
    safe = np.where(b == 0, a.dtype.type(1), b)
    return np.where(b == 0, _unspecified(a.dtype), _toward_zero(a, safe))


def _toward_zero(a: Array, b: Array) -> Array:
    quotient = a // b
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype)
    result: Array = quotient
    return result


def _remainder(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, a.dtype.type(1), b)
    return np.where(b == 0, _unspecified(a.dtype), a - _toward_zero(a, safe) * safe)


def _unspecified(dtype: np.dtype[Any]) -> Array:
    unsigned = UNSIGNED[dtype.itemsize * 8]
    return np.array([_UNSPECIFIED & ((1 << dtype.itemsize * 8) - 1)], unsigned).view(dtype)


def _shift(to_left: bool) -> Evaluate:
    """Make a shift by u32 amounts, where the width or more leaves zeros or copies of the sign."""

    def shift(a: Array, amount: Array) -> Array:
        bits = a.dtype.itemsize * 8
        clamped_amount = np.minimum(amount.view(np.uint32), np.uint32(bits - 1)).astype(a.dtype)
        shifted = a << clamped_amount if to_left else a >> clamped_amount
        if not to_left and a.dtype.kind == "i":
            signed: Array = shifted
            return signed
        result: Array = np.where(amount.view(np.uint32) >= bits, a.dtype.type(0), shifted)
        return result

    return shift


def shift(to_left: bool, type_: str) -> Evaluate:
    """shl and shr."""
    number_type, result_type = numpy_type(type_), UNSIGNED[bits_of(type_)]
    apply = _shift(to_left)
    return lambda a, amount: apply(a.view(number_type), amount).view(result_type)


def funnel_shift(to_left: bool, clamp: bool) -> Evaluate:
    """shf: 64 bits {high, low} shifted; the high word of the result (left) or the low one."""

    def shift(low: Array, high: Array, amount: Array) -> Array:
        wide = (high.astype(np.uint64) << _HALF) | low
        distance = np.minimum(amount, np.uint32(32)) if clamp else amount & np.uint32(31)
        distance = distance.astype(np.uint64)
        shifted = (wide << distance) >> _HALF if to_left else wide >> distance
        result: Array = shifted.astype(np.uint32)
        return result

    return shift


def _leading_zeros(a: Array) -> Array:
    bits = a.dtype.itemsize * 8
    count = np.zeros(a.shape, np.uint32)
    remaining = a
    step = bits // 2
    while step:
        empty = remaining >> a.dtype.type(bits - step) == 0
        count = np.where(empty, count + np.uint32(step), count)
        remaining = np.where(empty, remaining << a.dtype.type(step), remaining)
        step //= 2
    return np.where(a == 0, np.uint32(bits), count)


def _reversed(a: Array) -> Array:
    octets = a.reshape(-1, 1).view(np.uint8)[:, ::-1]
    mirrored = np.packbits(np.unpackbits(octets, axis=1), axis=1, bitorder="little")
    return np.ascontiguousarray(mirrored).view(a.dtype).reshape(-1)


def _bit_field(type_: str) -> Evaluate:
    bits = bits_of(type_)
    unit = UNSIGNED[bits](1)

    def extract(a: Array, position: Array, length: Array) -> Array:
        start, size = (x.view(np.uint32) & np.uint32(255) for x in (position, length))
        shifted = shift(False, f"{type_[0]}{bits}")(a, start)
        clamped_size = np.minimum(size, np.uint32(bits - 1)).astype(a.dtype)
        mask = np.where(size >= bits, ~a.dtype.type(0), (unit << clamped_size) - unit)
        field = shifted & mask
        if type_[0] == "s":
            last = np.minimum(
                start.astype(np.int64) + np.maximum(size.astype(np.int64), 1) - 1, bits - 1
            ).astype(a.dtype)
            negative = ((a >> last) & unit).astype(np.bool_) & (size != 0)
            field = np.where(negative, field | ~mask, field)
        result: Array = np.where(size == 0, a.dtype.type(0), field)
        return result

    return extract


def _bit_field_insert(a: Array, b: Array, position: Array, length: Array) -> Array:
    bits = a.dtype.itemsize * 8
    unit = a.dtype.type(1)
    start, size = (x.view(np.uint32) & np.uint32(255) for x in (position, length))
    clamped_size = np.minimum(size, np.uint32(bits - 1)).astype(a.dtype)
    mask = shift(True, f"b{bits}")(
        np.where(size >= bits, ~a.dtype.type(0), (unit << clamped_size) - unit), start
    )
    inserted: Array = (b & ~mask) | (shift(True, f"b{bits}")(a, start) & mask)
    return inserted


def _permute(a: Array, b: Array, selector: Array) -> Array:
    wide = ((b.astype(np.uint64) << _HALF) | a).reshape(-1, 1).view(np.uint8)
    selectors = np.stack([selector >> np.uint32(4 * n) for n in range(4)], axis=1)
    octets = np.take_along_axis(wide, (selectors & np.uint32(7)).astype(np.int64), axis=1)
    signs = np.where(octets & np.uint8(0x80), np.uint8(0xFF), np.uint8(0))
    octets = np.where(selectors & np.uint32(8), signs, octets)
    return np.ascontiguousarray(octets).view(np.uint32).reshape(-1)


def logic3(table: int) -> Evaluate:
    """lop3: any function of three bits, by the table of its eight values."""

    def apply(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros_like(a)
        for row in range(8):
            if table >> row & 1:
                x = a if row & 4 else ~a
                y = b if row & 2 else ~b
                z = c if row & 1 else ~c
                result |= x & y & z
        return result

    return apply


# --- floating point


def _smaller(a: Array, b: Array) -> Array:
    """Return the non-NaN operand if one is NaN; -0 is below +0."""
    zero = (a == 0) & (b == 0)
    return np.where(zero, np.where(np.signbit(a), a, b), np.fmin(a, b))


def _larger(a: Array, b: Array) -> Array:
    zero = (a == 0) & (b == 0)
    return np.where(zero, np.where(np.signbit(a), b, a), np.fmax(a, b))


def _propagating(choose: Evaluate) -> Evaluate:
    def apply(a: Array, b: Array) -> Array:
        nan = a.dtype.type(np.nan)
        result: Array = np.where(np.isnan(a) | np.isnan(b), nan, choose(a, b))
        return result

    return apply


def extreme(larger: bool, type_: str, propagate: bool) -> Evaluate:
    """min and max; with `propagate`, floats as `.NaN` asks."""
    if type_[0] != "f":
        return typed(np.maximum if larger else np.minimum, type_)
    choose = _larger if larger else _smaller
    return typed(_propagating(choose) if propagate else choose, type_)


def convert(to: str, source: str, rounding: str | None) -> Evaluate:
    """cvt; integers wrap, floats to integers saturate and round as `.rzi` or `.rni`."""
    number_type, target = numpy_type(source), numpy_type(to)
    result_type = UNSIGNED[bits_of(to)]
    if source[0] == "f" and to[0] != "f":
        # NaN becomes 0, or the sign bit alone if the source or the target has 64 bits.
        wide = bits_of(source) == 64 or bits_of(to) == 64
        nan_result = result_type(1 << (bits_of(to) - 1)) if wide else result_type(0)
        limits = np.iinfo(target)  # type: ignore[type-var]

        def to_integer(a: Array) -> Array:
            x = a.view(number_type)
            integral = np.rint(x) if rounding == "rni" else np.trunc(x)
            low, high = number_type(limits.min), number_type(limits.max + 1)
            inside = (integral >= low) & (integral < high)
            converted = np.where(inside, integral, 0).astype(target)
            converted = np.where(integral >= high, target(limits.max), converted)
            converted = np.where(integral < low, target(limits.min), converted)
            return np.where(np.isnan(x), nan_result, converted.view(result_type))

        return to_integer
    rounded: Callable[[Array], Array] = {"rmi": np.floor, "rpi": np.ceil}.get(
        rounding or "", np.array
    )
    return lambda a: rounded(a.view(number_type)).astype(target).view(result_type)


# --- comparison

_COMPARE: dict[str, Evaluate] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip


def comparison(name: str, type_: str) -> Evaluate | None:
    """setp's comparison; with a NaN it is false, or true if its name ends in `u`."""
    if type_[0] == "f":
        return _float_comparison(name, type_)
    if type_[0] == "b" and name not in ("eq", "ne"):
        return None
    if type_[0] == "s" and name in ("lo", "ls", "hi", "hs"):
        return None
    compare = _COMPARE.get(name)
    number_type = numpy_type(type_)
    return compare and (lambda a, b: compare(a.view(number_type), b.view(number_type)))


def _float_comparison(name: str, type_: str) -> Evaluate | None:
    number_type = numpy_type(type_)
    if name in ("num", "nan"):
        return lambda a, b: (
            (np.isnan(a.view(number_type)) | np.isnan(b.view(number_type))) == (name == "nan")
        )
    unordered = name[-1] == "u"
    compare = {key: _COMPARE[key] for key in ("eq", "ne", "lt", "le", "gt", "ge")}.get(
        name.removesuffix("u")
    )
    if compare is None:
        return None

    def apply(a: Array, b: Array) -> Array:
        x, y = a.view(number_type), b.view(number_type)
        has_nan = np.isnan(x) | np.isnan(y)
        result: Array = compare(x, y) | has_nan if unordered else compare(x, y) & ~has_nan
        return result

    return apply


ELEMENTWISE: dict[str, tuple[tuple[str, ...], Callable[[str], Evaluate]]] = {
    "and": (("pred", "b16", "b32", "b64"), lambda t: lambda a, b: a & b),
    "or": (("pred", "b16", "b32", "b64"), lambda t: lambda a, b: a | b),
    "xor": (("pred", "b16", "b32", "b64"), lambda t: lambda a, b: a ^ b),
    "not": (("pred", "b16", "b32", "b64"), lambda t: lambda a: ~a),
    "cnot": (("b16", "b32", "b64"), lambda t: lambda a: (a == 0).astype(a.dtype)),
    "neg": (
        ("s16", "s32", "s64", "f32", "f64"),
        lambda t: typed(np.negative, t),
    ),
    "abs": (("s16", "s32", "s64", "f32", "f64"), lambda t: typed(np.abs, t)),
    "div": (("u16", "u32", "u64", "s16", "s32", "s64"), lambda t: typed(_divide, t)),
    "rem": (("u16", "u32", "u64", "s16", "s32", "s64"), lambda t: typed(_remainder, t)),
    "clz": (("b32", "b64"), lambda t: _leading_zeros),
    "popc": (("b32", "b64"), lambda t: lambda a: np.bitwise_count(a).astype(np.uint32)),
    "brev": (("b32", "b64"), lambda t: _reversed),
    "bfe": (("u32", "u64", "s32", "s64"), _bit_field),
    "bfi": (("b32", "b64"), lambda t: _bit_field_insert),
    "prmt": (("b32",), lambda t: _permute),
}
"""Instructions of one type without modifiers: their types and their functions."""

ROUNDED: dict[str, Evaluate] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _divide, "sqrt": np.sqrt,
    "fma": fused_multiply_add, "mad": fused_multiply_add,
}  # fmt: skip
"""Floating-point instructions that must have `.rn`; without it the assembler may contract them."""
