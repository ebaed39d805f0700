"""The Miller loop of one pair by the lanes of a subgroup, for low latency.

The formulas are those of `quod.curve.pairing.miller_loop`. Independent products of a step are
computed at once, one per lane, and each lane holds one coefficient of an element of Fq12
(`quod.field.tower_lanes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quod.curve.named import CURVES
from quod.curve.pairing.final_exponentiation import power_of_product
from quod.curve.pairing.miller_loop import Homogeneous, MillerLoop, TwistPoint
from quod.curve.parameters import PairingCurve, by_twist
from quod.field.element import Element
from quod.field.extension import ExtensionElement
from quod.field.tower_lanes import LANES, LaneTower
from quod.kernel import U32, U64, Pointer, kernel

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

Fq2 = ExtensionElement


class LaneMillerLoop(MillerLoop):
    """Miller functions of one curve in one kernel; points are the same in all lanes."""

    def __init__(self, k: Builder, curve: PairingCurve) -> None:
        super().__init__(k, curve)
        self.values = self.lanes = LaneTower(self.tower)

    def _doubled(
        self, value: Any, point: Homogeneous, p: tuple[Element, Element]
    ) -> tuple[Fq2, Homogeneous]:
        squared = self.lanes.square(value)
        coordinates = map(self.fq2.embed, p)
        x, y, z, *line = self.lanes.function(
            "pairing.double", self._double_at, *point, *coordinates
        )
        return self._times(squared, line), (x, y, z)

    def _added(
        self, value: Any, point: Homogeneous, addend: TwistPoint, p: tuple[Element, Element]
    ) -> tuple[Fq2, Homogeneous]:
        coordinates = map(self.fq2.embed, p)
        x, y, z, *line = self.lanes.function(
            "pairing.add", self._add_at, *point, *addend, *coordinates
        )
        return self._times(value, line), (x, y, z)

    def _times(self, value: Fq2, line: list[Fq2]) -> Fq2:
        """Return the value times a line that was evaluated at the point of G1."""
        y_term, x_term, constant = line
        terms = by_twist(
            self.curve.twist,
            d=[(0, y_term), (1, x_term), (3, constant)],
            m=[(0, constant), (2, x_term), (3, y_term)],
        )
        return self.lanes.multiply_by_line(value, terms)

    def _double_at(self, x: Fq2, y: Fq2, z: Fq2, p_x: Fq2, p_y: Fq2) -> tuple[Fq2, ...]:
        """Compute `_double` with the tangent evaluated at a point of G1."""
        fq2, bounded, products = self.fq2, self.tower.bounded, self.lanes.products
        y_plus_z = y + z
        b, c, j, cross, sum_squared = products(
            [(y, y), (z, z), (x, x), (x, y), (y_plus_z, y_plus_z)]
        )
        e = bounded(fq2.constant(self.curve.g2.b) * fq2.times(c, 3))
        f = fq2.times(e, 3)
        h = sum_squared - (b + c)
        x3, b_plus_f_squared, e_squared, z3, y_term, x_term = products(
            [(cross, b - f), (b + f, b + f), (e, e), (b, h), (-h, p_y), (fq2.times(j, 3), p_x)]
        )
        y3 = b_plus_f_squared - fq2.times(e_squared, 12)
        return fq2.double(x3), y3, fq2.times(z3, 4), y_term, x_term, e - b

    def _add_at(
        self, x: Fq2, y: Fq2, z: Fq2, x2: Fq2, y2: Fq2, p_x: Fq2, p_y: Fq2
    ) -> tuple[Fq2, ...]:
        """Compute `_add` with the line evaluated at a point of G1."""
        fq2, bounded, products = self.fq2, self.tower.bounded, self.lanes.products
        y_scaled, x_scaled = products([(y2, z), (x2, z)])
        theta, delta = bounded((y - y_scaled, x - x_scaled))
        c, d, theta_x2, delta_y2 = products(
            [(theta, theta), (delta, delta), (theta, x2), (delta, y2)]
        )
        e, g, zc, y_term, x_term = products(
            [(delta, d), (x, d), (z, c), (delta, p_y), (-theta, p_x)]
        )
        h = e + zc - fq2.double(g)
        x3, z3, rise, ey = products([(delta, h), (z, e), (theta, g - h), (e, y)])
        return x3, rise - ey, z3, y_term, x_term, theta_x2 - delta_y2


@kernel(workgroup=LANES)
def miller_loops_by_lanes(
    k: Builder, n: U32, p: Pointer[U64], q: Pointer[U64], out: Pointer[U64], *, curve: str
) -> None:
    """Compute `quod.curve.pairing.products.miller_loops`, one workgroup per pair."""
    LaneMillerLoop(k, CURVES[curve]).compute(p, q, out, k.workgroup_id())


@kernel(workgroup=LANES)
def pairing_final_by_lanes(
    k: Builder, n: U32, values: Pointer[U64], out: Pointer[U64], *, curve: str
) -> None:
    """Compute `quod.curve.pairing.products.pairing_final` by one workgroup."""
    loop = LaneMillerLoop(k, CURVES[curve])
    power_of_product(loop.lanes, loop.curve, n, values, out)
