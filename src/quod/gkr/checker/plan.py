"""The check of a batch of proofs of one circuit, as launches that are recorded once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.circuit.layered import LayeredCircuit
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.recording import Recording
from quod.device.stream import RecordingStream
from quod.errors import InputError
from quod.field.array import from_integers
from quod.field.spec import FieldSpec
from quod.gkr.checker.kernels import (
    FIRST_CHECK,
    SumForm,
    add_gates,
    evaluate_tables,
    expand_factors,
    expand_tables,
    read_messages,
)
from quod.gkr.checker.messages import Messages, words_of
from quod.gkr.checker.schedule import Schedule
from quod.gkr.checker.verdicts import check_claims, check_layers
from quod.transcript.chain import STATE_WORDS
from quod.transcript.hashes import Hash

Words = NDArray[np.uint32]

_READ_LANES = 32
_TABLE_ENTRIES_OF_PROCESSOR, _TABLE_ENTRIES = 1 << 15, 1 << 22
_MOST_BYTES = 4 << 32


class CheckPlan:
    """`batch` proofs side by side.

    The host sets `begun`, the run's ticket and the states of the transcripts behind the
    commitments, `sent`, what follows of the proofs, `public`, and `inputs` where claims about them
    are compared with tables, and finds `records`, which it has marked before.
    """

    def __init__(
        self, device: AnyDevice, circuit: LayeredCircuit, field: FieldSpec, *, chain: int,
        hash: Hash, log_instances: int, batch: int, evaluates_inputs: bool,
    ) -> None:  # fmt: skip
        self.device, self.circuit, self.field, self.batch = device, circuit, field, batch
        self._hash = hash
        self.messages = Messages(circuit, field, chain=chain, log_instances=log_instances)
        most = _TABLE_ENTRIES_OF_PROCESSOR if device.host_memory else _TABLE_ENTRIES
        self.schedule = Schedule(
            self.messages, evaluates_inputs=evaluates_inputs, table_entries=most // batch
        )
        self.record_words = FIRST_CHECK + 2 * len(self.messages.layers) + 2
        """Records of a proof."""
        self.claim_record = FIRST_CHECK + 2 * len(self.messages.layers)
        """The record of the first claim about the inputs."""
        self.evaluates_inputs = evaluates_inputs
        self._log_inputs = circuit.log_inputs + log_instances
        self._allocate()

    def _allocate(self) -> None:
        device, schedule, batch = self.device, self.schedule, self.batch
        modulus, element = self.circuit.field, 4 * self.field.words
        numbers = [c if isinstance(c, int) else 0 for c in self.circuit.coefficients] or [0]
        self._numbers = from_integers(modulus, numbers)
        public = self.circuit.public << self.messages.log_instances
        rows = {
            "messages": self.messages.rows, "layers": schedule.layer_rows,
            "factor_rows": schedule.factors.rows, "table_rows": schedule.table_rows,
            "evaluation_rows": schedule.evaluation_rows, "claim_rows": schedule.claim_rows,
        }  # fmt: skip
        constants = {name: words_of(own) for name, own in rows.items()}
        constants["coordinates"] = np.array(schedule.factors.coordinates or [0], np.uint32)
        for form, whole in schedule.sums.items():
            constants[f"rows of {form}"] = words_of(whole.rows)
            constants[f"gates of {form}"] = whole.gates.reshape(-1)
        inputs = modulus.bytes << self._log_inputs if schedule.claim_rows else 0
        sizes = {
            "begun": 4 * (1 + batch * STATE_WORDS),
            # Kernels load as many words as the longest message has, wherever one begins.
            "sent": batch * self.messages.elements * element + 4 * self.messages.most_words,
            "challenges": batch * len(self.messages.rows) * element,
            "factors": batch * schedule.factors.entries * element,
            "tables": batch * schedule.table_entries * element,
            "partial": batch * schedule.parts * (element + 4),
            "records": 4 * batch * self.record_words,
            "coefficients": self._numbers.nbytes + batch * public * modulus.bytes,
            "inputs": max(4, batch * inputs),
        }
        if max(sizes.values()) > _MOST_BYTES:
            raise InputError(f"{batch} proofs of this circuit are too many to check at once")
        self.peak_bytes = sum(sizes.values()) + sum(array.nbytes for array in constants.values())
        """Bytes of device memory."""
        device.check_budget("the check of these proofs", self.peak_bytes)
        self._memory = {name: device.allocate(max(4, size)) for name, size in sizes.items()}
        self._memory |= {name: device.upload(array) for name, array in constants.items()}
        device.upload(self._numbers, into=self.coefficients.slice(0, self._numbers.nbytes))

    # --- what the host sets and finds

    @property
    def begun(self) -> Buffer:
        """The ticket, then the states."""
        return self._memory["begun"]

    @property
    def inputs(self) -> Buffer:
        """Tables of inputs, integers below p."""
        return self._memory["inputs"]

    @property
    def coefficients(self) -> Buffer:
        """Those of the circuit, 0 in place of what is no number, then the public inputs."""
        return self._memory["coefficients"]

    @property
    def public(self) -> Buffer:
        """The public inputs of each proof, of each input those of all instances."""
        return self.coefficients.slice(self._numbers.nbytes, self.coefficients.nbytes)

    @property
    def sent(self) -> Buffer:
        """The elements of all proofs, one proof after the other."""
        size = 4 * self.batch * self.messages.elements * self.field.words
        return self._memory["sent"].slice(0, size)

    @property
    def records(self) -> Buffer:
        """`record_words` of each proof."""
        return self._memory["records"]

    @property
    def challenges(self) -> Buffer:
        """An element for each message of each proof."""
        return self._memory["challenges"]

    # --- launches

    @cached_property
    def recording(self) -> Recording:
        """All launches."""
        recording = self.device.stream("check").record()
        schedule, memory = self.schedule, self._memory
        self._read(recording)
        messages = len(self.messages.rows)
        self._tiled(
            recording, expand_factors, 0, len(schedule.factors.rows), messages,
            schedule.factors.entries, memory["factor_rows"], memory["coordinates"],
            memory["challenges"], memory["factors"], field=self.field,
        )  # fmt: skip
        for number, chunk in enumerate(schedule.chunks):
            with recording.part(f"chunk {number}"):
                self._tiled(
                    recording, expand_tables, chunk.tables.start, len(chunk.tables),
                    schedule.factors.entries, schedule.table_entries, memory["table_rows"],
                    memory["factors"], memory["tables"], field=self.field,
                )  # fmt: skip
                for form, tiles in chunk.sums.items():
                    self._add(recording, form, tiles)
        self._check(recording)
        return recording.finish().recording

    def _tiled(
        self, recording: RecordingStream, definition: Any, first: int, tiles: int,
        *arguments: Any, **static: Any,
    ) -> None:  # fmt: skip
        """A workgroup a tile of a proof."""
        compiled = self.device.compile(definition, **static)
        recording.launch(compiled, self.batch * tiles, first, tiles, *arguments)

    def _read(self, recording: RecordingStream) -> None:
        device, memory = self.device, self._memory
        lanes, alone = 1 if device.host_memory else _READ_LANES, False
        if device.host_memory and self.batch >= device.lanes > 1:
            lanes, alone = device.lanes, True
        compiled = device.compile(
            read_messages, lanes=lanes, field=self.field, hash=self._hash,
            most_words=self.messages.most_words, alone=alone,
        )  # fmt: skip
        recording.launch(
            compiled, -(-self.batch // lanes) if alone else self.batch, self.batch,
            len(self.messages.rows), self.messages.elements, self.record_words,
            memory["messages"], memory["begun"], memory["sent"], memory["challenges"],
            memory["records"],
        )  # fmt: skip

    @property
    def _tags(self) -> int:
        """Where the tickets of parts begin, in words."""
        return self.batch * self.schedule.parts * self.field.words

    def _add(self, recording: RecordingStream, form: SumForm, tiles: range) -> None:
        schedule, memory = self.schedule, self._memory
        self._tiled(
            recording, add_gates, tiles.start, len(tiles), schedule.parts, self._tags,
            schedule.sums[form].total, schedule.table_entries, len(self.circuit.coefficients),
            self.circuit.public, self.messages.first_random, len(self.messages.rows),
            self.messages.log_instances, memory[f"rows of {form}"], memory[f"gates of {form}"],
            memory["coefficients"], memory["challenges"], memory["tables"], memory["partial"],
            memory["begun"], form=form,
        )  # fmt: skip

    def _check(self, recording: RecordingStream) -> None:
        schedule, memory, elements = self.schedule, self._memory, self.messages.elements
        layers, claims = len(self.messages.layers), len(schedule.claim_rows)
        parts = schedule.parts, self._tags, self.record_words
        compiled = self.device.compile(check_layers, field=self.field)
        count = self.batch * layers
        recording.launch(
            compiled, -(-count // compiled.lanes), count, layers, len(self.messages.rows),
            elements, *parts, FIRST_CHECK, memory["layers"], memory["sent"], memory["challenges"],
            memory["partial"], memory["begun"], memory["records"],
        )  # fmt: skip
        if not claims:
            return
        self._tiled(
            recording, evaluate_tables, 0, len(schedule.evaluation_rows), *parts[:2],
            schedule.factors.entries, self._log_inputs, memory["evaluation_rows"],
            memory["factors"], memory["inputs"], memory["partial"], memory["begun"],
            field=self.field, claims=claims,
        )  # fmt: skip
        compiled = self.device.compile(check_claims, field=self.field)
        count = self.batch * claims
        recording.launch(
            compiled, -(-count // compiled.lanes), count, claims, elements, *parts,
            self.claim_record, memory["claim_rows"], memory["sent"], memory["partial"],
            memory["begun"], memory["records"],
        )  # fmt: skip
