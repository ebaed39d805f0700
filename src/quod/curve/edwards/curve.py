"""Twisted Edwards curves and their Montgomery forms, as plain integers.

The maps between them are those of Bernstein, Birkner, Joye, Lange and Peters, "Twisted Edwards
curves" (AFRICACRYPT 2008), section 3.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

from quod.curve.construction import check_order, check_prime_field, unchecked
from quod.curve.parameters import G1Point
from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.frozen import frozen


@frozen
class MontgomeryForm:
    """The curve B*v^2 = u^3 + A*u^2 + u over Fq, with A = `a` and B = `b`."""

    fq: Modulus
    a: int
    b: int

    def contains(self, point: G1Point) -> bool:
        """Return whether (u, v) is on the curve; infinity, None, is."""
        if point is None:
            return True
        u, v = point
        return (self.b * v * v - u * (u * u + self.a * u + 1)) % self.fq.value == 0


@frozen
class EdwardsCurve:
    """The subgroup of prime order r = `fr` of a*x^2 + y^2 = 1 + d*x^2*y^2 over Fq, q = `fq`.

    Its neutral element is (0, 1). The curve has `cofactor` * r points. `a`, `d` and the affine
    `generator` are integers, which are reduced modulo q. The curve needs no registration.

    Raises InputError unless a is a square and d is not, so that the addition law is complete (has
    no exceptional points). It is also raised for a + d = 0, a generator that is off the curve or
    has another order, a cofactor outside Hasse's bound, and coordinates of 32 bits or fewer.
    """

    name: str
    fq: Modulus
    fr: Modulus
    a: int
    d: int
    generator: tuple[int, int]
    cofactor: int

    def __post_init__(self) -> None:
        self._set(self.a, self.d, self.generator)
        check_prime_field(self.name, self.fq)
        q, name = self.fq.value, self.name
        if not self.is_complete:
            raise InputError(
                f"the addition law of {name} has exceptional points: a must be a square, d a "
                "non-square, and neither 0"
            )
        if (self.a + self.d) % q == 0:
            raise InputError(
                f"a + d of {name} is 0: its Weierstrass form, in which MSMs are computed, has "
                "(0, 0), which stands for infinity in memory"
            )
        if not self.contains(self.generator):
            raise InputError(f"the generator of {name} is not on the curve")
        has_order = self.generator != (0, 1) and self._has_order_r(self.generator)
        check_order(self, self.cofactor, has_order=has_order)

    def _has_order_r(self, point: tuple[int, int]) -> bool:
        """Return whether r * point is the neutral element.

        Points are (X, Y, Z) with x = X/Z, y = Y/Z. Additions are add-2008-bbjlp of the
        Explicit-Formulas Database, which has no exceptional points.
        """
        q, a, d = self.fq.value, self.a, self.d

        def add(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
            (x1, y1, z1), (x2, y2, z2) = left, right
            z = z1 * z2 % q
            xx, yy = x1 * x2 % q, y1 * y2 % q
            cross, z_squared = d * xx * yy % q, z * z % q
            low, high = z_squared - cross, z_squared + cross
            mixed = (x1 + y1) * (x2 + y2) - xx - yy
            return z * low * mixed % q, z * high * (yy - a * xx) % q, low * high % q

        total, projective_point = (0, 1, 1), (*point, 1)
        for bit in bin(self.fr.value)[2:]:
            total = add(total, total)
            if bit == "1":
                total = add(total, projective_point)
        x, y, z = total
        return x == 0 and y == z

    def _set(self, a: int, d: int, generator: tuple[int, int]) -> None:
        q = self.fq.value
        x, y = generator
        # a = -1 is kept as -1, by which `EdwardsArithmetic` selects the faster formulas.
        self.__dict__.update(a=-1 if (a + 1) % q == 0 else a % q, d=d % q, generator=(x % q, y % q))

    @classmethod
    def unchecked(
        cls, name: str, fq: Modulus, fr: Modulus, a: int, d: int, generator: tuple[int, int],
        cofactor: int,
    ) -> Self:  # fmt: skip
        """Return a curve without checking its parameters, for which the caller is responsible.

        The tests check Quod's named curves, which are made here.
        """
        return unchecked(cls, name, fq, fr, (a, d, generator), cofactor)

    @cached_property
    def is_complete(self) -> bool:
        """True if the addition law is right for all pairs of points: a is a square and d is not."""
        q = self.fq.value
        return pow(self.a, (q - 1) // 2, q) == 1 and pow(self.d, (q - 1) // 2, q) == q - 1

    def contains(self, point: tuple[int, int]) -> bool:
        """Return whether a point is on the curve."""
        x2, y2 = point[0] ** 2, point[1] ** 2
        return (self.a * x2 + y2 - 1 - self.d * x2 * y2) % self.fq.value == 0

    @cached_property
    def montgomery(self) -> MontgomeryForm:
        """The Montgomery form, A = 2(a + d)/(a - d) and B = 4/(a - d)."""
        q = self.fq.value
        inverse = pow(self.a - self.d, -1, q)
        return MontgomeryForm(self.fq, 2 * (self.a + self.d) * inverse % q, 4 * inverse % q)

    def to_montgomery(self, point: tuple[int, int]) -> G1Point:
        """Return (u, v) with u = (1 + y)/(1 - y), v = u/x.

        (0, 1) maps to infinity, which is None, and (0, -1) maps to (0, 0).
        """
        q = self.fq.value
        x, y = point[0] % q, point[1] % q
        if (x, y) == (0, 1):
            return None
        u = (1 + y) * pow(1 - y, -1, q) % q
        return u, u * pow(x, -1, q) % q if x else 0

    def from_montgomery(self, point: G1Point) -> tuple[int, int]:
        """Return (x, y) with x = u/v, y = (u - 1)/(u + 1), the inverse of `to_montgomery`."""
        if point is None:
            return 0, 1
        q = self.fq.value
        u, v = point[0] % q, point[1] % q
        x = u * pow(v, -1, q) % q if v else 0
        return x, (u - 1) * pow(u + 1, -1, q) % q
