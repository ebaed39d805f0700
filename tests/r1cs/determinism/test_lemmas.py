"""Repeated parts of systems: their blocks, lemmas about them, and what the checker rejects."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod import r1cs
from quod.r1cs import gadgets
from quod.r1cs.determinism import blocks, report
from quod.r1cs.determinism.blocks import repeated_blocks
from quod.r1cs.determinism.certificate_checker import check_certificate
from quod.r1cs.determinism.lemmas import LemmaPropagation
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rows import Rows, rows_of
from quod.r1cs.determinism.rules import CertificateError, Lemma, Rule, Step
from quod.r1cs.determinism.sources import rows_of_circuit
from tests.r1cs.determinism.exhaustive import all_witnesses, is_determined, random_rows


def hashes(system: r1cs.ConstraintSystem) -> None:
    """A chain of hashes and decompositions."""
    state = system.public("x")
    for index in range(6):
        state = gadgets.poseidon_hash(system, [state, system.private(f"y{index}")])
        system.bits(system.private(f"z{index}"), 40)
    system.output("hash", state)


def propagated(rows: Rows) -> tuple[LemmaPropagation, Propagation]:
    """Propagate with lemmas, whatever the size of the system."""
    propagation = LemmaPropagation(rows, float("inf"), report.propagate)
    return propagation, propagation.run()


def test_chain_of_hashes_is_unique_by_lemmas() -> None:
    rows = rows_of_circuit(r1cs.trace(hashes).system)
    propagation, facts = propagated(rows)
    assert propagation.is_worthwhile
    assert facts.are_targets_determined()
    assert sum(lemma.rows.count for lemma in propagation.lemmas) < rows.count
    determined = check_certificate(rows, propagation.form, facts.steps, propagation.lemmas)
    assert all(determined[wire] for wire in rows.targets)
    assert determined[1:] == facts.determined[1:]


def test_report_has_the_lemmas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MIN_ROWS", 100)
    rows = rows_of_circuit(r1cs.trace(hashes).system)
    result = report.check(rows)
    assert result.is_unique
    assert result.lemmas
    # A target that lemmas leave open goes through the search in the whole system.
    open_rows = rows_of_circuit(r1cs.trace(hashes).system, targets=["y3"])
    assert not report.check(open_rows, seconds=0.5).lemmas


def test_changed_occurrences_are_rejected() -> None:
    """Steps with another wire, row or lemma, or whose premises come later, do not follow."""
    rows = rows_of_circuit(r1cs.trace(hashes).system)
    propagation, facts = propagated(rows)
    form, lemmas, steps = propagation.form, propagation.lemmas, facts.steps
    at = [index for index, step in enumerate(steps) if step.rule is Rule.LEMMA]
    rejected = 0
    for index in at[:3]:
        step, (row, _) = steps[index], steps[index].sources[0]
        changes = [
            step._replace(nodes=(*step.nodes[1:], step.nodes[0])),
            step._replace(nodes=step.nodes[:-1]),
            step._replace(sources=((row + 1, 1),)),
            step._replace(sources=((row - rows.count, 1),)),
        ]
        for changed in changes:
            with pytest.raises(CertificateError):
                check_certificate(
                    rows, form, [*steps[:index], changed, *steps[index + 1 :]], lemmas
                )
        without = [*steps[:index], *steps[index + 1 :]]
        try:
            check_certificate(rows, form, without, lemmas)
        except CertificateError:
            rejected += 1
    assert rejected
    with pytest.raises(CertificateError):
        check_certificate(rows, form, list(reversed(steps)), lemmas)


def test_lemma_needs_its_premises() -> None:
    """A product of determined wires; a bit whose range comes from another row."""
    lemma_rows = rows_of(11, 4, [({1: 1, 2: 2}, {0: 1}, {3: 1})], [3], [1, 2])
    bits = {1: (0, 1), 2: (0, 1)}
    steps = [Step(Rule.DIGITS, ((0, 1),))]
    form = NormalForm(lemma_rows)
    lemma = Lemma(lemma_rows, form, bits, steps)
    booleans = [({wire: 1}, {wire: 1, 0: -1}, {}) for wire in (4, 5)]
    sum_row = ({4: 1, 5: 2}, {0: 1}, {6: 1})
    use = Step(Rule.LEMMA, ((2, 1),), (4, 5, 6), (0, 0))
    for inputs, has_ranges in (([6], True), ([6], False), ([], True)):
        rows = rows_of(11, 7, [*booleans, sum_row], inputs, [4])
        form_of_rows = NormalForm(rows)
        ranges = [Step(Rule.ROOTS, ((row, 1),), (wire,), (0, 1)) for row, wire in ((0, 4), (1, 5))]
        certificate = [*(ranges if has_ranges else []), use]
        if inputs and has_ranges:
            assert check_certificate(rows, form_of_rows, certificate, [lemma])[4]
        else:
            with pytest.raises(CertificateError):
                check_certificate(rows, form_of_rows, certificate, [lemma])
    # The same rows over another field.
    other = rows_of(13, 7, [*booleans, sum_row], [6], [4])
    with pytest.raises(CertificateError):
        check_certificate(other, NormalForm(other), [*ranges, use], [lemma])


@pytest.mark.parametrize(
    ("roots", "premise", "is_accepted"),
    [
        ((0, 1), (0, 1), True),
        ((0, 2), (0, 1), False),
        ((-1, 1), (0, 1), False),
        ((-1, 0), (0, 1), False),
        ((2, 3), (0, 1), False),
        ((0, 1), (11, 12), True),
        ((0, 1), (-1, 2), True),
        ((0, 1), (0, -1), False),
    ],
)
def test_premises_contain_the_ranges_of_wires(
    roots: tuple[int, int], premise: tuple[int, int], is_accepted: bool
) -> None:
    """A range of a premise has both ends of the wire's range, as residues."""
    first, last = roots
    lemma_rows = rows_of(11, 3, [({1: 1}, {0: 1}, {2: 1})], [], [2])
    lemma = Lemma(lemma_rows, NormalForm(lemma_rows), {1: premise}, [])
    # (x - first)(x - last) = 0
    roots_row = ({1: 1, 0: -first}, {1: 1, 0: -last}, {})
    rows = rows_of(11, 3, [roots_row, ({1: 1}, {0: 1}, {2: 1})], [], [2])
    certificate = [
        Step(Rule.ROOTS, ((0, 1),), (1,), roots), Step(Rule.LEMMA, ((1, 1),), (1, 2), (0, 0))
    ]  # fmt: skip
    if is_accepted:
        check_certificate(rows, NormalForm(rows), certificate, [lemma])
    else:
        with pytest.raises(CertificateError, match="step 1"):
            check_certificate(rows, NormalForm(rows), certificate, [lemma])


