"""Pairings on a device: the reference's values, py_ecc's, bilinearity, the vectors of EIP-2537."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from py_ecc import bls12_381 as ecc_bls12_381
from py_ecc import bn128 as ecc_bn254

from quod.curve.array import from_points
from quod.curve.groups import PairingGroup
from quod.curve.named import CURVES
from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.pairing.products import (
    ONE,
    miller_kernel,
    miller_loops,
    miller_values,
    pairing,
    pairing_product,
    pairing_product_is_one,
    pairing_product_words,
    product_of_values,
)
from quod.curve.pairing.subgroup_miller_loop import miller_loops_by_lanes
from quod.curve.parameters import G1Point, G2Point, PairingCurve
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device.cpu.device import CpuDevice
from quod.device.protocol import AnyDevice
from quod.device.webgpu.device import WebGpuDevice
from quod.errors import DeviceError, InputError
from quod.frozen import replace
from quod.kernel.interpreter.interpreter import interpret
from tests.reference import pairing as reference
from tests.reference.eip2537 import ReferenceGroups, check_vectors, load_vectors
from tests.reference.field import fields_of
from tests.reference.test_field import to_py_ecc
from tests.support.executors import LANES, executors, run_everywhere
from tests.support.thorough import one_and_others


@pytest.fixture
def device(device: AnyDevice) -> AnyDevice:
    """Every device that computes pairings."""
    if device.kind == "webgpu":
        pytest.skip("there are no pairings through WebGPU; an error says so")
    return device


each_curve = pytest.mark.parametrize(
    "curve", one_and_others(CURVES.values(), [BN254]), ids=lambda curve: curve.name
)
"""BLS12-381 has the vectors of EIP-2537 in every run; pairings take seconds to compile."""


def multiples(curve: PairingCurve, logs: Sequence[tuple[int, int]]) -> list[tuple[Any, Any]]:
    """Pairs (a*G1, b*G2), None for infinity."""
    g1, g2 = g1_group(curve), g2_group(curve)
    return [(g1.multiply(a, g1.generator), g2.multiply(b, g2.generator)) for a, b in logs]


@each_curve
def test_pairing_values_match_the_reference(device: CpuDevice, curve: PairingCurve) -> None:
    source = random.Random(curve.name)
    r = curve.fr.value
    for logs in [(r - 1, 1), (source.randrange(r), source.randrange(r))]:
        ((p, q),) = multiples(curve, [logs])
        assert pairing(device, curve, p, q) == reference.pairing(curve, p, q)


def test_product_of_more_pairs_than_a_workgroup_takes(device: CpuDevice) -> None:
    curve, source = BN254, random.Random(3)
    r = curve.fr.value
    logs = [(source.randrange(r), source.randrange(r)) for _ in range(10)]
    logs.append((-sum(a * b for a, b in logs) % r, 1))
    pairs = multiples(curve, logs)
    assert pairing_product_is_one(device, curve, pairs)
    fq12 = fields_of(curve).fq12
    for left_out in (0, 7, 8, 10):
        others = pairs[:left_out] + pairs[left_out + 1 :]
        assert not pairing_product_is_one(device, curve, others)
        a, b = logs[left_out]
        base = pairing(device, curve, curve.g1.generator, curve.g2.generator)
        assert pairing_product(device, curve, others) == fq12.pow(base, -a * b % r)


@pytest.mark.parametrize(
    "curve",
    [BN254, *(pytest.param(curve, marks=pytest.mark.thorough) for curve in (BLS12_381, BLS12_377))],
    ids=lambda curve: curve.name,
)
def test_a_few_pairs_and_many(device: CpuDevice, curve: PairingCurve) -> None:
    """The kernels for a few pairs and for many give the same result."""
    few = 4 * device.multiprocessors
    logs = [(3 + at, 7 * at + 1) for at in range(few + 1)]
    pairs = [(None, curve.g2.generator), *multiples(curve, logs), (curve.g1.generator, None)]
    many = miller_values(device, curve, pairs)
    for start in range(0, len(pairs), few):
        points = pairs[start : start + few]
        assert (miller_values(device, curve, points) == many[start : start + few]).all()
    if device.kind == "cpu":
        expected = (
            (miller_loops_by_lanes, LANES) if device.lanes == LANES else (miller_loops, 1)
        )  # fmt: skip
        assert miller_kernel(device, few) == (*expected, few)
    vectors = miller_loops, device.lanes, -(-(few + 1) // device.lanes)
    assert miller_kernel(device, few + 1) == vectors


def test_infinity(device: CpuDevice) -> None:
    curve = BN254
    g1, g2 = curve.g1.generator, curve.g2.generator
    for pair in [(None, g2), (g1, None), (None, None)]:
        assert pairing(device, curve, *pair) == ONE
    assert pairing_product_is_one(device, curve, [])
    # Beside other pairs it changes nothing.
    mixed = [(g1, None), (g1, g2), (None, g2), *multiples(curve, [(-2, 1), (1, 1)])]
    assert pairing_product_is_one(device, curve, mixed)
    assert not pairing_product_is_one(device, curve, mixed[:-1])


@each_curve
def test_opposite_pairs_cancel(device: CpuDevice, curve: PairingCurve) -> None:
    for logs in ([(5, 7), (-5, 7)], [(5, 7), (5, -7)], [(6, 1), (-2, 3)]):
        assert pairing_product_is_one(device, curve, multiples(curve, logs))
    assert not pairing_product_is_one(device, curve, multiples(curve, [(5, 7), (5, 7)]))


@pytest.mark.parametrize(
    ("curve", "ecc"),
    [
        pytest.param(BN254, ecc_bn254, id="bn254", marks=pytest.mark.thorough),
        pytest.param(BLS12_381, ecc_bls12_381, id="bls12_381", marks=pytest.mark.thorough),
    ],
)
def test_values_of_py_ecc(device: CpuDevice, curve: PairingCurve, ecc: Any) -> None:
    """On BLS12-381 py_ecc leaves out the inversion that the negative x asks for."""
    expected = [
        int(c) for c in ecc.pairing(ecc.multiply(ecc.G2, 3), ecc.multiply(ecc.G1, 5)).coeffs
    ]
    ((p, q),) = multiples(curve, [(5, 3)])
    value = pairing(device, curve, p, q)
    if curve.x < 0:
        value = fields_of(curve).fq12.inv(value)
    assert to_py_ecc(curve, value) == expected


class DevicePairings(ReferenceGroups):
    """The reference's groups, a device's pairings."""

    def __init__(self, device: CpuDevice) -> None:
        self.device = device

    def pairing_check(self, pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
        return pairing_product_is_one(self.device, BLS12_381, pairs)


@pytest.mark.fixtures
def test_vectors_of_eip2537(shared_fixtures: Path, device: CpuDevice) -> None:
    vectors = load_vectors(shared_fixtures / "eip2537", "pairing_check_bls")
    assert len({vector.expected for vector in vectors}) == 2
    check_vectors(DevicePairings(device), vectors)


def test_webgpu_is_rejected_before_any_work(webgpu_device: WebGpuDevice) -> None:
    """WebGPU drivers would compile for minutes."""
    with pytest.raises(DeviceError, match=r"cannot compute pairings, .* --device cpu"):
        pairing(webgpu_device, BN254, BN254.g1.generator, BN254.g2.generator)
    values = np.zeros((1, 12, 8), np.uint32)
    with pytest.raises(DeviceError, match=r"cannot compute pairings, .* --device cpu"):
        product_of_values(webgpu_device, BN254, values)


def test_pairs_have_exactly_two_points(device: CpuDevice) -> None:
    """Ignored coordinates would let one product pass for another."""
    p, q = BN254.g1.generator, BN254.g2.generator
    minus = g1_group(BN254).negate(p)
    assert pairing_product_is_one(device, BN254, iter([[p, q], (minus, q)]))
    assert pairing_product_is_one("cpu", BN254, [])
    for bad in ((p, q, p), (p,), {p: q, q: p}, "pq", None):
        with pytest.raises(InputError, match=r"^pair 1 must be a point of G1 and a point of G2"):
            pairing_product_is_one(device, BN254, [(None, None), bad])  # type: ignore[list-item]
    with pytest.raises(InputError, match="pairs must be a list, not a dict"):
        pairing_product_is_one(device, BN254, {})  # type: ignore[arg-type]
    other = replace(BN254, name="mine")
    with pytest.raises(InputError, match=r"^mine is not one of quod\.curve\.CURVES"):
        pairing_product(device, other, [])
    with pytest.raises(InputError, match=r"^bn254 is not one of quod\.curve\.CURVES"):
        pairing_product(device, replace(BN254, x=BN254.x + 1), [])


def test_shapes_are_checked(device: CpuDevice) -> None:
    p, q = np.zeros((2, 2, 8), np.uint32), np.zeros((2, 2, 2, 8), np.uint32)
    assert pairing_product_words(device, BN254, p, q).shape == (12, 8)
    for bad in [(p[:1], q), (p, q[:, :1]), (p, np.zeros((2, 2, 2, 12), np.uint32))]:
        with pytest.raises(ValueError, match="do not have shapes"):
            pairing_product_words(device, BN254, *bad)


@pytest.mark.thorough
def test_interpreter_agrees() -> None:
    """One pair at infinity, and one lane without a pair."""
    curve = BN254
    pairs = [*multiples(curve, [(1, 1), (2, 3), (5, -1)]), (None, curve.g2.generator)]
    p = from_points(PairingGroup(curve.name, 1), [pair[0] for pair in pairs]).view(np.uint64)
    q = from_points(PairingGroup(curve.name, 2), [pair[1] for pair in pairs]).view(np.uint64)
    out = np.zeros((len(pairs), 12, curve.fq.words // 2), np.uint64)
    # A quarter of a minute for one machine: the others must give the same.
    machines = (executor.machine for executor in executors())
    lanes = next(machine for machine in machines if machine.workgroup_size == LANES)
    interpreted = out.copy()
    interpret(miller_loops.trace(lanes, curve=curve.name), 1, [len(pairs), p, q, interpreted])
    assert interpreted.any()
    right = [p, q, interpreted]
    run_everywhere(miller_loops, 1, [len(pairs), p, q, out], right=right, curve=curve.name)
