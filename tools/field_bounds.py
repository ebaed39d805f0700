"""Test the bounds that field strategies prove, by operations on limbs as large as the bounds.

    python -m tools.field_bounds --cases 2000 --seed 1
    python -m tools.field_bounds --strategy 28/64 --seed 1 --first 117 --cases 1

An element claims a maximum of each limb, and a bound of the integer that they encode. A case is two
elements of a field whose limbs reach their claims; claims go up to the largest that the strategy
allows. The result of each operation must be right, and its limbs must satisfy its own claims. A
case depends only on the strategy, the seed and its number.
"""

from __future__ import annotations

import argparse
import itertools
import operator
import sys
import time
from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from quod.field.element import Element
from quod.field.moduli import M61, MAX_BITS, NAMED, Modulus
from quod.field.prime import PrimeField
from quod.field.strategies.ifma52 import Ifma52
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.field.strategies.limbs29 import Limbs29
from quod.field.strategies.limbs32 import Limbs32
from quod.field.strategies.limbs64 import Limbs64
from quod.field.strategies.mersenne61 import STRATEGY as MERSENNE61
from quod.field.strategies.one_word import STRATEGY as ONE_WORD
from quod.field.strategies.spare_limbs import SpareLimbs
from quod.frozen import frozen
from quod.kernel import U64, Builder, Machine, Pointer, kernel
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types

LANES = 24
Make = Callable[[Builder, Modulus], PrimeField]


class Limbs32Karatsuba(Limbs32):
    """The other form of products."""

    product_form = "karatsuba"


_SMALL_WORDS = frozenset({"u64", "low_products"})
_NARROW = [f"{bits}:{form}" for bits in range(12, 17) for form in ("columns", "rows", "rolled")]
_WIDE = [f"{bits}/64:{form}" for bits in (28, 29, 30) for form in ("columns", "rows", "rolled")]
_KARATSUBA = [
    "12:karatsuba",
    "13:karatsuba",
    "28/64:karatsuba",
    "29/64:karatsuba",
    "30/64:karatsuba",
]

STRATEGIES: dict[str, tuple[Make, Machine]] = {
    "one_word": (ONE_WORD.arithmetic, Machine("llvm", LANES, frozenset({"u64", "carry"}))),
    "one_word32": (ONE_WORD.arithmetic, Machine("ptx", LANES, frozenset({"u64", "carry32"}))),
    "mersenne61": (MERSENNE61.arithmetic, Machine("llvm", LANES, frozenset({"u64"}))),
    "limbs64": (Limbs64, Machine("llvm", LANES, frozenset({"u64", "carry"}))),
    "limbs32": (Limbs32, Machine("ptx", LANES, frozenset({"u64", "carry", "carry32"}))),
    "limbs32:karatsuba": (Limbs32Karatsuba, Machine("ptx", LANES, frozenset({"u64", "carry32"}))),
    "ifma52": (Ifma52, Machine("llvm", LANES, frozenset({"u64", "ifma52"}))),
    "limbs29": (Limbs29, Machine("llvm", LANES, frozenset({"u64", "word_products"}))),
    **{
        name: (LazyLimbs, Machine("wgsl", LANES, _SMALL_WORDS, limbs=name))
        for name in (*_NARROW, *_WIDE, *_KARATSUBA)
    },
}
"""By name: a constructor of the field for each representation of elements, and a machine for it."""


@frozen
class Claim:
    """An element's claims: the integer is below `bound`, and limb i is at most maxima[i]."""

    bound: int
    maxima: tuple[int, ...]


class Results:
    """The elements that a kernel has stored, by the name of the operation."""

    def __init__(self) -> None:
        self.elements: dict[str, Element] = {}


@frozen
class Case:
    """Two elements of a field; `linear`: whether they have the Montgomery factor of memory."""

    strategy: str
    modulus: Modulus
    claims: tuple[Claim, Claim]
    linear: bool

    def field(self, k: Builder) -> PrimeField:
        return STRATEGIES[self.strategy][0](k, self.modulus)


