"""Properties of transforms of any size, checked where the model would be too slow."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from quod.curve.named import CURVES
from quod.curve.named.bn254 import BN254
from quod.device.cpu.device import CpuDevice
from quod.device.cpu.processor import host_processor
from quod.device.protocol import AnyDevice
from quod.field.array import random_elements
from quod.ntt import NttPlan, ntt
from tests.ntt.test_transforms import ORDERINGS
from tests.support.thorough import one_and_others

P = BN254.fr.value


@pytest.mark.parametrize(
    ("name", "log2_size"),
    one_and_others([("bn254", 13), ("bn254", 16), ("bls12_381", 14), ("bls12_377", 14)]),
)
def test_round_trips(device: AnyDevice, name: str, log2_size: int) -> None:
    curve = CURVES[name]
    transform = NttPlan(device, curve.fr, log2_size)
    values = random_elements(curve.fr, 1 << log2_size, seed=log2_size)
    for ordering, coset in [("NN", None), ("NR", 5), ("RN", 5), ("RR", None)]:
        data = values.copy()
        transform.forward(data, ordering=ordering, coset=coset)  # type: ignore[arg-type]
        assert not np.array_equal(data, values)
        back = ordering[::-1]
        transform.inverse(data, ordering=back, coset=coset)  # type: ignore[arg-type]
        assert np.array_equal(data, values)


@pytest.mark.parametrize("log2_size", one_and_others([13, 15]))
def test_orders_are_permutations_of_one_result(device: AnyDevice, log2_size: int) -> None:
    transform = NttPlan(device, BN254.fr, log2_size)
    values = random_elements(BN254.fr, 1 << log2_size, seed=1)
    size = 1 << log2_size
    order = np.array([int(format(i, f"0{log2_size}b")[::-1], 2) for i in range(size)])
    expected = values.copy()
    transform.forward(expected, coset=3)
    for ordering in ORDERINGS:
        data = (values[order] if ordering[0] == "R" else values).copy()
        transform.forward(data, ordering=ordering, coset=3)
        assert np.array_equal(data[order] if ordering[1] == "R" else data, expected)


@pytest.mark.device("vectors")
def test_strategies_agree_bit_for_bit() -> None:
    devices = [CpuDevice(strategy=strategy) for strategy in host_processor().strategies]
    for curve in CURVES.values():
        values = random_elements(curve.fr, 1 << 12, seed=2)
        results = []
        for device in devices:
            data = values.copy()
            NttPlan(device, curve.fr, 12).forward(data, coset=3)
            results.append(data)
        assert all(np.array_equal(results[0], result) for result in results[1:])


def test_result_does_not_depend_on_threads(device: AnyDevice) -> None:
    if not device.host_memory:
        pytest.skip("only the CPU has threads")
    values = random_elements(BN254.fr, 1 << 13, seed=3)
    results = []
    for threads in (1, 3):
        data = values.copy()
        processor = CpuDevice(strategy=device.strategy, threads=threads)
        NttPlan(processor, BN254.fr, 13).inverse(data)
        processor.close()
        results.append(data)
    assert np.array_equal(results[0], results[1])


ELEMENTS = st.one_of(st.sampled_from([0, 1, 2, P - 1, P - 2, P >> 1]), st.integers(0, P - 1))
FOUR = st.lists(ELEMENTS, min_size=32, max_size=32)


@settings(deadline=None, max_examples=25)
@given(a=FOUR, b=FOUR, factor=ELEMENTS, coset=st.integers(1, P - 1))
def test_linearity(a: list[int], b: list[int], factor: int, coset: int) -> None:
    combination = [(x + factor * y) % P for x, y in zip(a, b, strict=True)]
    transform = ntt(combination, BN254.fr, coset=coset)
    parts = zip(ntt(a, BN254.fr, coset=coset), ntt(b, BN254.fr, coset=coset), strict=True)
    assert transform == [(x + factor * y) % P for x, y in parts]


@settings(deadline=None, max_examples=25)
@given(a=FOUR, b=FOUR)
def test_products_of_transforms_are_convolutions(a: list[int], b: list[int]) -> None:
    pairs = zip(ntt(a, BN254.fr), ntt(b, BN254.fr), strict=True)
    convolution = ntt([x * y % P for x, y in pairs], BN254.fr, inverse=True)
    expected = [0] * len(a)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            expected[(i + j) % len(a)] += x * y
    assert convolution == [value % P for value in expected]
