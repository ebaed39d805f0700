"""The laws of every field, on every executor, against plain integers.

A field joins by standing in `NAMED`, and a way of holding elements by what it suits.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from quod.field.moduli import NAMED, SECP256K1_FQ, Modulus
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Machine, Pointer, Value, kernel
from quod.kernel.interpreter import interpret
from tests.executors import LANES, run_everywhere

Array = np.ndarray[Any, Any]

TOYS = [Modulus("toy.17", 17), Modulus("toy.31", 31)]
"""Montgomery form, and the folding of 2**5 - 1."""

EDGES = [
    Modulus("least", 5), Modulus("full_word", (1 << 32) - 5), Modulus("over_word", (1 << 32) + 15),
    Modulus("mersenne_61", (1 << 61) - 1), Modulus("full_64", (1 << 64) - 59),
    Modulus("over_64", (1 << 64) + 13), Modulus("full_and_one", (1 << 128) - (9 << 32) + 1),
    Modulus("full_and_two_words", (1 << 128) - (122 << 64) - (1 << 32) + 1),
]  # fmt: skip
"""Primes that fill their words, or are the first above."""

FIELDS = [*NAMED.values(), *EDGES]

ROUNDS = 3


def results(f: PrimeField, x: Any, y: Any) -> list[Any]:
    """What is tested: the operations, and what they leave as operands of one another.

    Long numbers, which take long to compile and to interpret, have fewer.
    """
    k = f.k
    product, total, less = x * y, x + y, x - y
    found = [
        total, less, -x, product, total * less, f.inverse(x),
        f.select(f.equal(x, y), f.one(), f.constant(-2)),
    ]  # fmt: skip
    if not is_short(f.modulus):
        return found
    wide = f.times(total, 13) - f.times(product, 5)
    with k.range(0, ROUNDS, carry=f.carried(x)) as loop:
        loop.next(f.carried(loop.carried * y + x - total))
    return found + [
        f.inverse(wide), -wide * (less + less),
        f.sum_of_products([(x, y), (wide, less), (total, f.constant(3))]),
        f.square(x), f.square(wide), f.select(f.is_zero(x), f.one(), x),
        f.select(f.is_zero(x - x), y, x), f.canonical(wide) - y, loop.results,
        f.constant(1 << 600) * x + f.zero(), f.carried(f.double(wide)), f.power(x, 7),
        f.reduce(wide) * f.fit(wide),
    ]  # fmt: skip


def expected(modulus: Modulus, x: int, y: int) -> list[int]:
    p = modulus.value
    product, total, less = x * y, x + y, x - y
    integers = [total, less, -x, product, total * less, pow(x, p - 2, p), 1 if x == y else -2]
    if is_short(modulus):
        wide = 13 * total - 5 * product
        looped = x
        for _ in range(ROUNDS):
            looped = looped * y + x - total
        integers += [
            pow(wide, p - 2, p), -wide * 2 * less, product + wide * less + 3 * total,
            x * x, wide * wide, 1 if x == 0 else x, y, wide - y, looped, 2**600 * x, 2 * wide, x**7,
            wide * wide,
        ]  # fmt: skip
    return [integer % p for integer in integers]


def is_short(modulus: Modulus) -> bool:
    return modulus.bits <= 64


def stored(k: Builder, x: Value, y: Value, out: Value, modulus: Modulus) -> None:
    f, i = prime_field(k, modulus), k.global_id()
    found = results(f, f.load(x, i), f.load(y, i))
    for place, result in enumerate(found):
        f.store(out, i * len(found) + place, result)


@kernel
def laws_of_words(
    k: Builder, x: Pointer[U32], y: Pointer[U32], out: Pointer[U32], *, modulus: Modulus
) -> None:
    """Every result, for elements of 32 bits."""
    stored(k, x, y, out, modulus)


@kernel
def laws(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """Every result, for elements of whole 64-bit words."""
    stored(k, x, y, out, modulus)


def packed(modulus: Modulus, numbers: list[int]) -> Array:
    size = modulus.bytes
    raw = b"".join(modulus.to_montgomery(number).to_bytes(size, "little") for number in numbers)
    return np.frombuffer(raw, np.uint32 if size == 4 else np.uint64).copy()


def check(modulus: Modulus, pairs: list[tuple[int, int]]) -> None:
    """Every result for pairs of elements, canonical in memory, on every executor."""
    pairs = pairs + pairs[: -len(pairs) % LANES]  # whole workgroups
    x, y = (packed(modulus, list(side)) for side in zip(*pairs, strict=True))
    wanted = [result for pair in pairs for result in expected(modulus, *pair)]
    out = np.zeros_like(packed(modulus, wanted))
    definition = laws_of_words if modulus.words == 1 else laws
    buffers = run_everywhere(
        definition, len(pairs) // LANES, [x, y, out], lowered=True, modulus=modulus
    )
    count = len(wanted) // len(pairs)
    found = buffers[2].reshape(len(wanted), -1)
    for at, (row, right) in enumerate(
        zip(found, packed(modulus, wanted).reshape(found.shape), strict=True)
    ):
        assert (row == right).all(), (at % count, pairs[at // count])


def hostile(modulus: Modulus) -> list[int]:
    """Values at the ends, as numbers and as what lies in memory, which may be words of ones."""
    p, size = modulus.value, 32 * modulus.words
    edges = [0, 1, p - 1, p - 2, p >> 1, (1 << 32) - 1, (1 << size - 1) - 1, 1 << modulus.bits - 1]
    words = sum(0xFFFFFFFF << place for place in range(0, modulus.bits, 64))
    inside = [edge for edge in [*edges, words] if edge < p]
    return list(dict.fromkeys([*inside, *map(modulus.from_montgomery, inside)]))


@pytest.mark.parametrize("modulus", FIELDS, ids=lambda modulus: modulus.name)
def test_laws(modulus: Modulus) -> None:
    source = random.Random(modulus.name)
    edge = [0, 1, modulus.value - 1]
    some = hostile(modulus)
    pairs = [*itertools.product(edge, edge), *zip(some, reversed(some), strict=True)]
    pairs += [(value, value) for value in some[3:5]]
    while len(pairs) % LANES:
        pairs.append((source.randrange(modulus.value), source.randrange(modulus.value)))
    check(modulus, pairs)


@pytest.mark.parametrize("modulus", TOYS, ids=lambda modulus: modulus.name)
def test_laws_of_every_pair(modulus: Modulus) -> None:
    check(modulus, list(itertools.product(range(modulus.value), repeat=2)))


def test_vectors_of_52_bits_where_the_modulus_fills_its_words() -> None:
    """Limbs with the room of 16p, the least that inversion takes."""
    p = SECP256K1_FQ.value
    pairs = [(0, p - 1), (p - 1, p - 1), (1, p >> 1), (2, 3), (p - 2, 1 << 255), (1, 1), (7, 0)]
    pairs.append((SECP256K1_FQ.from_montgomery(p - 1), SECP256K1_FQ.from_montgomery(p >> 1)))
    x, y = (packed(SECP256K1_FQ, list(side)) for side in zip(*pairs, strict=True))
    wanted = packed(SECP256K1_FQ, [z for pair in pairs for z in expected(SECP256K1_FQ, *pair)])
    out = np.zeros_like(wanted)
    machine = Machine("llvm", LANES, frozenset({"u64", "ifma52"}))
    interpret(laws.trace(machine, modulus=SECP256K1_FQ), 1, [x, y, out])
    assert out.tobytes() == wanted.tobytes()
