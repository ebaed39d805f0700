"""Findings name the cause of each planted fault, with the signal and the constraint."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

import pytest

from quod import r1cs
from quod.r1cs import gadgets
from quod.r1cs.determinism import findings, report
from quod.r1cs.determinism.findings.projection import Occurrences, Projection
from quod.r1cs.determinism.report import Report, check
from quod.r1cs.determinism.rows import Rows, rows_of
from quod.r1cs.determinism.sources import rows_of_circuit
from tests.r1cs.determinism.exhaustive import all_witnesses, random_rows
from tests.r1cs.determinism.removal import without
from tests.r1cs.determinism.test_audits import AUDITS
from tests.r1cs.determinism.test_report import PAIRS, Circuit, System

EXPECTED = {
    "bits not boolean": [findings.NOT_A_BIT, findings.UNUSED_PUBLIC],
    "alias x + p": [findings.ALIAS],
    "0/0": [findings.ZERO_DIVISOR],
    "equal points": [findings.ZERO_DIVISOR],
    "one-hot without its sum": [findings.ZERO_DIVISOR] * 2,
    "remainder without a range": [findings.FREE],
    "zero test of one row": [findings.FREE],
}
"""Faults, and the kinds of the findings about them."""
EXPECTED_OF_AUDITS = {
    "remainder": [],
    "remainder of limbs": [findings.FREE] * 2,
    "coordinate": [findings.FREE],
    "comparison without effect": [findings.UNUSED_COMPARISON],
    "carry of an addition": [findings.FREE],
    "left rotation": [findings.FREE],
    "limbs of a product": [findings.FREE],
    "overflow": [findings.FREE],
    "less than": [findings.FREE],
    "zero of a big integer": [findings.FREE, findings.UNUSED_PUBLIC],
    "assigned output": [findings.FREE, *[findings.UNUSED] * 3],
    "decoder": [findings.ZERO_DIVISOR] * 2,
    "bits of an exclusive or": [findings.NOT_A_BIT] * 2,
    "level of a tree": [findings.NOT_A_BIT, findings.FREE],
    "revealed text": [findings.FREE],
    "254 bits": [findings.ALIAS],
    "element of a multiple": [findings.ZERO_DIVISOR],
    "scalar of a signature": [findings.FREE],
}


def _report(circuit: Circuit) -> Report:
    return check(rows_of_circuit(r1cs.trace(circuit).system), seconds=600)


def _messages(circuit: Circuit) -> list[str]:
    return [_PLACE.sub("", str(finding)) for finding in _report(circuit).findings]


_PLACE = re.compile(r" \(\w+\.py:\d+\)$")


def _kinds(circuit: Circuit) -> list[str]:
    return [finding.kind for finding in _report(circuit).findings]


@pytest.mark.parametrize("fault", EXPECTED)
def test_finding_names_the_fault(fault: str) -> None:
    faulty, mended = PAIRS[fault]
    assert _kinds(faulty) == EXPECTED[fault]
    assert not _kinds(mended)


@pytest.mark.parametrize("name", EXPECTED_OF_AUDITS)
def test_finding_names_the_fault_of_an_audit(name: str) -> None:
    (audit,) = [audit for audit in AUDITS if audit.name == name]
    assert _kinds(lambda s: audit.circuit(s, False)) == EXPECTED_OF_AUDITS[name]
    assert not _kinds(lambda s: audit.circuit(s, True))


def test_place_and_reason_of_a_finding() -> None:
    finding = _report(PAIRS["bits not boolean"][0]).findings[0]
    assert finding.message.startswith("wire 3, wire 4, wire 5 and 5 more have powers of two")
    assert "may have any value; constraint 0 (" in finding.message


def _compared(system: System, size: int | None) -> r1cs.Signal:
    x, y = system.public("x"), system.private("y")
    for operand in (x, y):
        if size is not None:
            system.bits(operand, size)
    return system.bits(x - y + (1 << 8), 9)[8]


def test_operands_of_a_comparison_need_a_range() -> None:
    """The output is unique, and wrong for large operands."""
    unbounded, too_wide, bounded = (
        _messages(lambda s, size=size: s.output("less", 1 - _compared(s, size)))
        for size in (None, 9, 8)
    )
    (message,) = unbounded
    assert message == (
        "comparison of operands without a range: x and y are compared as numbers of 8 bits, and "
        "may be greater; constraint 9"
    )
    assert len(too_wide) == 1
    assert not bounded


def test_comparison_through_copies() -> None:
    """circom's --O0 and --O1 decompose a signal that equals x - y + 2^n."""

    def circuit(system: System, size: int | None) -> None:
        x, y = system.public("x"), system.public("y")
        if size:
            system.bits(x, size)
        total, copy = system.hint(lambda a, b: [a - b + 256] * 2, [x, y], 2)
        system.assert_equal(total, x - y + 256)
        system.assert_equal(copy, total)
        system.output("less", 1 - system.bits(copy, 9)[8])

    (message,) = _messages(lambda s: circuit(s, 8))
    assert message.startswith("comparison of operands without a range: y is compared as a number")


