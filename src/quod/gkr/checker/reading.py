"""Kernels that read the messages of proofs and draw all challenges.

A transcript absorbs only bytes of the proof, no computed claim, so the kernels draw all challenges
first. The proof contains the values of every layer, so the kernels check all layers in parallel.

Kernels read the proofs, and tables of rows that follow from the circuit. The elements of a proof
are canonical integers, not in Montgomery form.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.any_field import field_arithmetic
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.gkr.checker.messages import DIGEST_WORDS
from quod.gkr.checker.records import FAILED, PASSED, READ
from quod.gkr.checker.structs import PerProof, ProofElements
from quod.hash.function import STATE_WORDS, header
from quod.hash.table import Hash
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.transcript.chain import challenge
from quod.transcript.labels import Label
from quod.transcript.runs import RUN_ELEMENTS
from quod.transcript.transcript import START

MESSAGE_ROW, RUN_ROW = 3, 3
"""The lengths of both kinds of rows."""


@kernel
def hash_runs(
    k: Builder,
    n: U32,
    runs: U32,
    sent: ProofElements,
    rows: Pointer[U32],
    run_start: Pointer[U32],
    checked: Pointer[U32],
    *,
    field: FieldSpec,
    hash: Hash,
) -> None:
    """Hash the runs of elements of all proofs, one run per kernel instance.

    A row has the first element, the number of elements and the index of the digest. `checked` gets
    the ticket of this run of the check plus the verdict: whether all elements are below p.
    """
    chain = hash.in_kernel(k, alone=True)
    i = k.global_id()
    with k.if_(i < n):
        proof, run = i // runs, i % runs
        first, count, digest_index = k.load(rows, run * RUN_ROW, RUN_ROW)
        length = count * field.words
        begin = (proof * sent.elements + first) * field.words
        words = k.load(sent.words, begin, RUN_ELEMENTS * field.words)
        zero = k.constant(0, u32)
        message = [k.select(length > index, word, zero) for index, word in enumerate(words)]
        all_below = _all_below(k, field.modulus, message)
        start = [k.constant(int.from_bytes(START[index : index + 4], "little"), u32)
                 for index in range(0, len(START), 4)]  # fmt: skip
        prefix = header(Label.VALUES, 4 * len(message))
        state = chain.absorbed_prefix(
            start, k.constant(int.from_bytes(prefix, "little"), u32), message,
            k.constant(len(message), u32),
        )  # fmt: skip
        digest = sent.first_digest + (proof * sent.digests + digest_index) * DIGEST_WORDS
        k.store(sent.words, digest, *state)
        (ticket,) = k.load(run_start, 0)
        verdict = k.select(all_below, k.constant(PASSED, u32), FAILED)
        k.store(checked, proof * runs + run, ticket + verdict)


@kernel
def read_messages(
    k: Builder,
    batch: U32,
    sent: ProofElements,
    rows: Pointer[U32],
    run_start: Pointer[U32],
    challenges: PerProof,
    records: PerProof,
    *,
    field: FieldSpec,
    hash: Hash,
    most_words: int,
    alone: bool,
) -> None:
    """Draw the challenge after each message, and find the first message with an invalid element.

    A row has the header of a message, its first word, and whether it consists of digests. The first
    word counts from the proof's elements, or from its digests, which follow the elements of all
    proofs. `run_start` has the run's ticket, then the states of the transcripts. A workgroup reads
    a proof; with `alone` one kernel instance does.
    """
    f = field_arithmetic(k, field, inlined=True)
    chain, messages = hash.in_kernel(k, alone=alone), challenges.stride

    def read(proof: Value, stores: Value) -> None:
        state = k.load(run_start, proof * STATE_WORDS + 1, STATE_WORDS)
        with k.range(0, messages, carry=(state, messages)) as loop:
            state, first_wrong = loop.carried
            header_word, first_word, of_digests = k.load(
                rows, loop.index * MESSAGE_ROW, MESSAGE_ROW
            )
            length, is_digest = (header_word & 0xFFFFFF) >> 2, of_digests != 0
            base = k.select(
                is_digest, sent.first_digest + proof * sent.digests * DIGEST_WORDS,
                proof * sent.elements * field.words,
            )  # fmt: skip
            message = k.load(sent.words, base + first_word, most_words)
            state = chain.absorbed_prefix(state, header_word, message, length)
            challenge_element = f.bounded(challenge(f, field, state))
            with k.if_(stores):
                f.store(challenges.entries, proof * messages + loop.index, challenge_element)
            is_valid = is_digest | _all_below(k, field.modulus, message, length)
            first_wrong = k.select(is_valid | (first_wrong != messages), first_wrong, loop.index)
            loop.next((state, first_wrong))
        with k.if_(stores):
            (ticket,) = k.load(run_start, 0)
            state, first_wrong = loop.results
            k.store(records.entries, proof * records.stride + READ, ticket, first_wrong, *state)

    if alone:
        proof = k.global_id()
        with k.if_(proof < batch):
            read(proof, proof < batch)
    else:
        read(k.workgroup_id(), k.local_id() == 0)


def _all_below(
    k: Builder, modulus: Modulus, words: Sequence[Value], length: Value | None = None
) -> Value:
    """Return whether the integers in all words, or in the first `length` words, are below p."""
    length = k.constant(len(words), u32) if length is None else length
    # A kernel value that is always true.
    all_below = length == length
    for index in range(0, len(words) - modulus.words + 1, modulus.words):
        below = length <= index
        equal = length > index
        for word_index in reversed(range(modulus.words)):
            modulus_word = modulus.value >> (32 * word_index) & 0xFFFFFFFF
            word = words[index + word_index]
            below = below | (equal & (word < modulus_word))
            equal = equal & (word == modulus_word)
        all_below = all_below & below
    return all_below
