"""Points of twisted Edwards curves as bytes: y little-endian, and in the top bit the sign of x.

Which x is negative is a convention. For Zcash (protocol specification 5.4.9.3, with the consensus
rule of ZIP 216) it is an odd x, for circomlib an x above q/2. Each decoder accepts exactly the
bytes that its encoder writes. It rejects y >= q, a y that no point has, and a sign bit for x = 0.
"""

from __future__ import annotations

from functools import cache

from quod.curve.coordinates import FqCoordinates
from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards.curve import EdwardsCurve
from quod.errors import InputError
from quod.validation import choice, flag

SIGNS = ("zcash", "circomlib")


def encode_edwards(curve: EdwardsCurve, point: EdwardsPair, *, sign: str = "zcash") -> bytes:
    """Return the bytes of a point: y, and one bit for the sign of x.

    sign: the convention for negative x, ``zcash`` or ``circomlib``.
    Raises InputError for a point off the curve.
    """
    choice("sign", sign, SIGNS)
    x, y = edwards_pair("the point", edwards_group(curve).curve, point)
    size = _size(curve)
    return (y | _is_negative(curve, x, sign) << 8 * size - 1).to_bytes(size, "little")


def decode_edwards(
    curve: EdwardsCurve, data: bytes, *, sign: str = "zcash", check_subgroup: bool = True
) -> EdwardsPair:
    """Return the point that `encode_edwards` wrote as these bytes.

    Raises InputError for other bytes and, unless `check_subgroup` is False, for points outside the
    subgroup of prime order.
    """
    choice("sign", sign, SIGNS)
    flag("check_subgroup", check_subgroup)
    group, name = edwards_group(curve), curve.name
    size = _size(curve)
    if not isinstance(data, bytes):
        raise InputError(f"{name}: a point is encoded in bytes, not {type(data).__name__}")
    if len(data) != size:
        raise InputError(f"{name}: expected {size} bytes, not {len(data)}")
    number, q = int.from_bytes(data, "little"), curve.fq.value
    is_negative, y = divmod(number, 1 << 8 * size - 1)
    if y >= q:
        raise InputError(f"{name}: y is not below the modulus")
    x = _root(curve, y)
    if x is None:
        raise InputError(f"{name}: no point of the curve has this y")
    if x == 0 and is_negative:
        raise InputError(f"{name}: x is 0, which has no sign")
    if _is_negative(curve, x, sign) != is_negative:
        x = q - x
    if check_subgroup and not group.in_subgroup((x, y)):
        raise InputError(f"{name}: the point is not in the subgroup of prime order")
    return x, y


def _root(curve: EdwardsCurve, y: int) -> int | None:
    """Return an x with a*x^2 + y^2 = 1 + d*x^2*y^2, or None if there is none.

    The denominator a - d*y^2 is never zero, since a/d is not a square.
    """
    q = curve.fq.value
    square = (1 - y * y) * pow(curve.a - curve.d * y * y, -1, q) % q
    return _field(q).square_root(square)


@cache
def _field(q: int) -> FqCoordinates:
    """Return the field, which keeps its tables for square roots."""
    return FqCoordinates(q)


def _is_negative(curve: EdwardsCurve, x: int, sign: str) -> bool:
    return bool(x & 1) if sign == "zcash" else 2 * x > curve.fq.value


def _size(curve: EdwardsCurve) -> int:
    return curve.fq.bits // 8 + 1
