"""Division of wide numbers."""

from __future__ import annotations

import functools

from quod.codegen.int64.arithmetic import WideArithmetic
from quod.codegen.int64.forms import Wide
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


def divide(wide: WideArithmetic, name: str, a: Wide, b: Wide) -> Wide:
    """Compute a quotient or remainder (``div``, ``rem``); signed division rounds down."""
    if a.type is types.u64:
        return _divide_magnitudes(wide, name, a, b)
    magnitudes = [Wide(types.u64, wide.halves(wide.absolute(number))) for number in (a, b)]
    remainder = Wide(types.i64, wide.halves(_divide_magnitudes(wide, "rem", *magnitudes)))
    zero, minus_one = wide.constant(0, types.i64), wide.constant(-1, types.i64)
    signs_differ = (wide.halves(a)[1] ^ wide.halves(b)[1]) >> 31 != 0
    inexact = wide.compare("ne", remainder, zero)
    by_zero = wide.compare("eq", b, zero)
    if name == "rem":
        remainder = wide.select_wide(wide.is_negative(a), wide.negate(remainder), remainder)
        return wide.select_wide(
            signs_differ & inexact & ~by_zero,
            wide.add(remainder, b),
            wide.select_wide(by_zero, a, remainder),
        )
    magnitude = Wide(types.i64, wide.halves(_divide_magnitudes(wide, "div", *magnitudes)))
    rounded_down = wide.select_wide(
        inexact, wide.subtract(minus_one, magnitude), wide.negate(magnitude)
    )
    return wide.select_wide(
        by_zero, minus_one, wide.select_wide(signs_differ, rounded_down, magnitude)
    )


def _divide_magnitudes(wide: WideArithmetic, name: str, a: Wide, b: Wide) -> Wide:
    """Compute a quotient or remainder of unsigned numbers by long division, bit by bit."""
    body = functools.partial(_divide_body, remainder=name == "rem")
    low, high = wide.k.call(f"{name}_wide", body, wide.halves(a), wide.halves(b))
    return Wide(a.type, (low, high))


def _divide_body(
    k: Builder, a: tuple[Value, Value], b: tuple[Value, Value], *, remainder: bool
) -> tuple[Value, Value]:
    halved = WideArithmetic(k, native=False)
    divisor = Wide(types.u64, b)
    zero = (halved.word(0), halved.word(0))
    with k.range(0, 64, carry=(a, zero)) as loop:
        quotient, partial = (Wide(types.u64, pair) for pair in loop.carried)
        carry_out = halved.halves(partial)[1] >> 31
        low, high = halved.halves(quotient)
        unit = halved.constant(1, types.u64)
        shifted = halved.shift_left(partial, unit)
        low_word, high_word = halved.halves(shifted)
        shifted = Wide(types.u64, (low_word | (high >> 31), high_word))
        fits = (carry_out != 0) | ~halved.compare("lt", shifted, divisor)
        partial = halved.select_wide(fits, halved.subtract(shifted, divisor), shifted)
        low, high = halved.halves(halved.shift_left(quotient, unit))
        low = low | k.cast(fits, types.u32)
        loop.next(((low, high), halved.halves(partial)))
    quotient_halves, rest_halves = loop.results
    result: tuple[Value, Value] = rest_halves if remainder else quotient_halves
    return result
