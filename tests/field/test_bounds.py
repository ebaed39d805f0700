"""Bounds that strategies prove: limbs stay within them, also at the limits."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.field.element import Element
from quod.field.moduli import BLS12_377_FQ, BLS12_381_FQ, BN254_FR, M31, NAMED, Modulus
from quod.field.prime import PrimeField
from quod.field.strategies.ifma52 import Ifma52
from quod.field.strategies.inversion import Inversion29, Inversion52
from quod.field.strategies.lazy_limbs.karatsuba import RingProducts
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.field.strategies.limbs29 import Limbs29
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, Machine, Pointer, TraceError, Value, kernel
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from tests.support.thorough import one_and_others
from tools.field_bounds import STRATEGIES, cases, problem

LIMBS = ("12", "13", "14", "15", "16", "28/64", "29/64", "30/64")
VECTORS = Machine("llvm", 8, frozenset({"u64", "ifma52"}))
AVX2 = Machine("llvm", 8, frozenset({"u64", "word_products"}))
MACHINES = {
    "vectors": VECTORS,
    "avx2": AVX2,
    "scalar": Machine("llvm", 8, frozenset({"u64", "carry"})),
    "carries": Machine("ptx", 8, frozenset({"u64", "carry", "carry32"})),
    "small": Machine("wgsl", 8, frozenset({"u64", "low_products"}), limbs="13:rolled"),
}
FIELDS = pytest.mark.parametrize(
    ("machine", "modulus"),
    [*((machine, BN254_FR) for machine in MACHINES), ("scalar", M31), ("vectors", M31)],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
"""Every class of strategies."""

Expression = Callable[[PrimeField, Element, Element], Element]


def wgsl(limbs: str) -> Machine:
    return Machine("wgsl", 8, frozenset({"u64", "low_products"}), limbs=limbs)


ALWAYS = [name for name in STRATEGIES if ":" not in name or name.startswith(("limbs", "28"))]
"""Each size of limbs in its usual form, and every form of one size."""


@pytest.mark.parametrize("strategy", one_and_others(STRATEGIES, ALWAYS))
def test_operations_at_the_bounds(strategy: str) -> None:
    """A short run of `python -m tools.field_bounds`."""
    count = {"mersenne61": 8, "one_word": 8, "one_word32": 8, "ifma52": 4, "limbs29": 4}.get(
        strategy, 1
    )
    for case, rng in itertools.islice(cases(strategy, 1, 127), count):
        assert problem(case, rng) is None, case


def test_bound_violations_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool says so where limbs have no room for carries, and where bounds are too small."""
    monkeypatch.setattr(LazyLimbs, "_added_to_limbs", 0)
    problems = [problem(case, rng) for case, rng in itertools.islice(cases("16:rolled", 1, 127), 4)]
    assert any(text and "is wrong with limbs" in text for text in problems)


@pytest.mark.parametrize("limbs", LIMBS)
def test_quotient_guess_remainders_fit_the_limbs(limbs: str) -> None:
    """Remainders of a guessed quotient are computed modulo the limbs."""
    for modulus in NAMED.values():
        if modulus.bits <= 64 or modulus.is_plain:
            continue
        f = prime_field(Builder(wgsl(limbs)), modulus)
        assert isinstance(f, LazyLimbs)
        for sixteenths in (15, 17, 21, 30, 63):
            bound = f.room * sixteenths >> 4
            remainder = f._best_estimate(bound).bound
            assert remainder == bound or remainder <= f.room, (modulus.name, sixteenths)


# --- expressions that were wrong


@kernel
def compute(
    k: Builder, x: Pointer[U64], y: Pointer[U64], out: Pointer[U64], *, modulus: Modulus,
    expression: Expression, linear: bool,
) -> None:  # fmt: skip
    """One expression of two elements."""
    f, i = prime_field(k, modulus), k.global_id()
    a, b = (f.load(array, i, linear=linear) for array in (x, y))
    f.store(out, i, expression(f, a, b))


def check(
    machine: Machine, modulus: Modulus, expression: Expression, pairs: list[tuple[int, int]],
    wanted: Callable[[int, int], int], *, linear: bool = False,
) -> None:  # fmt: skip
    """An expression of what lies in memory as `pairs`, against integers."""
    p, size = modulus.value, modulus.bytes

    def packed(stored: list[int]) -> Any:
        return np.frombuffer(b"".join(n.to_bytes(size, "little") for n in stored), np.uint64).copy()

    numbers = [tuple(map(modulus.from_montgomery, pair)) for pair in pairs]
    right = packed([modulus.to_montgomery(wanted(x, y) % p) for x, y in numbers])
    out = np.zeros_like(right)
    traced = compute.trace(machine, modulus=modulus, expression=expression, linear=linear)
    interpret(traced, 1, [packed([x for x, _ in pairs]), packed([y for _, y in pairs]), out])
    assert out.tobytes() == right.tobytes()


