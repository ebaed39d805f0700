"""The reference transforms agree with the definition of a DFT and with each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.curve.named import CURVES
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import PairingCurve
from quod.field.roots import RootFamily, root_of_unity
from tests.reference.ntt import bit_reversed, dft, fft, ntt

each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)
each_family = pytest.mark.parametrize("family", ["snarkjs", "arkworks"])


def test_dft_over_a_small_field() -> None:
    # F_17 with the root 4 of order 4, by hand.
    assert dft([1, 2, 3, 4], 4, 17) == [
        (1 + 2 + 3 + 4) % 17,
        (1 + 2 * 4 + 3 * 16 + 4 * 64) % 17,
        (1 + 2 * 16 + 3 * 256 + 4 * 4096) % 17,
        (1 + 2 * 64 + 3 * 4096 + 4 * 262144) % 17,
    ]


@each_curve
@each_family
@pytest.mark.parametrize("log_size", [0, 1, 2, 5])
def test_fft_matches_the_dft(curve: PairingCurve, family: RootFamily, log_size: int) -> None:
    p = curve.fr.value
    values = [pow(3, i * i + 1, p) for i in range(1 << log_size)]
    root = root_of_unity(curve.fr, family, log_size)
    assert fft(values, root, p) == dft(values, root, p)


@each_curve
@each_family
@pytest.mark.parametrize("log_size", [0, 1, 3, 6])
@pytest.mark.parametrize("shift", [1, 7])
def test_evaluates_the_polynomial(
    curve: PairingCurve, family: RootFamily, log_size: int, shift: int
) -> None:
    p, size = curve.fr.value, 1 << log_size
    values = [pow(5, 3 * i + 1, p) for i in range(size)]
    root = root_of_unity(curve.fr, family, log_size)
    points = [shift * pow(root, k, p) % p for k in range(size)]
    expected = [sum(v * pow(x, i, p) for i, v in enumerate(values)) % p for x in points]
    assert ntt(curve.fr, values, family=family, shift=shift) == expected
    assert ntt(curve.fr, expected, family=family, shift=shift, inverse=True) == values


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("shift", [1, 11])
def test_orderings(inverse: bool, shift: int) -> None:
    values = list(range(100, 116))

    def run(ordering: str, sequence: list[int]) -> list[int]:
        return ntt(BN254.fr, sequence, inverse=inverse, shift=shift, ordering=ordering)

    natural = run("NN", values)
    assert run("NR", values) == bit_reversed(natural)
    assert run("RN", bit_reversed(values)) == natural
    assert run("RR", bit_reversed(values)) == bit_reversed(natural)
    assert bit_reversed(natural) != natural


@given(st.integers(0, 6))
def test_bit_reversal_is_an_involution(log_size: int) -> None:
    values = list(range(1 << log_size))
    assert bit_reversed(bit_reversed(values)) == values
    assert sorted(bit_reversed(values)) == values


def test_bit_reversal_of_eight() -> None:
    assert bit_reversed(list(range(8))) == [0, 4, 2, 6, 1, 5, 3, 7]


def test_families_differ_on_bls12_381() -> None:
    """From size 8 on; the roots of order 2 and 4 happen to be the same."""
    values = [1, 2, 3, 4, 5, 6, 7, 8]
    snarkjs = ntt(BLS12_381.fr, values, family="snarkjs")
    assert snarkjs != ntt(BLS12_381.fr, values, family="arkworks")
    assert ntt(BLS12_381.fr, values[:4], family="snarkjs") == ntt(
        BLS12_381.fr, values[:4], family="arkworks"
    )


@pytest.mark.parametrize("length", [0, 3, 12])
def test_refuses_other_lengths(length: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        ntt(BN254.fr, [1] * length, family="snarkjs")
