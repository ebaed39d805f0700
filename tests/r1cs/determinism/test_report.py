"""Verdicts against all witnesses of small systems, and on circuits with a constraint missing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from quod import r1cs
from quod.r1cs import gadgets
from quod.r1cs.determinism import findings
from quod.r1cs.determinism.report import Report, check
from quod.r1cs.determinism.rows import rows_of
from quod.r1cs.determinism.sources import rows_of_circuit
from tests.r1cs.determinism.all_gadgets import GADGETS, gadget_rows
from tests.r1cs.determinism.exhaustive import all_witnesses, is_determined, random_rows
from tests.r1cs.determinism.test_propagation import PRIMES

System = r1cs.ConstraintSystem
Circuit = Callable[[System], object]


@pytest.mark.parametrize("seed", [1])
def test_verdicts_of_random_systems(seed: int) -> None:
    _compare(random.Random(seed), 600)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 12))
def test_verdicts_of_many_random_systems(seed: int) -> None:
    """100,000 random systems."""
    _compare(random.Random(seed), 10_000)


def _compare(generator: random.Random, count: int) -> None:
    """No verdict is wrong, and most ambiguous targets have a counterexample."""
    verdicts = Counter[tuple[bool, str]]()
    for _ in range(count):
        rows = random_rows(generator, PRIMES)
        witnesses = all_witnesses(rows)
        for verdict in check(rows, seconds=600).verdicts:
            determined = is_determined(rows, witnesses, verdict.wire)
            assert verdict.kind != ("ambiguous" if determined else "unique"), rows
            verdicts[determined, verdict.kind] += 1
    assert verdicts[False, "unknown"] < 0.1 * verdicts[False, "ambiguous"], verdicts
    assert verdicts[True, "unknown"] < 0.3 * verdicts[True, "unique"], verdicts


def report(circuit: Circuit, curve: str = "bn254") -> Report:
    """The check of a circuit's outputs; its counterexamples are verified once again."""
    rows = rows_of_circuit(r1cs.trace(circuit, curve).system)
    result = check(rows, seconds=600)
    for wire, pair in result.pairs.items():
        assert not rows.failing(pair.first)
        assert not rows.failing(pair.second)
        assert all(pair.first[each] == pair.second[each] for each in rows.inputs)
        assert pair.first[wire] != pair.second[wire]
    return result


def quotient(system: System, remainder_bits: int, is_below_ten: bool) -> None:
    """57 = 10·5 + 7, or 10·4 + 17 if nothing bounds the remainder."""
    x = system.public("x")
    quotient, remainder = system.hint(lambda value: divmod(value, 10), [x], 2)
    system.assert_equal(10 * quotient + remainder, x)
    system.bits(quotient, 32)
    if remainder_bits:
        system.bits(remainder, remainder_bits)
    if is_below_ten:
        system.bits(9 - remainder, 4)
    system.output("remainder", remainder)


def bits_of_hint(system: System, are_boolean: bool) -> None:
    x = system.public("x")
    bits = system.hint(lambda value: [value >> index & 1 for index in range(8)], [x], 8)
    system.assert_equal(system.pack(bits), x)
    for bit in bits if are_boolean else ():
        system.boolean(bit)
    system.output("bit", bits[3])


def decomposition(system: System, count: int) -> None:
    x = system.public("x")
    bits = [system.hint_bit(x, index) for index in range(count)]
    for bit in bits:
        system.boolean(bit)
    system.assert_equal(system.pack(bits), x)
    system.output("bit", bits[0])


def root(system: System, is_bounded: bool) -> None:
    x = system.public("x")
    (value,) = system.hint(lambda square: round(square**0.5), [x])
    system.assert_equal(value * value, x)
    if is_bounded:
        system.bits(value, 32)
    system.output("root", value)


def fraction(system: System, is_nonzero: bool) -> None:
    x, y = system.public("x"), system.public("y")
    if is_nonzero:
        system.assert_nonzero(y)
    system.output("quotient", x / y)


def flags(system: System, has_sum: bool) -> None:
    index = system.public("index")
    hot = system.hint(lambda value: [int(value == each) for each in range(4)], [index], 4)
    for position, flag in enumerate(hot):
        system.enforce(flag, index - position, 0)
    if has_sum:
        system.assert_equal(system.sum(hot), 1)
    system.output("value", system.sum(hot, [5, 6, 7, 8]))


def zero_test(system: System, has_second_row: bool) -> None:
    x = system.public("x")
    inverse, flag = system.inverse_or_zero(x), system.wire()
    system.enforce(x, inverse, 1 - flag)
    if has_second_row:
        system.enforce(x, flag, 0)
    system.output("flag", flag)


def line(system: System, is_distinct: bool) -> None:
    """The slope through two points, which may be equal."""
    u1, v1, u2, v2 = (system.public(name) for name in ("u1", "v1", "u2", "v2"))
    if is_distinct:
        system.assert_nonzero(u2 - u1)
    slope = (v2 - v1) / (u2 - u1)
    system.output("u", slope * slope - u1 - u2)


