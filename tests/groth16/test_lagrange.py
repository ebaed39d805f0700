"""Lagrange polynomials and scaled arrays against plain integers."""

from __future__ import annotations

import random

import pytest

from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.field.array import from_integers, integers_to_words, to_integers, words_to_integers
from quod.field.roots import quotient_coset_shift, root_of_unity
from quod.groth16.lagrange import lagrange_at, monomials_at, scaled, weighted_sum
from quod.ntt.ordering import bit_reversal


@pytest.mark.parametrize(
    ("log_size", "curve"),
    [(0, "bn254"), (1, "bn254"), (6, "bn254"), (8, "bn254"), (6, "bls12_381")],
)
def test_lagrange_values(device: AnyDevice, log_size: int, curve: str) -> None:
    parameters = CURVES[curve]
    fr, r, n = parameters.fr, parameters.fr.value, 1 << log_size
    root = root_of_unity(parameters.fr, "snarkjs", log_size)
    for shift in (1, quotient_coset_shift(parameters.fr, "snarkjs", log_size)):
        point, scale = random.Random(curve).randrange(r), 12345
        lagrange = lagrange_at(
            device, fr, count=n, root=root, shift=shift, point=point, scale=scale
        )
        nodes = [shift * pow(root, i, r) % r for i in range(n)]
        expected = [scale * x * pow(point - x, -1, r) % r for x in nodes]
        assert words_to_integers(fr, lagrange) == expected


def test_lagrange_polynomials_add_up_to_one(device: AnyDevice) -> None:
    parameters = CURVES["bls12_381"]
    r, n, tau = parameters.fr.value, 256, 987654321
    scale = (pow(tau, n, r) - 1) * pow(n, -1, r) % r
    root = root_of_unity(parameters.fr, "snarkjs", 8)
    lagrange = lagrange_at(
        device, parameters.fr, count=n, root=root, shift=1, point=tau, scale=scale
    )
    assert sum(words_to_integers(parameters.fr, lagrange)) % r == 1


def test_scaled(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    values = [0, 1, fr.value - 1, *range(20)]
    for factor in (0, 1, -1, fr.montgomery_radix**2):
        plain = scaled(device, fr, integers_to_words(fr, values), factor)
        assert words_to_integers(fr, plain) == [factor * value % fr.value for value in values]
        stored = scaled(device, fr, from_integers(fr, values), factor)
        assert to_integers(fr, stored) == [factor * value % fr.value for value in values]


def test_weighted_sum(device: AnyDevice) -> None:
    fr = CURVES["bn254"].fr
    top = fr.value - 1
    a, b, c = [0, top, 1, 2, top] * 3, [0, top, 3, 4, 5] * 3, [0, top, top, 6, 7] * 3
    for weights in ((top, top, top), (0, 0, 1), (3, 5, 7)):
        weighted = weighted_sum(
            device, fr, weights, *(from_integers(fr, values) for values in (a, b, c))
        )
        expected = [
            sum(w * v for w, v in zip(weights, values)) % fr.value for values in zip(a, b, c)
        ]
        assert to_integers(fr, weighted) == expected


@pytest.mark.parametrize("log_size", [1, 5, 9])
def test_monomials(device: AnyDevice, log_size: int) -> None:
    fr = CURVES["bls12_381"].fr
    point, first = fr.value - 3, 1 << 200
    values = words_to_integers(fr, monomials_at(device, fr, log_size, point, first))
    powers = [first * pow(point, i, fr.value) % fr.value for i in range(1 << log_size)]
    assert values == [powers[i] for i in bit_reversal(log_size)]