@kernel
def operations(
    k: Builder, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], words: Pointer[U64], *,
    case: Case, results: Results,
) -> None:  # fmt: skip
    """Store the limbs of every operation's result, and the words of x as stored in memory."""
    f, i = case.field(k), k.local_id()
    n = f.limb_count
    exponent = f.memory_exponent if case.linear else f.native_exponent
    x, y = (
        Element(
            f, tuple(limb.cast(f.limb_type) for limb in k.load(memory, i * n, n)), claim.bound,
            claim.maxima, exponent,
        )
        for memory, claim in zip((a, b), case.claims, strict=True)
    )  # fmt: skip
    room = f.room
    results.elements = elements = {
        "x": f.normalise(x), "fit x": f.fit(x), "bounded x": f.bounded(x), "reduce x": f.reduce(x),
        "reduce x to p": f.reduce(x, f.p), "canonical x": f.canonical(x),
        "unify x to p": f.unify([x], f.p)[0], "unify x to all": f.unify([x], room << 9)[0],
        "x + y": x + y, "x + x": x + x, "x - y": x - y, "y - x": y - x, "-x": -x,
        "x * y": x * y, "x * x": f.square(x), "11 * x": f.times(x, 11), "5 * y - x": y * 5 - x,
        "x * y + y * y": f.sum_of_products([(x, y), (y, y)]),
        "x or y": f.select((i & 1) == 0, x, y),
        "7 * (x or y)": f.times(f.select((i & 1) == 0, x, y), 7),
    }  # fmt: skip
    for place, element in enumerate(elements.values()):
        limbs = [limb.cast(types.u64) for limb in element.limbs]
        k.store(out, (i * len(elements) + place) * n, *limbs)
    stored = [word.cast(types.u64) for word in f.to_words(x)]
    k.store(words, i * f.word_count, *stored)


_EXPECTED: dict[str, Callable[[int, int, int], int]] = {
    "x + y": lambda x, y, _: x + y, "x + x": lambda x, _y, _: x + x, "x - y": lambda x, y, _: x - y,
    "y - x": lambda x, y, _: y - x, "-x": lambda x, _y, _: -x, "x * y": lambda x, y, _: x * y,
    "x * x": lambda x, _y, _: x * x, "11 * x": lambda x, _y, _: 11 * x,
    "5 * y - x": lambda x, y, _: 5 * y - x, "x * y + y * y": lambda x, y, _: x * y + y * y,
    "x or y": lambda x, y, lane: y if lane % 2 else x,
    "7 * (x or y)": lambda x, y, lane: 7 * (y if lane % 2 else x),
}  # fmt: skip
"""The expected value of each operation that does not return x itself."""


def problem(case: Case, rng: Random) -> str | None:
    """Return the error of an operation on elements that satisfy their claims, or None."""
    results, machine = Results(), STRATEGIES[case.strategy][1]
    traced = operations.trace(machine, case=case, results=results)
    f, p = case.field(Builder(machine)), case.modulus.value
    n, bits, names = f.limb_count, f.limb_bits, list(results.elements)
    operand_limbs = [
        [_limbs(claim, bits, rng, lane) for lane in range(LANES)] for claim in case.claims
    ]
    a, b = (np.array(rows, np.uint64) for rows in operand_limbs)
    out = np.zeros((LANES, len(names), n), np.uint64)
    words = np.zeros((LANES, f.word_count), np.uint64)
    interpret(traced, 1, [a, b, out, words])
    exponent = f.memory_exponent if case.linear else f.native_exponent
    for lane, (rows, stored) in enumerate(zip(out.tolist(), words.tolist(), strict=True)):
        x, y = (_integer(limbs[lane], bits) * pow(2, -exponent, p) for limbs in operand_limbs)
        where = f"with limbs {operand_limbs[0][lane]} and {operand_limbs[1][lane]}"
        for name, row in zip(names, rows, strict=True):
            element, integer = results.elements[name], _integer(row, bits)
            expected = _EXPECTED[name](x, y, lane) if name in _EXPECTED else x
            if (integer * pow(2, -element.exponent, p) - expected) % p:
                return f"{name} is wrong {where}"
            if integer >= element.bound or any(map(operator.gt, row, element.maxima)):
                return f"{name} exceeds what it says {where}"
        if _integer(stored, 8 * f.word_type.bytes) != (x << f.memory_exponent) % p:
            return f"x is stored wrong {where}"
    for name, most in (("reduce x to p", p), ("canonical x", p), ("unify x to p", p)):
        if results.elements[name].bound > most:
            return f"{name} says no more than {results.elements[name].bound:#x}"
    return None


def _integer(limbs: list[int], bits: int) -> int:
    return sum(limb << bits * j for j, limb in enumerate(limbs))


def _limbs(claim: Claim, bits: int, rng: Random, lane: int) -> list[int]:
    """Draw limbs that satisfy a claim: the largest, the smallest, or values near overflows."""
    maxima, mask = claim.maxima, (1 << bits) - 1
    place = bits * (len(maxima) - 1)
    if lane % 4 == 1:
        integer = min(claim.bound - 1, sum(most << bits * j for j, most in enumerate(maxima)))
        integer -= rng.choice((0, 0, min(1, integer), rng.randrange(integer + 1)))
        limbs = [min(integer >> bits * j & mask, most) for j, most in enumerate(maxima)]
        limbs[-1] = min(integer >> place, maxima[-1])
        return limbs
    limbs = []
    for most in maxima:
        some = (most, most, most - 1, mask, mask + 1, 0, rng.randrange(most + 1))
        limbs.append(most if lane == 0 else max(0, min(most, rng.choice(some))))
    for j in reversed(range(len(limbs))):
        below = _integer(limbs[:j], bits)
        if _integer(limbs, bits) >= claim.bound:
            limbs[j] = max(0, min(limbs[j], claim.bound - 1 - below >> bits * j))
    return limbs


