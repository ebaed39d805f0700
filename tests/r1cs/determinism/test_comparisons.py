"""Decompositions into all bits of small fields, compared with each constant, against witnesses."""

from __future__ import annotations

import random

import pytest

from quod.r1cs.determinism.rows import Combination, Rows, rows_of
from quod.r1cs.determinism.rules import Rule
from tests.r1cs.determinism.test_propagation import checked

Constraint = tuple[Combination, Combination, Combination]


def _decomposition(prime: int, first: int) -> list[Constraint]:
    """Wire 1 is the sum of the bits, which are the wires from `first` on."""
    wires = range(first, first + prime.bit_length())
    return [({wire: 1 << index for index, wire in enumerate(wires)}, {0: 1}, {1: 1})]


def _forced_zeros(prime: int, most: int) -> Rows:
    """A bit is 0 at each 0 of the constant, if all higher bits are those of the constant."""
    size = prime.bit_length()
    rows: list[Constraint] = []
    prefix, wires = 0, 2 + size
    for index in reversed(range(size)):
        bit = 2 + index
        if most >> index & 1:
            rows.append(({bit: 1}, {bit: 1, 0: -1}, {}))
            if prefix:
                rows.append(({prefix: 1}, {bit: 1}, {wires: 1}))
                wires += 1
            prefix = wires - 1 if prefix else bit
        elif prefix:
            rows.append(({0: 1, prefix: -1, bit: -1}, {bit: 1}, {}))
        else:
            rows.append(({bit: 1}, {0: 1}, {}))
    return rows_of(prime, wires, [*rows, *_decomposition(prime, 2)], [1], range(2, 2 + size))


def _zero_sums(prime: int, most: int) -> Rows:
    """The sum of the bits at a run of zeros is 0, if all higher bits are those of the constant."""
    size = prime.bit_length()
    rows: list[Constraint] = [({2 + i: 1}, {2 + i: 1, 0: -1}, {}) for i in range(size)]
    prefix, wires, run = 0, 2 + size, dict[int, int]()
    for index in range(size - 1, -2, -1):
        if index >= 0 and not most >> index & 1:
            run[2 + index] = 1
            continue
        if run:
            rows.append((run, {prefix: 1}, {}))
            run = {}
        if index >= 0 and prefix:
            rows.append(({prefix: 1}, {2 + index: 1}, {wires: 1}))
            prefix, wires = wires, wires + 1
        elif index >= 0:
            prefix = 2 + index
    return rows_of(prime, wires, [*rows, *_decomposition(prime, 2)], [1], range(2, 2 + size))


def _sum_of_pairs(prime: int, most: int, result: int) -> Rows:
    """Pairs of bits add 2^i or 2^t - 2^i; a bit of the sum is the result, as in CompConstant."""
    size = prime.bit_length() + prime.bit_length() % 2
    pairs = size // 2
    top = pairs + 1
    rows: list[Constraint] = [({2 + i: 1}, {2 + i: 1, 0: -1}, {}) for i in range(size)]
    for index in range(pairs):
        low, high, part = 2 + 2 * index, 3 + 2 * index, 2 + size + index
        a, b = 1 << index, (1 << top) - (1 << index)
        least, c = most >> 2 * index & 1, most >> 2 * index + 1 & 1
        # part = product * high * low + u * high + v * low + w
        product, u, v, w = (
            ((-b, b, b, 0), (a, b - a, -a, a)), ((b, -a, 0, a), (-a, 0, 0, a))
        )[c][least]  # fmt: skip
        linear: Combination = {part: 1, high: -u, low: -v, 0: -w}
        rows.append(({high: product}, {low: 1}, linear))
    first = 2 + size + pairs
    count = 2 * pairs - 1
    digits = [first + each for each in range(count)]
    rows += [({wire: 1}, {wire: 1, 0: -1}, {}) for wire in digits]
    parts = dict.fromkeys(range(2 + size, first), 1)
    rows.append(
        (parts, {0: 1}, {wire: 1 << index for index, wire in enumerate(digits)})
    )  # fmt: skip
    rows.append(({digits[top - 1]: 1}, {0: 1}, {0: result}))
    bits = range(2, 2 + size)
    weights = {wire: 1 << index for index, wire in enumerate(bits)}
    # The bits determine the others; fewer targets keep the number of witnesses small.
    return rows_of(prime, first + count, [*rows, (weights, {0: 1}, {1: 1})], [1], list(bits))


