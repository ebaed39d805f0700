"""Quadratic extensions inside kernels, with the interface of prime fields.

Each coefficient of a product is a sum of two products with one reduction (Longa, "Efficient
algorithms for large prime characteristic fields and their application to bilinear pairings",
CHES 2023): as many word products as Karatsuba's three reduced ones, and fewer additions.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from quod.field.arithmetic import Coefficients, FieldArithmetic
from quod.field.element import AnyElement, Element
from quod.field.prime import PrimeField
from quod.field.spec import FieldSpec
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel.builder import Builder
from quod.kernel.machine import Capability
from quod.kernel.structure import Rebuild
from quod.kernel.value import Value


@frozen(eq=False)
class QuadraticElement(AnyElement):
    """c0 + c1*u, with the bounds that each coefficient has."""

    comparison: ClassVar[str] = Element.comparison
    beside: ClassVar[str] = "field.constant(...), field.embed(element) or field.scale(a, element)"

    field: QuadraticField
    c0: Element
    c1: Element

    def _kind(self) -> str:
        return f"an element of the quadratic extension of {self.field.modulus.name}"

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        """The limbs of both coefficients, for loops, branches and functions."""
        values0, key0, rebuild0 = self.c0.flatten()
        values1, key1, rebuild1 = self.c1.flatten()
        field, count = self.field, len(values0)

        def rebuild(values: Sequence[Value]) -> QuadraticElement:
            return QuadraticElement(field, rebuild0(values[:count]), rebuild1(values[count:]))

        return [*values0, *values1], (QuadraticElement, (key0, key1), field.non_residue), rebuild

    def _arithmetic(self) -> QuadraticField:
        return self.field

    def _beside(self, other: QuadraticElement | int) -> QuadraticElement:
        if type(other) is int:
            return self.field.embed(self.c0._beside(other))
        if not isinstance(other, QuadraticElement):
            self._refuse_beside(other)
        return other

    def __add__(self, other: QuadraticElement | int) -> QuadraticElement:
        return self.field.add(self, self._beside(other))

    def __sub__(self, other: QuadraticElement | int) -> QuadraticElement:
        return self.field.subtract(self, self._beside(other))

    def __mul__(self, other: QuadraticElement | int) -> QuadraticElement:
        return self._times(other)

    def _times(self, factor: QuadraticElement | int) -> QuadraticElement:
        if type(factor) is int:
            return self.field.made(self.c0 * factor, self.c1 * factor)
        return super()._times(factor)

    def __neg__(self) -> QuadraticElement:
        return self.field.negate(self)


class QuadraticField(FieldArithmetic[QuadraticElement]):
    """Fq[u]/(u^2 - non_residue) over a prime field of the kernel.

    With `calls` a product is a function of its own, whose factors have standard bounds: small code
    where the products of the prime field are none.
    """

    def __init__(self, base: PrimeField, non_residue: int, *, calls: bool = False) -> None:
        self.k = base.k
        self.base = base
        self.modulus = base.modulus
        self.non_residue = non_residue
        self.word_count = 2 * base.word_count
        self.word_type = base.word_type
        self._calls = calls

    def made(self, c0: Element, c1: Element) -> QuadraticElement:
        """The element of two coefficients."""
        return QuadraticElement(self, c0, c1)

    def constant(self, value: Coefficients) -> QuadraticElement:
        c0, c1 = (value, 0) if isinstance(value, int) else value
        return self.made(self.base.constant(c0), self.base.constant(c1))

    def embed(self, a: Element) -> QuadraticElement:
        """An element of the prime field."""
        return self.made(a, self.base.raw_constant(0, a.exponent))

    # --- linear operations

    def add(self, a: QuadraticElement, b: QuadraticElement) -> QuadraticElement:
        return self.made(self.base.add(a.c0, b.c0), self.base.add(a.c1, b.c1))

    def subtract(self, a: QuadraticElement, b: QuadraticElement) -> QuadraticElement:
        return self.made(self.base.subtract(a.c0, b.c0), self.base.subtract(a.c1, b.c1))

    def negate(self, a: QuadraticElement) -> QuadraticElement:
        return self.made(self.base.negate(a.c0), self.base.negate(a.c1))

    def conjugate(self, a: QuadraticElement) -> QuadraticElement:
        """c0 - c1*u, the image of c0 + c1*u under Frobenius."""
        return self.made(a.c0, self.base.negate(a.c1))

    def select(
        self, condition: Value, a: QuadraticElement, b: QuadraticElement
    ) -> QuadraticElement:
        base = self.base
        return self.made(base.select(condition, a.c0, b.c0), base.select(condition, a.c1, b.c1))

    # --- products

    def multiply(self, a: QuadraticElement, b: QuadraticElement) -> QuadraticElement:
        return self.square(a) if a is b else self.multiply_many([(a, b)])[0]

    def square(self, a: QuadraticElement) -> QuadraticElement:
        return self.square_many([a])[0]

    def multiply_many(
        self, pairs: Sequence[tuple[QuadraticElement, QuadraticElement]]
    ) -> list[QuadraticElement]:
        return self._sums_of_products([[pair] for pair in pairs])

    def sum_of_products(
        self, pairs: Sequence[tuple[QuadraticElement, QuadraticElement]]
    ) -> QuadraticElement:
        return self._sums_of_products([pairs])[0]

    def _sums_of_products(
        self, sums: Sequence[Sequence[tuple[QuadraticElement, QuadraticElement]]]
    ) -> list[QuadraticElement]:
        """Independent sums of products, each coefficient reduced once."""
        if self._calls:
            return [functools.reduce(self.add, map(self._called, pairs)) for pairs in sums]
        return self._inlined_sums(sums)

    def _called(self, pair: tuple[QuadraticElement, QuadraticElement]) -> QuadraticElement:
        """A product by a function."""
        if pair[0] is pair[1]:
            return self.square(pair[0])

        def body(k: Builder, a: QuadraticElement, b: QuadraticElement) -> QuadraticElement:
            return self._inlined_sums([[(a, b)]])[0]

        factors = self.unify(pair, self.carried_bound)
        result: QuadraticElement = self.k.call(
            f"multiply.{self.modulus.name}.2", body, *factors, key=self.non_residue
        )
        return result

    def _inlined_sums(
        self, sums: Sequence[Sequence[tuple[QuadraticElement, QuadraticElement]]]
    ) -> list[QuadraticElement]:
        base = self.base
        coefficients: list[list[tuple[Element, Element]]] = []
        for pairs in sums:
            first: list[tuple[Element, Element]] = []
            second: list[tuple[Element, Element]] = []
            for a, b in pairs:
                a, b = self.fit(a), self.fit(b)
                scaled = base.times(b.c1, self.non_residue)
                first += [(a.c0, b.c0), (a.c1, scaled)]
                second += [(a.c0, b.c1), (a.c1, b.c0)]
            coefficients += [first, second]
        parts = base.sums_of_products(coefficients)
        return [self.made(*parts[i : i + 2]) for i in range(0, len(parts), 2)]

    def square_many(self, elements: Sequence[QuadraticElement]) -> list[QuadraticElement]:
        """(c0 + c1)(c0 + beta*c1) - (1 + beta)*c0*c1, and 2*c0*c1."""
        if not self._calls:
            return self._inlined_squares(elements)

        def body(k: Builder, a: QuadraticElement) -> QuadraticElement:
            return self._inlined_squares([a])[0]

        name = f"square.{self.modulus.name}.2"
        key = self.non_residue
        return [self.k.call(name, body, self.carried(a), key=key) for a in elements]

    def _inlined_squares(self, elements: Sequence[QuadraticElement]) -> list[QuadraticElement]:
        base, beta = self.base, self.non_residue
        factors = []
        for a in elements:
            a = self.fit(a)
            factors.append((a.c0, a.c1))
            factors.append((base.add(a.c0, a.c1), base.add(a.c0, base.times(a.c1, beta))))
        products = base.multiply_many(factors)
        results = []
        for cross, c0 in zip(products[::2], products[1::2], strict=True):
            if beta != -1:
                c0 = base.subtract(c0, base.times(cross, 1 + beta))
            results.append(self.made(c0, base.double(cross)))
        return results

    def scale(self, a: QuadraticElement, factor: Element) -> QuadraticElement:
        """a times an element of the prime field."""
        return self.made(self.base.multiply(a.c0, factor), self.base.multiply(a.c1, factor))

    def norm(self, a: QuadraticElement) -> Element:
        """c0^2 - beta*c1^2, the product of a and its conjugate."""
        scaled = self.base.times(a.c1, -self.non_residue)
        return self.base.sum_of_products([(a.c0, a.c0), (a.c1, scaled)])

    def inverse(self, a: QuadraticElement) -> QuadraticElement:
        return self.scale(self.conjugate(a), self.base.inverse(self.norm(a)))

    # --- bounds

    def fit(self, a: QuadraticElement) -> QuadraticElement:
        return self.made(self.base.fit(a.c0), self.base.fit(a.c1))

    def fit_many(self, elements: Sequence[QuadraticElement]) -> list[QuadraticElement]:
        parts = self.base.fit_many([c for a in elements for c in (a.c0, a.c1)])
        return [self.made(*parts[i : i + 2]) for i in range(0, len(parts), 2)]

    def carried_many(self, elements: Sequence[QuadraticElement]) -> list[QuadraticElement]:
        return self.unify(elements, self.carried_bound)

    def normalise(self, a: QuadraticElement) -> QuadraticElement:
        """The same integers with full limbs only."""
        return self.made(self.base.normalise(a.c0), self.base.normalise(a.c1))

    def reduce(self, a: QuadraticElement, bound: int | None = None) -> QuadraticElement:
        return self.made(self.base.reduce(a.c0, bound), self.base.reduce(a.c1, bound))

    def unify(self, elements: Sequence[QuadraticElement], bound: int) -> list[QuadraticElement]:
        parts = self.base.unify([c for a in elements for c in (a.c0, a.c1)], bound)
        return [self.made(*parts[i : i + 2]) for i in range(0, len(parts), 2)]

    @property
    def carried_bound(self) -> int:
        return self.base.carried_bound

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> QuadraticElement:
        half = self.base.word_count
        return self.made(
            self.base.from_words(words[:half], linear=linear),
            self.base.from_words(words[half:], linear=linear),
        )

    def to_words(self, a: QuadraticElement) -> tuple[Value, ...]:
        return (*self.base.to_words(a.c0), *self.base.to_words(a.c1))


def coordinate_field(k: Builder, spec: FieldSpec, *, inlined: bool = False) -> FieldArithmetic[Any]:
    """The arithmetic of Fq or Fq2 for the machine that `k` traces for.

    With `inlined` products in Fq2 are no functions there either where those in Fq are none: large
    code, for kernels that do little else.
    """
    base = prime_field(k, spec.modulus)
    if spec.degree == 1:
        return base
    assert spec.non_residue is not None
    calls = k.machine.has(Capability.MAD_CARRY_32) and not inlined
    return QuadraticField(base, spec.non_residue, calls=calls)
