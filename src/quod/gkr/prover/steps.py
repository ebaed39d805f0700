"""Kernels between the sumchecks of a proof: messages, challenges and claims, a workgroup a proof.

The transcript stays on the device from the commitment to the claims about the inputs. `standing` is
as in `quod.gkr.prover.standing`, `progress` and `proof` are those of a sumcheck
(`quod.sumcheck.memory`).
"""

from __future__ import annotations

from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.prover.kernels import PUBLIC_TAG, TAG_SHIFT, Coefficients, GateForm
from quod.gkr.prover.standing import CLAIM, FACTOR, FIRST, VALUES, StandingMemory
from quod.hash.table import Hash
from quod.hash.words import Words, message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.finish import added_parts
from quod.sumcheck.memory import Progress
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import Chain, challenge
from quod.transcript.labels import Label


@kernel
def begin_proofs(
    k: Builder,
    batch: U32,
    log_places: U32,
    log_instances: U32,
    chain_length: U32,
    randoms: U32,
    log_outputs: U32,
    standing: Pointer[U32],
    challenges: Pointer[U32],
    *,
    field: FieldSpec,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """The chain of hashes, the random coefficients, the chain again if there are any, and the point
    of the first claim, which is 0.

    The states of `standing` are those after the commitment.
    """
    f, chain = field_arithmetic(k, field, inlined=True), Chain(k, hash)
    proof, local = k.workgroup_id(), k.local_id()
    own = StandingMemory(f, standing, proof, (batch, log_places, log_instances))
    points = log_outputs + log_instances
    # The first phase draws the random coefficients, the second one the points. One loop for both
    # contains the code of the hash once.
    with k.range(1 - k.minimum(randoms, 1), 2, carry=own.state(chain)) as phases:
        is_second = phases.index > 0
        with k.range(0, chain_length, carry=phases.carried) as loop:
            loop.next(chain.absorbed(loop.carried, Label.CHAIN, ()))
        with k.range(0, k.select(is_second, points, randoms), carry=loop.results) as draws:
            at = draws.index
            state = next_state(k, chain, draws.carried, at > 0)
            coordinate = f.carried(challenge(f, field, state))
            with k.if_((local == 0) & (phases.index == 0)):
                f.store(challenges, proof * randoms + at, coordinate)
            with k.if_((local == 0) & is_second):
                place = k.select(at < log_outputs, at + FIRST, own.across + at - log_outputs)
                own.store(place, coordinate)
            draws.next(state)
        phases.next(draws.results)
    k.barrier()
    with k.if_(local == 0):
        own.set_state(chain, phases.results)
        own.store(CLAIM, f.carried(f.zero()))


def next_state(k: Builder, chain: Chain, state: Words, is_further: Value) -> Words:
    """The state of which a challenge is drawn: a further one comes after an empty message."""
    after = chain.absorbed(state, Label.NEXT, ())
    return tuple(k.select(is_further, new, old) for new, old in zip(after, state, strict=True))


@kernel
def begin_first_sumcheck(
    k: Builder,
    batch: U32,
    log_places: U32,
    log_instances: U32,
    rounds: U32,
    halvings: U32,
    constants: U32,
    log_size: U32,
    public: U32,
    randoms: U32,
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    challenges: Pointer[U32],
    collapsed: Pointer[U32],
    weights: Pointer[U32],
    standing: Pointer[U32],
    progress: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """The claim of a layer's first sumcheck: what stands less the constants, halved so many times.

    `gates` are the constants, an output and a code each; `collapsed` has the public inputs of each
    proof at the point of its instances.
    """
    f, chain = MixedField(k, form.field).extended, Chain(k)
    sums = WorkgroupSums(k, f, 1)
    proof, local = k.workgroup_id(), k.local_id()
    known = _Constants(k, form, coefficients, challenges, collapsed, (public, randoms), proof)
    with k.range(local, constants, k.workgroup_size, carry=f.carried(f.zero())) as loop:
        output, code = k.load(gates, loop.index * 2, 2)
        weight = f.carried(f.load(weights, (proof << log_size) + output))
        loop.next(f.carried(loop.carried + known.times(weight, code)))
    (total,) = sums.totals([loop.results])
    own = StandingMemory(f, standing, proof, (batch, log_places, log_instances))
    next_one = Progress(f, progress, batch, proof, rounds)
    half = (form.field.modulus.value + 1) // 2
    with k.range(0, halvings, carry=f.carried(own.load(CLAIM) - total)) as loop:
        loop.next(f.carried(loop.carried * half))
    with k.if_(local == 0):
        next_one.set_claim(loop.results)
        next_one.set_state(chain, own.state(chain))


class _Constants:
    """Coefficients at the point of the instances of a proof."""

    def __init__(
        self, k: Builder, form: GateForm, table: Value, randoms: Value, collapsed: Value,
        counts: tuple[Value, Value], proof: Value,
    ) -> None:  # fmt: skip
        public, random = counts
        self._has_public, self._proof = form.has_public, proof
        self._collapsed, self._public = collapsed, public
        zero = k.constant(0, public.type)
        numbers = GateForm(form.field, (), False, form.has_random, form.below_is_base)
        self._numbers = Coefficients(k, numbers, table, randoms, zero, zero, random, zero)
        self._zero, self._mixed = zero, self._numbers.mixed

    def times(self, weight: Any, code: Value) -> Any:
        """A weight times the coefficient of a code."""
        mixed, f = self._mixed, self._mixed.extended
        if not self._has_public:
            return self._times_number(weight, code)
        with mixed.base.k.if_((code >> TAG_SHIFT) == PUBLIC_TAG) as branch:
            number = code & ((1 << TAG_SHIFT) - 1)
            known = f.load(self._collapsed, self._proof * self._public + number)
            branch.give(f.carried(weight * known))
        with branch.otherwise():
            branch.give(self._times_number(weight, code))
        return branch.results

    def _times_number(self, weight: Any, code: Value) -> Any:
        known = self._numbers.load(code, self._proof, self._zero)
        return self._mixed.extended.carried(self._mixed.multiply(weight, known))


@kernel
def set_points(
    k: Builder,
    n: U32,
    batch: U32,
    log_places: U32,
    log_instances: U32,
    log_below: U32,
    standing: Pointer[U32],
    points: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """The point of a sumcheck over inputs and instances: 1/2 for inputs, then that of instances."""
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < n):
        rounds = log_below + log_instances
        proof, place = i // rounds, i % rounds
        own = StandingMemory(f, standing, proof, (batch, log_places, log_instances))
        with k.if_(place < log_below) as branch:
            branch.give(f.carried(f.one() * ((field.modulus.value + 1) // 2)))
        with branch.otherwise():
            branch.give(own.load(own.across + place - log_below))
        f.store(points, i, branch.results)


@kernel
def end_first_sumcheck(
    k: Builder,
    batch: U32,
    log_places: U32,
    log_instances: U32,
    rounds: U32,
    log_below: U32,
    degree: U32,
    first_word: U32,
    sent_words: U32,
    progress: Pointer[U32],
    proof: Pointer[U32],
    standing: Pointer[U32],
    sent: Pointer[U32],
    *,
    field: FieldSpec,
    values: int,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Sends the rounds and the values that a first sumcheck ends with, and notes where it ended.

    Rounds beyond `log_below` are over the instances.
    """
    end = _End(k, field, hash, batch, rounds, degree, progress, proof)
    f, local = end.f, k.local_id()
    own = StandingMemory(f, standing, end.number, (batch, log_places, log_instances))
    found = end.sent(own, sent, end.number * sent_words + first_word, values)
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
    batch: U32,
    log_places: U32,
    log_instances: U32,
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
    own = StandingMemory(f, standing, proof, (batch, log_places, log_instances))
    next_one = Progress(f, progress, batch, proof, rounds)
    with k.if_(k.local_id() == 0):
        next_one.set_claim(total)
        next_one.set_state(chain, own.state(chain))


@kernel
def end_second_sumcheck(
    k: Builder,
    batch: U32,
    log_places: U32,
    log_instances: U32,
    rounds: U32,
    first_word: U32,
    sent_words: U32,
    progress: Pointer[U32],
    proof: Pointer[U32],
    standing: Pointer[U32],
    sent: Pointer[U32],
    *,
    field: FieldSpec,
    is_last: bool,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Sends the rounds and the value that a second sumcheck ends with, and combines the claims.

    Those about the inputs are not combined (`is_last`).
    """
    end = _End(k, field, hash, batch, rounds, 2, progress, proof)
    f, local = end.f, k.local_id()
    own = StandingMemory(f, standing, end.number, (batch, log_places, log_instances))
    (value,) = end.sent(own, sent, end.number * sent_words + first_word, 1)
    with k.range(local, rounds, k.workgroup_size) as loop:
        own.store(own.second + loop.index, end.progress.challenge(loop.index))
    factor = None if is_last else f.carried(challenge(f, field, end.state))
    with k.if_(local == 0):
        own.store(VALUES + 1, value)
        if factor is not None:
            own.store(FACTOR, factor)
            own.store(CLAIM, f.carried(own.load(VALUES) + factor * value))


class _End:
    """What both ends of a sumcheck do."""

    def __init__(
        self, k: Builder, field: FieldSpec, hash: Hash, batch: Value, rounds: Value,
        degree: Value | int, progress: Value, proof: Value,
    ) -> None:  # fmt: skip
        f: Any = field_arithmetic(k, field, inlined=True)
        self.f, self._chain, self.number = f, Chain(k, hash), k.workgroup_id()
        self._proof, self._batch = proof, batch
        self.progress = Progress(f, progress, batch, self.number, rounds)
        elements = rounds * degree
        self._words, self._first_value = elements * field.words, batch * elements
        self.state: Words = ()

    def sent(self, own: StandingMemory, sent: Value, start: Value, count: int) -> list[Any]:
        """The values of `count` tables; the rounds and they are copied to where the proof has them,
        and absorbed."""
        f, k = self.f, self.f.k
        source = self.number * self._words
        with k.range(k.local_id(), self._words, k.workgroup_size) as loop:
            k.store(sent, start + loop.index, self._proof[source + loop.index])
        values: list[Any] = []
        message: list[Value] = []
        for table in range(count):
            place = self._first_value + self._batch * table + self.number
            values.append(f.carried(f.load(self._proof, place)))
            message += message_words(f, values[-1])
        self.state = self._chain.absorbed(self.progress.state(self._chain), Label.VALUES, message)
        with k.if_(k.local_id() == 0):
            k.store(sent, start + self._words, *message)
            own.set_state(self._chain, self.state)
        return values
