"""Launches that check proofs of the two-phase reduction."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.gkr.checker.gates import SumForm
from quod.gkr.checker.plan import CheckPlan
from quod.gkr.checker.records import FIRST_CHECK
from quod.gkr.checker.two_phase.kernels import add_gates
from quod.gkr.checker.two_phase.messages import TwoPhaseMessages
from quod.gkr.checker.two_phase.schedule import TwoPhaseSchedule
from quod.gkr.checker.two_phase.verdicts import check_layers
from quod.gkr.key import VerifyingKey
from quod.layered.circuit import LayeredCircuit

_CPU_TABLE_ENTRIES, _TABLE_ENTRIES = 1 << 15, 1 << 22


class TwoPhaseCheckPlan(CheckPlan):
    """The check of two-phase proofs: eq tables and sums that read them, a few layers at a time."""

    def __init__(
        self, device: AnyDevice, key: VerifyingKey, circuit: LayeredCircuit, *, log_instances: int,
        batch: int, evaluates_inputs: bool,
    ) -> None:  # fmt: skip
        messages = TwoPhaseMessages(
            circuit, key.field, delay_messages=key.chain, log_instances=log_instances
        )
        table_entries = _CPU_TABLE_ENTRIES if device.host_memory else _TABLE_ENTRIES
        self._layers_schedule = TwoPhaseSchedule(
            messages, evaluates_inputs=evaluates_inputs, table_entries=table_entries // batch
        )
        super().__init__(device, messages, self._layers_schedule, hash=key.hash, batch=batch)

    def _record_sums(self, recording: RecordingStream) -> None:
        for number, chunk in enumerate(self._layers_schedule.chunks):
            with recording.part(f"chunk {number}"):
                self._record_tables(recording, chunk.tables)
                for form, tiles in chunk.sums.items():
                    self._add(recording, form, tiles)

    def _add(self, recording: RecordingStream, form: SumForm, tiles: range) -> None:
        self._tiled(
            recording, add_gates, tiles, *self._gates(form), self._per_proof("tables"),
            self._partial_sums(), form=form,
        )  # fmt: skip

    def _record_checks(self, recording: RecordingStream) -> None:
        arrays = [self._per_proof(name) for name in ("sent", "challenges", "tile_tickets")]
        self._each(
            recording, check_layers, len(self.circuit.layers), self._memory["layers"], *arrays,
            self._partial_sums(), self._records(FIRST_CHECK), field=self.field,
        )  # fmt: skip
