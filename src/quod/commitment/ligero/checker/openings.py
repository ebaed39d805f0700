"""The fast verifier of Ligero's openings on a device; it checks one opening at a time."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from quod.commitment.ligero.checker.kernels import (
    FAILED,
    PASSED,
    check_claims,
    check_columns,
    expand_corners,
    expand_places,
    hash_level,
    hash_opened,
)
from quod.commitment.ligero.checker.paths import Paths
from quod.commitment.ligero.shape import MAX_CLAIMS, LigeroShape
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.commitment.scheme import Claim
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, VerificationError
from quod.field.array import Words, canonical, from_integers
from quod.field.plain_element import coefficients_of
from quod.hash.function import DIGEST_BYTES, STATE_WORDS
from quod.sumcheck.eq_reference import equality
from quod.sumcheck.run import elements_to_words
from quod.sumcheck.verifier import read_rounds
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader


class OpeningChecker:
    """A verifier of openings of one shape on a device, with its memory.

    It accepts the same openings as the reference verifier, which is run on a rejected opening to
    report the reason.
    """

    def __init__(self, device: DeviceChoice, shape: LigeroShape) -> None:
        """Allocate memory; raises DeviceError if there is too little."""
        self.device: AnyDevice = resolve_device(device)
        self._shape, code, field = shape, shape.code, shape.field
        self._paths = Paths(code.log_length, shape.opened)
        self._log_low = code.log_message // 2
        self._log_high = code.log_message - self._log_low
        # The entries of two tables, of the lower and of the upper half of the variables.
        self._halves = (1 << self._log_low) + (1 << self._log_high)
        element_bytes = 4 * field.words
        self._sizes = {
            "begun": 4,
            "twiddles": code.length * code.modulus.bytes,
            "places": 4 * shape.opened,
            "points": MAX_CLAIMS * max(1, code.log_message) * element_bytes,
            "r": max(1, shape.log_rows) * element_bytes,
            "weights": (MAX_CLAIMS + 1) * element_bytes,
            "combination": code.message * element_bytes,
            "columns": shape.opened * shape.rows * code.modulus.bytes,
            "rows": sum(self._paths.widths) * 12,
            "corners": MAX_CLAIMS * self._halves * element_bytes,
            "upper": shape.rows * element_bytes,
            "factors": shape.opened * self._halves * code.modulus.bytes,
            "nodes": self._paths.nodes * DIGEST_BYTES,
            "records": 4 * (shape.opened + 1),
        }
        self.peak_bytes = sum(self._sizes.values())
        """Bytes of device memory."""
        self.device.check_budget("the check of openings", self.peak_bytes)
        self._memory = {name: self.device.allocate(size) for name, size in self._sizes.items()}
        table = from_integers(code.modulus, list(code.twiddles()))
        self.device.upload(table, into=self._memory["twiddles"])
        self._recordings: dict[int, Recording] = {}

    def check(
        self, commitment: LigeroCommitment, claims: Sequence[Claim], reader: ProofReader,
        timeline: Timeline | None = None,
    ) -> None:  # fmt: skip
        """Read an opening and verify it as `commitment.check` does; raises the same errors.

        Raises DeviceError if the device has not written all results.
        """
        reader_copy = reader.copy()
        if not self._passes(commitment, claims, reader, timeline):
            commitment.check(claims, reader_copy)
            raise not_written(self.device, "the check of an opening")

    def _passes(
        self, commitment: LigeroCommitment, claims: Sequence[Claim], reader: ProofReader,
        timeline: Timeline | None,
    ) -> bool:  # fmt: skip
        shape, field, modulus = self._shape, self._shape.field, self._shape.code.modulus
        try:
            checked_claims, factors, total = shape.combine(reader.transcript, claims)
            last_claim, r = read_rounds(
                reader, field, degree=2, variables=shape.log_rows, claim=total
            )
            combination = reader.element_words(Label.OPENING, field, shape.code.message)
            column_indices = shape.draw_columns(reader.transcript)
            columns = self._words(
                reader, modulus.words * shape.opened * shape.rows, absorbed=self._leaves
            )
            rows, sibling_count = self._paths.rows(column_indices)
            siblings = self._words(reader, STATE_WORDS * sibling_count)
        except (InputError, VerificationError):
            return False
        arrays = [columns, siblings] if shape.hash.is_algebraic else [columns]
        if not all(canonical(modulus, array.reshape(-1, modulus.words)).all() for array in arrays):
            return False
        weights = [
            factor * equality(field, claim.point[: shape.log_rows], r)
            for claim, factor in zip(checked_claims, factors, strict=True)
        ]
        lower_coordinates = [c for claim in checked_claims for c in claim.point[shape.log_rows :]]
        weights_and_sum = coefficients_of([*weights, last_claim])
        for name, elements in (
            ("points", lower_coordinates),
            ("r", r),
            ("weights", weights_and_sum),
        ):
            if elements:
                self._upload(name, elements_to_words(field, elements))
        self._upload("combination", combination)
        self._upload("places", np.array(column_indices, np.uint32))
        self._upload("rows", rows)
        if len(siblings):
            first = shape.opened * DIGEST_BYTES
            self._upload("nodes", siblings, first)
        return self._run(commitment, len(checked_claims), timeline)

    def _words(self, reader: ProofReader, count: int, **absorbed: Any) -> Words:
        """Read a message of the opening, as 32-bit words."""
        return np.frombuffer(reader.message(Label.OPENING, 4 * count, **absorbed), "<u4")

    def _upload(self, name: str, words: Words, start: int = 0) -> None:
        """Upload words to a buffer, from byte `start` on."""
        target = self._memory[name].slice(start, start + words.nbytes)
        self.device.upload(np.ascontiguousarray(words, np.uint32), into=target)

    # --- on the device

    def _leaves(self, columns: bytes) -> bytes:
        """Hash opened columns to leaves, which the transcript absorbs instead of columns."""
        shape, device = self._shape, self.device
        self._upload("columns", np.frombuffer(columns, "<u4"))
        device.stream("leaves").replay(self._hashing).run()
        leaves = np.full(shape.opened * STATE_WORDS, UNWRITTEN, np.uint32)
        device.download(self._memory["nodes"].slice(0, leaves.nbytes), leaves)
        return leaves.astype("<u4").tobytes()

    @cached_property
    def _hashing(self) -> Recording:
        shape, memory = self._shape, self._memory
        recording = self.device.stream("leaves").record()
        recording.fill(memory["nodes"], UNWRITTEN)
        self._launch(
            recording, hash_opened, shape.opened, shape.opened, memory["columns"], memory["nodes"],
            words=shape.rows * shape.code.modulus.words, hash=shape.hash,
        )  # fmt: skip
        return recording.finish().recording

    def _run(self, commitment: LigeroCommitment, claims: int, timeline: Timeline | None) -> bool:
        """Run all checks on the uploaded opening; return whether every one passes.

        Raises DeviceError if the device has not written every verdict.
        """
        device, memory = self.device, self._memory
        # A random ticket per run distinguishes its verdicts from those of earlier runs.
        ticket = 4 * secrets.randbelow(1 << 29)
        self._upload("begun", np.array([ticket], np.uint32))
        records = np.full(self._shape.opened + 1, UNWRITTEN, np.uint32)
        self._upload("records", records)
        if claims not in self._recordings:
            self._recordings[claims] = self._recorded(claims)
        device.stream("opening").replay(self._recordings[claims]).run(timeline)
        device.download(memory["records"], records)
        root = np.full(STATE_WORDS, UNWRITTEN, np.uint32)
        first = self._paths.root * DIGEST_BYTES
        device.download(memory["nodes"].slice(first, first + DIGEST_BYTES), root)
        verdicts = records - np.uint32(ticket)
        if not ((verdicts == PASSED) | (verdicts == FAILED)).all():
            raise not_written(device, "the check of an opening")
        root_matches = root.astype("<u4").tobytes() == commitment.root
        return root_matches and bool((verdicts == PASSED).all())

    def _recorded(self, claims: int) -> Recording:
        """Record all launches after the hashing of leaves, for `claims` claims."""
        shape, code, memory = self._shape, self._shape.code, self._memory
        recording = self.device.stream("opening").record()
        for name in ("corners", "upper", "factors"):
            recording.fill(memory[name], UNWRITTEN)
        self._corners(recording, shape.log_rows, 0, 0, "r", "upper")
        for claim in range(claims):
            first, out = claim * code.log_message, claim * self._halves
            self._corners(recording, self._log_high, first, out, "points", "corners")
            self._corners(
                recording, self._log_low, first + self._log_high, out + (1 << self._log_high),
                "points", "corners",
            )  # fmt: skip
        count = shape.opened * self._halves
        self._launch(
            recording, expand_places, count, count, self._log_low, code.log_message,
            code.log_length, memory["places"], memory["twiddles"], memory["factors"],
            modulus=code.modulus,
        )  # fmt: skip
        log_halves, verdict_buffers = (
            (self._log_low, self._log_high),
            (memory["begun"], memory["records"]),
        )
        compiled = self.device.compile(check_claims, field=shape.field)
        recording.launch(
            compiled, 1, claims, *log_halves, shape.opened, memory["corners"], memory["weights"],
            memory["combination"], *verdict_buffers,
        )  # fmt: skip
        compiled = self.device.compile(check_columns, field=shape.field)
        recording.launch(
            compiled, shape.opened, *log_halves, shape.rows, memory["factors"],
            memory["combination"], memory["upper"], memory["columns"], *verdict_buffers,
        )  # fmt: skip
        first = 0
        for width in self._paths.widths:
            self._launch(
                recording, hash_level, width, first, width, memory["rows"], memory["nodes"],
                hash=shape.hash,
            )  # fmt: skip
            first += width
        return recording.finish().recording

    def _corners(
        self, recording: RecordingStream, log_size: int, first: int, out: int, points: str,
        corners: str,
    ) -> None:  # fmt: skip
        count = 1 << log_size
        self._launch(
            recording, expand_corners, count, count, log_size, first, out, self._memory[points],
            self._memory[corners], field=self._shape.field,
        )  # fmt: skip

    def _launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch of a kernel with at least `count` instances."""
        compiled = self.device.compile(definition, **static)
        recording.launch(compiled, -(-count // compiled.lanes), *arguments)
