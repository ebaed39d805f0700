"""The optimal ate pairing on plain integers (Vercauteren, IEEE Trans. Inf. Theory 56, 2010).

G2 points stay on the twist; a line through untwisted points has three coefficients in Fq2 among
the powers of w. The final exponent is (q^12 - 1)/r exactly, with no cofactor.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.curve.parameters import Family, G1Point, G2Point, PairingCurve, Twist
from tests.reference.curve import g2_of
from tests.reference.field import Fq2, Fq12, fields_of


def psi(curve: PairingCurve, point: G2Point) -> G2Point:
    """Untwist, Frobenius, twist."""
    if point is None:
        return None
    fq2 = fields_of(curve).fq2
    cx, cy = curve.psi_coefficients
    return fq2.mul(fq2.conjugate(point[0]), cx), fq2.mul(fq2.conjugate(point[1]), cy)


def frobenius(curve: PairingCurve, a: Fq12, power: int) -> Fq12:
    """a^(q^power)."""
    fields = fields_of(curve)
    factors = curve.tower.frobenius_coefficients(power)
    coefficients = fields.fq12.to_powers_of_w(a)
    if power % 2:
        coefficients = [fields.fq2.conjugate(c) for c in coefficients]
    return fields.fq12.from_powers_of_w(
        [fields.fq2.mul(c, g) for c, g in zip(coefficients, factors)]
    )


def _line(
    curve: PairingCurve,
    through: tuple[Fq2, Fq2],
    other: tuple[Fq2, Fq2],
    at: tuple[int, int],
) -> Fq12:
    """The line through two points of the twist (the tangent if they are equal), taken at `at`.

    On an M-twist the value is multiplied by w^3, which the final exponentiation removes.
    """
    fields = fields_of(curve)
    f = fields.fq2
    (x1, y1), (x2, y2) = through, other
    zero = f.zero
    if (x1, y1) == (x2, y2):
        slope = f.div(f.scale(f.square(x1), 3), f.add(y1, y1))
    elif x1 == x2:  # vertical: at.x - x1
        if curve.twist is Twist.D:
            return fields.fq12.from_powers_of_w([f.embed(at[0]), zero, f.neg(x1), zero, zero, zero])
        return fields.fq12.from_powers_of_w([f.neg(x1), zero, f.embed(at[0]), zero, zero, zero])
    else:
        slope = f.div(f.sub(y2, y1), f.sub(x2, x1))
    constant = f.sub(f.mul(slope, x1), y1)
    in_x = f.scale(f.neg(slope), at[0])
    in_y = f.embed(at[1])
    if curve.twist is Twist.D:
        return fields.fq12.from_powers_of_w([in_y, in_x, zero, constant, zero, zero])
    return fields.fq12.from_powers_of_w([constant, zero, in_x, in_y, zero, zero])


def miller_loop(curve: PairingCurve, p: G1Point, q: G2Point) -> Fq12:
    """The Miller function of the optimal ate pairing; one if either point is infinity."""
    fq12 = fields_of(curve).fq12
    group = g2_of(curve)
    if p is None or q is None:
        return fq12.one
    value, point = fq12.one, q
    for bit in bin(abs(curve.ate_loop))[3:]:
        value = fq12.mul(fq12.square(value), _line(curve, point, point, p))
        point = _finite(group.add(point, point))
        if bit == "1":
            value = fq12.mul(value, _line(curve, point, q, p))
            point = _finite(group.add(point, q))
    if curve.ate_loop < 0:
        value, point = fq12.conjugate(value), _finite(group.neg(point))
    if curve.family is Family.BN:
        first = _finite(psi(curve, q))
        second = _finite(group.neg(psi(curve, first)))
        value = fq12.mul(value, _line(curve, point, first, p))
        point = _finite(group.add(point, first))
        value = fq12.mul(value, _line(curve, point, second, p))
    return value


def _finite(point: G2Point) -> tuple[Fq2, Fq2]:
    """The point, which no multiple met in a Miller loop over G2 lets be infinity."""
    if point is None:
        raise ValueError("the Miller loop met infinity: the point is not in G2")
    return point


def final_exponentiation(curve: PairingCurve, value: Fq12) -> Fq12:
    """value^((q^12 - 1)/r)."""
    fq12 = fields_of(curve).fq12
    q, r = curve.fq.value, curve.fr.value
    easy = fq12.mul(fq12.conjugate(value), fq12.inv(value))  # q^6 - 1
    easy = fq12.mul(frobenius(curve, easy, 2), easy)  # q^2 + 1
    # The rest, (q^4 - q^2 + 1)/r, in base q: four exponents on four Frobenius images at once.
    exponent = (q**4 - q**2 + 1) // r
    digits = [exponent // q**i % q for i in range(4)]
    images = [frobenius(curve, easy, i) for i in range(4)]
    products = [fq12.one]
    for image in images:
        products += [fq12.mul(product, image) for product in products]
    result = fq12.one
    for position in reversed(range(q.bit_length())):
        result = fq12.square(result)
        index = sum((digit >> position & 1) << i for i, digit in enumerate(digits))
        if index:
            result = fq12.mul(result, products[index])
    return result


def pairing(curve: PairingCurve, p: G1Point, q: G2Point) -> Fq12:
    """e(p, q) for p in G1 and q in G2."""
    return final_exponentiation(curve, miller_loop(curve, p, q))


def pairing_product(curve: PairingCurve, pairs: Iterable[tuple[G1Point, G2Point]]) -> Fq12:
    """The product of e(p, q) over all pairs, with one final exponentiation."""
    fq12 = fields_of(curve).fq12
    value = fq12.one
    for p, q in pairs:
        value = fq12.mul(value, miller_loop(curve, p, q))
    return final_exponentiation(curve, value)


def pairing_check(curve: PairingCurve, pairs: Iterable[tuple[G1Point, G2Point]]) -> bool:
    """Return whether the product of e(p, q) over all pairs is one."""
    return pairing_product(curve, pairs) == fields_of(curve).fq12.one
