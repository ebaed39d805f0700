"""MSM against plain integers, arkworks and published results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest

from quod.curve.array import from_points
from quod.curve.encoding.points import decode_zcash_g1, encode_zcash_g1
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.cpu.device import CpuDevice
from quod.field.array import Words
from quod.msm import MsmBases, MsmOptions, msm, msm_words
from tests.msm.inputs import (
    bases,
    by_logarithms,
    logarithms,
    points,
    reference,
    scalar_words,
    uniform,
)
from tests.reference.msm import msm as msm_by_buckets
from tests.reference.msm import msm_naive

LONGEST = 40


def prefix_sums(group: Group) -> list[object]:
    """MSMs of the first n points for n = 0 to LONGEST, by definition."""
    law = reference(group)
    sums: list[object] = [None]
    for scalar, point in zip(uniform(group, LONGEST), points(group, LONGEST)):
        sums.append(law.add(sums[-1], law.mul(scalar, point)))
    return sums


def test_every_small_length(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    resident = MsmBases(device, group, bases(group, LONGEST))
    scalars = uniform(group, LONGEST)
    for count, expected in enumerate(prefix_sums(group)):
        result = msm_words(resident, scalar_words(scalars[:count]))
        assert np.array_equal(result.view(np.uint32), from_points(group, [expected]).ravel()), count


@pytest.mark.parametrize("count", [63, 333, 1000])
def test_other_lengths(device: CpuDevice, count: int) -> None:
    group = GROUPS["bn254.g1"]
    scalars = uniform(group, count, seed=count)
    expected = by_logarithms(group, scalars, logarithms(count))
    assert msm(device, group, bases(group, count), scalar_words(scalars)) == expected


def test_references_and_msm_agree(device: CpuDevice) -> None:
    group, count = GROUPS["bn254.g1"], 9
    scalars, base_points = uniform(group, count), points(group, count)
    expected = msm_naive(reference(group), scalars, base_points)
    assert expected == msm_by_buckets(reference(group), scalars, base_points)
    assert expected == by_logarithms(group, scalars, logarithms(count))
    assert expected == msm(device, group, bases(group, count), scalar_words(scalars))


@pytest.mark.parametrize(
    ("name", "window_bits"),
    [*(("bn254.g1", bits) for bits in range(2, 17)),
     # The widths that divide the bits of the order, and one more.
     ("bls12_381.g1", 3), ("bls12_381.g1", 5), ("bls12_381.g1", 15), ("bls12_381.g1", 16),
     ("bls12_377.g1", 11)],
)  # fmt: skip
def test_every_window_width(device: CpuDevice, name: str, window_bits: int) -> None:
    group, count = GROUPS[name], 20
    half = 1 << (window_bits - 1)
    # Every digit the largest, the smallest, and the one that carries all the way up.
    patterns = [
        sum(digit << shift for shift in range(0, 256, window_bits))
        for digit in (half - 1, half, half + 1, 2 * half - 1)
    ]
    scalars = [pattern % group.scalars.value for pattern in patterns]
    scalars += [1, group.scalars.value - 1, *uniform(group, count - len(scalars) - 2)]
    expected = by_logarithms(group, scalars, logarithms(count))
    options = MsmOptions(window_bits=window_bits)
    assert msm(device, group, bases(group, count), scalar_words(scalars), options) == expected


@pytest.mark.parametrize("scalar_bits", [1, 31, 32, 33, 64, 65, 250])
def test_scalar_bits_option(device: CpuDevice, scalar_bits: int) -> None:
    group, count = GROUPS["bn254.g1"], 30
    top = (1 << scalar_bits) - 1
    scalars = [top, 0, 1, top, *(scalar & top for scalar in uniform(group, count - 4))]
    options = MsmOptions(scalar_bits=scalar_bits)
    expected = by_logarithms(group, scalars, logarithms(count))
    assert msm(device, group, bases(group, count), scalar_words(scalars), options) == expected


def test_result_does_not_depend_on_threads(cpu_device: CpuDevice) -> None:
    group, count = GROUPS["bn254.g1"], 5000  # several workers sort one window
    scalars = uniform(group, count)
    expected = from_points(group, [by_logarithms(group, scalars, logarithms(count))])
    for threads in (1, 2, 5):
        processor = CpuDevice(strategy=cpu_device.strategy, threads=threads)
        result = msm_words(MsmBases(processor, group, bases(group, count)), scalar_words(scalars))
        assert np.array_equal(result.view(np.uint32), expected.ravel()), threads
        processor.close()


def test_fewer_scalars_than_bases_use_the_first(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    scalars = uniform(group, 10)
    expected = by_logarithms(group, scalars, logarithms(10))
    assert msm(device, group, bases(group, 30), scalar_words(scalars)) == expected


def test_arrays_that_are_views(device: CpuDevice) -> None:
    """Every other row of larger arrays, and scalars in Fortran order."""
    group, count = GROUPS["bn254.g1"], 20
    scalars = uniform(group, 2 * count)
    words = np.asfortranarray(scalar_words(scalars))[::2]
    expected = by_logarithms(group, scalars[::2], logarithms(2 * count)[::2])
    assert msm(device, group, bases(group, 2 * count)[::2], words) == expected


@pytest.mark.parametrize("shift", [1, 4])
def test_arrays_at_odd_addresses(device: CpuDevice, shift: int) -> None:
    """Arrays may begin anywhere in a mapped file."""

    def moved(array: Words) -> Words:
        memory = np.zeros(array.nbytes + 64, np.uint8)
        start = -memory.ctypes.data % 64 + shift
        there = memory[start : start + array.nbytes].view(np.uint32).reshape(array.shape)
        there[:] = array
        return there

    group, count = GROUPS["bn254.g1"], 20
    scalars = uniform(group, count)
    expected = by_logarithms(group, scalars, logarithms(count))
    unaligned = moved(bases(group, count)), moved(scalar_words(scalars))
    assert msm(device, group, *unaligned) == expected


def test_arkworks_agrees(device: CpuDevice) -> None:
    group, count = GROUPS["bls12_381.g1"], 300
    scalars = uniform(group, count)
    theirs = arkworks.G1Point.multiexp_unchecked(
        [
            arkworks.G1Point.from_compressed_bytes_unchecked(encode_zcash_g1(point))  # type: ignore[arg-type]
            for point in points(group, count)
        ],
        [arkworks.Scalar.from_le_bytes(scalar.to_bytes(32, "little")) for scalar in scalars],
    )
    expected = decode_zcash_g1(bytes(theirs.to_compressed_bytes()))
    assert msm(device, group, bases(group, count), scalar_words(scalars)) == expected


@pytest.mark.fixtures
def test_the_published_msm_of_bls12_377(device: CpuDevice, shared_fixtures: Path) -> None:
    """128 points of ZPrize 2023."""
    group = GROUPS["bls12_377.g1"]
    published = json.loads((shared_fixtures / "msm" / "bls12_377_128.json").read_text())
    base_points = [(int(x, 16), int(y, 16)) for x, y in published["points"]]
    scalars = [int(scalar, 16) for scalar in published["scalars"]]
    x, y = published["expected"]
    result = msm(device, group, from_points(group, base_points), scalar_words(scalars))
    assert result == (int(x, 16), int(y, 16))
