"""Launches of a batch of data-parallel proofs.

The values are computed from the inputs to the outputs, the sumchecks from the outputs back.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from quod.device.memory.buffer import Buffer
from quod.device.runtime.stream import RecordingStream
from quod.gkr.protocol import Layer, Rounds
from quod.gkr.prover.data_parallel.gate_tables import DataParallelGates, DataParallelLayer
from quod.gkr.prover.data_parallel.kernels import (
    Challenge,
    FoldExtents,
    FoldForm,
    TermForm,
    TermTable,
    column_values,
    evaluate_columns,
    fold_columns,
    term_weights,
)
from quod.gkr.prover.data_parallel.steps import combine_values, digest_values, end_layer
from quod.gkr.prover.data_parallel.table import ColumnForm
from quod.gkr.prover.gates import LayerSizes
from quod.gkr.prover.plan import BatchPlan
from quod.gkr.prover.state import FIRST_POINT
from quod.gkr.prover.steps import set_points
from quod.gkr.reduction import Reduction
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.sumcheck.finish import finish_rounds, parts_at_once
from quod.sumcheck.plan import SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import SumcheckMemory
from quod.sumcheck.summands import pass_points
from quod.transcript.runs import DIGESTS_EACH, messages_of

_LANES = 128
# The number of 32-bit words of a CPU's widest vector.
_CPU_LANES = 16
_GROUPS_PER_THREAD = 4
# Columns of 2**5 entries or more are padded by 16 entries on CPUs; see `DataParallelPlan.stride`.
_MIN_LOG_PADDED, _PADDING = 5, 16


class DataParallelPlan(BatchPlan):
    """The plan of data-parallel proofs: one sumcheck per layer, over the instances."""

    reduction = Reduction.DATA_PARALLEL

    def __init__(
        self,
        gates: DataParallelGates,
        *,
        delay_messages: int,
        hash: Hash,
        log_instances: int,
        batch: int,
    ) -> None:
        super().__init__(
            gates, delay_messages=delay_messages, hash=hash, log_instances=log_instances,
            batch=batch,
        )  # fmt: skip
        self.layers = gates.layers
        self._sumchecks: dict[int, SumcheckPlan] = {}
        self._allocate_columns()

    # --- sizes

    def sumcheck(self, number: int) -> SumcheckPlan | None:
        """Return the plan of a layer's rounds, without tables; None for a layer without rounds."""
        rounds = self.rounds(number)
        if rounds.variables == 0:
            return None
        degree = rounds.degree
        if degree not in self._sumchecks:
            shape = Shape(
                self.field, SumOfProducts.product(degree), in_base=0, has_point=True, hash=self.hash
            )
            self._sumchecks[degree] = SumcheckPlan(
                self.device, shape, self.log_instances, batch=self.batch
            )
        return self._sumchecks[degree]

    def rounds(self, number: int) -> Rounds:
        """Return the rounds of a layer; a linear layer has none."""
        (sumcheck,) = self.protocol.layer(number).sumchecks
        return sumcheck.rounds

    @cached_property
    def lanes(self) -> int:
        """The workgroup size of kernels over columns, a power of two."""
        if not self.device.host_memory:
            return _LANES
        lanes = min(_CPU_LANES, self.device.lanes)
        return 1 << (lanes.bit_length() - 1)

    def is_narrow(self, log_count: int) -> bool:
        """True if a column has fewer entries (2**log_count) than a workgroup has instances."""
        return self.lanes >> log_count > 1

    def chunks(self, log_count: int, columns: int) -> int:
        """Return the number of chunks into which columns of 2**log_count entries are divided."""
        if self.device.host_memory:
            threads: int = self.device.threads  # type: ignore[attr-defined]
            max_groups = _GROUPS_PER_THREAD * threads
        else:
            max_groups = self.device.resident_lanes // self.lanes
        columns_at_once = max(1, self.lanes >> log_count)
        tiles = max(1, (1 << log_count) // self.lanes)
        return max(1, min(max_groups // (self.batch * tiles), columns // columns_at_once))

    def groups(self, log_count: int, chunks: int) -> int:
        """Return the number of workgroups per proof."""
        return max(1, (1 << log_count) // self.lanes) * chunks

    def source(self, level: int) -> ColumnForm:
        """Return the representation of a level's values; level 0 is the inputs."""
        return "base" if self.gates.values_are_base[level] else "extended"

    def stride(self, log_count: int) -> int:
        """Return the number of entries from one column to the next, at least 2**log_count.

        On CPUs the stride is not a power of two, because addresses at such distances share cache
        sets.
        """
        is_padded = self.device.host_memory and log_count >= _MIN_LOG_PADDED
        return (1 << log_count) + (_PADDING if is_padded else 0)

    @cached_property
    def strides(self) -> list[int]:
        """The stride of each level's values; those of inputs and outputs are not padded."""
        inner_stride = self.stride(self.log_instances)
        outer_stride = 1 << self.log_instances
        return [outer_stride, *[inner_stride] * (len(self.layers) - 1), outer_stride]

    def passes(self, number: int) -> list[tuple[int, int]]:
        """Return the first round and the number of rounds of each pass over a layer's columns.

        The first pass may have two rounds if the columns are in the prime field; the others have
        one.
        """
        rounds = self.log_instances
        is_in_base = self.gates.values_are_base[number] and self.field.degree > 1
        first_depth = 2 if is_in_base and self.rounds(number).degree <= 2 and rounds >= 2 else 1
        return (
            [(0, first_depth), *((round_number, 1) for round_number in range(first_depth, rounds))]
            if rounds
            else []
        )

    # --- memory

    def _allocate_columns(self) -> None:
        plans = [p for p in map(self.sumcheck, range(len(self.layers))) if p]
        element_bytes = self.element_bytes
        max_columns = max(layer.sent_count for layer in self.layers)
        folded_bytes = self.batch * max_columns * element_bytes
        partial_counts = [
            self.groups(variables, self.chunks(variables, layer.terms.count))
            * len(pass_points(self.rounds(index).degree, depth))
            for index, layer in enumerate(self.layers)
            for first, depth in self.passes(index)
            for variables in [self.log_instances - first - depth]
        ]
        sizes = {
            "terms": max(1, self.batch * max(layer.terms.count for layer in self.layers))
            * element_bytes,
            "ends": folded_bytes,
            # Folds alternate between these two buffers.
            "folded": folded_bytes * self.stride(max(0, self.log_instances - 1)),
            "folded again": folded_bytes * self.stride(max(0, self.log_instances - 2)),
            "points": max(1, self.batch * self.log_instances) * element_bytes,
            "partial": self.batch * max([1, *partial_counts]) * element_bytes,
            "digests": 4 * self.batch * DIGESTS_EACH * messages_of(max_columns) * STATE_WORDS,
            **{
                name: max([4, *(getattr(plan, f"{name}_bytes") for plan in plans)])
                for name in ("equality", "progress", "proof")
            },
        }
        self._allocate(sizes, self.strides)

    # --- launches

    def _record_values(self, recording: RecordingStream, layer_index: int) -> None:
        sorted_gates = self.layers[layer_index].by_output
        log_size, log_below = self.sizes[layer_index + 1], self.sizes[layer_index]
        chunks = self.chunks(self.log_instances, 1 << log_size)
        self.over_columns(
            recording, column_values, self.log_instances, chunks,
            LayerSizes(log_size, log_below, self.log_instances), chunks,
            *self.strides[layer_index : layer_index + 2],
            self.gate_table(sorted_gates.starts, sorted_gates.gates),
            self.values[layer_index], self.values[layer_index + 1], form=sorted_gates.form,
            narrow=self.is_narrow(self.log_instances),
        )  # fmt: skip

    def over_columns(
        self, recording: RecordingStream, definition: Any, log_count: int, chunks: int,
        *arguments: Any, **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch over columns of 2**log_count entries, for all proofs."""
        compiled = self.device.compile(definition, lanes=self.lanes, **static)
        recording.launch(compiled, self.batch * self.groups(log_count, chunks), *arguments)

    def _record_layer(self, recording: RecordingStream, layer: Layer) -> None:
        _LayerRecorder(self, recording, layer).record()


class _LayerRecorder:
    """Records the reduction of the claim about a layer to a claim about the layer below."""

    def __init__(self, plan: DataParallelPlan, recording: RecordingStream, steps: Layer) -> None:
        self._plan, self._recording = plan, recording
        self._number = number = steps.number
        (self._steps,) = steps.sumchecks
        self._challenges = steps.challenges
        self._layer: DataParallelLayer = plan.layers[number]
        self._sumcheck = plan.sumcheck(number)
        self._memory = plan.memory
        self._size, self._below = plan.sizes[number + 1], plan.sizes[number]

    def record(self) -> None:
        """Record the sumcheck, if there is one, and the values that the proof sends."""
        plan, recording = self._plan, self._recording
        plan.record_eq_table(recording, self._size, "weights", first=FIRST_POINT)
        if self._number + 1 < len(plan.layers):
            self._combine(self._size, plan.layers[self._number + 1])
        if self._sumcheck is not None:
            self._begin(self._sumcheck)
            self._rounds(self._sumcheck)
        else:
            self._fold_at_point()
        self._end()
        if self._number == 0:
            plan.record_eq_table(recording, self._below, "weights", first=FIRST_POINT)
            self._combine(self._below, self._layer)

    def _combine(self, log_size: int, above: DataParallelLayer) -> None:
        """Record the claim about a layer of 2**log_size wires, from the values sent for it.

        above: the layer whose reduction has sent the values.
        """
        plan, memory = self._plan, self._memory
        plan.step(
            self._recording, combine_values, plan.layout.sizes, log_size, above.sent_count,
            above.sent_wires, memory["ends"], memory["weights"], plan.states, field=plan.field,
        )  # fmt: skip

    def _begin(self, sumcheck: SumcheckPlan) -> None:
        plan, layer, memory = self._plan, self._layer, self._memory
        recording, terms = self._recording, self._layer.terms
        if layer.constants.form.has_public:
            plan.record_instance_table(recording)
            plan.collapse_public(recording)
        plan.begin_sumcheck(
            recording, layer.constants, self._size, rounds=plan.log_instances, halvings=0
        )
        if terms.count:
            plan.launch(
                recording, term_weights, plan.batch * terms.count, terms.count, self._size,
                plan.gate_table(terms.starts, terms.gates), memory["weights"], memory["terms"],
                form=terms.form,
            )  # fmt: skip
        plan.launch(
            recording, set_points, plan.batch * plan.log_instances, plan.layout.sizes, 0,
            plan.states, memory["points"], field=plan.field,
        )  # fmt: skip
        sumcheck.record_point(recording, memory["points"], memory["equality"])

    def _rounds(self, sumcheck: SumcheckPlan) -> None:
        """Record each pass: the values of one or two rounds, their end, and a fold."""
        plan, memory, terms = self._plan, self._memory, self._layer.terms
        columns, source, rows, stride = self._values()
        operands = terms.operands
        for first_round, depth in plan.passes(self._number):
            variables = plan.log_instances - first_round - depth
            chunks = plan.chunks(variables, terms.count)
            form = TermForm(
                plan.field, terms.kinds, self._steps.rounds.degree, source, depth,
                plan.is_narrow(variables),
            )  # fmt: skip
            plan.over_columns(
                self._recording, evaluate_columns, variables, chunks,
                sumcheck.sizes, chunks, first_round, stride,
                rows, TermTable(terms.count, terms.bounds, operands, memory["terms"]), columns,
                memory["equality"], memory["partial"], form=form,
            )  # fmt: skip
            groups = plan.groups(variables, chunks)
            compiled = plan.device.compile(
                finish_rounds, lanes=sumcheck.finish_lanes, shape=sumcheck.shape, depth=depth,
                at_once=parts_at_once(groups, sumcheck.finish_lanes),
            )  # fmt: skip
            self._recording.launch(
                compiled, plan.batch, plan.batch, plan.log_instances, first_round, groups,
                memory["partial"],
                SumcheckMemory(memory["equality"], memory["progress"], memory["proof"]),
            )  # fmt: skip
            columns = self._fold(first_round, depth, columns, source, rows, stride, "round")
            source, rows, operands = "planes", self._layer.sent_count, terms.folded
            stride = plan.stride(variables)

    def _fold_at_point(self) -> None:
        """Record folds of the values below a linear layer at the point of the instances."""
        plan = self._plan
        columns, source, rows, stride = self._values()
        for first_round, depth in plan.passes(self._number) or [(0, 0)]:
            columns = self._fold(first_round, depth, columns, source, rows, stride, "point")
            source, rows = "planes", self._layer.sent_count
            stride = plan.stride(plan.log_instances - first_round - depth)

    def _values(self) -> tuple[Buffer, ColumnForm, int, int]:
        """Return the columns below: buffer, representation, columns per proof and stride."""
        plan, number = self._plan, self._number
        return plan.values[number], plan.source(number), 1 << self._below, plan.strides[number]

    def _fold(
        self, first_round: int, depth: int, columns: Buffer, source: ColumnForm, rows: int,
        stride: int, challenge: Challenge,
    ) -> Buffer:  # fmt: skip
        """Record a fold of columns by `depth` challenges; return the buffer of the result."""
        plan, layer = self._plan, self._layer
        variables = plan.log_instances - first_round - depth
        # Two buffers alternate; the last fold has its own.
        is_in_folded = columns is self._memory["folded"]
        name = "ends" if variables == 0 else "folded again" if is_in_folded else "folded"
        target, chunks = self._memory[name], plan.chunks(variables, layer.sent_count)
        plan.over_columns(
            self._recording, fold_columns, variables, chunks, plan.layout.sizes, variables, chunks,
            first_round, FoldExtents(layer.sent_count, rows, stride, plan.stride(variables)),
            layer.sent_wires, columns,
            self._memory["progress"] if challenge == "round" else plan.states, target,
            form=FoldForm(plan.field, source, challenge, depth, plan.is_narrow(variables)),
        )  # fmt: skip
        return target

    def _end(self) -> None:
        plan, memory = self._plan, self._memory
        rounds, values = self._steps.rounds, self._steps.values
        messages = messages_of(values.count)
        plan.step(
            self._recording, digest_values, values.count, messages * DIGESTS_EACH,
            plan.message_range(values.first), memory["ends"], memory["digests"], plan.sent,
            groups=plan.batch * messages * DIGESTS_EACH, field=plan.field,
            hash=plan.hash,
        )  # fmt: skip
        plan.step(
            self._recording, end_layer, plan.layout.sizes, rounds.variables, rounds.degree,
            plan.message_range(rounds.first), messages, self._challenges.count, memory["digests"],
            plan.step_memory(), field=plan.field, hash=plan.hash,
        )  # fmt: skip
