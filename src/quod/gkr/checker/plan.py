"""The check of a batch of proofs of one circuit as recorded launches.

`CheckPlan` is the part that both reductions share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.field.array import from_integers
from quod.gkr.checker.equality import expand_factors, expand_tables
from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.inputs import check_claims, evaluate_tables
from quod.gkr.checker.messages import DIGEST_WORDS, Messages, Row, words_of
from quod.gkr.checker.reading import hash_runs, read_messages
from quod.gkr.checker.records import FIRST_CHECK
from quod.gkr.checker.schedule import Schedule, Sum
from quod.gkr.checker.structs import (
    Challenges,
    GateTables,
    PartialSums,
    PerProof,
    ProofElements,
    Records,
    Tiles,
)
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.transcript.runs import RUN_ELEMENTS

Words = NDArray[np.uint32]

# The kernel instances that read one proof together, on a GPU.
_READ_LANES = 32
# Kernels index 32-bit words by 32-bit numbers.
_MAX_BYTES = 4 << 32


class CheckPlan(ABC):
    """The checks of a batch of proofs.

    The host writes to `run_start` the run's ticket and the transcript states after the commitments,
    to `proof_elements` the proofs after their commitments, to `public` the public inputs, and to
    `inputs` the tables if the check compares claims with tables. It marks `records` as unwritten
    before the launches, and reads them after.
    """

    def __init__(
        self, device: AnyDevice, messages: Messages, schedule: Schedule, *, hash: Hash, batch: int
    ) -> None:
        self.device, self.messages, self.batch = device, messages, batch
        self.circuit, self.field = messages.circuit, messages.field
        self.evaluates_inputs = schedule.evaluates_inputs
        self._schedule, self._hash = schedule, hash
        layers = len(self.circuit.layers)
        self.claim_record = FIRST_CHECK + 2 * layers
        """The index of the record of the first claim about the inputs."""
        self.record_words = self.claim_record + len(schedule.claim_rows)
        """The number of records (32-bit words) per proof."""
        self._allocate()

    def _sums(self) -> dict[str, Sum]:
        """Return all sums, by the name of their buffers."""
        return {str(form): form_sum for form, form_sum in self._schedule.sums.items()}

    @abstractmethod
    def _record_sums(self, recording: RecordingStream) -> None:
        """Record the launches that compute the partial sums of all sums."""

    @abstractmethod
    def _record_checks(self, recording: RecordingStream) -> None:
        """Record the launch of the checks of all layers."""

    def _allocate(self) -> None:
        device, schedule, batch, messages = self.device, self._schedule, self.batch, self.messages
        modulus, element_bytes = self.circuit.field, 4 * self.field.words
        fixed_integers = [c if isinstance(c, int) else 0 for c in self.circuit.coefficients] or [0]
        fixed_coefficients = from_integers(modulus, fixed_integers)
        public_count = self.circuit.public << messages.log_instances
        rows: dict[str, list[Row]] = {
            "messages": messages.rows, "layers": schedule.layer_rows, "run_rows": messages.runs,
            "factor_rows": schedule.factors.rows, "table_rows": schedule.table_rows,
            "evaluation_rows": schedule.evaluation_rows, "claim_rows": schedule.claim_rows,
        }  # fmt: skip
        constants = {name: words_of(table) for name, table in rows.items()}
        constants["coordinates"] = np.array(schedule.factors.coordinates or [0], np.uint32)
        for name, form_sum in self._sums().items():
            constants[f"rows of {name}"] = words_of(form_sum.rows)
            constants[f"gates of {name}"] = form_sum.gates.reshape(-1)
        inputs = modulus.bytes << self._log_inputs if self.evaluates_inputs else 0
        # Kernels load as many words as the longest message or run has, from any message's start, so
        # that the buffer has this many words after the last message.
        padding_words = max(
            messages.most_words, RUN_ELEMENTS * self.field.words if messages.runs else 0
        )
        sizes = {
            "run_start": 4 * (1 + batch * STATE_WORDS),
            "sent": 4
            * (self._first_digest + batch * messages.digests * DIGEST_WORDS + padding_words),
            "checked": 4 * batch * len(messages.runs),
            "challenges": batch * len(messages.rows) * element_bytes,
            "factors": batch * schedule.factors.entries * element_bytes,
            "tables": batch * schedule.table_entries * element_bytes,
            "tile_tickets": 4 * batch * schedule.tiles,
            "partial": batch * schedule.parts * (element_bytes + 4),
            "claimed": batch * len(schedule.claim_rows) * element_bytes,
            "records": 4 * batch * self.record_words,
            "coefficients": fixed_coefficients.nbytes + batch * public_count * modulus.bytes,
            "inputs": batch * inputs,
        }
        if max(sizes.values()) > _MAX_BYTES:
            raise InputError(f"{batch} proofs of this circuit are too many to check at once")
        self.peak_bytes = sum(sizes.values()) + sum(array.nbytes for array in constants.values())
        """Bytes of device memory."""
        device.check_budget("the check of these proofs", self.peak_bytes)
        self._memory = {name: device.allocate(max(4, size)) for name, size in sizes.items()}
        self._memory |= {name: device.upload(array) for name, array in constants.items()}
        self.run_start = self._memory["run_start"]
        """The ticket, then the states."""
        self.inputs = self._memory["inputs"]
        """Tables of inputs, integers below p."""
        # The integer coefficients; other coefficients are 0 here.
        coefficients = self._memory["coefficients"]
        device.upload(fixed_coefficients, into=coefficients.slice(0, fixed_coefficients.nbytes))
        self.public = coefficients.slice(fixed_coefficients.nbytes, coefficients.nbytes)
        """The public inputs of each proof; for each input, its values in all instances."""
        # The digests that pad a message are 0, and no kernel writes them.
        digests = self._memory["sent"].slice(4 * self._first_digest, self._memory["sent"].nbytes)
        device.upload(np.zeros(digests.nbytes // 4, np.uint32), into=digests)
        self.records = self._memory["records"]
        """The records of all proofs, `record_words` per proof."""
        self.challenges = self._memory["challenges"]
        """An element for each message of each proof."""
        self.claimed = self._memory["claimed"]
        """The claims about the inputs: an element per claim, proof by proof."""

    @property
    def _log_inputs(self) -> int:
        return self.circuit.log_inputs + self.messages.log_instances

    @property
    def _first_digest(self) -> int:
        """The index of the first word of the digests, which follow the elements of all proofs."""
        return self.batch * self.messages.elements * self.field.words

    @property
    def _tags(self) -> int:
        """The index of the first word of the tags of partial sums."""
        return self.batch * self._schedule.parts * self.field.words

    def proof_elements(self, proof: int) -> Buffer:
        """Return the buffer of the elements of a proof."""
        size = 4 * self.messages.elements * self.field.words
        return self._memory["sent"].slice(proof * size, (proof + 1) * size)

    # --- launches

    @cached_property
    def recording(self) -> Recording:
        """All launches of a check."""
        recording = self.device.stream("check").record()
        schedule, memory = self._schedule, self._memory
        self._record_reading(recording)
        self._tiled(
            recording, expand_factors, range(len(schedule.factors.rows)), memory["factor_rows"],
            memory["coordinates"], self._per_proof("challenges"), self._per_proof("factors"),
            memory["run_start"], self._per_proof("tile_tickets"), field=self.field,
        )  # fmt: skip
        self._record_sums(recording)
        self._record_checks(recording)
        self._record_claims(recording)
        return recording.finish().recording

    def _tiled(
        self, recording: RecordingStream, definition: Any, tiles: range, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch with a workgroup for each tile of each proof."""
        compiled = self.device.compile(definition, **static)
        recording.launch(
            compiled, self.batch * len(tiles), Tiles(tiles.start, len(tiles)), *arguments
        )

    def _each(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch with `count` instances for each proof."""
        compiled = self.device.compile(definition, **static)
        total = self.batch * count
        recording.launch(compiled, -(-total // compiled.lanes), total, count, *arguments)

    def _record_reading(self, recording: RecordingStream) -> None:
        device, memory, messages = self.device, self._memory, self.messages
        sent = ProofElements(
            messages.elements, messages.digests, self._first_digest, memory["sent"]
        )
        if messages.runs:
            self._each(
                recording, hash_runs, len(messages.runs), sent, memory["run_rows"],
                memory["run_start"], memory["checked"], field=self.field, hash=self._hash,
            )  # fmt: skip
        lanes, alone = 1 if device.host_memory else _READ_LANES, False
        # On a CPU a large batch fills the lanes of a vector with one proof each.
        if device.host_memory and self.batch >= device.lanes > 1:
            lanes, alone = device.lanes, True
        compiled = device.compile(
            read_messages, lanes=lanes, field=self.field, hash=self._hash,
            most_words=messages.most_words, alone=alone,
        )  # fmt: skip
        recording.launch(
            compiled, -(-self.batch // lanes) if alone else self.batch, self.batch,
            sent, memory["messages"], memory["run_start"], self._per_proof("challenges"),
            self._per_proof("records"),
        )  # fmt: skip

    def _record_tables(self, recording: RecordingStream, tiles: range) -> None:
        """Record the expansion of eq tables from their factors."""
        memory, schedule = self._memory, self._schedule
        self._tiled(
            recording, expand_tables, tiles, len(schedule.factors.rows), memory["table_rows"],
            self._per_proof("factors"), self._per_proof("tables"), memory["run_start"],
            self._per_proof("tile_tickets"), field=self.field,
        )  # fmt: skip

    def _per_proof(self, name: str) -> PerProof:
        """Return an array of all proofs as a kernel argument."""
        schedule, messages = self._schedule, self.messages
        strides = {
            "sent": messages.elements, "challenges": len(messages.rows),
            "checked": len(messages.runs), "factors": schedule.factors.entries,
            "tables": schedule.table_entries, "tile_tickets": schedule.tiles,
            "records": self.record_words,
        }  # fmt: skip
        return PerProof(strides[name], self._memory[name])

    def _partial_sums(self) -> PartialSums:
        """Return the partial sums as a kernel argument."""
        memory = self._memory
        return PartialSums(self._schedule.parts, self._tags, memory["partial"], memory["run_start"])

    def _records(self, first: int) -> Records:
        """Return the records of a check, from index `first` in each proof, as a kernel argument."""
        return Records(self.record_words, first, self._memory["records"])

    def _gates(self, form: SumForm) -> tuple[GateTables, Challenges]:
        """Return the gates of a sum, and their coefficients' challenges, as kernel arguments."""
        circuit, messages, memory = self.circuit, self.messages, self._memory
        tables = GateTables(
            self._schedule.sums[form].total, len(circuit.coefficients), circuit.public,
            messages.log_instances, memory[f"rows of {form}"], memory[f"gates of {form}"],
            memory["coefficients"],
        )  # fmt: skip
        return tables, Challenges(len(messages.rows), messages.first_random, memory["challenges"])

    def _record_claims(self, recording: RecordingStream) -> None:
        schedule, memory, claims = self._schedule, self._memory, len(self._schedule.claim_rows)
        if self.evaluates_inputs:
            self._tiled(
                recording, evaluate_tables, range(len(schedule.evaluation_rows)), self._log_inputs,
                memory["evaluation_rows"], self._per_proof("factors"), memory["inputs"],
                self._partial_sums(), field=self.field, claims=claims,
            )  # fmt: skip
        self._each(
            recording, check_claims, claims, memory["claim_rows"], self._per_proof("sent"),
            self._partial_sums(), memory["claimed"], self._records(self.claim_record),
            field=self.field, evaluates=self.evaluates_inputs,
        )  # fmt: skip
