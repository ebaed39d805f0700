"""The short Weierstrass model of a twisted Edwards curve, in which its MSMs are computed.

Affine additions that share inversions take 5 products and a square on a Weierstrass curve; the
Edwards addition in extended coordinates takes 8 products. The map goes through the Montgomery form
(Bernstein and others, "Twisted Edwards curves", AFRICACRYPT 2008, section 3): B*v^2 = u^3 + A*u^2 +
u with A = 2(a + d)/(a - d), B = 4/(a - d), u = (1 + y)/(1 - y), v = u/x. The coordinates of the
model are (u + A/3)/B and v/B. If a is a square and d is not, every point has an image: the neutral
element maps to infinity, and (0, -1) maps to (A/(3B), 0), which has order two.
"""

from __future__ import annotations

from functools import cache, cached_property

from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.edwards.point import EdwardsArithmetic
from quod.curve.group import Group
from quod.curve.parameters import G1Parameters, G1Point
from quod.curve.weierstrass.shared_inversion import share_inversion
from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


@frozen
class WeierstrassModel(Group):
    """The Weierstrass model of an Edwards curve, as a group for kernels."""

    edwards: EdwardsCurve

    degree = 1

    @property
    def name(self) -> str:
        return f"{self.edwards.name}.weierstrass"

    @property
    def coordinates(self) -> Modulus:
        return self.edwards.fq

    @property
    def scalars(self) -> Modulus:
        return self.edwards.fr

    @cached_property
    def parameters(self) -> G1Parameters:
        p = self.edwards.fq.value
        big_a, big_b = self.edwards.montgomery.a, self.edwards.montgomery.b
        a_square, b_square = big_a**2, big_b**2
        generator = self.from_edwards(self.edwards.generator)
        assert generator is not None
        return G1Parameters(
            a=(3 - a_square) * pow(3 * b_square, -1, p) % p,
            b=(2 * a_square - 9) * big_a * pow(27 * b_square * big_b, -1, p) % p,
            generator=generator,
            cofactor=self.edwards.cofactor,
        )

    def from_edwards(self, point: tuple[int, int]) -> G1Point:
        """Return the image of a point of the Edwards curve."""
        form, p = self.edwards.montgomery, self.edwards.fq.value
        image = self.edwards.to_montgomery(point)
        if image is None:
            return None
        b_inverse, third = pow(form.b, -1, p), pow(3, -1, p)
        return (image[0] + form.a * third) * b_inverse % p, image[1] * b_inverse % p

    def to_edwards(self, point: G1Point) -> tuple[int, int]:
        """Return the point of the Edwards curve with this image."""
        if point is None:
            return 0, 1
        form, p = self.edwards.montgomery, self.edwards.fq.value
        u = point[0] * form.b - form.a * pow(3, -1, p)
        return self.edwards.from_montgomery((u, point[1] * form.b))


@cache
def model_of(curve: EdwardsCurve) -> WeierstrassModel:
    """Return the Weierstrass model of a curve."""
    return WeierstrassModel(curve)


@kernel
def edwards_to_model(
    k: Builder,
    instances: U32,
    count: U32,
    points: Pointer[U64],
    prefixes: Pointer[U64],
    out: Pointer[U64],
    *,
    model: WeierstrassModel,
) -> None:
    """Map affine points of an Edwards curve to affine points of its model.

    Instance i maps points i, i + instances, ... with one inversion (Montgomery's trick);
    `prefixes` is overwritten and has one element per point.
    """
    f = EdwardsArithmetic(k, model.edwards).field
    p = model.edwards.fq.value
    big_a, big_b = model.edwards.montgomery.a, model.edwards.montgomery.b
    b_inverse = pow(big_b, -1, p)
    shift = big_a * pow(3 * big_b, -1, p) % p
    one = f.one()

    def load(index: Value) -> tuple[Element, Element, Value]:
        """Load a point: x, y, and whether x is zero."""
        point_index = index.cast(types.u64)
        x, y = f.load(points, point_index * 2), f.load(points, point_index * 2 + 1)
        return x, y, f.words_are_zero(f.load_words(points, point_index * 2))

    def denominator(point: tuple[Element, Element, Value]) -> Element:
        """Return x*(1 - y), or 1 where x is zero."""
        x, y, x_is_zero = point
        # `bounded` gives both values the bounds that a select needs.
        return f.select(x_is_zero, f.bounded(one), f.bounded(x * (one - y)))

    def store(index: Value, point: tuple[Element, Element, Value], inverse: Element) -> None:
        point_index, (x, y, x_is_zero) = index.cast(types.u64), point
        # v = (1 + y)/(x*(1 - y)), and u = v * x.
        v = (one + y) * inverse
        new_x = v * x * f.constant(b_inverse) + f.constant(shift)
        x_words, y_words = f.to_words(new_x), f.to_words(v * f.constant(b_inverse))
        # Where x = 0, (0, 1) is the neutral element and (0, -1) has order two.
        neutral = x_is_zero & ~f.is_zero(y + one)
        x_of_order_two = f.to_words(f.constant(shift))
        zero = k.constant(0, types.u64)
        x_words = tuple(
            k.select(neutral, zero, k.select(x_is_zero, order_two_word, word))
            for order_two_word, word in zip(x_of_order_two, x_words, strict=True)
        )
        y_words = tuple(k.select(x_is_zero, zero, word) for word in y_words)
        f.store_words_at(out, point_index * model.point_words, x_words)
        f.store_words_at(out, point_index * model.point_words + model.coordinate_words, y_words)

    share_inversion(k, f, instances, count, prefixes, load, denominator, store)
