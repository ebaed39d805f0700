"""Arguments of transforms, of any type: exact numbers, or errors that name them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.errors import DeviceError, InputError
from quod.field import NAMED, from_integers
from quod.field.moduli import BN254_FR
from quod.ntt import NttPlan, coset_quotient, ntt

NO_COUNTS: list[Any] = [True, 1.0, 1.5, "1", b"1", [1], np.array([1]), np.float64(1)]
NO_ORDERINGS: list[Any] = ["", None, 5, True, "nn", "NNN", ["NN"], np.array(["NN", "NR"])]
NO_VALUES: list[Any] = [
    5, None, {1, 2}, {1: 2, 3: 4}, "ab", b"ab", bytearray(b"ab"), memoryview(b"ab"), iter([1, 2]),
    [True, False], [1.0, 2.0], [np.int64(1), 2], [None, 1], np.array([1, 2]),
    np.ma.masked_array(np.zeros((2, 8), np.uint32), mask=True),
]  # fmt: skip


def words(count: int = 4) -> np.ndarray[Any, Any]:
    return from_integers(BN254_FR, range(count))


def test_invalid_values_and_options_are_rejected() -> None:
    wrong: dict[str, list[Any]] = {
        "batch": [*NO_COUNTS, None, 0, -1],
        "coset": NO_COUNTS,
        "ordering": NO_ORDERINGS,
        "family": ["", None, 5, "Arkworks", ["snarkjs"]],
        "root": NO_COUNTS,
    }
    for name, wrong_values in wrong.items():
        for value in wrong_values:
            with pytest.raises(InputError):
                ntt([1, 2, 3, 4], **{name: value})
    for values in NO_VALUES:
        with pytest.raises(InputError):
            ntt(values)
    for device in ("", None, 5, b"cpu", "nope"):
        with pytest.raises(DeviceError):
            ntt([1, 2], device=device)  # type: ignore[arg-type]


def test_numpy_integers_are_accepted() -> None:
    values = [1, 2, 3, 4]
    options: Any = {"batch": np.int64(2), "coset": np.uint8(3)}
    assert ntt(values, **options) == ntt(values, batch=2, coset=3)
    plan = NttPlan("emulated", BN254_FR, np.int64(1))  # type: ignore[arg-type]
    assert (type(plan.log2_size), plan) == (int, NttPlan(plan.device, BN254_FR, 1))
    array, expected = words(), words()
    plan.forward(array, **options)
    NttPlan(open_device("cpu"), BN254_FR, 1).forward(expected, batch=2, coset=3)
    assert np.array_equal(array, expected)


@pytest.mark.parametrize("name", ["cpu", "emulated"])
def test_invalid_plans_are_rejected(name: str) -> None:
    with open_device(name) as device:
        for size in (*NO_COUNTS, None, -1, 29, 1 << 70):
            with pytest.raises(InputError):
                NttPlan(device, BN254_FR, size)
        plan, before = NttPlan(device, BN254_FR, 2), words()
        data = before.copy()
        recording = device.stream().record()

        def transforms(**wrong: Any) -> None:
            for transform in (plan.forward, plan.inverse):
                with pytest.raises(InputError):
                    transform(data, **wrong)
            with pytest.raises(InputError):
                plan.record(recording, "forward", device.allocate(128), **wrong)

        for value in NO_COUNTS:
            transforms(batch=value)
            transforms(coset=value)
        for ordering in NO_ORDERINGS:
            transforms(ordering=ordering)
            with pytest.raises(InputError):
                plan.peak_bytes(ordering=ordering)
        for way in ("", None, "Forward", True):
            with pytest.raises(InputError, match="a way must be forward or inverse"):
                plan.record(recording, way, device.allocate(128))  # type: ignore[arg-type]
        for other in ([1, 2, 3, 4], None, 5, bytes(128), bytearray(128), NO_VALUES[-1]):
            with pytest.raises(InputError):
                plan.forward(other)
            with pytest.raises(InputError):
                coset_quotient(plan, other, data)
            with pytest.raises(InputError):
                coset_quotient(plan, words(12), other)
        assert np.array_equal(data, before)


@pytest.mark.parametrize("name", ["bn254.fr", "baby_bear"])
def test_unreduced_elements_are_input_errors(name: str) -> None:
    """The error does not blame the device, which leaves the data unchanged."""
    modulus = NAMED[name]
    data = from_integers(modulus, range(8))
    data[5] = 0xFFFFFFFF
    for inverse in (False, True):
        with pytest.raises(InputError, match=f"element 5 is not below the modulus of {name}"):
            ntt(data, modulus, inverse=inverse)
    data[:] = 0xFFFFFFFF
    plan = NttPlan("emulated" if modulus.words > 1 else "cpu", modulus, 3)  # type: ignore[arg-type]
    # What comes out is nothing, but a device is not blamed.
    with suppress(InputError):
        plan.forward(data)