def _claim(f: PrimeField, rng: Random) -> Claim:
    """Draw a claim that elements may make, mostly the largest."""
    p = f.p
    if not isinstance(f, SpareLimbs):
        edges = [p, p + 1, 2 * p, f.room, f.room - 1, f.room - p, f.room - p + 1, f.standard_bound]
        bound = rng.choice([*edges, rng.randrange(p, f.room + 1)])
        bound = min(max(bound, p), f.room)
        return Claim(bound, (bound - 1,) if f.limb_count == 1 else f._full_maxima(bound))
    place, mask = f.limb_bits * (f.limb_count - 1), (1 << f.limb_bits) - 1
    all_ = f.last_most + 1 << place
    bounds = [p, 2 * p, 4 * p, f.room, f.room + 1, all_, all_, all_ >> 1, rng.randrange(p, all_)]
    # Where quotients are guessed there is an edge at many a bound.
    bounds += [min(all_, f.room * rng.randrange(16, 64) >> 4) for _ in range(4)]
    bounds.append(min(all_, p * rng.randrange(16, 32) << rng.randrange((all_ // p).bit_length())))
    bound, most = rng.choice(bounds), f.most
    limits = [mask, most, most, most >> 1, most + 1 >> 1, most - mask, 0, rng.randrange(most + 1)]
    if rng.random() < 0.7:
        lower = [rng.choice(limits)] * (f.limb_count - 1)
    else:
        lower = [rng.choice(limits) for _ in range(f.limb_count - 1)]
    return Claim(bound, (*lower, f._top(bound)))


def _modulus(rng: Random, least: int, most: int) -> Modulus:
    """Draw a modulus of `least` to `most` bits: a named one, or a number near a word boundary.

    It need not be prime: only inversion requires that.
    """
    named = [modulus for modulus in NAMED.values() if least <= modulus.bits <= most]
    if named and rng.random() < 0.2:
        return rng.choice(named)
    words = 32 * rng.randrange(least // 32, most // 32 + 1) + rng.choice((-1, 0, 1))
    bits = words if rng.random() < 0.4 else rng.randrange(least, most + 1)
    bits = min(most, max(least, bits))
    low, high = 1 << (bits - 1), (1 << bits) - 1
    value = rng.choice((low + 1, high, high - 2, rng.randrange(low, high + 1) | 1))
    return Modulus.unchecked(f"of.{bits}", max(value, 5))


def cases(strategy: str, seed: int, max_bits: int = MAX_BITS) -> Iterator[tuple[Case, Random]]:
    """Yield the cases of a strategy in order, each with the generator that draws its limbs.

    Moduli have up to `max_bits` bits, or up to 127, which each strategy supports, if that is more.
    """
    for number in itertools.count():
        rng = Random(f"{strategy} {seed} {number}")
        f = _field(strategy, rng, max(max_bits, 127))
        claims = (_claim(f, rng), _claim(f, rng))
        yield Case(strategy, f.modulus, claims, rng.random() < 0.3), rng


def _field(strategy: str, rng: Random, max_bits: int) -> PrimeField:
    """Draw a field that the strategy supports."""
    make, machine = STRATEGIES[strategy]
    if strategy == "mersenne61":
        return make(Builder(machine), M61)
    if strategy.startswith("one_word"):
        return make(Builder(machine), _modulus(rng, 3, 64))
    some = make(Builder(machine), Modulus.unchecked("of.127", (1 << 127) - 1))
    while not some._supports(modulus := _modulus(rng, 65, max_bits)):
        pass
    return make(Builder(machine), modulus)


def main() -> int:
    """Run the cases of one strategy or all; return 1 if a case fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strategy", choices=STRATEGIES)
    parser.add_argument("--cases", type=int, default=100, help="of each strategy")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bits", type=int, default=MAX_BITS, help="the longest modulus")
    options = parser.parse_args()
    wrong = 0
    for strategy in [options.strategy] if options.strategy else STRATEGIES:
        start = time.monotonic()
        for number, (case, rng) in enumerate(cases(strategy, options.seed, options.bits)):
            if number < options.first:
                continue
            if number >= options.first + options.cases:
                break
            try:
                message = problem(case, rng)
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
            if message:
                wrong += 1
                print(
                    f"{strategy} --seed {options.seed} --first {number}: {case}: {message}",
                    flush=True,
                )
        print(f"{strategy}: {options.cases} cases in {time.monotonic() - start:.1f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
