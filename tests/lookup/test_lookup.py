"""Lookups on every device, against a model on plain integers; hostile values and proofs."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from quod import lookup
from quod.commitment import Ligero, Raw
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, Extension, FieldSpec, Modulus, from_integers
from quod.field.array import Words
from quod.field.plain_element import coefficients_of
from quod.field.plain_extension import product
from quod.lookup import (
    Range,
    Statement,
    Table,
    error_terms,
    multiplicities,
    prove_committed,
    verify_committed,
)
from quod.lookup.fractions import FractionTree, read_sums
from quod.lookup.tree import FractionTrees
from quod.sumcheck.run import elements_to_words
from quod.transcript import Hash, ProofReader, ProofWriter, Transcript
from tests.reference import lookup as reference
from tests.reference.sumcheck import add, embed, multilinear, negate
from tests.support.bound_transcripts import behind_commitments, bound
from tests.support.elements import drawn
from tests.support.idle_device import Idle
from tests.support.thorough import one_and_others
from tools.fuzz.mutations import of_bytes

prove, verify = behind_commitments(lookup.prove), behind_commitments(lookup.verify)

TOY = Modulus("toy.17", 17)
FIELDS: dict[str, FieldSpec] = {
    "bn254.fr": NAMED["bn254.fr"],
    **{name: EXTENSIONS[name] for name in ("m31.4", "goldilocks.2", "koala_bear.4")},
    "toy.17": TOY,
    "toy.31.2": Extension("toy.31.2", Modulus("toy.31", 31), (-3, 0, 1)),
}

Integers = list[list[list[int]]]


def words(field: FieldSpec, columns: Integers) -> list[list[Words]]:
    return [[from_integers(field.modulus, array) for array in column] for column in columns]


def tuples(
    field: FieldSpec, seed: int, columns: int, log2_size: int, log2_table: int, width: int
) -> tuple[Integers, list[list[int]]]:
    """Columns and a table, hostile elements and equal entries among it."""
    generator, p = random.Random(seed), field.modulus.value
    entries = [
        tuple(generator.choice([0, 1, p - 1, generator.randrange(p)]) for _ in range(width))
        for _ in range(1 << log2_table)
    ]
    rows = [[generator.choice(entries) for _ in range(1 << log2_size)] for _ in range(columns)]
    return (
        [[list(part) for part in zip(*column, strict=True)] for column in rows],
        [list(part) for part in zip(*entries, strict=True)],
    )


CASES = [
    ("bn254.fr", 2, 2, 3, 3), ("m31.4", 1, 3, 2, 1), ("m31.4", 3, 2, 4, 2),
    ("goldilocks.2", 5, 1, 1, 1), ("koala_bear.4", 1, 1, 3, 2), ("toy.17", 1, 3, 2, 1),
    ("toy.31.2", 3, 2, 3, 2),
    # Columns that are the leaves themselves, in a tree that is lower, as high, and higher.
    ("m31.4", 2, 4, 6, 1), ("goldilocks.2", 1, 3, 3, 1), ("toy.31.2", 1, 4, 2, 1),
]  # fmt: skip


# Over the fields that are thorough, proofs of perceptrons and recorded ones have lookups.
@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize(
    ("name", "columns", "log2_size", "log2_table", "width"),
    one_and_others(
        CASES, always=[("m31.4", 2, 4, 6, 1), ("m31.4", 3, 2, 4, 2), ("toy.31.2", 3, 2, 3, 2)]
    ),
)
def test_agrees_with_the_model(
    device: AnyDevice, name: str, columns: int, log2_size: int, log2_table: int, width: int
) -> None:
    field = FIELDS[name]
    looked_up, table = tuples(field, 7, columns, log2_size, log2_table, width)
    arrays, entries = words(field, looked_up), words(field, [table])[0]
    counts = multiplicities(device, field, arrays, entries)
    expected = reference.counted(looked_up, table)
    assert np.array_equal(counts, from_integers(field.modulus, expected))
    proof = prove(device, field, arrays, entries, counts)
    assert proof.statement == Statement(field, columns, log2_size, Table(log2_table, width))
    assert proof.data == reference.prove(
        proof.statement, looked_up, table, expected, bound()
    )  # fmt: skip
    check(proof.statement, proof.data, looked_up, table, expected)
    assert verify(proof.statement, proof.data) == proof.reduced


def check(
    statement: Statement, data: bytes, columns: Integers, table: list[list[int]], counts: list[int]
) -> None:
    """VerificationError unless a proof is right, and what it leaves to show."""
    field, reduced = statement.field, verify(statement, data)
    claims = [
        *((array, reduced.point, value)
          for column, values in zip(columns, reduced.columns, strict=True)
          for array, value in zip(column, values, strict=True)),
        (counts, reduced.table_point, reduced.multiplicity),
        *((array, reduced.table_point, value)
          for array, value in zip(table, reduced.entry, strict=bool(reduced.entry))),
    ]  # fmt: skip
    for array, point, value in claims:
        if reference.at(field, array, point) != value:
            raise VerificationError("not what was committed")


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize(
    "name", one_and_others(["bn254.fr", "m31.4", "toy.31.2"], always=["m31.4", "toy.31.2"])
)
def test_ranges(device: AnyDevice, name: str) -> None:
    field = FIELDS[name]
    columns = [[[0, 7, 7, 3]], [[1, 2, 0, 7]]]
    arrays: list[Any] = [array for (array,) in words(field, columns)]
    counts = multiplicities(device, field, arrays, Range(3))
    proof = prove(device, field, arrays, Range(3), counts)
    table, expected = [list(range(8))], [2, 1, 1, 1, 0, 0, 0, 3]
    assert proof.data == reference.prove(proof.statement, columns, table, expected, bound())
    assert proof.reduced.entry == ()
    check(proof.statement, proof.data, columns, table, expected)


@pytest.mark.parametrize(
    ("log2_size", "log2_table", "width"),
    [(1, 2, 1), (4, 5, 1), pytest.param(1, 2, 2, marks=pytest.mark.thorough)],
)
def test_gpu_code_agrees_with_the_model(
    gpu_device: AnyDevice, log2_size: int, log2_table: int, width: int
) -> None:
    test_agrees_with_the_model(gpu_device, "m31.4", width, log2_size, log2_table, width)


@pytest.mark.thorough
def test_sums_larger_than_a_workgroup() -> None:
    """The columns' values at the point come from another kernel than the sums."""
    field, generator = FIELDS["m31.4"], np.random.default_rng(1)
    arrays = [
        from_integers(field.modulus, generator.integers(0, 1 << 5, 1 << 13).tolist())
        for _ in range(3)
    ]
    counts = multiplicities("cpu", field, arrays, Range(5))
    proof = prove("cpu", field, arrays, Range(5), counts)
    assert verify(proof.statement, proof.data) == proof.reduced


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "log_capacity"),
    one_and_others([("m31.4", None), ("m31.4", 1), ("bn254.fr", 1)], always=[("m31.4", 1)]),
)
def test_trees_of_different_heights(name: str, log_capacity: int | None) -> None:
    """Numerators and denominators of any value, zeros too."""
    field, device = FIELDS[name], open_device("cpu")
    forms = [
        FractionTree(3, True),
        FractionTree(1, False),
        FractionTree(4, False),
        FractionTree(2, True),
    ]
    trees, leaves = FractionTrees(device, field, forms, log_capacity=log_capacity), []
    for number, form in enumerate(forms):
        numerators, denominators = (
            drawn(field, 1 << form.log2_size, 2 * number + part) for part in range(2)
        )
        entries = numerators + denominators
        if not form.has_numerators:
            numerators, entries = [embed(field, 1)] * len(numerators), denominators
        leaves.append((numerators, denominators))
        start, array = trees.first(number) * 4 * field.words, elements_to_words(field, entries)
        device.upload(array, into=trees.leaves(number).slice(start, start + array.nbytes))
    writer = ProofWriter(begun(1))
    recording = device.stream().record()
    trees.record(recording)
    recorded = recording.finish().recording
    for _ in range(2):
        trees.begin(writer.transcript.state)
        device.stream().replay(recorded).submit().wait()
        data = trees.download_messages()
    points = reference.prove_sums(writer, field, forms, leaves)
    assert data == writer.getvalue()
    reader = ProofReader(data, begun(1))
    for read_sum, point, leaf_tables in zip(
        read_sums(reader, field, forms), points, leaves, strict=True
    ):
        assert read_sum.point == tuple(point)
        assert coefficients_of(read_sum.at_point) == tuple(
            multilinear(field, table, point) for table in leaf_tables
        )
        while len(leaf_tables[0]) > 1:
            leaf_tables = reference.added(field, *leaf_tables)
        fraction = coefficients_of([read_sum.numerator, read_sum.denominator])
        assert fraction == (leaf_tables[0][0], leaf_tables[1][0])
    reader.end()


