"""The whole prover of lookups on plain integers: dense trees, sums by their definition.

It proves whatever it is given, false statements too. It shares with Quod the statement and the
bytes of the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.plain_extension import product
from quod.field.spec import FieldSpec
from quod.lookup.fractions import FractionTree
from quod.lookup.statement import Range, Statement
from quod.transcript import Label, ProofWriter, Transcript
from tests.reference import sumcheck
from tests.reference.sumcheck import Plain, add, embed, multilinear, negate

Columns = Sequence[Sequence[Sequence[int]]]
"""For each column its arrays, as many as an entry has elements."""

Leaves = tuple[list[Plain], list[Plain]]
"""Numerators and denominators."""


def counted(columns: Columns, table: Sequence[Sequence[int]]) -> list[int]:
    """Count the lookups of each entry; those of equal entries count at the first."""
    rows = list(zip(*table, strict=True))
    looked_up = [row for column in columns for row in zip(*column, strict=True)]
    return [looked_up.count(row) if row not in rows[:at] else 0 for at, row in enumerate(rows)]


def prove(
    statement: Statement, columns: Columns, table: Sequence[Sequence[int]], counts: Sequence[int],
    transcript: Transcript,
) -> bytes:  # fmt: skip
    """The proof that Quod's prover makes."""
    field, writer = statement.field, ProofWriter(transcript)
    statement.absorb(transcript)
    alpha = transcript.challenge(field)
    beta = transcript.challenge(field) if len(table) > 1 else embed(field, 1)

    def denominator(row: Sequence[int]) -> Plain:
        total, power = alpha, embed(field, 1)
        for element in row:
            total = add(field, total, negate(field, product(field, power, embed(field, element))))
            power = product(field, power, beta)
        return total

    lookups = [denominator(row) for column in columns for row in zip(*column, strict=True)]
    while len(lookups) & (len(lookups) - 1):
        lookups += [embed(field, 1)] * (1 << statement.log2_size)
    entries = [denominator(row) for row in zip(*table, strict=True)]
    trees = [
        ([embed(field, 1)] * len(lookups), lookups),
        ([embed(field, count) for count in counts], entries),
    ]
    points = prove_sums(writer, field, statement.trees, trees)
    point = points[0][statement.log_columns :]
    values = [at(field, array, point) for column in columns for array in column]
    if not isinstance(statement.table, Range):
        values += [at(field, array, points[1]) for array in table]
    writer.elements(Label.VALUES, field, values)
    return writer.getvalue()


def at(field: FieldSpec, array: Sequence[int], point: Sequence[Plain]) -> Plain:
    return multilinear(field, [embed(field, number) for number in array], point)


def prove_sums(
    writer: ProofWriter, field: FieldSpec, forms: Sequence[FractionTree], leaves: Sequence[Leaves]
) -> list[list[Plain]]:
    """The points at which the sums leave claims about the leaves."""
    trees = []
    for fractions in leaves:
        levels = [fractions]
        while len(levels[0][0]) > 1:
            levels.insert(0, added(field, *levels[0]))
        trees.append(levels)
    points: list[list[Plain]] = [[] for _ in trees]
    point: list[Plain] = []
    for layer in range(max(len(tree) for tree in trees) - 1):
        own_trees = [number for number, tree in enumerate(trees) if len(tree) > layer + 1]
        tables: list[list[Plain]] = []
        for number in own_trees:
            half = 1 << layer
            n, d = trees[number][layer + 1]
            tables += [n[:half], n[half:], d[:half], d[half:]]
        if layer:
            scale = writer.transcript.challenge(field)
            point = _sumcheck(writer, field, tables, scale, point)
        values = [multilinear(field, table, point) for table in tables]
        sent = []
        for place, number in enumerate(own_trees):
            sent += values[4 * place :][:4][-forms[number].tables(layer) :]
        writer.elements(Label.VALUES, field, sent)
        point = [writer.transcript.challenge(field), *point]
        for number in own_trees:
            points[number] = point
    return points


def added(field: FieldSpec, n: Sequence[Plain], d: Sequence[Plain]) -> Leaves:
    """The fractions of a level, halves of the one above added up."""
    half = len(n) // 2
    return (
        [
            add(field, product(field, n[i], d[i + half]), product(field, n[i + half], d[i]))
            for i in range(half)
        ],
        [product(field, d[i], d[i + half]) for i in range(half)],
    )


def _sumcheck(
    writer: ProofWriter, field: FieldSpec, tables: list[list[Plain]], scale: Plain,
    point: list[Plain],
) -> list[Plain]:  # fmt: skip
    """The point of all rounds; scales are multiplied into tables."""
    scaled: list[list[Plain]] = []
    terms: list[tuple[int, tuple[int, ...]]] = []
    power = embed(field, 1)
    for place in range(0, len(tables), 4):
        n0, n1, d0, d1 = tables[place : place + 4]
        of_denominators = [product(field, power, e) for e in d0]
        power = product(field, power, scale)
        of_numerators = [[product(field, power, e) for e in side] for side in (n0, n1)]
        power = product(field, power, scale)
        start = len(scaled)
        scaled += [of_denominators, *of_numerators, d0, d1]
        terms += [(1, (start, start + 4)), (1, (start + 1, start + 4)), (1, (start + 2, start + 3))]

    def challenge(message: list[Plain]) -> Plain:
        writer.elements(Label.ROUND, field, message)
        return writer.transcript.challenge(field)

    _, challenges, _ = sumcheck.prove(field, terms, scaled, point, challenge)
    return challenges
