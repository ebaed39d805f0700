"""The laws of every field, on every executor, against plain integers.

A field joins by standing in `NAMED`, an extension in `EXTENSIONS`, and a way of holding elements by
what it suits.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from quod.curve.named import CURVES
from quod.field.any_field import field_arithmetic
from quod.field.moduli import NAMED, SECP256K1_FQ, Modulus
from quod.field.named_extensions import EXTENSIONS
from quod.field.spec import Extension, FieldSpec
from quod.kernel import U32, U64, Builder, Machine, Pointer, Value, kernel
from quod.kernel.interpreter.interpreter import interpret
from tests.field.models import Coefficients, Model, packed
from tests.support.executors import LANES, run_everywhere
from tests.support.thorough import one_and_others

TOYS = [Modulus("toy.17", 17), Modulus("toy.31", 31)]
"""Montgomery form, and the folding of 2**5 - 1."""

EDGES = [
    Modulus("least", 5), Modulus("full_word", (1 << 32) - 5), Modulus("over_word", (1 << 32) + 15),
    Modulus("full_64", (1 << 64) - 59), Modulus("over_64", (1 << 64) + 13),
    Modulus("full_and_one", (1 << 128) - (9 << 32) + 1),
    Modulus("full_and_two_words", (1 << 128) - (122 << 64) - (1 << 32) + 1),
]  # fmt: skip
"""Primes that fill their words, or are the first above."""

TOY_EXTENSIONS = [
    Extension("toy.5.2", Modulus("toy.5", 5), (2, 1, 1)),
    Extension.binomial("toy.7.3", Modulus("toy.7", 7), 3, 2),
]
"""With a middle coefficient, and over a Mersenne prime."""

EDGE_EXTENSIONS = [
    Extension.binomial("full_word.2", EDGES[1], 2, -3),
    Extension("full_64.3", EDGES[3], (1, -1, 0, 1)),
]
"""Sums of products that wrap."""

FIELDS_OF_DEGREE = [
    *EXTENSIONS.values(), *(curve.tower.fq2 for curve in CURVES.values()), *EDGE_EXTENSIONS,
]  # fmt: skip

EXTENSIONS_IN_EVERY_RUN = ("m31.2", "full_word.2")
"""Those that take least to compile; one has sums of products that wrap."""

FIELDS_IN_EVERY_RUN = ("baby_bear", "m31", "goldilocks", "full_word", "full_64", "full_and_one")
"""A field of each code: Montgomery form and plain, with and without bits to spare."""

LONG = ("bn254.fr",)
"""The field of several words that runs in every test run; some edges have no bits to spare.

