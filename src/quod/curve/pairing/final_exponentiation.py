"""The final exponentiation of a pairing inside kernels, with the exponent exactly (q^12 - 1)/r."""

from __future__ import annotations

from typing import TypeVar

from quod.curve.parameters import PairingCurve, by_family
from quod.field.tower import Fq12Arithmetic
from quod.kernel.ir.value import Value

E = TypeVar("E")


def power_of_product(
    tower: Fq12Arithmetic[E], curve: PairingCurve, n: Value, values: Value, out: Value
) -> None:
    """Compute out[0] = the product of n values in memory to the power (q^12 - 1)/r."""
    with tower.k.range(0, n, carry=tower.one()) as loop:
        loop.next(tower.multiply(loop.carried, tower.load(values, loop.index)))
    tower.store(out, 0, final_exponentiation(tower, curve, loop.results))


def final_exponentiation(tower: Fq12Arithmetic[E], curve: PairingCurve, value: E) -> E:
    """Return value^((q^12 - 1)/r), exactly; 0 for 0."""
    cyclotomic = tower.multiply(tower.conjugate(value), tower.inverse(value))
    cyclotomic = tower.multiply(tower.frobenius(cyclotomic, 2), cyclotomic)
    hard_part = by_family(curve.family, bn=_hard_bn, bls12=_hard_bls12)
    return hard_part(tower, curve.x, cyclotomic)


def _hard_bls12(tower: Fq12Arithmetic[E], x: int, m: E) -> E:
    """m^((q^4 - q^2 + 1)/r) = m^((x - 1)^2/3 * (x + q) * (x^2 + q^2 - 1) + 1).

    Hayashida, Hayasaka, Teruya, "Efficient final exponentiation via cyclotomic structure for
    pairings over families of elliptic curves" (2020/875), without the factor 3.
    """
    multiply, power, conjugate = tower.multiply, tower.cyclotomic_power, tower.conjugate
    a = power(m, (x - 1) // 3)
    a = multiply(power(a, x), conjugate(a))
    a = multiply(power(a, x), tower.frobenius(a, 1))
    b = multiply(power(power(a, x), x), tower.frobenius(a, 2))
    b = multiply(b, conjugate(a))
    return multiply(b, m)


def _hard_bn(tower: Fq12Arithmetic[E], x: int, m: E) -> E:
    """m^((q^4 - q^2 + 1)/r) by the addition chain of Scott, Benger, Charlemagne, Dominguez Perez,
    Kachisa, "On the final exponentiation for calculating pairings on ordinary elliptic curves"
    (PAIRING 2009).
    """
    multiply, square = tower.multiply, tower.cyclotomic_square
    power, conjugate = tower.cyclotomic_power, tower.conjugate
    frobenius = tower.frobenius
    mx = power(m, x)
    mx2 = power(mx, x)
    mx3 = power(mx2, x)
    y0 = multiply(multiply(frobenius(m, 1), frobenius(m, 2)), frobenius(m, 3))
    y1 = conjugate(m)
    y2 = frobenius(mx2, 2)
    y3 = conjugate(frobenius(mx, 1))
    y4 = conjugate(multiply(mx, frobenius(mx2, 1)))
    y5 = conjugate(mx2)
    y6 = conjugate(multiply(mx3, frobenius(mx3, 1)))
    t0 = multiply(multiply(square(y6), y4), y5)
    t1 = multiply(multiply(y3, y5), t0)
    t0 = multiply(t0, y2)
    t1 = square(multiply(square(t1), t0))
    t0 = multiply(t1, y1)
    t1 = multiply(t1, y0)
    return multiply(square(t0), t1)
