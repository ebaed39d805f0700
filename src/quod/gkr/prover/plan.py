"""The launches of a batch of proofs of one circuit that both reductions share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.gkr.protocol import Layer, protocol_steps
from quod.gkr.prover.gate_tables import Constants, GateTables
from quod.gkr.prover.gates import ConstantGates, GateTable
from quod.gkr.prover.kernels import ClaimPoints, collapse_instances, corner_weights
from quod.gkr.prover.state import FACTOR, MessageRange, StateLayout, StepMemory
from quod.gkr.prover.steps import begin_first_sumcheck, begin_proofs
from quod.gkr.reduction import Reduction
from quod.hash.table import Hash
from quod.layered.circuit import LayeredCircuit

_STEP_GROUP_SIZE = 128
_LOG_WEIGHTS_PER_INSTANCE = 3
# For long elements multiplications cost more than registers: with two claims, 16 weights per
# instance take 2.75 multiplications per entry, 8 weights take 3.75.
_LOG_LONG_WEIGHTS_PER_INSTANCE = 4
# On a GPU one kernel instance computes a sum over less than 2**5 instances of the circuit.
_MIN_LOG_WORKGROUP_SUM = 5
# Kernels count words in 32 bits.
_MAX_BUFFER_BYTES = 4 << 32


class BatchPlan(ABC):
    """The memory and launches of a batch of proofs of 2**log_instances instances of a circuit each.

    The host writes the inputs to `values[0]`, the public inputs to `coefficients` and the
    transcript states to `states`. After `recording` has run, it reads the messages from `sent` and
    the claims about the inputs from `states`.
    """

    reduction: ClassVar[Reduction]

    def __init__(
        self, gates: GateTables[Any], *, delay_messages: int, hash: Hash, log_instances: int,
        batch: int,
    ) -> None:  # fmt: skip
        self.gates, self._delay_messages, self.hash = gates, delay_messages, hash
        self.device: AnyDevice = gates.device
        self.circuit: LayeredCircuit = gates.circuit
        self.field: FieldSpec = gates.field
        self.log_instances, self.batch = log_instances, batch
        circuit = self.circuit
        self.protocol = protocol_steps(circuit, self.reduction, log_instances)
        self.sizes = [circuit.log_inputs, *(layer.log_size for layer in circuit.layers)]
        """log2 of the number of wires of the inputs and of each layer."""
        self.layout = StateLayout(batch, max(self.sizes), log_instances)

    @property
    def sent_words(self) -> int:
        """The number of 32-bit words of a proof's messages."""
        return self.word_of(self.protocol.elements)

    def word_of(self, element: int) -> int:
        """Return the index of an element's first 32-bit word among a proof's messages."""
        return element * self.field.words

    @abstractmethod
    def _record_values(self, recording: RecordingStream, number: int) -> None:
        """Record the launches that compute a layer's values from the values below it."""

    @abstractmethod
    def _record_layer(self, recording: RecordingStream, layer: Layer) -> None:
        """Record the launches from the claims about a layer to the claims about the layer below."""

    # --- memory

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of the field of challenges."""
        return 4 * self.field.words

    @cached_property
    def _public_entries(self) -> int:
        return self.batch * self.circuit.public << self.log_instances

    def value_bytes(self, level: int) -> int:
        """Return the bytes of one value of a level: 0 is the inputs, 1 the first layer."""
        is_base = self.gates.values_are_base[level]
        return 4 * (self.field.modulus.words if is_base else self.field.words)

    def _allocate(self, reduction_sizes: dict[str, int], entries_per_wire: list[int]) -> None:
        """Allocate all memory.

        reduction_sizes: the bytes of each buffer that only this reduction has, by name.
        entries_per_wire: the number of entries per wire, for the inputs and each layer.
        Raises InputError if a buffer exceeds the limit of 32-bit word indices, and the device's
        error if its memory is too small.
        """
        device, circuit, element_bytes = self.device, self.circuit, self.element_bytes
        sizes = {
            "weights": self.batch * element_bytes << max(self.sizes),
            "shares": self.batch * element_bytes << self.log_instances,
            "collapsed": max(1, self.batch * circuit.public) * element_bytes,
            "challenges": max(1, self.batch * circuit.randoms) * element_bytes,
            "sent": 4 * self.batch * self.sent_words,
            "states": 4 * self.layout.words(self.field),
            "coefficients": self.gates.integer_coefficients.nbytes
            + self._public_entries * circuit.field.bytes,
            **reduction_sizes,
        }
        level_bytes = [
            (self.batch << size) * entries * self.value_bytes(level)
            for level, (size, entries) in enumerate(zip(self.sizes, entries_per_wire, strict=True))
        ]
        if max(*sizes.values(), *level_bytes) > _MAX_BUFFER_BYTES:
            raise InputError(
                f"{self.batch << self.log_instances} instances of this circuit have layers of "
                f"2^{max(self.sizes)} values each, which is too many; prove fewer at a time"
            )
        self.peak_bytes = sum(sizes.values()) + sum(level_bytes)
        """Bytes of device memory in addition to the circuit."""
        device.check_budget("these proofs", self.peak_bytes)
        self.memory = {name: device.allocate(size) for name, size in sizes.items()}
        """Buffers that layers share."""
        self.values = [device.allocate(size) for size in level_bytes]
        """The inputs, and the values of all layers."""
        self.sent = self.memory["sent"]
        """The messages of all proofs, `sent_words` words each."""
        self.states = self.memory["states"]
        """The prover states, in the layout of `layout`."""
        self.coefficients = self.memory["coefficients"]
        """The circuit's coefficients, then the public inputs by proof, input and instance."""
        coefficients = self.gates.integer_coefficients
        device.upload(coefficients, into=self.coefficients.slice(0, coefficients.nbytes))

    @property
    def first_public(self) -> int:
        """The index of the first public input in `coefficients`, in elements."""
        return len(self.gates.integer_coefficients)

    def gate_table(self, starts: Buffer, gates: Buffer) -> GateTable:
        """Return gates of a layer as a kernel argument."""
        circuit = self.circuit
        return GateTable(
            self.first_public, circuit.public, circuit.randoms, self.log_instances, starts, gates,
            self.coefficients, self.memory["challenges"],
        )  # fmt: skip

    def step_memory(self) -> StepMemory:
        """Return the buffers of a step that ends a sumcheck."""
        memory = self.memory
        return StepMemory(memory["progress"], memory["proof"], self.states, self.sent)

    def message_range(self, element: int) -> MessageRange:
        """Return the range of the message that begins with an element of a proof's messages."""
        return MessageRange(self.word_of(element), self.sent_words)

    # --- launches

    @cached_property
    def recording(self) -> Recording:
        """All launches of the batch, recorded on first use."""
        recording = self.device.stream("gkr").record()
        memory = self.memory
        recording.fill(memory["sent"], UNWRITTEN)
        self.step(
            recording, begin_proofs, self.layout.sizes, self._delay_messages,
            self.protocol.randoms.count, self.protocol.outputs.count, memory["states"],
            memory["challenges"], field=self.field, hash=self.hash,
        )  # fmt: skip
        for number in range(len(self.circuit.layers)):
            with recording.part(f"layer {number}"):
                self._record_values(recording, number)
        for layer in self.protocol.layers:
            with recording.part(f"layer {layer.number}"):
                self._record_layer(recording, layer)
        return recording.finish().recording

    def launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch of a kernel with at least `count` instances; the kernel gets `count`."""
        compiled = self.device.compile(definition, **static)
        recording.launch(compiled, -(-count // compiled.lanes), count, *arguments)

    def step(
        self, recording: RecordingStream, definition: Any, *arguments: Any,
        groups: int | None = None, **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch of a kernel with one workgroup per proof, or with `groups` workgroups."""
        compiled = self.device.compile(definition, lanes=self.step_lanes, **static)
        recording.launch(compiled, self.batch if groups is None else groups, *arguments)

    @property
    def step_lanes(self) -> int:
        """The workgroup size of the kernels between two sumchecks."""
        return 1 if self.device.host_memory else _STEP_GROUP_SIZE

    def record_eq_table(
        self, recording: RecordingStream, log_size: int, target: str, *, first: int,
        claims: int = 1, zeros: int | None = None,
    ) -> None:  # fmt: skip
        """Record the eq table of a point of each proof's state, or a combination of two of them.

        target: the name of the buffer, 2**log_size elements per proof.
        first: the offset of the first point in the state.
        claims: with 2, the table is eq of the first point plus a challenge times eq of the second.
        zeros: the index from which on entries are set to 0; None for no such entries.
        """
        layout = self.layout
        is_long = self.field.modulus.bits > 64 and not self.device.host_memory
        log_weights_each = min(
            _LOG_LONG_WEIGHTS_PER_INSTANCE if is_long else _LOG_WEIGHTS_PER_INSTANCE, log_size
        )
        count = self.batch << log_size
        compiled = self.device.compile(
            corner_weights, field=self.field, claims=claims, log_each=log_weights_each
        )
        recording.launch(
            compiled, -(-(count >> log_weights_each) // compiled.lanes), count, log_size,
            1 << log_size if zeros is None else zeros,
            ClaimPoints(first, layout.second_point, layout.stride, FACTOR, self.states),
            self.memory[target],
        )  # fmt: skip

    def collapse(
        self, recording: RecordingStream, values: Buffer, target: str, places: int, *,
        first: int = 0, is_base: bool,
    ) -> None:  # fmt: skip
        """Record the evaluation of wires at the point of the instances.

        Call `record_instance_table` first.

        target: the name of the buffer that receives `places` elements per proof.
        places: the number of wires per proof.
        first: the index of the first wire's entries in `values`, in elements.
        """
        by_workgroup = not self.device.host_memory and self.log_instances >= _MIN_LOG_WORKGROUP_SUM
        compiled = self.device.compile(
            collapse_instances, field=self.field, is_base=is_base, by_workgroup=by_workgroup
        )
        count = self.batch * places
        recording.launch(
            compiled, count if by_workgroup else -(-count // compiled.lanes), count, first, places,
            self.log_instances, values, self.memory["shares"], self.memory[target],
        )  # fmt: skip

    def record_instance_table(self, recording: RecordingStream) -> None:
        """Record the eq table of the point of the instances, in the buffer "shares"."""
        self.record_eq_table(
            recording, self.log_instances, "shares", first=self.layout.instance_point
        )  # fmt: skip

    def collapse_public(self, recording: RecordingStream) -> None:
        """Record the evaluation of public inputs at the point of the instances.

        Call `record_instance_table` first.
        """
        self.collapse(
            recording, self.coefficients, "collapsed", self.circuit.public,
            first=self.first_public, is_base=True,
        )  # fmt: skip

    def begin_sumcheck(
        self, recording: RecordingStream, constants: Constants, log_size: int, *, rounds: int,
        halvings: int,
    ) -> None:  # fmt: skip
        """Record the start of a layer's first sumcheck: the claim minus the layer's constants.

        log_size: log2 of the number of wires of the layer.
        rounds: the number of rounds of the sumcheck.
        halvings: the number of times that the claim is halved, one per variable in which the point
            of eq is 1/2.
        """
        memory, circuit = self.memory, self.circuit
        gates = ConstantGates(
            constants.count, log_size, circuit.public, circuit.randoms, constants.gates,
            self.coefficients, memory["challenges"], memory["collapsed"],
        )  # fmt: skip
        self.step(
            recording, begin_first_sumcheck, self.layout.sizes, rounds, halvings, gates,
            memory["weights"], self.states, memory["progress"], form=constants.form,
        )  # fmt: skip
