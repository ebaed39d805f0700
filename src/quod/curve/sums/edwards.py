"""Sums on the twisted Edwards form of a Weierstrass curve: adding a base takes 7 products.

A curve y^2 = x^3 + b with a point (alpha, 0) of order two has the Montgomery form
s*v^2 = u^3 + 3*alpha*s*u^2 + u with s = 1/(sqrt(3)*alpha), u = s*(x - alpha), v = s*y (Okeya,
Kurumatani, Sakurai, PKC 2000). If the square roots exist in the field, the Montgomery form has the
Edwards form -X^2 + Y^2 = 1 + d*X^2*Y^2 with X = scale*u/v, Y = (u - 1)/(u + 1) (Bernstein, Birkner,
Joye, Lange, Peters, AFRICACRYPT 2008, theorem 3.2). Of the named groups bls12_377.g1 has one.

Additions are add-2008-hwcd-3 of the Explicit-Formulas Database. d is a square, so some additions
are exceptional. They are those of points that differ by a point of even order (Bernstein, Lange,
"A complete set of addition laws for incomplete Edwards curves", theorem 8.3). Two points of odd
order never differ by such a point, so bases must be in the subgroup of prime order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.curve.coordinates import FqCoordinates
from quod.curve.edwards.point import EdwardsPoint, added, added_base, doubled
from quod.curve.group import Group
from quod.curve.sums.entries import SIGN_BIT
from quod.curve.sums.forms import Coordinates, SumArithmetic
from quod.curve.weierstrass.shared_inversion import share_inversion
from quod.field.element import Element
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Operand, Pointer, Value


@frozen
class EdwardsForm:
    """The map X = scale * (x - alpha) / y, Y = (s*(x - alpha) - 1)/(s*(x - alpha) + 1)."""

    alpha: int
    s: int
    scale: int
    d: int


@cache
def edwards_form(group: Group) -> EdwardsForm | None:
    """Return the Edwards form of a group with a = -1 over the same field, or None without one."""
    if group.degree != 1 or group.parameters.a != 0:
        return None
    field, p = FqCoordinates(group.coordinates.value), group.coordinates.value
    b = group.parameters.b
    assert isinstance(b, int)
    alpha = -b % p
    root_of_3 = field.square_root(3)
    # alpha must be a cube root of -b. Only alpha = -b is tried, which suffices for b = 1.
    if pow(alpha, 3, p) != alpha or root_of_3 is None:
        return None
    s = pow(alpha * root_of_3, -1, p)
    a = (3 * alpha * s + 2) * pow(s, -1, p) % p
    scale = field.square_root(-a % p)
    if scale is None:
        return None
    d = (2 - 3 * alpha * s) * pow(a * s, -1, p) % p
    return EdwardsForm(alpha, s, scale, d)


@frozen
class _Base:
    """A base: Y - X, Y + X and 2*d*X*Y of an affine point."""

    minus: Element
    plus: Element
    product: Element


class EdwardsSums(SumArithmetic[EdwardsPoint]):
    """The arithmetic of bases (Y - X, Y + X, 2*d*X*Y) and sums (X, Y, Z, T).

    A sum in memory whose words are all zero is the neutral element too.
    """

    def __init__(self, k: Builder, group: Group) -> None:
        form = edwards_form(group)
        if form is None:
            raise ValueError(f"{group.name} has no Edwards form")
        self.k = k
        self.group = group
        self.form = form
        self.field = prime_field(k, group.coordinates)
        self.base_words = 3 * group.coordinate_words
        self.sum_words = 4 * group.coordinate_words

    def base(self, words: Sequence[Value], entry: Value) -> _Base:
        f, size = self.field, self.group.coordinate_words
        minus, plus, product = (
            f.from_words(words[i * size : (i + 1) * size]) for i in range(3)
        )  # fmt: skip
        is_negative = (entry & SIGN_BIT) != 0
        return _Base(
            f.select(is_negative, plus, minus), f.select(is_negative, minus, plus),
            f.select(is_negative, f.negate(product), product),
        )  # fmt: skip

    # --- incomplete additions

    def begin(self, base: _Base) -> Coordinates:
        f = self.field
        # Coordinates 2*X and 2*Y with Z = 2, so T = 2*X*Y, which is the base's product over d.
        x, y = base.plus - base.minus, base.plus + base.minus
        t = base.product * f.constant(pow(self.form.d, -1, f.p))
        return self._carried(x, y, f.constant(2), t)

    def _carried(self, *coordinates: Element) -> Coordinates:
        return tuple(self.field.bounded(part) for part in coordinates)

    def add_base(self, total: Coordinates, base: _Base) -> Coordinates:
        point = EdwardsPoint(*total)
        return added_base(self.field, point, base.minus, base.plus, base.product)

    def failed(self, total: Coordinates) -> None:
        return None

    def store_coordinates(self, sums: Value, index: Operand, total: Coordinates) -> None:
        f, size = self.field, self.group.coordinate_words
        offset = self.k.operand(index, types.u64).cast(types.u64) * self.sum_words
        for part, element in enumerate(total):
            f.store_words_at(sums, offset + part * size, f.to_words(element))

    # --- complete additions

    def neutral(self) -> EdwardsPoint:
        f = self.field
        return EdwardsPoint(*self._carried(f.zero(), f.one(), f.one(), f.zero()))

    def add_base_completely(self, total: EdwardsPoint, base: _Base) -> EdwardsPoint:
        return EdwardsPoint(*self.add_base((total.x, total.y, total.z, total.t), base))

    def add(self, p: EdwardsPoint, q: EdwardsPoint) -> EdwardsPoint:
        result: EdwardsPoint = self.k.call(
            f"add_sums.{self.group.name}", self._add, p, q, key=self.group
        )
        return result

    def _add(self, k: Builder, p: EdwardsPoint, q: EdwardsPoint) -> EdwardsPoint:
        return added(self.field, p, q, self.form.d)

    def double(self, p: EdwardsPoint) -> EdwardsPoint:
        result: EdwardsPoint = self.k.call(
            f"double_sum.{self.group.name}", self._double, p, key=self.group
        )
        return result

    def _double(self, k: Builder, p: EdwardsPoint) -> EdwardsPoint:
        return doubled(self.field, p)

    def load(self, sums: Value, index: Operand) -> EdwardsPoint:
        f, size = self.field, self.group.coordinate_words
        offset = self.k.operand(index, types.u64).cast(types.u64) * self.sum_words
        words = [f.load_words_at(sums, offset + part * size) for part in range(4)]
        x, y, z, t = (f.from_words(part) for part in words)
        is_unset = f.words_are_zero(words[2])
        one = f.one()
        y, z = f.select(is_unset, one, y), f.select(is_unset, one, z)
        return EdwardsPoint(*self._carried(x, y, z, t))

    def store(self, sums: Value, index: Operand, p: EdwardsPoint) -> None:
        self.store_coordinates(sums, index, (p.x, p.y, p.z, p.t))

    def to_affine_words(self, p: EdwardsPoint) -> tuple[Value, ...]:
        """Return the words of x and y from u = (Z + Y)/(Z - Y) and v = scale*u*Z/X.

        Costs one inversion. X = 0 is infinity, whose words are zero.
        """
        f, form = self.field, self.form
        inverse_s = pow(form.s, -1, f.p)
        z_minus_y = p.z - p.y
        inverse = f.bounded(f.inverse(f.bounded(z_minus_y * p.x)))
        z_plus_y = p.z + p.y
        x = z_plus_y * p.x * inverse * f.constant(inverse_s) + f.constant(form.alpha)
        y = z_plus_y * p.z * inverse * f.constant(form.scale * inverse_s)
        is_neutral = f.is_zero(p.x)
        zero = self.k.constant(0, types.u64)
        words = (*f.to_words(x), *f.to_words(y))
        return tuple(self.k.select(is_neutral, zero, word) for word in words)


@kernel
def to_edwards(
    k: Builder,
    instances: U32,
    count: U32,
    points: Pointer[U64],
    prefixes: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Map affine points of odd order of a Weierstrass curve to bases of its Edwards form.

    Instance i maps points i, i + instances, ... with one inversion (Montgomery's trick);
    `prefixes` is overwritten and has one element per point. Infinity becomes the neutral element.
    """
    law = EdwardsSums(k, group)
    f, form = law.field, law.form
    one = f.bounded(f.one())
    s, shift = f.constant(form.s), f.constant(form.s * form.alpha)

    def load(index: Value) -> tuple[Element, Element]:
        """Load a point: u and y."""
        point_index = index.cast(types.u64)
        x, y = f.load(points, point_index * 2), f.load(points, point_index * 2 + 1)
        return f.bounded(x * s - shift), y

    def denominator(point: tuple[Element, Element]) -> Element:
        """Return y*(u + 1), or 1 for infinity."""
        u, y = point
        # Finite points with y = 0 have order two, so of points of odd order only infinity has it.
        is_infinite = f.words_are_zero(f.to_words(y))
        return f.select(is_infinite, one, f.bounded(y * (u + f.one())))

    def store(index: Value, point: tuple[Element, Element], inverse: Element) -> None:
        point_index, (u, y) = index.cast(types.u64), point
        x = u * (u + f.one()) * inverse * f.constant(form.scale * pow(form.s, -1, f.p))
        edwards_y = (u - f.one()) * y * inverse
        is_infinite = f.is_zero(y)
        x = f.select(is_infinite, f.bounded(f.zero()), f.bounded(x))
        edwards_y = f.select(is_infinite, one, f.bounded(edwards_y))
        product = x * edwards_y * f.constant(2 * form.d)
        for part, element in enumerate((edwards_y - x, edwards_y + x, product)):
            f.store(out, point_index * 3 + part, element)

    share_inversion(k, f, instances, count, prefixes, load, denominator, store)
