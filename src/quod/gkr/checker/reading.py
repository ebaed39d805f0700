"""Kernels that read the messages of proofs and draw all challenges.

Nothing of a transcript depends on a claim, so all challenges come first; and every claim is sent,
so that all sums over gates and all layers are checked side by side, whatever is above them.

What kernels read beside proofs are tables of rows that are made of a circuit. Elements of a proof
are canonical integers, as bytes have them.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.extension import field_arithmetic
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.gkr.checker.messages import DIGEST_WORDS
from quod.gkr.checker.parameters import PerProof, Sent
from quod.gkr.checker.records import FAILED, PASSED, READ
from quod.hash.function import STATE_WORDS, header
from quod.hash.table import Hash
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.transcript.chain import challenge
from quod.transcript.labels import Label
from quod.transcript.runs import RUN_ELEMENTS
from quod.transcript.transcript import START

MESSAGE_ROW, RUN_ROW = 3, 3
"""Numbers of each kind of row."""


@kernel
def hash_runs(
    k: Builder,
    n: U32,
    runs: U32,
    sent: Sent,
    rows: Pointer[U32],
    begun: Pointer[U32],
    checked: Pointer[U32],
    *,
    field: FieldSpec,
    hash: Hash,
) -> None:
    """The digests of the runs of elements of all proofs, an instance a run.

    A row is the first element, the number of them and the place of the digest. `checked` gets the
    ticket of the run that read the elements, and whether all are elements.
    """
    chain = hash.in_kernel(k, alone=True)
    i = k.global_id()
    with k.if_(i < n):
        proof, run = i // runs, i % runs
        first, count, place = k.load(rows, run * RUN_ROW, RUN_ROW)
        length = count * field.words
        begin = (proof * sent.elements + first) * field.words
        words = k.load(sent.words, begin, RUN_ELEMENTS * field.words)
        zero = k.constant(0, u32)
        message = [k.select(length > at, word, zero) for at, word in enumerate(words)]
        good = _all_below(k, field.modulus, message)
        start = [k.constant(int.from_bytes(START[at : at + 4], "little"), u32)
                 for at in range(0, len(START), 4)]  # fmt: skip
        prefix = header(Label.VALUES, 4 * len(message))
        state = chain.absorbed_prefix(
            start, k.constant(int.from_bytes(prefix, "little"), u32), message,
            k.constant(len(message), u32),
        )  # fmt: skip
        digest = sent.first_digest + (proof * sent.digests + place) * DIGEST_WORDS
        k.store(sent.words, digest, *state)
        (ticket,) = k.load(begun, 0)
        verdict = k.select(good, k.constant(PASSED, u32), FAILED)
        k.store(checked, proof * runs + run, ticket + verdict)


@kernel
def read_messages(
    k: Builder,
    batch: U32,
    sent: Sent,
    rows: Pointer[U32],
    begun: Pointer[U32],
    challenges: PerProof,
    records: PerProof,
    *,
    field: FieldSpec,
    hash: Hash,
    most_words: int,
    alone: bool,
) -> None:
    """The challenge after each message of a proof, and which message is the first of no elements.

    A row is the header of a message and where it begins: among the words of the proof's elements,
    or those of its digests, which stand behind the elements of all proofs. `begun` has the ticket
    and the states of the transcripts. A workgroup a proof, `alone` an instance.
    """
    f = field_arithmetic(k, field, inlined=True)
    chain, messages = hash.in_kernel(k, alone=alone), challenges.stride

    def read(proof: Value, stores: Value) -> None:
        state = k.load(begun, proof * STATE_WORDS + 1, STATE_WORDS)
        with k.range(0, messages, carry=(state, messages)) as loop:
            state, wrong = loop.carried
            begin, place, of_digests = k.load(rows, loop.index * MESSAGE_ROW, MESSAGE_ROW)
            length, is_digest = (begin & 0xFFFFFF) >> 2, of_digests != 0
            own = k.select(
                is_digest, sent.first_digest + proof * sent.digests * DIGEST_WORDS,
                proof * sent.elements * field.words,
            )  # fmt: skip
            message = k.load(sent.words, own + place, most_words)
            state = chain.absorbed_prefix(state, begin, message, length)
            found = f.carried(challenge(f, field, state))
            with k.if_(stores):
                f.store(challenges.entries, proof * messages + loop.index, found)
            good = is_digest | _all_below(k, field.modulus, message, length)
            wrong = k.select(good | (wrong != messages), wrong, loop.index)
            loop.next((state, wrong))
        with k.if_(stores):
            (ticket,) = k.load(begun, 0)
            state, wrong = loop.results
            k.store(records.entries, proof * records.stride + READ, ticket, wrong, *state)

    if alone:
        own = k.global_id()
        with k.if_(own < batch):
            read(own, own < batch)
    else:
        read(k.workgroup_id(), k.local_id() == 0)


def _all_below(
    k: Builder, modulus: Modulus, words: Sequence[Value], length: Value | None = None
) -> Value:
    """Whether the integers in all words, or in the first `length` ones, are below p."""
    length = k.constant(len(words), u32) if length is None else length
    good = length == length
    for at in range(0, len(words) - modulus.words + 1, modulus.words):
        below = length <= at
        equal = length > at
        for place in reversed(range(modulus.words)):
            word = modulus.value >> (32 * place) & 0xFFFFFFFF
            own = words[at + place]
            below = below | (equal & (own < word))
            equal = equal & (own == word)
        good = good & below
    return good
