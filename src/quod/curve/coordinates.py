"""Coordinates of single points as plain integers: arithmetic in Fq and Fq2, with square roots.

This is for work on a few points on the host (decoding, hashing, checks). For arrays of elements use
`quod.field`. Nothing here runs in constant time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, cached_property
from typing import Generic, TypeVar

from quod.curve.parameters import Fq2Element, PairingCurve

C = TypeVar("C")

_DIGIT_BITS = 8


class Coordinates(ABC, Generic[C]):
    """The field of a curve's coordinates, Fq or Fq2; elements are canonical, below p."""

    p: int
    zero: C
    one: C

    @abstractmethod
    def add(self, a: C, b: C) -> C:
        """a + b."""

    @abstractmethod
    def subtract(self, a: C, b: C) -> C:
        """a - b."""

    @abstractmethod
    def multiply(self, a: C, b: C) -> C:
        """a * b."""

    @abstractmethod
    def scale(self, a: C, factor: int) -> C:
        """a times an integer."""

    @abstractmethod
    def invert(self, a: C) -> C:
        """1 / a; raises ValueError for zero."""

    @abstractmethod
    def square_root(self, a: C) -> C | None:
        """One of the square roots of a, or None if a is not a square."""

    @abstractmethod
    def is_larger(self, a: C) -> bool:
        """Return whether a > -a, the sign bit of point encodings.

        Elements of Fq2 are compared by the coefficient of u, then by the constant coefficient.
        """

    @abstractmethod
    def is_odd(self, a: C) -> bool:
        """Return sgn0 of RFC 9380, section 4.1: the parity of the first non-zero coefficient."""

    @abstractmethod
    def coefficients(self, a: C) -> tuple[int, ...]:
        """Return the coefficients of an element as integers, c0 first."""

    @abstractmethod
    def from_coefficients(self, coefficients: tuple[int, ...]) -> C:
        """Return the element with these coefficients, c0 first."""

    @property
    @abstractmethod
    def degree(self) -> int:
        """The number of integers of an element."""

    def negate(self, a: C) -> C:
        """-a."""
        return self.subtract(self.zero, a)

    def square(self, a: C) -> C:
        """a * a."""
        return self.multiply(a, a)