BLS12-381's coordinates and their extension run in test_kernels thoroughly.
"""


def case(spec: FieldSpec, *, in_every_run: bool) -> ParameterSet:
    """A field that the laws are checked for, in every test run or in `make test-all` only."""
    return pytest.param(spec, id=spec.name, marks=() if in_every_run else pytest.mark.thorough)


ROUNDS = 3


def results(f: Any, x: Any, y: Any, spec: FieldSpec) -> list[Any]:
    """Return the results to test: the operations, and further ones on their results.

    Long numbers, which take long to compile and to interpret, have fewer.
    """
    k = f.k
    product, total, less = x * y, x + y, x - y
    tested = [total, less, -x, product, f.select(f.equal(x, y), f.one(), f.constant(-2))]
    if spec.degree > 1:
        norm = f.norm(y)
        tested += [f.frobenius(x), f.embed(norm), f.scale(less, norm), f.square(total)]
    if has_inverse(spec):
        tested += [f.inverse(x)]
    if not is_short(spec):
        return [*tested, total * less] if spec.degree == 1 else tested
    wide = f.times(total, 13) - f.times(product, 5)
    with k.range(0, ROUNDS, carry=f.bounded(x)) as loop:
        loop.next(f.bounded(loop.carried * y + x - total))
    tested += [
        -wide * (less + less), f.sum_of_products([(x, y), (wide, less), (total, f.constant(3))]),
        f.square(wide), f.select(f.is_zero(x - x), y, x), loop.results, f.bounded(f.double(wide)),
    ]  # fmt: skip
    if spec.degree > 1:
        return [*tested, f.frobenius(wide, 2), f.constant(tuple(range(spec.degree))) * wide]
    return tested + [
        f.inverse(wide), f.square(x), f.select(f.is_zero(x), f.one(), x), f.canonical(wide) - y,
        f.constant(1 << 600) * x + f.zero(), f.power(x, 7), f.reduce(wide) * f.fit(wide),
    ]  # fmt: skip


def expected(m: Model, x: Coefficients, y: Coefficients) -> list[Coefficients]:
    product, total, less = m.multiply(x, y), m.add(x, y), m.subtract(x, y)
    results = [total, less, m.negate(x), product, m.constant(1 if x == y else -2)]
    if m.degree > 1:
        norm = m.constant(m.norm(y))
        results += [m.frobenius(x), norm, m.multiply(less, norm), m.multiply(total, total)]
    if has_inverse(m.spec):
        results += [m.inverse(x)]
    if not is_short(m.spec):
        return [*results, m.multiply(total, less)] if m.degree == 1 else results
    wide = m.subtract(m.times(total, 13), m.times(product, 5))
    looped = x
    for _ in range(ROUNDS):
        looped = m.subtract(m.add(m.multiply(looped, y), x), total)
    sums = m.add(m.add(product, m.multiply(wide, less)), m.times(total, 3))
    results += [
        m.times(m.multiply(wide, less), -2), sums, m.multiply(wide, wide), y, looped,
        m.times(wide, 2),
    ]  # fmt: skip
    if m.degree > 1:
        return [
            *results, m.frobenius(wide, 2), m.multiply(tuple(range(m.degree)), wide),
        ]  # fmt: skip
    return results + [
        m.inverse(wide), m.multiply(x, x), x if any(x) else m.constant(1), m.subtract(wide, y),
        m.times(x, 2**600), m.power(x, 7), m.multiply(wide, wide),
    ]  # fmt: skip


def is_short(spec: FieldSpec) -> bool:
    return spec.modulus.bits <= 64


def has_inverse(spec: FieldSpec) -> bool:
    """Long extensions have the same formula, and an inverse in the prime field as that has."""
    return spec.degree == 1 or spec.modulus.bits <= 256


def stored(k: Builder, x: Value, y: Value, out: Value, spec: FieldSpec) -> None:
    f, i = field_arithmetic(k, spec), k.global_id()
    tested = results(f, f.load(x, i), f.load(y, i), spec)
    for place, result in enumerate(tested):
        f.store(out, i * len(tested) + place, result)


@kernel
def laws_of_words(
    k: Builder, x: Pointer[U32], y: Pointer[U32], out: Pointer[U32], *, spec: FieldSpec
) -> None:
    """Every result, for coefficients of 32 bits."""
    stored(k, x, y, out, spec)


@kernel
def laws(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Every result, for coefficients of whole 64-bit words."""
    stored(k, x, y, out, spec)


