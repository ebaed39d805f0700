"""Propagation, its certificates and their checker, against all witnesses of small systems."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from quod.errors import InputError
from quod.r1cs.determinism.arguments.comparisons import run_comparisons
from quod.r1cs.determinism.arguments.denominators import find_denominators
from quod.r1cs.determinism.arguments.one_hot import run_one_hot
from quod.r1cs.determinism.certificate_checker import check_certificate
from quod.r1cs.determinism.normal_form import Affine, NormalForm, Product
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rows import Combination, Matrix, Rows, rows_of
from quod.r1cs.determinism.rules import SOUNDNESS, CertificateError, Rule, Step
from tests.r1cs.determinism.exhaustive import all_witnesses, is_determined, random_rows

BIT = {0: -1, 1: 1}


def propagated(rows: Rows) -> Propagation:
    """The facts of a system after propagation with all rules."""
    form = NormalForm(rows)
    propagation = Propagation(rows, form)
    propagation.run()
    run_one_hot(propagation)
    find_denominators(propagation)
    run_comparisons(propagation)
    return propagation


def checked(rows: Rows) -> Propagation:
    """Propagate, and compare every fact with all witnesses and with the certificate's checker."""
    facts = propagated(rows)
    assert check_certificate(rows, facts.form, facts.steps)[1:] == facts.determined[1:]
    witnesses = all_witnesses(rows)
    for wire in range(1, rows.wires):
        values = witnesses[:, wire]
        if bounds := facts.ranges[wire]:
            assert ((values - bounds[0]) % rows.prime <= bounds[1] - bounds[0]).all()
        assert not {*values.tolist()} & facts.excluded.get(wire, set())
        assert not facts.determined[wire] or is_determined(rows, witnesses, wire)
    return facts


def _systems(rule: Rule) -> Iterator[Rows]:
    """Systems in which a rule applies for some coefficients over small fields."""
    for p in (5, 7, 11):
        field = range(p)
        if rule is Rule.DIGITS:
            for k, m in product(field, field):
                yield rows_of(p, 4, [({1: k, 2: m, 3: 1}, {0: 2}, {0: m})], [1, 3], [2])
                yield rows_of(p, 4, [({1: 1, 0: k}, {2: 1, 0: m}, {3: 1})], [1, 2], [3])
            for k, m, width in product(field, field, (1, 2, 3)):
                bits = [({w: 1}, {w: 1, 0: -v}, {}) for w, v in ((2, 1), (3, width))]
                yield rows_of(p, 4, [*bits, ({2: k, 3: m}, {0: 1}, {1: 1})], [1], [2, 3])
        elif rule is Rule.RANGE:
            for k, m, width in product(field, field, (1, 2)):
                bits = [({w: 1}, {w: 1, 0: -v}, {}) for w, v in ((1, 1), (2, width))]
                for row in (
                    ({1: k, 2: m, 0: 2}, {0: 1}, {3: 1}),
                    ({1: 1, 0: k}, {2: m, 0: 1}, {3: 2, 0: m}),
                ):
                    yield rows_of(p, 4, [*bits, row], [], [3])
        elif rule is Rule.QUOTIENT:
            for k, m in product(field, field):
                rows = [({1: 1, 0: k}, {2: 1, 0: m}, {3: 1}), ({2: 1, 0: m}, {4: 1}, {0: 1})]
                yield rows_of(p, 5, rows, [2, 3], [1])
        elif rule is Rule.NONZERO:
            for k, m in product(field, field):
                rows = [({1: 1, 0: k}, {2: 1}, {0: m}), ({1: 1, 0: 1}, {3: 1, 0: 1}, {})]
                yield rows_of(p, 4, rows, [], [3])
        elif rule is Rule.ROOTS:
            for k, c, m, d, e in product((1, 2), field, (1, 3), field, (0, 1)):
                yield rows_of(p, 2, [({1: k, 0: c}, {1: m, 0: d}, {1: e, 0: c})], [], [1])
        elif rule is Rule.CASES:
            for k, m in product(field, field):
                bits = [({w: 1}, {w: 1, 0: -1}, {}) for w in (1, 2)]
                row = ({1: k}, {2: 1, 3: k}, {1: 1, 2: m, 3: -1})
                yield rows_of(p, 4, [*bits, row], [], [3])
        elif rule is Rule.SIGN:
            for low, width, c, d in product(field, (1, 2), field, (0, 1)):
                bounds = ({2: 1, 0: -low}, {2: 1, 0: -low - width}, {})
                yield rows_of(
                    p, 3, [bounds, ({2: 1, 0: c}, {2: 1 + d, 0: d}, {1: 1})], [1], [2]
                )  # fmt: skip
        elif rule in (Rule.SUPPOSE, Rule.OTHERWISE, Rule.JOIN):
            for k, m, c in product(field, (1, 2), field):
                x = {1: m, 0: k}
                rows = [(x, {3: 1}, {2: 1, 0: c}), ({1: 2 * m, 0: 2 * k}, {2: 1}, {})]
                yield rows_of(p, 4, rows, [1], [2])
            for k, m in product(field, field):
                rows = [
                    ({1: 1}, {2: 1}, {}), ({1: 1, 0: k}, {3: 1}, {}),
                    ({2: 1, 3: m}, {0: 1}, {0: 1}),
                ]  # fmt: skip
                yield rows_of(p, 4, rows, [1], [2, 3])
        elif rule is Rule.SPLIT:
            for k, m, c in product((1, 2, -4), (2, 4, -2), field):
                bits = [({w: 1}, {w: 1, 0: -1}, {}) for w in (1, 2, 3, 4)]
                row = ({1: 1, 2: -1, 3: m, 4: k, 0: c}, {0: 1}, {})
                yield rows_of(p, 5, [*bits, row], [1, 3], [2, 4])
        elif rule is Rule.DERIVE:
            for k, m, v in product(field, field, field) if p < 11 else ():
                rows = [({1: k}, {2: 1}, {3: 1}), ({0: 1, 3: m}, {4: 1}, {1: 1, 2: v})]
                yield rows_of(p, 5, rows, [1, 2], [4])
            # The second coordinate of a double: c - p + k·p is y² - k·x².
            for k, d in product(field, field) if p == 5 else ():
                rows = [
                    ({1: 1}, {2: 1}, {3: 1}), ({3: d}, {3: 1}, {4: 1}),
                    ({2: 1, 1: -k}, {1: 1, 2: 1}, {5: 1}),
                    ({0: 1, 4: -1}, {6: 1}, {5: 1, 3: k - 1}),
                ]  # fmt: skip
                yield rows_of(p, 7, rows, [1, 2], [6])


