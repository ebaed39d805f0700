"""Maps from Fq and Fq2 to BLS12-381 G1 and G2 (RFC 9380; EIP-2537's map precompiles).

The simplified SWU map gives a point on a curve with a*b != 0 that is isogenous to the target curve.
Then the isogeny is applied and the cofactor is cleared. RFC 9380 prints the isogenies as tables of
coefficients. Here they are computed from their kernels by Kohel's formulas ("Endomorphism rings of
elliptic curves over finite fields", 1996, section 2.4), which need only the
kernel polynomial, of degree 5 or 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import Generic

from quod.curve.coordinates import C, Coordinates, fq2_of, fq_of
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.parameters import Fq2Element, G1Point, G2Point
from quod.curve.weierstrass.affine import g1_group, g2_group, psi
from quod.frozen import frozen

# A polynomial is the list of its coefficients, the constant first.


@frozen
class _Polynomials(Generic[C]):
    """Arithmetic of polynomials over a field of coordinates."""

    field: Coordinates[C]

    def add(self, a: list[C], b: list[C]) -> list[C]:
        size = max(len(a), len(b))
        zeros = [self.field.zero] * size
        return [self.field.add(x, y) for x, y in zip((a + zeros)[:size], (b + zeros)[:size])]

    def scale(self, a: list[C], factor: int) -> list[C]:
        return [self.field.scale(x, factor) for x in a]

    def multiply(self, a: list[C], b: list[C]) -> list[C]:
        product = [self.field.zero] * (len(a) + len(b) - 1)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                product[i + j] = self.field.add(product[i + j], self.field.multiply(x, y))
        return product

    def derivative(self, a: list[C]) -> list[C]:
        return [self.field.scale(x, i) for i, x in enumerate(a)][1:] or [self.field.zero]

    def evaluate(self, a: list[C], x: C) -> C:
        value = self.field.zero
        for coefficient in reversed(a):
            value = self.field.add(self.field.multiply(value, x), coefficient)
        return value


@frozen
class _SwuMap(Generic[C]):
    """The simplified SWU map to y^2 = x^3 + a*x + b, then an isogeny to y^2 = x^3 + b'.

    z: the non-square of the map.
    kernel: the monic polynomial whose roots are the x of the points that the isogeny maps to
        infinity.
    degree: the degree of the isogeny.
    scale: the isogeny maps (x, y) to (scale^2 * X, scale^3 * Y), where (X, Y) is the image under
        the normalised isogeny.
    """

    field: Coordinates[C]
    a: C
    b: C
    z: C
    kernel: list[C]
    degree: int
    scale: C

    @cached_property
    def numerator(self) -> list[C]:
        """The polynomial N with X = N(x) / k(x)^2 for the normalised isogeny, k being the kernel.

        N = 4*(x^3 + a*x + b)*(k'^2 - k*k'') - (6*x^2 + 2*a)*k'*k + (degree*x - 2*s)*k^2, where s is
        the sum of the roots of k.
        """
        p, f = _Polynomials(self.field), self.field
        kernel = self.kernel
        kernel_derivative = p.derivative(kernel)
        second_derivative = p.derivative(kernel_derivative)
        cubic = [f.scale(self.b, 4), f.scale(self.a, 4), f.zero, f.scale(f.one, 4)]
        half_slope = [f.scale(self.a, 2), f.zero, f.scale(f.one, 6)]
        curvature = p.add(
            p.multiply(kernel_derivative, kernel_derivative),
            p.scale(p.multiply(kernel, second_derivative), -1),
        )
        # The sum of the roots is the negative of the second-highest coefficient.
        linear = [f.scale(kernel[-2], 2), f.scale(f.one, self.degree)]
        total = p.multiply(cubic, curvature)
        total = p.add(
            total, p.scale(p.multiply(half_slope, p.multiply(kernel_derivative, kernel)), -1)
        )
        total = p.add(total, p.multiply(linear, p.multiply(kernel, kernel)))
        while total[-1] == f.zero:
            total.pop()
        return total

    def right_side(self, x: C) -> C:
        """x^3 + a*x + b."""
        f = self.field
        return f.add(f.multiply(f.add(f.square(x), self.a), x), self.b)

    def swu(self, u: C) -> tuple[C, C]:
        """Map u to a point of the isogenous curve (RFC 9380, section 6.6.2)."""
        f = self.field
        zu2 = f.multiply(self.z, f.square(u))
        divisor = f.add(f.square(zu2), zu2)
        if divisor == f.zero:
            x = f.multiply(self.b, f.invert(f.multiply(self.z, self.a)))
        else:
            minus_b_over_a = f.negate(f.multiply(self.b, f.invert(self.a)))
            x = f.multiply(minus_b_over_a, f.add(f.one, f.invert(divisor)))
        y = f.square_root(self.right_side(x))
        if y is None:
            x = f.multiply(zu2, x)
            y = f.square_root(self.right_side(x))
            assert y is not None  # z is a non-square, so one of the two right sides is a square
        return x, y if f.is_odd(y) == f.is_odd(u) else f.negate(y)

    def isogeny(self, point: tuple[C, C]) -> tuple[C, C] | None:
        """Map a point of the isogenous curve to the target curve; None is infinity."""
        p, f = _Polynomials(self.field), self.field
        x, y = point
        kernel_value = p.evaluate(self.kernel, x)
        if kernel_value == f.zero:
            return None
        inverse = f.invert(kernel_value)
        square = f.square(inverse)
        image = f.multiply(p.evaluate(self.numerator, x), square)
        # Y = y * dX/dx = y * (N' - 2*X*kernel*kernel') / kernel^2
        correction = f.multiply(
            f.scale(f.multiply(image, kernel_value), 2),
            p.evaluate(p.derivative(self.kernel), x),
        )
        derivative = f.subtract(p.evaluate(p.derivative(self.numerator), x), correction)
        derivative = f.multiply(derivative, square)
        scale_squared = f.square(self.scale)
        return (
            f.multiply(scale_squared, image),
            f.multiply(f.multiply(scale_squared, self.scale), f.multiply(y, derivative)),
        )


_FQ, _FQ2 = fq_of(BLS12_381), fq2_of(BLS12_381)

_G1_MAP = _SwuMap(
    field=_FQ,
    a=0x144698A3B8E9433D693A02C96D4982B0EA985383EE66A8D8E8981AEFD881AC98936F8DA0E0F97F5CF428082D584C1D,
    b=0x12E2908D11688030018B12E8753EEE3B2016C1F0F24F4070A0B9C14FCEF35EF55A23215A316CEAA5D1CC48E98E172BE0,
    z=11,
    kernel=[
        0x133341FB0962A34CB0504A9C4FADA0A5090D38679B4C040D5D1C3AFB023A3409FCC0815FEA66D8B02BBEF9C8B5A66E07,
        0x0264908AF037BCEDE00D054CF5D4775E83EB6CF63C76B969F8ED174FB59FCFF78D201F46F6CFC4ED6552E59CE75177B0,
        0x1335C502C1F54C49ACEEA65E87FD7203BA0F626F305FC0CFD606A5DAE9F3C8E81A4B3B69600129FABD307C69BF319D39,
        0x094440F65F408A6E930E16E3E92DD17BF60D6E9679A8D3D58593DE55AC23703042D609537EB3549AAC234D896CA82944,
        0x04AFE09D5CF4956A23B6B71F59D2B3407B415A774B7BE81BBB6FA99CBC798E0AC98BA725A5BC328016B1C268B4766E85,
        1,
    ],
    degree=11,
    scale=_FQ.invert(11),
)

_G2_MAP = _SwuMap(
    field=_FQ2,
    a=(0, 240),
    b=(1012, 1012),
    z=_FQ2.negate((2, 1)),
    kernel=[_FQ2.subtract((6, 0), (0, 6)), _FQ2.one],
    degree=3,
    scale=_FQ2.negate(_FQ2.invert((3, 0))),
)


def map_fp_to_g1(u: int) -> G1Point:
    """Map an element u of Fq to BLS12-381 G1: SWU, 11-isogeny, cofactor 1 - x.

    Raises ValueError if u is not in [0, q).
    """
    if not 0 <= u < _FQ.p:
        raise ValueError("u is not below the modulus")
    point = _G1_MAP.isogeny(_G1_MAP.swu(u))
    return g1_group(BLS12_381).multiply(1 - BLS12_381.x, point)


def map_fp2_to_g2(u: Fq2Element) -> G2Point:
    """Map an element u of Fq2 to BLS12-381 G2: SWU, 3-isogeny, cofactor.

    Raises ValueError if a coefficient of u is not in [0, q).
    """
    if not all(0 <= part < _FQ.p for part in u):
        raise ValueError("u is not below the modulus")
    return clear_g2_cofactor(_G2_MAP.isogeny(_G2_MAP.swu(u)))


def clear_g2_cofactor(point: G2Point) -> G2Point:
    """Multiply a point of E'(Fq2) by h_eff of RFC 9380, section 8.8.2; the result is in G2.

    Budroni and Pintore (eprint 2017/419): (x^2 - x - 1)*P + (x - 1)*psi(P) + psi^2(2*P).
    """
    group, x = g2_group(BLS12_381), BLS12_381.x
    times_x = group.multiply(x, point)
    image = psi(BLS12_381, point)
    # x*(x*P + psi(P)) - (x*P + psi(P)) - P + psi^2(2*P)
    partial = group.add(times_x, image)
    result = group.add(group.multiply(x, partial), group.negate(partial))
    result = group.add(result, group.negate(point))
    return group.add(result, psi(BLS12_381, psi(BLS12_381, group.add(point, point))))
