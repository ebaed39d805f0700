"""The prover of Ligero on a device: the encoded matrix and its tree, and openings of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.commitment.ligero.combine import (
    add_parts,
    gather_columns,
    gather_nodes,
    sum_rows,
)
from quod.commitment.ligero.encode import encode_rows, fitting_log_tile
from quod.commitment.ligero.merkle import siblings
from quod.commitment.ligero.shape import LigeroShape
from quod.commitment.ligero.tree import hash_columns, hash_pairs
from quod.commitment.rows import add_rows
from quod.commitment.scheme import Claim
from quod.commitment.tables import check_table
from quod.device.memory.budget import bytes_text
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, word_lanes
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.field.array import Words, canonical, from_integers
from quod.field.integers import Integers
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.sumcheck.eq_tables import eq_table_entries, equality_pyramids
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import RecordedRounds, SumcheckRun, elements_to_words
from quod.sumcheck.shape import Shape
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter

_LANES = 128
_MAX_GROUPS = 1 << 15
_UNROLLED = 4
# The number of kernel instances that combine rows, if there are as many elements.
_COMBINING_INSTANCES = 1 << 18
_CPU_COMBINING_INSTANCES = 1 << 10


_Point = tuple[Buffer, Buffer, Buffer]
"""The buffers of a claim: the upper coordinates and lower coordinates of its point, its factor."""


def _skipped_entries(size: int) -> int:
    """Return the entries to skip so that the eq tables begin at a multiple of four entries.

    Kernels load from such offsets only.
    """
    return -(1 << size) % 4


class _Opening:
    """The recorded launches of an opening.

    points: for each claim the buffers of its upper coordinates, lower coordinates and factor, which
        are uploaded before a run.
    rounds: the rounds of the sumcheck over the rows; None without row variables.
    """

    def __init__(
        self, recording: Recording, points: Sequence[_Point], rounds: RecordedRounds | None
    ) -> None:
        self.recording, self.points, self.rounds = recording, points, rounds


class _RecordedCommit:
    """The recorded launches for one buffer, which may have one table after the other."""

    def __init__(self, table: Buffer, type_name: str, recording: Recording) -> None:
        self.table, self.type_name, self.recording = table, type_name, recording
        self.openings: dict[tuple[int, Hash], _Opening] = {}

    def is_of(self, table: Buffer, type_name: str) -> bool:
        """True for the committed buffer; the reference keeps its address from being reused."""
        return (
            table.space is self.table.space and table.address == self.table.address
            and type_name == self.type_name
        )  # fmt: skip


class LigeroCommitter:
    """A Ligero prover for tables of one size, one after the other, with its device memory."""

    def __init__(self, device: AnyDevice, shape: LigeroShape) -> None:
        self._device, self._shape = device, shape
        code, field = shape.code, shape.field
        matrix_bytes = shape.rows * code.length * code.modulus.bytes
        tree_bytes = 8 * STATE_WORDS * code.length
        element_bytes = 4 * field.words
        sum_bytes = (self._parts + 8) * code.message * element_bytes
        device.check_budget("a commitment", matrix_bytes + tree_bytes + sum_bytes)
        if matrix_bytes > device.largest_buffer:
            raise DeviceError(
                f"the words of 2^{shape.log2_size} entries take {bytes_text(matrix_bytes)}, "
                f"and {device.name} allows {bytes_text(device.largest_buffer)} a "
                "buffer; use a smaller table, or a device with larger buffers"
            )
        self._twiddles = device.upload(from_integers(code.modulus, list(code.twiddles())))
        self._matrix = device.allocate(matrix_bytes)
        self._tree = device.allocate(tree_bytes)
        self._lower, self._upper = (
            device.allocate((_skipped_entries(size) + eq_table_entries(size, size)) * element_bytes)
            for size in (code.log_message, shape.log_rows)
        )
        self._partial = device.allocate(self._parts * code.message * element_bytes)
        self._combination = device.allocate(code.message * element_bytes)
        self._committing: _RecordedCommit | None = None

    @property
    def _lanes(self) -> int:
        if not self._device.host_memory:
            return _LANES
        return word_lanes(self._device, self._shape.code.modulus.bits)

    @property
    def _parts(self) -> int:
        """The number of parts into which the rows are divided when they are combined."""
        instances = _CPU_COMBINING_INSTANCES if self._device.host_memory else _COMBINING_INSTANCES
        rows = self._shape.rows
        return max(1, min(instances // self._shape.code.message, rows // min(_UNROLLED, rows)))

    # --- committing

    def commit(
        self, table: Buffer | Integers, writer: ProofWriter, timeline: Timeline | None = None
    ) -> None:
        """Encode the rows of a table, hash the columns, and send the root."""
        shape, device = self._shape, self._device
        memory, type_name = check_table(shape.field, shape.log2_size, table)
        if self._committing is None or not self._committing.is_of(memory, type_name):
            recording = self._record_commitment(memory, type_name)
            self._committing = _RecordedCommit(memory, type_name, recording)
        self._run("commitment", self._committing.recording, timeline)
        root = self._downloaded(self._tree.slice(4 * STATE_WORDS, 8 * STATE_WORDS))
        if (root == UNWRITTEN).all():
            raise not_written(device, "a commitment")
        writer.message(Label.COMMITMENT, root.tobytes())

    def _record_commitment(self, table: Buffer, type_name: str) -> Recording:
        """Record the encoding of all rows and the Merkle tree over the columns."""
        shape, code, device = self._shape, self._shape.code, self._device
        # Mark nodes 0 and 1, the root: the sentinel is no digest, so a missing write is detected.
        recording = device.stream("commitment").record()
        recording.fill(self._tree.slice(0, 8 * STATE_WORDS), UNWRITTEN)
        log_tile = fitting_log_tile(device, code, self._lanes)
        log_tiles = code.log_length - log_tile
        tiles = shape.rows << log_tiles
        compiled = device.compile(
            encode_rows, lanes=self._lanes, modulus=code.modulus, log_tile=log_tile,
            log_folded=code.log_message - log_tile, type_name=type_name,
        )  # fmt: skip
        recording.launch(
            compiled, min(tiles, _MAX_GROUPS), tiles, log_tiles, table, self._twiddles,
            self._matrix,
        )  # fmt: skip
        self._launch(
            recording, hash_columns, code.length, code.length, self._matrix, self._tree,
            modulus=code.modulus, rows=shape.rows, hash=shape.hash,
        )  # fmt: skip
        for level in reversed(range(code.log_length)):
            self._launch(recording, hash_pairs, 1 << level, 1 << level, self._tree, hash=shape.hash)
        return recording.finish().recording

    # --- opening

    def open(
        self, claims: Sequence[Claim], writer: ProofWriter, timeline: Timeline | None = None
    ) -> None:
        """Send a sumcheck over the row variables, the combination of rows, and opened columns."""
        shape, code = self._shape, self._shape.code
        if self._committing is None:
            raise InputError("open needs a commitment; call commit first")
        checked_claims, factors, total = shape.combine(writer.transcript, claims)
        key = (len(checked_claims), writer.transcript.hash)
        opening = self._committing.openings.get(key)
        if opening is None:
            opening = self._record_opening(self._committing, *key)
            self._committing.openings[key] = opening
        for claim, factor, point in zip(checked_claims, factors, opening.points, strict=True):
            row_variables = shape.log_rows
            for elements, target in zip(
                (claim.point[:row_variables], claim.point[row_variables:], [factor.coefficients]),
                point,
                strict=True,
            ):
                if elements:
                    words = elements_to_words(shape.field, elements)
                    self._device.upload(words, into=target)
        if opening.rounds is not None:
            opening.rounds.begin(total.coefficients, writer.transcript.state)
        self._run("opening", opening.recording, timeline)
        if opening.rounds is not None:
            rounds = opening.rounds.rounds()
            writer.resume_after(rounds.messages, rounds.state)
        combination = self._elements("the combination of rows", self._combination)
        writer.encoded(Label.OPENING, shape.field, combination.tobytes())

        column_indices = shape.draw_columns(writer.transcript)
        nodes = [code.length + column_index for column_index in column_indices]
        nodes += siblings(code.log_length, column_indices)
        columns, digests = self._gather(column_indices, nodes, timeline)
        leaves = digests[: len(column_indices)].tobytes()
        writer.message(Label.OPENING, columns.tobytes(), absorbed=leaves)
        writer.message(Label.OPENING, digests[len(column_indices) :].tobytes())

    def _record_opening(self, table: _RecordedCommit, claims: int, hash: Hash) -> _Opening:
        """Record the part of an opening before columns are drawn; points are uploaded later."""
        shape, element = self._shape, 4 * self._shape.field.words
        points = [self._point(element) for _ in range(claims)]
        recording = self._device.stream("opening").record()
        rounds, r = None, points[0][0]
        if shape.log_rows:
            rounds = self._record_sumcheck(recording, table, points, hash)
            r = rounds.challenges
        self._record_combination(recording, table, r)
        return _Opening(recording.finish().recording, points, rounds)

    def _point(self, element: int) -> _Point:
        """Allocate the buffers of a point and its factor; a buffer has at least one element."""
        upper, lower, factor = (
            self._device.allocate(element * max(1, count))
            for count in (self._shape.log_rows, self._shape.code.log_message, 1)
        )
        return upper, lower, factor

    def _record_sumcheck(
        self, recording: RecordingStream, table: _RecordedCommit, claims: Sequence[_Point],
        hash: Hash,
    ) -> RecordedRounds:  # fmt: skip
        """Record the sumcheck over the rows that reduces the claims.

        A claim is a sum over rows of a row weight times the row's inner product with column
        weights.
        """
        shape, code, device = self._shape, self._shape.code, self._device
        field, log_rows = shape.field, shape.log_rows
        polynomial = SumOfProducts(
            tuple((1, (2 * number, 2 * number + 1)) for number in range(len(claims)))
        )
        sumcheck_shape = Shape(field, polynomial, in_base=0, has_point=False, hash=hash)
        run = SumcheckRun(device, sumcheck_shape, log_rows)
        unrolled = _UNROLLED if code.message % (_UNROLLED * self._lanes) == 0 else 1
        compiled = device.compile(
            sum_rows, lanes=self._lanes, field=field, unrolled=unrolled, type_name=table.type_name
        )
        for number, claim in enumerate(claims):
            upper, lower, factor = claim
            lower = self._equalities(recording, code.log_message, lower, self._lower)
            upper = self._equalities(recording, log_rows, upper, self._upper)
            recording.launch(
                compiled, shape.rows, code.message, table.table, lower, factor,
                run.table(2 * number),
            )  # fmt: skip
            recording.copy(upper, run.table(2 * number + 1))
        return run.record(recording)

    def _equalities(
        self, recording: RecordingStream, size: int, point: Buffer, pyramid: Buffer
    ) -> Buffer:
        """Record the eq table of a point; return the slice of `pyramid` that has it.

        A pyramid has for every l the eq table of the last l coordinates, from entry 2**l on.
        """
        field = self._shape.field
        entries, element = eq_table_entries(size, size), 4 * field.words
        first = _skipped_entries(size)
        self._launch(
            recording, equality_pyramids, entries, entries, size, size, first, point, pyramid,
            field=field,
        )  # fmt: skip
        begin = first + (1 << size)
        return pyramid.slice(element * begin, element * (begin + (1 << size)))

    def _record_combination(
        self, recording: RecordingStream, table: _RecordedCommit, r: Buffer
    ) -> None:
        """Record the sum of rows weighted by eq of a point, as canonical integers."""
        shape, code = self._shape, self._shape.code
        recording.fill(self._combination, UNWRITTEN)
        weights = self._equalities(recording, shape.log_rows, r, self._upper)
        rows = shape.rows // self._parts
        self._launch(
            recording, add_rows, code.message * self._parts, code.message * self._parts,
            code.log_message, rows, table.table, weights, self._partial, field=shape.field,
            at_once=min(_UNROLLED, rows), type_name=table.type_name,
        )  # fmt: skip
        self._launch(
            recording, add_parts, code.message, code.message, self._parts, self._partial,
            self._combination, field=shape.field,
        )  # fmt: skip

    def _gather(
        self, column_indices: Sequence[int], nodes: Sequence[int], timeline: Timeline | None
    ) -> tuple[Words, Words]:
        """Return the opened columns as canonical integers, and tree nodes, a row per node."""
        shape, code, device = self._shape, self._shape.code, self._device
        entries = len(column_indices) * shape.rows
        columns = device.allocate(entries * code.modulus.bytes)
        digests = device.allocate(len(nodes) * 4 * STATE_WORDS)
        recording = device.stream("columns").record()
        recording.fill(columns, UNWRITTEN)
        self._launch(
            recording, gather_columns, entries, entries, shape.log_rows, code.length,
            self._matrix, device.upload(np.array(column_indices, np.uint32)), columns,
            modulus=code.modulus,
        )  # fmt: skip
        self._launch(
            recording, gather_nodes, len(nodes), len(nodes), self._tree,
            device.upload(np.array(nodes, np.uint32)), digests,
        )  # fmt: skip
        recording.finish().run(timeline)
        return self._elements("columns", columns), self._downloaded(digests).reshape(
            -1, STATE_WORDS
        )

    # --- devices

    def _run(self, name: str, recording: Recording, timeline: Timeline | None) -> None:
        self._device.stream(name).replay(recording).run(timeline)

    def _launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch of a kernel with at least `count` instances."""
        compiled = self._device.compile(definition, lanes=self._lanes, **static)
        recording.launch(compiled, -(-count // compiled.lanes), *arguments)

    def _elements(self, what: str, buffer: Buffer) -> Words:
        """Download integers below p; raises DeviceError if a kernel has not written them."""
        modulus, words = self._shape.code.modulus, self._downloaded(buffer)
        if not canonical(modulus, words.reshape(-1, modulus.words)).all():
            raise not_written(self._device, what)
        return words

    def _downloaded(self, buffer: Buffer) -> Words:
        words = np.full(buffer.nbytes // 4, UNWRITTEN, np.uint32)
        self._device.download(buffer, words)
        return words
