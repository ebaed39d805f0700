"""Extensions of any degree inside kernels, with the interface of prime fields.

A coefficient of a product a * b is the sum over i of a_i times a linear form of the coefficients of
b, with one reduction (Longa, "Efficient algorithms for large prime characteristic fields and their
application to bilinear pairings", CHES 2023). In a quadratic extension this takes as many word
products as Karatsuba's three reduced products, and fewer additions. The inverse of a is the product
of the other conjugates of a, divided by the norm (Itoh, Tsujii, "A fast algorithm for computing
multiplicative inverses in GF(2^m) using normal bases", 1988).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from quod.field.arithmetic import Coefficients, FieldArithmetic
from quod.field.element import AnyElement, Element, FieldIdentity
from quod.field.prime import PrimeField
from quod.field.spec import Extension
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel.builder.structure import Rebuild
from quod.kernel.errors import TraceError, an
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.validation import instance

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

LinearForm = tuple[int, ...]
"""A linear form of an element's coefficients: the weight of each."""

_SMALL = 64
"""Weights below this are applied by `times`, with additions; larger weights by products."""


@frozen(eq=False)
class ExtensionElement(AnyElement):
    """An element of an extension: coefficients over the prime field, each with its own bounds."""

    comparison: ClassVar[str] = Element.comparison
    operand_hint: ClassVar[str] = (
        "field.constant(...), field.embed(element) or field.scale(a, element)"
    )

    field: ExtensionField
    coefficients: tuple[Element, ...]

    def _kind(self) -> str:
        return f"an element of {self.field.extension.name}"

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        """Return the limbs of all coefficients, for loops, branches and functions."""
        field, flattened = self.field, [c.flatten() for c in self.coefficients]
        values = [value for limbs, _, _ in flattened for value in limbs]

        def rebuild(values: Sequence[Value]) -> ExtensionElement:
            remaining = iter(values)
            return ExtensionElement(
                field,
                tuple(
                    rebuild_part([next(remaining) for _ in limbs])
                    for limbs, _, rebuild_part in flattened
                ),
            )

        keys = tuple(key for _, key, _ in flattened)
        return values, (ExtensionElement, keys, field.extension), rebuild

    def _get_field(self) -> ExtensionField:
        return self.field

    def _convert_operand(self, other: ExtensionElement | int) -> ExtensionElement:
        if type(other) is int:
            return self.field.embed(self.coefficients[0]._convert_operand(other))
        if not isinstance(other, ExtensionElement):
            self._reject_operand(other)
        return other

    def _times(self, factor: ExtensionElement | int) -> ExtensionElement:
        if type(factor) is int:
            return self.field.from_coefficients(*(c * factor for c in self.coefficients))
        return super()._times(factor)


class ExtensionIdentity(NamedTuple):
    """The identity of an extension in a kernel."""

    base: FieldIdentity
    extension: Extension


