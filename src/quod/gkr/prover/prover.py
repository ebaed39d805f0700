"""The GKR prover of layered circuits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import assert_never

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import DeviceError, InputError
from quod.field.array import Words, from_integers
from quod.gkr.checker.device_verifier import Verifier
from quod.gkr.key import VerifyingKey
from quod.gkr.prover.data_parallel.gate_tables import DataParallelGates
from quod.gkr.prover.data_parallel.plan import DataParallelPlan
from quod.gkr.prover.pipeline_slot import PipelineSlot
from quod.gkr.prover.plan import BatchPlan
from quod.gkr.prover.two_phase.gate_tables import TwoPhaseGates
from quod.gkr.prover.two_phase.plan import TwoPhasePlan
from quod.gkr.reduction import Reduction
from quod.gkr.statement import Statement, by_instance, checked_key, checked_lists
from quod.layered.circuit import LayeredCircuit
from quod.security import MIN_BITS
from quod.validation import plain_array, whole_number


class Prover:
    """A prover on a device for proofs of `instances` instances of a circuit, in batches.

    Threads may share it; a lock serialises their calls.
    """

    def __init__(
        self, device: DeviceChoice, key: VerifyingKey, circuit: LayeredCircuit, *,
        instances: int = 1, batch: int = 1, in_progress: int = 2, allow_bits: int = MIN_BITS,
    ) -> None:  # fmt: skip
        """Allocate the memory of the first batch.

        instances: the number of instances of the circuit per proof.
        batch: the number of proofs that the device computes at a time.
        in_progress: 1 or 2 batches in flight, each with its own memory. With 2 a GPU computes one
            while the host finishes the other.
        Raises MismatchError for a key of another circuit, InputError if soundness is below the
        bits of the key or `allow_bits`, and DeviceError if memory is short.
        """
        self.device: AnyDevice = resolve_device(device)
        log_instances = checked_key(key, circuit, instances, allow_bits)
        self._allow_bits = allow_bits
        batch = whole_number("the batch", batch, 1, 1 << 16)
        self.key, self.circuit, self.instances = key, circuit, int(instances)
        self._log_instances, self._batch = log_instances, batch
        plan_type: Callable[..., BatchPlan]
        match key.reduction:
            case Reduction.TWO_PHASE:
                plan_type = partial(TwoPhasePlan, TwoPhaseGates(self.device, circuit, key.field))
            case Reduction.DATA_PARALLEL:
                plan_type = partial(
                    DataParallelPlan, DataParallelGates(self.device, circuit, key.field)
                )
            case _:
                assert_never(key.reduction)
        self._plan: Callable[[], BatchPlan] = partial(
            plan_type,
            delay_messages=key.chain,
            hash=key.hash,
            log_instances=log_instances,
            batch=batch,
        )
        # A CPU cannot compute one batch while the host finishes another.
        max_in_progress = whole_number("in_progress", in_progress, 1, 2)
        self._max_in_progress = 1 if self.device.host_memory else max_in_progress
        self._in_progress = [self._pipeline_slot(0)]
        self._turn = Lock()

    def prove(
        self, inputs: Sequence[object] | Words, public: Sequence[object] = (), *,
        check: bool = True, timeline: Timeline | None = None,
    ) -> bytes:  # fmt: skip
        """Return a proof that the outputs of all instances are 0.

        inputs: for each instance a list of int; a single instance needs no outer list. Or uint32
            elements (`quod.field.from_integers`) of shape (instances, inputs, words), for a single
            instance also (inputs, words).
        public: the public inputs of each instance, lists of the same form.
        check: verify the proof on the same device before returning it. The first such proof
            creates a `Verifier`.
        **The proof is not zero-knowledge**: with the raw commitment it contains the inputs. Raises
        InputError if an output is not 0, and DeviceError if the check fails.
        """
        (proof,) = self.prove_many([inputs], [public], check=check, timeline=timeline)
        return proof

    def prove_many(
        self, inputs: Sequence[Sequence[object] | Words], public: Sequence[Sequence[object]], *,
        check: bool = True, timeline: Timeline | None = None,
    ) -> list[bytes]:  # fmt: skip
        """Prove each pair of inputs and public inputs; see `prove`.

        Raises InputError if the lists have different lengths.
        """
        tables, publics = checked_lists("the inputs", inputs, public)
        log_size = self._log_instances
        statements = [
            Statement(self.key, self.circuit, row, self.instances, checked=log_size)
            for row in publics
        ]
        tables = [self._table(row) for row in tables]
        with self._turn:
            proofs = self._prove(statements, tables, timeline)
            if check:
                with or_null(timeline).stage("check"):
                    self._check(statements, proofs, timeline)
        return proofs

    def _prove(
        self, statements: list[Statement], tables: list[Words], timeline: Timeline | None
    ) -> list[bytes]:
        """Prove one batch after the other.

        With two batches in progress the device computes one while the host finishes the other and
        begins the next.
        """
        if not statements:
            return []
        common_transcript = self.key.transcript()
        statements[0].absorb_common(common_transcript)
        if not self.circuit.public:
            statements[0].absorb_public(common_transcript)
        batches = range(0, len(tables), self._batch)
        while len(self._in_progress) < min(self._max_in_progress, len(batches)):
            self._in_progress.append(self._pipeline_slot(len(self._in_progress)))
        proofs: list[bytes] = []
        max_pending = len(self._in_progress) - 1
        pending: list[tuple[PipelineSlot, int | None]] = []
        try:
            for number, start in enumerate(batches):
                slot = self._in_progress[number % len(self._in_progress)]
                batch_slice = slice(start, start + self._batch)
                slot.begin(
                    statements[batch_slice], tables[batch_slice], common_transcript, timeline
                )
                pending.append((slot, start if len(tables) > 1 else None))
                if len(pending) > max_pending:
                    slot, first = pending.pop(0)
                    proofs += slot.finish(first)
            for slot, first in pending:
                proofs += slot.finish(first)
        finally:
            for slot in self._in_progress:
                slot.abandon()
        return proofs

    def _check(
        self, statements: list[Statement], proofs: list[bytes], timeline: Timeline | None
    ) -> None:
        for error in self._verifier.errors_of(statements, proofs, timeline):
            if error is not None:
                raise DeviceError(
                    f"{self.device.name} made a proof that does not verify ({error}); its memory "
                    "or its driver may be faulty"
                )

    @cached_property
    def _verifier(self) -> Verifier:
        """The verifier of `check`, created on first use; it has its own memory."""
        return Verifier(
            self.device, self.key, self.circuit, instances=self.instances, batch=self._batch,
            allow_bits=self._allow_bits,
        )  # fmt: skip

    def _table(self, inputs: object) -> Words:
        """Return the inputs in the stored form: uint32 of shape (instances, inputs, words)."""
        circuit, words = self.circuit, self.circuit.field.words
        size = 1 << circuit.log_inputs
        if isinstance(inputs, (list, tuple)):
            rows = by_instance("inputs", inputs, self.instances)
            table = np.concatenate([self._elements(row) for row in rows])
        else:
            table, shape = plain_array("the inputs", inputs), (self.instances, size, words)
            single = self.instances == 1 and table.shape == shape[1:]
            if table.dtype != np.uint32 or not (single or table.shape == shape):
                raise InputError(
                    f"inputs of {self.instances} instances must be uint32 of shape {shape}, not "
                    f"{table.dtype} of {table.shape}"
                )
            table = np.ascontiguousarray(table)
        return table.reshape(self.instances, size, words)

    def _elements(self, row: object) -> Words:
        p, size = self.circuit.field.value, 1 << self.circuit.log_inputs
        if not isinstance(row, (list, tuple)) or len(row) != size:
            raise InputError(f"the inputs of an instance must be a list of {size} int")
        if any(type(value) is not int or not 0 <= value < p for value in row):
            raise InputError(f"the inputs of a circuit must be int from 0 to {p - 1}")
        return from_integers(self.circuit.field, list(row))

    def _pipeline_slot(self, number: int) -> PipelineSlot:
        """Create the slot of one more batch in progress."""
        name = f"gkr {number}" if number else "gkr"
        return PipelineSlot(self._plan(), self.key, self.instances, name)