@pytest.mark.parametrize("name", one_and_others(["toy.17", "toy.31.2"]))
def test_denominators_may_be_zero(name: str) -> None:
    """Over a toy field alpha may equal a value; the proof is complete anyway."""
    field, device, zeros = FIELDS[name], open_device("cpu"), 0
    columns, table = tuples(field, 3, 1, 3, 2, 1)
    arrays, entries = words(field, columns), words(field, [table])[0]
    counts = multiplicities(device, field, arrays, entries)
    for number in range(40):
        transcript = begun(number)
        before = transcript.copy()
        proof = prove(device, field, arrays, entries, counts, transcript=transcript)
        assert verify(proof.statement, proof.data, transcript=begun(number)) == proof.reduced
        proof.statement.absorb(before)
        zeros += before.challenge(field) in [embed(field, value) for value in table[0]]
    assert zeros or name != "toy.17"


def begun(number: int) -> Transcript:
    """A transcript after a commitment that nobody has seen before."""
    return bound(number.to_bytes(4, "little"))


Proven = tuple[Statement, bytes, Integers, list[list[int]], list[int]]


@pytest.fixture(scope="module", params=one_and_others(["m31.4", "bn254.fr"]))
def proven(request: pytest.FixtureRequest) -> Proven:
    field = FIELDS[request.param]
    columns, table = tuples(field, 5, 2, 2, 2, 2)
    arrays, entries = words(field, columns), words(field, [table])[0]
    counts = multiplicities("cpu", field, arrays, entries)
    proof = prove("cpu", field, arrays, entries, counts)
    return proof.statement, proof.data, columns, table, reference.counted(columns, table)


