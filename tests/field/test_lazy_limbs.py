"""Products and reductions in small limbs, against integers, for every choice of limbs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.device.cpu.device import CpuDevice
from quod.device.discovery import open_device
from quod.field.element import Element
from quod.field.extension import ExtensionField
from quod.field.kernels import field_inverse
from quod.field.moduli import (
    BLS12_377_FQ,
    BLS12_381_FQ,
    BLS12_381_FR,
    BN254_FQ,
    Modulus,
)
from quod.field.spec import Extension, FieldSpec
from quod.field.strategies.lazy_limbs.products import Columns, LimbShape
from quod.field.strategies.lazy_limbs.strategy import LazyLimbs
from quod.field.strategies.limb_choice import LimbChoice
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Machine, Pointer, TraceError, kernel
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from tests.field.models import (
    Array,
    Model,
    hostile_integers,
    packed,
    random_integers,
    spec_name,
    unpacked,
)
from tests.support.thorough import one_and_others

LANES = 64

# Short, since tracing takes as long as there are products of limbs.
SMALL = Modulus("small", 0x1D5BF0A8B1457695355FB8AC404E7AC1)
NARROW = [f"{bits}{form}" for bits in range(12, 17) for form in (":columns", ":rows", ":rolled")]
WIDE = [f"{bits}/64{form}" for bits in (28, 29, 30) for form in (":columns", ":rows", ":rolled")]
KARATSUBA = ["12:karatsuba", "13:karatsuba", "28/64:karatsuba", "29/64:karatsuba"]
USUAL = ["13", "13:rolled", "15", "30/64"]
OTHERS = ["12:karatsuba", "14:columns", "16:rows", "16:rolled", "28/64:karatsuba", "29/64:rolled"]
"""Each form, and each way of carrying columns, that the usual ones do not have."""

CHOICES = pytest.mark.parametrize(
    "limbs",
    [
        *USUAL,
        *OTHERS,
        *(
            pytest.param(limbs, marks=pytest.mark.thorough)
            for limbs in NARROW + WIDE + KARATSUBA
            if limbs not in OTHERS
        ),
    ],
)
"""The choices without code of their own run in `make test-all` only."""


def machine(limbs: str, lanes: int = LANES) -> Machine:
    """Return the machine that WGSL is traced for; 64-bit integers where the limbs need them."""
    features = {"low_products", "u64"} if "/64" in limbs else {"low_products"}
    return Machine("wgsl", lanes, frozenset(features), limbs=limbs)


def run(definition: Any, of: str, count: int, arguments: list[Any], **static: Any) -> None:
    """All instances in one workgroup: the interpreter takes as long for one as for all."""
    interpret(definition.trace(machine(of, count), **static), 1, arguments)


@kernel
def expressions(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, modulus: Modulus,
    limbs: str,
) -> None:  # fmt: skip
    """Products, squares, sums of products, and what stays in the radix of memory."""
    f, i = LazyLimbs(k, modulus, limbs), k.global_id()
    with k.if_(i < n):
        x, y = f.load(a, i), f.load(b, i)
        u, v = f.load(a, i, linear=True), f.load(b, i, linear=True)
        f.store(out, i * 5, x * y)
        f.store(out, i * 5 + 1, f.square(x))
        f.store(out, i * 5 + 2, f.sum_of_products([(x, y), (-x, x + y)]))
        f.store(out, i * 5 + 3, (x + y) * (x - y) + f.square(x - y))
        f.store(out, i * 5 + 4, f.times(u, 40) - v)


def hostile(modulus: Modulus) -> tuple[Array, Array, list[tuple[int, ...]]]:
    """Pairs of elements as they are in memory, and what `expressions` makes of them."""
    numbers = hostile_integers(modulus)
    source = random.Random(1)
    pairs = [(x, source.choice(numbers)) for x in numbers]
    pairs += [(x, y) for x in numbers[:4] + numbers[-4:] for y in numbers[:4] + numbers[-4:]]
    spec, p = modulus, modulus.value
    a, b = (packed(spec, [(pair[i],) for pair in pairs]) for i in (0, 1))
    wanted = [
        number
        for x, y in pairs
        for number in (x * y, x * x, x * y - x * (x + y), x * x - y * y + (x - y) ** 2, 40 * x - y)
    ]
    return a, b, [(number % p,) for number in wanted]


@CHOICES
def test_expressions_of_hostile_elements(limbs: str) -> None:
    check_expressions(SMALL, limbs)


@pytest.mark.parametrize("limbs", one_and_others(OTHERS, ["28/64:karatsuba", "29/64:rolled"]))
def test_expressions_of_long_hostile_elements(limbs: str) -> None:
    check_expressions(BLS12_377_FQ, limbs)


@pytest.mark.parametrize(
    "modulus",
    one_and_others([BN254_FQ, BLS12_381_FR, BLS12_377_FQ], [BN254_FQ, BLS12_377_FQ]),
    ids=lambda modulus: modulus.name,
)
def test_expressions_by_the_bits_to_spare(modulus: Modulus) -> None:
    """Two, one and seven bits of the words."""
    check_expressions(modulus, "30/64")


def check_expressions(modulus: Modulus, limbs: str) -> None:
    a, b, wanted = hostile(modulus)
    out = np.zeros((5 * len(a), a.shape[1]), np.uint64)
    run(expressions, limbs, len(a), [len(a), a, b, out], modulus=modulus, limbs=limbs)
    assert unpacked(modulus, out) == wanted


@pytest.mark.parametrize("limbs", one_and_others(["13:rolled", "16:rolled", "30/64"]))
def test_expressions_on_the_cpu(limbs: str) -> None:
    """LLVM runs the same ops."""
    a, b, wanted = hostile(BLS12_381_FQ)
    device = CpuDevice(strategy="scalar", threads=1)
    compiled = device.compile(expressions, lanes=8, modulus=BLS12_381_FQ, limbs=limbs)
    out = np.zeros((5 * len(a), a.shape[1]), np.uint64)
    device.launch(compiled, -(-len(a) // 8), len(a), a, b, out)
    assert unpacked(BLS12_381_FQ, out) == wanted


class Claims:
    """The elements' bounds that a kernel claims, which are no part of its key."""

    def __init__(self) -> None:
        self.bounds: list[tuple[int, tuple[int, ...]]] = []

    def add(self, elements: list[Element]) -> None:
        self.bounds = [(element.bound, element.maxima) for element in elements]


