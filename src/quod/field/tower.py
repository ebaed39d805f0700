"""The tower over Fq2 inside kernels: Fq6 = Fq2[v]/(v^3 - xi), Fq12 = Fq6[w]/(w^2 - v).

An element of Fq6 is a tuple of three of Fq2, one of Fq12 a tuple of two of Fq6. The operations of
Fq6 and Fq12 are device functions whose arguments and results have one static bound, so that each is
compiled once. Formulas: Devegili, O hEigeartaigh, Scott, Dahab, "Multiplication and
squaring on pairing-friendly fields" (2006/471); Granger, Scott, "Faster squaring in the cyclotomic
subgroup of sixth degree extensions" (PKC 2010).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from quod.field.extension import ExtensionElement, ExtensionField, has_one_lane
from quod.field.spec import Extension
from quod.field.strategy import prime_field
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

Fq2 = ExtensionElement
Fq6 = tuple[Fq2, Fq2, Fq2]
Fq12 = tuple[Fq6, Fq6]

E = TypeVar("E")


class Fq12Arithmetic(ABC, Generic[E]):
    """Fq12 of one pairing in one kernel, computed by one instance or by the lanes of a subgroup."""

    k: Builder

    power_name: ClassVar[str]
    """The prefix of the names of device functions that compute powers."""

    @abstractmethod
    def bounded(self, item: Any) -> Any:
        """An element, or a tuple of them, with the bound that functions take."""

    @abstractmethod
    def function(self, name: str, body: Callable[..., Any], *arguments: Any) -> Any:
        """Call a device function on bounded arguments; its results are bounded."""

    @abstractmethod
    def one(self) -> E:
        """The constant 1, bounded."""

    @abstractmethod
    def select(self, condition: Value, a: E, b: E) -> E:
        """`a` where the condition holds, else `b`; both bounded."""

    @abstractmethod
    def multiply(self, a: E, b: E) -> E:
        """a * b."""

    @abstractmethod
    def inverse(self, a: E) -> E:
        """1/a, and 0 for 0."""

    @abstractmethod
    def conjugate(self, a: E) -> E:
        """a^(q^6); the inverse in the cyclotomic subgroup."""

    @abstractmethod
    def frobenius(self, a: E, power: int) -> E:
        """a^(q^power) for a power of 1 to 3."""

    @abstractmethod
    def cyclotomic_square(self, a: E) -> E:
        """a * a for a in the cyclotomic subgroup."""

    @abstractmethod
    def load(self, pointer: Value, index: Operand) -> E:
        """Element `index` of an array: twelve elements of Fq, in the order of the tower."""

    @abstractmethod
    def store(self, pointer: Value, index: Operand, a: E) -> None:
        """Store the canonical form as element `index` of an array."""

    def cyclotomic_power(self, a: E, exponent: int) -> E:
        """Return a**exponent for a in the cyclotomic subgroup and a static non-zero exponent."""
        if exponent < 0:
            return self.conjugate(self.cyclotomic_power(a, -exponent))
        name = f"{self.power_name}_{exponent:x}"
        result: E = self.function(name, lambda a: self._power(a, exponent), a)
        return result

    def _power(self, a: E, exponent: int) -> E:
        """Compute a power by signed digits, since inverses are conjugates, which cost nothing."""
        k = self.k
        digits = signed_digits(exponent)[1:]
        if not digits:
            return a
        if len(digits) > 64:
            raise ValueError(f"an exponent of {len(digits) + 1} digits is too long")
        plus = sum(1 << i for i, digit in enumerate(digits) if digit > 0)
        minus = sum(1 << i for i, digit in enumerate(digits) if digit < 0)
        inverse: E = self.bounded(self.conjugate(a))
        with k.range(0, len(digits), carry=self.bounded(a)) as loop:
            squared = self.cyclotomic_square(loop.carried)
            with k.if_(digit_at(k, plus | minus, loop.index)) as branch:
                factor = self.select(digit_at(k, minus, loop.index), inverse, a)
                branch.yield_(self.multiply(squared, factor))
            with branch.otherwise():
                branch.yield_(squared)
            loop.next(branch.results)
        result: E = loop.results
        return result


class TowerField(Fq12Arithmetic[Fq12]):
    """Fq2, Fq6 and Fq12 of one pairing in one kernel.

    `xi` is the non-residue of Fq6 in Fq2, as integers. An element of Fq12 is also the sum of
    a_i * w^i for i = 0..5: the coefficient of v^j * w^k is a_(2j + k).
    """

    power_name = "fq12.cyclotomic_power"

    def __init__(self, k: Builder, spec: Extension, xi: tuple[int, int]) -> None:
        if not spec.adjoins_square_root:
            raise ValueError("a tower of degree 12 needs a quadratic extension")
        self.k = k
        self.spec = spec
        self.xi = xi
        self.fq2 = ExtensionField(prime_field(k, spec.modulus), spec, calls=has_one_lane(k))
        self.bound = self._bound()

    def _bound(self) -> int:
        """Return the bound of function arguments, as large as the limbs allow."""
        base = self.fq2.base
        bound = base.standard_bound
        while bound < 32 * base.p and 16 * bound <= 1 << base.native_exponent:
            bound *= 2
        return bound

    # --- structure

    def bounded(self, item: Any) -> Any:
        """An element, or a tuple of them, with the bound that functions take."""
        if isinstance(item, ExtensionElement):
            return self.fq2.unify([item], self.bound)[0]
        return tuple(self.bounded(part) for part in item)

    def function(self, name: str, body: Callable[..., Any], *arguments: Any) -> Any:
        """Call a device function on bounded arguments; its results are bounded."""

        def bounded_body(k: Builder, *inner: Any) -> Any:
            return self.bounded(body(*inner))

        full_name = f"{name}.{self.spec.modulus.name}"
        return self.k.call(
            full_name, bounded_body, *self.bounded(arguments), key=(self.spec, self.xi)
        )

    # --- Fq2

    def multiply_by_xi(self, a: Fq2) -> Fq2:
        """Return a * xi, by additions."""
        base, (x, y) = self.fq2.base, self.xi
        c0, c1 = a.coefficients
        beta = self.spec.non_residue
        assert beta is not None

        def combined(c: int, d: int) -> Any:
            """c * c0 + d * c1."""
            first_term, second_term = base.times(c0, c), base.times(c1, abs(d))
            if c == 0:
                return base.times(c1, d)
            if d == 0:
                return first_term
            return (
                base.add(first_term, second_term)
                if d > 0
                else base.subtract(first_term, second_term)
            )

        return self.fq2.from_coefficients(combined(x, beta * y), combined(y, x))

    # --- Fq6, where the bodies of functions use it

    def add6(self, a: Fq6, b: Fq6) -> Fq6:
        """a + b."""
        return (a[0] + b[0], a[1] + b[1], a[2] + b[2])

    def subtract6(self, a: Fq6, b: Fq6) -> Fq6:
        """a - b."""
        return (a[0] - b[0], a[1] - b[1], a[2] - b[2])

    def negate6(self, a: Fq6) -> Fq6:
        """-a."""
        return (-a[0], -a[1], -a[2])

    def multiply_by_v(self, a: Fq6) -> Fq6:
        """a * v."""
        return (self.multiply_by_xi(a[2]), a[0], a[1])

    def multiply6(self, a: Fq6, b: Fq6) -> Fq6:
        """a * b."""
        result: Fq6 = self.function("fq6.multiply", self._multiply6, a, b)
        return result

    def _multiply6(self, a: Fq6, b: Fq6) -> Fq6:
        xi = self.multiply_by_xi
        v0, v1, v2 = a[0] * b[0], a[1] * b[1], a[2] * b[2]
        c0 = v0 + xi((a[1] + a[2]) * (b[1] + b[2]) - (v1 + v2))
        c1 = (a[0] + a[1]) * (b[0] + b[1]) - (v0 + v1) + xi(v2)
        c2 = (a[0] + a[2]) * (b[0] + b[2]) - (v0 + v2) + v1
        return c0, c1, c2

    def multiply6_by_two(self, a: Fq6, b0: Fq2, b1: Fq2) -> Fq6:
        """a * (b0 + b1*v)."""
        result: Fq6 = self.function("fq6.multiply_by_two", self._multiply6_by_two, a, b0, b1)
        return result

    def _multiply6_by_two(self, a: Fq6, b0: Fq2, b1: Fq2) -> Fq6:
        v0, v1 = a[0] * b0, a[1] * b1
        c0 = v0 + self.multiply_by_xi((a[1] + a[2]) * b1 - v1)
        c1 = (a[0] + a[1]) * (b0 + b1) - (v0 + v1)
        c2 = (a[0] + a[2]) * b0 - v0 + v1
        return c0, c1, c2

    def scale6(self, a: Fq6, b: Fq2) -> Fq6:
        """a * b for b in Fq2."""
        result: Fq6 = self.function("fq6.scale", lambda a, b: tuple(x * b for x in a), a, b)
        return result

    def inverse6(self, a: Fq6) -> Fq6:
        """1/a, and 0 for 0."""
        result: Fq6 = self.function("fq6.inverse", self._inverse6, a)
        return result

    def _inverse6(self, a: Fq6) -> Fq6:
        fq2, xi = self.fq2, self.multiply_by_xi
        c0 = self.bounded(fq2.square(a[0]) - xi(a[1] * a[2]))
        c1 = self.bounded(xi(fq2.square(a[2])) - a[0] * a[1])
        c2 = self.bounded(fq2.square(a[1]) - a[0] * a[2])
        norm = self.bounded(a[0] * c0 + xi(a[2] * c1 + a[1] * c2))
        inverse = self.bounded(fq2.inverse(norm))
        return c0 * inverse, c1 * inverse, c2 * inverse

    # --- Fq12

    def one(self) -> Fq12:
        """The constant 1, bounded."""
        zero = self.fq2.zero()
        result: Fq12 = self.bounded(((self.fq2.one(), zero, zero), (zero, zero, zero)))
        return result

    def select(self, condition: Value, a: Fq12, b: Fq12) -> Fq12:
        """`a` where the condition holds, else `b`; both bounded."""
        halves = [
            tuple(self.fq2.select(condition, x, y) for x, y in zip(p, q, strict=True))
            for p, q in zip(a, b, strict=True)
        ]
        result: Fq12 = self.bounded(tuple(halves))
        return result

    def conjugate(self, a: Fq12) -> Fq12:
        """a^(q^6); the inverse in the cyclotomic subgroup."""
        return a[0], self.negate6(a[1])

    def multiply(self, a: Fq12, b: Fq12) -> Fq12:
        """a * b."""
        result: Fq12 = self.function("fq12.multiply", self._multiply, a, b)
        return result

    def _multiply(self, a: Fq12, b: Fq12) -> Fq12:
        low, high = self.multiply6(a[0], b[0]), self.multiply6(a[1], b[1])
        product_of_sums = self.multiply6(self.add6(a[0], a[1]), self.add6(b[0], b[1]))
        return (
            self.add6(low, self.multiply_by_v(high)),
            self.subtract6(product_of_sums, self.add6(low, high)),
        )

    def square(self, a: Fq12) -> Fq12:
        """a * a."""
        result: Fq12 = self.function("fq12.square", self._square, a)
        return result

    def _square(self, a: Fq12) -> Fq12:
        cross = self.multiply6(a[0], a[1])
        product_of_sums = self.multiply6(
            self.add6(a[0], a[1]), self.add6(a[0], self.multiply_by_v(a[1]))
        )  # fmt: skip
        cross_terms = self.add6(cross, self.multiply_by_v(cross))
        return self.subtract6(product_of_sums, cross_terms), self.add6(cross, cross)

    def inverse(self, a: Fq12) -> Fq12:
        """1/a, and 0 for 0."""
        result: Fq12 = self.function("fq12.inverse", self._inverse, a)
        return result

    def _inverse(self, a: Fq12) -> Fq12:
        low, high = self.multiply6(a[0], a[0]), self.multiply6(a[1], a[1])
        norm = self.inverse6(self.subtract6(low, self.multiply_by_v(high)))
        return self.multiply6(a[0], norm), self.negate6(self.multiply6(a[1], norm))

    def multiply_by_line(self, a: Fq12, line: Sequence[tuple[int, Fq2]]) -> Fq12:
        """a times a sum of three c * w^i, given as pairs (i, c): i = 0, 1, 3 or i = 0, 2, 3."""
        powers = tuple(power for power, _ in line)
        bodies: dict[tuple[int, ...], Callable[..., Fq12]] = {
            (0, 1, 3): self._multiply_013,
            (0, 2, 3): self._multiply_023,
        }
        name = "fq12.multiply_by_" + "".join(map(str, powers))
        result: Fq12 = self.function(name, bodies[powers], a, *(c for _, c in line))
        return result

    def _multiply_013(self, a: Fq12, c0: Fq2, c1: Fq2, c3: Fq2) -> Fq12:
        """a * (c0 + (c1 + c3*v)*w)."""
        low, high = self.scale6(a[0], c0), self.multiply6_by_two(a[1], c1, c3)
        product_of_sums = self.multiply6_by_two(self.add6(a[0], a[1]), c0 + c1, c3)
        return (
            self.add6(low, self.multiply_by_v(high)),
            self.subtract6(product_of_sums, self.add6(low, high)),
        )

    def _multiply_023(self, a: Fq12, c0: Fq2, c2: Fq2, c3: Fq2) -> Fq12:
        """a * (c0 + c2*v + c3*v*w)."""
        low = self.multiply6_by_two(a[0], c0, c2)
        high = self.multiply_by_v(self.scale6(a[1], c3))
        product_of_sums = self.multiply6_by_two(self.add6(a[0], a[1]), c0, c2 + c3)
        return (
            self.add6(low, self.multiply_by_v(high)),
            self.subtract6(product_of_sums, self.add6(low, high)),
        )

    def frobenius(self, a: Fq12, power: int) -> Fq12:
        """a^(q^power) for a power of 1 to 3."""
        result: Fq12 = self.function(
            f"fq12.frobenius{power}", lambda a: self._frobenius(a, power), a
        )
        return result

    def _frobenius(self, a: Fq12, power: int) -> Fq12:
        factors = frobenius_factors(self.spec, self.xi, power)
        halves: list[tuple[Fq2, ...]] = []
        for k, half in enumerate(a):
            parts = []
            for j, part in enumerate(half):
                image = self.fq2.frobenius(part) if power % 2 else part
                parts.append(image * self.fq2.constant(factors[2 * j + k]))
            halves.append(tuple(parts))
        (l0, l1, l2), (h0, h1, h2) = halves
        return (l0, l1, l2), (h0, h1, h2)

    # --- the cyclotomic subgroup, of order q^4 - q^2 + 1

    def cyclotomic_square(self, a: Fq12) -> Fq12:
        """a * a for a in the cyclotomic subgroup."""
        result: Fq12 = self.function("fq12.cyclotomic_square", self._cyclotomic_square, a)
        return result

    def _cyclotomic_square(self, a: Fq12) -> Fq12:
        fq2, xi = self.fq2, self.multiply_by_xi
        (r0, r4, r3), (r2, r1, r5) = a

        def square4(x: Fq2, y: Fq2) -> tuple[Fq2, Fq2]:
            """(x + y*s)^2 with s^2 = xi."""
            cross = x * y
            return (x + y) * (x + xi(y)) - (cross + xi(cross)), fq2.double(cross)

        def thrice_minus_twice(t: Fq2, r: Fq2) -> Fq2:
            """3t - 2r."""
            return fq2.double(t - r) + t

        def thrice_plus_twice(t: Fq2, r: Fq2) -> Fq2:
            """3t + 2r."""
            return fq2.double(t + r) + t

        t0, t1 = square4(r0, r1)
        t2, t3 = square4(r2, r3)
        t4, t5 = square4(r4, r5)
        return (
            (thrice_minus_twice(t0, r0), thrice_minus_twice(t2, r4), thrice_minus_twice(t4, r3)),
            (thrice_plus_twice(xi(t5), r2), thrice_plus_twice(t1, r1), thrice_plus_twice(t3, r5)),
        )

    # --- memory: twelve elements of Fq, in the order of the tower

    def load(self, pointer: Value, index: Operand) -> Fq12:
        """Element `index` of an array."""
        offset = self.k.operand(index, types.u32) * 6
        parts = [self.fq2.load(pointer, offset + index) for index in range(6)]
        result: Fq12 = self.bounded((tuple(parts[:3]), tuple(parts[3:])))
        return result

    def store(self, pointer: Value, index: Operand, a: Fq12) -> None:
        """Store the canonical form as element `index` of an array."""
        offset = self.k.operand(index, types.u32) * 6
        for position, part in enumerate([*a[0], *a[1]]):
            self.fq2.store(pointer, offset + position, part)


def signed_digits(number: int) -> list[int]:
    """Return the non-adjacent form of a positive integer: digits -1, 0, 1, the highest first."""
    digits = []
    while number:
        digit = 2 - number % 4 if number % 2 else 0
        digits.append(digit)
        number = (number - digit) // 2
    return digits[::-1]


def digit_at(k: Builder, digits: int, index: Value) -> Value:
    """Return a bool: bit `index` of a constant below 2**64 is set."""
    return (k.constant(digits, types.u64) >> index.cast(types.u64)) & 1 != 0


def frobenius_factors(spec: Extension, xi: tuple[int, int], power: int) -> list[tuple[int, int]]:
    """Return xi^(i*(q^power - 1)/6) for i = 0..5, the factors of a_i * w^i in a^(q^power)."""
    p, beta = spec.modulus.value, spec.non_residue
    assert beta is not None

    def multiply(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] * b[0] + beta * a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p

    step = (1, 0)
    for bit in bin((p**power - 1) // 6)[2:]:
        step = multiply(step, step)
        if bit == "1":
            step = multiply(step, xi)
    factors = [(1, 0)]
    for _ in range(5):
        factors.append(multiply(factors[-1], step))
    return factors
