"""The Miller loop of the optimal ate pairing inside kernels, one pair per instance.

The running multiple of the point of G2 is in homogeneous coordinates on the twist. A line has three
nonzero coefficients in Fq12 (Costello, Lange, Naehrig, "Faster pairing computations on curves with
high-degree twists", PKC 2010; Aranha, Karabina, Longa, Gebotys, Lopez, "Faster explicit formulas
for computing pairings over ordinary curves", EUROCRYPT 2011). The loop: Vercauteren, IEEE Trans.
Inf. Theory 56 (2010).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quod.curve.parameters import PairingCurve, by_family, by_twist
from quod.field.element import Element
from quod.field.extension import ExtensionElement
from quod.field.tower import Fq12, Fq12Arithmetic, TowerField, digit_at, signed_digits
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

Fq2 = ExtensionElement
TwistPoint = tuple[Fq2, Fq2]
Homogeneous = tuple[Fq2, Fq2, Fq2]
Line = tuple[Fq2, Fq2, Fq2]
"""A line before it is evaluated at a point: the coefficients of y and x, and the constant."""


class MillerLoop:
    """Miller functions of one curve in one kernel."""

    def __init__(self, k: Builder, curve: PairingCurve) -> None:
        self.k = k
        self.curve = curve
        self.tower = TowerField(k, curve.tower.fq2, curve.tower.fq6_non_residue)
        self.fq2 = self.tower.fq2
        self.values: Fq12Arithmetic[Any] = self.tower

    def compute(self, p: Value, q: Value, out: Value, index: Value) -> None:
        """Compute out[index] = the Miller function of p[index] and q[index]; 1 for infinity."""
        fq, fq2 = self.fq2.base, self.fq2
        words = [fq.load_words(p, index * 2 + coordinate) for coordinate in range(2)]
        twist_words = [fq2.load_words(q, index * 2 + coordinate) for coordinate in range(2)]
        infinite = fq.words_are_zero([*words[0], *words[1]]) | fq2.words_are_zero(
            [*twist_words[0], *twist_words[1]]
        )
        value = self.value(
            (fq.from_words(words[0]), fq.from_words(words[1])),
            (fq2.from_words(twist_words[0]), fq2.from_words(twist_words[1])),
        )
        self.values.store(out, index, self.values.select(infinite, self.values.one(), value))

    def value(self, p: tuple[Element, Element], q: TwistPoint) -> Any:
        """Return the Miller function of q, an affine point of G2, at p, an affine point of G1.

        Neither may be infinity. The result is correct up to factors that the final exponentiation
        removes.
        """
        k, tower = self.k, self.tower
        digits = signed_digits(abs(self.curve.ate_loop))[1:]
        # A loop runs the digits that fit the bits of a word; the others are unrolled.
        looped_digits, unrolled_digits = digits[:64], digits[64:]
        plus = sum(1 << i for i, digit in enumerate(looped_digits) if digit > 0)
        minus = sum(1 << i for i, digit in enumerate(looped_digits) if digit < 0)
        p = (self._bounded(p[0]), self._bounded(p[1]))
        q = tower.bounded(q)
        value = self.values.one()
        point: Homogeneous = tower.bounded((*q, self.fq2.one()))
        with k.range(0, len(looped_digits), carry=(value, point)) as loop:
            value, point = loop.carried
            value, point = self._doubled(value, point, p)
            with k.if_(digit_at(k, plus | minus, loop.index)) as branch:
                negative = digit_at(k, minus, loop.index)
                y = tower.bounded(self.fq2.select(negative, tower.bounded(-q[1]), q[1]))
                branch.yield_(*self._added(value, point, (q[0], y), p))
            with branch.otherwise():
                branch.yield_(value, point)
            loop.next(branch.results)
        value, point = loop.results
        for digit in unrolled_digits:
            value, point = self._doubled(value, point, p)
            if digit:
                addend = (q[0], q[1] if digit > 0 else tower.bounded(-q[1]))
                value, point = self._added(value, point, addend, p)
        if self.curve.ate_loop < 0:
            value = tower.bounded(self.values.conjugate(value))
            point = tower.bounded((point[0], -point[1], point[2]))
        if by_family(self.curve.family, bn=True, bls12=False):
            psi_q = self._psi(q)
            psi_psi_q = self._psi(psi_q)
            value, point = self._added(value, point, psi_q, p)
            value, point = self._added(value, point, (psi_psi_q[0], -psi_psi_q[1]), p)
        return value

    def _bounded(self, a: Element) -> Element:
        return self.fq2.base.unify([a], self.tower.bound)[0]

    def _psi(self, q: TwistPoint) -> TwistPoint:
        """Return psi(q): untwist, apply the Frobenius map, twist."""
        x, y = (self.fq2.constant(c) for c in self.curve.psi_coefficients)
        image = (self.fq2.frobenius(q[0]) * x, self.fq2.frobenius(q[1]) * y)
        bounded: TwistPoint = self.tower.bounded(image)
        return bounded

    # --- steps

    def _doubled(
        self, value: Any, point: Homogeneous, p: tuple[Element, Element]
    ) -> tuple[Any, Homogeneous]:
        """Return value^2 times the tangent at the point, evaluated at p; and twice the point."""
        squared = self.tower.square(value)
        x, y, z, *line = self.tower.function("pairing.double", self._double, *point)
        return self._times_line(squared, (line[0], line[1], line[2]), p), (x, y, z)

    def _added(
        self,
        value: Any,
        point: Homogeneous,
        addend: TwistPoint,
        p: tuple[Element, Element],
    ) -> tuple[Any, Homogeneous]:
        """Return value times the line through both points, evaluated at p; and their sum."""
        x, y, z, *line = self.tower.function("pairing.add", self._add, *point, *addend)
        return self._times_line(value, (line[0], line[1], line[2]), p), (x, y, z)

    def _times_line(self, value: Fq12, line: Line, p: tuple[Element, Element]) -> Fq12:
        y_term, x_term = self.fq2.scale(line[0], p[1]), self.fq2.scale(line[1], p[0])
        terms = by_twist(
            self.curve.twist,
            d=[(0, y_term), (1, x_term), (3, line[2])],
            m=[(0, line[2]), (2, x_term), (3, y_term)],
        )
        return self.tower.multiply_by_line(value, terms)

    def _double(self, x: Fq2, y: Fq2, z: Fq2) -> tuple[Fq2, ...]:
        """Return the doubled point, with all coordinates times 4, and the tangent."""
        fq2 = self.fq2
        b, c, j = fq2.square(y), fq2.square(z), fq2.square(x)
        e = self.tower.bounded(fq2.constant(self.curve.g2.b) * fq2.times(c, 3))
        f = fq2.times(e, 3)
        h = fq2.square(y + z) - (b + c)
        x3 = fq2.double((x * y) * (b - f))
        y3 = fq2.square(b + f) - fq2.times(fq2.square(e), 12)
        z3 = fq2.times(b * h, 4)
        return x3, y3, z3, -h, fq2.times(j, 3), e - b

    def _add(self, x: Fq2, y: Fq2, z: Fq2, x2: Fq2, y2: Fq2) -> tuple[Fq2, ...]:
        """Return the sum of a point and an affine point (x2, y2), and the line through both."""
        fq2 = self.fq2
        theta, delta = self.tower.bounded((y - y2 * z, x - x2 * z))
        c, d = fq2.square(theta), fq2.square(delta)
        e, g = delta * d, x * d
        h = e + z * c - fq2.double(g)
        x3, z3 = delta * h, z * e
        y3 = theta * (g - h) - e * y
        return x3, y3, z3, delta, -theta, theta * x2 - delta * y2
