"""A field element while a kernel computes with it, with proven bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quod.kernel.structure import Rebuild
from quod.kernel.value import Value

if TYPE_CHECKING:
    from quod.field.strategy import PrimeField


@dataclass(frozen=True, eq=False, slots=True)
class Element:
    """An integer in limbs that stands for a field element, not necessarily reduced.

    The limbs' integer is below `bound`, limb j is at most `maxima[j]`, and the element is that
    integer times 2**-exponent modulo p. The bounds are exact Python integers, followed through
    every operation while the kernel is traced, so that no kernel can overflow: an operation that
    could is either preceded by a reduction or refused.
    """

    field: PrimeField
    limbs: tuple[Value, ...]
    bound: int
    maxima: tuple[int, ...]
    exponent: int

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        """The limbs, for loops, branches and functions; the rest is static."""
        field, bound, maxima, exponent = self.field, self.bound, self.maxima, self.exponent

        def rebuild(values: Sequence[Value]) -> Element:
            return Element(field, tuple(values), bound, maxima, exponent)

        return list(self.limbs), (field.modulus.name, bound, maxima, exponent), rebuild

    def __add__(self, other: Element) -> Element:
        return self.field.add(self, other)

    def __sub__(self, other: Element) -> Element:
        return self.field.subtract(self, other)

    def __mul__(self, other: Element) -> Element:
        return self.field.multiply(self, other)

    def __neg__(self) -> Element:
        return self.field.negate(self)
