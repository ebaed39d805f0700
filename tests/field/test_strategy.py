"""Promises of a strategy beyond the operations: the choice, linear loads, sums, refusals."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.device.cpu.device import CpuDevice
from quod.field import strategies
from quod.field.any_field import field_arithmetic
from quod.field.extension import ExtensionField
from quod.field.moduli import (
    BLS12_377_FQ,
    BLS12_381_FQ,
    BLS12_381_FR,
    BN254_FQ,
    BN254_FR,
    M61,
    Modulus,
)
from quod.field.prime import PrimeField
from quod.field.strategies.ifma52 import Ifma52
from quod.field.strategies.limbs29 import Limbs29
from quod.field.strategies.limbs64 import Limbs64
from quod.field.strategies.mersenne61 import Mersenne61
from quod.field.strategies.one_word import Word64
from quod.field.strategy import CANDIDATES, Strategy, prime_field, strategy
from quod.kernel import U32, U64, Builder, Machine, Pointer, TraceError, kernel
from tests.field.models import SOME_PRIMES, hostile_integers, packed, random_integers, unpacked

VECTORS = Machine("llvm", 8, frozenset({"u64", "ifma52"}))
AVX2 = Machine("llvm", 4, frozenset({"u64", "word_products"}))
SCALAR = Machine("llvm", 1, frozenset({"u64", "carry"}))
MACHINES = pytest.mark.parametrize(
    "machine", [VECTORS, AVX2, SCALAR], ids=["vectors", "avx2", "scalar"]
)


def fields(machine: Machine, modulus: Modulus = BLS12_381_FQ) -> PrimeField:
    return prime_field(Builder(machine), modulus)


def test_machine_determines_the_strategy() -> None:
    assert isinstance(fields(VECTORS), Ifma52)
    assert isinstance(fields(AVX2), Limbs29)
    assert isinstance(fields(SCALAR), Limbs64)
    for machine in (VECTORS, AVX2, SCALAR):
        assert isinstance(fields(machine, M61), Mersenne61)
        assert type(fields(machine, Modulus("of_61_bits", (1 << 61) - 31))) is Word64
    assert (fields(VECTORS).limb_count, fields(VECTORS, BN254_FQ).limb_count) == (8, 5)
    assert (fields(AVX2).limb_count, fields(AVX2, BN254_FQ).limb_count) == (14, 9)
    assert (fields(AVX2).limb_bits, fields(AVX2, BN254_FQ).limb_bits) == (28, 29)
    assert (fields(SCALAR).limb_count, fields(SCALAR, BN254_FQ).limb_count) == (6, 4)


def test_spec_determines_the_field() -> None:
    k = Builder(SCALAR)
    assert isinstance(field_arithmetic(k, BN254_FQ), Limbs64)
    extension = field_arithmetic(k, CURVES["bn254"].tower.fq2)
    assert isinstance(extension, ExtensionField)
    assert extension.word_count == 8
    assert CURVES["bn254"].tower.fq2.words == 16


@kernel
def linear_map(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """out = 5a + 12345(a - b), with a and b in the radix of memory throughout."""
    f, i = prime_field(k, modulus), k.global_id()
    with k.if_(i < n):
        x, y = f.load(a, i, linear=True), f.load(b, i, linear=True)
        f.store(out, i, f.times(x, 5) + (x - y) * f.constant(12345))


@pytest.mark.parametrize("modulus", SOME_PRIMES, ids=lambda modulus: modulus.name)
def test_linear_loads(device: CpuDevice, modulus: Modulus) -> None:
    x = hostile_integers(modulus)
    y = x[7:] + x[:7]
    a, b = (packed(modulus, [(value,) for value in values]) for values in (x, y))
    out = np.zeros_like(a)
    compiled = device.compile(linear_map, modulus=modulus)
    device.launch(compiled, -(-len(x) // device.lanes), len(x), a, b, out)
    p = modulus.value
    expected = [((5 * u + 12345 * (u - v)) % p,) for u, v in zip(x, y, strict=True)]
    assert unpacked(modulus, out) == expected


@kernel
def long_sums(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, modulus: Modulus, terms: int
) -> None:
    """out[i] = the sum of -3 * a[i] * (a[i] + j) over j below `terms`, in one sum of products."""
    f, i = prime_field(k, modulus), k.global_id()
    with k.if_(i < n):
        x = f.load(a, i)
        pairs = [(f.times(x, -3), x + f.constant(j)) for j in range(terms)]
        f.store(out, i, f.sum_of_products(pairs))


@pytest.mark.parametrize(
    ("terms", "modulus"),
    [pytest.param(terms, modulus, id=f"{terms}-{modulus.name}")
     for terms, modulus in ((1, BN254_FR), (3, BN254_FR), (20, BN254_FR), (20, BLS12_377_FQ))],
)  # fmt: skip
def test_sums_of_products(device: CpuDevice, modulus: Modulus, terms: int) -> None:
    """Twenty terms do not fit 64-bit limbs at once, but for the 377 bits of BLS12-377."""
    x = hostile_integers(modulus) + random_integers(modulus, 50, 1)
    a = packed(modulus, [(value,) for value in x])
    out = np.zeros_like(a)
    compiled = device.compile(long_sums, modulus=modulus, terms=terms)
    device.launch(compiled, -(-len(x) // device.lanes), len(x), a, out)
    expected = [
        (sum(-3 * u * (u + j) for j in range(terms)) % modulus.value,) for u in x
    ]  # fmt: skip
    assert unpacked(modulus, out) == expected


@MACHINES
@pytest.mark.parametrize(
    "modulus", [BN254_FR, BLS12_381_FR, BLS12_377_FQ], ids=lambda modulus: modulus.name
)
def test_bounds_and_maxima_are_consistent(machine: Machine, modulus: Modulus) -> None:
    f = fields(machine, modulus)
    one = f.one()
    assert (one + one).bound == 2 * one.bound - 1
    bounded = f.bounded(f.times(one, 50) - one)
    assert bounded.bound == f.standard_bound
    assert max(bounded.maxima) < 1 << f.limb_bits
    assert f.reduce(f.times(bounded, 60), f.p).bound <= f.p
    # Constants know their value.
    assert f.raw_constant(9).bound == 10


@MACHINES
def test_invalid_arguments_are_rejected(machine: Machine) -> None:
    f = fields(machine, BLS12_381_FR)
    one, memory = f.one(), f.raw_constant(1, f.memory_exponent + 60)
    for operation in (f.add, f.subtract):
        with pytest.raises(TraceError, match="different Montgomery radixes"):
            operation(one, memory)
    with pytest.raises(TraceError, match="different Montgomery radixes"):
        f.select(f.is_zero(one), one, memory)
    with pytest.raises(TraceError, match="different Montgomery radixes"):
        f.sum_of_products([(one, one), (one, memory)])
    with pytest.raises(TraceError, match="cannot be stored"):
        f.to_words(f.raw_constant(1, f.memory_exponent - 1))
    with pytest.raises(TraceError, match="must be an integer"):
        f.constant((1, 2))
    with pytest.raises(TraceError, match="below zero"):
        f.power(one, -1)


def test_each_strategy_is_a_file_with_a_row_and_a_candidate() -> None:
    rows = {
        module.name
        for module in iter_modules(strategies.__path__)
        if hasattr(import_module(f"{strategies.__name__}.{module.name}"), "STRATEGY")
    }
    assert rows == {candidate.name for candidate in CANDIDATES}
    assert all(isinstance(strategy(name), Strategy) for name in rows)
    assert [c.name for c in CANDIDATES if c.made_for is None] == [
        "mersenne61",
        "one_word",
        "limbs64",
    ]


def test_cheapest_strategy_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(cost: float | str, arithmetic: type[PrimeField]) -> Strategy:
        return Strategy(lambda machine, modulus: cost, arithmetic)

    rows = {"ifma52": row(40, Ifma52), "limbs64": row(50, Limbs64), "limbs32": row(30, Limbs64)}
    monkeypatch.setattr("quod.field.strategy.strategy", rows.__getitem__)
    both = Machine("llvm", 8, frozenset({"u64", "ifma52", "carry32"}))
    assert isinstance(fields(both), Limbs64)
    rows["limbs32"] = row("not today", Limbs64)
    assert isinstance(fields(both), Ifma52)
    rows["ifma52"] = row("nor today", Ifma52)
    assert isinstance(fields(both), Limbs64)
    rows["limbs64"] = row("never", Limbs64)
    with pytest.raises(
        TraceError, match=r"fq on this machine; ifma52: nor today; limbs32: not today; "
    ):
        fields(both)
