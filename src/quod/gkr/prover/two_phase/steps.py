"""Kernels between the two sumchecks of a layer: messages, challenges and claims.

A workgroup works on a proof. `standing` is as in `quod.gkr.prover.state`, `progress` and `proof`
are those of a sumcheck (`quod.sumcheck.memory`).
"""

from __future__ import annotations

from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.prover.state import (
    CLAIM,
    FACTOR,
    FIRST,
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
from quod.sumcheck.memory import Progress
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
    values: int,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Sends the rounds and the values that a first sumcheck ends with, and notes where it ended.

    Rounds beyond `log_below` are over the instances.
    """
    end = _End(k, field, hash, sizes.batch, rounds, degree, memory)
    f, local = end.f, k.local_id()
    own = StateMemory(f, memory.standing, end.number, sizes)
    found = end.sent(own, target, values)
    with k.range(local, rounds, k.workgroup_size) as loop:
        behind = own.across + loop.index - log_below
        place = k.select(loop.index < log_below, loop.index + FIRST, behind)
        own.store(place, end.progress.challenge(loop.index))
    with k.if_(local == 0):
        for number, value in enumerate(found):
            own.store(VALUES + number, value)
        own.store(CLAIM, found[0])


@kernel
def begin_second_sumcheck(
    k: Builder,
    sizes: StateSizes,
    rounds: U32,
    groups_each: U32,
    partial: Pointer[U32],
    standing: Pointer[U32],
    progress: Pointer[U32],
    *,
    field: FieldSpec,
    at_once: int,
) -> None:
    """The claim of a layer's second sumcheck, of which `partial` has the parts."""
    f, chain = field_arithmetic(k, field, inlined=True), Chain(k)
    sums = WorkgroupSums(k, f, 1)
    proof = k.workgroup_id()
    (total,) = sums.totals(added_parts(f, partial, proof, 1, groups_each, at_once))
    own = StateMemory(f, standing, proof, sizes)
    next_one = Progress(f, progress, sizes.batch, proof, rounds)
    with k.if_(k.local_id() == 0):
        next_one.set_claim(total)
        next_one.set_state(chain, own.state(chain))


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
    """Sends the rounds and the value that a second sumcheck ends with, and combines the claims.

    Those about the inputs are not combined (`is_last`).
    """
    end = _End(k, field, hash, sizes.batch, rounds, 2, memory)
    f, local = end.f, k.local_id()
    own = StateMemory(f, memory.standing, end.number, sizes)
    (value,) = end.sent(own, target, 1)
    with k.range(local, rounds, k.workgroup_size) as loop:
        own.store(own.second + loop.index, end.progress.challenge(loop.index))
    factor = None if is_last else f.carried(challenge(f, field, end.state))
    with k.if_(local == 0):
        own.store(VALUES + 1, value)
        if factor is not None:
            own.store(FACTOR, factor)
            own.store(CLAIM, f.carried(own.load(VALUES) + factor * value))


class _End:
    """The steps shared by the ends of both sumchecks."""

    def __init__(
        self, k: Builder, field: FieldSpec, hash: Hash, batch: Value, rounds: Value,
        degree: Value | int, memory: StepMemory,
    ) -> None:  # fmt: skip
        f: Any = field_arithmetic(k, field, inlined=True)
        self.f, self._chain, self.number = f, Chain(k, hash), k.workgroup_id()
        self._memory, self._batch = memory, batch
        self.progress = Progress(f, memory.progress, batch, self.number, rounds)
        elements = rounds * degree
        self._words, self._first_value = elements * field.words, batch * elements
        self.state: Words = ()

    def sent(self, own: StateMemory, target: MessageRange, count: int) -> list[Any]:
        """The values of `count` tables; the rounds and they are copied to where the proof has them,
        and absorbed."""
        f, k, proof, sent = self.f, self.f.k, self._memory.proof, self._memory.sent
        start = target.start(self.number)
        source = self.number * self._words
        with k.range(k.local_id(), self._words, k.workgroup_size) as loop:
            k.store(sent, start + loop.index, proof[source + loop.index])
        values: list[Any] = []
        message: list[Value] = []
        for table in range(count):
            place = self._first_value + self._batch * table + self.number
            values.append(f.carried(f.load(proof, place)))
            message += message_words(f, values[-1])
        self.state = self._chain.absorbed(self.progress.state(self._chain), Label.VALUES, message)
        with k.if_(k.local_id() == 0):
            k.store(sent, start + self._words, *message)
            own.set_state(self._chain, self.state)
        return values
