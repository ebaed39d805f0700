"""Lookups in device memory: leaves from columns and table, sums, and evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.field.array import Words, canonical
from quod.field.element_bytes import Plain
from quod.field.moduli import Modulus
from quod.field.plain_element import coefficients_of
from quod.field.spec import Extension, FieldSpec
from quod.hash.table import Hash
from quod.lookup.fraction_kernels import add_parts, embedded_numerators, row_denominators
from quod.lookup.statement import Range, Statement
from quod.lookup.tree import ALIGNMENT, FractionTrees, ShiftedLeaves
from quod.lookup.verifier import Reduced, challenges, check_values, read_both
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import elements_to_words, words_to_elements
from quod.sumcheck.shape import Shape
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter


class LookupRun:
    """Lookups of one shape on a device, with memory for columns, table and all sums.

    All launches are recorded once. The host waits for the device twice per proof: for the sums, and
    for the evaluations at their points.
    """

    def __init__(self, device: AnyDevice, statement: Statement, hash: Hash = Hash.SHA3_256) -> None:
        self._device, self.statement = device, statement
        field, width = statement.field, statement.table.width
        self._columns = _Arrays(device, field, width * statement.columns, statement.log2_size)
        self._table = _Arrays(device, field, width, statement.table.log2_size)
        self._counts = _Arrays(device, field, 1, statement.table.log2_size)
        self._challenges = device.allocate((1 + width) * 4 * field.words)
        self._shifted = None
        if self._columns_are_leaves:
            self._shifted = ShiftedLeaves(self._columns.memory, self._challenges)
        self._trees = FractionTrees(
            device, field, statement.trees, shifted=self._shifted, hash=hash
        )

    @property
    def _columns_are_leaves(self) -> bool:
        """True if the columns in memory serve as leaves without a copy."""
        statement, columns = self.statement, self._columns
        return (
            isinstance(statement.field, Extension)
            and statement.table.width == 1
            and statement.padding == 0
            and statement.trees[0].log2_size > 1
            and columns.pitch == 1 << columns.log2_size
        )

    def set_values(
        self, columns: Sequence[Sequence[Words]], table: Sequence[Words], counts: Words
    ) -> None:
        """Upload columns, the table and the multiplicities of its entries."""
        upload = self._device.upload
        for number, column in enumerate(columns):
            for part, array in enumerate(column):
                upload(array, into=self.column(number, part))
        for part, array in enumerate(table):
            upload(array, into=self._table[part])
        upload(counts, into=self.counts)

    def column(self, number: int, part: int) -> Buffer:
        """Return the buffer of one array of a column."""
        return self._columns[part * self.statement.columns + number]

    @property
    def counts(self) -> Buffer:
        """Return the buffer of the multiplicities."""
        return self._counts[0]

    def prove(self, writer: ProofWriter, timeline: Timeline | None) -> Reduced:
        """Absorb the statement and write the proof; return the claims left to check."""
        statement, field = self.statement, self.statement.field
        alpha, powers = challenges(statement, writer.transcript)
        words = elements_to_words(field, coefficients_of([alpha, *powers]))
        self._device.upload(words, into=self._challenges)
        self._trees.begin(writer.transcript.state, alpha)
        self._device.stream("lookups").replay(self._recorded).run(timeline)
        data = self._trees.download_messages()
        reader = ProofReader(data, writer.transcript.copy())
        sums = read_both(statement, reader, alpha, powers)
        reader.end()
        writer.resume_after(data, reader.transcript.state)
        points = [sums.lookups.point[statement.log_columns :], sums.table.point]
        values: list[Plain] = []
        for evaluation, point in zip(self._evaluations, points, strict=False):
            values += evaluation.at(point, timeline)
        writer.elements(Label.VALUES, field, values)
        return check_values(statement, sums, values)

    @cached_property
    def _recorded(self) -> Recording:
        """The recording of leaves, sums and their proof."""
        recording = self._device.stream("lookups").record()
        with recording.part("leaves"):
            self._record_leaves(recording)
        self._trees.record(recording)
        return recording.finish().recording

    def _record_leaves(self, recording: RecordingStream) -> None:
        statement, trees = self.statement, self._trees
        entries = 1 << statement.table.log2_size
        leaves = [(1, 1, trees.first(1) + entries, self._table)]
        if self._shifted is None:
            leaves.append((0, statement.columns, trees.first(0), self._columns))
        for tree, columns, first, arrays in leaves:
            trees.launch(
                recording, row_denominators, 1 << statement.trees[tree].log2_size, columns,
                arrays.log2_size, arrays.pitch, statement.table.width, first, arrays.memory,
                self._challenges, trees.leaves(tree),
            )  # fmt: skip
        trees.launch(
            recording, embedded_numerators, entries, trees.first(1), self.counts, trees.leaves(1)
        )

    @cached_property
    def _evaluations(self) -> list[_Evaluation]:
        """Return the evaluations of the columns, and of the table unless it is a range."""
        statement, width = self.statement, self.statement.table.width
        columns = [
            self.column(number, part)
            for number in range(statement.columns)
            for part in range(width)
        ]
        evaluations = [_Evaluation(self._device, statement.field, columns, statement.log2_size)]
        if not isinstance(statement.table, Range):
            parts = [self._table[part] for part in range(width)]
            size = statement.table.log2_size
            evaluations.append(_Evaluation(self._device, statement.field, parts, size))
        return evaluations


class _Arrays:
    """Arrays of prime field elements in one buffer, `pitch` elements apart."""

    def __init__(self, device: AnyDevice, field: FieldSpec, count: int, log2_size: int) -> None:
        self._size = field.modulus.bytes << log2_size
        step = -(-self._size // ALIGNMENT) * ALIGNMENT
        self.log2_size, self.pitch = log2_size, step // field.modulus.bytes
        self._step = step
        self.memory = device.allocate(count * step, zero=False)

    def __getitem__(self, number: int) -> Buffer:
        start = number * self._step
        return self.memory.slice(start, start + self._size)


class _Evaluation:
    """Evaluations at one point of the multilinear polynomials of arrays over the prime field."""

    def __init__(
        self, device: AnyDevice, field: FieldSpec, arrays: Sequence[Buffer], log2_size: int
    ) -> None:
        self._device, self._field, self._arrays = device, field, arrays
        self._in_base = 0 if isinstance(field, Modulus) else 1
        shape = Shape(field, SumOfProducts.product(1), in_base=self._in_base, has_point=True)
        self._plan = SumcheckPlan(device, shape, log2_size)
        self._point = device.allocate(log2_size * 4 * field.words)
        self._sums = device.allocate(len(arrays) * 4 * field.words)

    @cached_property
    def _recorded(self) -> Recording:
        plan, device = self._plan, self._device
        equality, partial = map(device.allocate, (plan.equality_bytes, plan.partial_bytes))
        recording = device.stream("values").record()
        plan.record_point(recording, self._point, equality)
        compiled: Any = device.compile(add_parts, lanes=plan.finish_lanes, field=self._field)
        for index, array in enumerate(self._arrays):
            inputs = Inputs(array, None) if self._in_base else Inputs(None, array)
            plan.record_sum(recording, inputs, equality, partial)
            recording.launch(compiled, 1, plan.sum_groups, partial, self._sums, index)
        return recording.finish().recording

    def at(self, point: Sequence[Plain], timeline: Timeline | None) -> list[Plain]:
        """Evaluate all arrays at a point; DeviceError if the device did not write the results."""
        device, field = self._device, self._field
        device.upload(elements_to_words(field, point), into=self._point)
        values = np.full((len(self._arrays), field.words), UNWRITTEN, np.uint32)
        device.upload(values, into=self._sums)
        device.stream("values").replay(self._recorded).run(timeline)
        device.download(self._sums, values)
        if not canonical(field.modulus, values.reshape(-1, field.modulus.words)).all():
            raise not_written(device, "values at a point")
        return words_to_elements(field, values)
