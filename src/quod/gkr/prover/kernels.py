"""Kernels over the gates of a layer: values, and the tables of both phases.

Gates are sorted once a circuit by what a table has an entry for, so that an instance adds up runs
of them, one of each kind, and writes one entry: no atomics, and nothing is cleared before.

Entries are those of all proofs of a batch, in each the places of a layer, in each the instances of
the circuit: entry ((proof << log_size) + place << log_instances) + instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.layered.circuit import KINDS, POWERS
from quod.sumcheck.eq_tables import at_corners
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums

PUBLIC_TAG, RANDOM_TAG = 1, 2
TAG_SHIFT = 30
"""Bits of a coefficient's code below its tag; a number has the tag 0."""


@frozen
class GateForm:
    """What is fixed in the kernels over a layer: its `kinds` of gates, and what its coefficients
    are beside numbers. `below_is_base` says that the values below are of the prime field."""

    field: FieldSpec
    kinds: tuple[str, ...]
    has_public: bool
    has_random: bool
    below_is_base: bool


class Coefficients:
    """The coefficients of gates inside a kernel.

    `table` has the numbers and, from `first_public` on, the public inputs of all proofs in rows of
    all instances: (proof * public + number << log_rows) + instance.
    """

    def __init__(
        self, k: Builder, form: GateForm, table: Value, randoms: Value, first_public: Value,
        public: Value, count: Value, log_rows: Value,
    ) -> None:  # fmt: skip
        """`randoms` has the random coefficients, `count` of each proof."""
        self.mixed = MixedField(k, form.field)
        self._form, self._table, self._randoms = form, table, randoms
        self._first_public, self._public = first_public, public
        self._count, self._log_rows = count, log_rows

    def load(self, code: Value, proof: Value, instance: Value) -> Any:
        """The coefficient of a code, in the prime field unless the form has random ones."""
        form, mixed = self._form, self.mixed
        k = mixed.base.k
        tag, number = code >> TAG_SHIFT, code & ((1 << TAG_SHIFT) - 1)
        place = number
        if form.has_public:
            entry = ((proof * self._public + number) << self._log_rows) + instance
            place = k.select(tag == PUBLIC_TAG, self._first_public + entry, number)
        if not form.has_random:
            return mixed.base.carried(mixed.base.load(self._table, place))
        f = mixed.extended
        with k.if_(tag == RANDOM_TAG) as branch:
            branch.give(f.carried(f.load(self._randoms, proof * self._count + number)))
        with branch.otherwise():
            branch.give(f.carried(mixed.embedded(mixed.base.load(self._table, place))))
        return branch.results


