"""Benchmarks of MSMs over distinct points, by kind of scalars.

The points have known random logarithms, so every result is checked before it is measured. The peer
arkworks (py-arkworks-bls12381) computes the same MSM on one thread. On a GPU the bases are resident
and the scalars come from page-locked host memory.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.curve.array import Point, to_points
from quod.curve.edwards.weierstrass_model import model_of
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES, EDWARDS, WEIERSTRASS
from quod.curve.weierstrass.affine import affine_group
from quod.device.discovery import open_device, open_processor
from quod.device.protocol import AnyDevice, HostDevice, in_host_memory
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.field.array import Words, random_elements, words_to_integers
from quod.field.kernels import field_multiply, field_sum
from quod.field.moduli import BLS12_381_FQ
from quod.msm import MsmBases, affine_ints, msm, msm_words
from quod.msm.fixed_base import multiply_generator

KINDS = ("uniform", "bits", "equal", "giant")
"""The kinds of scalars: uniform; zeros and ones; all equal; 15 of 16 equal, so that one bucket of
each window is huge."""


class _Run(Protocol):
    def __call__(self, timeline: Timeline | None = None) -> object: ...


def cases(
    device: str, curve: str, group: str, sizes: Sequence[int], scalars: str = "uniform"
) -> Iterator[Case]:
    """Yield MSMs of each size 2**k on one thread, with peers, and on all threads.

    sizes: the exponents k.
    """
    measured_group = _group(curve, group)
    if scalars not in KINDS:
        raise InputError(f"{scalars!r} is not a kind of scalars; choose one of {', '.join(KINDS)}")
    opened_device = open_device(device)
    if not in_host_memory(opened_device):
        for log2_size in sizes:
            yield _resident_case(measured_group, log2_size, scalars, opened_device)
        return
    single_threaded = open_processor(strategy=opened_device.strategy, threads=1)
    for log2_size in sizes:
        yield from _cases(measured_group, log2_size, scalars, single_threaded, opened_device)


def _group(curve: str, name: str) -> Group:
    """Return the group to measure.

    It is G1 or G2 of a curve with a pairing, the curve itself, or the Weierstrass model of an
    Edwards curve.
    """
    if curve in WEIERSTRASS:
        return WEIERSTRASS[curve]
    if curve in EDWARDS:
        return model_of(EDWARDS[curve])
    if curve not in CURVES:
        names = ", ".join((*CURVES, *WEIERSTRASS, *EDWARDS))
        raise InputError(f"{curve!r} is not a curve; choose one of {names}")
    if f"{curve}.{name}" not in GROUPS:
        raise InputError(f"{name!r} is not a group of {curve}; choose g1 or g2")
    return GROUPS[f"{curve}.{name}"]


def _cases(
    group: Group, log2_size: int, kind: str, single_threaded: HostDevice, all_threads: HostDevice
) -> Iterator[Case]:
    """Yield an MSM on one thread, with peers, and on all threads; checks the results."""
    logarithms = random_elements(group.scalars, 1 << log2_size, seed=log2_size)
    points = multiply_generator(all_threads, group, logarithms)
    scalars = _scalars(group, kind, len(points))
    expected = _expected(all_threads, group, scalars, logarithms)
    for device in (single_threaded, all_threads) if all_threads.threads > 1 else (single_threaded,):
        bases = MsmBases(device, group, points)
        if msm(device, group, bases, scalars) != expected:
            raise QuodError(f"an MSM over {group.name} is wrong; please report it")
        parameters: dict[str, Parameter] = {
            "group": group.name,
            "log2": log2_size,
            "scalars": kind,
            "threads": device.threads,
        }
        peers = _peers(group, points, scalars, expected) if device is single_threaded else {}
        run = _runner(device, bases, scalars)
        yield Case(parameters, run, unit="ms", peers=peers, absent=_absent(group), traced=run)


def _resident_case(group: Group, log2_size: int, kind: str, device: AnyDevice) -> Case:
    """Prepare an MSM whose bases stay on a GPU."""
    logarithms = random_elements(group.scalars, 1 << log2_size, seed=log2_size)
    points = multiply_generator(device, group, logarithms)
    scalars = _scalars(group, kind, len(points))
    expected = _expected(device, group, scalars, logarithms)
    bases = MsmBases(device, group, points)
    # Scalars in this memory are not copied on the host.
    scalar_memory = bases.scalar_memory(len(points))
    scalar_memory[:] = scalars
    if affine_ints(group, msm_words(bases, scalar_memory)) != expected:
        raise QuodError(f"an MSM over {group.name} is wrong; please report it")
    parameters: dict[str, Parameter] = {
        "group": group.name, "log2": log2_size, "scalars": kind,
    }  # fmt: skip

    def run(timeline: Timeline | None = None) -> object:
        return msm_words(bases, scalar_memory, timeline=timeline)

    return Case(parameters, run, unit="ms", traced=run)


def _runner(device: HostDevice, bases: MsmBases, scalars: Words) -> _Run:
    return lambda timeline=None: msm(device, bases.group, bases, scalars, timeline=timeline)


def _scalars(group: Group, kind: str, count: int) -> Words:
    """Draw scalars of a kind; see `KINDS`."""
    uniform = random_elements(group.scalars, count, seed=count + 1)
    if kind == "bits":
        bits = uniform[:, 0] & 1
        uniform[:] = 0
        uniform[:, 0] = bits
    elif kind == "equal":
        uniform[:] = uniform[0]
    elif kind == "giant":
        repeated = np.arange(count) % 16 != 0
        uniform[repeated] = uniform[0]
    return uniform


def _expected(device: AnyDevice, group: Group, scalars: Words, logarithms: Words) -> Point:
    """Compute the expected result: the generator times the sum of scalar times logarithm."""
    modulus, count = group.scalars, len(scalars)
    spec, columns = modulus, 1 << min(10, (count - 1).bit_length())
    products, sums = np.empty_like(scalars), np.empty_like(scalars[:columns])
    multiply = device.compile(field_multiply, spec=spec)
    device.launch(multiply, -(-count // device.lanes), count, scalars, logarithms, products)
    add = device.compile(field_sum, spec=spec)
    device.launch(
        add, -(-columns // device.lanes), columns, count // columns, products, sums
    )  # fmt: skip
    # Each Montgomery product lacks a factor of the radix.
    total = sum(words_to_integers(modulus, sums)) * modulus.montgomery_radix % modulus.value
    return affine_group(group).multiply(total, group.parameters.generator)


def _peers(
    group: Group, points: Words, scalars: Words, expected: Point
) -> dict[str, Callable[[], object]]:
    """Return the peer arkworks for BLS12-381, if installed."""
    if group.coordinates is not BLS12_381_FQ or _absent(group):
        return {}
    import py_arkworks_bls12381 as arkworks

    point_type = arkworks.G1Point if group.degree == 1 else arkworks.G2Point
    operands: list[Any] = []

    def run() -> None:
        if not operands:  # the harness's first call is not measured
            operands.append(
                [
                    point_type.from_xy_bytes_unchecked_be(_big_endian(point))
                    for point in to_points(group, points)
                ]
            )
            operands.append(
                [
                    arkworks.Scalar.from_le_bytes(scalar.to_bytes(32, "little"))
                    for scalar in words_to_integers(group.scalars, scalars)
                ]
            )
            if bytes(point_type.multiexp_unchecked(*operands).to_xy_bytes_be()) != _big_endian(
                expected
            ):
                raise QuodError(
                    "arkworks and Quod compute different results of an MSM; please report it"
                )
        point_type.multiexp_unchecked(*operands)

    return {"arkworks": run}


def _absent(group: Group) -> dict[str, str]:
    """Return the reasons for missing peers of this group."""
    is_installed = importlib.util.find_spec("py_arkworks_bls12381") is not None
    if group.coordinates is not BLS12_381_FQ or is_installed:
        return {}
    return {"arkworks": "py-arkworks-bls12381 is not installed (pip install py-arkworks-bls12381)"}


def _big_endian(point: Point) -> bytes:
    """Encode coordinates in arkworks' order, 48 bytes each."""
    assert point is not None
    flat = point if isinstance(point[0], int) else (*point[0], *point[1])
    return b"".join(coordinate.to_bytes(48, "big") for coordinate in flat)
