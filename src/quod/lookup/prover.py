"""Proves that all values of some columns are in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.device.buffer import Buffer
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.timeline import Timeline, or_null
from quod.device.written import UNWRITTEN, not_written
from quod.errors import DeviceError, InputError, VerificationError
from quod.field.array import Words, canonical
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.lookup.counts import Column, Given, check_multiplicities
from quod.lookup.kernels import add_parts, embedded_numerators, row_denominators
from quod.lookup.statement import Range, Statement
from quod.lookup.tree import ALIGNMENT, FractionTrees
from quod.lookup.verifier import Reduced, Sums, challenges, read_both, settled
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import elements_to_words, words_to_elements
from quod.sumcheck.shape import Shape
from quod.transcript.elements import Plain
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter
from quod.transcript.transcript import Transcript


@frozen
class LookupProof:
    """A proof of a statement, and what it leaves to check."""

    statement: Statement
    data: bytes
    reduced: Reduced


def multiplicities(
    device: DeviceChoice, field: FieldSpec, columns: Sequence[Column], table: Column | Range
) -> Words:
    """How often each entry of a table is looked up, elements of the prime field.

    The arguments are those of `prove`; of equal entries one has all lookups. InputError names the
    first row of the columns that is not in the table.
    """
    return Given(field, columns, table).counted(resolve_device(device))


def prove(
    device: DeviceChoice,
    field: FieldSpec,
    columns: Sequence[Column],
    table: Column | Range,
    multiplicities: Words,
    *,
    transcript: Transcript | None = None,
    timeline: Timeline | None = None,
) -> LookupProof:
    """Proves that each row of each of some columns is an entry of a table.

    `field` is that of the challenges, all values are of the prime field under it, in the form of
    memory. A column is an array of shape (2**n, words), or a list of as many as the table has
    elements in an entry; the table is such arrays of 2**m entries, or a `Range`. `multiplicities`
    are those of the function of that name. `transcript` must have absorbed what binds the prover to
    columns and multiplicities; it absorbs the statement and the proof. InputError for arguments
    that do not belong together, and for a row that is not in the table.

    The proof is checked before it is given away.
    """
    device = resolve_device(device)
    or_null(timeline)
    given = Given(field, columns, table)
    counts = check_multiplicities(given.statement, multiplicities)
    run = LookupRun(device, given.statement)
    run.set_values(given.columns, given.entries(device), counts)
    writer = ProofWriter(Transcript() if transcript is None else transcript)
    try:
        reduced = run.prove(writer, timeline)
    except (VerificationError, InputError) as error:
        if not np.array_equal(given.counted(device), counts):
            raise InputError(
                "the multiplicities are not those of the columns; multiplicities() counts them"
            ) from None
        raise wrong_proof(device, error) from None
    return LookupProof(given.statement, writer.getvalue(), reduced)


def wrong_proof(device: AnyDevice, error: Exception) -> DeviceError:
    """The error of a device whose proof is refused."""
    return DeviceError(
        f"{device.name} made a proof that does not verify ({error}); its memory or its driver may "
        "be faulty"
    )


class LookupRun:
    """Lookups of one shape on a device, with memory for columns, table and all sums."""

    def __init__(self, device: AnyDevice, statement: Statement) -> None:
        self._device, self.statement = device, statement
        field, width = statement.field, statement.table.width
        self._trees = FractionTrees(device, field, statement.trees)
        self._columns = _Arrays(device, field, width * statement.columns, statement.log2_size)
        self._table = _Arrays(device, field, width, statement.table.log2_size)
        self._counts = _Arrays(device, field, 1, statement.table.log2_size)
        self._challenges = device.allocate((1 + width) * 4 * field.words)

    def set_values(
        self, columns: Sequence[Sequence[Words]], table: Sequence[Words], counts: Words
    ) -> None:
        """Uploads columns, the table and how often its entries are looked up."""
        upload = self._device.upload
        for number, column in enumerate(columns):
            for part, array in enumerate(column):
                upload(array, into=self.column(number, part))
        for part, array in enumerate(table):
            upload(array, into=self._table[part])
        upload(counts, into=self.counts)

    def column(self, number: int, part: int) -> Buffer:
        """The memory of one array of a column."""
        return self._columns[part * self.statement.columns + number]

    @property
    def counts(self) -> Buffer:
        """The memory of the multiplicities."""
        return self._counts[0]

    def prove(self, writer: ProofWriter, timeline: Timeline | None) -> Reduced:
        """Absorbs the statement and writes the proof; gives what that leaves to check."""
        statement, field = self.statement, self.statement.field
        alpha, powers = challenges(statement, writer.transcript)
        self._device.upload(elements_to_words(field, [alpha, *powers]), into=self._challenges)
        self._make_leaves(timeline)
        data = self._trees.prove(writer.transcript.state, timeline)
        reader = ProofReader(data, writer.transcript.copy())
        sums = read_both(statement, reader, alpha, powers)
        reader.end()
        writer.absorbed(data, reader.transcript.state)
        values = self._values(sums, timeline)
        writer.elements(Label.VALUES, field, values)
        return settled(statement, sums, values)

    def _make_leaves(self, timeline: Timeline | None) -> None:
        statement, trees = self.statement, self._trees
        recording = self._device.stream("leaves").record()
        entries = 1 << statement.table.log2_size
        for tree, columns, first, parts in (
            (0, statement.columns, trees.first(0), self._columns),
            (1, 1, trees.first(1) + entries, self._table),
        ):
            trees.launch(
                recording, row_denominators, 1 << statement.trees[tree].log2_size, columns,
                parts.log2_size, parts.pitch, statement.table.width, first, parts.memory,
                self._challenges, trees.leaves(tree),
            )  # fmt: skip
        trees.launch(
            recording, embedded_numerators, entries, trees.first(1), self.counts, trees.leaves(1)
        )
        recording.finish().submit(timeline).wait()

    def _values(self, sums: Sums, timeline: Timeline | None) -> list[Plain]:
        """Those of columns and table at the points of the sums."""
        statement, width = self.statement, self.statement.table.width
        arrays = [
            self.column(number, part)
            for number in range(statement.columns)
            for part in range(width)
        ]
        point = sums.lookups.point[statement.log_columns :]
        values = self._evaluated(arrays, point, timeline)
        if isinstance(statement.table, Range):
            return values
        entry = [self._table[part] for part in range(width)]
        return values + self._evaluated(entry, sums.table.point, timeline)

    def _evaluated(
        self, arrays: Sequence[Buffer], point: Sequence[Plain], timeline: Timeline | None
    ) -> list[Plain]:
        """The multilinear polynomials of arrays of the prime field at a point."""
        device, field = self._device, self.statement.field
        in_base = 0 if isinstance(field, Modulus) else 1
        shape = Shape(field, SumOfProducts.product(1), in_base, True)
        plan = SumcheckPlan(device, shape, len(point))
        equality, partial = map(device.allocate, (plan.equality_bytes, plan.partial_bytes))
        found = np.full((len(arrays), field.words), UNWRITTEN, np.uint32)
        sums = device.upload(found)
        recording = device.stream("values").record()
        plan.record_point(recording, device.upload(elements_to_words(field, point)), equality)
        compiled: Any = device.compile(add_parts, lanes=plan.finish_lanes, field=field)
        for place, array in enumerate(arrays):
            inputs = Inputs(array, None) if in_base else Inputs(None, array)
            plan.record_sum(recording, inputs, equality, partial)
            recording.launch(compiled, 1, plan.sum_groups, partial, sums, place)
        recording.finish().submit(timeline).wait()
        device.download(sums, found)
        if not canonical(field.modulus, found.reshape(-1, field.modulus.words)).all():
            raise not_written(device, "values at a point")
        return words_to_elements(field, found)


class _Arrays:
    """Arrays of the prime field in one memory, each `pitch` elements behind the one before."""

    def __init__(self, device: AnyDevice, field: FieldSpec, count: int, log2_size: int) -> None:
        self._size = field.modulus.bytes << log2_size
        step = -(-self._size // ALIGNMENT) * ALIGNMENT
        self.log2_size, self.pitch = log2_size, step // field.modulus.bytes
        self._step = step
        self.memory = device.allocate(count * step, zero=False)

    def __getitem__(self, number: int) -> Buffer:
        start = number * self._step
        return self.memory.slice(start, start + self._size)