PAIRS: dict[str, tuple[Circuit, Circuit]] = {
    "remainder without a range": (lambda s: quotient(s, 0, False), lambda s: quotient(s, 4, True)),
    "remainder below 16": (lambda s: quotient(s, 4, False), lambda s: quotient(s, 4, True)),
    "bits not boolean": (lambda s: bits_of_hint(s, False), lambda s: bits_of_hint(s, True)),
    "alias x + p": (lambda s: decomposition(s, 254), lambda s: decomposition(s, 253)),
    "sign of a root": (lambda s: root(s, False), lambda s: root(s, True)),
    "0/0": (lambda s: fraction(s, False), lambda s: fraction(s, True)),
    "one-hot without its sum": (lambda s: flags(s, False), lambda s: flags(s, True)),
    "zero test of one row": (lambda s: zero_test(s, False), lambda s: zero_test(s, True)),
    "equal points": (lambda s: line(s, False), lambda s: line(s, True)),
}  # fmt: skip


@pytest.mark.parametrize("fault", PAIRS)
def test_faulty_circuit_is_ambiguous_and_mended_one_is_unique(fault: str) -> None:
    faulty, mended = PAIRS[fault]
    assert [verdict.kind for verdict in report(faulty).verdicts] == ["ambiguous"]
    assert [verdict.kind for verdict in report(mended).verdicts] == ["unique"]


TAMPERED: dict[str, dict[str, int]] = {
    "remainder without a range": {"x": 57},
    "remainder below 16": {"x": 53},
    "bits not boolean": {"x": 5},
    "alias x + p": {"x": 5},
    "sign of a root": {"x": 25},
    "0/0": {"x": 0, "y": 0},
    "one-hot without its sum": {"index": 2},
    "zero test of one row": {"x": 3},
    "equal points": {"u1": 2, "v1": 3, "u2": 2, "v2": 3},
}


@pytest.mark.parametrize("fault", PAIRS)
def test_tamper_finds_the_fault_at_suitable_inputs(fault: str) -> None:
    faulty, mended = PAIRS[fault]
    accepted = r1cs.trace(faulty).tamper(300, TAMPERED[fault])
    assert any(each.public for each in accepted)
    if fault not in ("0/0", "equal points"):
        assert not [each for each in r1cs.trace(mended).tamper(300, TAMPERED[fault]) if each.error]


@pytest.mark.thorough
def test_packed_sums_of_blake2s_are_unique() -> None:
    def circuit(system: System) -> None:
        digest = gadgets.blake2s_hash(system, system.private_bits("x", 256), b"12345678")
        for index, bit in enumerate(digest):
            system.output(f"bit[{index}]", bit)

    assert report(circuit).is_unique


@pytest.mark.parametrize("name", [name for name, gadget in GADGETS.items() if gadget.is_small])
def test_gadget_is_unique(name: str) -> None:
    result = check(gadget_rows(name), seconds=600)
    assert all(verdict.kind == "unique" for verdict in result.verdicts)
    # A table without a use of all bits, and a sponge's last state, have unused signals.
    assert {finding.kind for finding in result.findings} <= {findings.UNUSED}


def test_time_limit_leaves_targets_unknown() -> None:
    """No target is unique or ambiguous that was not decided."""
    rows = rows_of(101, 4, [({1: 1}, {2: 1}, {3: 1})], [1, 3], [2])
    result = check(rows, seconds=0)
    assert [verdict.kind for verdict in result.verdicts] == ["unknown"]
    assert result.timed_out


def test_comparison_bounds_a_remainder() -> None:
    """circom's --O1 equates the result of a comparison with 1 in equations of their own."""

    def circuit(system: System) -> None:
        days = system.public("days")
        years, remainder = system.hint(lambda value: divmod(value, 365), [days], 2)
        system.assert_equal(365 * years + remainder, days)
        system.bits(years, 16)
        system.bits(remainder, 9)
        is_less = system.wire()
        system.assert_equal(is_less, 1 - system.bits(remainder + 512 - 365, 10)[9])
        system.assert_equal(is_less, 1)
        system.output("years", years)

    assert report(circuit).is_unique


def test_linear_part_of_a_core_is_eliminated() -> None:
    """x + y = a, x - y = b: no equation alone determines x."""
    rows = rows_of(
        101, 5, [({3: 1, 4: 1}, {0: 1}, {1: 1}), ({3: 1, 4: -1}, {0: 1}, {2: 1})], [1, 2], [3, 4]
    )
    assert check(rows).is_unique


def test_unknown_target_names_signals_in_its_constraints() -> None:
    """No rule determines four bits by their sum and their weighted sum."""

    def circuit(system: System) -> None:
        index = system.public("index")
        hot = system.hint(lambda value: [int(value == each) for each in range(4)], [index], 4)
        for flag in hot:
            system.boolean(flag)
        system.assert_equal(system.sum(hot), 1)
        system.assert_equal(system.sum(hot, range(4)), index)
        system.output("value", system.sum(hot, [5, 6, 7, 9]))

    result = report(circuit)
    assert not result.timed_out
    assert str(result.verdicts[0]) == (
        "value: unknown, in a group of 7 connected constraints; not shown to be unique either: "
        "wire 3, wire 4, wire 5, wire 6"
    )
