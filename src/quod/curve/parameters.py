"""Pairing-friendly curves, described by plain integers: equations, generators, endomorphisms.

`quod.curve.named` states only the parameters that define a curve; files of BLS12 curves compute
cofactors with the functions at the end. Frobenius and twist coefficients and lattice bases are
computed on first use. Nothing here is in Montgomery form and nothing uses a device.

Elements of Fq2 = Fq[u]/(u^2 - fq2_non_residue) are pairs ``(c0, c1)`` for ``c0 + c1*u``; affine
points are pairs ``(x, y)``; the point at infinity is None wherever points are plain integers.
"""

from __future__ import annotations

from enum import Enum
from functools import cache, cached_property
from typing import TypeVar, assert_never

from quod.field.moduli import Modulus
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
    """The sextic twist of G2: y^2 = x^3 + b/xi (D, divide) or y^2 = x^3 + b*xi (M, multiply)."""

    D = "d"
    M = "m"


T = TypeVar("T")


def by_family(family: Family, *, bn: T, bls12: T) -> T:
    """Return the argument for a family.

    There is no default, so a new family makes every call fail.
    """
    match family:
        case Family.BN:
            return bn
        case Family.BLS12:
            return bls12
        case _:
            assert_never(family)


def by_twist(twist: Twist, *, d: T, m: T) -> T:
    """Return the argument for a twist; there is no default, as in `by_family`."""
    match twist:
        case Twist.D:
            return d
        case Twist.M:
            return m
        case _:
            assert_never(twist)


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
        """Fq2 as an extension field for kernels."""
        return Extension.unchecked_binomial(f"{self.fq.name}2", self.fq, 2, self.fq2_non_residue)

    def multiply(self, a: Fq2Element, b: Fq2Element) -> Fq2Element:
        """Return the product of two elements of Fq2."""
        p = self.fq.value
        real = a[0] * b[0] + self.fq2_non_residue * a[1] * b[1]
        return real % p, (a[0] * b[1] + a[1] * b[0]) % p

    def invert(self, a: Fq2Element) -> Fq2Element:
        """Return the inverse in Fq2; raise ValueError for zero."""
        p = self.fq.value
        inverse_norm = pow(a[0] * a[0] - self.fq2_non_residue * a[1] * a[1], -1, p)
        return a[0] * inverse_norm % p, -a[1] * inverse_norm % p

    def power(self, a: Fq2Element, exponent: int) -> Fq2Element:
        """``a**exponent`` in Fq2 for an exponent of zero or more."""
        result = (1, 0)
        for bit in bin(exponent)[2:]:
            result = self.multiply(result, result)
            if bit == "1":
                result = self.multiply(result, a)
        return result

    def frobenius_coefficients(self, power: int) -> tuple[Fq2Element, ...]:
        """Return the six factors g_i = xi^(i*(q^power - 1)/6) in Fq2, i = 0..5.

        The map a -> a^(q^power) of Fq12 sends a_i*w^i to conj(a_i)*g_i*w^i, where conj is the
        conjugation of Fq2 for odd `power` and the identity for even.
        """
        return _frobenius_coefficients(self, power % 12)


@cache
def _frobenius_step(tower: Tower, power: int) -> Fq2Element:
    """Return g(power) = xi^((q^power - 1)/6), by g(n + 1) = conj(g(n)) * xi^((q - 1)/6)."""
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
    """E(Fq): y^2 = x^3 + a*x + b, and the generator of its subgroup of order r."""

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
        next_row = (rows[-2][0] - quotient * rows[-1][0], rows[-2][1] - quotient * rows[-1][1])
        first = (rows[-1][0], -rows[-1][1])
        candidates = [(rows[-2][0], -rows[-2][1]), (next_row[0], -next_row[1])]
        second = min(candidates, key=lambda row: max(abs(row[0]), abs(row[1])))
        if first[0] * second[1] - first[1] * second[0] < 0:
            second = (-second[0], -second[1])
        return first, second


@frozen
class PairingCurve:
    """A pairing-friendly curve of embedding degree 12 with a sextic twist.

    x: the (signed) parameter of the family.
    phi: the endomorphism of G1.
    snarkjs_name: the curve's name in the JSON files of snarkjs.
    aliases: further names that are accepted when reading such files.
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
    snarkjs_name: str
    aliases: tuple[str, ...] = ()

    @cached_property
    def trace(self) -> int:
        """Trace t of Frobenius on E(Fq): #E(Fq) = q + 1 - t."""
        return by_family(self.family, bn=6 * self.x**2 + 1, bls12=self.x + 1)

    @cached_property
    def ate_loop(self) -> int:
        """The (signed) length of the Miller loop of the optimal ate pairing: 6x + 2 or x."""
        return by_family(self.family, bn=6 * self.x + 2, bls12=self.x)

    @cached_property
    def psi_coefficients(self) -> tuple[Fq2Element, Fq2Element]:
        """(cx, cy) of psi(x, y) = (conj(x)*cx, conj(y)*cy) on E'(Fq2): untwist, Frobenius, twist.

        On G2 psi multiplies by `psi_eigenvalue`.
        """
        coefficients = self.tower.frobenius_coefficients(1)
        cx, cy = coefficients[2], coefficients[3]
        if by_twist(self.twist, d=False, m=True):
            return self.tower.invert(cx), self.tower.invert(cy)
        return cx, cy

    @cached_property
    def psi_eigenvalue(self) -> int:
        """t - 1, congruent to q modulo r. A point P of E'(Fq2) has order r exactly when
        psi(P) = (t - 1)*P (Scott, eprint 2021/1130; El Housni, Guillevic, Piellard, 2022/352)."""
        return self.trace - 1


def bls12_g1_cofactor(x: int) -> int:
    """The cofactor of G1 for the parameter of the family."""
    return (x - 1) ** 2 // 3


def bls12_g2_cofactor(x: int) -> int:
    """The cofactor of G2 for the parameter of the family."""
    return (x**8 - 4 * x**7 + 5 * x**6 - 4 * x**4 + 6 * x**3 - 4 * x**2 - 4 * x + 13) // 9
