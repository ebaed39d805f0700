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
    """Short tables of eq of all layers, and the sums that take them."""

    def __init__(
        self, device: AnyDevice, key: VerifyingKey, circuit: LayeredCircuit, *, log_instances: int,
        batch: int, evaluates_inputs: bool,
    ) -> None:  # fmt: skip
        messages = DataParallelMessages(
            circuit, key.field, chain=key.chain, log_instances=log_instances
        )
        self._own = DataParallelSchedule(messages, evaluates_inputs=evaluates_inputs)
        super().__init__(device, messages, self._own, hash=key.hash, batch=batch)

    def _sums(self) -> dict[str, Sum]:
        return {_VALUES: self._own.values, **super()._sums()}

    def _record_sums(self, recording: RecordingStream) -> None:
        schedule, memory, elements = self._own, self._memory, self.messages.elements
        parts = (schedule.parts, self._tags)
        self._record_tables(recording, range(len(schedule.table_rows)))
        self._tiled(
            recording, add_values, range(len(schedule.values.rows)), *parts, elements,
            schedule.table_entries, memory[f"rows of {_VALUES}"], memory[f"gates of {_VALUES}"],
            memory["sent"], memory["tables"], memory["partial"], memory["begun"], field=self.field,
        )  # fmt: skip
        for form, whole in schedule.sums.items():
            self._tiled(
                recording, add_gates, range(len(whole.rows)), *parts, whole.total, elements,
                schedule.table_entries, *self._of_coefficients, memory[f"rows of {form}"],
                memory[f"gates of {form}"], memory["coefficients"], memory["challenges"],
                memory["sent"], memory["tables"], memory["partial"], memory["begun"], form=form,
            )  # fmt: skip

    def _record_checks(self, recording: RecordingStream) -> None:
        memory, messages, schedule = self._memory, self.messages, self._own
        self._each(
            recording, check_layers, len(self.circuit.layers), len(messages.rows),
            messages.elements, len(messages.runs), schedule.parts, self._tags, schedule.tiles,
            self.record_words, FIRST_CHECK, memory["layers"], memory["sent"],
            memory["challenges"], memory["checked"], memory["made"], memory["partial"],
            memory["begun"], memory["records"], field=self.field,
        )  # fmt: skip
