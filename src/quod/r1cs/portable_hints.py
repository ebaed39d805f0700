"""Portable hints: functions for `ConstraintSystem.hint` that calculators in browsers also have.

A hint may be any Python function, but a page cannot run Python. It can run circuits whose hints are
functions of this module. All are defined for all integers below the prime.
"""

from __future__ import annotations

from math import isqrt

from quod.r1cs.witness_program.steps import HintFunction


def quotient_and_remainder(dividend: int, divisor: int) -> tuple[int, int]:
    """Divide integers; the quotient by 0 is 0, and the remainder the dividend."""
    return divmod(dividend, divisor) if divisor else (0, dividend)


def one_hot(index: int, count: int) -> list[int]:
    """Return `count` bits: 1 at the index; all 0 if the index is not below the constant count."""
    return [int(each == index) for each in range(count)]


def integer_root(number: int) -> int:
    """Return the largest integer whose square is at most the number."""
    return isqrt(number)


def bitwise_and(a: int, b: int) -> int:
    """Return the bitwise AND of integers."""
    return a & b


def bitwise_or(a: int, b: int) -> int:
    """Return the bitwise OR of integers; in the circuit's field, so modulo the prime."""
    return a | b


def bitwise_xor(a: int, b: int) -> int:
    """Return the bitwise exclusive OR of integers, modulo the prime."""
    return a ^ b


PORTABLE_HINTS: dict[HintFunction, tuple[int, int | None]] = {
    quotient_and_remainder: (2, 2), one_hot: (2, None), integer_root: (1, 1),
    bitwise_and: (2, 1), bitwise_or: (2, 1), bitwise_xor: (2, 1),
}  # fmt: skip
"""The numbers of arguments and results of each function, in the order of their numbers in
calculators. `one_hot` has as many results as its last argument says.
"""
