"""Moduli of every size are computed correctly, or rejected with the supported sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.field.moduli import MODULI, Modulus
from quod.field.prime import PrimeField
from quod.field.strategies.ifma52 import Ifma52
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.field.strategies.limbs29 import Limbs29
from quod.field.strategies.limbs32 import Limbs32
from quod.field.strategies.limbs64 import Limbs64
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, Machine, Pointer, TraceError, kernel
from quod.kernel.interpreter.interpreter import interpret
from tests.support.thorough import one_and_others

Make = Callable[[Builder, Modulus], PrimeField]

LIMBS = (
    "12",
    "13",
    "14",
    "15",
    "16",
    "28/64",
    "29/64",
    "30/64",
    "13:rolled",
    "13:rows",
    "29/64:rows",
)
SMALL_WORDS = frozenset({"u64", "low_products"})
STRATEGIES: dict[str, tuple[Make, Machine]] = {
    "limbs64": (Limbs64, Machine("llvm", 8, frozenset({"u64", "carry"}))),
    "limbs32": (Limbs32, Machine("ptx", 8, frozenset({"u64", "carry", "carry32"}))),
    "ifma52": (Ifma52, Machine("llvm", 8, frozenset({"u64", "ifma52"}))),
    "limbs29": (Limbs29, Machine("llvm", 8, frozenset({"u64", "word_products"}))),
    **{name: (LazyLimbs, Machine("wgsl", 8, SMALL_WORDS, limbs=name)) for name in LIMBS},
}

M31, BABY_BEAR, GOLDILOCKS = (1 << 31) - 1, 15 * (1 << 27) + 1, (1 << 64) - (1 << 32) + 1
SECP256K1 = (1 << 256) - (1 << 32) - 977
NAMED = {"m31": M31, "baby_bear": BABY_BEAR, "goldilocks": GOLDILOCKS, "secp256k1": SECP256K1}

ALIKE = ("12", "13", "14", "15", "16", "28/64", "29/64", "13:rows", "29/64:rows")
"""Strategies of widths that differ little from another's; they run in `make test-all`."""

each_strategy = pytest.mark.parametrize(
    "name",
    one_and_others(STRATEGIES, always=[name for name in STRATEGIES if name not in ALIKE]),
)
"""Limbs of sizes between those of others have no code of their own: `make test-all` runs them."""


def odd_modulus(bits: int, rng: random.Random) -> int:
    """The smallest, the largest or any odd number of so many bits: only inversion needs primes."""
    low, high = 1 << (bits - 1), (1 << bits) - 1
    return max(3, rng.choice((low + 1, high, rng.randrange(low, high + 1) | 1)))


@kernel
def compute(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, make: Make, modulus: Modulus
) -> None:
    """Compute results of hostile operands, which overflow where a bound is wrong."""
    f, i = make(k, modulus), k.local_id()
    a, b = f.load(x, i), f.load(y, i)
    doubled = f.times(a, 13) - b
    results = (
        a * b, a + b, a - b, f.square(a), -a, (a + b) * (a - b),
        f.sum_of_products([(a, b), (doubled, a), (b, b), (a + a, -b)]), f.bounded(doubled),
        f.power(a, 5) * f.constant(7),
    )  # fmt: skip
    for place, result in enumerate(results):
        f.store(out, i * len(results) + place, result)


def expected(a: int, b: int, p: int) -> list[int]:
    doubled = 13 * a - b
    results = (
        a * b, a + b, a - b, a * a, -a, (a + b) * (a - b), a * b + doubled * a + b * b - 2 * a * b,
        doubled, a**5 * 7,
    )  # fmt: skip
    return [result % p for result in results]


