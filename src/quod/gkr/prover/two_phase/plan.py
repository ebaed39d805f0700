"""Launches of a batch of two-phase proofs: values upwards, sumchecks downwards."""

from __future__ import annotations

from quod.device.memory.buffer import Buffer
from quod.device.runtime.stream import RecordingStream
from quod.gkr.protocol import Layer, Rounds, Sumcheck
from quod.gkr.prover.gates import LayerSizes
from quod.gkr.prover.plan import BatchPlan
from quod.gkr.prover.state import FIRST
from quod.gkr.prover.steps import set_points
from quod.gkr.prover.two_phase.gate_tables import TwoPhaseGates, TwoPhaseLayer
from quod.gkr.prover.two_phase.kernels import first_phase, layer_values, second_phase
from quod.gkr.prover.two_phase.steps import (
    begin_second_sumcheck,
    end_first_sumcheck,
    end_second_sumcheck,
)
from quod.gkr.reduction import Reduction, exponents_of
from quod.hash.table import Hash
from quod.sumcheck.finish import parts_at_once
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.shape import Shape

# One workgroup is one thread's work on a processor, so that it has less than on a GPU.
_LOG_CAPACITY_OF_PROCESSOR = 8


class TwoPhasePlan(BatchPlan):
    """Two sumchecks a layer: over wires and instances, then over wires alone."""

    reduction = Reduction.PLACES

    def __init__(
        self, gates: TwoPhaseGates, *, chain: int, hash: Hash, log_instances: int, batch: int
    ) -> None:
        super().__init__(
            gates, chain=chain, hash=hash, log_instances=log_instances, batch=batch
        )  # fmt: skip
        self._sumchecks: dict[tuple[Shape, int], SumcheckPlan] = {}
        self._allocate_tables()

    # --- sizes

    def _entries(self, log_size: int) -> int:
        """The number of values of a layer, in all proofs and instances."""
        return self.batch << (log_size + self.log_instances)

    # --- sumchecks

    def _plan(self, shape: Shape, log2_size: int) -> SumcheckPlan:
        key = (shape, log2_size)
        if key not in self._sumchecks:
            capacity = _LOG_CAPACITY_OF_PROCESSOR if self.device.host_memory else None
            self._sumchecks[key] = SumcheckPlan(
                self.device, shape, log2_size, batch=self.batch, log_capacity=capacity
            )
        return self._sumchecks[key]

    def plans(self, number: int) -> list[SumcheckPlan]:
        """The sumchecks of a layer: over the first inputs of gates, then the second of products."""
        exponents = exponents_of(self.circuit.kinds[number])
        terms: list[tuple[int, tuple[int, ...]]] = [(1, (0, 1))]
        terms += [(1, (*[0] * e, 2 + at)) for at, e in enumerate(exponents)]
        polynomials = SumOfProducts(tuple(terms)), SumOfProducts.product(2)
        sumchecks = self.protocol.layer(number).sumchecks
        return [
            self._plan_of(number, sumcheck.rounds, polynomial)
            for sumcheck, polynomial in zip(sumchecks, polynomials, strict=False)
        ]

    def _plan_of(self, number: int, rounds: Rounds, polynomial: SumOfProducts) -> SumcheckPlan:
        """The plan of a sumcheck of a layer; its first table has the values of the layer below."""
        assert polynomial.degree == rounds.degree
        in_base = self.gates.values_are_base[number] and not self.is_collapsed(rounds)
        shape = Shape(self.field, polynomial, int(in_base), rounds.instances > 0, hash=self.hash)
        return self._plan(shape, rounds.variables)

    def is_collapsed(self, rounds: Rounds) -> bool:
        """True if a sumcheck is over wires alone, as instances are fixed at a point."""
        return self.log_instances > 0 and rounds.instances == 0

    # --- memory

    def _allocate_tables(self) -> None:
        plans = [p for number in range(len(self.circuit.layers)) for p in self.plans(number)]
        tables = max(
            (plan.shape.tables - plan.shape.in_base) * self.batch << plan.log2_size
            for plan in plans
        )
        element = self.element_bytes
        sizes = {
            "at_x": self.batch * element << max(self.sizes),
            "tables": tables * element,
            "points": max(self.batch * plan.log2_size for plan in plans) * element,
            **{
                name: max(getattr(plan, f"{name}_bytes") for plan in plans)
                for name in ("equality", "progress", "proof", "folded", "partial")
            },
        }
        self._allocate(sizes, [1 << self.log_instances] * len(self.sizes))

    # --- launches

    def _record_layer(self, recording: RecordingStream, layer: Layer) -> None:
        _LayerRecorder(self, recording, layer).record()

    def _record_values(self, recording: RecordingStream, number: int) -> None:
        runs = self.gates.layers[number].by_output
        size, below = self.sizes[number + 1], self.sizes[number]
        self.launch(
            recording, layer_values, self._entries(size),
            LayerSizes(size, below, self.log_instances), self.gate_table(runs.starts, runs.gates),
            self.values[number], self.values[number + 1], form=runs.form,
        )  # fmt: skip