class ExtensionField(FieldArithmetic[ExtensionElement]):
    """An extension over a prime field of the kernel.

    calls: compile products as functions with factors of standard bounds, which keeps code small.
    """

    def __init__(self, base: PrimeField, extension: Extension, *, calls: bool = False) -> None:
        self.k = base.k
        self.base = base
        """The prime field at the bottom."""
        self.extension = extension
        self.modulus = base.modulus
        self.degree = extension.degree
        self.word_count = self.degree * base.word_count
        self.word_type = base.word_type
        self.interleaved_products = base.interleaved_products
        self.identity = ExtensionIdentity(base.identity, extension)
        self._calls = calls

    def _check_own(self, *elements: ExtensionElement) -> None:
        """Raise TraceError unless all elements are of this field."""
        name = self.extension.name
        for a in elements:
            argument: object = a
            if not isinstance(argument, ExtensionElement):
                raise TraceError(
                    f"{_kind_of(argument)} is used as an element of {name}; write "
                    f"{ExtensionElement.operand_hint}, or field.load(pointer, index)"
                )
            if a.field is not self and a.field.identity != self.identity:
                raise TraceError(
                    f"{a._kind()} is used as an element of {name}: the fields, or their "
                    "representations in registers, are different"
                )

    def from_coefficients(self, *coefficients: Element) -> ExtensionElement:
        """Return the element with `degree` coefficients."""
        return ExtensionElement(self, coefficients)

    def _parts(self, elements: Sequence[ExtensionElement]) -> list[Element]:
        self._check_own(*elements)
        return [c for a in elements for c in a.coefficients]

    def _elements(self, parts: Sequence[Element]) -> list[ExtensionElement]:
        """Group coefficients into elements, the inverse of `_parts`."""
        n = self.degree
        return [
            self.from_coefficients(*parts[start : start + n]) for start in range(0, len(parts), n)
        ]

    def constant(self, value: Coefficients) -> ExtensionElement:
        """Return a constant, from an integer or a tuple of `degree` integers.

        Raises TraceError for anything else.
        """
        if isinstance(value, int):
            value = (value, *([0] * (self.degree - 1)))
        coefficients: object = value
        if not isinstance(coefficients, tuple) or len(coefficients) != self.degree:
            raise TraceError(
                f"a constant of {self.extension.name} is an integer, or a tuple of {self.degree} "
                f"integers, not {coefficients!r}"
            )
        return self.from_coefficients(*map(self.base.constant, coefficients))

    def embed(self, a: Element | ExtensionElement) -> ExtensionElement:
        """Embed an element of the prime field, or of the extension below this one."""
        argument: object = a
        if isinstance(argument, Element) and argument.field.identity == self.base.identity:
            coefficients: tuple[Element, ...] = (argument,)
        elif (
            isinstance(argument, ExtensionElement)
            and argument.field.extension == self.extension.base
        ):
            coefficients = argument.coefficients
        else:
            raise TraceError(
                f"{_kind_of(argument)} cannot be embedded into {self.extension.name}; give an "
                f"element of {self.modulus.name} or of its base, {self.extension.base.name}"
            )
        zero = self.base.raw_constant(0, coefficients[0].exponent)
        return self.from_coefficients(*coefficients, *([zero] * (self.degree - len(coefficients))))

    # --- linear operations

    def _map_coefficients(
        self, operation: Callable[..., Element], *elements: ExtensionElement
    ) -> ExtensionElement:  # fmt: skip
        """Apply an operation coefficient by coefficient."""
        self._check_own(*elements)
        return self.from_coefficients(*map(operation, *(a.coefficients for a in elements)))

    def add(self, a: ExtensionElement, b: ExtensionElement) -> ExtensionElement:
        return self._map_coefficients(self.base.add, a, b)

    def subtract(self, a: ExtensionElement, b: ExtensionElement) -> ExtensionElement:
        return self._map_coefficients(self.base.subtract, a, b)

    def negate(self, a: ExtensionElement) -> ExtensionElement:
        return self._map_coefficients(self.base.negate, a)

    def select(
        self, condition: Value, a: ExtensionElement, b: ExtensionElement
    ) -> ExtensionElement:
        return self._map_coefficients(functools.partial(self.base.select, condition), a, b)

    def frobenius(self, a: ExtensionElement, times: int = 1) -> ExtensionElement:
        """Return a**(p**times); in a quadratic extension that is the conjugate."""
        # Imported only when a kernel is traced.
        from quod.field.plain_extension import frobenius_table

        self._check_own(a)
        table = frobenius_table(self.extension, times % self.degree)
        return self.from_coefficients(
            *(self._apply_form(form, a.coefficients) for form in zip(*table, strict=True))
        )  # fmt: skip

    def _apply_form(self, form: LinearForm, coefficients: Sequence[Element]) -> Element:
        """Evaluate a linear form with weights of any size."""
        base, centred = self.base, self.modulus.centred
        terms = [(c, centred(w)) for c, w in zip(coefficients, form, strict=True) if w]
        if len(terms) == 1:
            return self._weighted(*terms[0])
        return base.sum_of_products([(c, base.constant(weight)) for c, weight in terms])

    def _weighted(self, a: Element, weight: int) -> Element:
        """Return weight * a."""
        if abs(weight) < _SMALL:
            return self.base.times(a, weight)
        return self.base.multiply(a, self.base.constant(weight))

    # --- products

    def multiply(self, a: ExtensionElement, b: ExtensionElement) -> ExtensionElement:
        return self.square(a) if a is b else self.multiply_many([(a, b)])[0]

    def square(self, a: ExtensionElement) -> ExtensionElement:
        return self.square_many([a])[0]

    def multiply_many(
        self, pairs: Sequence[tuple[ExtensionElement, ExtensionElement]]
    ) -> list[ExtensionElement]:
        return self._sums_of_products([[pair] for pair in pairs])

    def sum_of_products(
        self, pairs: Sequence[tuple[ExtensionElement, ExtensionElement]]
    ) -> ExtensionElement:
        return self._sums_of_products([pairs])[0]

    def _sums_of_products(
        self, sums: Sequence[Sequence[tuple[ExtensionElement, ExtensionElement]]]
    ) -> list[ExtensionElement]:
        """Return independent sums of products, each coefficient reduced once."""
        for pairs in sums:
            for pair in pairs:
                self._check_own(*pair)
        if self._calls:
            return [
                functools.reduce(self.add, map(self._multiply_by_call, pairs)) for pairs in sums
            ]
        return self._inlined_sums(sums)

    def _multiply_by_call(
        self, pair: tuple[ExtensionElement, ExtensionElement]
    ) -> ExtensionElement:
        """Return the product of a pair, computed by a device function."""
        if pair[0] is pair[1]:
            return self.square(pair[0])

        def body(k: Builder, a: ExtensionElement, b: ExtensionElement) -> ExtensionElement:
            return self._inlined_sums([[(a, b)]])[0]

        factors = self.unify(pair, self.standard_bound)
        result: ExtensionElement = self.k.call(
            f"multiply.{self.modulus.name}.{self.degree}", body, *factors, key=self.extension
        )
        return result

    def _inlined_sums(
        self, sums: Sequence[Sequence[tuple[ExtensionElement, ExtensionElement]]]
    ) -> list[ExtensionElement]:
        coefficients: list[list[tuple[Element, Element]]] = []
        for pairs in sums:
            sum_terms: list[list[tuple[Element, Element]]] = [[] for _ in range(self.degree)]
            for a, b in pairs:
                a, b = self.fit(a), self.fit(b)
                for index, terms in enumerate(self._terms(_product_forms(self.extension), a, b)):
                    sum_terms[index] += terms
            coefficients += sum_terms
        return self._elements(self.base.sums_of_products(coefficients))

    def _terms(
        self,
        forms: Sequence[Sequence[LinearForm]],
        a: ExtensionElement,
        b: ExtensionElement,
    ) -> list[list[tuple[Element, Element]]]:
        """Pair, for each row of forms, the coefficients of a with the forms of b's coefficients."""
        form_values: dict[LinearForm, Element] = {}
        rows = []
        for row in forms:
            terms = []
            for coefficient, form in zip(a.coefficients, row, strict=True):
                if any(form):
                    if form not in form_values:
                        form_values[form] = self._apply_small_form(form, b.coefficients)
                    terms.append((coefficient, form_values[form]))
            rows.append(terms)
        return rows

    def _apply_small_form(self, form: LinearForm, coefficients: Sequence[Element]) -> Element:
        """Evaluate a linear form with small weights, positive weights first."""
        base = self.base
        terms = [(c, weight) for c, weight in zip(coefficients, form, strict=True) if weight]
        first_term, *other_terms = sorted(terms, key=lambda term: term[1] < 0)
        total = self._weighted(*first_term)
        for c, weight in other_terms:
            product = self._weighted(c, abs(weight))
            total = base.subtract(total, product) if weight < 0 else base.add(total, product)
        return total

    def square_many(self, elements: Sequence[ExtensionElement]) -> list[ExtensionElement]:
        self._check_own(*elements)
        if not self._calls:
            return self._inlined_squares(elements)

        def body(k: Builder, a: ExtensionElement) -> ExtensionElement:
            return self._inlined_squares([a])[0]

        name = f"square.{self.modulus.name}.{self.degree}"
        return [self.k.call(name, body, self.bounded(a), key=self.extension) for a in elements]

    def _inlined_squares(self, elements: Sequence[ExtensionElement]) -> list[ExtensionElement]:
        if self.modulus.words == 1:
            # Reducing a doubled coefficient to a word takes as long as a product.
            return self._inlined_sums([[(a, a)] for a in elements])
        if self.extension.adjoins_square_root and self.modulus.bits > 64:
            return self._quadratic_squares(elements)
        forms = _square_forms(self.extension)
        sums = [terms for a in map(self.fit, elements) for terms in self._terms(forms, a, a)]
        return self._elements(self.base.sums_of_products(sums))

    def _quadratic_squares(self, elements: Sequence[ExtensionElement]) -> list[ExtensionElement]:
        """Return squares of elements c0 + c1*x, where x^2 = beta, by two products each.
        Their coefficients are (c0 + c1)(c0 + beta*c1) - (1 + beta)*c0*c1 and 2*c0*c1.
        """
        base, beta = self.base, self._beta
        factors = []
        for a in elements:
            c0, c1 = self.fit(a).coefficients
            factors.append((c0, c1))
            factors.append((base.add(c0, c1), base.add(c0, self._weighted(c1, beta))))
        products = base.multiply_many(factors)
        results = []
        for cross, first in zip(products[::2], products[1::2], strict=True):
            if beta != -1:
                first = base.subtract(first, self._weighted(cross, 1 + beta))
            results.append(self.from_coefficients(first, base.double(cross)))
        return results

    @property
    def _beta(self) -> int:
        beta = self.extension.non_residue
        assert beta is not None
        return beta

    def scale(self, a: ExtensionElement, factor: Element) -> ExtensionElement:
        """Multiply a by an element of the prime field."""
        self._check_own(a)
        return self.from_coefficients(*(self.base.multiply(c, factor) for c in a.coefficients))

    def norm(self, a: ExtensionElement) -> Element:
        """Return the product of a and its conjugates, an element of the prime field."""
        if self.extension.adjoins_square_root:
            self._check_own(a)
            c0, c1 = a.coefficients
            scaled = self._weighted(c1, -self._beta)
            return self.base.sum_of_products([(c0, c0), (c1, scaled)])
        return self._norm_by(a, self._other_conjugates(a))

    def _norm_by(self, a: ExtensionElement, other_conjugates: ExtensionElement) -> Element:
        """Return the norm of a, the first coefficient of a times its other conjugates.

        The other coefficients of the product are 0.
        """
        forms = _product_forms(self.extension)[:1]
        return self.base.sum_of_products(
            self._terms(forms, self.fit(a), self.fit(other_conjugates))[0]
        )

    def _other_conjugates(self, a: ExtensionElement) -> ExtensionElement:
        """Return the product of the conjugates other than a.

        The product of the next n conjugates is the n-th Frobenius map of the product of the first
        n. So the number of products is about the number of bits of degree - 1, plus the number of
        its one bits.
        """
        conjugate = self.frobenius(a)
        product, count = conjugate, 1
        for bit in bin(self.degree - 1)[3:]:
            product = self.multiply(product, self.frobenius(product, count))
            count *= 2
            if bit == "1":
                product = self.multiply(conjugate, self.frobenius(product))
                count += 1
        return product

    def inverse(self, a: ExtensionElement) -> ExtensionElement:
        other_conjugates = self._other_conjugates(a)
        norm = (
            self.norm(a)
            if self.extension.adjoins_square_root
            else self._norm_by(a, other_conjugates)
        )
        return self.scale(other_conjugates, self.base.inverse(norm))

    # --- bounds

    def fit(self, a: ExtensionElement) -> ExtensionElement:
        return self._map_coefficients(self.base.fit, a)

    def fit_many(self, elements: Sequence[ExtensionElement]) -> list[ExtensionElement]:
        return self._elements(self.base.fit_many(self._parts(elements)))

    def bounded_many(self, elements: Sequence[ExtensionElement]) -> list[ExtensionElement]:
        return self.unify(elements, self.standard_bound)

    def normalise(self, a: ExtensionElement) -> ExtensionElement:
        """Carry the limbs of all coefficients; the integers do not change."""
        return self._map_coefficients(self.base.normalise, a)

    def reduce(self, a: ExtensionElement, bound: int | None = None) -> ExtensionElement:
        return self._map_coefficients(functools.partial(self.base.reduce, bound=bound), a)

    def unify(self, elements: Sequence[ExtensionElement], bound: int) -> list[ExtensionElement]:
        return self._elements(self.base.unify(self._parts(elements), bound))

    @property
    def standard_bound(self) -> int:
        return self.base.standard_bound

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> ExtensionElement:
        size = self.base.word_count
        return self.from_coefficients(
            *(
                self.base.from_words(words[start : start + size], linear=linear)
                for start in range(0, self.word_count, size)
            )
        )

    def to_words(self, a: ExtensionElement) -> tuple[Value, ...]:
        return tuple(word for c in self._parts([a]) for word in self.base.to_words(c))


