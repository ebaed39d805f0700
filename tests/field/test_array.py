"""Host arrays against integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.field import array
from quod.field.moduli import MODULI, NAMED, Modulus
from quod.field.named_extensions import EXTENSIONS, M31_3
from quod.field.spec import FieldSpec
from tests.field.models import SOME_PRIMES, hostile_integers, random_integers

SOME = pytest.mark.parametrize("modulus", SOME_PRIMES, ids=lambda modulus: modulus.name)


@pytest.mark.parametrize(
    ("field", "shape"),
    [(M31_3, (4,)), (M31_3, (2, 2)), (NAMED["goldilocks"], (2, 3)), (NAMED["goldilocks"], (3,))],
    ids=str,
)
def test_partial_elements_are_rejected(field: FieldSpec, shape: tuple[int, ...]) -> None:
    words = np.zeros(shape, np.uint32)
    message = f"elements of {field.name} are {field.words} words of uint32 each, not uint32 of"
    for read in (array.to_integers, array.words_to_integers):
        with pytest.raises(InputError, match=message):
            read(field, words)  # type: ignore[call-overload]


@SOME
def test_integers(modulus: Modulus) -> None:
    integers = hostile_integers(modulus)
    elements = array.from_integers(modulus, integers)
    assert elements.dtype == np.uint32
    assert elements.shape == (len(integers), modulus.words)
    assert array.words_to_integers(modulus, elements) == [
        integer * 2 ** (32 * modulus.words) % modulus.value for integer in integers
    ]
    assert array.to_integers(modulus, elements) == integers
    assert array.to_integers(modulus, array.from_integers(modulus, [-1, modulus.value + 2])) == [
        modulus.value - 1, 2,
    ]  # fmt: skip
    assert array.from_integers(modulus, []).shape == (0, modulus.words)


@SOME
def test_words_of_integers(modulus: Modulus) -> None:
    integers = hostile_integers(modulus)
    words = array.integers_to_words(modulus, integers)
    assert array.words_to_integers(modulus, words) == integers
    for bad in (-1, modulus.value, modulus.value + 1):
        with pytest.raises(InputError, match="integer 1 is not an element of"):
            array.integers_to_words(modulus, [0, bad])


@SOME
def test_bytes(modulus: Modulus) -> None:
    integers = hostile_integers(modulus)
    words = array.integers_to_words(modulus, integers)
    for order in ("little", "big"):
        data = b"".join(integer.to_bytes(modulus.bytes, order) for integer in integers)
        assert array.to_bytes(modulus, words, order) == data
        assert (array.from_bytes(modulus, data, order) == words).all()
        with pytest.raises(InputError, match="not a whole number"):
            array.from_bytes(modulus, data[:-1], order)
        for bad in (modulus.value, 256**modulus.bytes - 1):
            with pytest.raises(InputError, match="element 1 is not below"):
                array.from_bytes(
                    modulus, bytes(modulus.bytes) + bad.to_bytes(modulus.bytes, order), order
                )


@SOME
def test_canonical(modulus: Modulus) -> None:
    p, size = modulus.value, modulus.bytes
    values = [0, 1, p - 1, p, p + 1, 256**size - 1]
    for place in range(modulus.words):
        values += [p - (1 << 32 * place), (p + (1 << 32 * place)) % 256**size]
    raw = b"".join(value.to_bytes(size, "little") for value in values)
    words = np.frombuffer(raw, np.uint32).reshape(-1, modulus.words)
    assert array.canonical(modulus, words).tolist() == [value < p for value in values]
    for value, row in zip(values, words, strict=True):
        assert array.all_canonical(modulus, np.stack([row, words[0]])) == (value < p)
    assert array.all_canonical(modulus, words[:0])


@SOME
def test_random(modulus: Modulus) -> None:
    drawn = array.random_elements(modulus, 3000, seed=1)
    assert (drawn == array.random_elements(modulus, 3000, seed=1)).all()
    assert (drawn != array.random_elements(modulus, 3000, seed=2)).any()
    integers = array.words_to_integers(modulus, drawn)
    assert max(integers) < modulus.value
    assert len(set(integers)) == 3000
    # Each eighth of the range gets its share: within six standard deviations.
    counts = np.bincount([integer * 8 // modulus.value for integer in integers], minlength=8)
    assert abs(counts - 375).max() < 6 * 18.2
    assert array.random_elements(modulus, 0).shape == (0, modulus.words)
    assert len({*array.words_to_integers(modulus, array.random_elements(modulus, 9))}) == 9


@SOME
def test_montgomery_on_a_device(device: CpuDevice, modulus: Modulus) -> None:
    integers = hostile_integers(modulus) + random_integers(modulus, 500, 2)
    words = array.integers_to_words(modulus, integers)
    stored = array.to_montgomery(device, modulus, words)
    assert (stored == array.from_integers(modulus, integers)).all()
    assert (array.from_montgomery(device, modulus, stored) == words).all()


@pytest.mark.parametrize("make", [array.from_integers, array.integers_to_words])
def test_non_integers_are_reported(make: Callable[..., Any]) -> None:
    modulus = MODULI["bn254.fr"]
    for bad in (True, 1.0, "1", None, [1], np.int64(1)):
        with pytest.raises(InputError, match=f"integer 1 must be an int, not {type(bad).__name__}"):
            make(modulus, [0, bad])
    with pytest.raises(InputError, match="must be a list of int, not int"):
        make(modulus, 7)


def test_seeds() -> None:
    seeds: list[Any] = [-1, True, 1.5, "1", [1], np.int64(1)]
    for seed in seeds:
        with pytest.raises(InputError, match="a seed must be an int of 0 or more, not"):
            array.random_elements(MODULI["bn254.fr"], 1, seed)


@pytest.mark.parametrize("name", ["m31", "baby_bear", "goldilocks", "pallas.fr"])
def test_short_and_full_words(device: CpuDevice, name: str) -> None:
    """Arrays whose elements are one word, or fill their words; an odd number of them, too."""
    modulus = NAMED[name]
    for count in (0, 3, 4):
        integers = [modulus.value - 1, 0, 12345, 7][:count]
        stored = array.from_integers(modulus, integers)
        plain = array.integers_to_words(modulus, integers)
        assert stored.shape == (count, modulus.words)
        assert array.to_integers(modulus, stored) == integers
        assert array.to_montgomery(device, modulus, plain).tolist() == stored.tolist()
        assert array.from_montgomery(device, modulus, stored).tolist() == plain.tolist()
    drawn = array.random_elements(modulus, 50, seed=5)
    assert drawn.shape == (50, modulus.words)
    assert array.canonical(modulus, drawn).all()
    assert len(set(array.words_to_integers(modulus, drawn))) == 50


@pytest.mark.parametrize("name", ["m31.3", "m31.4", "goldilocks.3", "baby_bear.4"])
def test_extensions(device: CpuDevice, name: str) -> None:
    field = EXTENSIONS[name]
    p, n = field.modulus.value, field.degree
    elements = [(p - 1,) * n, (0,) * n, tuple(range(n)), tuple(range(7, 7 + n)), (5,) * n]
    stored = array.from_integers(field, elements)
    plain = array.integers_to_words(field, elements)
    assert stored.shape == (5, field.words) == plain.shape
    flat = array.from_integers(field.modulus, [c for element in elements for c in element])
    assert stored.tobytes() == flat.tobytes()
    assert array.to_integers(field, stored) == elements == array.words_to_integers(field, plain)
    assert array.from_integers(field, [(-1,) * n]).tolist() == stored[:1].tolist()
    assert array.from_integers(field, []).shape == (0, field.words)
    assert array.to_montgomery(device, field, plain).tolist() == stored.tolist()
    assert array.from_montgomery(device, field, stored).tolist() == plain.tolist()
    drawn = array.random_elements(field, 50, seed=5)
    assert drawn.shape == (50, field.words)
    assert array.canonical(field.modulus, drawn).all()
    assert len(set(array.words_to_integers(field, drawn))) == 50


@pytest.mark.parametrize("make", [array.from_integers, array.integers_to_words])
def test_invalid_extension_elements_are_reported(make: Callable[..., Any]) -> None:
    for bad, kind in (((1, 2), "2"), ((1, 2, 3, 4), "4"), ([1, 2, 3], "list"), (1, "int")):
        with pytest.raises(InputError, match=f"element 1 of m31.3 must be .* 3 int, not {kind}"):
            make(M31_3, [(0, 0, 0), bad])
    with pytest.raises(InputError, match="integer 1 must be an int, not bool"):
        make(M31_3, [(0, 0, 0), (1, True, 0)])
    with pytest.raises(InputError, match="must be a list of tuples of 3 int, not int"):
        make(M31_3, 7)
    with pytest.raises(InputError, match=r"integer 0 is not an element of m31\.3"):
        array.integers_to_words(M31_3, [(0, M31_3.modulus.value, 0)])