def eight(p: int) -> list[tuple[int, int]]:
    rng = random.Random(p)
    return [(rng.randrange(p), rng.randrange(p)) for _ in range(8)]


def ones(modulus: Modulus) -> int:
    """Limbs full of ones, of any size."""
    return (1 << modulus.bits - 1) - 1


@pytest.mark.parametrize(
    ("name", "limbs", "factor"),
    [
        ("bn254.fr", "28/64", 38), ("bn254.fq", "28/64", 40), ("bls12_377.fr", "28/64", 100),
        ("pallas.fq", "15", 12), ("pallas.fr", "15", 12), ("bls12_377.fq", "29/64", 700),
    ],
)  # fmt: skip
def test_products_of_sums_beyond_the_limbs(name: str, limbs: str, factor: int) -> None:
    modulus = NAMED[name]
    for number in (factor, -factor):
        check(
            wgsl(f"{limbs}:rolled"), modulus, lambda f, x, y: f.times(x, number) * y,  # noqa: B023
            eight(modulus.value), lambda x, y: number * x * y,  # noqa: B023
        )  # fmt: skip


@pytest.mark.parametrize("limbs", ["12", "13", "14", "15", "16"])
def test_carries_into_full_limbs(limbs: str) -> None:
    modulus, times = BN254_FR, (1 << 32 - int(limbs)) - 1
    pairs = [(0, ones(modulus)), (ones(modulus), ones(modulus)), *eight(modulus.value)[2:]]
    check(
        wgsl(f"{limbs}:rolled"), modulus, lambda f, x, y: f.normalise(y - f.times(x, times)),
        pairs, lambda x, y: y - times * x, linear=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["bn254.fr", "bls12_381.fr", "curve25519.fq"])
@pytest.mark.parametrize("times", [4094, 4095])
@pytest.mark.parametrize("machine", [VECTORS, AVX2], ids=["ifma52", "limbs29"])
def test_quotients_of_full_vectors(machine: Machine, name: str, times: int) -> None:
    modulus = NAMED[name]
    pairs = [(ones(modulus), ones(modulus)), *eight(modulus.value)[1:]]
    for expression in (
        lambda f, x, y: (f.times(x, times) + y) * f.constant(1),
        lambda f, x, y: f.times(x, times) - f.times(y, times) + f.times(y, times + 1),
    ):
        check(machine, modulus, expression, pairs, lambda x, y: times * x + y, linear=True)


def test_quotients_by_short_moduli() -> None:
    """A modulus that just reaches the last limb of 52 bits, in sums that fill its word."""
    modulus = Modulus.unchecked("short", (1 << 105) + 1)
    for times in ((1 << 53) - 1, 1 << 58):
        check(
            VECTORS, modulus, lambda f, x, y: f.times(x, times) - f.times(y, times),  # noqa: B023
            [(modulus.value - 1, 0), *eight(modulus.value)[1:]],
            lambda x, y: times * (x - y),  # noqa: B023
        )  # fmt: skip


def test_differences_by_limbs_that_were_zero() -> None:
    """A subtraction fills limbs that are zero in a constant."""
    high = 1 << 208

    def expression(f: PrimeField, x: Element, y: Element) -> Element:
        either = f.select(f.equal(x, y), f.raw_constant(high), f.raw_constant(3 * high))
        less = f.canonical(f.times(either, 1 << 49))
        return f.zero() - less

    modulus = BN254_FR
    back = pow(2, -260, modulus.value)
    pairs = [(1, 1), *eight(modulus.value)[1:]]
    check(
        VECTORS, modulus, expression, pairs,
        lambda x, y: -(high if x == y else 3 * high) * (1 << 49) * back,
    )  # fmt: skip


@FIELDS
def test_bounds_are_capped_by_the_limbs(machine: str, modulus: Modulus) -> None:
    """A bound beyond the limbs does not weaken the bounds of the limbs."""
    f = prime_field(Builder(MACHINES[machine]), modulus)
    (wide,) = f.unify([f.times(f.bounded(f.one()), 1000)], f.room << 40)
    assert wide.bound == f.room


@pytest.mark.parametrize("limbs", one_and_others(LIMBS, ["28/64", "30/64"]))
def test_sums_are_never_refused(limbs: str) -> None:
    """Sums of any length are carried and reduced automatically."""
    for modulus in (BLS12_377_FQ, BN254_FR):
        f = prime_field(Builder(wgsl(f"{limbs}:rolled")), modulus)
        x = f.bounded(f.one())
        for number in (700, (1 << 40) - 1):
            many = f.times(x, number)
            for element in (f.canonical(many - f.times(x, 3)), f.reduce(x - many, f.p)):
                assert element.bound <= f.p