def test_mutated_proofs_are_refused(proven: Proven) -> None:
    statement, data, columns, table, counts = proven
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            check(statement, bytes(changed), columns, table, counts)
    for wrong in (data[:-1], data + b"\0", b"", data[4:], data * 2):
        with pytest.raises((VerificationError, InputError)):
            verify(statement, wrong)
    size, p = statement.field.modulus.bytes, statement.field.modulus.value
    for place in range(0, len(data), size):
        again = int.from_bytes(data[place : place + size], "little") + p
        if again < 1 << 8 * size:
            other = data[:place] + again.to_bytes(size, "little") + data[place + size :]
            with pytest.raises(InputError, match="not below the modulus"):
                verify(statement, other)


def test_damaged_proofs_are_refused() -> None:
    """Changed, removed and repeated bytes raise only the documented errors."""
    field, generator = FIELDS["m31.4"], random.Random(1)
    statement = Statement(field, 2, 1, Range(1))
    arrays = [from_integers(field.modulus, numbers) for numbers in ([0, 1], [1, 1])]
    proof = prove_committed("cpu", field, arrays, Range(1))
    refused = 0
    for _ in range(3000):
        damaged = of_bytes(generator, proof)
        if damaged == proof:
            continue
        with pytest.raises((VerificationError, InputError)):
            verify_committed(statement, damaged)
        refused += 1
    assert refused > 2500


def test_other_statements_are_refused(proven: Proven) -> None:
    statement, data, columns, table, counts = proven
    field = statement.field
    for wrong in (
        Statement(field, 2, 2, Table(2, 1)), Statement(field, 2, 2, Table(3, 2)),
        Statement(field, 1, 3, Table(2, 2)), Statement(field, 2, 2, Range(2)),
        Statement(field, 4, 1, Table(2, 2)), Statement(EXTENSIONS["m31.3"], 2, 2, Table(2, 2)),
    ):  # fmt: skip
        with pytest.raises((VerificationError, InputError)):
            verify(wrong, data)
    with pytest.raises(VerificationError):
        verify(statement, data, transcript=begun(1))
    for place in range(4):
        with pytest.raises(VerificationError, match="not what was committed"):
            other = [list(array) for array in table]
            other[place % 2][place] ^= 1
            check(statement, data, columns, other, counts)
        with pytest.raises(VerificationError, match="not what was committed"):
            check(
                statement, data, columns, table, [c + (at == place) for at, c in enumerate(counts)]
            )


