"""Launches of a batch of two-phase proofs.

The values are computed from the inputs to the outputs, the sumchecks from the outputs back.
"""

from __future__ import annotations

from quod.device.memory.buffer import Buffer
from quod.device.runtime.stream import RecordingStream
from quod.gkr.protocol import Layer, Rounds, Sumcheck
from quod.gkr.prover.gates import LayerSizes
from quod.gkr.prover.plan import BatchPlan
from quod.gkr.prover.state import FIRST_POINT
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

# log2 of a table's entries in the final rounds on a CPU. One thread runs a whole workgroup there,
# so the final rounds begin with fewer entries than on a GPU.
_CPU_LOG_CAPACITY = 8


class TwoPhasePlan(BatchPlan):
    """The plan of two-phase proofs: a layer has one or two sumchecks.

    The first is over the wires and, unless the layer is linear, the instances. Layers with products
    have the second, over the wires alone.
    """

    reduction = Reduction.TWO_PHASE

    def __init__(
        self,
        gates: TwoPhaseGates,
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
        self._sumchecks: dict[tuple[Shape, int], SumcheckPlan] = {}
        self._allocate_tables()

    # --- sizes

    def _value_count(self, log_size: int) -> int:
        """Return the number of values of 2**log_size wires, in all proofs and instances."""
        return self.batch << (log_size + self.log_instances)

    # --- sumchecks

    def _plan(self, shape: Shape, log2_size: int) -> SumcheckPlan:
        key = (shape, log2_size)
        if key not in self._sumchecks:
            capacity = _CPU_LOG_CAPACITY if self.device.host_memory else None
            self._sumchecks[key] = SumcheckPlan(
                self.device, shape, log2_size, batch=self.batch, log_capacity=capacity
            )
        return self._sumchecks[key]

    def plans(self, number: int) -> list[SumcheckPlan]:
        """Return the plans of a layer's sumchecks.

        The first is over the gates' first inputs. Layers with products have another one, over the
        second inputs of the products.
        """
        exponents = exponents_of(self.circuit.kinds[number])
        # Table 0 has the values below, table 1 the gates that are linear or products, and table
        # 2 + i the powers of exponent i.
        terms: list[tuple[int, tuple[int, ...]]] = [(1, (0, 1))]
        terms += [
            (1, (*[0] * exponent, 2 + exponent_index))
            for exponent_index, exponent in enumerate(exponents)
        ]
        polynomials = SumOfProducts(tuple(terms)), SumOfProducts.product(2)
        sumchecks = self.protocol.layer(number).sumchecks
        # zip stops early: a layer without products has no second sumcheck.
        return [
            self._sumcheck_plan(number, sumcheck.rounds, polynomial)
            for sumcheck, polynomial in zip(sumchecks, polynomials, strict=False)
        ]

    def _sumcheck_plan(
        self, number: int, rounds: Rounds, polynomial: SumOfProducts
    ) -> SumcheckPlan:
        """Return the plan of a sumcheck of a layer; table 0 has the values of the layer below."""
        assert polynomial.degree == rounds.degree
        in_base = self.gates.values_are_base[number] and not self.is_collapsed(rounds)
        shape = Shape(
            self.field, polynomial, in_base=int(in_base), has_point=rounds.instances > 0,
            hash=self.hash,
        )  # fmt: skip
        return self._plan(shape, rounds.variables)

    def is_collapsed(self, rounds: Rounds) -> bool:
        """True if a sumcheck is over wires alone: its instance variables are bound already."""
        return self.log_instances > 0 and rounds.instances == 0

    # --- memory

    def _allocate_tables(self) -> None:
        plans = [p for number in range(len(self.circuit.layers)) for p in self.plans(number)]
        table_elements = max(
            (plan.shape.tables - plan.shape.in_base) * self.batch << plan.log2_size
            for plan in plans
        )
        element_bytes = self.element_bytes
        sizes = {
            "at_x": self.batch * element_bytes << max(self.sizes),
            "tables": table_elements * element_bytes,
            "points": max(self.batch * plan.log2_size for plan in plans) * element_bytes,
            **{
                name: max(getattr(plan, f"{name}_bytes") for plan in plans)
                for name in ("equality", "progress", "proof", "folded", "partial")
            },
        }
        # Each wire has an entry per instance, in the inputs and in every layer.
        self._allocate(sizes, [1 << self.log_instances] * len(self.sizes))

    # --- launches

    def _record_layer(self, recording: RecordingStream, layer: Layer) -> None:
        _LayerRecorder(self, recording, layer).record()

    def _record_values(self, recording: RecordingStream, number: int) -> None:
        gates = self.gates.layers[number].by_output
        log_size, log_below = self.sizes[number + 1], self.sizes[number]
        self.launch(
            recording, layer_values, self._value_count(log_size),
            LayerSizes(log_size, log_below, self.log_instances),
            self.gate_table(gates.starts, gates.gates), self.values[number],
            self.values[number + 1], form=gates.form,
        )  # fmt: skip


class _LayerRecorder:
    """The recording of the sumchecks of one layer."""

    def __init__(self, plan: TwoPhasePlan, recording: RecordingStream, steps: Layer) -> None:
        self._plan, self._recording, self._protocol_layer = plan, recording, steps
        self._number = number = steps.number
        self._memory, self._log_below = plan.memory, plan.sizes[number]
        self._gates: TwoPhaseLayer = plan.gates.layers[number]
        self._is_top = number == len(plan.circuit.layers) - 1

    def record(self) -> None:
        """Record the first sumcheck, and the second one if the layer has products."""
        self._record_weights()
        plans = self._plan.plans(self._number)
        first, *second = zip(plans, self._protocol_layer.sumchecks, strict=True)
        self._record_first_sumcheck(*first)
        for plan, steps in second:
            self._record_second_sumcheck(plan, steps)

    @property
    def _values_below(self) -> Buffer:
        return self._plan.values[self._number]

    def _record_weights(self) -> None:
        """Record the weights of the layer's values in the combined claim: a sum of eq tables."""
        plan = self._plan
        # Each sumcheck of the layer above leaves a claim.
        claims = 1 if self._is_top else len(plan.protocol.layer(self._number + 1).sumchecks)
        zeros = plan.circuit.zeros if self._is_top else None
        log_size = plan.sizes[self._number + 1]
        plan.record_eq_table(
            self._recording, log_size, "weights", first=FIRST_POINT, claims=claims, zeros=zeros
        )

    def _record_first_sumcheck(self, sumcheck: SumcheckPlan, step: Sumcheck) -> None:
        plan, layer, memory = self._plan, self._gates, self._memory
        recording, constants = self._recording, layer.constants
        is_collapsed = plan.is_collapsed(step.rounds)
        if is_collapsed or constants.form.has_public:
            plan.record_instance_table(recording)
        if constants.form.has_public:
            plan.collapse_public(recording)
        self._record_values_table(sumcheck, is_collapsed=is_collapsed)
        log_instances = 0 if is_collapsed else plan.log_instances
        entries = plan.batch << (self._log_below + log_instances)
        log_size = plan.sizes[self._number + 1]
        sizes = LayerSizes(log_size, self._log_below, log_instances)
        for table, sorted_gates in enumerate((layer.by_first, *layer.powers.values()), start=1):
            plan.launch(
                recording, first_phase, entries, (table - sumcheck.shape.in_base) * entries, sizes,
                plan.gate_table(sorted_gates.starts, sorted_gates.gates), self._values_below,
                memory["weights"],
                memory["tables"], form=sorted_gates.form,
            )  # fmt: skip
        if sumcheck.shape.has_point:
            plan.launch(
                recording, set_points, plan.batch * sumcheck.log2_size, plan.layout.sizes,
                self._log_below, plan.states, memory["points"], field=plan.field,
            )  # fmt: skip
        plan.begin_sumcheck(
            recording, constants, log_size, rounds=sumcheck.log2_size,
            halvings=self._log_below if sumcheck.shape.has_point else 0,
        )  # fmt: skip
        self._record_rounds(sumcheck)
        plan.step(
            recording, end_first_sumcheck, plan.layout.sizes, step.rounds.variables,
            step.rounds.wires, step.rounds.degree, plan.message_range(step.rounds.first),
            plan.step_memory(), field=plan.field, value_count=step.values.count, hash=plan.hash,
        )  # fmt: skip

    def _record_values_table(self, sumcheck: SumcheckPlan, *, is_collapsed: bool) -> None:
        """Record the copy of the values below to table 0, unless the sumcheck reads them in place.

        With is_collapsed the table has their values at the point of the instances.
        """
        is_base = self._plan.gates.values_are_base[self._number]
        if is_collapsed:
            self._plan.collapse(
                self._recording, self._values_below, "tables", 1 << self._log_below, is_base=is_base
            )
        elif not sumcheck.shape.in_base:
            target = self._memory["tables"].slice(0, self._values_below.nbytes)
            self._recording.copy(self._values_below, target)

    def _record_second_sumcheck(self, sumcheck: SumcheckPlan, step: Sumcheck) -> None:
        """Record the sumcheck over the second inputs of products.

        Its claim is not among the values of the first sumcheck, so a sum over the hypercube gives
        it first.
        """
        plan, layer, memory, recording = self._plan, self._gates, self._memory, self._recording
        assert layer.products is not None
        is_collapsed = plan.is_collapsed(step.rounds)
        if is_collapsed:
            plan.record_instance_table(recording)
        self._record_values_table(sumcheck, is_collapsed=is_collapsed)
        plan.record_eq_table(recording, self._log_below, "at_x", first=FIRST_POINT)
        entries, products = plan.batch << self._log_below, layer.products
        plan.launch(
            recording, second_phase, entries, (1 - sumcheck.shape.in_base) * entries,
            plan.sizes[self._number + 1], self._log_below,
            plan.gate_table(products.starts, products.gates), memory["at_x"], memory["weights"],
            memory["tables"], form=products.form,
        )  # fmt: skip
        sumcheck.record_sum(
            recording, self._sumcheck_inputs(sumcheck), memory["equality"], memory["partial"]
        )
        plan.step(
            recording, begin_second_sumcheck, plan.layout.sizes, sumcheck.log2_size,
            sumcheck.sum_groups,
            memory["partial"], plan.states, memory["progress"], field=plan.field,
            at_once=parts_at_once(sumcheck.sum_groups, plan.step_lanes),
        )  # fmt: skip
        self._record_rounds(sumcheck)
        plan.step(
            recording, end_second_sumcheck, plan.layout.sizes, step.rounds.variables,
            plan.message_range(step.rounds.first), plan.step_memory(), field=plan.field,
            is_last=self._protocol_layer.challenges.count == 0, hash=plan.hash,
        )  # fmt: skip

    def _sumcheck_inputs(self, sumcheck: SumcheckPlan) -> Inputs:
        return Inputs(
            self._values_below if sumcheck.shape.in_base else None, self._memory["tables"]
        )

    def _record_rounds(self, sumcheck: SumcheckPlan) -> None:
        memory = self._memory
        if sumcheck.shape.has_point:
            sumcheck.record_point(self._recording, memory["points"], memory["equality"])
        sumcheck.record(
            self._recording, self._sumcheck_inputs(sumcheck), equality=memory["equality"],
            progress=memory["progress"], proof=memory["proof"], folded=memory["folded"],
            partial=memory["partial"],
        )  # fmt: skip
