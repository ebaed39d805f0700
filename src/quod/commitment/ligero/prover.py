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
from quod.commitment.scheme import Claim, check_table, check_writer
from quod.device.buffer import Buffer
from quod.device.memory import bytes_text
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.device.timeline import Timeline, or_null
from quod.device.written import UNWRITTEN, not_written
from quod.errors import DeviceError, InputError
from quod.field.array import Words, canonical, from_integers
from quod.sumcheck.equality import equality_pyramids, pyramid_entries
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import RecordedRounds, SumcheckRun, elements_to_words
from quod.sumcheck.shape import Shape
from quod.transcript.chain import STATE_WORDS
from quod.transcript.elements import Plain
from quod.transcript.hashes import Hash
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter

_LANES = 128
_LANES_OF_PROCESSOR = 8
_MOST_GROUPS = 1 << 15
_UNROLLED = 4
# Instances that combine rows at least, where there are as many elements.
_COMBINING = 1 << 18
_COMBINING_ON_PROCESSOR = 1 << 10


class LigeroCommitter:
    """The memory for tables of one size, one after the other."""

    def __init__(self, device: AnyDevice, shape: LigeroShape) -> None:
        self._device, self._shape = device, shape
        code, field = shape.code, shape.field
        matrix = shape.rows * code.length * code.modulus.bytes
        tree = 8 * STATE_WORDS * code.length
        element = 4 * field.words
        sums = (self._parts + 8) * code.message * element
        device.check_budget("a commitment", matrix + tree + sums)
        if matrix > device.largest_buffer:
            raise DeviceError(
                f"the words of 2^{shape.log2_size} entries take {bytes_text(matrix)}, and "
                f"{device.name} reaches {bytes_text(device.largest_buffer)} of a buffer; take a "
                "smaller table, or a device that reaches more"
            )
        self._twiddles = device.upload(from_integers(code.modulus, list(code.twiddles())))
        self._matrix = device.allocate(matrix)
        self._tree = device.allocate(tree)
        self._lower = device.allocate(pyramid_entries(code.log_message, code.log_message) * element)
        self._upper = device.allocate(pyramid_entries(shape.log_rows, shape.log_rows) * element)
        self._partial = device.allocate(self._parts * code.message * element)
        self._combination = device.allocate(code.message * element)
        self._runs: dict[tuple[int, Hash], SumcheckRun] = {}
        self._table: Buffer | None = None

    @property
    def _lanes(self) -> int:
        return _LANES_OF_PROCESSOR if self._device.host_memory else _LANES

    @property
    def _parts(self) -> int:
        """Into how many parts the rows are divided when they are combined."""
        wanted = _COMBINING_ON_PROCESSOR if self._device.host_memory else _COMBINING
        rows = self._shape.rows
        return max(1, min(wanted // self._shape.code.message, rows // min(_UNROLLED, rows)))

    # --- committing

    def commit(self, table: Buffer, writer: ProofWriter, timeline: Timeline | None = None) -> None:
        """Encodes the rows of a table, hashes the columns, and sends the root."""
        shape, code, device = self._shape, self._shape.code, self._device
        self._table = check_table(shape.field, shape.log2_size, table)
        check_writer(writer)
        or_null(timeline)
        # What no kernel writes is no digest.
        recording = device.stream("commitment").record()
        recording.fill(self._tree.slice(0, 8 * STATE_WORDS), UNWRITTEN)
        log_tile = fitting_log_tile(device, code, self._lanes)
        log_tiles = code.log_length - log_tile
        tiles = shape.rows << log_tiles
        compiled = device.compile(
            encode_rows, lanes=self._lanes, modulus=code.modulus, log_tile=log_tile,
            log_folded=code.log_message - log_tile,
        )  # fmt: skip
        recording.launch(
            compiled, min(tiles, _MOST_GROUPS), tiles, log_tiles, table, self._twiddles,
            self._matrix,
        )  # fmt: skip
        self._launch(
            recording, hash_columns, code.length, code.length, self._matrix, self._tree,
            modulus=code.modulus, rows=shape.rows,
        )  # fmt: skip
        for level in reversed(range(code.log_length)):
            self._launch(recording, hash_pairs, 1 << level, 1 << level, self._tree)
        recording.finish().submit(timeline).wait()
        root = self._downloaded(self._tree.slice(4 * STATE_WORDS, 8 * STATE_WORDS))
        if (root == UNWRITTEN).all():
            raise not_written(device, "a commitment")
        writer.message(Label.COMMITMENT, root.tobytes())

    # --- opening

    def open(
        self, claims: Sequence[Claim], writer: ProofWriter, timeline: Timeline | None = None
    ) -> None:
        """Sends a sumcheck over the upper variables, the rows' combination and columns."""
        check_writer(writer)
        or_null(timeline)
        shape, code = self._shape, self._shape.code
        if self._table is None:
            raise InputError("no table was committed to; call commit before open")
        checked, factors, total = shape.combine(writer.transcript, claims)
        recording = self._device.stream("opening").record()
        rounds = None
        r = self._uploaded([])
        if shape.log_rows:
            rounds = self._record_sumcheck(recording, checked, factors, total, writer)
            r = rounds.challenges
        self._record_combination(recording, r)
        recording.finish().submit(timeline).wait()
        if rounds is not None:
            found = rounds.rounds()
            writer.absorbed(found.messages, found.state)
        combination = self._elements("the combination of rows", self._combination)
        writer.message(Label.OPENING, combination.tobytes())

        places = shape.places(writer.transcript)
        nodes = [code.length + place for place in places]
        nodes += siblings(code.log_length, places)
        columns, digests = self._gather(places, nodes, timeline)
        leaves = digests[: len(places)].tobytes()
        writer.message(Label.OPENING, columns.tobytes(), absorbed=leaves)
        writer.message(Label.OPENING, digests[len(places) :].tobytes())

    def _record_sumcheck(
        self, recording: RecordingStream, claims: Sequence[Claim], factors: Sequence[Plain],
        total: Plain, writer: ProofWriter,
    ) -> RecordedRounds:  # fmt: skip
        """Reduces the claims, each a sum over rows of a weight and a product of the row."""
        shape, code, device = self._shape, self._shape.code, self._device
        field, log_rows = shape.field, shape.log_rows
        key = (len(claims), writer.transcript.hash)
        if key not in self._runs:
            polynomial = SumOfProducts(
                tuple((1, (2 * number, 2 * number + 1)) for number in range(len(claims)))
            )
            self._runs[key] = SumcheckRun(
                device, Shape(field, polynomial, 0, False, hash=key[1]), log_rows
            )
        run = self._runs[key]
        unrolled = _UNROLLED if code.message % (_UNROLLED * self._lanes) == 0 else 1
        compiled = device.compile(sum_rows, lanes=self._lanes, field=field, unrolled=unrolled)
        elements = [
            element
            for claim, factor in zip(claims, factors, strict=True)
            for element in (*claim.point, factor)
        ]
        given, size = self._uploaded(elements), 4 * field.words
        for number in range(len(claims)):
            start = number * (shape.log2_size + 1)
            upper, lower, factor = (
                given.slice(size * (start + first), size * (start + first + max(1, count)))
                for first, count in (
                    (0, log_rows), (log_rows, code.log_message), (shape.log2_size, 1),
                )
            )  # fmt: skip
            lower = self._equalities(recording, code.log_message, lower, self._lower)
            upper = self._equalities(recording, log_rows, upper, self._upper)
            recording.launch(
                compiled, shape.rows, code.message, self._given, lower, factor,
                run.table(2 * number),
            )  # fmt: skip
            recording.copy(upper, run.table(2 * number + 1))
        return run.record(recording, total, writer.transcript.state)

    @property
    def _given(self) -> Buffer:
        assert self._table is not None
        return self._table

    def _uploaded(self, elements: Sequence[Plain]) -> Buffer:
        """Elements on the device, or one that nobody looks at where there are none."""
        field = self._shape.field
        words = elements_to_words(field, elements or [(0,) * field.degree])
        return self._device.upload(words)

    def _equalities(
        self, recording: RecordingStream, size: int, point: Buffer, pyramid: Buffer
    ) -> Buffer:
        """eq of a point at all corners, which stand last but one in a pyramid."""
        field = self._shape.field
        entries, element = pyramid_entries(size, size), 4 * field.words
        self._launch(
            recording, equality_pyramids, entries, entries, size, size, 0, point, pyramid,
            field=field,
        )  # fmt: skip
        return pyramid.slice(element << size, element << (size + 1))

    def _record_combination(self, recording: RecordingStream, r: Buffer) -> None:
        """The rows' combination with eq of a point, as a message has it."""
        shape, code = self._shape, self._shape.code
        recording.fill(self._combination, UNWRITTEN)
        weights = self._equalities(recording, shape.log_rows, r, self._upper)
        rows = shape.rows // self._parts
        self._launch(
            recording, add_rows, code.message * self._parts, code.message * self._parts,
            code.log_message, rows, self._given, weights, self._partial, field=shape.field,
            at_once=min(_UNROLLED, rows),
        )  # fmt: skip
        self._launch(
            recording, add_parts, code.message, code.message, self._parts, self._partial,
            self._combination, field=shape.field,
        )  # fmt: skip

    def _gather(
        self, places: Sequence[int], nodes: Sequence[int], timeline: Timeline | None
    ) -> tuple[Words, Words]:
        """Columns, as a message has them, and nodes of the tree, a row each."""
        shape, code, device = self._shape, self._shape.code, self._device
        entries = len(places) * shape.rows
        columns = device.allocate(entries * code.modulus.bytes)
        digests = device.allocate(len(nodes) * 4 * STATE_WORDS)
        recording = device.stream("columns").record()
        recording.fill(columns, UNWRITTEN)
        self._launch(
            recording, gather_columns, entries, entries, shape.log_rows, code.length,
            self._matrix, device.upload(np.array(places, np.uint32)), columns,
            modulus=code.modulus,
        )  # fmt: skip
        self._launch(
            recording, gather_nodes, len(nodes), len(nodes), self._tree,
            device.upload(np.array(nodes, np.uint32)), digests,
        )  # fmt: skip
        recording.finish().submit(timeline).wait()
        return self._elements("columns", columns), self._downloaded(digests).reshape(
            -1, STATE_WORDS
        )

    # --- devices

    def _launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """A kernel with so many instances."""
        compiled = self._device.compile(definition, lanes=self._lanes, **static)
        recording.launch(compiled, -(-count // compiled.lanes), *arguments)

    def _elements(self, what: str, buffer: Buffer) -> Words:
        """Integers below p; DeviceError if a kernel has not written them."""
        modulus, words = self._shape.code.modulus, self._downloaded(buffer)
        if not canonical(modulus, words.reshape(-1, modulus.words)).all():
            raise not_written(self._device, what)
        return words

    def _downloaded(self, buffer: Buffer) -> Words:
        words = np.full(buffer.nbytes // 4, UNWRITTEN, np.uint32)
        self._device.download(buffer, words)
        return words