def test_premises_are_about_wires() -> None:
    """(x + y)² determines x + y between 1 and 2; another wire's range is none of x + y."""
    constraints = [({1: 1, 2: 1}, {1: 1, 2: 1}, {3: 1}), ({1: 1}, {0: 1}, {4: 1})]
    lemma_rows = rows_of(11, 5, constraints, [2, 3], [1])
    lemma_form = NormalForm(lemma_rows)
    (total,) = range(5, lemma_form.nodes)
    proof = [Step(Rule.SIGN, ((0, 1),)), Step(Rule.DIGITS, ((2, 1),))]
    lemma = Lemma(lemma_rows, lemma_form, {total: (1, 2)}, proof)
    rows = rows_of(11, 6, [*constraints, ({5: 1, 0: -1}, {5: 1, 0: -2}, {})], [2, 3], [1])
    assert not is_determined(rows, all_witnesses(rows), 1)
    steps = [
        Step(Rule.ROOTS, ((2, 1),), (5,), (1, 2)),
        Step(Rule.LEMMA, ((0, 1),), (1, 2, 3, 4, 5), (0, 0)),
    ]  # fmt: skip
    with pytest.raises(CertificateError, match="step 1"):
        check_certificate(rows, NormalForm(rows), steps, [lemma])


def _repeated(rows: Rows, generator: random.Random) -> Rows:
    """Copies of a small system in a row, whose wires are shared at random."""
    size = rows.wires - 1
    count = generator.randint(2, 3)
    wires = generator.randint(size, min(5, count * size))
    constraints = []
    for _ in range(count):
        names = [0, *(generator.randint(1, wires) for _ in range(size))]
        for row in range(rows.count):
            sides = []
            for matrix in range(3):
                side: dict[int, int] = {}
                for wire, k in zip(*rows.side(matrix, row)):
                    side[names[wire]] = side.get(names[wire], 0) + k
                sides.append(side)
            constraints.append((sides[0], sides[1], sides[2]))
    inputs = generator.sample(range(1, wires + 1), generator.randint(1, wires - 1))
    targets = [wire for wire in range(1, wires + 1) if wire not in inputs]
    return rows_of(rows.prime, wires + 1, constraints, inputs, targets)


def _compare(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one to three rows: no fact is wrong, and the checker accepts each step."""
    generator, uses = random.Random(seed), 0
    monkeypatch.setattr(blocks, "_DISTANCE", 1)
    monkeypatch.setattr(blocks, "_GRAM", 1)
    for _ in range(count):
        monkeypatch.setattr(blocks, "_OVERLAP", generator.randint(0, 2))
        rows = _repeated(random_rows(generator, (5, 7, 11)), generator)
        propagation, facts = propagated(rows)
        uses += bool(propagation.lemmas)
        form = propagation.form
        determined = check_certificate(rows, form, facts.steps, propagation.lemmas)
        assert determined[1:] == facts.determined[1:]
        witnesses = all_witnesses(rows)
        for wire in range(1, rows.wires):
            values = witnesses[:, wire]
            if bounds := facts.ranges[wire]:
                assert ((values - bounds[0]) % rows.prime <= bounds[1] - bounds[0]).all()
            assert not facts.determined[wire] or is_determined(rows, witnesses, wire)
    assert uses > count // 20


def test_lemmas_about_random_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    _compare(1, 150, monkeypatch)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 12))
def test_lemmas_about_many_random_systems(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 random systems."""
    _compare(seed, 10_000, monkeypatch)


def test_blocks_do_not_depend_on_names_of_wires() -> None:
    """Blocks of a system whose wires, and entries of rows, are permuted."""
    rows = rows_of_circuit(r1cs.trace(hashes).system)
    names = [0, *(1 + np.random.default_rng(1).permutation(rows.wires - 1)).tolist()]
    constraints = [
        tuple({names[wire]: k for wire, k in zip(*rows.side(m, row))} for m in range(3))
        for row in range(rows.count)
    ]
    permuted = rows_of(
        rows.prime, rows.wires, [(a, b, c) for a, b, c in constraints],
        [names[wire] for wire in rows.inputs], [names[wire] for wire in rows.targets],
    )  # fmt: skip
    first, second = repeated_blocks(rows)[0], repeated_blocks(permuted)[0]
    assert first
    assert [block.first for block in first] == [block.first for block in second]
