"""Multiples of one point on a GPU."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod.curve.affine_law import AffineGroup
from quod.curve.array import to_points
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device.protocol import AnyDevice
from quod.field.array import integers_to_words
from quod.msm.fixed_base import FixedBase
from quod.msm.gpu.run import fixed_base


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    ["bn254.g1",
     *(pytest.param(name, marks=pytest.mark.thorough) for name in ("bls12_377.g1", "bn254.g2"))],
)  # fmt: skip
def test_base_multiples(gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With windows that end with the scalar's words, and with windows that reach beyond them."""
    group = GROUPS[name]
    r, generator = group.scalars.value, group.parameters.generator
    rng = random.Random(name)
    scalars = [0, 1, 2, r - 1, r - 2, 3, 4, 7, 8, 1 << 200, r >> 1]
    scalars += [rng.randrange(r) for _ in range(40)]
    # Several chunks, the last of them smaller.
    monkeypatch.setattr(fixed_base, "_CHUNK", 40)
    table = FixedBase(gpu_device, group, generator, len(scalars))
    products = to_points(group, table.multiply(integers_to_words(group.scalars, scalars)))
    law: AffineGroup[Any] = g1_group(group.curve) if group.degree == 1 else g2_group(group.curve)
    assert products == [law.multiply(scalar, generator) for scalar in scalars]
    assert table.multiply(integers_to_words(group.scalars, [])).shape == (0, *group.shape)
