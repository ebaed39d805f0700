"""Sums of products of fields whose elements are one word, on factors that fill it."""

from __future__ import annotations

import numpy as np
import pytest

from quod.field.moduli import BABY_BEAR, GOLDILOCKS, KOALA_BEAR, M31, M61, Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Machine, Pointer, Value, kernel
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from tests.field.models import packed, random_integers
from tests.field.test_laws import EDGES, TOYS, hostile
from tests.support.executors import LANES, run_everywhere
from tests.support.thorough import one_and_others

TERMS = (2, 3, 5, 33)
FIELDS = [
    M31,
    BABY_BEAR,
    KOALA_BEAR,
    GOLDILOCKS,
    M61,
    *TOYS,
    *(edge for edge in EDGES if edge.bits <= 64),
]

ALWAYS = [field for field in FIELDS if field.name in ("goldilocks", "full_word", "m31")]
"""A field of each code: plain, Montgomery form without a bit to spare, and Mersenne's."""


def stored(k: Builder, x: Value, y: Value, out: Value, modulus: Modulus) -> None:
    f, i = prime_field(k, modulus), k.global_id()
    a, b = f.load(x, i), f.load(y, i)
    # Equal to a and b, with bounds as high as a word has room for.
    high, above = a, b
    for _ in range(4):
        high, above = high + f.constant(-1), above + f.constant(-1)
    high, above = high + f.constant(4), above + f.constant(4)
    sums = []
    for count in TERMS:
        sums += [[(a, b)] * count, [(high, above)] * count, [(high, f.times(above, -1))] * count]
    sums.append([(f.constant(-1), f.constant(-1))] * 7)
    for place, pairs in enumerate(sums):
        f.store(out, len(sums) * i + place, f.sum_of_products(pairs))


@kernel
def sums_of_words(
    k: Builder, x: Pointer[U32], y: Pointer[U32], out: Pointer[U32], *, modulus: Modulus
) -> None:
    """Sums of many products, for elements of 32 bits."""
    stored(k, x, y, out, modulus)


@kernel
def sums_of_long_words(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """Sums of many products, for elements of 64 bits."""
    stored(k, x, y, out, modulus)


@pytest.mark.parametrize(
    "modulus", one_and_others(FIELDS, ALWAYS), ids=lambda modulus: modulus.name
)
def test_sums_of_products(modulus: Modulus) -> None:
    p = modulus.value
    x = [p - 1, p - 1, 0, 1, *hostile(modulus), *random_integers(modulus, 2, 1)]
    x += [p - 1] * (-len(x) % LANES)
    y = [p - 1, *x[:0:-1]]
    wanted = []
    for a, b in zip(x, y, strict=True):
        for count in TERMS:
            wanted += [(sign * count * a * b % p,) for sign in (1, 1, -1)]
        wanted.append((7 % p,))
    right = packed(modulus, wanted)
    sides = [packed(modulus, [(number,) for number in side]) for side in (x, y)]
    definition = sums_of_words if modulus.words == 1 else sums_of_long_words
    sums = run_everywhere(
        definition, len(x) // LANES, [*sides, right * 0], lowered=True, modulus=modulus
    )[2]
    assert (sums == right).all()


@kernel
def sums_in_a_loop(
    k: Builder, n: U32, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """Each turn adds x*y and y to the sum of the turns before."""
    f, i = prime_field(k, modulus), k.global_id()
    a, b = f.load(x, i), f.load(y, i)
    # Congruent to b, and a number above p where that is small.
    above = f.add(f.add(b, f.constant(-1)), f.constant(1))
    running = f.running_sum()
    start = f.bounded(f.zero()) if running is None else running.zero()
    with k.range(0, n, carry=start) as loop:
        if running is None:
            loop.next(f.bounded(loop.carried + f.sum_of_products([(a, above)]) + above))
        else:
            loop.next(running.added(loop.carried, [(a, above)], [above]))
    f.store(out, i, loop.results if running is None else running.element(loop.results))


@pytest.mark.parametrize("turns", [0, 1, 2, 1500])
def test_sums_of_a_loop_are_reduced_when_they_are_complete(turns: int) -> None:
    """More products than words with 12 spare bits hold without carries."""
    p = GOLDILOCKS.value
    x = [p - 1, p - 1, 0, 1, (1 << 52) - 1, 1 << 52, (1 << 32) - 1, 1 << 63]
    y = [p - 1, 0, p - 1, p - 1, (1 << 52) - 1, p - 1, 1 << 32, (1 << 63) + 1]
    sides = [packed(GOLDILOCKS, [(number,) for number in side]) for side in (x, y)]
    wanted = packed(GOLDILOCKS, [(turns * (a + 1) * b % p,) for a, b in zip(x, y, strict=True)])
    arguments = [turns, *sides, wanted * 0]
    assert (run_everywhere(sums_in_a_loop, 1, arguments, modulus=GOLDILOCKS)[2] == wanted).all()


@kernel
def long_sum(
    k: Builder, x: Pointer[U64], out: Pointer[U64], *, modulus: Modulus, products: int, others: int
) -> None:
    """At once the sum of so many x*x, and as often x."""
    f, i = prime_field(k, modulus), k.global_id()
    a, running = f.load(x, i), f.running_sum()
    assert running is not None
    total = running.added(running.zero(), [(a, a)] * products, [a] * others)
    f.store(out, i, running.element(total))


@pytest.mark.parametrize(
    ("products", "others"),
    one_and_others(
        [(0, 0), (1023, 0), (1024, 0), (0, 2047), (1, 1023)],
        always=[(0, 0), (1, 1023)],
    ),
)
def test_a_sum_has_any_number_of_terms(products: int, others: int) -> None:
    """Columns take 1023 terms between two carries."""
    p, machine = GOLDILOCKS.value, Machine("llvm", 8, frozenset({"u64", "ifma52"}))
    x = [p - 1, (1 << 52) - 1, 1 << 52, (1 << 32) - 1, 1 << 63, 0, 1, p - 2]
    wanted = packed(GOLDILOCKS, [((products * a * a + others * a) % p,) for a in x])
    sums = wanted * 0 + 1
    arguments = [packed(GOLDILOCKS, [(a,) for a in x]).view(np.uint64), sums.view(np.uint64)]
    static = {"modulus": GOLDILOCKS, "products": products, "others": others}
    interpret(long_sum.trace(machine, **static), 1, arguments)
    assert (sums == wanted).all()


def test_vectors_of_52_bits_accumulate_products() -> None:
    has_sums: list[bool] = []

    @kernel
    def asks(k: Builder, out: Pointer[U64], *, modulus: Modulus) -> None:
        """Notes whether there is a way to add up."""
        has_sums.append(prime_field(k, modulus).running_sum() is not None)
        out[0] = k.constant(0, types.u64)

    for features in ({"u64"}, {"u64", "ifma52"}):
        for modulus in (GOLDILOCKS, M61):
            asks.trace(Machine("llvm", 8, frozenset(features)), modulus=modulus)
    assert has_sums == [False, False, True, False]
