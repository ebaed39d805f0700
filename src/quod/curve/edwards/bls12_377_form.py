"""The twisted Edwards form of BLS12-377 G1, whose addition takes fewer products.

E: y^2 = x^3 + 1 has the point (-1, 0) of order two and so a Montgomery form, from which follows
-X^2 + Y^2 = 1 + d*X^2*Y^2 (Bernstein and Lange, "Twisted Edwards curves", AFRICACRYPT 2008). Here d
is a square, so the addition law has exceptions; all of them involve points of even order, and none
is met in G1, whose order is odd.
"""

from __future__ import annotations

from functools import cache

from quod.curve.affine_law import AffineGroup
from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.parameters import G1Point
from quod.curve.weierstrass.affine import g1_group
from quod.frozen import frozen, replace


@frozen
class EdwardsMap:
    """A birational map between E(Fq) and a twisted Edwards curve with a = -1.

    X = x_scale * (x + 1)/y and Y = (s*(x + 1) - 1)/(s*(x + 1) + 1), with s = `montgomery_scale`.
    """

    group: AffineGroup[int]
    curve: EdwardsCurve
    montgomery_scale: int
    x_scale: int

    def to_edwards(self, point: G1Point) -> tuple[int, int]:
        """The image of a point; infinity goes to (0, 1). ValueError for the points of even order
        that have none."""
        if point is None:
            return 0, 1
        f = self.group.field
        x, y = point
        shifted = f.add(x, 1)
        u = f.multiply(self.montgomery_scale, shifted)
        if y == 0 or f.add(u, 1) == 0:
            raise ValueError("the point has even order and no image on the Edwards curve")
        return (
            f.multiply(self.x_scale, f.multiply(shifted, f.invert(y))),
            f.multiply(f.subtract(u, 1), f.invert(f.add(u, 1))),
        )

    def from_edwards(self, point: tuple[int, int]) -> G1Point:
        """The inverse of `to_edwards`. ValueError for (0, -1), the image of no point."""
        f = self.group.field
        big_x, big_y = point
        if (big_x, big_y) == (0, 1):
            return None
        if big_x == 0:
            raise ValueError("the point has order two and is the image of no affine point")
        u = f.multiply(f.add(1, big_y), f.invert(f.subtract(1, big_y)))
        shifted = f.multiply(u, f.invert(self.montgomery_scale))
        y = f.multiply(self.x_scale, f.multiply(shifted, f.invert(big_x)))
        return f.subtract(shifted, 1), y


@cache
def bls12_377_g1_edwards() -> EdwardsMap:
    """The twisted Edwards form of BLS12-377 G1."""
    group = g1_group(BLS12_377)
    f = group.field
    root = f.square_root(3)
    assert root is not None
    montgomery_a = f.negate(min(root, f.negate(root)))  # 3*alpha*s with alpha = -1, s = 1/sqrt(3)
    scale = f.invert(f.negate(montgomery_a))
    # B = s, so that a = (A + 2)/s and d = (A - 2)/s before a becomes -1.
    a = f.multiply(f.add(montgomery_a, 2), f.invert(scale))
    d = f.multiply(f.subtract(montgomery_a, 2), f.invert(scale))
    x_scale = f.square_root(f.negate(a))
    assert x_scale is not None
    x_scale = min(x_scale, f.negate(x_scale))

    def curve(generator: tuple[int, int]) -> EdwardsCurve:
        """Known, as its law is not complete."""
        return EdwardsCurve.known(
            name="bls12_377.g1_edwards",
            fq=BLS12_377.fq,
            fr=BLS12_377.fr,
            a=-1,
            d=f.negate(f.multiply(d, f.invert(a))),
            generator=generator,
            cofactor=BLS12_377.g1.cofactor,
        )

    # The map gives the generator.
    form = EdwardsMap(group, curve((0, 1)), scale, x_scale)
    return replace(form, curve=curve(form.to_edwards(BLS12_377.g1.generator)))