def _kind_of(argument: object) -> str:
    """Describe an argument that should be an element of an extension, for messages."""
    return argument._kind() if isinstance(argument, AnyElement) else an(type(argument).__name__)


def _multiplication_table(extension: Extension) -> tuple[tuple[LinearForm, ...], ...]:
    # Imported only when a kernel is traced.
    from quod.field.plain_extension import multiplication_table

    return multiplication_table(extension)


@functools.cache
def _product_forms(extension: Extension) -> list[list[LinearForm]]:
    """Return forms[m][i]: coefficient m of a * b is the sum over i of a_i * forms[m][i](b)."""
    table, n = _multiplication_table(extension), range(extension.degree)
    return [[tuple(table[i][j][m] for j in n) for i in n] for m in n]


@functools.cache
def _square_forms(extension: Extension) -> list[list[LinearForm]]:
    """Return the `_product_forms` of a * a, with each product of two coefficients once."""
    table, n = _multiplication_table(extension), range(extension.degree)
    multiplicity = [[0 if j < i else 1 if j == i else 2 for j in n] for i in n]
    return [[tuple(multiplicity[i][j] * table[i][j][m] for j in n) for i in n] for m in n]


def extension_field(k: Builder, extension: Extension, *, inlined: bool = False) -> ExtensionField:
    """Return the arithmetic of an extension for the machine that `k` traces for.

    inlined: inline products on machines whose prime field products are inlined. The code is large,
        which suits kernels that contain little else.
    """
    remedy = "take one of quod.field.EXTENSIONS, or make one; for a Modulus use prime_field"
    instance("the field", extension, Extension, remedy, error=TraceError)
    base = prime_field(k, extension.modulus)
    is_long = extension.modulus.bits > 64
    calls = is_long and (k.machine.has(Capability.MAD_CARRY_32) or has_one_lane(k))
    return ExtensionField(base, extension, calls=calls and not inlined)


def has_one_lane(k: Builder) -> bool:
    """Report whether a CPU's registers hold single numbers, so that many fit a call."""
    return k.machine.has(Capability.VECTOR_LANES) and k.workgroup_size == 1
