"""The quotient of Groth16 against polynomials in plain integers."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import PairingCurve
from quod.device.protocol import AnyDevice
from quod.field.array import from_integers, words_to_integers
from quod.field.roots import RootFamily, quotient_coset_shift, root_of_unity
from quod.ntt import NttPlan, coset_quotient
from quod.ntt.ordering import bit_reversal
from quod.ntt.quotient import quotient_coefficients
from tests.ntt.test_transforms import FAMILIES
from tests.reference import ntt as reference
from tests.support.thorough import one_and_others

SIZES = (0, 1, 3, 6)
"""Sizes of domains, as powers of two."""


def evaluate(coefficients: list[int], x: int, p: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % p
    return total


@pytest.mark.parametrize(
    "curve",
    one_and_others(CURVES.values(), always=[CURVES["bn254"], CURVES["bls12_381"]]),
    ids=lambda curve: curve.name,
)
@pytest.mark.parametrize("family", FAMILIES)
def test_values_on_the_coset(device: AnyDevice, curve: PairingCurve, family: RootFamily) -> None:
    for log2_size in SIZES:
        check_values_on_the_coset(device, curve, family, log2_size)


def check_values_on_the_coset(
    device: AnyDevice, curve: PairingCurve, family: RootFamily, log2_size: int
) -> None:
    p, size = curve.fr.value, 1 << log2_size
    generator = random.Random(log2_size)
    rows = [[generator.randrange(p) for _ in range(size)] for _ in range(3)]
    evaluations = from_integers(curve.fr, itertools.chain(*rows))
    out = np.zeros((size, curve.fr.words), np.uint32)
    coset_quotient(NttPlan(device, curve.fr, log2_size, family), evaluations, out)

    polynomials = [reference.ntt(curve.fr, row, family=family, inverse=True) for row in rows]
    x = quotient_coset_shift(curve.fr, family, log2_size)
    expected = []
    for _ in range(size):
        a, b, c = (evaluate(polynomial, x, p) for polynomial in polynomials)
        expected.append((a * b - c) % p)
        x = x * root_of_unity(curve.fr, family, log2_size) % p
    assert words_to_integers(curve.fr, out) == expected


def test_result_may_overwrite_a(device: AnyDevice) -> None:
    plan = NttPlan(device, BN254.fr, 7)
    generator = random.Random(1)
    values = [generator.randrange(BN254.fr.value) for _ in range(3 << 7)]
    first, second = (from_integers(BN254.fr, values) for _ in range(2))
    out = np.zeros((1 << 7, BN254.fr.words), np.uint32)
    coset_quotient(plan, first, out)
    coset_quotient(plan, second, second[: 1 << 7])
    assert np.array_equal(out, second[: 1 << 7])


def test_a_satisfied_circuit_leaves_no_remainder(device: AnyDevice) -> None:
    """If c = a*b on the domain, (a*b - c)/Z is a polynomial of degree below size - 1."""
    log2_size, fr = 5, BN254.fr
    p, size = fr.value, 1 << log2_size
    generator = random.Random(2)
    a, b = ([generator.randrange(p) for _ in range(size)] for _ in range(2))
    c = [x * y % p for x, y in zip(a, b, strict=True)]
    evaluations = from_integers(fr, [*a, *b, *c])
    out = np.zeros((size, fr.words), np.uint32)
    coset_quotient(NttPlan(device, fr, log2_size), evaluations, out)
    shift = quotient_coset_shift(BN254.fr, "snarkjs", log2_size)
    vanishing = pow(pow(shift, size, p) - 1, -1, p)
    values = [value * vanishing % p for value in words_to_integers(fr, out)]
    coefficients = reference.ntt(BN254.fr, values, family="snarkjs", inverse=True, shift=shift)
    assert coefficients[-1] == 0
    assert any(coefficients)


@pytest.mark.parametrize(
    ("name", "family"),
    one_and_others(
        [("bn254", "snarkjs"), ("bls12_381", "arkworks"), ("bls12_377", "arkworks")],
        always=[("bn254", "snarkjs"), ("bls12_381", "arkworks")],
    ),
)
def test_coefficients(device: AnyDevice, name: str, family: RootFamily) -> None:
    for log2_size in SIZES:
        check_coefficients(device, CURVES[name], family, log2_size)


def check_coefficients(
    device: AnyDevice, curve: PairingCurve, family: RootFamily, log2_size: int
) -> None:
    """Against the long division of a*b - c by x**size - 1."""
    p, size = curve.fr.value, 1 << log2_size
    generator = random.Random(log2_size)
    a, b = ([generator.randrange(p) for _ in range(size)] for _ in range(2))
    c = [x * y % p for x, y in zip(a, b, strict=True)]
    evaluations = from_integers(curve.fr, [*a, *b, *c])
    out = np.zeros((size, curve.fr.words), np.uint32)
    quotient_coefficients(NttPlan(device, curve.fr, log2_size, family), evaluations, out)

    low, high, third = (
        reference.ntt(curve.fr, row, family=family, inverse=True) for row in (a, b, c)
    )
    product = [0] * (2 * size)
    for i, x in enumerate(low):
        for j, y in enumerate(high):
            product[i + j] = (product[i + j] + x * y) % p
    for i, z in enumerate(third):
        product[i] = (product[i] - z) % p
    quotient = product[size:]
    assert [(product[i] + quotient[i]) % p for i in range(size)] == [0] * size
    assert words_to_integers(curve.fr, out) == [quotient[i] for i in bit_reversal(log2_size)]
    assert quotient[-1] == 0
