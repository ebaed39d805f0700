"""Transforms against the plain-integer model: every size, order, coset, family, field, batch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import get_args

import pytest

from quod.curve.named import CURVES
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import PairingCurve
from quod.device.protocol import AnyDevice
from quod.field.roots import RootFamily
from quod.ntt import Ordering, ntt, plan
from tests.reference import ntt as reference
from tests.support.thorough import one_and_others

ORDERINGS: tuple[Ordering, ...] = get_args(Ordering)
FAMILIES: tuple[RootFamily, ...] = get_args(RootFamily)
COSETS = (None, 7)


def check(
    device: AnyDevice,
    curve: PairingCurve,
    values: Sequence[int],
    *,
    family: RootFamily = "snarkjs",
    inverse: bool = False,
    ordering: Ordering = "NN",
    coset: int | None = None,
    batch: int = 1,
) -> None:
    """Compares a batch of transforms with as many of the model."""
    transforms = ntt(
        values, curve.fr, inverse=inverse, family=family, ordering=ordering, coset=coset,
        batch=batch, device=device,
    )  # fmt: skip
    size = len(values) // batch
    expected: list[int] = []
    for start in range(0, len(values), size):
        expected += reference.ntt(
            curve.fr, values[start : start + size], family=family, inverse=inverse,
            shift=1 if coset is None else coset, ordering=ordering,
        )  # fmt: skip
    assert transforms == expected


def uniform(curve: PairingCurve, count: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(curve.fr.value) for _ in range(count)]


def combinations() -> list[tuple[Ordering, bool, int | None]]:
    """Everything that is not the size or the field."""
    return [
        (ordering, inverse, coset)
        for ordering in ORDERINGS
        for inverse in (False, True)
        for coset in COSETS
    ]


@pytest.mark.parametrize(
    ("name", "log2_size"),
    [
        *(("bn254", log2_size) for log2_size in range(11)),
        *(pytest.param(name, 7, marks=pytest.mark.thorough) for name in ("bls12_381", "bls12_377")),
    ],
)
def test_every_size_order_and_coset(device: AnyDevice, name: str, log2_size: int) -> None:
    curve = CURVES[name]
    values = uniform(curve, 1 << log2_size, log2_size)
    for ordering, inverse, coset in combinations():
        check(device, curve, values, ordering=ordering, inverse=inverse, coset=coset)


@pytest.mark.parametrize("curve", one_and_others(CURVES.values()), ids=lambda curve: curve.name)
@pytest.mark.parametrize("family", FAMILIES)
def test_both_families_of_roots(device: AnyDevice, curve: PairingCurve, family: RootFamily) -> None:
    for log2_size, inverse in itertools.product((0, 1, 3, 6), (False, True)):
        values = uniform(curve, 1 << log2_size, 100 + log2_size)
        check(device, curve, values, family=family, inverse=inverse)
        check(device, curve, values, family=family, inverse=inverse, ordering="NR", coset=5)


def test_the_families_differ_where_their_roots_do() -> None:
    values = uniform(BLS12_381, 8, 1)
    transforms = [ntt(values, BLS12_381.fr, family=family) for family in FAMILIES]
    assert transforms[0] != transforms[1]


@pytest.mark.parametrize(
    ("log2_size", "batch"),
    [(0, 5), (0, 11), (1, 2), (1, 11), (3, 5), (3, 8), (5, 2), (6, 11), (8, 5)],
)
def test_batches(device: AnyDevice, log2_size: int, batch: int) -> None:
    values = uniform(BN254, batch << log2_size, batch)
    for ordering, inverse, coset in combinations():
        check(
            device, BN254, values, ordering=ordering, inverse=inverse, coset=coset, batch=batch
        )  # fmt: skip


@pytest.mark.parametrize(
    "split",
    one_and_others([[4, 3, 3], [5, 6], [3, 1, 2, 3], [8, 2], [10]], [[3, 1, 2, 3], [10]]),
)
def test_passes_of_any_number_of_levels(
    device: AnyDevice, split: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large transforms have passes that small ones do not; here small ones are split like them."""
    monkeypatch.setattr(plan, "split", lambda log2_size, *, wide: split)
    values = uniform(BN254, 1 << sum(split), 3)
    for ordering, inverse, coset in combinations():
        check(device, BN254, values, ordering=ordering, inverse=inverse, coset=coset)


def test_passes_compiled_for_their_rows(device: AnyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """From some size on, the number of rows is fixed in a pass; here it is from the start."""
    monkeypatch.setattr(plan, "STATIC_FROM", 0)
    # One pass is too short for it.
    monkeypatch.setattr(plan, "split", lambda log2_size, *, wide: [4, 3, 4])
    values = uniform(BN254, 1 << 11, 4)
    for inverse in (False, True):
        check(device, BN254, values, ordering="NR", inverse=inverse, coset=3)
        check(device, BN254, values, ordering="RN", inverse=inverse)


@pytest.mark.parametrize("curve", one_and_others(CURVES.values()), ids=lambda curve: curve.name)
def test_hostile_values(device: AnyDevice, curve: PairingCurve) -> None:
    """Values that carry through every limb, or none, at every level."""
    largest, size = curve.fr.value - 1, 1 << 7
    kinds = (
        [0] * size,
        [1] * size,
        [largest] * size,
        [largest] + [0] * (size - 1),
        [0] * (size - 1) + [largest],
        [0, largest] * (size // 2),
    )
    values = list(itertools.chain(*kinds))
    for ordering, inverse, coset in combinations():
        check(
            device, curve, values, ordering=ordering, inverse=inverse, coset=coset,
            batch=len(kinds),
        )  # fmt: skip


def test_coset_shift_is_reduced_modulo_the_prime(device: AnyDevice) -> None:
    values = uniform(BN254, 16, 5)
    shift = 11 - 3 * BN254.fr.value
    transform = ntt(values, BN254.fr, coset=shift, device=device)
    assert transform == ntt(values, BN254.fr, coset=11, device=device)
