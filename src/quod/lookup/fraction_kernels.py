"""Kernels over trees of fractions: leaves, sums of pairs, and steps between two layers."""

from __future__ import annotations

from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.hash.words import message_words
from quod.kernel import U32, U64, Builder, Pointer, kernel, u32, u64
from quod.kernel.ir.value import Value
from quod.sumcheck.memory import SumcheckProgress
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import Chain, challenge
from quod.transcript.labels import Label


@kernel
def entry_denominators(
    k: Builder,
    n: U32,
    pitch: U32,
    width: U32,
    first: U64,
    entries: Pointer[U32],
    challenges: Pointer[U32],
    level: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Compute level[first + i] = alpha - the sum of powers[j] * element j of entry i, for i < n.

    entries: `width` arrays, `pitch` elements apart, over the prime field.
    challenges: alpha, then the powers.
    """
    mixed = MixedField(k, field)
    f, i = mixed.extended, k.global_id()
    with k.if_(i < n):
        start = f.bounded(f.load(challenges, 0))
        with k.range(0, width, carry=start) as loop:
            index = loop.index.cast(u64) * pitch.cast(u64) + i.cast(u64)
            power = f.load(challenges, loop.index + 1)
            term = mixed.multiply(mixed.base.load(entries, index), power)
            loop.next(f.bounded(loop.carried - term))
        f.store(level, first + i.cast(u64), loop.results)


@kernel
def embedded_numerators(
    k: Builder, n: U32, first: U64, numerators: Pointer[U32], level: Pointer[U32], *,
    field: FieldSpec,
) -> None:  # fmt: skip
    """Set level[first + i] = numerators[i], elements of the prime field, for i < n."""
    mixed, i = MixedField(k, field), k.global_id()
    with k.if_(i < n):
        element = mixed.embedded(mixed.base.bounded(mixed.base.load(numerators, i)))
        mixed.extended.store(level, first + i.cast(u64), element)


@kernel
def add_fractions(
    k: Builder,
    n: U32,
    from_first: U64,
    to_first: U64,
    above: Pointer[U32],
    below: Pointer[U32],
    *,
    field: FieldSpec,
    has_numerators: bool,
) -> None:
    """Add the 2*n fractions in `above` pairwise into n in `below`: fractions i and i + n.

    Each level has its numerators, then its denominators, from index `from_first` of `above` and
    `to_first` of `below` on. Without numerators in `above` they are 1.
    """
    f: Any = field_arithmetic(k, field, inlined=True)
    i = k.global_id()
    with k.if_(i < n):
        size = n.cast(u64)

        def load(block: int) -> Any:
            return f.bounded(f.load(above, from_first + size * block + i.cast(u64)))

        if has_numerators:
            n0, n1, d0, d1 = (load(block) for block in range(4))
            numerator = f.sum_of_products([(n0, d1), (n1, d0)])
        else:
            d0, d1 = (load(block) for block in range(2))
            numerator = d0 + d1
        f.store(below, to_first + i.cast(u64), numerator)
        f.store(below, to_first + size + i.cast(u64), d0 * d1)


@frozen
class LayerForm:
    """The static parameters of the step from the layer that ended to the next layer.

    counts: the number of values in the ended layer of each of its trees: numerators, then
        denominators.
    continuing_trees: the indices, among these trees, of those that have a further layer. If there
        are none, only the last point and the transcript's state are computed.
    was_shifted: whether the first tree's values in the ended layer are shifted values, which
        must be subtracted from the shift.
    is_shifted: whether the next layer has shifted values, for which two scales follow the powers
        (`quod.lookup.tree`).
    """

    field: FieldSpec
    counts: tuple[int, ...]
    continuing_trees: tuple[int, ...]
    was_shifted: bool
    is_shifted: bool
    hash: Hash = Hash.SHA3_256


@kernel
def next_layer(
    k: Builder,
    log_before: U32,
    first_value: U32,
    first_scale: U32,
    values: Pointer[U32],
    before: Pointer[U32],
    after: Pointer[U32],
    point: Pointer[U32],
    equality: Pointer[U32],
    shift: Pointer[U32],
    *,
    form: LayerForm,
) -> None:
    """Compute the next layer's claim, point and scales from the values of the ended layer.

    Runs in one workgroup. `values` has the values of each tree from index `first_value`. `before`
    and `after` are the progress of both layers' sumchecks
    (`quod.sumcheck.memory.SumcheckProgress`), of log_before and log_before + 1 variables.
    `equality` is the next sumcheck's buffer of eq tables, which has the scales from index
    `first_scale`.
    """
    field = form.field
    f: Any = field_arithmetic(k, field, inlined=True)
    chain = Chain(k, form.hash)
    one = k.constant(1, u32)
    zero = one - 1
    previous_progress = SumcheckProgress(f, before, one, zero, log_before)
    next_progress = SumcheckProgress(f, after, one, zero, log_before + 1)
    tree_values: list[list[Any]] = []
    message: list[Value] = []
    for count in form.counts:
        start = sum(map(len, tree_values))
        values_of_tree = [
            f.bounded(f.load(values, first_value + start + index)) for index in range(count)
        ]
        if form.was_shifted and not tree_values:
            values_of_tree = [f.bounded(f.load(shift, 0) - element) for element in values_of_tree]
        for element in values_of_tree:
            message += message_words(f, element)
        tree_values.append(values_of_tree)
    # Every instance computes the whole step, and one instance stores the results.
    state = chain.absorbed(previous_progress.state(chain), Label.VALUES, message)
    # The selector binds the variable that selects between the values at 0 and at 1.
    selector = f.bounded(challenge(f, field, state))
    with k.range(k.local_id(), log_before, k.workgroup_size) as loop:
        f.store(point, loop.index + 1, previous_progress.challenge(loop.index))
    with k.if_(k.local_id() == 0):
        f.store(point, zero, selector)
    if not form.continuing_trees:
        with k.if_(k.local_id() == 0):
            next_progress.set_state(chain, state)
        return
    state = chain.absorbed(state, Label.NEXT, ())
    scale = f.bounded(challenge(f, field, state))
    claims = []
    for tree in form.continuing_trees:
        n0, n1, d0, d1 = tree_values[tree]
        claims += [f.bounded(low + selector * (high - low)) for low, high in ((d0, d1), (n0, n1))]
    claim, scales = claims[0], [scale]
    for tree_claim in claims[1:]:
        claim = f.bounded(claim + scales[-1] * tree_claim)
        scales.append(f.bounded(scales[-1] * scale))
    scales.pop()
    # alpha + scale and alpha * (alpha + 2 * scale); see `quod.lookup.tree.FractionTrees`, where mu
    # is the scale.
    if form.is_shifted:
        alpha = f.bounded(f.load(shift, 0))
        shift_plus_scale = f.bounded(alpha + scale)
        scales += [shift_plus_scale, alpha * f.bounded(shift_plus_scale + scale)]
    with k.if_(k.local_id() == 0):
        next_progress.set_state(chain, state)
        next_progress.set_claim(claim)
        for index, element in enumerate(scales):
            f.store(equality, first_scale + index, element)


@kernel
def add_parts(
    k: Builder, count: U32, parts: Pointer[U32], sums: Pointer[U32], place: U32, *,
    field: FieldSpec,
) -> None:  # fmt: skip
    """Set sums[place] to the sum of `count` partial sums. Runs in one workgroup."""
    f: Any = field_arithmetic(k, field, inlined=True)
    workgroup_sums = WorkgroupSums(k, f, 1)
    start = f.bounded(f.zero())
    with k.range(k.local_id(), count, k.workgroup_size, carry=start) as loop:
        loop.next(f.bounded(loop.carried + f.load(parts, loop.index)))
    (total,) = workgroup_sums.totals([loop.results])
    with k.if_(k.local_id() == 0):
        f.store(sums, place, total)
