"""Short Weierstrass curves over prime fields, without a pairing."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from quod.curve.construction import check_order, check_prime_field, unchecked
from quod.curve.group import Group
from quod.curve.parameters import G1Parameters
from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.frozen import frozen


@frozen
class Curve(Group):
    """The subgroup of prime order r = `fr` of y^2 = x^3 + a*x + b over Fq, q = `fq`.

    Like G1 and G2 of a curve with a pairing, it is a group for `quod.curve.weierstrass.operations`,
    `quod.msm` and kernels; it needs no registration. `a`, `b` and the affine `generator` are
    integers, which are reduced modulo q; the curve has `cofactor` * r points.

    Raises InputError for a singular equation, a generator that is off the curve or has another
    order, a cofactor outside Hasse's bound, and coordinates of 32 bits or fewer. It is also raised
    for b = 0, since (0, 0) would be a point of the curve and stands for infinity in memory.
    """

    name: str
    fq: Modulus
    fr: Modulus
    a: int
    b: int
    generator: tuple[int, int]
    cofactor: int = 1

    degree = 1

    def __post_init__(self) -> None:
        # Imported here, since the named curves need no checks and the import takes time.
        from quod.curve.affine_law import law_of, plain_point

        generator = plain_point(self.generator, 1, "the generator")
        if generator is None:
            raise InputError(f"the generator of {self.name} is infinity; give a point")
        self._set(self.a, self.b, generator)
        check_prime_field(self.name, self.fq)
        if self.b == 0:
            raise InputError(
                f"b of {self.name} is 0, so (0, 0) is on the curve, but (0, 0) stands for infinity "
                "in memory; use a curve with another b"
            )
        if (4 * self.a**3 + 27 * self.b**2) % self.fq.value == 0:
            raise InputError(f"the equation of {self.name} is singular: 4a^3 + 27b^2 = 0")
        law = law_of(self)
        if not law.contains(self.generator):
            raise InputError(f"the generator of {self.name} is not on the curve")
        has_order = law.multiply(self.fr.value, self.generator) is None
        check_order(self, self.cofactor, has_order=has_order)

    def _set(self, a: int, b: int, generator: tuple[int, int]) -> None:
        q = self.fq.value
        x, y = generator
        self.__dict__.update(a=a % q, b=b % q, generator=(x % q, y % q))

    @classmethod
    def unchecked(
        cls, name: str, fq: Modulus, fr: Modulus, a: int, b: int, generator: tuple[int, int],
        cofactor: int = 1,
    ) -> Self:  # fmt: skip
        """Return a curve without checking its parameters, for which the caller is responsible.

        The tests check Quod's named curves, which are made here.
        """
        return unchecked(cls, name, fq, fr, (a, b, generator), cofactor)

    @property
    def coordinates(self) -> Modulus:
        return self.fq

    @property
    def scalars(self) -> Modulus:
        return self.fr

    @cached_property
    def parameters(self) -> G1Parameters:
        return G1Parameters(self.b, self.generator, self.cofactor, self.a)