def pairs(p: int, rng: random.Random) -> list[tuple[int, int]]:
    """Eight, with the ends of the range."""
    ends = [(0, p - 1), (p - 1, p - 1), (p - 1, 0), (1, p // 2), (p - 2, 2)]
    return [(a % p, b % p) for a, b in ends] + [
        (rng.randrange(p), rng.randrange(p)) for _ in range(3)
    ]


def check(make: Make, machine: Machine, modulus: Modulus, rng: random.Random) -> None:
    """Every result of the kernel, canonical, against integers; TraceError if it is refused."""
    traced = compute.trace(machine, make=make, modulus=modulus)
    p, size = modulus.value, modulus.bytes
    operand_pairs = pairs(p, rng)

    def packed(numbers: list[int]) -> np.ndarray[Any, Any]:
        stored = [modulus.to_montgomery(number).to_bytes(size, "little") for number in numbers]
        return np.frombuffer(b"".join(stored), np.uint64).copy()

    wanted = [result for a, b in operand_pairs for result in expected(a, b, p)]
    out = np.zeros(len(wanted) * size // 8, np.uint64)
    interpret(
        traced,
        1,
        [packed([a for a, _ in operand_pairs]), packed([b for _, b in operand_pairs]), out],
    )
    assert out.tobytes() == packed(wanted).tobytes()


def refused(error: TraceError, modulus: Modulus) -> bool:
    """Return whether the message is the one of sizes, and names this modulus."""
    name, bits = re.escape(modulus.name), modulus.bits
    return bool(
        re.search(
            rf"^{re.escape(__file__)}:\d+: the modulus of {name} has {bits} bits, but \w+, with "
            r"limbs of \d+ bits, supports moduli of (\d+( to \d+)?, )*\d+( to \d+)? bits; write "
            r"quod\.field\.prime_field\(k, modulus\), which chooses a strategy that supports the "
            r"modulus$",
            str(error),
        )
    )


@each_strategy
def test_sizes(name: str) -> None:
    make, machine = STRATEGIES[name]
    rng = random.Random(name)
    edges = [64 * words + step for words in range(1, 9) for step in (-1, 0, 1)]
    # Every strategy takes some modulus of 254 bits.
    sizes = {2, 3, 31, 32, 254, 521, *rng.sample(edges, 2), *rng.sample(range(2, 522), 3)}
    taken = 0
    for bits in sorted(sizes):
        modulus = Modulus.unchecked(f"test.{bits}", odd_modulus(bits, rng))
        try:
            # Long ones are slow to interpret and no different.
            if bits > 400:
                compute.trace(machine, make=make, modulus=modulus)
            else:
                check(make, machine, modulus, rng)
            taken += 1
        except TraceError as error:
            assert refused(error, modulus), error  # noqa: PT017
    assert taken


@each_strategy
def test_every_modulus_size_is_traced_or_rejected(name: str) -> None:
    """Every accepted modulus can be traced."""
    make, machine = STRATEGIES[name]
    k = Builder(machine)
    for bits in range(2, 522, 7):
        modulus = Modulus.unchecked(f"test.{bits}", max(3, (1 << bits) - 1))
        try:
            f = make(k, modulus)
            one = f.one()
            f.subtract(f.add(one, one), f.bounded(f.times(one, 7)))
        except TraceError as error:
            assert refused(error, modulus), error  # noqa: PT017


@each_strategy
def test_fields_of_other_projects(name: str) -> None:
    make, machine = STRATEGIES[name]
    for field, value in NAMED.items():
        modulus = Modulus.unchecked(field, value)
        try:
            check(make, machine, modulus, random.Random(field))
        except TraceError as error:
            assert refused(error, modulus), error  # noqa: PT017


@pytest.mark.parametrize("name", ["limbs64", "limbs32", "ifma52", "limbs29", "13:rolled"])
def test_every_modulus_size_has_a_strategy(name: str) -> None:
    """Every length has a strategy on every machine, also moduli that fill their words."""
    machine = STRATEGIES[name][1]
    if name == "13:rolled":
        machine = Machine("wgsl", 8, frozenset({"low_products"}), limbs=name)
    edges = [64 * words + step for words in range(1, 9) for step in (-1, 0, 1)]
    for bits in sorted({*edges, *range(3, 522, 29), 521}):
        modulus = Modulus.unchecked(f"test.{bits}", (1 << bits) - 1)
        f = prime_field(Builder(machine), modulus)
        f.subtract(f.zero(), f.one())


def test_registered_moduli_are_supported() -> None:
    for make, machine in STRATEGIES.values():
        for modulus in MODULI.values():
            make(Builder(machine), modulus)
