"""Whole MSMs on a device with memory of its own, against plain integers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from quod.curve.array import Point, from_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.msm import MsmBases, MsmOptions, affine_ints, msm, msm_many, msm_words
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.run import device_plan, engine, streamed
from quod.msm.gpu.run.engine import GpuEngine
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.workspace import Workspace
from tests.msm.inputs import (
    bases,
    by_logarithms,
    logarithms,
    points,
    reference,
    scalar_words,
    uniform,
)
from tests.reference.msm import msm_naive
from tests.support.thorough import one_and_others

BITS = 24
GROUP = GROUPS["bn254.g1"]
COUNT = 100
SHORT = MsmOptions(scalar_bits=BITS, window_bits=5, precompute_factor=2)


@cache
def short(count: int, seed: int = 1) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(source.getrandbits(BITS) for _ in range(count))


@pytest.fixture(scope="module")
def resident(gpu_device: AnyDevice) -> MsmBases:
    return MsmBases(gpu_device, GROUP, bases(GROUP, COUNT), SHORT)


def kinds(count: int) -> dict[str, Sequence[int]]:
    scalars, most = short(count), (1 << BITS) - 1
    return {
        "uniform": scalars,
        "zeros": [0] * count,
        "ones": [1] * count,
        "greatest": [most] * count,
        "equal": [scalars[0]] * count,
        "giant": [scalars[0] if i % 16 else scalars[i] for i in range(count)],
    }


@pytest.mark.parametrize(
    "kind",
    one_and_others(["uniform", "zeros", "greatest", "giant"], ["uniform", "zeros", "giant"]),
)
def test_kinds_of_scalars(resident: MsmBases, kind: str) -> None:
    scalars = kinds(COUNT)[kind]
    result = affine_ints(GROUP, msm_words(resident, scalar_words(scalars)))
    assert result == by_logarithms(GROUP, scalars, logarithms(COUNT))


@pytest.mark.parametrize("count", [0, 1, 33])
def test_fewer_scalars_than_bases(resident: MsmBases, count: int) -> None:
    scalars = short(count)
    result = affine_ints(GROUP, msm_words(resident, scalar_words(scalars)))
    assert result == by_logarithms(GROUP, scalars, logarithms(count))


def test_empty_bases(gpu_device: AnyDevice) -> None:
    none = MsmBases(gpu_device, GROUP, bases(GROUP, 1)[:0])
    assert msm_words(none, scalar_words([])).tolist() == [0] * GROUP.point_words
    assert none.nbytes == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.thorough) for name in ("bls12_381.g1", "bn254.g2")),
     "bls12_381.g2"],
)  # fmt: skip
def test_groups(gpu_device: AnyDevice, name: str) -> None:
    group, options = GROUPS[name], MsmOptions(scalar_bits=12, precompute_factor=2, window_bits=5)
    scalars = [scalar & 0xFFF for scalar in short(7)]
    kept = MsmBases(gpu_device, group, bases(group, 7), options)
    result = affine_ints(group, msm_words(kept, scalar_words(scalars)))
    assert result == by_logarithms(group, scalars, logarithms(7))


def test_full_scalars_with_the_default_plan(gpu_device: AnyDevice) -> None:
    order = GROUP.scalars.value
    scalars = [order - 1, 0, 1, order - 2, *uniform(GROUP, 5)]
    count = len(scalars)
    result = msm(gpu_device, GROUP, bases(GROUP, count), scalar_words(scalars))
    assert result == by_logarithms(GROUP, scalars, logarithms(count))


def hostile(group: Group) -> list[Point]:
    """Infinity, P and -P, 2P, the same point often, points of which sums meet again.

    Beside P is the point of another x and the opposite y, with which formulas that are only nearly
    complete give infinity.
    """
    law, (p, q) = reference(group), points(group, 2)
    negated, doubled = law.neg(p), law.add(p, p)
    prime = group.coordinates.value
    root = next(r for r in (pow(g, (prime - 1) // 3, prime) for g in range(2, 99)) if r != 1)
    other = (root * p[0] % prime, -p[1] % prime)
    assert law.contains(other)
    return [
        p,
        other,
        other,
        p,
        None,
        p,
        p,
        negated,
        doubled,
        None,
        q,
        law.neg(q),
        law.add(p, q),
        p,
        p,
        negated,
        None,
    ]


@pytest.mark.parametrize(
    ("name", "factor"),
    one_and_others([("bn254.g1", 3), ("bn254.g1", 1), ("bls12_377.g1", 3)]),
)
def test_hostile_bases(gpu_device: AnyDevice, name: str, factor: int) -> None:
    """With scalars that bring unsuitable pairs into one bucket."""
    group = GROUPS[name]
    base_points = hostile(group)
    options = MsmOptions(scalar_bits=9, window_bits=4, precompute_factor=factor)
    kept = MsmBases(gpu_device, group, from_points(group, base_points), options)
    assert isinstance(kept.engine, GpuEngine)
    assert kept.engine.resident is not None
    form = "edwards" if name == "bls12_377.g1" else "weierstrass"
    assert kept.engine.resident.plan().form == form
    source = random.Random(4)
    vectors: list[list[int]] = [[3] * len(base_points), [0, *([1] * (len(base_points) - 1))]]
    vectors += [
        [source.randrange(512) for _ in base_points],
        [source.choice([1, 511]) for _ in base_points],
    ]
    results = msm_words(kept, np.stack([scalar_words(vector) for vector in vectors]))
    for vector, words in zip(vectors, results, strict=True):
        assert affine_ints(group, words) == msm_naive(reference(group), vector, base_points)


@pytest.mark.thorough
def test_points_outside_the_subgroup(gpu_device: AnyDevice) -> None:
    """Such points keep the Weierstrass form; one of order two has infinite multiples."""
    group = GROUPS["bls12_377.g1"]
    two = (group.coordinates.value - 1, 0)
    base_points = [*points(group, 2), two, (0, 1), two]
    options = MsmOptions(scalar_bits=8, window_bits=4, precompute_factor=2)
    resident = MsmBases(gpu_device, group, from_points(group, base_points), options)
    assert isinstance(resident.engine, GpuEngine)
    kept = resident.engine.resident
    assert kept is not None
    assert kept.form_reason == "base 2 is not in the subgroup of prime order"
    assert kept.plan().form == "weierstrass"
    assert kept.blocks[0].infinity_mask is not None
    vectors = [[255, 1, 17, 255, 16], [3] * 5, [0, 0, 1, 0, 1]]
    results = msm_words(resident, np.stack([scalar_words(vector) for vector in vectors]))
    for vector, words in zip(vectors, results, strict=True):
        assert affine_ints(group, words) == msm_naive(reference(group), vector, base_points)


def test_batches(gpu_device: AnyDevice) -> None:
    """Several at a time, with a remainder."""
    options = MsmOptions(scalar_bits=BITS, window_bits=6, batch_size=3)
    kept = MsmBases(gpu_device, GROUP, bases(GROUP, 12), options)
    vectors = [short(11, seed) for seed in range(5)]
    results = msm_many(gpu_device, GROUP, kept, [scalar_words(vector) for vector in vectors])
    assert results == [by_logarithms(GROUP, vector, logarithms(11)) for vector in vectors]


def test_options_of_one_msm(gpu_device: AnyDevice, resident: MsmBases) -> None:
    kept = MsmBases(gpu_device, GROUP, bases(GROUP, 9), MsmOptions(scalar_bits=BITS, window_bits=8))
    scalars = [scalar & 0xFF for scalar in short(9)]
    expected = by_logarithms(GROUP, scalars, logarithms(9))
    for options in (
        MsmOptions(scalar_bits=8),
        MsmOptions(scalar_bits=8, window_bits=3),
        MsmOptions(scalar_bits=8, window_bits=8, batch_size=2),
    ):
        assert affine_ints(GROUP, msm_words(kept, scalar_words(scalars), options)) == expected
    with pytest.raises(InputError, match="below the promised 2\\*\\*7"):
        msm_words(kept, scalar_words([*scalars[:8], 128]), MsmOptions(scalar_bits=7))
    with pytest.raises(InputError, match="precompute_factor applies only when MsmBases is made"):
        msm_words(kept, scalar_words(scalars), MsmOptions(precompute_factor=3))
    with pytest.raises(InputError, match="keep the options that they were made with"):
        msm_words(resident, scalar_words(scalars), MsmOptions(scalar_bits=8))


@pytest.mark.parametrize("position", one_and_others([99, 0]))
def test_oversized_scalar_is_rejected(resident: MsmBases, position: int) -> None:
    scalars = list(short(COUNT))
    scalars[position] = 1 << BITS
    with pytest.raises(InputError, match=f"scalar {position} is not below the promised 2\\*\\*24"):
        msm_words(resident, scalar_words(scalars))
    # It is forgotten afterwards.
    scalars[position] = 5
    result = affine_ints(GROUP, msm_words(resident, scalar_words(scalars)))
    assert result == by_logarithms(GROUP, scalars, logarithms(COUNT))


def test_unreduced_scalar_in_a_batch_is_rejected(gpu_device: AnyDevice) -> None:
    vectors = np.stack([scalar_words([1, 2, 3])] * 3)
    vectors[2, 1] = scalar_words([GROUP.scalars.value])[0]
    kept = MsmBases(
        gpu_device, GROUP, bases(GROUP, 3), MsmOptions(precompute_factor=1, batch_size=3)
    )
    with pytest.raises(InputError, match=r"scalar 1 is not below the order of bn254\.g1"):
        msm_words(kept, vectors)


@pytest.mark.thorough
def test_msm_in_chunks(gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scalars that are uploaded while the first are worked on."""
    monkeypatch.setattr(engine, "_MIN_SCALARS_FOR_BLOCKS", 20)
    base_words = bases(GROUP, 50).copy()
    base_words[[3, 20]] = 0
    logs = [0 if i in (3, 20) else log for i, log in enumerate(logarithms(50))]
    kept = MsmBases(gpu_device, GROUP, base_words, SHORT)
    for kind in ("uniform", "ones", "giant"):
        scalars = kinds(50)[kind]
        result = affine_ints(GROUP, msm_words(kept, scalar_words(scalars)))
        assert result == by_logarithms(GROUP, scalars, logs)
    for position in (2, 40):
        wrong = list(short(50))
        wrong[position] = 1 << BITS
        with pytest.raises(InputError, match=f"scalar {position} is not below"):
            msm_words(kept, scalar_words(wrong))


