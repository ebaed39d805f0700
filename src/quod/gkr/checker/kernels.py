"""Kernels that check proofs of layered circuits.

Nothing of a transcript depends on a claim, so all challenges come first; and every claim is sent,
so that all sums over gates and all layers are checked side by side, whatever is above them.

What kernels read beside proofs are tables of rows that `quod.gkr.checker.schedule` makes of a
circuit. Elements of a proof are canonical integers, as bytes have them. A workgroup does one tile
of the work of one proof: workgroup proof * tiles + tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.gkr.checker.hashes import MessageHash
from quod.gkr.checker.messages import NONE
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import STATE_WORDS, challenge
from quod.transcript.hashes import Hash

MESSAGE_ROW, FACTOR_ROW, TABLE_ROW, PART_ROW, EVALUATION_ROW = 2, 6, 9, 6, 9
"""Numbers of each kind of row."""

READ, FIRST_WRONG, STATE = 0, 1, 2
FIRST_CHECK = STATE + STATE_WORDS
"""Records of a proof: the ticket of the run that read its messages, the first of them that is of no
elements, the state of the transcript behind them, and those of checks."""


@frozen
class SumForm:
    """Sums over gates with so many `inputs`. Coefficients are numbers and public inputs, or with
    `is_random` challenges; `by_instance` they are constants, each a public input an instance."""

    field: FieldSpec
    inputs: int
    is_random: bool = False
    by_instance: bool = False
    has_public: bool = False


@kernel
def read_messages(
    k: Builder,
    batch: U32,
    messages: U32,
    elements: U32,
    stride: U32,
    rows: Pointer[U32],
    begun: Pointer[U32],
    sent: Pointer[U32],
    challenges: Pointer[U32],
    records: Pointer[U32],
    *,
    field: FieldSpec,
    hash: Hash,
    most_words: int,
    alone: bool,
) -> None:
    """The challenge after each message of a proof, and which message is the first of no elements.

    A row is the header of a message and its first element in the proof. `begun` has the ticket and
    the states of the transcripts. A workgroup a proof, `alone` an instance.
    """
    f = field_arithmetic(k, field, inlined=True)
    chain = MessageHash(k, hash, most_words, alone=alone)

    def read(proof: Value, stores: Value) -> None:
        state = k.load(begun, proof * STATE_WORDS + 1, STATE_WORDS)
        with k.range(0, messages, carry=(state, messages)) as loop:
            state, wrong = loop.carried
            header, first = k.load(rows, loop.index * MESSAGE_ROW, MESSAGE_ROW)
            length = (header & 0xFFFFFF) >> 2
            message = k.load(sent, (proof * elements + first) * field.words, most_words)
            state = chain.absorbed(state, header, message, length)
            found = f.carried(challenge(f, field, state))
            with k.if_(stores):
                f.store(challenges, proof * messages + loop.index, found)
            good = _all_below(k, field.modulus, message, length)
            wrong = k.select(good | (wrong != messages), wrong, loop.index)
            loop.next((state, wrong))
        with k.if_(stores):
            (ticket,) = k.load(begun, 0)
            state, wrong = loop.results
            k.store(records, proof * stride + READ, ticket, wrong, *state)

    if alone:
        own = k.global_id()
        with k.if_(own < batch):
            read(own, own < batch)
    else:
        read(k.workgroup_id(), k.local_id() == 0)


def _all_below(k: Builder, modulus: Modulus, words: Sequence[Value], length: Value) -> Value:
    """Whether the integers in the first `length` words are below p."""
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


@kernel
def expand_factors(
    k: Builder,
    first_tile: U32,
    tiles: U32,
    messages: U32,
    stride: U32,
    rows: Pointer[U32],
    coordinates: Pointer[U32],
    challenges: Pointer[U32],
    factors: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """eq of some coordinates at all their corners, times a challenge.

    A row is the first entry, the first of the coordinates and their number, the challenge or
    `NONE`, and the corners from where to where the tile goes; `coordinates` are challenges.
    """
    f = field_arithmetic(k, field, inlined=True)
    proof, tile = k.workgroup_id() // tiles, k.workgroup_id() % tiles + first_tile
    out, first, count, scale, start, stop = k.load(rows, tile * FACTOR_ROW, FACTOR_ROW)
    own = proof * messages
    known = f.carried(f.load(challenges, own + k.select(scale == NONE, 0, scale)))
    begin = f.select(scale == NONE, f.carried(f.one()), known)
    with k.range(k.local_id() + start, stop, k.workgroup_size) as loop:
        corner = loop.index
        with k.range(0, count, carry=begin) as bits:
            (place,) = k.load(coordinates, first + bits.index)
            w = f.carried(f.load(challenges, own + place))
            bit = (corner >> (count - 1 - bits.index)) & 1
            chosen = f.select(bit != 0, w, f.carried(1 - w))
            bits.next(f.carried(bits.carried * chosen))
        f.store(factors, proof * stride + out + corner, bits.results)


@kernel
def expand_tables(
    k: Builder,
    first_tile: U32,
    tiles: U32,
    factor_stride: U32,
    stride: U32,
    rows: Pointer[U32],
    factors: Pointer[U32],
    tables: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Tables of eq of one point, or of the sum of two, from the factors of their halves.

    A row is the first entry, the logarithm of the lower factors, where the upper and the lower
    factors of both points begin, how many entries are not 0, and which upper factors are the
    tile's.
    """
    f = field_arithmetic(k, field, inlined=True)
    proof, tile = k.workgroup_id() // tiles, k.workgroup_id() % tiles + first_tile
    out, log_low, high, low, high_2, low_2, zeros, start, stop = k.load(
        rows, tile * TABLE_ROW, TABLE_ROW
    )
    own = proof * factor_stride
    size = k.constant(1, u32) << log_low

    def expand(points: Sequence[tuple[Value, Value]]) -> None:
        with k.range(start, stop) as outer:
            uppers = [f.carried(f.load(factors, own + at + outer.index)) for at, _ in points]
            with k.range(k.local_id(), size, k.workgroup_size) as inner:
                lowers = [f.carried(f.load(factors, own + at + inner.index)) for _, at in points]
                entry = f.carried(f.sum_of_products(list(zip(uppers, lowers, strict=True))))
                place = (outer.index << log_low) + inner.index
                entry = f.select(place < zeros, entry, f.carried(f.zero()))
                f.store(tables, proof * stride + out + place, entry)

    with k.if_(high_2 == NONE) as branch:
        expand([(high, low)])
    with branch.otherwise():
        expand([(high, low), (high_2, low_2)])


