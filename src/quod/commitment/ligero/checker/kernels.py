"""Kernels that check an opening: its combination at the claims' points and at the opened columns.

A proof contains canonical integers. A kernel loads them as elements in memory form, that is,
divided by the Montgomery radix. In a comparison both sides have this factor, or one side is
multiplied by the radix. A verdict is the run's ticket, a random number, plus `PASSED` or `FAILED`;
so memory that this run has not written has no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.field.strategy import prime_field
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import RunHash

PASSED, FAILED = 1, 2
"""Verdicts of checks; each is stored as its sum with the run's ticket, a multiple of four."""

NODE_ROW_WORDS = 3
"""The number of words of a row: the indices of two children and of their parent."""
NONE = 0xFFFFFFFF
"""The index of a missing node in a row of a level."""

_LEAF, _NODE = 0, 1
"""The levels with which leaves and other nodes are hashed (`Hash.digests_of_runs`)."""


@kernel
def expand_corners(
    k: Builder,
    n: U32,
    log_size: U32,
    first: U32,
    out: U32,
    points: Pointer[U32],
    corners: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Write the eq table of a point to `corners`: entry out + c is eq at hypercube point c.

    The point's log_size coordinates begin at element `first` of `points`; n is 2**log_size.
    """
    f, hypercube_point = field_arithmetic(k, field, inlined=True), k.global_id()
    with k.if_(hypercube_point < n):
        with k.range(0, log_size, carry=f.bounded(f.one())) as loop:
            coordinate = f.bounded(f.load(points, first + loop.index))
            bit = (hypercube_point >> (log_size - 1 - loop.index)) & 1
            loop.next(
                f.bounded(loop.carried * f.select(bit != 0, coordinate, f.bounded(1 - coordinate)))
            )
        f.store(corners, out + hypercube_point, loop.results)


@kernel
def expand_places(
    k: Builder,
    n: U32,
    log_low: U32,
    log_message: U32,
    log_length: U32,
    places: Pointer[U32],
    twiddles: Pointer[U32],
    factors: Pointer[U32],
    *,
    modulus: Modulus,
) -> None:
    """Compute the coefficients of the code at each opened column.

    places: the indices of the opened columns.
    factors: per column, the factors of all l, then the factors of all h.
    twiddles: the table of the code (`quod.commitment.ligero.code`).

    An element of a codeword is the sum of message elements times coefficients. The coefficient of
    message element h * 2**log_low + l is the factor of l times the factor of h. log_low is at most
    log_high, and a low index has no bits from log_low on.
    """
    f: Any = prime_field(k, modulus)
    one, i = k.constant(1, u32), k.global_id()
    with k.if_(i < n):
        log_high = log_message - log_low
        column_factors = (one << log_low) + (one << log_high)
        (column_index,) = k.load(places, i // column_factors)
        entry = i % column_factors
        is_high = entry >= one << log_low
        bits = k.select(is_high, entry - (one << log_low), entry)
        first_level = k.select(is_high, log_low, k.constant(0, u32))
        with k.range(0, log_high, carry=f.bounded(f.one())) as loop:
            level = k.minimum(first_level + loop.index, log_message - 1)
            level_index = column_index >> level
            twiddle = f.bounded(
                f.load(twiddles, ((one << (log_length - level)) + level_index) >> 1)
            )
            twiddle = f.select((level_index & 1) != 0, f.bounded(-twiddle), twiddle)
            is_set = ((bits >> loop.index) & 1) != 0
            product = f.bounded(loop.carried * twiddle)
            loop.next(f.select(is_set, product, loop.carried))
        f.store(factors, i, loop.results)


@kernel
def check_claims(
    k: Builder,
    claims: U32,
    log_low: U32,
    log_high: U32,
    record: U32,
    corners: Pointer[U32],
    weights: Pointer[U32],
    combination: Pointer[U32],
    ticket: Pointer[U32],
    records: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Check that the weighted values of the combination at the claims' points have the given sum.

    weights: a weight per claim, then the sum.
    corners: per claim, the eq table of the upper coordinates of its point, then of the lower ones.
    Runs in one workgroup, which writes the verdict to records[record].
    """
    f = field_arithmetic(k, field, inlined=True)
    sums, zero = WorkgroupSums(k, f, 1), f.bounded(f.zero())
    one = k.constant(1, u32)
    low_count, high_count = one << log_low, one << log_high
    with k.range(0, claims, carry=zero) as claim_loop:
        first = claim_loop.index * (high_count + low_count)

        def corner(index: Value) -> Any:
            return f.bounded(f.load(corners, index))

        total = _by_halves(
            k, f, log_low, high_count, lambda high: corner(first + high),
            lambda low: corner(first + high_count + low), combination,
            lambda element, factor: element * factor,
        )  # fmt: skip
        claim_loop.next(
            f.bounded(claim_loop.carried + f.bounded(f.load(weights, claim_loop.index)) * total)
        )
    (computed_sum,) = sums.totals([claim_loop.results])
    computed_sum = f.bounded(_of_integer(f, computed_sum))
    _write_verdict(k, f, computed_sum - f.bounded(f.load(weights, claims)), ticket, records, record)


@kernel
def check_columns(
    k: Builder,
    log_low: U32,
    log_high: U32,
    rows: U32,
    factors: Pointer[U32],
    combination: Pointer[U32],
    weights: Pointer[U32],
    columns: Pointer[U32],
    ticket: Pointer[U32],
    records: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Check that each opened column's weighted sum is its element of the combination's codeword.

    One workgroup checks one column, and writes the verdict to the record with the column's index.
    """
    mixed = MixedField(k, field)
    f, base = mixed.extended, mixed.base
    sums, zero = WorkgroupSums(k, f, 1), f.bounded(f.zero())
    one, column = k.constant(1, u32), k.workgroup_id()
    low_count, high_count = one << log_low, one << log_high
    first = column * (low_count + high_count)

    def factor(index: Value) -> Any:
        return base.bounded(base.load(factors, index))

    codeword_element = _by_halves(
        k, f, log_low, high_count, lambda high: factor(first + low_count + high),
        lambda low: factor(first + low),
        combination, mixed.multiply,
    )  # fmt: skip
    with k.range(k.local_id(), rows, k.workgroup_size, carry=zero) as loop:
        entry = base.bounded(base.load(columns, column * rows + loop.index))
        weight = f.bounded(f.load(weights, loop.index))
        loop.next(f.bounded(loop.carried + mixed.multiply(weight, entry)))
    (difference,) = sums.totals([f.bounded(codeword_element - loop.results)])
    _write_verdict(k, f, difference, ticket, records, column)


def _by_halves(
    k: Builder, f: Any, log_low: Value, highs: Value, high: Callable[[Value], Any],
    low: Callable[[Value], Any], combination: Value, multiply: Callable[[Any, Any], Any],
) -> Any:  # fmt: skip
    """Return this instance's part of the sum of high factor * low factor * combination element.

    highs: the number of high factors.
    """
    zero = f.bounded(f.zero())
    with k.range(0, highs, carry=zero) as outer:
        start = outer.index << log_low
        with k.range(
            k.local_id(), k.constant(1, u32) << log_low, k.workgroup_size, carry=zero
        ) as inner:
            element = f.bounded(f.load(combination, start + inner.index))
            inner.next(f.bounded(inner.carried + multiply(element, low(inner.index))))
        part = multiply(inner.results, high(outer.index))
        outer.next(f.bounded(outer.carried + part))
    return outer.results


def _of_integer(f: Any, element: Any) -> Any:
    """Convert an integer in memory to an element."""
    radix = f.modulus.montgomery_radix
    return element if radix == 1 else element * (radix % f.modulus.value)


def _write_verdict(
    k: Builder, f: Any, difference: Any, tickets: Value, records: Value, record: Value
) -> None:
    """Write the verdict on a difference: `PASSED` if it is 0, else `FAILED`, plus the ticket."""
    with k.if_(k.local_id() == 0):
        (ticket,) = k.load(tickets, 0)
        is_zero = f.is_zero(f.bounded(difference))
        k.store(records, record, ticket + k.select(is_zero, k.constant(PASSED, u32), FAILED))


@kernel
def hash_opened(
    k: Builder, count: U32, columns: Pointer[U32], nodes: Pointer[U32],
    *, words: int, hash: Hash = Hash.SHA3_256,
) -> None:  # fmt: skip
    """Hash opened columns: nodes[i] is the leaf of the `words` 32-bit words of column i."""
    digest, column = RunHash(k, hash), k.global_id()
    with k.if_(column < count):
        start = column * words
        leaf = digest(lambda at, size: k.load(columns, start + at, size), words, _LEAF)
        k.store(nodes, column * STATE_WORDS, *leaf)


@kernel
def hash_level(
    k: Builder, first: U32, count: U32, rows: Pointer[U32], nodes: Pointer[U32],
    *, hash: Hash = Hash.SHA3_256,
) -> None:  # fmt: skip
    """Hash one level of the Merkle paths.

    A row has the indices of both children and of their parent in `nodes`. A row of `NONE` is
    padding.
    """
    digest, node = RunHash(k, hash), k.global_id()
    with k.if_(node < count):
        left, right, out = k.load(rows, (first + node) * NODE_ROW_WORDS, NODE_ROW_WORDS)
        with k.if_(left != NONE):
            children = [
                word
                for child in (left, right)
                for word in k.load(nodes, child * STATE_WORDS, STATE_WORDS)
            ]

            def load(offset: Value, size: int) -> Sequence[Value]:
                begin = offset.constant
                if isinstance(begin, int) or size == len(children):
                    return children[int(begin or 0) :][:size]
                # A block of a hash over a field is the digest of one child.
                half = k.select(offset < STATE_WORDS, left, right)
                return k.load(nodes, half * STATE_WORDS + offset % STATE_WORDS, size)

            k.store(nodes, out * STATE_WORDS, *digest(load, len(children), _NODE))