def check(spec: FieldSpec, pairs: list[tuple[Coefficients, Coefficients]]) -> None:
    """Every result for pairs of elements, canonical in memory, on every executor."""
    model, pairs = Model(spec), pairs + pairs[: -len(pairs) % LANES]  # whole workgroups
    x, y = (packed(spec, list(side)) for side in zip(*pairs, strict=True))
    wanted = packed(spec, [result for pair in pairs for result in expected(model, *pair)])
    definition = laws_of_words if spec.modulus.words == 1 else laws
    right = None if is_short(spec) else [x, y, wanted]
    groups, arguments = len(pairs) // LANES, [x, y, wanted * 0]
    words = run_everywhere(definition, groups, arguments, lowered=True, right=right, spec=spec)[2]
    count = len(wanted) // len(pairs)
    for at, (row, right) in enumerate(zip(words, wanted, strict=True)):
        assert (row == right).all(), (at % count, pairs[at // count])


def hostile(modulus: Modulus) -> list[int]:
    """Values at the ends, as numbers and as what lies in memory, which may be words of ones."""
    p, size = modulus.value, 32 * modulus.words
    edges = [0, 1, p - 1, p - 2, p >> 1, (1 << 32) - 1, (1 << size - 1) - 1, 1 << modulus.bits - 1]
    words = sum(0xFFFFFFFF << place for place in range(0, modulus.bits, 64))
    inside = [edge for edge in [*edges, words] if edge < p]
    return list(dict.fromkeys([*inside, *map(modulus.from_montgomery, inside)]))


@pytest.mark.parametrize(
    "modulus",
    [
        *(
            case(field, in_every_run=field.name in (*FIELDS_IN_EVERY_RUN, *LONG))
            for field in (*NAMED.values(), *EDGES)
        ),
    ],
)
def test_laws(modulus: Modulus) -> None:
    source = random.Random(modulus.name)
    edge = [0, 1, modulus.value - 1]
    some = hostile(modulus)
    pairs = [*itertools.product(edge, edge), *zip(some, reversed(some), strict=True)]
    pairs += [(value, value) for value in some[3:5]]
    while len(pairs) % LANES:
        pairs.append((source.randrange(modulus.value), source.randrange(modulus.value)))
    check(modulus, [((x,), (y,)) for x, y in pairs])


@pytest.mark.parametrize(
    "spec",
    [case(spec, in_every_run=spec.name in EXTENSIONS_IN_EVERY_RUN) for spec in FIELDS_OF_DEGREE],
)
def test_laws_of_extensions(spec: Extension) -> None:
    source = random.Random(spec.name)
    some = hostile(spec.modulus)
    p, n = spec.modulus.value, spec.degree
    edge = [(value,) * n for value in (0, 1, p - 1)] + [(1, *[0] * (n - 1)), (*[0] * (n - 1), 1)]
    pairs = [(edge[0], edge[2]), (edge[2], edge[2]), *itertools.pairwise(edge)]
    pairs += [
        (tuple(source.choices(some, k=n)), tuple(source.choices(some, k=n))) for _ in "123456"
    ]
    pairs += [(pairs[-1][0], pairs[-1][0])]
    while len(pairs) % LANES:
        x, y = (tuple(source.randrange(p) for _ in range(n)) for _ in "xy")
        pairs.append((x, y))
    check(spec, pairs)


@pytest.mark.parametrize("modulus", one_and_others(TOYS), ids=lambda modulus: modulus.name)
def test_laws_of_every_pair(modulus: Modulus) -> None:
    elements = list(itertools.product(range(modulus.value)))
    check(modulus, list(itertools.product(elements, repeat=2)))


@pytest.mark.parametrize("spec", one_and_others(TOY_EXTENSIONS), ids=lambda spec: spec.name)
def test_laws_of_small_extensions(spec: Extension) -> None:
    """Every pair, or every element and another one."""
    elements = list(itertools.product(range(spec.modulus.value), repeat=spec.degree))
    pairs = list(itertools.product(elements, repeat=2))
    if len(pairs) > 1000:
        others = random.Random(spec.name).sample(elements, len(elements))
        pairs = list(zip(elements, others, strict=True))
    check(spec, pairs)


@pytest.mark.parametrize("capability", ["ifma52", "word_products"])
def test_vectors_where_the_modulus_fills_its_words(capability: str) -> None:
    """Limbs with the room of 16p or 32p, the least that inversion takes."""
    spec = SECP256K1_FQ
    p, model = spec.value, Model(spec)
    pairs = [(0, p - 1), (p - 1, p - 1), (1, p >> 1), (2, 3), (p - 2, 1 << 255), (1, 1), (7, 0)]
    pairs.append((spec.from_montgomery(p - 1), spec.from_montgomery(p >> 1)))
    x, y = (packed(spec, [(number,) for number in side]) for side in zip(*pairs, strict=True))
    wanted = packed(spec, [z for a, b in pairs for z in expected(model, (a,), (b,))])
    out = wanted * 0
    machine = Machine("llvm", LANES, frozenset({"u64", capability}))
    interpret(laws.trace(machine, spec=spec), 1, [x, y, out])
    assert (out == wanted).all()
