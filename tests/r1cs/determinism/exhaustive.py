"""All witnesses of small systems, and random systems that resemble parts of circuits."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quod.r1cs.determinism.rows import Combination, Rows, rows_of

Table = np.ndarray[Any, np.dtype[np.int64]]
Constraint = tuple[Combination, Combination, Combination]


def all_witnesses(rows: Rows) -> Table:
    """Every witness, (count, wires): the values of wires are added one at a time."""
    prime = rows.prime
    by_last_wire: dict[int, list[int]] = {}
    for row in range(rows.count):
        by_last_wire.setdefault(max(rows.wires_of(row), default=0), []).append(row)
    table = np.ones((1, 1), np.int64)
    for wire in range(rows.wires):
        if wire:
            column = np.tile(np.arange(prime), len(table))[:, None]
            table = np.hstack([np.repeat(table, prime, axis=0), column])
        for row in by_last_wire.get(wire, ()):
            a, b, c = (_sum(table, *rows.side(matrix, row)) for matrix in range(3))
            table = table[(a * b - c) % prime == 0]
    return table


def _sum(table: Table, wires: Sequence[int], coefficients: Sequence[int]) -> Table:
    return table[:, list(wires)] @ np.array(coefficients, np.int64)


def is_determined(rows: Rows, witnesses: Table, wire: int) -> bool:
    """True if witnesses with equal inputs have equal values of a wire."""
    inputs = witnesses[:, sorted(rows.inputs)]
    with_wire = np.hstack([inputs, witnesses[:, [wire]]])
    return len(np.unique(with_wire, axis=0)) == len(np.unique(inputs, axis=0))


def random_rows(generator: random.Random, primes: Sequence[int]) -> Rows:
    """A system of 3 or 4 wires, or 2 over a large field, with patterns of circuits among its rows:
    bits, inverses, selections, flags, decompositions."""
    prime = generator.choice(primes)
    wires = 3 if prime > 40 else generator.choice([4, 5]) if prime < 12 else 4
    constraints: list[Constraint] = []
    for _ in range(generator.randint(1, wires + 1)):
        constraints += generator.choice(_PATTERNS)(generator, prime, wires - 1)
    inputs = generator.sample(range(1, wires), generator.randint(1, max(1, wires - 2)))
    targets = [wire for wire in range(1, wires) if wire not in inputs]
    return rows_of(prime, wires, constraints, inputs, targets)


def _terms(generator: random.Random, prime: int, last: int, count: int) -> Combination:
    small = (1, 1, 1, -1, 2, -2, 4)
    return {
        generator.randint(0, last): generator.choice((*small, generator.randrange(1, prime)))
        for _ in range(generator.randint(1, count))
    }


def _bit(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    terms = {wire: k for wire, k in _terms(generator, prime, last, 2).items() if wire} or {1: 1}
    return [(terms, {**terms, 0: generator.choice((-1, -1, -1, -2, 1, 3))}, {})]


def _equation(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    return [(_terms(generator, prime, last, 3), {0: 1}, _terms(generator, prime, last, 2))]


def _product(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    a, b, c = (_terms(generator, prime, last, 2) for _ in range(3))
    return [(a, b, c)]


def _zero(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    return [(_terms(generator, prime, last, 2), _terms(generator, prime, last, 2), {})]


def _constant(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    a, b = _terms(generator, prime, last, 2), _terms(generator, prime, last, 2)
    return [(a, b, {0: generator.randrange(1, prime)})]


def _square(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    terms = _terms(generator, prime, last, 1)
    return [(terms, terms, _terms(generator, prime, last, 1))]


def _zero_test(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    x, inverse = _terms(generator, prime, last, 2), _terms(generator, prime, last, 1)
    flag = generator.randint(1, last)
    return [(x, inverse, {0: 1, flag: -1}), (x, {flag: 1}, {})]


def _flags(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    index, *flags = generator.sample(range(1, last + 1), min(3, last))
    return [
        *(({index: 1, 0: -position}, {flag: 1}, {}) for position, flag in enumerate(flags)),
        (dict.fromkeys(flags, 1), {0: 1}, {0: generator.choice((1, 1, 2))}),
    ]


def _packed(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    """Two sums of bits in one equation, at different offsets."""
    first, second, third = generator.sample(range(1, last + 1), 3) if last > 2 else (1, 2, 1)
    bits: list[Constraint] = [({wire: 1}, {wire: 1, 0: -1}, {}) for wire in (first, second, third)]
    equation = {first: 1, second: -1, 0: generator.choice((-2, -4, 0))}
    equation[third] = equation.get(third, 0) + generator.choice((2, 4))
    return [*bits, (equation, {0: 1}, {})]


def _denominator(generator: random.Random, prime: int, last: int) -> list[Constraint]:
    """A quotient of the form (u·a + v·b) / (1 + k·a·b)."""
    if last < 4:
        return []
    a, b, product, quotient = generator.sample(range(1, last + 1), 4)
    numerator = {a: generator.randrange(1, prime), b: generator.randrange(1, prime)}
    return [
        ({a: 1}, {b: 1}, {product: 1}),
        ({0: 1, product: generator.randrange(1, prime)}, {quotient: 1}, numerator),
    ]


_PATTERNS: list[Callable[[random.Random, int, int], list[Constraint]]] = [
    _bit, _bit, _bit, _equation, _product, _zero, _constant, _square, _zero_test, _flags,
    _packed, _denominator,
]  # fmt: skip
