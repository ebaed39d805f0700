"""Prime fields and their extensions on plain integers.

A field is an object; its elements are bare values: integers below p in a prime field, pairs in a
quadratic extension, triples in a cubic one. Nothing is in Montgomery form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

from quod.curve.parameters import PairingCurve

Element = TypeVar("Element")
Fq2 = tuple[int, int]
Fq6 = tuple[Fq2, Fq2, Fq2]
Fq12 = tuple[Fq6, Fq6]


class Field(ABC, Generic[Element]):
    """The operations of a field. `order` is the number of its elements."""

    order: int
    zero: Element
    one: Element

    @abstractmethod
    def add(self, a: Element, b: Element) -> Element: ...

    @abstractmethod
    def neg(self, a: Element) -> Element: ...

    @abstractmethod
    def mul(self, a: Element, b: Element) -> Element: ...

    @abstractmethod
    def inv(self, a: Element) -> Element:
        """The inverse; ZeroDivisionError for zero."""

    @abstractmethod
    def embed(self, a: int) -> Element:
        """The image of an integer."""

    def sub(self, a: Element, b: Element) -> Element:
        return self.add(a, self.neg(b))

    def square(self, a: Element) -> Element:
        return self.mul(a, a)

    def div(self, a: Element, b: Element) -> Element:
        return self.mul(a, self.inv(b))

    def pow(self, a: Element, exponent: int) -> Element:
        if exponent < 0:
            return self.pow(self.inv(a), -exponent)
        result = self.one
        for bit in bin(exponent)[2:]:
            result = self.mul(result, result)
            if bit == "1":
                result = self.mul(result, a)
        return result

    def is_square(self, a: Element) -> bool:
        return a == self.zero or self.pow(a, (self.order - 1) // 2) == self.one

    @abstractmethod
    def _generate(self, seed: int) -> Element:
        """Some element for each seed, squares and non-squares among them."""

    def sqrt(self, a: Element) -> Element | None:
        """A square root, or None where there is none (Tonelli and Shanks)."""
        if not self.is_square(a):
            return None
        if a == self.zero:
            return a
        two_adicity = ((self.order - 1) & (1 - self.order)).bit_length() - 1
        odd = (self.order - 1) >> two_adicity
        seed = 1
        while self.is_square(self._generate(seed)):
            seed += 1
        root_of_unity = self.pow(self._generate(seed), odd)
        root = self.pow(a, (odd + 1) // 2)
        error = self.pow(a, odd)  # root^2 = a * error; error has order a power of two
        size = two_adicity
        while error != self.one:
            order_log, square = 0, error
            while square != self.one:
                square, order_log = self.square(square), order_log + 1
            correction = self.pow(root_of_unity, 1 << (size - order_log - 1))
            root = self.mul(root, correction)
            root_of_unity = self.square(correction)
            error = self.mul(error, root_of_unity)
            size = order_log
        return root


class PrimeField(Field[int]):
    """The integers modulo a prime."""

    zero = 0
    one = 1

    def __init__(self, p: int) -> None:
        self.order = self.p = p

    def add(self, a: int, b: int) -> int:
        return (a + b) % self.p

    def sub(self, a: int, b: int) -> int:
        return (a - b) % self.p

    def neg(self, a: int) -> int:
        return -a % self.p

    def mul(self, a: int, b: int) -> int:
        return a * b % self.p

    def inv(self, a: int) -> int:
        if a % self.p == 0:
            raise ZeroDivisionError("zero has no inverse")
        return pow(a, -1, self.p)

    def pow(self, a: int, exponent: int) -> int:
        return int(pow(a, exponent, self.p))

    def embed(self, a: int) -> int:
        return a % self.p

    def _generate(self, seed: int) -> int:
        return seed % self.p


class QuadraticField(Field[Fq2]):
    """Fq[u]/(u^2 - non_residue)."""

    zero = (0, 0)
    one = (1, 0)

    def __init__(self, p: int, non_residue: int) -> None:
        self.order = p * p
        self.p = p
        self.non_residue = non_residue

    def add(self, a: Fq2, b: Fq2) -> Fq2:
        return (a[0] + b[0]) % self.p, (a[1] + b[1]) % self.p

    def sub(self, a: Fq2, b: Fq2) -> Fq2:
        return (a[0] - b[0]) % self.p, (a[1] - b[1]) % self.p

    def neg(self, a: Fq2) -> Fq2:
        return -a[0] % self.p, -a[1] % self.p

    def mul(self, a: Fq2, b: Fq2) -> Fq2:
        real = a[0] * b[0] + self.non_residue * a[1] * b[1]
        return real % self.p, (a[0] * b[1] + a[1] * b[0]) % self.p

    def scale(self, a: Fq2, factor: int) -> Fq2:
        return a[0] * factor % self.p, a[1] * factor % self.p

    def conjugate(self, a: Fq2) -> Fq2:
        """a^p."""
        return a[0], -a[1] % self.p

    def inv(self, a: Fq2) -> Fq2:
        norm = (a[0] * a[0] - self.non_residue * a[1] * a[1]) % self.p
        if norm == 0:
            raise ZeroDivisionError("zero has no inverse")
        return self.scale(self.conjugate(a), pow(norm, -1, self.p))

    def embed(self, a: int) -> Fq2:
        return a % self.p, 0

    def _generate(self, seed: int) -> Fq2:
        return seed % self.p, 1


class SexticField(Field[Fq6]):
    """Fq2[v]/(v^3 - non_residue)."""

    def __init__(self, base: QuadraticField, non_residue: Fq2) -> None:
        self.order = base.order**3
        self.base = base
        self.non_residue = non_residue
        self.zero = (base.zero, base.zero, base.zero)
        self.one = (base.one, base.zero, base.zero)

    def add(self, a: Fq6, b: Fq6) -> Fq6:
        add = self.base.add
        return add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])

    def neg(self, a: Fq6) -> Fq6:
        neg = self.base.neg
        return neg(a[0]), neg(a[1]), neg(a[2])

    def mul(self, a: Fq6, b: Fq6) -> Fq6:
        p, beta, (xi0, xi1) = self.base.p, self.base.non_residue, self.non_residue
        real, imaginary = [0] * 5, [0] * 5
        for i, (a0, a1) in enumerate(a):
            for j, (b0, b1) in enumerate(b):
                real[i + j] += a0 * b0 + beta * a1 * b1
                imaginary[i + j] += a0 * b1 + a1 * b0
        for k in (0, 1):  # v^3 = xi
            high_real, high_imaginary = real[k + 3], imaginary[k + 3]
            real[k] += high_real * xi0 + beta * high_imaginary * xi1
            imaginary[k] += high_real * xi1 + high_imaginary * xi0
        return (
            (real[0] % p, imaginary[0] % p),
            (real[1] % p, imaginary[1] % p),
            (real[2] % p, imaginary[2] % p),
        )

    def mul_by_v(self, a: Fq6) -> Fq6:
        return self.base.mul(a[2], self.non_residue), a[0], a[1]

    def inv(self, a: Fq6) -> Fq6:
        # The adjugate of multiplication by a over its determinant.
        mul, sub, xi = self.base.mul, self.base.sub, self.non_residue
        c0 = sub(mul(a[0], a[0]), mul(xi, mul(a[1], a[2])))
        c1 = sub(mul(xi, mul(a[2], a[2])), mul(a[0], a[1]))
        c2 = sub(mul(a[1], a[1]), mul(a[0], a[2]))
        cross = self.base.add(mul(a[2], c1), mul(a[1], c2))
        scale = self.base.inv(self.base.add(mul(a[0], c0), mul(xi, cross)))
        return mul(c0, scale), mul(c1, scale), mul(c2, scale)

    def embed(self, a: int) -> Fq6:
        return self.base.embed(a), self.base.zero, self.base.zero

    def _generate(self, seed: int) -> Fq6:
        return self.base.embed(seed), self.base.one, self.base.zero


class DodecicField(Field[Fq12]):
    """Fq6[w]/(w^2 - v)."""

    def __init__(self, base: SexticField) -> None:
        self.order = base.order**2
        self.base = base
        self.zero = (base.zero, base.zero)
        self.one = (base.one, base.zero)

    def add(self, a: Fq12, b: Fq12) -> Fq12:
        return self.base.add(a[0], b[0]), self.base.add(a[1], b[1])

    def neg(self, a: Fq12) -> Fq12:
        return self.base.neg(a[0]), self.base.neg(a[1])

    def mul(self, a: Fq12, b: Fq12) -> Fq12:
        base = self.base
        low, high = base.mul(a[0], b[0]), base.mul(a[1], b[1])
        middle = base.mul(base.add(a[0], a[1]), base.add(b[0], b[1]))
        return base.add(low, base.mul_by_v(high)), base.sub(middle, base.add(low, high))

    def conjugate(self, a: Fq12) -> Fq12:
        """a^(q^6), the inverse on the cyclotomic subgroup."""
        return a[0], self.base.neg(a[1])

    def inv(self, a: Fq12) -> Fq12:
        base = self.base
        norm = base.sub(base.mul(a[0], a[0]), base.mul_by_v(base.mul(a[1], a[1])))
        scale = base.inv(norm)
        return base.mul(a[0], scale), base.neg(base.mul(a[1], scale))

    def embed(self, a: int) -> Fq12:
        return self.base.embed(a), self.base.zero

    def _generate(self, seed: int) -> Fq12:
        return self.base.embed(seed), self.base.one

    def from_powers_of_w(self, coefficients: list[Fq2]) -> Fq12:
        """The sum of coefficients[i] * w^i, i = 0..5."""
        c = coefficients
        return (c[0], c[2], c[4]), (c[1], c[3], c[5])

    def to_powers_of_w(self, a: Fq12) -> list[Fq2]:
        """The inverse of `from_powers_of_w`."""
        (a0, a2, a4), (a1, a3, a5) = a
        return [a0, a1, a2, a3, a4, a5]


@dataclass(frozen=True)
class Fields:
    """The fields of one pairing curve."""

    fq: PrimeField
    fr: PrimeField
    fq2: QuadraticField
    fq6: SexticField
    fq12: DodecicField


@cache
def fields_of(curve: PairingCurve) -> Fields:
    """Fq, Fr and the tower over Fq."""
    fq2 = QuadraticField(curve.fq.value, curve.tower.fq2_non_residue)
    fq6 = SexticField(fq2, curve.tower.fq6_non_residue)
    return Fields(
        fq=PrimeField(curve.fq.value),
        fr=PrimeField(curve.fr.value),
        fq2=fq2,
        fq6=fq6,
        fq12=DodecicField(fq6),
    )