def test_every_part_of_a_statement_changes_the_first_challenge() -> None:
    field, challenges = FIELDS["m31.4"], set()
    for columns, log2_size, table in (
        (1, 4, Table(3, 1)), (2, 4, Table(3, 1)), (1, 5, Table(3, 1)), (1, 4, Table(4, 1)),
        (1, 4, Table(3, 2)), (1, 4, Range(3)),
    ):  # fmt: skip
        transcript = Transcript()
        Statement(field, columns, log2_size, table).absorb(transcript)
        challenges.add(transcript.challenge(field))
    transcript = Transcript()
    Statement(FIELDS["koala_bear.4"], 1, 4, Table(3, 1)).absorb(transcript)
    challenges.add(transcript.challenge(field))
    assert len(challenges) == 7


def test_a_cheating_prover_is_refused(proven: Proven) -> None:
    """A value that is not in the table, and numbers of lookups that are not those."""
    statement, _, columns, table, counts = proven
    p = statement.field.modulus.value
    missing = next(n for n in range(2, p) if n not in table[0])
    smuggled = [[list(array) for array in column] for column in columns]
    smuggled[1][0][3] = missing
    for one_more in range(4):
        wrong = [count + (at == one_more) for at, count in enumerate(counts)]
        for claimed_columns, claimed_counts in (
            (smuggled, counts),
            (smuggled, wrong),
            (columns, wrong),
        ):
            data = reference.prove(statement, claimed_columns, table, claimed_counts, bound())
            with pytest.raises(VerificationError, match="a lookup is not in the table"):
                verify(statement, data)
    # Half of an entry and half of another are no entry.
    swapped = [[list(array) for array in column] for column in columns]
    entries = set(zip(*table, strict=True))
    halves = next(
        pair for pair in itertools.product(*table) if pair not in entries
    )  # fmt: skip
    swapped[0][0][0], swapped[0][1][0] = halves
    data = reference.prove(statement, swapped, table, counts, bound())
    with pytest.raises(VerificationError):
        verify(statement, data)


def test_provers_report_rows_missing_from_the_table() -> None:
    for name in ("m31.4", "bn254.fr", "goldilocks.2"):
        field = FIELDS[name]
        columns = words(field, [[[1, 2], [3, 4]], [[1, 1], [3, 4]]])
        entries = words(field, [[[1, 2], [3, 4]]])[0]
        with pytest.raises(InputError, match=r"row 1 of column 1 is \(1, 4\), not in the table"):
            multiplicities("cpu", field, columns, entries)
        arrays = [from_integers(field.modulus, [3, 4])]
        with pytest.raises(InputError, match="row 1 of column 0 is 4, not in the table"):
            multiplicities("cpu", field, arrays, Range(2))
        with pytest.raises(InputError, match="row 1 of column 0 is 4, not in the table"):
            prove_committed("cpu", field, arrays, Range(2))
        wide = [from_integers(field.modulus, [3, field.modulus.value - 1])]
        with pytest.raises(InputError, match="row 1 of column 0"):
            multiplicities("cpu", field, wide, Range(2))
        wrong = from_integers(field.modulus, [0, 0, 1, 1])
        with pytest.raises(InputError, match="row 1 of column 0 is 4, not in the table"):
            prove("cpu", field, arrays, Range(2), wrong)
        right = [from_integers(field.modulus, [3, 3])]
        with pytest.raises(InputError, match="do not match the columns"):
            prove("cpu", field, right, Range(2), wrong)


def test_committed_columns() -> None:
    field = FIELDS["m31.4"]
    columns, table = tuples(field, 9, 3, 2, 2, 2)
    arrays, entries = words(field, columns), words(field, [table])[0]
    proof = prove_committed("cpu", field, arrays, entries)
    statement = Statement(field, 3, 2, Table(2, 2))
    claims: list[Any] = verify_committed(statement, proof, entries)
    assert [list(c.table) for c in claims] == [array for column in columns for array in column]
    other = [array.copy() for array in entries]
    other[0][2] ^= 1
    with pytest.raises(VerificationError):
        verify_committed(statement, proof, other)
    for place in range(0, len(proof), 5):
        changed = bytearray(proof)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            verify_committed(statement, bytes(changed), entries)
    for wrong in (proof[:-1], proof + b"\0", b"", proof[4:]):
        with pytest.raises((VerificationError, InputError)):
            verify_committed(statement, wrong, entries)
    wrong_table: Any
    for wrong_table in (None, entries[:1], entries[0], [e[:2] for e in entries], Range(2)):
        with pytest.raises(InputError):
            verify_committed(statement, proof, wrong_table)
    with pytest.raises(InputError, match="pass its entries as table="):
        verify_committed(statement, proof)