def test_comparison_with_a_constant() -> None:
    def circuit(system: System, is_bounded: bool) -> None:
        x = system.public("x")
        if is_bounded:
            system.bits(x, 8)
        system.output("less", 1 - system.bits(x - 100 + (1 << 8), 9)[8])

    assert _kinds(lambda s: circuit(s, False)) == [findings.OPERAND_RANGE]
    assert not _kinds(lambda s: circuit(s, True))


def test_result_of_a_comparison_without_effect() -> None:
    assert _kinds(lambda s: _compared(s, 8)) == [findings.UNUSED_COMPARISON]


def test_range_check_is_no_comparison() -> None:
    def circuit(system: System) -> None:
        system.bits(99 - system.public("x"), 7)
        system.bits(system.private("y") + 5, 8)

    assert not _kinds(circuit)


@pytest.mark.parametrize(("is_public", "is_bit"), [(True, False), (False, False), (False, True)])
def test_selector_is_a_bit(is_public: bool, is_bit: bool) -> None:
    """The verifier knows public inputs."""

    def circuit(system: System) -> None:
        selector = system.public("s") if is_public else system.private("s")
        if is_bit:
            system.boolean(selector)
        else:
            system.declare_upper_bound(selector, 1)
        a, b = system.private("v", 2)
        system.output("chosen", system.select(selector, a, b))

    def product(system: System) -> None:
        a, b, c = system.private("v", 3)
        system.output("slope", a + system.multiply(c, b - c))

    messages = _messages(circuit)
    assert messages == ([] if is_public or is_bit else [
        "not constrained to a bit: s selects one of two signals like a bit, and may have any "
        "value; constraint 0"
    ])  # fmt: skip
    assert not _kinds(product)


def test_signals_without_an_input() -> None:
    """x * y = 5 says nothing about the input z."""
    rows = rows_of(101, 4, [({1: 1}, {2: 1}, {0: 5}), ({3: 1}, {3: 1}, {3: 1})], [3], [1])
    (finding,) = check(rows).findings
    assert finding.kind == findings.FREE
    assert finding.message.startswith("wire 1 and wire 2 may have values of their own, whatever")


UNUSED: dict[str, tuple[Circuit, list[str]]] = {}
"""Circuits with unused signals, and the messages about them."""


def _unused(*messages: str) -> Callable[[Circuit], Circuit]:
    def add(circuit: Circuit) -> Circuit:
        UNUSED[circuit.__name__] = circuit, list(messages)
        return circuit

    return add


@_unused(
    "public input without effect: sender affects only wire 6, which nothing uses",
    "public input without effect: day occurs in no constraint",
    "unused signal: salt (2 signals) occur in no constraint",
)
def inputs_without_effect(system: System) -> None:
    """A square binds a proof to its sender, which limits nothing."""
    sender, _ = system.public("sender"), system.public("day")
    system.private("salt", 2)
    system.multiply(sender, sender)
    system.output("square", system.private("age") ** 2)


