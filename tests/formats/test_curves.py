from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.curve.named import CURVES
from quod.field.moduli import MODULI
from quod.formats.curves import (
    curve_of_json_name,
    first_at_or_above,
    supported_curves,
)
from tests.formats.tiny import elements


@given(st.data())
def test_first_at_or_above_agrees_with_integers(data: st.DataObject) -> None:
    modulus = data.draw(st.sampled_from(list(MODULI.values())))
    p, bits = modulus.value, 32 * modulus.words
    # Equal top words, single-word differences and saturated words decide at every depth.
    near = st.builds(
        lambda word, delta: min(max(p + delta * (1 << (32 * word)), 0), (1 << bits) - 1),
        st.integers(0, modulus.words - 1),
        st.integers(-2, 2),
    )
    values = data.draw(st.lists(st.one_of(near, st.integers(0, (1 << bits) - 1), st.just(p))))
    expected = next((index for index, value in enumerate(values) if value >= p), None)
    assert first_at_or_above(elements(values, modulus.words), modulus) == expected


def test_first_at_or_above_takes_any_strides() -> None:
    modulus = MODULI["bn254.fr"]
    wide = elements([3, modulus.value - 1, modulus.value, 5], modulus.words)
    assert first_at_or_above(wide[::2], modulus) == 1
    assert first_at_or_above(wide[::-1], modulus) == 1
    assert first_at_or_above(wide[:0], modulus) is None


@pytest.mark.parametrize(
    ("name", "curve"),
    [
        ("bn128", "bn254"),
        ("bn254", "bn254"),
        ("BN-254", "bn254"),
        ("alt_bn128", "bn254"),
        ("bls12381", "bls12_381"),
        ("bls12-381", "bls12_381"),
        ("BLS12_381", "bls12_381"),
        ("bls12377", "bls12_377"),
    ],
)
def test_names_of_curves(name: str, curve: str) -> None:
    parameters = curve_of_json_name(name)
    assert parameters is not None
    assert parameters.name == curve


@pytest.mark.parametrize("name", ["", "bn", "secp256k1", "bls12", "bn2540", "ｂｎ254"])
def test_unknown_curve_names_return_none(name: str) -> None:
    assert curve_of_json_name(name) is None


def test_messages_list_every_curve() -> None:
    for name in CURVES:
        assert name in supported_curves()