@pytest.mark.parametrize("prime", [5, 7, 11, 13])
def test_comparison_by_prefixes(prime: int) -> None:
    """Bits are digits exactly if the constant is below p."""
    for most in range(1 << prime.bit_length()):
        for system in (_forced_zeros, _zero_sums):
            if most or system is _forced_zeros:
                facts = checked(system(prime, most))
                if (1 << prime.bit_length()) - 4 > prime > most > prime // 2:
                    assert all(facts.determined[wire] for wire in facts.rows.targets)


@pytest.mark.parametrize("prime", [pytest.param(59, marks=pytest.mark.thorough), 61])
def test_comparison_by_a_sum_of_pairs(prime: int) -> None:
    uses = 0
    for most in (*range(0, 56, 5), *range(56, 64)):
        for result in (0, 1):
            facts = checked(_sum_of_pairs(prime, most, result))
            uses += any(step.rule is Rule.SPLIT for step in facts.steps)
            if not result and prime // 2 < most < prime:
                assert all(facts.determined[wire] for wire in facts.rows.targets), most
    assert uses


def test_equal_bits_of_one_decomposition() -> None:
    """Each of two bits is a copy of the other, by one equation that is the decomposition too."""
    for prime in (5, 7, 11, 13):
        for factor in range(2, prime):
            checked(
                rows_of(
                    prime, 3,
                    [({1: 1, 2: -1}, {0: 1}, {}), ({2: 1}, {2: 1, 0: -1}, {}),
                     ({1: factor}, {2: 1}, {2: 1})],
                    [], [1, 2],
                )
            )  # fmt: skip


def _perturbed(rows: Rows, generator: random.Random) -> Rows:
    """A comparison with another coefficient, another wire, or without a row."""
    constraints = [
        [dict(zip(*rows.side(matrix, row))) for matrix in range(3)] for row in range(rows.count)
    ]
    for _ in range(generator.randint(1, 2)):
        constraint = generator.choice(constraints)
        side = generator.choice([each for each in constraint if each])
        wire = generator.choice(list(side))
        kind = generator.randrange(4)
        if kind == 0:
            constraints.remove(constraint)
        elif kind == 1:
            side[wire] = generator.choice((1, -1, 2, side[wire] + 1, side[wire] - 1))
        elif kind == 2:
            side[generator.randrange(rows.wires)] = side.pop(wire)
        else:
            side[0] = side.get(0, 0) + generator.choice((1, -1))
    return rows_of(
        rows.prime, rows.wires, [(a, b, c) for a, b, c in constraints], sorted(rows.inputs),
        rows.targets,
    )  # fmt: skip


def _compare(seed: int, count: int) -> None:
    generator, uses = random.Random(seed), 0
    for _ in range(count):
        prime = generator.choice([5, 7, 11, 13])
        system = generator.choice([_forced_zeros, _zero_sums])
        rows = _perturbed(system(prime, generator.randrange(1, 1 << prime.bit_length())), generator)
        # Few wires without a constraint, so that the witnesses are few.
        used = set[int]().union(*(rows.wires_of(row) for row in range(rows.count)))
        if rows.wires - 1 - len(used) < 2:
            steps = checked(rows).steps
            uses += any(step.rule is Rule.SUPPOSE and step.polynomials for step in steps)
    assert uses


def test_perturbed_comparisons() -> None:
    """No fact about a comparison with a fault is wrong."""
    _compare(1, 60)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_perturbed_comparisons(seed: int) -> None:
    _compare(seed, 1500)