@pytest.mark.thorough
@pytest.mark.parametrize("hash", one_and_others([Hash.POSEIDON2_M31, Hash.SHA_256]))
def test_lookups_of_other_hashes(hash: Hash) -> None:
    """Raw columns, and Ligero's openings; no other hash takes them."""
    field = FIELDS["m31.4"]
    columns, table = tuples(field, 9, 3, 2, 2, 2)
    arrays, entries = words(field, columns), words(field, [table])[0]
    statement = Statement(field, 3, 2, Table(2, 2))
    for scheme in (Raw(), Ligero()):
        options: dict[str, Any] = {
            "scheme": scheme, "hash": hash, "recursive": hash.is_algebraic
        }  # fmt: skip
        proof = prove_committed("cpu", field, arrays, entries, **options)
        verify_committed(statement, proof, entries, **options)
        with pytest.raises((VerificationError, InputError)):
            verify_committed(statement, proof, entries, scheme=scheme)
    with pytest.raises(InputError, match="pass recursive=True"):
        verify_committed(statement, proof, entries, hash=Hash.POSEIDON2_M31)
    tree = Ligero(hash=Hash.POSEIDON2_M31)
    with pytest.raises(InputError, match="pass recursive=True"):
        prove_committed("cpu", field, arrays, entries, scheme=tree)
    with pytest.raises(InputError, match="pass recursive=True"):
        verify_committed(statement, proof, entries, scheme=tree)


def test_false_lookups_pass_on_toy_fields_at_the_bounded_rate() -> None:
    """False lookups pass if alpha is a root of the difference of the sums, and only then."""
    table, counts, columns, p = [[1, 2, 3, 4]], [1, 1, 1, 0], [[[1, 2, 3, 9]]], 17
    statement = Statement(TOY, 1, 2, Table(2))

    def difference(alpha: int) -> int:
        total = 0
        values = [(v, 1) for v in columns[0][0]] + [(v, -m) for v, m in zip(table[0], counts)]
        for at, (_, numerator) in enumerate(values):
            for other, (value, _) in enumerate(values):
                numerator = numerator * (alpha - value) % p if other != at else numerator
            total += numerator
        return total % p

    roots = {alpha for alpha in range(p) if not difference(alpha)}
    rate, trials, accepted = len(roots) / p, 300, 0
    for number in range(trials):
        transcript = begun(number)
        data = reference.prove(statement, columns, table, counts, transcript)
        before = begun(number)
        statement.absorb(before)
        passes = before.challenge(TOY)[0] in roots
        try:
            verify(statement, data, transcript=begun(number))
            accepted += 1
            assert passes
        except VerificationError:
            assert not passes
    assert abs(accepted / trials - rate) < 4 * (rate / trials) ** 0.5
    assert 0 < rate <= error_terms(statement)["the sums of fractions"]


def test_false_multiplicities_pass_on_toy_fields_at_the_bounded_rate() -> None:
    """One that is chosen after alpha, so that the sums agree: found unless eq of its place is 0 at
    the point."""
    p, table, columns = 17, [[1, 2, 3, 4]], [[[1, 2, 3, 9]]]
    committed = [1, 1, 1, 0]
    statement = Statement(TOY, 1, 2, Table(2))
    trials = accepted = 0
    for number in range(600):
        before = begun(number)
        statement.absorb(before)
        (alpha,) = before.challenge(TOY)
        if alpha in (1, 2, 3, 4, 9):
            continue
        trials += 1
        counts = [*committed[:3], (alpha - 4) * pow(alpha - 9, -1, p) % p]
        data = reference.prove(statement, columns, table, counts, begun(number))
        reduced = verify(statement, data, transcript=begun(number))
        accepted += reference.at(TOY, committed, reduced.table_point) == reduced.multiplicity
    rate = 1 - (1 - 1 / p) ** 2
    assert abs(accepted / trials - rate) < 4 * (rate / trials) ** 0.5


def test_error_terms() -> None:
    field = FIELDS["m31.4"]
    terms = error_terms(Statement(field, 1, 18, Range(16)))
    assert 2**-106 < sum(terms.values()) < 2**-105
    wide = error_terms(Statement(field, 1, 18, Table(16, 5)))
    assert wide["the sums of fractions"] == 4 * terms["the sums of fractions"]
    assert all(term > 0 for term in wide.values())


