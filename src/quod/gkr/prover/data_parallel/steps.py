"""Kernels between the sumchecks of a data-parallel proof: messages and challenges.

`states` are the prover states (`quod.gkr.prover.state`), `progress` and `proof` the buffers of a
sumcheck (`quod.sumcheck.memory`), and `sent` the messages of all proofs. A layer's reduction ends
with `positions` values per proof: those of the wires that the layer's gates read.
"""

from __future__ import annotations

from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.prover.state import (
    CLAIM,
    FIRST_POINT,
    VALUES,
    MessageRange,
    StateMemory,
    StateSizes,
    StepMemory,
)
from quod.gkr.prover.steps import next_state
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.hash.words import message_words
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.memory import SumcheckProgress
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import Chain, challenge
from quod.transcript.labels import Label
from quod.transcript.runs import DIGESTS_EACH, RUN_ELEMENTS
from quod.transcript.transcript import START


@kernel
def digest_values(
    k: Builder,
    positions: U32,
    digests_each: U32,
    target: MessageRange,
    values: Pointer[U32],
    digests: Pointer[U32],
    sent: Pointer[U32],
    *,
    field: FieldSpec,
    hash: Hash,
) -> None:
    """Copy the values to `sent`, and hash each run of them; one workgroup per run.

    A proof has `digests_each` digests; digests after the last run are zero.
    """
    f, chain = field_arithmetic(k, field, inlined=True), Chain(k, hash)
    proof_index = k.workgroup_id() // digests_each
    run = k.workgroup_id() - proof_index * digests_each
    first = run * RUN_ELEMENTS
    zero = f.bounded(f.zero())
    words: list[Value] = []
    for index in range(RUN_ELEMENTS):
        position = k.minimum(first + index, positions - 1)
        value = f.bounded(f.load(values, proof_index * positions + position))
        words += message_words(f, f.select(first + index < positions, value, zero))
    start = [k.constant(int.from_bytes(START[index : index + 4], "little"), u32)
             for index in range(0, len(START), 4)]  # fmt: skip
    digest = chain.absorbed(tuple(start), Label.VALUES, words)
    zero_word = k.constant(0, u32)
    digest = tuple(k.select(first < positions, word, zero_word) for word in digest)
    with k.if_(k.local_id() == 0):
        k.store(digests, k.workgroup_id() * STATE_WORDS, *digest)
    with k.range(k.local_id(), RUN_ELEMENTS, k.workgroup_size) as loop:
        position = first + loop.index
        with k.if_(position < positions):
            message = message_words(f, f.load(values, proof_index * positions + position))
            k.store(sent, target.start(proof_index) + position * field.words, *message)


@kernel
def end_layer(
    k: Builder,
    sizes: StateSizes,
    rounds: U32,
    degree: U32,
    target: MessageRange,
    messages: U32,
    log_below: U32,
    digests: Pointer[U32],
    memory: StepMemory,
    *,
    field: FieldSpec,
    hash: Hash,
) -> None:
    """Copy the rounds to `sent`, absorb the digests, and draw the point that combines the values.

    If `rounds` is 0, the transcript state comes from the prover state, and the point of the
    instances is kept.
    messages: the number of messages of DIGESTS_EACH digests per proof.
    log_below: the number of coordinates of the point.
    """
    f, chain = field_arithmetic(k, field, inlined=True), Chain(k, hash)
    proof_index, local = k.workgroup_id(), k.local_id()
    prover_state = StateMemory(f, memory.states, proof_index, sizes)
    progress = SumcheckProgress(f, memory.progress, sizes.batch, proof_index, sizes.log_instances)
    words = rounds * degree * field.words
    with k.range(local, words, k.workgroup_size) as loop:
        (word,) = k.load(memory.proof, proof_index * words + loop.index)
        k.store(memory.sent, target.start(proof_index) + loop.index, word)
    with k.range(local, rounds, k.workgroup_size) as loop:
        prover_state.store(prover_state.instance_point + loop.index, progress.challenge(loop.index))
    # A loop of at most one pass: with rounds the state comes from their progress. If no layer has
    # rounds, the buffer of progress is too small to read.
    with k.range(
        0, k.minimum(rounds, 1), carry=tuple(prover_state.load_transcript(chain))
    ) as transcript:
        transcript.next(tuple(progress.state(chain)))
    message_words = DIGESTS_EACH * STATE_WORDS
    with k.range(0, messages, carry=transcript.results) as absorbed:
        message = k.load(
            digests, (proof_index * messages + absorbed.index) * message_words, message_words
        )
        absorbed.next(chain.absorbed(absorbed.carried, Label.VALUES, message))
    with k.range(0, log_below, carry=absorbed.results) as draws:
        state = next_state(k, chain, draws.carried, draws.index > 0)
        coordinate = f.bounded(challenge(f, field, state))
        with k.if_(local == 0):
            prover_state.store(draws.index + FIRST_POINT, coordinate)
        draws.next(state)
    k.barrier()
    with k.if_(local == 0):
        prover_state.store_transcript(chain, draws.results)


@kernel
def combine_values(
    k: Builder,
    sizes: StateSizes,
    log_size: U32,
    positions: U32,
    taken: Pointer[U32],
    values: Pointer[U32],
    weights: Pointer[U32],
    states: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Set the claim about a layer: the weighted sum of the values that were sent.

    taken: the wires of these values.
    weights: the eq table of the layer's point, 2**log_size elements per proof.
    """
    f: Any = field_arithmetic(k, field, inlined=True)
    sums, proof_index, local = WorkgroupSums(k, f, 1), k.workgroup_id(), k.local_id()
    with k.range(local, positions, k.workgroup_size, carry=f.bounded(f.zero())) as loop:
        (wire,) = k.load(taken, loop.index)
        weight = f.load(weights, (proof_index << log_size) + wire)
        value = f.load(values, proof_index * positions + loop.index)
        loop.next(f.bounded(loop.carried + weight * value))
    (total,) = sums.totals([loop.results])
    prover_state = StateMemory(f, states, proof_index, sizes)
    with k.if_(local == 0):
        prover_state.store(CLAIM, total)
        prover_state.store(VALUES, total)
