"""Kernels around the two sumchecks of a layer: messages, challenges and claims.

There is one workgroup per proof. `states` are the prover states (`quod.gkr.prover.state`),
`progress` and `proof` the buffers of a sumcheck (`quod.sumcheck.memory`), and `sent` the messages
of all proofs.
"""

from __future__ import annotations

from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.prover.state import (
    CLAIM,
    FACTOR,
    FIRST_POINT,
    VALUES,
    MessageRange,
    StateMemory,
    StateSizes,
    StepMemory,
)
from quod.hash.table import Hash
from quod.hash.words import Words, message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.finish import added_parts
from quod.sumcheck.memory import SumcheckProgress
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import Chain, challenge
from quod.transcript.labels import Label


@kernel
def end_first_sumcheck(
    k: Builder,
    sizes: StateSizes,
    rounds: U32,
    log_below: U32,
    degree: U32,
    target: MessageRange,
    memory: StepMemory,
    *,
    field: FieldSpec,
    value_count: int,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Copy the rounds and values of a first sumcheck to `sent`, and store its point in the state.

    log_below: log2 of the number of wires of the layer below. The first `log_below` rounds are over
        the wires, the others over instances.
    degree: elements per round message.
    value_count: the number of tables whose value is sent, 1 or 2.
    """
    end = _SumcheckEnd(k, field, hash, sizes.batch, rounds, degree, memory)
    f, local = end.f, k.local_id()
    prover_state = StateMemory(f, memory.states, end.proof_index, sizes)
    table_values = end.send(prover_state, target, value_count)
    with k.range(local, rounds, k.workgroup_size) as loop:
        instance_offset = prover_state.instance_point + loop.index - log_below
        offset = k.select(loop.index < log_below, loop.index + FIRST_POINT, instance_offset)
        prover_state.store(offset, end.progress.challenge(loop.index))
    with k.if_(local == 0):
        for value_index, value in enumerate(table_values):
            prover_state.store(VALUES + value_index, value)
        prover_state.store(CLAIM, table_values[0])


@kernel
def begin_second_sumcheck(
    k: Builder,
    sizes: StateSizes,
    rounds: U32,
    groups_each: U32,
    partial: Pointer[U32],
    states: Pointer[U32],
    progress: Pointer[U32],
    *,
    field: FieldSpec,
    at_once: int,
) -> None:
    """Set the claim of a layer's second sumcheck: the total of its partial sums.

    groups_each: the number of partial sums per proof in `partial`.
    at_once: partial sums that an instance loads at a time (`quod.sumcheck.finish.parts_at_once`).
    """
    f, chain = field_arithmetic(k, field, inlined=True), Chain(k)
    sums = WorkgroupSums(k, f, 1)
    proof_index = k.workgroup_id()
    (total,) = sums.totals(added_parts(f, partial, proof_index, 1, groups_each, at_once))
    prover_state = StateMemory(f, states, proof_index, sizes)
    next_progress = SumcheckProgress(f, progress, sizes.batch, proof_index, rounds)
    with k.if_(k.local_id() == 0):
        next_progress.set_claim(total)
        next_progress.set_state(chain, prover_state.load_transcript(chain))


@kernel
def end_second_sumcheck(
    k: Builder,
    sizes: StateSizes,
    rounds: U32,
    target: MessageRange,
    memory: StepMemory,
    *,
    field: FieldSpec,
    is_last: bool,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Copy the rounds and value of a second sumcheck to `sent`, and combine both claims.

    is_last: the layer is the lowest one; claims about the inputs are not combined.
    """
    end = _SumcheckEnd(k, field, hash, sizes.batch, rounds, 2, memory)
    f, local = end.f, k.local_id()
    prover_state = StateMemory(f, memory.states, end.proof_index, sizes)
    (value,) = end.send(prover_state, target, 1)
    with k.range(local, rounds, k.workgroup_size) as loop:
        prover_state.store(
            prover_state.second_point + loop.index, end.progress.challenge(loop.index)
        )
    factor = None if is_last else f.bounded(challenge(f, field, end.state))
    with k.if_(local == 0):
        prover_state.store(VALUES + 1, value)
        if factor is not None:
            prover_state.store(FACTOR, factor)
            prover_state.store(CLAIM, f.bounded(prover_state.load(VALUES) + factor * value))


class _SumcheckEnd:
    """The steps shared by the ends of both sumchecks."""

    def __init__(
        self, k: Builder, field: FieldSpec, hash: Hash, batch: Value, rounds: Value,
        degree: Value | int, memory: StepMemory,
    ) -> None:  # fmt: skip
        f: Any = field_arithmetic(k, field, inlined=True)
        self.f, self._chain, self.proof_index = f, Chain(k, hash), k.workgroup_id()
        self._memory, self._batch = memory, batch
        self.progress = SumcheckProgress(f, memory.progress, batch, self.proof_index, rounds)
        round_elements = rounds * degree
        self._round_words = round_elements * field.words
        # In the buffer `proof` the rounds of all proofs precede the values of each table.
        self._first_value_element = batch * round_elements
        self.state: Words = ()

    def send(self, prover_state: StateMemory, target: MessageRange, value_count: int) -> list[Any]:
        """Copy the rounds and the values of the tables to `sent`, and absorb the values.

        Returns the values. `self.state` is the transcript's state afterwards.
        """
        f, k, proof, sent = self.f, self.f.k, self._memory.proof, self._memory.sent
        start = target.start(self.proof_index)
        proof_start = self.proof_index * self._round_words
        with k.range(k.local_id(), self._round_words, k.workgroup_size) as loop:
            k.store(sent, start + loop.index, proof[proof_start + loop.index])
        values: list[Any] = []
        message: list[Value] = []
        for table in range(value_count):
            offset = self._first_value_element + self._batch * table + self.proof_index
            values.append(f.bounded(f.load(proof, offset)))
            message += message_words(f, values[-1])
        self.state = self._chain.absorbed(self.progress.state(self._chain), Label.VALUES, message)
        with k.if_(k.local_id() == 0):
            k.store(sent, start + self._round_words, *message)
            prover_state.store_transcript(self._chain, self.state)
        return values