ELSEWHERE = {Rule.LEMMA, Rule.POINT, Rule.CHORD}
"""The rules that test_lemmas and test_points test."""


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule not in ELSEWHERE])
def test_rule_is_sound_for_all_coefficients(rule: Rule) -> None:
    """Every coefficient over the fields of 5, 7 and 11 elements, against all witnesses."""
    assert SOUNDNESS[rule]
    uses = sum(any(step.rule is rule for step in checked(rows).steps) for rows in _systems(rule))
    assert uses


PRIMES = (5, 7, 11, 13, 17, 19, 23, 37, 53, 71, 97, 101)


@pytest.mark.parametrize("seed", [1])
def test_random_systems(seed: int) -> None:
    """No fact about a random system is wrong, and most that hold are derived."""
    _compare(random.Random(seed), 1500)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_systems(seed: int) -> None:
    """100,000 random systems."""
    _compare(random.Random(seed), 10_000)


def _compare(generator: random.Random, count: int) -> None:
    rules = Counter(
        step.rule for _ in range(count) for step in checked(random_rows(generator, PRIMES)).steps
    )
    # A random system hardly ever has the form of a sum of points, and is too small for lemmas.
    assert {*Rule} - rules.keys() <= {Rule.DERIVE, *ELSEWHERE}


def test_changed_steps_are_rejected() -> None:
    """A certificate without one of its steps, or with another system's rows, does not follow."""
    generator, rejected = random.Random(5), 0
    for _ in range(200):
        rows = random_rows(generator, (7, 11))
        facts = propagated(rows)
        form, steps = facts.form, facts.steps
        for index in range(len(steps)):
            changed = [*steps[:index], *steps[index + 1 :]]
            try:
                determined = check_certificate(rows, form, changed)
            except CertificateError:
                rejected += 1
                continue
            witnesses = all_witnesses(rows)
            assert all(
                is_determined(rows, witnesses, wire)
                for wire in range(1, rows.wires)
                if determined[wire]
            )
    assert rejected > 50


def test_coefficients_of_another_equation_are_rejected() -> None:
    """Integers that are those of the equation modulo p, and no further terms, prove digits."""
    bits = [({wire: 1}, {wire: 1, 0: -1}, {}) for wire in (2, 3)]
    rows = rows_of(11, 5, [*bits, ({2: 1, 3: 2}, {0: 1}, {1: 1})], [1], [2])
    form = NormalForm(rows)
    ranges = [step for step in propagated(rows).steps if step.rule is Rule.ROOTS]
    for integers, is_right in (
        ({2: 1, 3: 2}, True), ({2: 12, 3: 2}, False), ({2: 1, 3: 3}, False),
        ({2: 1, 3: 2, 4: 11}, False), ({2: 1}, False),
    ):  # fmt: skip
        terms = tuple(((node,), k) for node, k in integers.items())
        steps = [*ranges, Step(Rule.DIGITS, ((2, 1),), polynomials=(terms,))]
        if is_right:
            assert check_certificate(rows, form, steps)[2]
        else:
            with pytest.raises(CertificateError):
                check_certificate(rows, form, steps)