@kernel
def at_the_bounds(
    k: Builder, a: Pointer[U32], out: Pointer[U32], *, modulus: Modulus, limbs: str, terms: int,
    bound: int, claims: Claims,
) -> None:  # fmt: skip
    """Limbs as they are, below a bound that fits them: a product, a square, a reduction."""
    f, i = LazyLimbs(k, modulus, limbs), k.global_id()
    n = f.limb_count
    operands = [k.load(a, (i * 2 + j) * n, n) for j in (0, 1)]
    x, y = (Element(f, part, bound, f._full_maxima(bound), f.native_exponent) for part in operands)
    results = [
        f.sum_of_products([(x, y)] * terms), f.square(x), f.reduce(x), f.canonical(y),
        f.normalise(x + x - y), f.reduce(f.times(x, 4) - y, modulus.value),
    ]  # fmt: skip
    for j, element in enumerate(results):
        k.store(out, (i * len(results) + j) * n, *element.limbs)
    claims.add(results)


@CHOICES
def test_numbers_at_the_bounds(limbs: str) -> None:
    check_bounds(SMALL, limbs)


@pytest.mark.parametrize("limbs", one_and_others(["30/64", "13", "12:karatsuba", "15"]))
def test_long_numbers_at_the_bounds(limbs: str) -> None:
    check_bounds(BLS12_381_FQ, limbs)


def check_bounds(modulus: Modulus, limbs: str) -> None:
    choice = LimbChoice.parse(limbs)
    f = LazyLimbs(Builder(machine(limbs)), modulus)
    n, bits, p, radix = f.limb_count, choice.bits, modulus.value, 1 << f.native_exponent
    back = pow(radix, -1, p)
    for bound, terms in ((radix, 1), (4 * p, 7 if limbs in USUAL else 2)):
        ones = (1 << (bound - 1).bit_length() - 1) - 1
        numbers = [0, 1, bound - 1, ones, bound >> 1, bound - 1 >> bits << bits, p, p - 1]
        pairs = [(x, y) for x in numbers for y in numbers]
        mask = (1 << bits) - 1
        a = np.array(
            [number >> bits * j & mask for pair in pairs for number in pair for j in range(n)],
            np.uint32,
        )
        claims = Claims()
        out = np.zeros(len(pairs) * 6 * n, np.uint32)
        run(
            at_the_bounds, limbs, len(pairs), [a, out], modulus=modulus, limbs=limbs, terms=terms,
            bound=bound, claims=claims,
        )  # fmt: skip
        rows = out.reshape(len(pairs), 6, n).tolist()
        for (x, y), row in zip(pairs, rows, strict=True):
            wanted = (terms * x * y * back, x * x * back, x, y, 2 * x - y, 4 * x - y)
            for limb_row, number, (most, maxima) in zip(row, wanted, claims.bounds, strict=True):
                integer = sum(limb << bits * j for j, limb in enumerate(limb_row))
                assert (integer - number) % p == 0
                assert integer < most
                assert all(limb <= maximum for limb, maximum in zip(limb_row, maxima, strict=True))
            assert sum(limb << bits * j for j, limb in enumerate(row[3])) == y % p