class FqCoordinates(Coordinates[int]):
    """Fq: integers below p."""

    zero = 0
    one = 1
    degree = 1

    def __init__(self, p: int) -> None:
        self.p = p

    def add(self, a: int, b: int) -> int:
        return (a + b) % self.p

    def subtract(self, a: int, b: int) -> int:
        return (a - b) % self.p

    def multiply(self, a: int, b: int) -> int:
        return a * b % self.p

    def scale(self, a: int, factor: int) -> int:
        return a * factor % self.p

    def invert(self, a: int) -> int:
        return pow(a, -1, self.p)

    def is_square(self, a: int) -> bool:
        """Return whether a is a square, by Euler's criterion; zero is a square."""
        return pow(a, (self.p - 1) // 2, self.p) <= 1

    @cached_property
    def _two_part(self) -> _TwoPart:
        non_residue = 2
        while self.is_square(non_residue):
            non_residue += 1
        return _TwoPart(self.p, non_residue)

    def square_root(self, a: int) -> int | None:
        p = self.p
        if p % 4 == 3:
            root = pow(a, (p + 1) // 4, p)
            return root if root * root % p == a else None
        if a == 0:
            return 0
        two_part = self._two_part
        power = pow(a, (two_part.odd - 1) // 2, p)
        root = a * power % p
        # root**2 = a * error, and a is a square if error is an even power of the root of unity.
        log = two_part.log(root * power % p)
        return None if log % 2 else root * two_part.inverse_power(log // 2) % p

    def is_larger(self, a: int) -> bool:
        return 2 * a > self.p

    def is_odd(self, a: int) -> bool:
        return a % 2 == 1

    def coefficients(self, a: int) -> tuple[int, ...]:
        return (a,)

    def from_coefficients(self, coefficients: tuple[int, ...]) -> int:
        (a,) = coefficients
        return a


class _TwoPart:
    """The elements whose order divides 2**s, where p - 1 = 2**s * odd; z is one of order 2**s.

    Logarithms are found in digits of 8 bits (Sarkar, "Computing square roots faster than the
    Tonelli-Shanks/Bernstein algorithm", 2020).
    """

    def __init__(self, p: int, non_residue: int) -> None:
        self._p = p
        self._bits = ((p - 1) & (1 - p)).bit_length() - 1
        self.odd = (p - 1) >> self._bits
        self._width = min(_DIGIT_BITS, self._bits)
        z = pow(non_residue, self.odd, p)
        inverse, base = pow(z, -1, p), pow(z, 1 << self._bits - self._width, p)
        self._digits = {power: digit for digit, power in enumerate(self._powers(base))}
        self._inverse_powers = [
            self._powers(pow(inverse, 1 << shift, p)) for shift in range(0, self._bits, self._width)
        ]

    def _powers(self, base: int) -> list[int]:
        powers = [1]
        for _ in range((1 << self._width) - 1):
            powers.append(powers[-1] * base % self._p)
        return powers

    def log(self, element: int) -> int:
        """Return the exponent of an element as a power of z."""
        p, width, log = self._p, self._width, 0
        for index, powers in enumerate(self._inverse_powers):
            shift = index * width
            # The last digit may have fewer bits, and is then in the high bits of this one.
            excess = max(0, shift + width - self._bits)
            digit_power = pow(element, 1 << max(0, self._bits - shift - width), p)
            digit = self._digits[digit_power] >> excess
            log |= digit << shift
            element = element * powers[digit] % p
        return log

    def inverse_power(self, exponent: int) -> int:
        """Return z**-exponent, for an exponent below 2**s."""
        product, mask = 1, (1 << self._width) - 1
        for index, powers in enumerate(self._inverse_powers):
            product = product * powers[exponent >> index * self._width & mask] % self._p
        return product


class Fq2Coordinates(Coordinates[Fq2Element]):
    """Fq2 = Fq[u]/(u^2 - non_residue): pairs of integers below p."""

    zero = (0, 0)
    one = (1, 0)
    degree = 2

    def __init__(self, p: int, non_residue: int) -> None:
        self.p = p
        self.non_residue = non_residue
        self.base = FqCoordinates(p)

    def add(self, a: Fq2Element, b: Fq2Element) -> Fq2Element:
        return (a[0] + b[0]) % self.p, (a[1] + b[1]) % self.p

    def subtract(self, a: Fq2Element, b: Fq2Element) -> Fq2Element:
        return (a[0] - b[0]) % self.p, (a[1] - b[1]) % self.p

    def multiply(self, a: Fq2Element, b: Fq2Element) -> Fq2Element:
        real = a[0] * b[0] + self.non_residue * a[1] * b[1]
        return real % self.p, (a[0] * b[1] + a[1] * b[0]) % self.p

    def scale(self, a: Fq2Element, factor: int) -> Fq2Element:
        return a[0] * factor % self.p, a[1] * factor % self.p

    def conjugate(self, a: Fq2Element) -> Fq2Element:
        """a^p."""
        return a[0], -a[1] % self.p

    def norm(self, a: Fq2Element) -> int:
        """a * conjugate(a), in Fq."""
        return (a[0] * a[0] - self.non_residue * a[1] * a[1]) % self.p

    def invert(self, a: Fq2Element) -> Fq2Element:
        return self.scale(self.conjugate(a), pow(self.norm(a), -1, self.p))

    def square_root(self, a: Fq2Element) -> Fq2Element | None:
        a0, a1 = a
        if a1 == 0:
            root = self.base.square_root(a0)
            if root is not None:
                return root, 0
            root = self.base.square_root(a0 * pow(self.non_residue, -1, self.p) % self.p)
            return None if root is None else (0, root)
        norm_root = self.base.square_root(self.norm(a))
        if norm_root is None:
            return None
        # With n = norm_root, (a0 + n)(a0 - n) = non_residue * a1^2 is no square, so exactly one of
        # the two factors is twice a square.
        half = (self.p + 1) // 2
        real = self.base.square_root((a0 + norm_root) * half % self.p)
        if real is None:
            real = self.base.square_root((a0 - norm_root) * half % self.p)
        assert real  # real is not zero, since a1 is not
        return real, a1 * pow(2 * real, -1, self.p) % self.p

    def is_larger(self, a: Fq2Element) -> bool:
        return 2 * (a[1] or a[0]) > self.p

    def is_odd(self, a: Fq2Element) -> bool:
        return (a[0] or a[1]) % 2 == 1

    def coefficients(self, a: Fq2Element) -> tuple[int, ...]:
        return a

    def from_coefficients(self, coefficients: tuple[int, ...]) -> Fq2Element:
        c0, c1 = coefficients
        return c0, c1


@cache
def fq_of(curve: PairingCurve) -> FqCoordinates:
    """The coordinate field of G1."""
    return FqCoordinates(curve.fq.value)


@cache
def fq2_of(curve: PairingCurve) -> Fq2Coordinates:
    """The coordinate field of G2."""
    return Fq2Coordinates(curve.fq.value, curve.tower.fq2_non_residue)
