"""The named curves as plain integers: equations, generators, endomorphisms.

Only what defines a curve is typed here; what follows from it (cofactors, Frobenius and twist
coefficients, lattice bases) is computed on first use. Nothing here is in Montgomery form and
nothing touches a device.

Elements of Fq2 = Fq[u]/(u^2 - fq2_non_residue) are pairs ``(c0, c1)`` for ``c0 + c1*u``; affine
points are pairs ``(x, y)``; the point at infinity is None wherever points are plain integers.

Sources: Barreto and Naehrig (SAC 2005) and EIP-196/197 for BN254; Barreto, Lynn and Scott (SCN
2002), draft-irtf-cfrg-pairing-friendly-curves-11 for BLS12-381; Bowe et al., "Zexe" (S&P 2020) for
BLS12-377 and Edwards BLS12.
"""

from __future__ import annotations

from enum import Enum
from functools import cache, cached_property

from quod.field.moduli import (
    BLS12_377_FQ,
    BLS12_377_FR,
    BLS12_381_FQ,
    BLS12_381_FR,
    BN254_FQ,
    BN254_FR,
    Modulus,
)
from quod.field.spec import Extension
from quod.frozen import frozen

Fq2Element = tuple[int, int]
G1Point = tuple[int, int] | None
G2Point = tuple[Fq2Element, Fq2Element] | None


class Family(Enum):
    """The polynomial family that gives q, r and the trace in terms of the parameter x."""

    BN = "bn"
    BLS12 = "bls12"


class Twist(Enum):
    """How G2 sits in E(Fq12): y^2 = x^3 + b/xi (D, divide) or y^2 = x^3 + b*xi (M, multiply)."""

    D = "d"
    M = "m"


@frozen
class Tower:
    """Fq2 = Fq[u]/(u^2 - beta), Fq6 = Fq2[v]/(v^3 - xi), Fq12 = Fq6[w]/(w^2 - v).

    `fq2_non_residue` is beta, `fq6_non_residue` is xi in Fq2. An element of Fq12 is also the sum of
    a_i * w^i over i = 0..5 with a_i in Fq2; the coefficient of v^j * w^k has i = 2*j + k.
    """

    fq: Modulus
    fq2_non_residue: int
    fq6_non_residue: Fq2Element

    @cached_property
    def fq2(self) -> Extension:
        """Fq2, as kernels take it."""
        return Extension.known(f"{self.fq.name}2", self.fq, 2, self.fq2_non_residue)

    def multiply(self, a: Fq2Element, b: Fq2Element) -> Fq2Element:
        """The product of two elements of Fq2."""
        p = self.fq.value
        real = a[0] * b[0] + self.fq2_non_residue * a[1] * b[1]
        return real % p, (a[0] * b[1] + a[1] * b[0]) % p

    def invert(self, a: Fq2Element) -> Fq2Element:
        """The inverse in Fq2; ValueError for zero."""
        p = self.fq.value
        norm = pow(a[0] * a[0] - self.fq2_non_residue * a[1] * a[1], -1, p)
        return a[0] * norm % p, -a[1] * norm % p

    def power(self, a: Fq2Element, exponent: int) -> Fq2Element:
        """``a**exponent`` in Fq2 for an exponent of zero or more."""
        result = (1, 0)
        for bit in bin(exponent)[2:]:
            result = self.multiply(result, result)
            if bit == "1":
                result = self.multiply(result, a)
        return result

    def frobenius_coefficients(self, power: int) -> tuple[Fq2Element, ...]:
        """Six factors g_i = xi^(i*(q^power - 1)/6) in Fq2, i = 0..5.

        The map a -> a^(q^power) of Fq12 sends a_i*w^i to conj(a_i)*g_i*w^i, where conj is the
        conjugation of Fq2 for odd `power` and the identity for even.
        """
        return _frobenius_coefficients(self, power % 12)


