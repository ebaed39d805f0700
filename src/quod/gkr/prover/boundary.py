"""The transposition of inputs and the checks of inputs and outputs, on the device.

The host has inputs by instance, and layers read them by wire. A kernel counts the inputs that are
elements and the outputs that are 0; each of its instances counts a share.
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
_COUNTERS_OF_PROCESSOR = 1 << 8
# 32-bit words of an instance's inputs that are read at once: a sector of a GPU's memory.
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
    """Transpose the inputs of proofs from instances to wires; the last instance's inputs pad.

    Each of n kernel instances moves `at_once` wires; a proof has `at_once` << log_groups wires.
    """
    i, one = k.global_id(), k.constant(1, u32)
    with k.if_(i < n):
        entry, group_index = i & ((one << log_instances) - 1), i >> log_instances
        proof, group = group_index >> log_groups, group_index & ((one << log_groups) - 1)
        row = proof * instances + k.minimum(entry, instances - 1)
        each = at_once * words
        taken = k.load(inputs, ((row << log_groups) + group) * each, each)
        for at in range(at_once):
            place = (((group_index * at_once + at) << log_instances) + entry) * words
            k.store(values, place, *taken[at * words : (at + 1) * words])


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
    """Count the integers of `words` words below a bound; each counter has the count of a share.

    Counted are the first `each` of every `stride` integers, `entries` in all.
    """
    i = k.global_id()
    with k.if_(i < counters):
        with k.range(i, entries, counters, carry=k.constant(0, u32)) as loop:
            proof = loop.index // each
            place = proof * stride + loop.index - proof * each
            number = k.load(data, place * words, words)
            below, equal = number[0] != number[0], number[0] == number[0]
            for at in reversed(range(words)):
                word = k.constant(bound >> (32 * at) & 0xFFFFFFFF, u32)
                below, equal = below | (equal & (number[at] < word)), equal & (number[at] == word)
            loop.next(loop.carried + k.select(below, k.constant(1, u32), 0))
        k.store(counts, i, loop.results)


class Boundary:
    """The transfer of a batch's inputs, and the checks of its inputs and outputs."""

    def __init__(self, plan: BatchPlan, instances: int) -> None:
        self._plan, self._instances = plan, instances
        self._values = plan.values[0]
        self._given = self._values
        if plan.log_instances:
            size = plan.batch * instances * self._input_bytes
            plan.device.check_budget("the inputs of these proofs", size)
            self._given = plan.device.allocate(size)
        is_host = plan.device.host_memory
        self._counters = _COUNTERS_OF_PROCESSOR if is_host else _COUNTERS
        self._counts = plan.device.allocate(4 * self._counters)
        self._bringing, self._looking = self._record_inputs(), self._record_outputs()

    @property
    def _input_bytes(self) -> int:
        """The bytes of an instance's inputs."""
        return self._plan.circuit.field.bytes << self._plan.circuit.log_inputs

    def bring(self, tables: Sequence[Words]) -> bool:
        """Copy the inputs of each proof to the device; return whether all are elements."""
        plan = self._plan
        if plan.batch == 1:
            plan.device.upload(tables[0], into=self._given)
        else:
            # A copy to the device takes as long as many on the host.
            for number, row in enumerate(self._room):
                row[:] = tables[min(number, len(tables) - 1)].reshape(-1)
            plan.device.upload(self._room, into=self._given)
        entries = plan.batch * self._instances << plan.circuit.log_inputs
        return self._counted(self._bringing) == entries

    @cached_property
    def _room(self) -> Words:
        """Pinned memory of the host for the inputs of a batch."""
        room: Words = self._plan.device.pinned(self._given.nbytes).view(np.uint32)
        return room.reshape(self._plan.batch, -1)

    def outputs_are_zero(self) -> bool:
        """Return whether the outputs that must be 0 are 0 in all proofs and instances."""
        entries = self._plan.batch * self._plan.circuit.zeros << self._plan.log_instances
        return not entries or self._counted(self._looking) == entries

    def outputs(self) -> Words:
        """The outputs of all proofs by wire."""
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
        words, places = circuit.field.words, 1 << circuit.log_inputs
        if self._given is not self._values:
            at_once = min(places, max(1, _WORDS_AT_ONCE // words))
            groups = places // at_once
            plan.launch(
                recording, place_inputs, plan.batch * groups << plan.log_instances,
                groups.bit_length() - 1, self._instances, plan.log_instances, self._given,
                self._values, words=words, at_once=at_once,
            )  # fmt: skip
        each = self._instances * places
        self._record_count(recording, each, each, self._given, words, circuit.field.value)
        return recording.finish().recording

    def _record_outputs(self) -> Recording:
        plan, circuit = self._plan, self._plan.circuit
        recording = plan.device.stream("gkr").record()
        words = plan.value_bytes(-1) // 4
        log_instances, stride = plan.log_instances, circuit.log_outputs + plan.log_instances
        self._record_count(
            recording, circuit.zeros << log_instances, 1 << stride, plan.values[-1], words, 1
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
