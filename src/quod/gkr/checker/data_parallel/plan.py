"""Launches that check proofs of the data-parallel reduction."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.gkr.checker.data_parallel.kernels import add_gates, add_values
from quod.gkr.checker.data_parallel.messages import DataParallelMessages
from quod.gkr.checker.data_parallel.schedule import DataParallelSchedule
from quod.gkr.checker.data_parallel.verdicts import check_layers
from quod.gkr.checker.plan import CheckPlan
from quod.gkr.checker.records import FIRST_CHECK
from quod.gkr.checker.schedule import Sum
from quod.gkr.key import VerifyingKey
from quod.layered.circuit import LayeredCircuit

_VALUES = "values"


class DataParallelCheckPlan(CheckPlan):
    """The check of data-parallel proofs: short eq tables of all layers, and sums that read them."""

    def __init__(
        self, device: AnyDevice, key: VerifyingKey, circuit: LayeredCircuit, *, log_instances: int,
        batch: int, evaluates_inputs: bool,
    ) -> None:  # fmt: skip
        messages = DataParallelMessages(
            circuit, key.field, delay_messages=key.chain, log_instances=log_instances
        )
        self._layers_schedule = DataParallelSchedule(messages, evaluates_inputs=evaluates_inputs)
        super().__init__(device, messages, self._layers_schedule, hash=key.hash, batch=batch)

    def _sums(self) -> dict[str, Sum]:
        return {_VALUES: self._layers_schedule.values, **super()._sums()}

    def _record_sums(self, recording: RecordingStream) -> None:
        schedule, memory = self._layers_schedule, self._memory
        sent, tables = self._per_proof("sent"), self._per_proof("tables")
        self._record_tables(recording, range(len(schedule.table_rows)))
        self._tiled(
            recording, add_values, range(len(schedule.values.rows)), memory[f"rows of {_VALUES}"],
            memory[f"gates of {_VALUES}"], sent, tables, self._partial_sums(), field=self.field,
        )  # fmt: skip
        for form, gate_sum in schedule.sums.items():
            self._tiled(
                recording, add_gates, range(len(gate_sum.rows)), *self._gates(form), sent, tables,
                self._partial_sums(), form=form,
            )  # fmt: skip

    def _record_checks(self, recording: RecordingStream) -> None:
        arrays = [
            self._per_proof(name) for name in ("sent", "challenges", "checked", "tile_tickets")
        ]
        self._each(
            recording, check_layers, len(self.circuit.layers), self._memory["layers"], *arrays,
            self._partial_sums(), self._records(FIRST_CHECK), field=self.field,
        )  # fmt: skip
