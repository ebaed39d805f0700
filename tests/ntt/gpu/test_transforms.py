"""Transforms on devices with memory of their own, at sizes of several passes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from quod.curve.named import CURVES
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import PairingCurve
from quod.device.cpu.device import CpuDevice
from quod.device.discovery import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.field.array import from_integers, random_elements, to_integers
from quod.field.roots import RootFamily
from quod.ntt import NttPlan, Ordering, coset_quotient, record_coset_quotient
from quod.ntt.gpu.schedule import Tuning
from quod.ntt.gpu.tables import PassTables
from quod.ntt.quotient import quotient_coefficients, record_quotient_coefficients
from quod.ntt.tables import store_of
from tests.reference import ntt as reference
from tests.support.thorough import one_and_others

ORDERINGS: tuple[Ordering, ...] = ("NN", "NR", "RN", "RR")

SMALL = Tuning(log_tile=5, log_elements=2, max_levels=3, resident=0)
"""Tiles of 32 elements: 2**6 points take two passes, 2**9 take three."""


def uniform(curve: PairingCurve, count: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(curve.fr.value) for _ in range(count)]


def combinations() -> list[tuple[Ordering, bool, int | None]]:
    return list(itertools.product(ORDERINGS, (False, True), (None, 7)))


def check(
    device: AnyDevice,
    curve: PairingCurve,
    values: Sequence[int],
    tuning: Tuning = SMALL,
    *,
    batch: int = 1,
    ordering: Ordering = "NN",
    inverse: bool = False,
    coset: int | None = None,
    family: RootFamily = "snarkjs",
) -> None:
    size = len(values) // batch
    plan = NttPlan(device, curve.fr, size.bit_length() - 1, family, tuning)
    data = from_integers(curve.fr, values)
    transform = plan.inverse if inverse else plan.forward
    transform(data, batch=batch, ordering=ordering, coset=coset)
    expected: list[int] = []
    for start in range(0, len(values), size):
        expected += reference.ntt(
            curve.fr, values[start : start + size], family=family, inverse=inverse,
            shift=coset or 1, ordering=ordering,
        )  # fmt: skip
    assert to_integers(curve.fr, data) == expected


@pytest.mark.parametrize(
    "log2_size",
    [pytest.param(log2_size, marks=() if log2_size in (1, 5) else pytest.mark.thorough)
     for log2_size in range(10)],
)  # fmt: skip
def test_every_order_and_coset(gpu_device: AnyDevice, log2_size: int) -> None:
    curve = list(CURVES.values())[log2_size % len(CURVES)]
    values = uniform(curve, 1 << log2_size, log2_size)
    for ordering, inverse, coset in combinations():
        check(gpu_device, curve, values, ordering=ordering, inverse=inverse, coset=coset)


@pytest.mark.parametrize("family", one_and_others(["arkworks", "snarkjs"]))
def test_both_families_of_roots(gpu_device: AnyDevice, family: RootFamily) -> None:
    """Over BLS12-381, where their roots differ."""
    for log2_size in (1, 6):
        values = uniform(BLS12_381, 1 << log2_size, 100 + log2_size)
        check(gpu_device, BLS12_381, values, family=family)
        check(gpu_device, BLS12_381, values, family=family, inverse=True, ordering="NR", coset=5)


@pytest.mark.parametrize("batch", [5, 33])
def test_batches(gpu_device: AnyDevice, batch: int) -> None:
    """Columns that do not fill the tiles of a single pass, and transforms side by side."""
    for log2_size, (ordering, inverse, coset) in itertools.product((0, 2, 6), combinations()):
        if batch << log2_size > 256:
            continue
        values = uniform(BN254, batch << log2_size, batch)
        check(
            gpu_device, BN254, values, batch=batch, ordering=ordering, inverse=inverse, coset=coset
        )  # fmt: skip


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(5, 2, 4, rolled=True),
        *(
            pytest.param(tuning, marks=pytest.mark.thorough)
            for tuning in (
                Tuning(5, 1, 3), Tuning(6, 3, 5), Tuning(8, 3, 8), Tuning(6, 3, 6, rolled=True)
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_custom_tiles(gpu_device: AnyDevice, tuning: Tuning) -> None:
    for log2_size in (tuning.log_tile, tuning.log_tile + 1):
        values = uniform(BLS12_381, 1 << log2_size, 3)
        for ordering in ORDERINGS:
            check(
                gpu_device, BLS12_381, values, tuning, ordering=ordering,
                inverse=ordering == "NR", coset=3,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("log2_size", "ordering"),
    one_and_others([(11, "NN"), (10, "NR"), (11, "RN")]),
)
def test_default_tiles(gpu_device: AnyDevice, log2_size: int, ordering: Ordering) -> None:
    values = random_elements(BLS12_381.fr, 1 << log2_size, seed=log2_size)
    results = []
    for device in (gpu_device, CpuDevice()):
        data = values.copy()
        NttPlan(device, BLS12_381.fr, log2_size).forward(data, ordering=ordering, coset=7)
        results.append(data)
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("log2_size", [10, 28])
@pytest.mark.parametrize("ordering", one_and_others(["NR", "NN"]))
def test_a_single_power(gpu_device: AnyDevice, log2_size: int, ordering: Ordering) -> None:
    """x**j on a coset and back, seen at some points: up to 8 GiB, where offsets need 64 bits."""
    fr, shift, size = BN254.fr, 5, 1 << log2_size
    plan = NttPlan(gpu_device, fr, log2_size)
    needed = plan.peak_bytes(ordering=ordering) + size * fr.bytes
    if needed > gpu_device.memory_budget:
        pytest.skip(f"needs {needed >> 30} GiB of device memory")
    if size * fr.bytes > gpu_device.largest_buffer:
        pytest.skip(f"kernels of {gpu_device.name} do not reach {size * fr.bytes >> 30} GiB")
    generator = random.Random(log2_size)
    j = size - 3
    data = gpu_device.allocate(size * fr.bytes)

    def place(index: int) -> Buffer:
        return data.slice(index * fr.bytes, (index + 1) * fr.bytes)

    def value(index: int) -> int:
        words = np.zeros(fr.words, np.uint32)
        gpu_device.download(place(index), words)
        return to_integers(fr, words)[0]

    gpu_device.upload(from_integers(fr, [1]), into=place(j))
    plan.forward(data, ordering=ordering, coset=shift)
    samples = {0, 1, size // 2, size - 1, *(generator.randrange(size) for _ in range(30))}
    for k in samples:
        expected = pow(shift * pow(plan.generator, k, fr.value), j, fr.value)
        backwards = int(format(k, f"0{log2_size}b")[::-1], 2)
        assert value(k if ordering == "NN" else backwards) == expected, k
    plan.inverse(data, ordering="NN" if ordering == "NN" else "RN", coset=shift)
    assert {k: value(k) for k in {*samples, j}} == {k: int(k == j) for k in {*samples, j}}


@pytest.mark.parametrize("curve", one_and_others(CURVES.values()), ids=CURVES)
def test_hostile_values(gpu_device: AnyDevice, curve: PairingCurve) -> None:
    """Values that carry through every limb, or none, at every level."""
    largest, size = curve.fr.value - 1, 1 << 6
    kinds = (
        [0] * size,
        [1] * size,
        [largest] * size,
        [largest] + [0] * (size - 1),
        [0] * (size - 1) + [largest],
        [0, largest] * (size // 2),
    )
    values = list(itertools.chain(*kinds))
    for ordering in ORDERINGS[:3]:
        check(
            gpu_device, curve, values, batch=len(kinds), ordering=ordering,
            inverse=ordering != "NR", coset=3,
        )  # fmt: skip


def test_split_twiddle_tables() -> None:
    """Split tables of factors, for transforms whose table would take too much of the memory."""
    device = EmulatedDevice(memory_budget=1 << 16)
    values = uniform(BN254, 1 << 7, 1)
    for ordering, inverse, coset in combinations()[::15]:
        check(device, BN254, values, ordering=ordering, inverse=inverse, coset=coset)
    kept = store_of(device)._tables.values()
    assert "split" in {tables.kind for tables in kept if isinstance(tables, PassTables)}


def test_tables_are_kept_until_released(gpu_device: AnyDevice) -> None:
    store = store_of(gpu_device)
    store.release()

    def held() -> int:
        buffers: dict[int, int] = {}
        for kept in store._tables.values():
            tables = [kept]
            if isinstance(kept, PassTables):
                tables = [kept.outer, kept.inner, kept.inner_high]
            buffers |= {id(table): table.nbytes for table in tables}
        return sum(buffers.values())

    plan = NttPlan(gpu_device, BN254.fr, 8, tuning=SMALL)
    data = random_elements(BN254.fr, 1 << 8, seed=1)
    plan.forward(data, ordering="NR", coset=3)
    first = held()
    assert 0 < first <= plan.peak_bytes(ordering="NR") < plan.peak_bytes()
    plan.forward(data, ordering="NR", coset=3)
    assert held() == first
    plan.release()
    assert held() == 0


def test_a_recording_is_replayed(gpu_device: AnyDevice) -> None:
    """Forward and back in one recording, over other values each time; the middle can be seen."""
    plan = NttPlan(gpu_device, BLS12_381.fr, 7, tuning=SMALL)
    data = gpu_device.allocate(2 * plan.size * BLS12_381.fr.bytes)
    seen = gpu_device.allocate(data.nbytes)
    recording = gpu_device.stream().record()
    plan.record(recording, "forward", data, batch=2, ordering="NN", coset=5)
    recording.copy(data, seen)
    plan.record(recording, "inverse", data, batch=2, ordering="NN", coset=5)
    stream = recording.finish()
    again = stream.recording
    for seed in (1, 2):
        values = random_elements(BLS12_381.fr, 2 << 7, seed=seed)
        gpu_device.upload(values, into=data)
        idle = gpu_device.stream().replay(again).submit().wait()
        assert idle.state == "idle"
        result, middle = np.zeros_like(values), np.zeros_like(values)
        gpu_device.download(data, result)
        gpu_device.download(seen, middle)
        assert np.array_equal(result, values)
        expected: list[int] = []
        for part in np.split(values, 2):
            expected += reference.ntt(
                BLS12_381.fr, to_integers(BLS12_381.fr, part), family="snarkjs", shift=5
            )
        assert to_integers(BLS12_381.fr, middle) == expected


def test_unscaled_inverse(gpu_device: AnyDevice) -> None:
    p = BN254.fr.value
    for ordering in ORDERINGS[:2]:
        plan = NttPlan(gpu_device, BN254.fr, 6, tuning=SMALL)
        scaled, unscaled = (random_elements(BN254.fr, 64, seed=9) for _ in range(2))
        plan.inverse(scaled, coset=3, ordering=ordering)
        plan.inverse(unscaled, coset=3, ordering=ordering, scaled=False)
        large = to_integers(BN254.fr, unscaled)
        assert [64 * x % p for x in to_integers(BN254.fr, scaled)] == large


@pytest.mark.parametrize(
    ("name", "family"), one_and_others([("bn254", "snarkjs"), ("bls12_381", "arkworks")])
)
def test_the_quotient(gpu_device: AnyDevice, name: str, family: RootFamily) -> None:
    curve = CURVES[name]
    for log2_size in (0, 2, 6):
        values = random_elements(curve.fr, 3 << log2_size, seed=log2_size)
        expected = np.zeros((1 << log2_size, curve.fr.words), np.uint32)
        coset_quotient(NttPlan(CpuDevice(), curve.fr, log2_size, family), values.copy(), expected)
        plan = NttPlan(gpu_device, curve.fr, log2_size, family, SMALL)
        quotient = np.zeros_like(expected)
        coset_quotient(plan, values.copy(), quotient)
        assert np.array_equal(quotient, expected)
        # The result may take the place of a.
        data = gpu_device.upload(values)
        out = data.slice(0, expected.nbytes)
        recording = gpu_device.stream().record()
        record_coset_quotient(recording, plan, data, out)
        recording.finish().submit().wait()
        gpu_device.download(out, quotient)
        assert np.array_equal(quotient, expected)


@pytest.mark.parametrize("monomial", [False, True])
def test_quotients_of_a_batch(gpu_device: AnyDevice, monomial: bool) -> None:
    """All a come first, then all b, and all c."""
    fr, size, batch = BN254.fr, 1 << 5, 3
    plan = NttPlan(gpu_device, fr, 5, "arkworks" if monomial else "snarkjs", SMALL)
    alone = quotient_coefficients if monomial else coset_quotient
    record = record_quotient_coefficients if monomial else record_coset_quotient
    values = random_elements(fr, 3 * batch * size, seed=4).reshape(3, batch, size, fr.words)
    expected = np.zeros((batch, size, fr.words), np.uint32)
    for number in range(batch):
        member = np.ascontiguousarray(values[:, number]).reshape(-1, fr.words)
        alone(plan, member, expected[number])
    data, quotients = gpu_device.upload(values), np.zeros_like(expected)
    out = data.slice(0, expected.nbytes)
    recording = gpu_device.stream().record()
    record(recording, plan, data, out, batch=batch)
    recording.finish().submit().wait()
    gpu_device.download(out, quotients)
    assert np.array_equal(quotients, expected)


@pytest.mark.thorough
def test_the_emitted_text_computes_the_same() -> None:
    """In every run over a shorter field, in test_fields."""
    device = EmulatedDevice(executor="ptx")
    values = uniform(BLS12_381, 1 << 6, 4)
    check(device, BLS12_381, values, ordering="NN", coset=3)
    check(device, BLS12_381, values, ordering="RN", inverse=True)


def test_memory_budget_is_respected() -> None:
    device = EmulatedDevice(memory_budget=1 << 14)
    plan = NttPlan(device, BN254.fr, 9, tuning=SMALL)
    with pytest.raises(DeviceError, match=r"a transform of 2\^9 elements of bn254.fr would take"):
        plan.forward(random_elements(BN254.fr, 1 << 9, seed=1))


def test_cpu_device_rejects_recorded_transforms() -> None:
    device = CpuDevice(threads=1)
    plan = NttPlan(device, BN254.fr, 4)
    recording = device.stream().record()
    data = device.allocate(plan.size * BN254.fr.bytes)
    with pytest.raises(DeviceError, match=r"on cpu.* transforms are not recorded"):
        plan.record(recording, "forward", data)


def test_transforms_beyond_kernel_addressing() -> None:
    """Transforms of a batch are recorded one by one; a single large one is rejected."""
    device = EmulatedDevice(largest_buffer=1 << 13)
    values = uniform(BN254, 3 << 7, 5)
    for ordering in ORDERINGS[1:2]:
        check(device, BN254, values, batch=3, ordering=ordering, coset=3)
    plan = NttPlan(device, BN254.fr, 9, tuning=SMALL)
    with pytest.raises(DeviceError, match=r"a transform of 2\^9 .* can address at most 8.0 KiB"):
        plan.forward(random_elements(BN254.fr, 1 << 9, seed=1))


@pytest.mark.parametrize(
    "curve",
    [pytest.param(curve, marks=() if curve is BN254 else pytest.mark.thorough)
     for curve in CURVES.values()],
    ids=CURVES,
)  # fmt: skip
def test_within_the_limits_of_portable_wgsl(curve: PairingCurve) -> None:
    """Lazy limbs, packed on their way from instance to instance; two passes, and one."""
    device = open_device("emulated:wgsl")
    for log2_size, ordering, inverse in ((6, "NN", True), (7, "NR", True), (7, "RN", False)):
        values = [0, 1, curve.fr.value - 1, *uniform(curve, (1 << log2_size) - 3, 8)]
        check(
            device, curve, values, ordering=ordering, inverse=inverse, coset=5,  # type: ignore[arg-type]
        )  # fmt: skip
    values = random_elements(curve.fr, 1 << 9, seed=9)
    results = []
    for machine in (device, CpuDevice()):
        data = values.copy()
        NttPlan(machine, curve.fr, 9).forward(data, ordering="RN", coset=7)
        results.append(data)
    assert np.array_equal(results[0], results[1])
