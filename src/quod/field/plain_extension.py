"""Extensions on Python integers: arithmetic, tables for kernels, and the test for irreducibility.

An element is the tuple of its coefficients over the prime field (see `quod.field.spec`), each below
p. The functions also work on K[x]/(f) with a reducible f, unless they say otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from quod.errors import InputError
from quod.field.moduli import Modulus

Plain = tuple[int, ...]


class Extension(Protocol):
    """The description of an extension that this arithmetic reads; see `quod.field.spec`."""

    @property
    def base(self) -> Field: ...
    @property
    def polynomial(self) -> tuple[int | tuple[int, ...], ...]: ...
    @property
    def modulus(self) -> Modulus: ...
    @property
    def degree(self) -> int: ...
    @property
    def product_terms(self) -> tuple[tuple[tuple[int, int, int], ...], ...]: ...
    def __hash__(self) -> int: ...


Field: TypeAlias = Modulus | Extension


def one(field: Field) -> Plain:
    return (1, *([0] * (field.degree - 1)))


def product(field: Field, a: Plain, b: Plain) -> Plain:
    """Return a * b."""
    if isinstance(field, Modulus):
        return (a[0] * b[0] % field.value,)
    p = field.modulus.value
    return tuple([sum([t * a[i] * b[j] for t, i, j in terms]) % p for terms in field.product_terms])


def product_terms(extension: Extension) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """Return for each coefficient of a product a*b its terms (t, i, j), meaning t * a_i * b_j."""
    basis, centred = _basis(extension), extension.modulus.centred
    terms: list[list[tuple[int, int, int]]] = [[] for _ in basis]
    for i, a in enumerate(basis):
        for j, b in enumerate(basis):
            for index, t in enumerate(_product_by_definition(extension, a, b)):
                if t:
                    terms[index].append((centred(t), i, j))
    return tuple(map(tuple, terms))


def _product_by_definition(field: Field, a: Plain, b: Plain) -> Plain:
    """Return a * b by polynomial multiplication and reduction modulo the field's polynomial."""
    if isinstance(field, Modulus):
        return product(field, a, b)
    p = field.modulus.value
    base, size = field.base, field.base.degree
    count = field.degree // size
    parts = [
        [c[start : start + size] for start in range(0, field.degree, size)] for c in (a, b)
    ]  # fmt: skip
    columns = [[0] * size for _ in range(2 * count - 1)]
    for i, x in enumerate(parts[0]):
        for j, y in enumerate(parts[1]):
            _add_to(columns[i + j], _product_by_definition(base, x, y), p)
    polynomial = [(c,) if isinstance(c, int) else c for c in field.polynomial]
    for power in range(2 * count - 2, count - 1, -1):
        top_coefficients = tuple(-c % p for c in columns[power])
        for index in range(count):
            if any(polynomial[index]):
                reduced_part = _product_by_definition(base, top_coefficients, polynomial[index])
                _add_to(columns[power - count + index], reduced_part, p)
    return tuple(c for column in columns[:count] for c in column)


def _add_to(total: list[int], a: Plain, p: int) -> None:
    for index, c in enumerate(a):
        total[index] = (total[index] + c) % p


def power(field: Field, a: Plain, exponent: int) -> Plain:
    """Return a**exponent; raises InputError for an exponent below zero."""
    if exponent < 0:
        raise InputError(f"an exponent must be 0 or more, not {exponent}; invert the base first")
    result = one(field)
    for bit in bin(exponent)[2:]:
        result = product(field, result, result)
        if bit == "1":
            result = product(field, result, a)
    return result


@functools.cache
def multiplication_table(extension: Extension) -> tuple[tuple[Plain, ...], ...]:
    """Return table[i][j] = the product of basis elements i and j, centred between -p/2 and p/2."""
    basis, centred = _basis(extension), extension.modulus.centred
    return tuple(tuple(tuple(map(centred, product(extension, a, b))) for b in basis) for a in basis)


@functools.cache
def frobenius_table(field: Field, times: int = 1) -> tuple[Plain, ...]:
    """Return the basis elements raised to p**times, a linear map over the prime field."""
    if isinstance(field, Modulus) or times == 0:
        return tuple(_basis(field))
    first = _first_frobenius(field)
    table = first
    for _ in range(times - 1):
        table = tuple(mapped(field, first, image) for image in table)
    return table


@functools.cache
def _first_frobenius(field: Extension) -> tuple[Plain, ...]:
    zeros = (0,) * (field.degree - field.base.degree)
    base_images = [(*image, *zeros) for image in frobenius_table(field.base)]
    x = _basis(field)[field.base.degree]
    x_power = power(field, x, field.modulus.value)
    images: list[Plain] = []
    factor = one(field)
    for _ in range(field.degree // field.base.degree):
        images += [product(field, factor, image) for image in base_images]
        factor = product(field, factor, x_power)
    return tuple(images)


def mapped(field: Field, table: Sequence[Plain], a: Plain) -> Plain:
    """Apply the linear map, given by the images of the basis elements, to a."""
    total = [0] * field.degree
    for c, image in zip(a, table, strict=True):
        _add_to(total, tuple(c * part for part in image), field.modulus.value)
    return tuple(total)


def _basis(field: Field) -> list[Plain]:
    return [
        tuple(int(position == index) for position in range(field.degree))
        for index in range(field.degree)
    ]


def is_irreducible(extension: Extension) -> bool:
    """Test whether f is irreducible over K, of q elements, so that K[x]/(f) is a field.

    By Rabin, "Probabilistic algorithms in finite fields", 1980, f of degree n is irreducible if
    x^(q^n) = x modulo f, and for each prime divisor l of n the polynomials x^(q^(n/l)) - x and f
    have no common factor. By the first condition K[x]/(f) is a product of fields over K, so the
    second condition means that x^(q^(n/l)) - x is a unit of K[x]/(f).
    """
    p, size = extension.modulus.value, extension.base.degree
    degree = extension.degree // size
    table = frobenius_table(extension, size)  # to the power q
    x = _basis(extension)[size]
    frobenius_images = [x]
    for _ in range(degree):
        frobenius_images.append(mapped(extension, table, frobenius_images[-1]))
    if frobenius_images[degree] != x:
        return False
    divisors = [n for n in range(2, degree + 1) if degree % n == 0 and _is_small_prime(n)]
    return all(
        _is_unit(
            extension, table, tuple((a - b) % p for a, b in zip(frobenius_images[degree // n], x))
        )
        for n in divisors
    )


def _is_unit(extension: Extension, table: tuple[Plain, ...], a: Plain) -> bool:
    """Test whether a is a unit of K[x]/(f), a product of extensions of K whose degrees divide n.

    n is the degree of f. In each of these extensions, the product of a^(q^i) over i below n is a
    power of the norm, which is in K. An element of K is a unit if and only if its power q - 1 is 1.
    """
    size = extension.base.degree
    norm, conjugate = a, a
    for _ in range(extension.degree // size - 1):
        conjugate = mapped(extension, table, conjugate)
        norm = product(extension, norm, conjugate)
    return power(extension, norm, extension.modulus.value**size - 1) == one(extension)


def _is_small_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, number))