@pytest.mark.parametrize(
    ("spec", "limbs"),
    [
        *((SMALL, limbs) for limbs in USUAL),
        pytest.param(BLS12_381_FR, "13", marks=pytest.mark.thorough),
        (CURVES["bn254"].tower.fq2, "30/64"),
    ],
    ids=lambda part: part if isinstance(part, str) else spec_name(part),
)
def test_inverses(spec: FieldSpec, limbs: str) -> None:
    model, modulus = Model(spec), spec.modulus
    p = modulus.value
    values = [0, 1, 2, p - 1, p - 2, p >> 1, *random_integers(modulus, 4, 1)]
    elements = [(x, *[(7 * x + 1) % p] * (spec.degree - 1)) for x in values] + [(0,) * spec.degree]
    a = packed(spec, elements)
    out = np.zeros_like(a)
    run(field_inverse, limbs, len(a), [len(a), a, out], spec=spec)
    assert unpacked(spec, out) == [model.inverse(element) for element in elements]


@kernel
def quadratic(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, spec: Extension
) -> None:
    """a * b, a * a, and b * b - a * (a + b)."""
    f, i = ExtensionField(prime_field(k, spec.modulus), spec), k.global_id()
    with k.if_(i < n):
        x, y = f.load(a, i), f.load(b, i)
        f.store(out, i * 3, x * y)
        f.store(out, i * 3 + 1, f.square(x))
        f.store(out, i * 3 + 2, f.square(y) - x * (x + y))


@pytest.mark.parametrize(
    ("spec", "limbs"),
    [
        *one_and_others((CURVES["bn254"].tower.fq2, limbs) for limbs in USUAL),
        pytest.param(CURVES["bls12_377"].tower.fq2, "30/64", marks=pytest.mark.thorough),
    ],
    ids=lambda part: part if isinstance(part, str) else spec_name(part),
)
def test_quadratic_extensions(spec: Extension, limbs: str) -> None:
    model, p = Model(spec), spec.modulus.value
    edges = [0, 1, p - 1, p >> 1]
    elements = [(x, y) for x in edges for y in edges]
    others = elements[5:] + elements[:5]
    a, b = packed(spec, elements), packed(spec, others)
    out = np.zeros((3 * len(a), a.shape[1]), np.uint64)
    run(quadratic, limbs, len(a), [len(a), a, b, out], spec=spec)
    wanted = []
    for x, y in zip(elements, others, strict=True):
        product = model.multiply(x, model.add(x, y))
        wanted += [
            model.multiply(x, y), model.multiply(x, x),
            model.subtract(model.multiply(y, y), product),
        ]  # fmt: skip
    assert unpacked(spec, out) == wanted


def test_wgsl_uses_lazy_limbs() -> None:
    device = open_device("emulated:wgsl")
    field = prime_field(Builder(device.machine(LANES)), BLS12_381_FQ)
    assert isinstance(field, LazyLimbs)
    assert field.limb_count == 30
    assert field.choice == LimbChoice(13, False, "karatsuba")


def test_counts_of_limbs() -> None:
    def count(limbs: str, modulus: Modulus) -> int:
        return LazyLimbs(Builder(machine(limbs)), modulus).limb_count

    wanted = {"12": (32, 22), "13": (30, 20), "14": (28, 19), "15": (26, 18), "16": (24, 17)}
    wanted |= {"28/64": (14, 10), "29/64": (14, 9), "30/64": (13, 9)}
    for limbs, (long, short) in wanted.items():
        assert (count(limbs, BLS12_381_FQ), count(limbs, BLS12_381_FR)) == (long, short)


@pytest.mark.parametrize(
    ("limbs", "message"),
    [
        ("", "not a choice of limbs"),
        ("thirteen", "not a choice of limbs"),
        ("13/32", "not a choice of limbs"),
        ("11", "have 12 to 16 bits"),
        ("17", "have 12 to 16 bits"),
        ("31/64", "have 28 to 30 bits"),
        ("13:unrolled", "not one of the forms"),
        ("29/64", "need a machine with 64-bit integers"),
        ("14:karatsuba", "12 or 13"),
    ],
)
def test_invalid_limb_choices_are_rejected(limbs: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        LazyLimbs(Builder(Machine("wgsl", LANES, frozenset(), limbs=limbs)), BLS12_381_FQ)


def test_a_column_that_could_overflow_is_refused() -> None:
    k = Builder(machine("16"))
    columns = Columns(k, LimbShape(16, 1, types.u32), 1)
    with pytest.raises(TraceError, match="use smaller limbs"):
        columns.add(0, k.constant(0, types.u32), 1 << 32)


def test_sums_that_could_overflow_are_carried() -> None:
    f = LazyLimbs(Builder(machine("30/64")), BLS12_381_FQ)
    one = f.one()
    total = f.times(one, 64)
    assert max(total.maxima) < 1 << 32
    assert f.times(one - one, 64).bound <= 65 * 2 * f.p