@cache
def _frobenius_step(tower: Tower, power: int) -> Fq2Element:
    """xi^((q^power - 1)/6), each from the one before: g' = conj(g) * xi^((q - 1)/6)."""
    if power == 0:
        return 1, 0
    if power == 1:
        return tower.power(tower.fq6_non_residue, (tower.fq.value - 1) // 6)
    real, imaginary = _frobenius_step(tower, power - 1)
    return tower.multiply((real, -imaginary), _frobenius_step(tower, 1))


@cache
def _frobenius_coefficients(tower: Tower, power: int) -> tuple[Fq2Element, ...]:
    step = _frobenius_step(tower, power)
    coefficients: list[Fq2Element] = [(1, 0)]
    for _ in range(5):
        coefficients.append(tower.multiply(coefficients[-1], step))
    return tuple(coefficients)


@frozen
class G1Parameters:
    """E(Fq): y^2 = x^3 + b, and the generator of its subgroup of order r. `a` is 0."""

    b: int
    generator: tuple[int, int]
    cofactor: int
    a: int = 0


@frozen
class G2Parameters:
    """E'(Fq2): y^2 = x^3 + b, and the generator of its subgroup of order r. `a` is 0."""

    b: Fq2Element
    generator: tuple[Fq2Element, Fq2Element]
    cofactor: int
    a: Fq2Element = (0, 0)


@frozen
class Endomorphism:
    """phi(x, y) = (beta*x, y), which acts on the subgroup of order r as multiplication by
    `eigenvalue` (Gallant, Lambert and Vanstone, CRYPTO 2001).

    `basis` holds two short vectors (a, b) with a + b*eigenvalue = 0 mod r and determinant +r.
    """

    beta: int
    eigenvalue: int
    order: int

    @cached_property
    def basis(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Two short vectors of the lattice of relations, by the extended Euclidean algorithm."""
        rows = [(self.order, 0), (self.eigenvalue, 1)]
        while rows[-1][0] ** 2 >= self.order:
            quotient = rows[-2][0] // rows[-1][0]
            rows.append(
                (rows[-2][0] - quotient * rows[-1][0], rows[-2][1] - quotient * rows[-1][1])
            )
        quotient = rows[-2][0] // rows[-1][0]
        after = (rows[-2][0] - quotient * rows[-1][0], rows[-2][1] - quotient * rows[-1][1])
        first = (rows[-1][0], -rows[-1][1])
        candidates = [(rows[-2][0], -rows[-2][1]), (after[0], -after[1])]
        second = min(candidates, key=lambda row: max(abs(row[0]), abs(row[1])))
        if first[0] * second[1] - first[1] * second[0] < 0:
            second = (-second[0], -second[1])
        return first, second

    def decompose(self, scalar: int) -> tuple[int, int]:
        """Signed (k0, k1) with scalar = k0 + k1*eigenvalue mod r and both about sqrt(r) in size."""
        (a0, b0), (a1, b1) = self.basis
        c0 = _rounded(b1 * scalar, self.order)
        c1 = _rounded(-b0 * scalar, self.order)
        return scalar - c0 * a0 - c1 * a1, -c0 * b0 - c1 * b1

    @cached_property
    def half_bits(self) -> int:
        """Bits that hold the absolute value of either half of any decomposition."""
        (a0, b0), (a1, b1) = self.basis
        # Rounding leaves at most half of each basis vector.
        return max((abs(a0) + abs(a1)) // 2, (abs(b0) + abs(b1)) // 2).bit_length()


def _rounded(numerator: int, denominator: int) -> int:
    """The integer nearest to the quotient, ties upward."""
    return (2 * numerator + denominator) // (2 * denominator)


@frozen
class PairingCurve:
    """A pairing-friendly curve of embedding degree 12 with a sextic twist.

    `x` is the (signed) parameter of the family.
    """

    name: str
    family: Family
    fq: Modulus
    fr: Modulus
    x: int
    tower: Tower
    twist: Twist
    g1: G1Parameters
    g2: G2Parameters
    phi: Endomorphism

    @cached_property
    def trace(self) -> int:
        """Trace t of Frobenius on E(Fq): #E(Fq) = q + 1 - t."""
        return 6 * self.x**2 + 1 if self.family is Family.BN else self.x + 1

    @cached_property
    def ate_loop(self) -> int:
        """The (signed) length of the Miller loop of the optimal ate pairing: 6x + 2 or x."""
        return 6 * self.x + 2 if self.family is Family.BN else self.x

    @cached_property
    def psi_coefficients(self) -> tuple[Fq2Element, Fq2Element]:
        """(cx, cy) of psi(x, y) = (conj(x)*cx, conj(y)*cy) on E'(Fq2): untwist, Frobenius, twist.

        On G2 psi multiplies by `psi_eigenvalue`.
        """
        coefficients = self.tower.frobenius_coefficients(1)
        cx, cy = coefficients[2], coefficients[3]
        if self.twist is Twist.M:
            return self.tower.invert(cx), self.tower.invert(cy)
        return cx, cy

    @cached_property
    def psi_eigenvalue(self) -> int:
        """t - 1, congruent to q modulo r. A point P of E'(Fq2) has order r exactly when
        psi(P) = (t - 1)*P (Scott, eprint 2021/1130; El Housni, Guillevic, Piellard, 2022/352)."""
        return self.trace - 1


@frozen
class EdwardsCurve:
    """The twisted Edwards curve a*x^2 + y^2 = 1 + d*x^2*y^2 over Fq and its subgroup of order r.

    The addition law is complete (no exceptional points) when a is a square and d is not.
    """

    name: str
    fq: Modulus
    fr: Modulus
    a: int
    d: int
    generator: tuple[int, int]
    cofactor: int


def _bls12_g1_cofactor(x: int) -> int:
    return (x - 1) ** 2 // 3


def _bls12_g2_cofactor(x: int) -> int:
    return (x**8 - 4 * x**7 + 5 * x**6 - 4 * x**4 + 6 * x**3 - 4 * x**2 - 4 * x + 13) // 9


_BN254_X = 4965661367192848881
_BLS12_381_X = -0xD201000000010000
_BLS12_377_X = 0x8508C00000000001

_BN254_TOWER = Tower(BN254_FQ, -1, (9, 1))

BN254 = PairingCurve(
    name="bn254",
    family=Family.BN,
    fq=BN254_FQ,
    fr=BN254_FR,
    x=_BN254_X,
    tower=_BN254_TOWER,
    twist=Twist.D,
    g1=G1Parameters(b=3, generator=(1, 2), cofactor=1),
    g2=G2Parameters(
        b=_BN254_TOWER.multiply((3, 0), _BN254_TOWER.invert((9, 1))),
        generator=(
            (
                10857046999023057135944570762232829481370756359578518086990519993285655852781,
                11559732032986387107991004021392285783925812861821192530917403151452391805634,
            ),
            (
                8495653923123431417604973247489272438418190587263600148770280649306958101930,
                4082367875863433681332203403145435568316851327593401208105741076214120093531,
            ),
        ),
        cofactor=2 * BN254_FQ.value - BN254_FR.value,
    ),
    phi=Endomorphism(
        beta=0x59E26BCEA0D48BACD4F263F1ACDB5C4F5763473177FFFFFE,
        eigenvalue=36 * _BN254_X**3 + 18 * _BN254_X**2 + 6 * _BN254_X + 1,
        order=BN254_FR.value,
    ),
)

BLS12_381 = PairingCurve(
    name="bls12_381",
    family=Family.BLS12,
    fq=BLS12_381_FQ,
    fr=BLS12_381_FR,
    x=_BLS12_381_X,
    tower=Tower(BLS12_381_FQ, -1, (1, 1)),
    twist=Twist.M,
    g1=G1Parameters(
        b=4,
        generator=(
            0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
            0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
        ),
        cofactor=_bls12_g1_cofactor(_BLS12_381_X),
    ),
    g2=G2Parameters(
        b=(4, 4),
        generator=(
            (
                352701069587466618187139116011060144890029952792775240219908644239793785735715026873347600343865175952761926303160,
                3059144344244213709971259814753781636986470325476647558659373206291635324768958432433509563104347017837885763365758,
            ),
            (
                1985150602287291935568054521177171638300868978215655730859378665066344726373823718423869104263333984641494340347905,
                927553665492332455747201965776037880757740193453592970025027978793976877002675564980949289727957565575433344219582,
            ),
        ),
        cofactor=_bls12_g2_cofactor(_BLS12_381_X),
    ),
    phi=Endomorphism(
        beta=0x1A0111EA397FE699EC02408663D4DE85AA0D857D89759AD4897D29650FB85F9B409427EB4F49FFFD8BFD00000000AAAC,
        eigenvalue=_BLS12_381_X**2 - 1,
        order=BLS12_381_FR.value,
    ),
)

BLS12_377 = PairingCurve(
    name="bls12_377",
    family=Family.BLS12,
    fq=BLS12_377_FQ,
    fr=BLS12_377_FR,
    x=_BLS12_377_X,
    tower=Tower(BLS12_377_FQ, -5, (0, 1)),
    twist=Twist.D,
    g1=G1Parameters(
        b=1,
        generator=(
            81937999373150964239938255573465948239988671502647976594219695644855304257327692006745978603320413799295628339695,
            241266749859715473739788878240585681733927191168601896383759122102112907357779751001206799952863815012735208165030,
        ),
        cofactor=_bls12_g1_cofactor(_BLS12_377_X),
    ),
    g2=G2Parameters(
        b=Tower(BLS12_377_FQ, -5, (0, 1)).invert((0, 1)),
        generator=(
            (
                233578398248691099356572568220835526895379068987715365179118596935057653620464273615301663571204657964920925606294,
                140913150380207355837477652521042157274541796891053068589147167627541651775299824604154852141315666357241556069118,
            ),
            (
                63160294768292073209381361943935198908131692476676907196754037919244929611450776219210369229519898517858833747423,
                149157405641012693445398062341192467754805999074082136895788947234480009303640899064710353187729182149407503257491,
            ),
        ),
        cofactor=_bls12_g2_cofactor(_BLS12_377_X),
    ),
    phi=Endomorphism(
        beta=0x09B3AF05DD14F6EC619AAF7D34594AABC5ED1347970DEC00452217CC900000008508C00000000001,
        eigenvalue=_BLS12_377_X**2 - 1,
        order=BLS12_377_FR.value,
    ),
)

CURVES: dict[str, PairingCurve] = {curve.name: curve for curve in (BN254, BLS12_381, BLS12_377)}

EDWARDS_BLS12 = EdwardsCurve(
    name="edwards_bls12",
    fq=BLS12_377_FR,
    fr=Modulus.known(
        "edwards_bls12.fr",
        2111115437357092606062206234695386632838870926408408195193685246394721360383,
    ),
    a=-1,
    d=3021,
    generator=(
        4497879464030519973909970603271755437257548612157028181994697785683032656389,
        4357141146396347889246900916607623952598927460421559113092863576544024487809,
    ),
    cofactor=4,
)
