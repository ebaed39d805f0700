"""Faults in integer arithmetic: quotients, remainders, carries, limbs and comparisons."""

from __future__ import annotations

from quod import r1cs
from tests.r1cs.determinism.audits.records import (
    BUG_TRACKER,
    CHACHA,
    SCROLL,
    Audit,
    System,
    outputs,
)


def _divided(system: System, number: r1cs.Signal, divisor: int) -> list[r1cs.Signal]:
    quotient, remainder = system.hint(lambda value: divmod(value, divisor), [number], 2)
    system.assert_equal(quotient * divisor + remainder, number)
    return [quotient, remainder]


def polygon_remainder(system: System, is_mended: bool) -> None:
    """The remainder of a division has no upper bound."""
    quotient, remainder = _divided(system, system.public("x"), 1000)
    system.bits(quotient, 64)
    system.bits(remainder, 10)
    if is_mended:
        system.bits(999 - remainder, 10)
    outputs(system, quotient=quotient, remainder=remainder)


def bigint_remainder(system: System, is_mended: bool) -> None:
    """The limbs of the remainder of a modular reduction have no range."""
    quotient, low = _divided(system, system.public("x"), 1 << 32)
    middle, high = _divided(system, quotient, 1 << 32)
    system.bits(middle, 32)
    if is_mended:
        system.bits(low, 32)
        system.bits(high, 32)
    outputs(system, low=low, middle=middle, high=high)


def dark_forest(system: System, is_mended: bool) -> None:
    """A coordinate is divided by the size of a tile; its remainder is compared without a range."""
    tile, offset = _divided(system, system.public("x"), 256)
    system.bits(tile, 32)
    if is_mended:
        system.bits(offset, 8)
    flag = system.bits(offset + (1 << 9), 10)[9] if is_mended else system.is_zero(offset)
    outputs(system, tile=tile, flag=flag)


def pairing_output(system: System, is_mended: bool) -> None:
    """The comparison of a reduced number with the modulus is computed, and its result unused."""
    modulus = 65521
    quotient, reduced = _divided(system, system.public("x"), modulus)
    system.bits(quotient, 40)
    system.bits(reduced, 16)
    is_less = 1 - system.bits(reduced - modulus + (1 << 16), 17)[16]
    if is_mended:
        system.assert_equal(is_less, 1)
    outputs(system, reduced=reduced)


def chacha_addition(system: System, is_mended: bool) -> None:
    """The carry of an addition modulo 2**32 is a hint, and the sum has no range."""
    a, b = (system.pack(system.private_bits(name, 32)) for name in "ab")
    (carry,) = system.hint(lambda x, y: x + y >> 32, [a, b])
    system.boolean(carry)
    total = a + b - (1 << 32) * carry
    if is_mended:
        system.bits(total, 32)
    outputs(system, sum=total)


def chacha_rotation(system: System, is_mended: bool) -> None:
    """A word is split in two parts whose sizes are not checked."""
    word = system.pack(system.private_bits("x", 32))
    high, low = system.hint(lambda value: divmod(value, 1 << 25), [word], 2)
    system.assert_equal(high * (1 << 25) + low, word)
    if is_mended:
        system.bits(high, 7)
        system.bits(low, 25)
    outputs(system, rotated=low * (1 << 7) + high)


def multiply_add(system: System, is_mended: bool) -> None:
    """The limbs of a product and its carry have no range."""
    a, b = (system.pack(system.private_bits(name, 16)) for name in "ab")
    carry, limb = _divided(system, system.multiply(a, b), 1 << 16)
    if is_mended:
        system.bits(carry, 16)
        system.bits(limb, 16)
    outputs(system, carry=carry, limb=limb)


def overflow(system: System, is_mended: bool) -> None:
    """The overflow of a sum of three words is a field element instead of a number below 3."""
    words = [system.pack(system.private_bits(name, 16)) for name in "abc"]
    high, low = _divided(system, system.sum(words), 1 << 16)
    system.bits(low, 16)
    if is_mended:
        system.bits(high, 2)
    outputs(system, overflow=high * 2)


def shift_right(system: System, is_mended: bool) -> None:
    """A shift by 3 bits: the part that is shifted out may be 2**3 or more."""
    shifted, low = _divided(system, system.pack(system.private_bits("x", 32)), 8)
    system.bits(shifted, 29)
    system.bits(low, 3 if is_mended else 4)
    outputs(system, shifted=shifted)


def less_than_chip(system: System, is_mended: bool) -> None:
    """The bytes of a difference are not checked, so both results of a comparison hold."""
    a, b = (system.pack(system.private_bits(name, 16)) for name in "ab")
    is_less, high, low = system.hint(
        lambda x, y: (int(x < y), *divmod(x - y + (1 << 16) * (x < y), 256)), [a, b], 3
    )
    system.boolean(is_less)
    system.assert_equal(a - b + (1 << 16) * is_less, 256 * high + low)
    if is_mended:
        system.bits(high, 8)
        system.bits(low, 8)
    outputs(system, is_less=is_less)


def risc_division(system: System, is_mended: bool) -> None:
    """A division whose remainder may be as large as the divisor."""
    number, divisor = (system.pack(system.private_bits(name, 16)) for name in ("x", "y"))
    system.assert_nonzero(divisor)
    quotient, remainder = system.hint(
        lambda x, y: divmod(x, y) if y else (0, x), [number, divisor], 2
    )
    system.assert_equal(system.multiply(quotient, divisor), number - remainder)
    system.bits(quotient, 16)
    system.bits(remainder, 16)
    if is_mended:
        system.assert_equal(remainder, 0)
    outputs(system, quotient=quotient)


def zero_of_big_integer(system: System, is_mended: bool) -> None:
    """A test for 0 modulo 97: the quotient has no range, so every number passes."""
    number = system.public("x")
    (quotient,) = system.hint(lambda value: value // 97, [number])
    if is_mended:
        system.bits(quotient, 32)
    (remainder,) = system.hint(lambda value: value % 97, [number])
    system.bits(remainder, 7)
    system.bits(96 - remainder, 7)
    system.assert_equal(quotient * 97 + remainder, number)
    outputs(system, is_zero=system.is_zero(remainder))


AUDITS = [
    Audit("remainder", f"{BUG_TRACKER} 20, Polygon zkEVM", polygon_remainder),
    Audit("remainder of limbs", f"{BUG_TRACKER} 2; Veridise, circom-bigint", bigint_remainder),
    Audit("coordinate", f"{BUG_TRACKER} 1, Dark Forest v0.3", dark_forest),
    Audit("comparison without effect", f"{BUG_TRACKER} 3, circom-pairing", pairing_output),
    Audit("carry of an addition", CHACHA, chacha_addition),
    Audit("left rotation", CHACHA, chacha_rotation),
    Audit("limbs of a product", f"{SCROLL}, MulAdd chip", multiply_add),
    Audit("overflow", f"{BUG_TRACKER} 15, PSE and Scroll zkEVM", overflow),
    Audit("right shift", f"{BUG_TRACKER} 16, PSE and Scroll zkEVM", shift_right),
    Audit("less than", f"{SCROLL}, LtChip", less_than_chip),
    Audit("exact division", "RISC Zero advisory, underconstrained division", risc_division),
    Audit("zero of a big integer", "zkSecurity, Self", zero_of_big_integer),
]