@pytest.mark.parametrize("strategy", [Ifma52, Limbs29])
def test_sums_of_many_products_in_vectors(strategy: type[Ifma52 | Limbs29]) -> None:
    f = strategy(Builder(VECTORS), Modulus.unchecked("short", (1 << 105) + 1))
    full = f.unify([f.one()], f.room)[0]
    total = f.sum_of_products([(full, full)] * 5)
    assert not f._overflows(total.maxima, total.bound)


def test_vectors_have_room_for_inversion() -> None:
    k = Builder(VECTORS)
    for bits in range(65, 522):
        modulus = Modulus.unchecked(f"of.{bits}", (1 << bits) - 1)
        Inversion52(k, modulus, 1, Ifma52._limbs_for(modulus))
        bits = Limbs29._bits_for(modulus)
        Inversion29(k, modulus, 1, Limbs29._limbs_for(modulus), bits)


def test_limbs_whose_sums_exceed_words_are_not_halved() -> None:
    """A factor wraps at 32 bits, and its product at 64."""
    ring = RingProducts(Builder(wgsl("30/64")), types.u64, 8, 30)
    sums_of_sums = ring._sum_products._sum_products
    assert sums_of_sums.bits == 32
    assert ring._is_halved(64)
    assert not sums_of_sums._is_halved(64)
    assert RingProducts(ring.k, types.u32, 8, 32)._is_halved(64)


# --- bad input


@FIELDS
def test_impossible_bounds_are_rejected(machine: str, modulus: Modulus) -> None:
    f = prime_field(Builder(MACHINES[machine]), modulus)
    one = f.bounded(f.one())
    for bound in (f.p - 1, 1, 0, -5):
        with pytest.raises(TraceError, match=r"can be as large as p - 1, .* give a bound of"):
            f.reduce(one + one, bound)
        with pytest.raises(TraceError, match=r"give a bound of field\.p or more"):
            f.unify([one], bound)


@FIELDS
def test_non_elements_are_rejected(machine: str, modulus: Modulus) -> None:
    f: Any = prime_field(Builder(MACHINES[machine]), modulus)
    one = f.one()
    for operation in (
        f.negate, f.is_zero, f.fit, f.reduce, f.inverse, f.square, f.normalise, f.canonical,
        f.bounded, f.to_words,
    ):  # fmt: skip
        with pytest.raises(TraceError, match=r"an int is used as an element"):
            operation(3)
    for many in (f.fit_many, f.square_many, f.bounded_many):
        with pytest.raises(TraceError, match=r"an int is used as an element"):
            many([one, 3])
    for pairs in ([one, one], [(one,)], [(one, one, one)]):
        with pytest.raises(TraceError, match=r"needs pairs of factors"):
            f.sum_of_products(pairs)
    with pytest.raises(TraceError, match=r"write field\.zero\(\)"):
        f.sum_of_products([])
    with pytest.raises(TraceError, match=r"a condition must be a bool of the kernel"):
        f.select(True, one, one)


@FIELDS
def test_invalid_integers_are_rejected(machine: str, modulus: Modulus) -> None:
    f: Any = prime_field(Builder(MACHINES[machine]), modulus)
    one = f.one()
    for operation in (f.times, f.power, f.square_times):
        for number in (1.5, "3", one):
            with pytest.raises(TraceError, match=r"must be an integer known while"):
                operation(one, number)
        operation(one, np.int64(5))
    for operation in (f.power, f.square_times):
        with pytest.raises(TraceError, match=r"is -[0-9]+, below zero"):
            operation(one, -1)


def test_rejected_moduli_name_a_supporting_strategy() -> None:
    with pytest.raises(TraceError, match=r"write quod\.field\.prime_field\(k, modulus\)"):
        LazyLimbs(Builder(wgsl("30/64")), Modulus.unchecked("of.64", (1 << 64) - 59))


def test_paddings_are_found_quickly() -> None:
    """The search finds the smallest multiple of p that pads full limbs."""
    f = LazyLimbs(Builder(wgsl("12")), BLS12_381_FQ)
    zeros: list[Value] = [f.k.constant(0, f.limb_type)] * f.limb_count
    maxima = (*[f.most] * (f.limb_count - 1), 1 << 30)
    bound = (1 << 30) + 1 << 12 * (f.limb_count - 1)
    multiple, padding = f._padding(Element(f, tuple(zeros), bound, maxima, f.native_exponent))
    assert multiple % f.p == 0
    assert multiple == sum(limb << 12 * j for j, limb in enumerate(padding))
    assert all(limb >= most for limb, most in zip(padding, maxima, strict=True))