@kernel
def layer_values(
    k: Builder,
    n: U32,
    log_size: U32,
    log_below: U32,
    log_instances: U32,
    first_public: U32,
    public: U32,
    randoms: U32,
    log_rows: U32,
    starts: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    challenges: Pointer[U32],
    below: Pointer[U32],
    values: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """values[i] of n entries of a layer, from the values below it."""
    known = Coefficients(k, form, coefficients, challenges, first_public, public, randoms, log_rows)
    mixed = known.mixed
    f = mixed.base if form.below_is_base and not form.has_random else mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, place, instance = _parts(k, i, log_size, log_instances)
        taken = mixed.base if form.below_is_base else mixed.extended

        def value(x: Value) -> Any:
            at = (((proof << log_below) + x) << log_instances) + instance
            return taken.carried(taken.load(below, at))

        def part(kind: str, *row: Value) -> Any:
            *inputs, code = row
            own = known.load(code, proof, instance)
            for x in inputs:
                own = carried(
                    mixed, mixed.multiply(own, power(taken, value(x), POWERS.get(kind, 1)))
                )
            return own

        total = added_gates(
            mixed, f, form.kinds, starts, gates, place, k.constant(1, u32) << log_size, part
        )
        f.store(values, i, total)


@kernel
def corner_weights(
    k: Builder,
    n: U32,
    log_size: U32,
    zeros: U32,
    first: U32,
    second: U32,
    stride: U32,
    factor: U32,
    points: Pointer[U32],
    weights: Pointer[U32],
    *,
    field: FieldSpec,
    claims: int,
    log_each: int,
) -> None:
    """Of each proof weights[z] = eq(first point, z), with two claims + factor * eq(second, z).

    From `zeros` on weights are 0. Places in `points` are elements, `stride` a proof. An instance
    makes 2**log_each weights, n in all, which share the factors of the lower variables, so that
    neighbours in memory are those of neighbours.
    """
    f, i = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(i < n >> log_each):
        rest = log_size - log_each
        proof, lower = i >> rest, i & ((k.constant(1, u32) << rest) - 1)
        own = proof * stride

        def coordinate(start: Value, variable: Value) -> Any:
            return f.carried(f.load(points, own + start + variable))

        starts = [f.carried(f.one())]
        if claims == 2:
            starts.append(f.carried(f.load(points, own + factor)))
        with k.range(0, rest, carry=tuple(starts)) as loop:
            bit = (lower >> (rest - 1 - loop.index)) & 1
            products = []
            for product, start in zip(loop.carried, (first, second), strict=False):
                w = coordinate(start, loop.index + log_each)
                chosen = f.select(bit != 0, w, f.carried(1 - w))
                products.append(f.carried(product * chosen))
            loop.next(tuple(products))
        totals: list[Any] = []
        for product, start in zip(loop.results, (first, second), strict=False):
            ahead = [coordinate(start, k.constant(place, u32)) for place in range(log_each)]
            corners = at_corners(f, product, ahead)
            totals = (
                [f.carried(a + b) for a, b in zip(totals, corners, strict=True)]
                if totals
                else corners
            )
        for place, total in enumerate(totals):
            z = (k.constant(place, u32) << rest) + lower
            kept = f.select(z < zeros, f.carried(total), f.carried(f.zero()))
            f.store(weights, (proof << log_size) + z, kept)


@kernel
def collapse_instances(
    k: Builder,
    n: U32,
    first: U32,
    places: U32,
    log_instances: U32,
    values: Pointer[U32],
    shares: Pointer[U32],
    collapsed: Pointer[U32],
    *,
    field: FieldSpec,
    is_base: bool,
    by_workgroup: bool,
) -> None:
    """collapsed[p] = the sum over instances of shares of the proof times values, for n places.

    Values begin at entry `first`, those of `places` places of each proof, of each place those of
    all instances; of each proof there are as many shares as instances. A place is a workgroup's or
    an instance's work.
    """
    mixed = MixedField(k, field)
    f = mixed.extended
    taken = mixed.base if is_base else f
    count = k.constant(1, u32) << log_instances

    def added(place: Value, start: Value | int, step: Value | int) -> Any:
        proof = place // places
        with k.range(start, count, step, carry=f.carried(f.zero())) as loop:
            value = taken.load(values, first + (place << log_instances) + loop.index)
            share = f.load(shares, (proof << log_instances) + loop.index)
            loop.next(f.carried(loop.carried + mixed.multiply(share, value)))
        return loop.results

    if by_workgroup:
        sums, place = WorkgroupSums(k, f, 1), k.workgroup_id()
        (total,) = sums.totals([added(place, k.local_id(), k.workgroup_size)])
        with k.if_(k.local_id() == 0):
            f.store(collapsed, place, total)
        return
    place = k.global_id()
    with k.if_(place < n):
        f.store(collapsed, place, added(place, 0, 1))


@kernel
def first_phase(
    k: Builder,
    n: U32,
    first: U32,
    log_size: U32,
    log_below: U32,
    log_instances: U32,
    first_public: U32,
    public: U32,
    randoms: U32,
    log_rows: U32,
    starts: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    challenges: Pointer[U32],
    below: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """table[first + i]: for input x of entry i the sum over its gates of coefficient times weight
    of the output, and times V[y] in products."""
    known = Coefficients(k, form, coefficients, challenges, first_public, public, randoms, log_rows)
    mixed, f = known.mixed, known.mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, place, instance = _parts(k, i, log_below, log_instances)
        taken = mixed.base if form.below_is_base else f

        def part(_kind: str, *row: Value) -> Any:
            z, *inputs, code = row
            own = known.load(code, proof, instance)
            for y in inputs:
                at = (((proof << log_below) + y) << log_instances) + instance
                own = carried(mixed, mixed.multiply(own, taken.carried(taken.load(below, at))))
            return mixed.multiply(f.load(weights, (proof << log_size) + z), own)

        total = added_gates(
            mixed, f, form.kinds, starts, gates, place, k.constant(1, u32) << log_below, part
        )
        f.store(table, first + i, total)


@kernel
def second_phase(
    k: Builder,
    n: U32,
    first: U32,
    log_size: U32,
    log_below: U32,
    first_public: U32,
    public: U32,
    randoms: U32,
    log_rows: U32,
    starts: Pointer[U32],
    gates: Pointer[U32],
    coefficients: Pointer[U32],
    challenges: Pointer[U32],
    at_x: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """table[first + i]: for input y of entry i the sum over products of coefficient, weight of the
    output and eq of the other input."""
    i, size = k.global_id(), k.constant(1, u32) << log_below
    proof, place = i >> log_below, i & (size - 1)
    known = Coefficients(k, form, coefficients, challenges, first_public, public, randoms, log_rows)
    mixed, f = known.mixed, known.mixed.extended
    with k.if_(i < n):

        def part(_kind: str, *row: Value) -> Any:
            z, x, code = row
            weight = f.load(weights, (proof << log_size) + z)
            both = f.carried(weight * f.load(at_x, (proof << log_below) + x))
            return mixed.multiply(both, known.load(code, proof, k.constant(0, u32)))

        f.store(
            table, first + i, added_gates(mixed, f, form.kinds, starts, gates, place, size, part)
        )


def _parts(
    k: Builder, i: Value, log_size: Value, log_instances: Value
) -> tuple[Value, Value, Value]:
    """The proof, the place in a layer and the instance of an entry."""
    one = k.constant(1, u32)
    row = i >> log_instances
    return row >> log_size, row & ((one << log_size) - 1), i & ((one << log_instances) - 1)


def carried(mixed: MixedField, element: Any) -> Any:
    return (mixed.extended if mixed.is_extended(element) else mixed.base).carried(element)


def power(f: Any, value: Any, exponent: int) -> Any:
    """A value to the power of at most five."""
    if exponent == 1:
        return value
    square = f.carried(f.square(value))
    if exponent == 2:
        return square
    if exponent == 3:
        return f.carried(square * value)
    fourth = f.carried(f.square(square))
    return fourth if exponent == 4 else f.carried(fourth * value)


def added_gates(
    mixed: MixedField, f: Any, kinds: Sequence[str], starts: Value, gates: Value, place: Value,
    places: Value, part: Callable[..., Any],
) -> Any:  # fmt: skip
    """The sum of what the gates of a place give; of each kind there is a run of words.

    ``starts`` has for each kind places + 1 offsets in ``gates``.
    """
    k = mixed.base.k
    total = f.carried(f.zero())
    for number, kind in enumerate(kinds):
        own = place + number * (places + 1)
        width = KINDS[kind] + 1
        with k.range(starts[own], starts[own + 1], width, carry=total) as run:
            found = part(kind, *k.load(gates, run.index, width))
            found = mixed.embedded(found) if f is mixed.extended else found
            run.next(f.carried(run.carried + found))
        total = run.results
    return total