def test_error_terms_of_several_runs_are_those_of_the_largest() -> None:
    """A false proof needs one certain run to pass, so that the terms of runs do not add up."""
    field = EXTENSIONS["goldilocks.2"]
    large, small = Statement(field, 1, 28, Range(16)), Statement(field, 3, 20, Table(8, 2))
    terms = error_terms([small, large])
    assert terms == error_terms(large) == error_terms([large, large, small])
    scheme = Ligero()
    opened = error_terms([small, large], scheme=scheme)
    columns = [error_terms(run, scheme=scheme)["openings: columns"] for run in (small, large)]
    assert opened["openings: columns"] == sum(columns)
    with pytest.raises(InputError, match="at least one statement"):
        error_terms([])


def test_proofs_without_a_check_are_the_same() -> None:
    field = FIELDS["m31.4"]
    arrays = [from_integers(field.modulus, [1, 2, 2, 3])]
    counts = multiplicities("cpu", field, arrays, Range(2))
    expected = prove("cpu", field, arrays, Range(2), counts)
    proof = prove("cpu", field, arrays, Range(2), counts, check=False)
    assert (proof.data, proof.reduced) == (expected.data, expected.reduced)


def test_lookup_count_must_be_below_the_field_size() -> None:
    """With p lookups, a value that is in no table would count as none."""
    assert Statement(TOY, 1, 4, Range(4)).lookups == 16
    for columns, log2_size in ((17, 1), (1, 5), (2, 4)):
        with pytest.raises(InputError, match="need a prime field of more elements"):
            Statement(TOY, columns, log2_size, Range(4))
    with pytest.raises(InputError, match="a range of 5 bits exceeds"):
        Statement(TOY, 1, 1, Range(5))
    with pytest.raises(InputError, match="more than 2\\^30 lookups"):
        Statement(FIELDS["m31.4"], 8, 28, Range(4))


def test_too_large_a_range_for_memory() -> None:
    field = FIELDS["m31.4"]
    arrays = [from_integers(field.modulus, [1, 2])]
    with open_device("cpu", memory_budget=1 << 20) as device:
        for call in (
            lambda: multiplicities(device, field, arrays, Range(20)),
            lambda: prove_committed(device, field, arrays, Range(20)),
        ):
            with pytest.raises(DeviceError, match="the counts of lookups would take"):
                call()
        counts = from_integers(field.modulus, [0, 1, 1, *[0] * 65533])
        with pytest.raises(DeviceError, match="; the budget is"):
            prove(device, field, arrays, Range(16), counts)


def test_idle_device_is_detected() -> None:
    device: Any = Idle(open_device("cpu"))
    field = FIELDS["m31.4"]
    arrays = [from_integers(field.modulus, [1, 2])]
    counts = from_integers(field.modulus, [0, 1, 1, 0])
    with pytest.raises(DeviceError, match="without computing"):
        prove(device, field, arrays, Range(2), counts)


def test_wrong_arguments_are_refused() -> None:
    field = FIELDS["m31.4"]
    good, table = from_integers(field.modulus, [1, 2]), from_integers(field.modulus, [1, 2])
    counts = from_integers(field.modulus, [1, 1])
    wrong: Any
    for wrong in (
        [], None, "text", [None], [good[:1]], [good[0]], [[good, good]], [good, good[:1]], [[]],
        [good.astype(np.int64)], [np.full((2, 1), 0xFFFFFFFF, np.uint32)], {1: good},
    ):  # fmt: skip
        with pytest.raises(InputError):
            prove("cpu", field, wrong, table, counts)
    for wrong in (None, 3, [], [table, table], table[:1], "text", Table(1), [None]):
        with pytest.raises(InputError):
            prove("cpu", field, [good], wrong, counts)
    for wrong in (None, [1, 1], counts[:1], [counts], "text"):
        with pytest.raises(InputError):
            prove("cpu", field, [good], table, wrong)
    for wrong in (None, 0, 31, 2.0, True, "3"):
        with pytest.raises(InputError):
            Range(wrong)
        with pytest.raises(InputError):
            Table(wrong)


def test_fraction_sum_matches_arithmetic() -> None:
    """The identity on integers that the other tests rely on."""
    field = FIELDS["m31.4"]
    numerators = [embed(field, n) for n in (1, 2, 3, 0)]
    denominators = [add(field, embed(field, 5), negate(field, embed(field, n))) for n in range(4)]
    n, d = reference.added(field, *reference.added(field, numerators, denominators))
    # 1/5 + 2/4 + 3/3 + 0/2 = 1.7
    assert product(field, n[0], embed(field, 10)) == product(field, d[0], embed(field, 17))
