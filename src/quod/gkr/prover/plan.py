"""A batch of proofs of one circuit as launches: values upwards, sumchecks downwards."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from quod.circuit.layered import LayeredCircuit
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.recording import Recording
from quod.device.stream import RecordingStream
from quod.device.written import UNWRITTEN
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.gkr.prover.kernels import (
    collapse_instances,
    corner_weights,
    first_phase,
    layer_values,
    second_phase,
)
from quod.gkr.prover.resident import ResidentCircuit, ResidentLayer
from quod.gkr.prover.standing import FACTOR, FIRST, Standing
from quod.gkr.prover.steps import (
    begin_first_sumcheck,
    begin_proofs,
    begin_second_sumcheck,
    end_first_sumcheck,
    end_second_sumcheck,
    set_points,
)
from quod.gkr.security import exponents_of, is_linear
from quod.sumcheck.finish import parts_at_once
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.shape import Shape
from quod.transcript.hashes import Hash

_STEP_LANES = 128
_LOG_WEIGHTS_EACH = 3
# Sums over fewer instances are one instance's work on a GPU.
_LOG_LONG = 5
# One workgroup is one thread's work on a processor, so that it has less than on a GPU.
_LOG_CAPACITY_OF_PROCESSOR = 8
# Kernels count words in 32 bits.
_MOST_BYTES = 4 << 32


class ProofPlan:
    """`batch` proofs side by side, each of 2**log_instances instances of a circuit.

    The host sets `values[0]`, the inputs, `coefficients`, public inputs and all, and `standing`,
    the states of transcripts, and finds `sent`, the proofs, and `standing` after `recording`.
    """

    def __init__(
        self, resident: ResidentCircuit, *, chain: int, hash: Hash, log_instances: int,
        batch: int,
    ) -> None:  # fmt: skip
        self._resident, self._chain, self.hash = resident, chain, hash
        self.device: AnyDevice = resident.device
        self.circuit: LayeredCircuit = resident.circuit
        self.field: FieldSpec = resident.field
        self.log_instances, self.batch = log_instances, batch
        circuit = self.circuit
        self._sizes = [circuit.log_inputs, *(layer.log_size for layer in circuit.layers)]
        self.layout = Standing(batch, max(self._sizes), log_instances)
        self._sumchecks: dict[tuple[Shape, int], SumcheckPlan] = {}
        self._allocate()

    # --- sizes

    @property
    def _element_bytes(self) -> int:
        return 4 * self.field.words

    def _entries(self, log_size: int) -> int:
        """Of the values of a layer, in all proofs and instances."""
        return self.batch << (log_size + self.log_instances)

    def _value_bytes(self, level: int) -> int:
        is_base = self._resident.values_are_base[level]
        return 4 * (self.field.modulus.words if is_base else self.field.words)

    @cached_property
    def _public_entries(self) -> int:
        return self.batch * self.circuit.public << self.log_instances

    @cached_property
    def sent_words(self) -> int:
        """32-bit words of a proof's messages."""
        return sum(
            (first.log2_size * first.shape.degree + (2 if second else 1)) * self.field.words
            + ((second.log2_size * 2 + 1) * self.field.words if second else 0)
            for first, second in map(self._plans, range(len(self.circuit.layers)))
        )

    # --- sumchecks

    def _plan(self, shape: Shape, log2_size: int) -> SumcheckPlan:
        key = (shape, log2_size)
        if key not in self._sumchecks:
            capacity = _LOG_CAPACITY_OF_PROCESSOR if self.device.host_memory else None
            self._sumchecks[key] = SumcheckPlan(
                self.device, shape, log2_size, batch=self.batch, log_capacity=capacity
            )
        return self._sumchecks[key]

    def _plans(self, number: int) -> tuple[SumcheckPlan, SumcheckPlan | None]:
        """Both sumchecks of a layer."""
        kinds, below = self.circuit.kinds[number], self.circuit.log_below(number)
        more, is_base = self.log_instances, self._resident.values_are_base[number]
        weighted = more > 0 and not is_linear(kinds)
        terms: list[tuple[int, tuple[int, ...]]] = [(1, (0, 1))]
        terms += [(1, (*[0] * e, 2 + at)) for at, e in enumerate(exponents_of(kinds))]
        is_collapsed = more > 0 and is_linear(kinds)
        shape = Shape(
            self.field, SumOfProducts(tuple(terms)), int(is_base and not is_collapsed), weighted,
            hash=self.hash,
        )  # fmt: skip
        first = self._plan(shape, below + more if weighted else below)
        if "multiply" not in kinds:
            return first, None
        shape = Shape(
            self.field, SumOfProducts.product(2), int(is_base and not more), False, hash=self.hash
        )
        return first, self._plan(shape, below)

    # --- memory

    def _allocate(self) -> None:
        device, circuit = self.device, self.circuit
        plans = [p for number in range(len(circuit.layers)) for p in self._plans(number) if p]
        element, largest = self._element_bytes, max(self._sizes)
        tables = max(
            (plan.shape.tables - plan.shape.in_base) * self.batch << plan.log2_size
            for plan in plans
        )
        sizes = {
            "weights": self.batch * element << largest,
            "at_x": self.batch * element << largest,
            "shares": self.batch * element << self.log_instances,
            "collapsed": max(1, self.batch * circuit.public) * element,
            "challenges": max(1, self.batch * circuit.randoms) * element,
            "tables": tables * element,
            "points": max(self.batch * plan.log2_size for plan in plans) * element,
            **{
                name: max(getattr(plan, f"{name}_bytes") for plan in plans)
                for name in ("equality", "progress", "proof", "folded", "partial")
            },
            "sent": 4 * self.batch * self.sent_words,
            "standing": 4 * self.layout.words(self.field),
            "coefficients": self._resident.numbers.nbytes
            + self._public_entries * self.circuit.field.bytes,
        }
        levels = [
            self._entries(size) * self._value_bytes(level) for level, size in enumerate(self._sizes)
        ]
        if max(*sizes.values(), *levels) > _MOST_BYTES:
            raise InputError(
                f"{self.batch << self.log_instances} instances of this circuit have layers of "
                f"2^{max(self._sizes)} values each, which is too many at once; prove fewer"
            )
        self.peak_bytes = sum(sizes.values()) + sum(levels)
        """Bytes of device memory beside the circuit."""
        device.check_budget("these proofs", self.peak_bytes)
        self._memory = {name: device.allocate(size) for name, size in sizes.items()}
        self.values = [device.allocate(size) for size in levels]
        """The inputs, and the values of all layers."""
        self.sent = self._memory["sent"]
        """The messages of each proof, `sent_words` after those of the one before."""
        self.standing = self._memory["standing"]
        """As `layout` says."""
        self.coefficients = self._memory["coefficients"]
        """The circuit's coefficients, then the public inputs of each proof, of each input those of
        all instances."""
        numbers = self._resident.numbers
        device.upload(numbers, into=self.coefficients.slice(0, numbers.nbytes))

    @property
    def first_public(self) -> int:
        """Coefficients before the public inputs."""
        return len(self._resident.numbers)

    # --- launches

    @cached_property
    def recording(self) -> Recording:
        """All launches of the proofs."""
        recording = self.device.stream("gkr").record()
        memory = self._memory
        recording.fill(memory["sent"], UNWRITTEN)
        self._step(
            recording, begin_proofs, *self.layout.sizes, self._chain, self.circuit.randoms,
            self.circuit.log_outputs, memory["standing"], memory["challenges"], field=self.field,
            hash=self.hash,
        )  # fmt: skip
        for number in range(len(self.circuit.layers)):
            with recording.part(f"layer {number}"):
                self._record_values(recording, number)
        word = 0
        for number in reversed(range(len(self.circuit.layers))):
            with recording.part(f"layer {number}"):
                word = _Layer(self, recording, number, word).record()
        return recording.finish().recording

    def _launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        compiled = self.device.compile(definition, **static)
        recording.launch(compiled, -(-count // compiled.lanes), count, *arguments)

    def _step(
        self, recording: RecordingStream, definition: Any, *arguments: Any, **static: Any
    ) -> None:
        """A workgroup a proof."""
        compiled = self.device.compile(definition, lanes=self.step_lanes, **static)
        recording.launch(compiled, self.batch, *arguments)

    @property
    def step_lanes(self) -> int:
        """Instances of the workgroup of a proof between two sumchecks."""
        return 1 if self.device.host_memory else _STEP_LANES

    def _record_values(self, recording: RecordingStream, number: int) -> None:
        runs = self._resident.layers[number].by_output
        size, below = self._sizes[number + 1], self._sizes[number]
        self._launch(
            recording, layer_values, self._entries(size), size, below, self.log_instances,
            *self._coefficient_sizes, runs.starts, runs.gates, self.coefficients,
            self._memory["challenges"], self.values[number], self.values[number + 1],
            form=runs.form,
        )  # fmt: skip

    @property
    def _coefficient_sizes(self) -> tuple[int, int, int, int]:
        circuit = self.circuit
        return self.first_public, circuit.public, circuit.randoms, self.log_instances


class _Layer:
    """Records the sumchecks of one layer."""

    def __init__(
        self, plan: ProofPlan, recording: RecordingStream, number: int, first_word: int
    ) -> None:
        self._plan, self._recording = plan, recording
        self._number, self._word = number, first_word
        self._memory, self._below = plan._memory, plan._sizes[number]
        self._layer: ResidentLayer = plan._resident.layers[number]
        self._first, self._second = plan._plans(number)
        self._is_top = number == len(plan.circuit.layers) - 1

    def record(self) -> int:
        """The first word behind what the layer sends."""
        self._weights()
        self._first_sumcheck()
        if self._second is not None:
            self._second_sumcheck(self._second)
        return self._word

    @property
    def _values(self) -> Buffer:
        return self._plan.values[self._number]

    def _corner_weights(
        self, log_size: int, target: str, *, first: int, claims: int = 1, zeros: int | None = None
    ) -> None:
        plan, layout = self._plan, self._plan.layout
        count, log_each = plan.batch << log_size, min(_LOG_WEIGHTS_EACH, log_size)
        compiled = plan.device.compile(
            corner_weights, field=plan.field, claims=claims, log_each=log_each
        )
        self._recording.launch(
            compiled, -(-(count >> log_each) // compiled.lanes), count, log_size,
            1 << log_size if zeros is None else zeros, first, layout.second, layout.stride,
            FACTOR, plan.standing, self._memory[target],
        )  # fmt: skip

    def _weights(self) -> None:
        """The weight of each value of the layer in the claim."""
        plan = self._plan
        claims = 1
        if not self._is_top and plan._plans(self._number + 1)[1] is not None:
            claims = 2
        zeros = plan.circuit.zeros if self._is_top else None
        size = plan._sizes[self._number + 1]
        self._corner_weights(size, "weights", first=FIRST, claims=claims, zeros=zeros)

    def _collapse(
        self, values: Buffer, target: str, places: int, *, first: int = 0, is_base: bool
    ) -> None:
        """Values of so many places of each proof at the point of the instances."""
        plan = self._plan
        by_workgroup = not plan.device.host_memory and plan.log_instances >= _LOG_LONG
        compiled = plan.device.compile(
            collapse_instances, field=plan.field, is_base=is_base, by_workgroup=by_workgroup
        )
        count = plan.batch * places
        self._recording.launch(
            compiled, count if by_workgroup else -(-count // compiled.lanes), count, first, places,
            plan.log_instances, values, self._memory["shares"], self._memory[target],
        )  # fmt: skip

    def _shares(self) -> None:
        """eq of the point of the instances."""
        plan = self._plan
        self._corner_weights(plan.log_instances, "shares", first=plan.layout.across)

    def _first_sumcheck(self) -> None:
        plan, layer, own, memory = self._plan, self._layer, self._first, self._memory
        recording, constants = self._recording, layer.constant_form
        is_collapsed = plan.log_instances > 0 and own.log2_size == self._below
        if is_collapsed or constants.has_public:
            self._shares()
        if constants.has_public:
            self._collapse(
                plan.coefficients, "collapsed", plan.circuit.public, first=plan.first_public,
                is_base=True,
            )  # fmt: skip
        self._set_values(own, is_collapsed=is_collapsed)
        log_instances = 0 if is_collapsed else plan.log_instances
        entries = plan.batch << (self._below + log_instances)
        size = plan._sizes[self._number + 1]
        for table, runs in enumerate((layer.by_first, *layer.powers.values()), start=1):
            plan._launch(
                recording, first_phase, entries, (table - own.shape.in_base) * entries, size,
                self._below, log_instances, *plan._coefficient_sizes, runs.starts, runs.gates,
                plan.coefficients, memory["challenges"], self._values, memory["weights"],
                memory["tables"], form=runs.form,
            )  # fmt: skip
        if own.shape.has_point:
            plan._launch(
                recording, set_points, plan.batch * own.log2_size, *plan.layout.sizes,
                self._below, plan.standing, memory["points"], field=plan.field,
            )  # fmt: skip
        plan._step(
            recording, begin_first_sumcheck, *plan.layout.sizes, own.log2_size,
            self._below if own.shape.has_point else 0, layer.constant_count, size,
            plan.circuit.public, plan.circuit.randoms, layer.constants, plan.coefficients,
            memory["challenges"], memory["collapsed"], memory["weights"], plan.standing,
            memory["progress"], form=constants,
        )  # fmt: skip
        self._rounds(own)
        values = 1 if self._second is None else 2
        plan._step(
            recording, end_first_sumcheck, *plan.layout.sizes, own.log2_size, self._below,
            own.shape.degree, self._word, plan.sent_words, memory["progress"], memory["proof"],
            plan.standing, plan.sent, field=plan.field, values=values, hash=plan.hash,
        )  # fmt: skip
        self._word += (own.log2_size * own.shape.degree + values) * plan.field.words

    def _set_values(self, own: SumcheckPlan, *, is_collapsed: bool) -> None:
        """Table 0 of a sumcheck, unless it reads the values where they are."""
        is_base = self._plan._resident.values_are_base[self._number]
        if is_collapsed:
            self._collapse(self._values, "tables", 1 << self._below, is_base=is_base)
        elif not own.shape.in_base:
            target = self._memory["tables"].slice(0, self._values.nbytes)
            self._recording.copy(self._values, target)

    def _second_sumcheck(self, own: SumcheckPlan) -> None:
        plan, layer, memory, recording = self._plan, self._layer, self._memory, self._recording
        assert layer.products is not None
        is_collapsed = plan.log_instances > 0
        if is_collapsed:
            self._shares()
        self._set_values(own, is_collapsed=is_collapsed)
        self._corner_weights(self._below, "at_x", first=FIRST)
        entries, runs = plan.batch << self._below, layer.products
        plan._launch(
            recording, second_phase, entries, (1 - own.shape.in_base) * entries,
            plan._sizes[self._number + 1], self._below, *plan._coefficient_sizes, runs.starts,
            runs.gates, plan.coefficients, memory["challenges"], memory["at_x"],
            memory["weights"], memory["tables"], form=runs.form,
        )  # fmt: skip
        own.record_sum(recording, self._inputs(own), memory["equality"], memory["partial"])
        plan._step(
            recording, begin_second_sumcheck, *plan.layout.sizes, own.log2_size, own.sum_groups,
            memory["partial"], plan.standing, memory["progress"], field=plan.field,
            at_once=parts_at_once(own.sum_groups, plan.step_lanes),
        )  # fmt: skip
        self._rounds(own)
        plan._step(
            recording, end_second_sumcheck, *plan.layout.sizes, own.log2_size, self._word,
            plan.sent_words, memory["progress"], memory["proof"], plan.standing, plan.sent,
            field=plan.field, is_last=self._number == 0, hash=plan.hash,
        )  # fmt: skip
        self._word += (own.log2_size * 2 + 1) * plan.field.words

    def _inputs(self, own: SumcheckPlan) -> Inputs:
        return Inputs(self._values if own.shape.in_base else None, self._memory["tables"])

    def _rounds(self, own: SumcheckPlan) -> None:
        memory = self._memory
        if own.shape.has_point:
            own.record_point(self._recording, memory["points"], memory["equality"])
        own.record(
            self._recording, self._inputs(own), equality=memory["equality"],
            progress=memory["progress"], proof=memory["proof"], folded=memory["folded"],
            partial=memory["partial"],
        )  # fmt: skip
