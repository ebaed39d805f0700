"""Points in Jacobian coordinates in kernels, for long runs of doublings on curves with a = 0.

(X, Y, Z) stands for (X/Z^2, Y/Z^3). Formulas of the Explicit-Formulas Database: dbl-2009-l,
madd-2007-bl without its doublings. Co-Z additions, of two points with the same Z, are those of
Meloni (WAIFI 2007); the matching doubling is from Goundar, Joye and Miyaji (CHES 2010).
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.field.any_field import field_arithmetic
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError

Coordinate = Any
Pair = tuple[Coordinate, Coordinate]
Triple = tuple[Coordinate, Coordinate, Coordinate]


class JacobianArithmetic:
    """Doublings and incomplete additions of one curve in one kernel.

    An addition is wrong for points that are equal, opposite or infinite. Nothing detects this:
    callers must exclude such pairs. Raises TraceError for a curve with a != 0.
    """

    def __init__(self, k: Builder, group: Group) -> None:
        if group.parameters.a not in (0, (0, 0)):
            raise TraceError(f"{group.name} has a != 0; Jacobian arithmetic needs a = 0")
        self._k = k
        self.group = group
        self.field = field_arithmetic(k, group.field)

    def bounded(self, parts: tuple[Coordinate, ...]) -> tuple[Coordinate, ...]:
        """Return the coordinates with standard bounds."""
        return tuple(self.field.bounded_many(parts))

    def double(self, p: Triple) -> Triple:
        """Return 2p; the result has Z = 0 if p is infinity (Z = 0) or has order two."""
        doubled: Triple = self._k.call(
            f"double_jacobian.{self.group.name}", self._double, *p, key=self.group
        )
        return doubled

    def add_affine(self, p: Triple, q: Pair) -> Triple:
        """Return p + q for an affine q that is neither p nor -p."""
        total: Triple = self._k.call(
            f"add_jacobian.{self.group.name}", self._add_affine, *p, *q, key=self.group
        )
        return total

    def double_sharing(self, p: Pair) -> tuple[Pair, Pair, Coordinate]:
        """Return 2p, p and Z for an affine p: x and y of both points for the common Z."""
        f = self.field
        x, y = p
        b = f.square(y)
        c = f.square(b)
        s, e = f.times(x * b, 4), f.times(f.square(x), 3)
        double_x = f.square(e) - (s + s)
        eight_c = f.times(c, 8)
        double_y = e * (s - double_x) - eight_c
        twice = self.bounded((double_x, double_y))
        rescaled_p = self.bounded((s, eight_c))
        return (twice[0], twice[1]), (rescaled_p[0], rescaled_p[1]), f.bounded(y + y)

    def add_sharing(self, p: Pair, q: Pair) -> tuple[Pair, Pair, Coordinate]:
        """Return p + q, p and a ratio, for x and y of points p, q with a common Z (co-Z addition).

        x and y of both results are for the common new Z, which is the old one times the ratio.
        """
        f = self.field
        delta_x, delta_y = f.bounded(p[0] - q[0]), f.bounded(p[1] - q[1])
        delta_x_squared = f.square(delta_x)
        w1, w2 = p[0] * delta_x_squared, q[0] * delta_x_squared
        rescaled_y = f.bounded(p[1] * (w1 - w2))
        x = f.bounded(f.square(delta_y) - w1 - w2)
        y = f.bounded(delta_y * (w1 - x) - rescaled_y)
        return (x, y), (f.bounded(w1), rescaled_y), delta_x

    def _double(self, k: Builder, x: Coordinate, y: Coordinate, z: Coordinate) -> Triple:
        f = self.field
        b = f.square(y)
        e = f.times(f.square(x), 3)
        s = f.times(x * b, 4)
        new_x = f.square(e) - (s + s)
        new_y = f.sum_of_products([(e, s - new_x), (f.times(b, 8), f.negate(b))])
        point = self.bounded((new_x, new_y, y * (z + z)))
        return point[0], point[1], point[2]

    def _add_affine(
        self,
        k: Builder,
        x: Coordinate,
        y: Coordinate,
        z: Coordinate,
        other_x: Coordinate,
        other_y: Coordinate,
    ) -> Triple:
        f = self.field
        zz = f.square(z)
        run = other_x * zz - x
        rise = other_y * (z * zz) - y
        run_squared = f.square(run)
        run_cubed = run * run_squared
        v = x * run_squared
        new_x = f.square(rise) - run_cubed - (v + v)
        new_y = f.sum_of_products([(rise, v - new_x), (f.negate(y), run_cubed)])
        point = self.bounded((new_x, new_y, z * run))
        return point[0], point[1], point[2]