@kernel
def add_gates(
    k: Builder,
    first_tile: U32,
    tiles: U32,
    parts: U32,
    tags: U32,
    gates_total: U32,
    stride: U32,
    numbers: U32,
    public: U32,
    first_random: U32,
    messages: U32,
    log_instances: U32,
    rows: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    challenges: Pointer[U32],
    tables: Pointer[U32],
    partial: Pointer[U32],
    begun: Pointer[U32],
    *,
    form: SumForm,
) -> None:
    """A part of a sum over gates: coefficient times weight of the output, times eq of each input.

    A row is where the tables of the weights and of both inputs begin, the first gate and the number
    of them (`by_instance` instances of gates), and the part. `gates` are columns of outputs, inputs
    and coefficients. Behind the parts there is the ticket of the run for each.
    """
    mixed = MixedField(k, form.field)
    f, base = mixed.extended, mixed.base
    sums = WorkgroupSums(k, f, 1)
    proof, tile = k.workgroup_id() // tiles, k.workgroup_id() % tiles + first_tile
    weights, first_input, second_input, first, count, part = k.load(rows, tile * PART_ROW, PART_ROW)
    own = proof * stride

    def coefficient(place: Value, instance: Value) -> Any:
        if form.is_random:
            return f.carried(f.load(challenges, proof * messages + first_random + place))
        if form.has_public:
            entry = ((proof * public + place - numbers) << log_instances) + instance + numbers
            place = k.select(place < numbers, place, entry)
        return base.carried(base.load(coefficients, place))

    with k.range(k.local_id(), count, k.workgroup_size, carry=f.carried(f.zero())) as loop:
        item = first + loop.index
        gate, instance = item, k.constant(0, u32)
        if form.by_instance:
            gate = item >> log_instances
            instance = item - (gate << log_instances)
        columns = [
            k.load(gates, gate + gates_total * column)[0] for column in range(form.inputs + 2)
        ]
        output, *inputs, code = columns
        places = [first_input + x if n == 0 else second_input + x for n, x in enumerate(inputs)]
        if form.by_instance:
            places = [first_input + instance]
        part_sum = f.carried(f.load(tables, own + weights + output))
        part_sum = f.carried(mixed.multiply(part_sum, coefficient(code, instance)))
        for place in places:
            part_sum = f.carried(part_sum * f.carried(f.load(tables, own + place)))
        loop.next(f.carried(loop.carried + part_sum))
    (total,) = sums.totals([loop.results])
    with k.if_(k.local_id() == 0):
        f.store(partial, proof * parts + part, total)
        k.store(partial, tags + proof * parts + part, *k.load(begun, 0))