@pytest.mark.parametrize("count", one_and_others([9, 8]))
def test_streamed_bases(
    gpu_device: AnyDevice, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Slices of eight bases, with infinity in the last."""
    monkeypatch.setattr(streamed, "_SMALLEST_BLOCK", 8)
    monkeypatch.setattr(streamed, "_LARGEST_BLOCK", 8)
    base_words = bases(GROUP, count).copy()
    base_words[-1] = 0
    options = MsmOptions(scalar_bits=BITS, window_bits=6, streamed=True)
    kept = MsmBases(gpu_device, GROUP, base_words, options)
    assert kept.nbytes == 0
    logs = [*logarithms(count)[:-1], 0]
    for kind in ("uniform", "equal"):
        scalars = kinds(count)[kind]
        result = affine_ints(GROUP, msm_words(kept, scalar_words(scalars)))
        assert result == by_logarithms(GROUP, scalars, logs)
    wrong = [*[1] * (count - 1), 1 << BITS]
    with pytest.raises(InputError, match=f"scalar {count - 1} is not below"):
        msm_words(kept, scalar_words(wrong))


def test_bases_exceeding_memory_are_rejected() -> None:
    small = EmulatedDevice(memory_budget=1 << 12)
    with pytest.raises(DeviceError, match="an MSM of 300 scalars over "):
        MsmBases(small, GROUP, bases(GROUP, 300))
    with pytest.raises(DeviceError, match="an MSM of 2 scalars"):
        msm(small, GROUP, bases(GROUP, 2), scalar_words([1, 2]))


def test_bases_too_many_to_sort_at_once(
    gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="too many digits to be sorted at once; stream the bases"):
        device_plan.plan_gpu_msm(
            GROUP, 1 << 28, MsmOptions(), limits=DeviceLimits(1 << 18), base_budget=1 << 36
        )
    # Whether they stay is known where it is not asked.
    most = engine._MAX_SORTED_AT_ONCE
    for group in GROUPS.values():
        largest_plan = device_plan.plan_gpu_msm(
            group, most, MsmOptions(), limits=DeviceLimits(1 << 18), base_budget=384 * most
        )
        assert device_plan.fits(largest_plan)
    monkeypatch.setattr(engine, "_MAX_SORTED_AT_ONCE", 20)
    monkeypatch.setattr(device_plan, "_MAX_ENTRIES", 20)
    # Plans within other limits are for this test alone.
    monkeypatch.setattr(device_plan, "_planned", device_plan._planned.__wrapped__)
    monkeypatch.setattr(streamed, "_SMALLEST_BLOCK", 8)
    for count, stays in ((20, True), (30, False)):
        kept = MsmBases(gpu_device, GROUP, bases(GROUP, count), MsmOptions(scalar_bits=5))
        assert (kept.nbytes > 0) == stays
        scalars = [scalar & 31 for scalar in short(count)]
        result = affine_ints(GROUP, msm_words(kept, scalar_words(scalars)))
        assert result == by_logarithms(GROUP, scalars, logarithms(count))


@pytest.mark.thorough
def test_alternating_shapes_with_memory_for_one() -> None:
    def peak_of(budget: int, counts: Sequence[int]) -> int:
        device = EmulatedDevice(memory_budget=budget)
        kept = MsmBases(device, GROUP, bases(GROUP, 30), SHORT)
        for count in counts:
            result = affine_ints(GROUP, msm_words(kept, scalar_words(short(count))))
            assert result == by_logarithms(GROUP, short(count), logarithms(count))
        return device.memory.peak

    alone = peak_of(1 << 28, [30])
    assert peak_of(alone * 5 // 4, [30, 29, 30]) > alone


@pytest.mark.thorough
def test_recording_of_several_msms(gpu_device: AnyDevice) -> None:
    """With one workspace and with several; over shared scalars, picked by indices; replayed."""
    options = MsmOptions(scalar_bits=BITS, window_bits=6, precompute_factor=2)
    first = ResidentMsm(gpu_device, GROUP, bases(GROUP, 10), options)
    second = ResidentMsm(
        gpu_device, GROUPS["bls12_381.g1"], bases(GROUPS["bls12_381.g1"], 6), options
    )
    size = max(first.workspace_bytes(), second.workspace_bytes())
    shared, other = Workspace(gpu_device, size), Workspace(gpu_device, first.workspace_bytes())
    scalars = gpu_device.allocate(32 * 12)
    picked = [11, 0, 3, 3, 7, 1]
    indices = gpu_device.upload(np.array(picked, np.uint32))
    host = scalar_words(short(12)).copy()
    recording = gpu_device.stream().record()
    recording.upload(host, scalars)
    pending = [
        first.record(recording, scalars.slice(0, 320), workspace=shared),
        second.record(recording, scalars, indices=indices, workspace=shared),
        first.record(recording, scalars.slice(32, 352), workspace=other),
    ]
    recorded = recording.finish()
    stream = recorded.submit().wait()
    for seed in (1, 2):
        seed_scalars = short(12, seed)
        if seed == 2:
            host[:] = scalar_words(seed_scalars)
            stream = stream.replay(recorded.recording).submit().wait()
        expected = [
            (GROUP, seed_scalars[:10], 10),
            (second.group, [seed_scalars[i] for i in picked], 6),
            (GROUP, seed_scalars[1:11], 10),
        ]
        for pending_msm, (group, used, count) in zip(pending, expected, strict=True):
            result = affine_ints(group, pending_msm.finish()[0])
            assert result == by_logarithms(group, used, logarithms(count))


@pytest.mark.parametrize("has_infinity", [False, True])
def test_recording_before_the_bases_are_loaded(has_infinity: bool) -> None:
    """It is right if `load` finds no infinite base; else the MSM is recorded again."""
    device = EmulatedDevice()
    points = bases(GROUP, 6).copy()
    points[2] = 0 if has_infinity else points[2]
    options = MsmOptions(scalar_bits=8, window_bits=4, precompute_factor=1)
    deferred = ResidentMsm(device, GROUP, points, options, deferred=True)
    workspace = Workspace(device, deferred.workspace_bytes())
    scalars = [3, 5, 200, 1, 0, 255]
    words = device.upload(scalar_words(scalars))
    recording = device.stream().record()
    pending = deferred.record(recording, words, workspace=workspace)
    recorded = recording.finish()
    assert deferred.load() == has_infinity
    assert deferred.load() == has_infinity
    if has_infinity:
        recording = device.stream().record()
        pending = deferred.record(recording, words, workspace=workspace)
        recorded = recording.finish()
    recorded.submit().wait()
    expected = [scalar if position != 2 or not has_infinity else 0
                for position, scalar in enumerate(scalars)]  # fmt: skip
    result = affine_ints(GROUP, pending.finish()[0])
    assert result == by_logarithms(GROUP, expected, logarithms(6))


def test_stages(resident: MsmBases) -> None:
    timeline = Timeline()
    msm_words(resident, scalar_words(short(COUNT)), timeline=timeline)
    names = {stage.name for stage in timeline.rows()}
    assert {"digits", "sort", "accumulate", "merge", "reduce"} <= names


def test_scalars_in_preallocated_memory(resident: MsmBases) -> None:
    room = resident.scalar_memory(20)
    room[:] = scalar_words(short(20))
    expected = by_logarithms(GROUP, short(20), logarithms(20))
    assert affine_ints(GROUP, msm_words(resident, room)) == expected
    # Other scalars of the same number are copied there.
    msm_words(resident, scalar_words([1] * 20))
    assert room.tolist() == scalar_words([1] * 20).tolist()
    with pytest.raises(InputError, match="101 scalars have only 100 bases"):
        resident.scalar_memory(COUNT + 1)


@pytest.mark.thorough
def test_emitted_text() -> None:
    """A whole MSM by the text that the assembler would get."""
    device = EmulatedDevice(executor="ptx")
    options = MsmOptions(scalar_bits=10, window_bits=5, precompute_factor=2)
    kept = MsmBases(device, GROUP, bases(GROUP, 40), options)
    scalars = [*(scalar & 0x3FF for scalar in short(36)), 0, 1, 1, 0x3FF]
    result = affine_ints(GROUP, msm_words(kept, scalar_words(scalars)))
    assert result == by_logarithms(GROUP, scalars, logarithms(40))
