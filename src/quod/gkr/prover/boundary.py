"""The transposition of inputs and the checks of inputs and outputs, on the device.

The host's inputs are ordered by instance, and layers read them by wire. A kernel counts the inputs
that are canonical elements and the outputs that are 0; each kernel instance has its own counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import UNWRITTEN
from quod.device.runtime.stream import RecordingStream
from quod.gkr.prover.plan import BatchPlan
from quod.kernel import U32, Builder, Pointer, kernel, u32

Words = NDArray[np.uint32]

_COUNTERS = 1 << 14
_CPU_COUNTERS = 1 << 8
# A kernel instance reads this many words of inputs at once: 32 bytes, a sector of a GPU's memory.
_WORDS_AT_ONCE = 8


@kernel
def place_inputs(
    k: Builder,
    n: U32,
    log_groups: U32,
    instances: U32,
    log_instances: U32,
    inputs: Pointer[U32],
    values: Pointer[U32],
    *,
    words: int,
    at_once: int,
) -> None:
    """Transpose the inputs of proofs from order by instance to order by wire.

    The last instance's inputs are repeated up to 2**log_instances instances. Each of n kernel
    instances moves `at_once` wires of one instance; a proof has `at_once` << log_groups wires.
    words: the number of 32-bit words of an input.
    """
    i, one = k.global_id(), k.constant(1, u32)
    with k.if_(i < n):
        entry, group_index = i & ((one << log_instances) - 1), i >> log_instances
        proof, group = group_index >> log_groups, group_index & ((one << log_groups) - 1)
        row = proof * instances + k.minimum(entry, instances - 1)
        group_words = at_once * words
        input_words = k.load(inputs, ((row << log_groups) + group) * group_words, group_words)
        for wire in range(at_once):
            offset = (((group_index * at_once + wire) << log_instances) + entry) * words
            k.store(values, offset, *input_words[wire * words : (wire + 1) * words])


@kernel
def count_below(
    k: Builder,
    counters: U32,
    entries: U32,
    each: U32,
    stride: U32,
    data: Pointer[U32],
    counts: Pointer[U32],
    *,
    words: int,
    bound: int,
) -> None:
    """Count the integers of `words` words below a bound.

    The first `each` of every `stride` integers are read, `entries` in total. Kernel instance i
    counts every `counters`-th of them and stores counts[i].
    """
    i = k.global_id()
    with k.if_(i < counters):
        with k.range(i, entries, counters, carry=k.constant(0, u32)) as loop:
            proof = loop.index // each
            index = proof * stride + loop.index - proof * each
            number = k.load(data, index * words, words)
            # False and true as values of the kernel.
            below, equal = number[0] != number[0], number[0] == number[0]
            for limb in reversed(range(words)):
                word = k.constant(bound >> (32 * limb) & 0xFFFFFFFF, u32)
                below, equal = (
                    below | (equal & (number[limb] < word)),
                    equal & (number[limb] == word),
                )
            loop.next(loop.carried + k.select(below, k.constant(1, u32), 0))
        k.store(counts, i, loop.results)


class Boundary:
    """The transfer of a batch's inputs, and the checks of its inputs and outputs."""

    def __init__(self, plan: BatchPlan, instances: int) -> None:
        self._plan, self._instances = plan, instances
        self._values = plan.values[0]
        self._host_order = self._values
        if plan.log_instances:
            size = plan.batch * instances * self._input_bytes
            plan.device.check_budget("the inputs of these proofs", size)
            self._host_order = plan.device.allocate(size)
        is_host = plan.device.host_memory
        self._counters = _CPU_COUNTERS if is_host else _COUNTERS
        self._counts = plan.device.allocate(4 * self._counters)
        self._input_check, self._output_check = self._record_inputs(), self._record_outputs()

    @property
    def _input_bytes(self) -> int:
        """Bytes of one instance's inputs."""
        return self._plan.circuit.field.bytes << self._plan.circuit.log_inputs

    def upload_inputs(self, tables: Sequence[Words]) -> bool:
        """Upload the inputs of each proof to the device; return whether all are canonical."""
        plan = self._plan
        if plan.batch == 1:
            plan.device.upload(tables[0], into=self._host_order)
        else:
            # Gather on the host first: one copy to the device is faster than many.
            for number, row in enumerate(self._staging):
                row[:] = tables[min(number, len(tables) - 1)].reshape(-1)
            plan.device.upload(self._staging, into=self._host_order)
        entries = plan.batch * self._instances << plan.circuit.log_inputs
        return self._counted(self._input_check) == entries

    @cached_property
    def _staging(self) -> Words:
        """Pinned host memory for the inputs of a batch, of shape (batch, words of a proof)."""
        memory: Words = self._plan.device.pinned(self._host_order.nbytes).view(np.uint32)
        return memory.reshape(self._plan.batch, -1)

    def outputs_are_zero(self) -> bool:
        """Return whether the outputs that must be 0 are 0 in all proofs and instances."""
        entries = self._plan.batch * self._plan.circuit.zeros << self._plan.log_instances
        return not entries or self._counted(self._output_check) == entries

    def outputs(self) -> Words:
        """Return the outputs as uint32 of shape (batch, wires, padded instances, words)."""
        plan = self._plan
        shape = (plan.batch, 1 << plan.circuit.log_outputs, 1 << plan.log_instances, -1)
        words = np.full(plan.values[-1].nbytes // 4, UNWRITTEN, np.uint32)
        plan.device.download(plan.values[-1], words)
        return words.reshape(shape)

    def _counted(self, recording: Recording) -> int:
        device = self._plan.device
        counts = np.zeros(self._counters, np.uint32)
        device.upload(counts, into=self._counts)
        device.stream("gkr").replay(recording).run()
        device.download(self._counts, counts)
        return int(counts.sum(dtype=np.uint64))

    def _record_inputs(self) -> Recording:
        plan, circuit = self._plan, self._plan.circuit
        recording = plan.device.stream("gkr").record()
        words, wires = circuit.field.words, 1 << circuit.log_inputs
        if self._host_order is not self._values:
            at_once = min(wires, max(1, _WORDS_AT_ONCE // words))
            groups = wires // at_once
            plan.launch(
                recording, place_inputs, plan.batch * groups << plan.log_instances,
                groups.bit_length() - 1, self._instances, plan.log_instances, self._host_order,
                self._values, words=words, at_once=at_once,
            )  # fmt: skip
        proof_entries = self._instances * wires
        self._record_count(
            recording, proof_entries, proof_entries, self._host_order, words, circuit.field.value
        )
        return recording.finish().recording

    def _record_outputs(self) -> Recording:
        plan, circuit = self._plan, self._plan.circuit
        recording = plan.device.stream("gkr").record()
        words = plan.value_bytes(-1) // 4
        log_instances, log_stride = plan.log_instances, circuit.log_outputs + plan.log_instances
        self._record_count(
            recording, circuit.zeros << log_instances, 1 << log_stride, plan.values[-1], words, 1
        )
        return recording.finish().recording

    def _record_count(
        self, recording: RecordingStream, each: int, stride: int, data: Buffer, words: int,
        bound: int,
    ) -> None:  # fmt: skip
        """Record the count of elements below a bound, among the first `each` of every proof."""
        plan = self._plan
        plan.launch(
            recording, count_below, self._counters, plan.batch * each, max(1, each), stride, data,
            self._counts, words=words, bound=bound,
        )  # fmt: skip
