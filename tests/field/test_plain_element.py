"""Elements with operators against integers and the products of an extension."""

from __future__ import annotations

import copy
import operator
import random
from collections.abc import Callable

import pytest

from quod.errors import InputError, MismatchError
from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.plain_extension import power, product

FIELDS = [NAMED["m31"], EXTENSIONS["m31.4"], EXTENSIONS["goldilocks.3"]]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_operators(field: FieldSpec) -> None:
    generator, p = random.Random(5), field.modulus.value
    for _ in range(20):
        a, b = (tuple(generator.randrange(p) for _ in range(field.degree)) for _ in range(2))
        x, y = PlainElement.from_coefficients(field, [a, b])
        number = generator.randrange(-p, 2 * p)
        assert (x + y).coefficients == tuple((c + d) % p for c, d in zip(a, b, strict=True))
        assert (x - y).coefficients == tuple((c - d) % p for c, d in zip(a, b, strict=True))
        assert (x * y).coefficients == product(field, a, b)
        assert (x * number).coefficients == tuple(c * number % p for c in a)
        assert (x**5).coefficients == power(field, a, 5)
        assert coefficients_of([x, y]) == (a, b)


def test_neutral_elements() -> None:
    field = FIELDS[1]
    x = PlainElement(field, (3, 1, 4, 1))
    assert x + PlainElement.zero(field) == x
    assert x * PlainElement.one(field) == x
    assert PlainElement.one(field).coefficients == (1, 0, 0, 0)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_integers(field: FieldSpec) -> None:
    """An integer stands for its residue in the prime field."""
    p = field.modulus.value
    for number in (0, 1, p - 1, p, -1, 3 * p + 7):
        element = PlainElement.of(field, number)
        assert element.coefficients == (number % p, *[0] * (field.degree - 1))
        assert element == PlainElement.one(field) * number


def test_equality() -> None:
    """Elements are equal with the same coefficients in the same field alone."""
    x = PlainElement(FIELDS[1], (3, 1, 4, 1))
    assert x == PlainElement(FIELDS[1], (3, 1, 4, 1))
    assert hash(x) == hash(PlainElement(FIELDS[1], (3, 1, 4, 1)))
    assert x != PlainElement(FIELDS[1], (3, 1, 4, 2))
    assert x != PlainElement(EXTENSIONS["koala_bear.4"], (3, 1, 4, 1))
    assert x != (3, 1, 4, 1)


def test_operands_of_two_fields() -> None:
    """Operands are of one field, whose equal copy is the same field."""
    x = PlainElement(FIELDS[1], (3, 1, 4, 1))
    copied = PlainElement(copy.copy(FIELDS[1]), (3, 1, 4, 1))
    assert x + copied == x * 2
    for field in (FIELDS[0], EXTENSIONS["koala_bear.4"]):
        for combine in (operator.add, operator.sub, operator.mul):
            with pytest.raises(MismatchError):
                combine(x, PlainElement.one(field))


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_exponents_below_zero(field: FieldSpec) -> None:
    with pytest.raises(InputError, match="an exponent must be 0 or more, not -3"):
        PlainElement.of(field, 2) ** -3


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
def test_wrong_coefficient_counts_are_rejected(
    operation: Callable[[PlainElement, PlainElement], PlainElement],
) -> None:
    element = PlainElement.one(FIELDS[1])
    for count in (0, 1, 3, 5):
        wrong = PlainElement(FIELDS[1], (1,) * count)
        for pair in ((element, wrong), (wrong, element)):
            with pytest.raises(MismatchError, match=f"has 4 coefficients, not {count}"):
                operation(*pair)
