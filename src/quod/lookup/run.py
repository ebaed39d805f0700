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
from quod.field.integers import ELEMENT
from quod.field.moduli import Modulus
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.hash.table import Hash
from quod.lookup.columns import Array
from quod.lookup.fraction_kernels import add_parts, embedded_numerators, entry_denominators
from quod.lookup.leaf_form import ColumnTable
from quod.lookup.leaves import ALIGNMENT, PlacedColumns
from quod.lookup.statement import Range, Statement
from quod.lookup.tree import ComputedLeaves, FractionTrees
from quod.lookup.verifier import Reduced, challenges, reduced_to
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import elements_to_words, words_to_elements
from quod.sumcheck.shape import Shape
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter


class LookupRun:
    """Lookups of one shape on a device, with memory for columns, table and all sums.

    All launches are recorded once, with those of the transcript and of the columns' values. The
    host waits for the device once per proof.
    """

    def __init__(
        self, device: AnyDevice, statement: Statement, columns: PlacedColumns,
        hash: Hash = Hash.SHA3_256,
    ) -> None:  # fmt: skip
        self._device, self.statement, self._columns = device, statement, columns
        field, width = statement.field, statement.table.width
        self._table = _Arrays(device, field, width, statement.table.log2_size)
        self._counts = _Arrays(device, field, 1, statement.table.log2_size)
        self._challenges = device.allocate((1 + width) * 4 * field.words)
        self._form = form = columns.leaf_form(field)
        self._parameters = device.allocate(columns.parameters_bytes(form))
        self._trees = FractionTrees(
            device, field, statement.trees, hash=hash,
            computed=ComputedLeaves(form, columns.memory, self._parameters),
        )  # fmt: skip

    def set_table(self, table: Sequence[Words], counts: Words) -> None:
        """Upload the table and the multiplicities of its entries."""
        for part, array in enumerate(table):
            self._device.upload(array, into=self._table[part])
        self._device.upload(counts, into=self.counts)

    @property
    def counts(self) -> Buffer:
        """Return the buffer of the multiplicities."""
        return self._counts[0]

    def prove(self, writer: ProofWriter, timeline: Timeline | None) -> Reduced:
        """Absorb the statement and write the proof; return the claims left to check.

        The proof is not checked: a faulty device or wrong multiplicities give a wrong one.
        """
        statement, field = self.statement, self.statement.field
        alpha, powers = challenges(statement, writer.transcript)
        words = elements_to_words(field, coefficients_of([alpha, *powers]))
        self._device.upload(words, into=self._challenges)
        parameters, shift = self._columns.parameters(self._form, alpha, powers)
        self._device.upload(parameters, into=self._parameters)
        self._trees.begin(writer.transcript.state, shift)
        for evaluation in self._evaluations:
            evaluation.begin()
        self._device.stream("lookups").replay(self._recorded).run(timeline)
        data = self._trees.download_messages()
        lookups, table = self._trees.download_claims(data)
        writer.resume_after(data, self._trees.download_state())
        values = [value for evaluation in self._evaluations for value in evaluation.download()]
        writer.elements(Label.VALUES, field, values)
        return reduced_to(statement, lookups, table, values)

    @cached_property
    def _recorded(self) -> Recording:
        """The recording of leaves, sums and their proof."""
        recording = self._device.stream("lookups").record()
        with recording.part("leaves"):
            self._record_leaves(recording)
        self._trees.record(recording)
        coordinates = self.statement.log_columns * 4 * self.statement.field.words
        lookups, table = self._trees.points
        with recording.part("values"):
            for evaluation, point in zip(
                self._evaluations, (lookups.slice(coordinates, lookups.nbytes), table), strict=False
            ):
                evaluation.record(recording, point)
        return recording.finish().recording

    def _record_leaves(self, recording: RecordingStream) -> None:
        statement, trees = self.statement, self._trees
        entries = 1 << statement.table.log2_size
        trees.launch(
            recording, entry_denominators, entries, self._table.pitch, statement.table.width,
            trees.first(1) + entries, self._table.memory, self._challenges, trees.leaves(1),
        )  # fmt: skip
        trees.launch(
            recording, embedded_numerators, entries, trees.first(1), self.counts, trees.leaves(1)
        )

    @cached_property
    def _evaluations(self) -> list[_Evaluation]:
        """Return the evaluations of the columns, and of the table unless it is a range."""
        statement, width = self.statement, self.statement.table.width
        columns = [array for column in self._columns.buffers() for array in column]
        evaluations = [_Evaluation(self._device, statement.field, columns, statement.log2_size)]
        if not isinstance(statement.table, Range):
            rows = 1 << statement.table.log2_size
            parts = [
                (Array(ELEMENT, buffer, rows), buffer)
                for buffer in (self._table[part] for part in range(width))
            ]
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
        self, device: AnyDevice, field: FieldSpec, arrays: Sequence[tuple[Array, Buffer]],
        log2_size: int,
    ) -> None:  # fmt: skip
        self._device, self._field, self._arrays = device, field, arrays
        in_base = 0 if isinstance(field, Modulus) else 1
        self._plans = {}
        for type_name in {array.type for array, _ in arrays}:
            shape = Shape(
                field, SumOfProducts.product(1), in_base=in_base, has_point=True,
                source=ColumnTable(type_name),
            )  # fmt: skip
            self._plans[type_name] = SumcheckPlan(device, shape, log2_size)
        self._plan = next(iter(self._plans.values()))
        self._point = device.allocate(log2_size * 4 * field.words)
        self._sums = device.allocate(len(arrays) * 4 * field.words)

    def record(self, recording: RecordingStream, point: Buffer) -> None:
        """Record the evaluations at a point in device memory."""
        plan, device = self._plan, self._device
        equality, partial = map(device.allocate, (plan.equality_bytes, plan.partial_bytes))
        # The slice of a point may not be aligned for kernels.
        recording.copy(point, self._point)
        plan.record_point(recording, self._point, equality)
        compiled: Any = device.compile(add_parts, lanes=plan.finish_lanes, field=self._field)
        for index, (array, buffer) in enumerate(self._arrays):
            self._plans[array.type].record_sum(recording, Inputs(buffer, None), equality, partial)
            recording.launch(compiled, 1, plan.sum_groups, partial, self._sums, index)

    def begin(self) -> None:
        """Mark the results as not written."""
        marks = np.full(self._sums.nbytes // 4, UNWRITTEN, np.uint32)
        self._device.upload(marks, into=self._sums)

    def download(self) -> list[Plain]:
        """Return the values of all arrays; DeviceError if the device did not write them."""
        device, field = self._device, self._field
        values = np.empty((len(self._arrays), field.words), np.uint32)
        device.download(self._sums, values)
        if not canonical(field.modulus, values.reshape(-1, field.modulus.words)).all():
            raise not_written(device, "values at a point")
        biases = (PlainElement.of(field, array.bias) for array, _ in self._arrays)
        numbers = PlainElement.from_coefficients(field, words_to_elements(field, values))
        return list(coefficients_of([a - b for a, b in zip(numbers, biases, strict=True)]))
