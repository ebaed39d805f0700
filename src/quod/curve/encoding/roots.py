"""Square roots in kernels, in Fq and Fq2 with q = 3 modulo 4."""

from __future__ import annotations

from typing import Any

from quod.curve.weierstrass.point import PointArithmetic
from quod.field.extension import ExtensionField


def square_root(curve: PointArithmetic, a: Any) -> Any:
    """Return a square root of a coordinate; it is undefined if there is none.

    Over Fq2, with u**2 = -1, two powers in Fq suffice. With t = (a0 + sqrt(norm(a)))/2 and
    c = t**((q + 1)/4), c**2 is t or -t, and c + a1/(2c) * u or a1/(2c) + c * u is a root, up to the
    sign of a1. The power t**((q - 3)/4) is the inverse of c, up to that sign. If t is 0, a is in
    Fq, and takes the place of t.
    """
    f, q = curve.field, curve.group.coordinates.value
    if curve.group.degree == 1:
        return f.power(a, (q + 1) // 4)
    assert isinstance(f, ExtensionField)
    base = f.base
    a0, a1 = (base.bounded(part) for part in a.coefficients)
    half = base.constant((q + 1) // 2)
    norm = base.bounded(base.square(a0) + base.square(a1))
    t = base.bounded((a0 + base.power(norm, (q + 1) // 4)) * half)
    t = base.select(base.is_zero(t), a0, t)
    power = base.bounded(base.power(t, (q - 3) // 4))
    root = base.bounded(power * t)
    other = base.bounded(base.bounded(power * half) * a1)
    is_square = base.is_zero(base.square(root) - t)
    return f.from_coefficients(
        base.select(is_square, root, base.bounded(base.negate(other))),
        base.select(is_square, other, root),
    )
