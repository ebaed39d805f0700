"""The Miller loop of one pair by the lanes of a subgroup, where latency counts.

The formulas of `quod.curve.pairing.miller_loop`: the products of a step that do not wait for one
another are computed at once, and Fq12 has a coefficient a lane (`quod.field.tower_lanes`).
"""

from __future__ import annotations

from typing import Any

from quod.curve.named import CURVES
from quod.curve.pairing.final_exponentiation import power_of_product
from quod.curve.pairing.miller_loop import Homogeneous, MillerLoop, TwistPoint
from quod.curve.parameters import PairingCurve, by_twist
from quod.field.element import Element
from quod.field.extension import ExtensionElement
from quod.field.tower_lanes import LANES, LaneTower
from quod.kernel import U32, U64, Builder, Pointer, kernel

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
        at = map(self.fq2.embed, p)
        x, y, z, *line = self.lanes.function("pairing.double", self._double_at, *point, *at)
        return self._times(squared, line), (x, y, z)

    def _added(
        self, value: Any, point: Homogeneous, other: TwistPoint, p: tuple[Element, Element]
    ) -> tuple[Fq2, Homogeneous]:
        at = map(self.fq2.embed, p)
        x, y, z, *line = self.lanes.function("pairing.add", self._add_at, *point, *other, *at)
        return self._times(value, line), (x, y, z)

    def _times(self, value: Fq2, line: list[Fq2]) -> Fq2:
        """The value times a line that was taken at the point of G1."""
        in_y, in_x, constant = line
        terms = by_twist(
            self.curve.twist,
            d=[(0, in_y), (1, in_x), (3, constant)],
            m=[(0, constant), (2, in_x), (3, in_y)],
        )
        return self.lanes.multiply_by_line(value, terms)

    def _double_at(self, x: Fq2, y: Fq2, z: Fq2, at_x: Fq2, at_y: Fq2) -> tuple[Fq2, ...]:
        """As `_double`, the tangent taken at a point of G1."""
        fq2, bounded, products = self.fq2, self.tower.bounded, self.lanes.products
        both = y + z
        b, c, j, cross, sum_squared = products([(y, y), (z, z), (x, x), (x, y), (both, both)])
        e = bounded(fq2.constant(self.curve.g2.b) * fq2.times(c, 3))
        f = fq2.times(e, 3)
        h = sum_squared - (b + c)
        x3, sum_squared, e_squared, z3, in_y, in_x = products(
            [(cross, b - f), (b + f, b + f), (e, e), (b, h), (-h, at_y), (fq2.times(j, 3), at_x)]
        )
        y3 = sum_squared - fq2.times(e_squared, 12)
        return fq2.double(x3), y3, fq2.times(z3, 4), in_y, in_x, e - b

    def _add_at(
        self, x: Fq2, y: Fq2, z: Fq2, x2: Fq2, y2: Fq2, at_x: Fq2, at_y: Fq2
    ) -> tuple[Fq2, ...]:
        """As `_add`, the line taken at a point of G1."""
        fq2, bounded, products = self.fq2, self.tower.bounded, self.lanes.products
        y_scaled, x_scaled = products([(y2, z), (x2, z)])
        theta, gap = bounded((y - y_scaled, x - x_scaled))
        c, d, in_x2, in_y2 = products([(theta, theta), (gap, gap), (theta, x2), (gap, y2)])
        e, g, zc, in_y, in_x = products([(gap, d), (x, d), (z, c), (gap, at_y), (-theta, at_x)])
        h = e + zc - fq2.double(g)
        x3, z3, rise, ey = products([(gap, h), (z, e), (theta, g - h), (e, y)])
        return x3, rise - ey, z3, in_y, in_x, in_x2 - in_y2


@kernel(workgroup=LANES)
def miller_loops_by_lanes(
    k: Builder, n: U32, p: Pointer[U64], q: Pointer[U64], out: Pointer[U64], *, curve: str
) -> None:
    """As `quod.curve.pairing.products.miller_loops`, a workgroup each."""
    LaneMillerLoop(k, CURVES[curve]).compute(p, q, out, k.workgroup_id())


@kernel(workgroup=LANES)
def pairing_final_by_lanes(
    k: Builder, n: U32, values: Pointer[U64], out: Pointer[U64], *, curve: str
) -> None:
    """As `quod.curve.pairing.products.pairing_final`, by one workgroup."""
    loop = LaneMillerLoop(k, CURVES[curve])
    power_of_product(loop.lanes, loop.curve, n, values, out)
