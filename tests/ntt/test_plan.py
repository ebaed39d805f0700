"""Invalid plans, and the memory that plans report."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.curve.named.bls12_381 import BLS12_381
from quod.device.cpu.device import CpuDevice
from quod.errors import DeviceError, InputError
from quod.field.array import random_elements
from quod.field.moduli import BN254_FQ, BN254_FR
from quod.ntt import NttPlan, coset_quotient, ntt
from quod.ntt.ordering import bit_reversal
from quod.ntt.schedule import places_of, split
from quod.ntt.steps import records_before
from quod.ntt.tables import store_of


@pytest.fixture(scope="module")
def plan() -> NttPlan:
    return NttPlan(CpuDevice(threads=1), BN254_FR, 4)


def words(count: int) -> np.ndarray[Any, Any]:
    return np.zeros((count, BN254_FR.words), np.uint32)


REFUSED: dict[str, tuple[Callable[[NttPlan], object], str]] = {
    "beyond the two-adicity": (
        lambda plan: NttPlan(plan.device, BN254_FR, 29),
        "transforms over bn254.fr have 2^0 to 2^28 points, not 2^29",
    ),
    "below one point": (
        lambda plan: NttPlan(plan.device, BLS12_381.fr, -1),
        "transforms over bls12_381.fr have 2^0 to 2^32 points, not 2^-1",
    ),
    "another field": (
        lambda plan: NttPlan(plan.device, BN254_FQ, 2),
        "transforms over bn254.fq have 2^0 to 2^1 points, not 2^2",
    ),
    "another family": (
        lambda plan: NttPlan(plan.device, BN254_FR, 1, "bellman"),  # type: ignore[arg-type]
        "family must be snarkjs or arkworks, not 'bellman'",
    ),
    "another ordering": (
        lambda plan: plan.forward(words(16), ordering="NM"),  # type: ignore[arg-type]
        "an ordering must be NN, NR, RN or RR, not 'NM'",
    ),
    "too short": (
        lambda plan: plan.forward(words(15)),
        "1 x 2^4 elements of bn254.fr take 512 bytes, but the data has 480",
    ),
    "too long for its batch": (
        lambda plan: plan.inverse(words(49), batch=3),
        "3 x 2^4 elements of bn254.fr take 1536 bytes, but the data has 1568",
    ),
    "no batch": (
        lambda plan: plan.forward(words(16), batch=0),
        "batch must be a whole number from 1 on, not 0",
    ),
    "a coset of zero": (
        lambda plan: plan.inverse(words(16), coset=BN254_FR.value),
        "the shift of a coset must not be 0",
    ),
    "with gaps": (
        lambda plan: plan.forward(np.zeros((16, 16), np.uint32)[:, ::2]),
        "the data is transformed in place: it must be contiguous and writable",
    ),
    "read only": (
        lambda plan: plan.forward(np.frombuffer(bytes(512), np.uint32)),
        "the data is transformed in place: it must be contiguous and writable",
    ),
    "quotient of two": (
        lambda plan: coset_quotient(plan, words(32), words(16)),
        "3 x 2^4 elements of bn254.fr take 1536 bytes, but the data has 1024",
    ),
    "quotient to nowhere": (
        lambda plan: coset_quotient(plan, words(48), words(15)),
        "1 x 2^4 elements of bn254.fr take 512 bytes, but the data has 480",
    ),
    "no values": (
        lambda plan: ntt([], BN254_FR),
        "the length of a transform is a power of two, but 0 values make 1 x 0",
    ),
    "no power of two": (
        lambda plan: ntt([1] * 12, BN254_FR),
        "the length of a transform is a power of two, but 12 values make 1 x 12",
    ),
    "no power of two in a batch": (
        lambda plan: ntt([1] * 8, BN254_FR, batch=3),
        "the length of a transform is a power of two, but 8 values make 3 x 2.66667",
    ),
    "words of another width": (
        lambda plan: ntt(np.zeros((4, 12), np.uint32), BN254_FR),
        "elements of bn254.fr are uint32 of shape (n, 8), not uint32 of shape (4, 12)",
    ),
    "words of another type": (
        lambda plan: ntt(np.zeros((4, 8), np.uint64), BN254_FR),
        "elements of bn254.fr are uint32 of shape (n, 8), not uint64 of shape (4, 8)",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_invalid_calls_are_rejected(plan: NttPlan, kind: str) -> None:
    call, message = REFUSED[kind]
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call(plan)


def test_rejected_data_is_unchanged(plan: NttPlan) -> None:
    data = random_elements(BN254_FR, 15, seed=1)
    before = data.copy()
    with pytest.raises(InputError):
        plan.forward(data)
    assert np.array_equal(data, before)


def test_memory_budget_is_respected() -> None:
    small = NttPlan(CpuDevice(threads=1, memory_budget=1 << 16), BN254_FR, 14)
    assert small.peak_bytes() > 1 << 16
    with pytest.raises(DeviceError, match=r"a transform of 2\^14 elements of bn254.fr would take"):
        small.forward(words(1 << 14))


def test_peak_bytes_match_allocated_memory() -> None:
    for log2_size in (3, 8, 13):
        device = CpuDevice(threads=1)
        plan = NttPlan(device, BN254_FR, log2_size)
        plan.forward(words(1 << log2_size))
        kept = store_of(device)
        held = kept.scratch(0).nbytes + sum(table.nbytes for table in kept._tables.values())
        assert plan.peak_bytes() == held
        plan.release()
        assert kept.scratch(0).nbytes == 0
        assert not kept._tables


def test_tables_are_shared_and_bounded() -> None:
    device = CpuDevice(threads=1)
    kept = store_of(device)
    for _ in range(2):
        NttPlan(device, BN254_FR, 5).forward(words(32))
    assert len(kept._tables) == 1
    for coset in range(2, 50):
        NttPlan(device, BN254_FR, 5).forward(words(32), coset=coset)
    assert len(kept._tables) == 32


def test_unscaled_inverse() -> None:
    plan = NttPlan(CpuDevice(threads=1), BN254_FR, 6)
    scaled, unscaled = (random_elements(BN254_FR, 64, seed=9) for _ in range(2))
    plan.inverse(scaled, coset=3)
    plan.inverse(unscaled, coset=3, scaled=False)
    p = BN254_FR.value
    numbers = [
        [int.from_bytes(row.tobytes(), "little") for row in array] for array in (scaled, unscaled)
    ]
    assert [64 * x % p for x in numbers[0]] == numbers[1]


def test_one_device_serves_several_threads() -> None:
    device = CpuDevice(threads=2)
    plan = NttPlan(device, BN254_FR, 10)
    values = random_elements(BN254_FR, 1 << 10, seed=5)
    expected = values.copy()
    plan.forward(expected)
    results = [values.copy() for _ in range(6)]
    threads = [threading.Thread(target=plan.forward, args=(data,)) for data in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(data, expected) for data in results)


def test_input_values_are_not_modified() -> None:
    values = random_elements(BN254_FR, 16, seed=6)
    before = values.copy()
    result = ntt(values, BN254_FR)
    assert np.array_equal(values, before)
    assert not np.array_equal(result, before)
    assert result.dtype == np.uint32


@pytest.mark.parametrize("wide", [False, True])
def test_splits_cover_every_size(wide: bool) -> None:
    most = max(min(curve.fr.two_adicity, 32) for curve in CURVES.values())
    for log2_size in range(most + 1):
        parts = split(log2_size, wide=wide)
        assert sum(parts) == log2_size
        assert max(parts) <= 12
        assert all(part % 3 == 0 for part in parts[1:])
        # A pass with column twiddles has whole blocks of eight columns.
        assert len(parts) == 1 or parts[0] >= 3
        assert [place.log_stride for place in places_of(parts)] == [
            sum(parts[:number]) for number in range(len(parts))
        ]


def test_records_and_bit_reversal() -> None:
    assert [records_before(level) for level in range(8)] == [0, 1, 1, 1, 9, 9, 9, 73]
    assert bit_reversal(0).tolist() == [0]
    assert bit_reversal(3).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