@_unused(
    "unused signal: wire 7, wire 4 and wire 3 have no effect: no output and no assertion depends "
    "on them; constraint 5"
)
def chain_of_results(system: System) -> None:
    x = system.private("x")
    fourth = system.multiply(*[system.multiply(x, x + 1)] * 2)
    system.output("cube", x**3)
    system.multiply(fourth, x)


@_unused(
    "unused signal: wire 4 and wire 3 have no effect: no output and no assertion depends on them; "
    "constraint 3"
)
def equality_without_use(system: System) -> None:
    """The result of a zero test, which two constraints define."""
    x = system.private("x")
    system.bits(x, 1)
    system.is_zero(x - 1)


@_unused()
def assertions(system: System) -> None:
    """A range, a nonzero number and a hash are assertions about inputs."""
    x, y = system.private("x"), system.private("y")
    system.bits(x, 8)
    system.assert_nonzero(y)
    system.assert_equal(gadgets.poseidon_hash(system, [x, y]), system.public("hash"))


@_unused(
    "not tied to the inputs: wire 3 may have any value, whatever the inputs are: other signals can "
    "be chosen to fit; constraint 0",
)
def output_of_a_hint(system: System) -> None:
    """The output depends on the hint, although the constraint has a solution for the hint."""
    x = system.public("x")
    (half,) = system.hint(lambda value: value // 2, [x])
    system.output("sum", x + half)


@pytest.mark.parametrize("name", UNUSED)
def test_unused_signals(name: str) -> None:
    circuit, messages = UNUSED[name]
    assert _messages(circuit) == messages


def test_targets_do_not_change_what_is_unused() -> None:
    """Nor is a target unused, as the caller asks for it."""
    circuit = r1cs.trace(chain_of_results)
    for targets, count in (["all"], 1), (["cube"], 1), (["wire 7"], 0):
        rows = rows_of_circuit(circuit.system, targets=targets)
        kinds = [finding.kind for finding in check(rows).findings]
        assert kinds.count(findings.UNUSED) == count, targets


@pytest.mark.parametrize("seed", range(400))
def test_projection_keeps_the_values_of_kept_wires(seed: int) -> None:
    """All witnesses of random systems, with and without the removed constraints."""
    generator = random.Random(seed)
    rows = random_rows(generator, [2, 3, 5, 7])
    kept = generator.sample(range(1, rows.wires), generator.randint(1, rows.wires - 1))
    projection = Projection(rows, Occurrences(rows), kept)
    remaining = rows
    for row in sorted(projection.removed, reverse=True):
        remaining = without(remaining, row)
    assert remaining.count == rows.count - len(projection.removed)
    assert _values(rows, kept) == _values(remaining, kept)


def _values(rows: Rows, wires: list[int]) -> set[tuple[int, ...]]:
    return {tuple(values) for values in all_witnesses(rows)[:, wires].tolist()}


def test_projection_of_a_zero_test() -> None:
    """x * inverse = 1 - flag and x * flag = 0 have solutions for each x if flag is free."""
    test: list[tuple[Mapping[int, int], Mapping[int, int], Mapping[int, int]]] = [
        ({1: 3}, {2: 1}, {0: 1, 3: -1}),
        ({3: 1}, {1: 5}, {}),
    ]
    for further, count in ([], 2), ([({3: 1}, {3: 1}, {0: 1})], 0):
        rows = rows_of(7, 4, [*test, *further], [1], [1])
        projection = Projection(rows, Occurrences(rows), [1])
        assert len(projection.removed) == count
        assert len(_values(rows, [1])) == (7 if count else 1)


def test_large_systems_have_findings_of_the_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def circuit(system: System) -> None:
        _compared(system, 8)
        system.multiply(system.public("z"), 2 + system.private("w"))

    assert _kinds(circuit) == [findings.UNUSED_COMPARISON, findings.UNUSED_PUBLIC, findings.UNUSED]
    monkeypatch.setattr(report, "_MAX_FINDING_ROWS", 10)
    result = _report(circuit)
    assert [finding.kind for finding in result.findings] == [
        findings.UNUSED_PUBLIC,
        findings.UNUSED,
    ]
    assert not result.has_all_findings
