"""Single points of a short Weierstrass curve as plain integers: the group law.

A point is a pair (x, y), the point at infinity None. Every function handles every input: equal
points, opposite points, infinity, points outside the subgroup. Nothing here runs in constant time.
For arrays of points use `quod.curve.weierstrass.operations`, which computes on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from quod.curve.coordinates import C, Coordinates, FqCoordinates
from quod.curve.group import Group
from quod.errors import InputError
from quod.frozen import frozen


@frozen
class AffineGroup(Generic[C]):
    """The curve y^2 = x^3 + a*x + b over Fq or Fq2, and its subgroup of prime order.

    name: the name of the group, such as ``bn254.g1``.
    order, cofactor: the subgroup has prime order `order`, the curve order * cofactor points.
    subgroup_test: whether a finite point of the curve is in the subgroup.
    """

    name: str
    field: Coordinates[C]
    a: C
    b: C
    generator: tuple[C, C]
    order: int
    cofactor: int
    subgroup_test: Callable[[AffineGroup[C], tuple[C, C]], bool]

    def right_side(self, x: C) -> C:
        """Return x^3 + a*x + b."""
        f = self.field
        return f.add(f.multiply(f.add(f.square(x), self.a), x), self.b)

    def contains(self, point: tuple[C, C] | None) -> bool:
        """Return whether the point is on the curve, as infinity is; coordinates must be below p."""
        return point is None or self.field.square(point[1]) == self.right_side(point[0])

    def in_subgroup(self, point: tuple[C, C] | None) -> bool:
        """Test by an endomorphism whether a point on the curve has prime order or is infinity."""
        return point is None or self.subgroup_test(self, point)

    def negate(self, point: tuple[C, C] | None) -> tuple[C, C] | None:
        """-point."""
        return None if point is None else (point[0], self.field.negate(point[1]))

    def add(self, left: tuple[C, C] | None, right: tuple[C, C] | None) -> tuple[C, C] | None:
        """left + right."""
        if left is None:
            return right
        if right is None:
            return left
        f = self.field
        (x1, y1), (x2, y2) = left, right
        if x1 != x2:
            slope = f.multiply(f.subtract(y2, y1), f.invert(f.subtract(x2, x1)))
        elif y1 != y2 or y1 == f.zero:
            return None
        else:
            slope = f.multiply(f.add(f.scale(f.square(x1), 3), self.a), f.invert(f.scale(y1, 2)))
        x3 = f.subtract(f.square(slope), f.add(x1, x2))
        return x3, f.subtract(f.multiply(slope, f.subtract(x1, x3)), y1)

    def multiply(self, scalar: int, point: tuple[C, C] | None) -> tuple[C, C] | None:
        """Return scalar * point; the integer is not reduced, so the point may have any order."""
        if point is None:
            return None
        if scalar < 0:
            scalar, point = -scalar, (point[0], self.field.negate(point[1]))
        result = (self.field.one, self.field.one, self.field.zero)
        for bit in bin(scalar)[2:]:
            result = self._double(result)
            if bit == "1":
                result = self._add_affine(result, point)
        return self._normalise(result)

    # Jacobian coordinates: (X, Y, Z) stands for (X/Z^2, Y/Z^3), Z = 0 for infinity. Formulas
    # dbl-2009-l and madd of the Explicit-Formulas Database, with the special cases by branches.

    def _double(self, point: tuple[C, C, C]) -> tuple[C, C, C]:
        f = self.field
        x, y, z = point
        x_squared, y_squared = f.square(x), f.square(y)
        four_xyy = f.scale(f.multiply(x, y_squared), 4)
        tangent = f.scale(x_squared, 3)
        if self.a != f.zero:
            tangent = f.add(tangent, f.multiply(self.a, f.square(f.square(z))))
        x3 = f.subtract(f.square(tangent), f.scale(four_xyy, 2))
        y3 = f.subtract(
            f.multiply(tangent, f.subtract(four_xyy, x3)), f.scale(f.square(y_squared), 8)
        )
        return x3, y3, f.scale(f.multiply(y, z), 2)

    def _add_affine(self, left: tuple[C, C, C], right: tuple[C, C]) -> tuple[C, C, C]:
        """Return left + right for a right point that is not infinity."""
        f = self.field
        x1, y1, z1 = left
        if z1 == f.zero:
            return right[0], right[1], f.one
        z_squared = f.square(z1)
        h = f.subtract(f.multiply(right[0], z_squared), x1)
        rise = f.subtract(f.multiply(right[1], f.multiply(z_squared, z1)), y1)
        if h == f.zero:
            if rise == f.zero:
                return self._double(left)
            return f.one, f.one, f.zero
        h_squared = f.square(h)
        h_cubed = f.multiply(h_squared, h)
        v = f.multiply(x1, h_squared)
        x3 = f.subtract(f.subtract(f.square(rise), h_cubed), f.scale(v, 2))
        y3 = f.subtract(f.multiply(rise, f.subtract(v, x3)), f.multiply(y1, h_cubed))
        return x3, y3, f.multiply(z1, h)

    def _normalise(self, point: tuple[C, C, C]) -> tuple[C, C] | None:
        f = self.field
        x, y, z = point
        if z == f.zero:
            return None
        inverse = f.invert(z)
        inverse_squared = f.square(inverse)
        return f.multiply(x, inverse_squared), f.multiply(y, f.multiply(inverse_squared, inverse))


def plain_point(value: Any, degree: int, name: str, number: int | None = None) -> Any:
    """Return a point as tuples: None, (x, y) of int over Fq, or ((x0, x1), (y0, y1)) over Fq2.

    value: the point; lists are accepted in place of tuples.
    degree: the degree of the coordinate field over Fq, 1 or 2.
    name, number: how the error message names the point, with its index in an array if given.
    Raises InputError for another number of coordinates or another type, such as bool or a NumPy
    integer. Does not check the range of the integers.
    """
    if value is None:
        return None
    if (pair := _pair(value)) is not None:
        if degree == 1 and _are_int(pair):
            return pair
        x, y = map(_pair, pair)
        if degree == 2 and x is not None and y is not None and _are_int((*x, *y)):
            return x, y
    label = name if number is None else f"{name} {number}"
    form = "(x, y) of int" if degree == 1 else "((x0, x1), (y0, y1)) of int"
    raise InputError(f"{label} must be None or {form}, with tuples or lists and Python integers")


def _are_int(values: tuple[Any, ...]) -> bool:
    return all(type(value) is int for value in values)


def _pair(value: Any) -> tuple[Any, Any] | None:
    """Return a tuple or list of two items as a tuple, or None for anything else.

    A list is copied before its length is checked, since another thread may change it.
    """
    copy = tuple(value) if type(value) in (tuple, list) else ()
    return (copy[0], copy[1]) if len(copy) == 2 else None


def law_of(group: Group) -> AffineGroup[Any]:
    """Return the group law of a group over Fq; its subgroup test multiplies by the order."""
    order, parameters = group.scalars.value, group.parameters

    def has_order(law: AffineGroup[Any], point: tuple[Any, Any]) -> bool:
        return parameters.cofactor == 1 or law.multiply(order, point) is None

    return AffineGroup(
        name=group.name,
        field=FqCoordinates(group.coordinates.value),
        a=parameters.a,
        b=parameters.b,
        generator=parameters.generator,
        order=order,
        cofactor=parameters.cofactor,
        subgroup_test=has_order,
    )
