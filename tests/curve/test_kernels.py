"""Each kernel of curves in the interpreter and on every executor, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.array import from_points
from quod.curve.edwards import operations as edwards
from quod.curve.edwards.weierstrass_model import edwards_to_model, model_of
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.weierstrass import point_kernels as kernels
from quod.curve.weierstrass.membership import curve_check, find_finite
from tests.curve.test_edwards_operations import samples as edwards_samples
from tests.curve.test_operations import samples
from tests.support.executors import run_everywhere

SOME = pytest.mark.parametrize(
    "group",
    [
        GROUPS["bn254.g1"],
        pytest.param(GROUPS["bls12_381.g2"], marks=pytest.mark.thorough),
    ],
    ids=repr,
)
COUNT = 11


def wide(array: Any) -> NDArray[np.uint64]:
    """Return the same memory as the 64-bit words that the kernels read."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint64)


def points(group: Group, step: int) -> NDArray[np.uint64]:
    sample = samples(group)
    return wide(
        from_points(group, [sample[(i * step + i // 3) % len(sample)] for i in range(COUNT)])
    )


def extended(group: Group, count: int = COUNT) -> NDArray[np.uint64]:
    return np.zeros(count * 4 * group.coordinate_words, np.uint64)


@pytest.mark.thorough
@SOME
def test_addition_and_doubling(group: Group) -> None:
    run_everywhere(
        kernels.curve_add, 2, (COUNT, points(group, 1), points(group, 3), extended(group)),
        group=group,
    )  # fmt: skip
    run_everywhere(
        kernels.curve_double, 2, (COUNT, points(group, 1), extended(group)), group=group
    )  # fmt: skip
    out = np.zeros(COUNT * group.point_words, np.uint64)
    run_everywhere(kernels.curve_negate, 2, (COUNT, points(group, 1), out), group=group)


@pytest.mark.thorough
def test_multiplication() -> None:
    group = GROUPS["bn254.g1"]
    scalars = np.array([0, 1, 2, 15, 16, 0xF0F0, (1 << 64) - 1, 1 << 63, 7, 8, 9], np.uint64)
    run_everywhere(
        kernels.curve_multiply, 2, (COUNT, points(group, 1), scalars, extended(group)),
        group=group, scalar_words=1,
    )  # fmt: skip


@pytest.mark.thorough
@SOME
def test_sums_and_normalisation(group: Group) -> None:
    """Lanes that sum 4 and 3 points, then bring 4 and 3 to affine form."""
    array = points(group, 1)
    outputs = run_everywhere(
        kernels.curve_sum,
        1,
        (3, COUNT, array, extended(group, 3)),
        group=group,
        extended=False,
    )
    sums = outputs[1]
    run_everywhere(
        kernels.curve_sum, 1, (2, 3, sums, extended(group, 2)), group=group, extended=True
    )
    multiples = run_everywhere(
        kernels.curve_double, 2, (COUNT, array, extended(group)), group=group
    )[1]
    run_everywhere(
        kernels.curve_normalise, 1,
        (3, COUNT, multiples, np.zeros(COUNT * group.coordinate_words, np.uint64),
         np.zeros(COUNT * group.point_words, np.uint64)),
        group=group,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "subgroup"),
    [
        ("bn254.g1", True),
        ("bls12_377.g1", False),
        pytest.param("bls12_377.g1", True, marks=pytest.mark.thorough),
    ],
)
def test_membership(name: str, subgroup: bool) -> None:
    group = GROUPS[name]
    array = points(group, 1)
    array[0] ^= np.uint64(1)
    flags = np.zeros(COUNT, np.uint32)
    run_everywhere(curve_check, 2, (COUNT, array, flags), group=group, subgroup=subgroup)


@pytest.mark.parametrize("group", [GROUPS["bn254.g1"], GROUPS["bls12_381.g2"]], ids=repr)
def test_infinity(group: Group) -> None:
    array = np.zeros((COUNT, group.point_words), np.uint64)
    # One bit anywhere makes a point finite.
    for row, (word, bit) in enumerate([(0, 0), (-1, 63), (1, 31), (2, 32)]):
        array[2 * row, word] = 1 << bit
    flags = np.zeros(COUNT, np.uint32)
    run_everywhere(find_finite, 2, (COUNT, array.reshape(-1), flags), group=group)


def edwards_points(step: int) -> NDArray[np.uint64]:
    sample = edwards_samples()
    chosen = [sample[i * step % len(sample)] for i in range(COUNT)]
    return wide(edwards.from_edwards_points(EDWARDS_BLS12, chosen))


@pytest.mark.thorough
def test_edwards_points() -> None:
    curve = EDWARDS_BLS12
    out = np.zeros_like(edwards_points(1))
    run_everywhere(
        edwards.edwards_add, 2, (COUNT, edwards_points(1), edwards_points(3), out), curve=curve
    )
    for definition in (edwards.edwards_double, edwards.edwards_negate):
        run_everywhere(definition, 2, (COUNT, edwards_points(1), out), curve=curve)
    flags = np.zeros(COUNT, np.uint32)
    run_everywhere(edwards.edwards_check, 2, (COUNT, edwards_points(1), flags), curve=curve)
    prefixes = np.zeros(COUNT * 4, np.uint64)
    run_everywhere(
        edwards_to_model, 1, (3, COUNT, edwards_points(1), prefixes, out), model=model_of(curve)
    )


@pytest.mark.thorough
def test_base_multiples_of_edwards_points() -> None:
    scalars = np.array([0, 1, 2, 15, 16, 0xF0F0, (1 << 64) - 1, 1 << 63, 7, 8, 9], np.uint64)
    out = np.zeros_like(edwards_points(1))
    run_everywhere(
        edwards.edwards_multiply, 2, (COUNT, edwards_points(1), scalars, out),
        curve=EDWARDS_BLS12, scalar_words=1,
    )  # fmt: skip
