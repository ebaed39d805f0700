"""Products in 32-bit carry chains, against integers, for every form that they take."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.codegen.ptx.machine import ptx_machine
from quod.field.element import Element
from quod.field.moduli import MODULI, Modulus
from quod.field.strategies.carry_chains import CarryChains
from quod.field.strategies.limbs32 import Limbs32
from quod.field.strategies.reduction import reduction_form
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.interpreter.interpreter import interpret
from tests.field.models import SOME_PRIMES
from tests.support.thorough import one_and_others

LANES = 64
MACHINE = ptx_machine(LANES)

SOME = pytest.mark.parametrize("modulus", SOME_PRIMES, ids=lambda modulus: modulus.name)


class Karatsuba(Limbs32):
    """Products that are reduced afterwards."""

    product_form = "karatsuba"


FORMS: dict[str, type[Limbs32]] = {"rows": Limbs32, "karatsuba": Karatsuba}


@kernel
def expressions(
    k: Builder, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, modulus: Modulus,
    form: Literal["rows", "karatsuba"],
) -> None:  # fmt: skip
    """a*b, a*a, a*b - a*(a + b) and (a + b)*(a - b) + (a - b)**2, one after another."""
    f, i = FORMS[form](k, modulus), k.global_id() * 4
    x, y = f.load(a, k.global_id()), f.load(b, k.global_id())
    f.store(out, i, x * y)
    f.store(out, i + 1, f.square(x))
    f.store(out, i + 2, f.sum_of_products([(x, y), (-x, x + y)]))
    f.store(out, i + 3, (x + y) * (x - y) + f.square(x - y))


def encode(numbers: list[int], words: int) -> np.ndarray[Any, Any]:
    data = b"".join(number.to_bytes(4 * words, "little") for number in numbers)
    return np.frombuffer(data, np.uint64).copy()


def decode(array: np.ndarray[Any, Any], words: int) -> list[int]:
    data, size = array.tobytes(), 4 * words
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def hostile(modulus: Modulus) -> list[int]:
    p, top = modulus.value, modulus.bits - 1
    return [0, 1, 2, p - 1, p - 2, (1 << top) - 1, (1 << 32) - 1, (1 << top) - (1 << 32), p >> 1]


@pytest.mark.parametrize("form", one_and_others(FORMS))
@SOME
def test_expressions_of_hostile_elements(modulus: Modulus, form: str) -> None:
    p, numbers = modulus.value, hostile(modulus)
    pairs = [(x, y) for x in numbers for y in numbers]
    pairs += [(x, x * x % p) for x in range(3, 3 + -len(pairs) % LANES)]
    a, b = (encode([pair[i] for pair in pairs], modulus.words) for i in (0, 1))
    out = np.zeros(4 * len(a), np.uint64)
    interpret(
        expressions.trace(MACHINE, modulus=modulus, form=form), len(pairs) // LANES, [a, b, out]
    )
    residues = decode(out, modulus.words)
    back = pow(modulus.montgomery_radix, -1, p)
    for i, (x, y) in enumerate(pairs):
        wanted = [x * y, x * x, x * y - x * (x + y), (x + y) * (x - y) + (x - y) ** 2]
        assert residues[4 * i : 4 * i + 4] == [number * back % p for number in wanted]


@kernel
def products_at_the_bounds(
    k: Builder, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, modulus: Modulus,
    form: Literal["rows", "karatsuba"], count: int, bounds: tuple[int, int],
) -> None:  # fmt: skip
    """The sum of `count` products a*b, and a*a, of numbers below the bounds as they are."""
    f, i = FORMS[form](k, modulus), k.global_id()
    x, y = (
        Element(f, element.limbs, bound, f._full_maxima(bound), element.exponent)
        for element, bound in zip((f.load(a, i), f.load(b, i)), bounds, strict=True)
    )
    f.store(out, i * 2, f.sum_of_products([(x, y)] * count))
    f.store(out, i * 2 + 1, f.square(x))


@pytest.mark.parametrize("form", one_and_others(FORMS))
@pytest.mark.parametrize(
    "modulus",
    one_and_others(SOME_PRIMES, [prime for prime in SOME_PRIMES if prime.name == "bn254.fr"]),
    ids=lambda modulus: modulus.name,
)
def test_products_of_the_largest_numbers_that_bounds_allow(modulus: Modulus, form: str) -> None:
    p, words = modulus.value, modulus.words
    full = 1 << (32 * words)
    back = pow(modulus.montgomery_radix, -1, p)
    for bounds in ((full, full), (p, full), (full, p), (4 * p, 2 * p)):
        bounds = min(bounds[0], full), min(bounds[1], full)
        largest = [
            [bound - 1, bound - 2, (bound - 1) >> 32 << 32, (1 << (bound.bit_length() - 1)) - 1]
            for bound in bounds
        ]
        pairs = [(x, y) for x in largest[0] for y in largest[1]]
        pairs += [(0, 0)] * (-len(pairs) % LANES)
        a, b = (encode([pair[i] for pair in pairs], words) for i in (0, 1))
        for count in (1, 2, 5):
            out = np.zeros(2 * len(a), np.uint64)
            traced = products_at_the_bounds.trace(
                MACHINE, modulus=modulus, form=form, count=count, bounds=bounds
            )
            interpret(traced, len(pairs) // LANES, [a, b, out])
            residues = decode(out, words)
            for i, (x, y) in enumerate(pairs):
                wanted = [count * x * y, x * x]
                assert residues[2 * i : 2 * i + 2] == [number * back % p for number in wanted]


@kernel
def wide_products(
    k: Builder, a: Pointer[U32], b: Pointer[U32], out: Pointer[U32], *, words: int, split: bool
) -> None:
    """a * b and a * a of whole numbers, by Karatsuba's method or in rows."""
    chains, i = CarryChains(k), k.global_id()
    x, y = (k.load(pointer, i * words, words) for pointer in (a, b))
    product = chains.product(x, y) if split else chains.schoolbook(x, y)
    k.store(out, i * 4 * words, *product)
    k.store(out, i * 4 * words + 2 * words, *chains.square(x))


@pytest.mark.parametrize(
    ("words", "split"),
    one_and_others([(8, False), (12, False), (12, True), (24, True)], [(8, False), (12, True)]),
)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_wide_products_and_squares(words: int, split: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    # Words of all ones and of zeros make the longest carries.
    choices = random.choice([0, 1, 2**31, 2**32 - 2, 2**32 - 1], (2, LANES * words))
    plain = random.integers(0, 2**32, (2, LANES * words))
    a, b = np.where(random.random((2, LANES * words)) < 0.7, choices, plain).astype(np.uint32)
    a[:words], b[:words] = 2**32 - 1, 2**32 - 1
    out = np.zeros(4 * LANES * words, np.uint32)
    interpret(wide_products.trace(MACHINE, words=words, split=split), 1, [a, b, out])
    products = decode(out, 2 * words)
    for i, (x, y) in enumerate(zip(decode(a, words), decode(b, words), strict=True)):
        assert products[2 * i : 2 * i + 2] == [x * y, x * x]


def test_moduli_take_the_cheapest_reduction() -> None:
    forms = {name: reduction_form(m.value, m.words) for name, m in MODULI.items()}
    assert {name: form.first for name, form in forms.items()} == {
        "bn254.fq": 0, "bn254.fr": 0, "bls12_381.fq": 0, "bls12_381.fr": 2, "bls12_377.fq": 1,
        "bls12_377.fr": 1,
    }  # fmt: skip