def test_certificate_that_ends_in_a_case_is_rejected() -> None:
    """A node with a supposed value is determined in the case alone."""
    rows = rows_of(7, 3, [({1: 1}, {1: 1}, {2: 1})], [2], [1])
    assert not is_determined(rows, all_witnesses(rows), 1)
    suppose, otherwise = Step(Rule.SUPPOSE, (), (1,), (1, 1)), Step(Rule.OTHERWISE, ())
    for steps in ([suppose], [suppose, otherwise], [suppose, suppose, otherwise]):
        with pytest.raises(CertificateError, match="ends in a case"):
            check_certificate(rows, NormalForm(rows), steps)


def test_altered_normal_form_is_rejected() -> None:
    """A product or form that is not that of its row."""
    rows = rows_of(11, 5, [({1: 1, 2: 3}, {3: 1}, {4: 1}), ({1: 2}, {0: 1}, {2: 1})], [1, 3], [4])
    steps = propagated(rows).steps
    assert check_certificate(rows, NormalForm(rows), steps)[4]
    form = NormalForm(rows)
    form.products[0] = form.products[0]._replace(a=form.products[0].b)
    with pytest.raises(CertificateError):
        check_certificate(rows, form, steps)
    form = NormalForm(rows)
    form.forms[0] = (1, 2), (1, 4)
    with pytest.raises(CertificateError):
        check_certificate(rows, form, steps)


def test_constant_is_no_multiple_of_a_node() -> None:
    """The normal form may write the constant 1 as 11·x + 1; it does not determine x."""
    rows = rows_of(11, 4, [({1: 1}, {0: 1}, {3: 1}), ({1: 1}, {3: 1}, {0: 1})], [1], [2])
    form = NormalForm(rows)
    form.products.append(Product(Affine(1, 1, 0), Affine(11, 2, 1), Affine(1, 3, 0), 0))
    steps = [
        Step(Rule.NONZERO, ((1, 1),), (1,), (0, -1)), Step(Rule.DIGITS, ((0, 1),)),
        Step(Rule.QUOTIENT, ((0, 1),), (2,)),
    ]  # fmt: skip
    check_certificate(rows, form, steps[:2])
    with pytest.raises(CertificateError, match="step 2"):
        check_certificate(rows, form, steps)


@pytest.mark.parametrize(
    ("constraint", "step"),
    [
        (({1: 1}, {2: 1}, {3: 1}), Step(Rule.RANGE, ((1, 1),), (1, 2), (0, 1))),
        (({1: 1}, {1: 1}, {3: 1}), Step(Rule.RANGE, ((1, 1),), (1, 1), (0, 1))),
        (({1: 1, 2: 1}, {0: 1}, {0: 2}), Step(Rule.ROOTS, ((1, 1),), (1, 2), (1, 1))),
        (({1: 1, 2: 1}, {0: 1}, {0: 2}), Step(Rule.CASES, ((1, 1),), (1, 2), (1, 1))),
    ],
)
def test_steps_that_solve_for_several_nodes_are_rejected(
    constraint: tuple[Combination, Combination, Combination], step: Step
) -> None:
    """The range of x·y is none of x, nor is the root of 2x - 2 one of x + y - 2."""
    rows = rows_of(11, 4, [({3: 1}, {3: 1, 0: -1}, {}), constraint], [], [1])
    steps = [Step(Rule.ROOTS, ((0, 1),), (3,), (0, 1)), step]
    assert not is_determined(rows, all_witnesses(rows), 1)
    check_certificate(rows, NormalForm(rows), steps[:1])
    with pytest.raises(CertificateError, match="step 1"):
        check_certificate(rows, NormalForm(rows), steps)


@pytest.mark.parametrize("modulus", [1, 4, 15, 2**61, (2**31 - 1) * (2**61 - 1)])
def test_composite_modulus_is_refused(modulus: int) -> None:
    with pytest.raises(InputError, match="composite"):
        rows_of(modulus, 2, [({1: 1}, {1: 1}, {1: 1})], [], [1])


def test_wires_must_exist() -> None:
    with pytest.raises(InputError, match="wire 3 is not one of wires 1 to 2"):
        rows_of(7, 3, [({1: 1}, {1: 1}, {2: 1})], [3], [2])
    for wire in (-1, 3):
        with pytest.raises(InputError, match=f"a row has wire {wire}, not one of 0 to 2"):
            rows_of(7, 3, [({1: 1}, {1: 1}, {wire: 1})], [1], [2])


def test_matrices_have_equally_many_rows() -> None:
    a, b, _ = rows_of(7, 3, [({1: 1}, {1: 1}, {2: 1})], [1], [2]).matrices
    with pytest.raises(InputError, match="A has 1 rows, B or C has 0"):
        Rows(7, 3, (a, b, Matrix([], [], [])), frozenset([1]), (2,), str, str)