class _LayerRecorder:
    """Record the sumchecks of one layer."""

    def __init__(self, plan: TwoPhasePlan, recording: RecordingStream, steps: Layer) -> None:
        self._plan, self._recording, self._steps = plan, recording, steps
        self._number = number = steps.number
        self._memory, self._below = plan.memory, plan.sizes[number]
        self._layer: TwoPhaseLayer = plan.gates.layers[number]
        self._is_top = number == len(plan.circuit.layers) - 1

    def record(self) -> None:
        """The first sumcheck, and the second one of a layer with products."""
        self._weights()
        plans = self._plan.plans(self._number)
        first, *second = zip(plans, self._steps.sumchecks, strict=True)
        self._first_sumcheck(*first)
        for plan, steps in second:
            self._second_sumcheck(plan, steps)

    @property
    def _values(self) -> Buffer:
        return self._plan.values[self._number]

    def _weights(self) -> None:
        """The weight of each value of the layer in the claim."""
        plan = self._plan
        # Each sumcheck of the layer above leaves a claim.
        claims = 1 if self._is_top else len(plan.protocol.layer(self._number + 1).sumchecks)
        zeros = plan.circuit.zeros if self._is_top else None
        size = plan.sizes[self._number + 1]
        plan.corner_weights(
            self._recording, size, "weights", first=FIRST, claims=claims, zeros=zeros
        )

    def _first_sumcheck(self, sumcheck: SumcheckPlan, steps: Sumcheck) -> None:
        plan, layer, memory = self._plan, self._layer, self._memory
        recording, constants = self._recording, layer.constants
        is_collapsed = plan.is_collapsed(steps.rounds)
        if is_collapsed or constants.form.has_public:
            plan.shares(recording)
        if constants.form.has_public:
            plan.collapse_public(recording)
        self._set_values(sumcheck, is_collapsed=is_collapsed)
        log_instances = 0 if is_collapsed else plan.log_instances
        entries = plan.batch << (self._below + log_instances)
        size = plan.sizes[self._number + 1]
        sizes = LayerSizes(size, self._below, log_instances)
        for table, runs in enumerate((layer.by_first, *layer.powers.values()), start=1):
            plan.launch(
                recording, first_phase, entries, (table - sumcheck.shape.in_base) * entries, sizes,
                plan.gate_table(runs.starts, runs.gates), self._values, memory["weights"],
                memory["tables"], form=runs.form,
            )  # fmt: skip
        if sumcheck.shape.has_point:
            plan.launch(
                recording, set_points, plan.batch * sumcheck.log2_size, plan.layout.sizes,
                self._below, plan.states, memory["points"], field=plan.field,
            )  # fmt: skip
        plan.begin_sumcheck(
            recording, constants, size, rounds=sumcheck.log2_size,
            halvings=self._below if sumcheck.shape.has_point else 0,
        )  # fmt: skip
        self._rounds(sumcheck)
        plan.step(
            recording, end_first_sumcheck, plan.layout.sizes, steps.rounds.variables,
            steps.rounds.wires, steps.rounds.degree, plan.message_range(steps.rounds.first),
            plan.step_memory(), field=plan.field, values=steps.values.count, hash=plan.hash,
        )  # fmt: skip

    def _set_values(self, sumcheck: SumcheckPlan, *, is_collapsed: bool) -> None:
        """Table 0 of a sumcheck, unless it reads the values where they are."""
        is_base = self._plan.gates.values_are_base[self._number]
        if is_collapsed:
            self._plan.collapse(
                self._recording, self._values, "tables", 1 << self._below, is_base=is_base
            )
        elif not sumcheck.shape.in_base:
            target = self._memory["tables"].slice(0, self._values.nbytes)
            self._recording.copy(self._values, target)

    def _second_sumcheck(self, sumcheck: SumcheckPlan, steps: Sumcheck) -> None:
        plan, layer, memory, recording = self._plan, self._layer, self._memory, self._recording
        assert layer.products is not None
        is_collapsed = plan.is_collapsed(steps.rounds)
        if is_collapsed:
            plan.shares(recording)
        self._set_values(sumcheck, is_collapsed=is_collapsed)
        plan.corner_weights(recording, self._below, "at_x", first=FIRST)
        entries, runs = plan.batch << self._below, layer.products
        plan.launch(
            recording, second_phase, entries, (1 - sumcheck.shape.in_base) * entries,
            plan.sizes[self._number + 1], self._below, plan.gate_table(runs.starts, runs.gates),
            memory["at_x"], memory["weights"], memory["tables"], form=runs.form,
        )  # fmt: skip
        sumcheck.record_sum(
            recording, self._inputs(sumcheck), memory["equality"], memory["partial"]
        )
        plan.step(
            recording, begin_second_sumcheck, plan.layout.sizes, sumcheck.log2_size,
            sumcheck.sum_groups,
            memory["partial"], plan.states, memory["progress"], field=plan.field,
            at_once=parts_at_once(sumcheck.sum_groups, plan.step_lanes),
        )  # fmt: skip
        self._rounds(sumcheck)
        plan.step(
            recording, end_second_sumcheck, plan.layout.sizes, steps.rounds.variables,
            plan.message_range(steps.rounds.first), plan.step_memory(), field=plan.field,
            is_last=self._steps.challenges.count == 0, hash=plan.hash,
        )  # fmt: skip

    def _inputs(self, sumcheck: SumcheckPlan) -> Inputs:
        return Inputs(self._values if sumcheck.shape.in_base else None, self._memory["tables"])

    def _rounds(self, sumcheck: SumcheckPlan) -> None:
        memory = self._memory
        if sumcheck.shape.has_point:
            sumcheck.record_point(self._recording, memory["points"], memory["equality"])
        sumcheck.record(
            self._recording, self._inputs(sumcheck), equality=memory["equality"],
            progress=memory["progress"], proof=memory["proof"], folded=memory["folded"],
            partial=memory["partial"],
        )  # fmt: skip