@kernel
def evaluate_tables(
    k: Builder,
    first_tile: U32,
    tiles: U32,
    parts: U32,
    tags: U32,
    factor_stride: U32,
    log_size: U32,
    rows: Pointer[U32],
    factors: Pointer[U32],
    values: Pointer[U32],
    partial: Pointer[U32],
    begun: Pointer[U32],
    *,
    field: FieldSpec,
    claims: int,
) -> None:
    """Parts of the values at one or two points of each proof's table of inputs, integers below p.

    A row is the logarithm of the lower factors, where the upper and the lower factors of both
    points begin, which upper factors are the tile's, and the part of each point.
    """
    mixed = MixedField(k, field)
    f, base = mixed.extended, mixed.base
    sums = WorkgroupSums(k, f, claims)
    proof, tile = k.workgroup_id() // tiles, k.workgroup_id() % tiles + first_tile
    row = k.load(rows, tile * EVALUATION_ROW, EVALUATION_ROW)
    log_low, start, stop = row[0], row[5], row[6]
    size, own = k.constant(1, u32) << log_low, proof * factor_stride
    zeros = tuple(f.carried(f.zero()) for _ in range(claims))
    with k.range(start, stop, carry=zeros) as outer:
        with k.range(k.local_id(), size, k.workgroup_size, carry=zeros) as inner:
            place = (proof << log_size) + (outer.index << log_low) + inner.index
            value = base.carried(base.load(values, place))
            lowers = [f.load(factors, own + row[2 + 2 * n] + inner.index) for n in range(claims)]
            parts_of = [mixed.multiply(f.carried(lower), value) for lower in lowers]
            inner.next(
                tuple(f.carried(a + b) for a, b in zip(inner.carried, parts_of, strict=True))
            )
        uppers = [f.load(factors, own + row[1 + 2 * n] + outer.index) for n in range(claims)]
        outer.next(
            tuple(
                f.carried(total + f.carried(upper) * part)
                for total, upper, part in zip(outer.carried, uppers, inner.results, strict=True)
            )
        )
    # Integers were taken for elements, which are so many times as large.
    totals = [f.carried(of_integer(f, total)) for total in sums.totals(list(outer.results))]
    with k.if_(k.local_id() == 0):
        for n, total in enumerate(totals):
            f.store(partial, proof * parts + row[7 + n], total)
            k.store(partial, tags + proof * parts + row[7 + n], *k.load(begun, 0))


def of_integer(f: Any, element: Any) -> Any:
    """The element that an integer in memory stands for."""
    radix = f.modulus.montgomery_radix
    return element if radix == 1 else element * (radix % f.modulus.value)
