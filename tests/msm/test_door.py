"""Validation of an MSM's arguments: one vector, the group's bases, exact numbers."""

from __future__ import annotations

import numpy as np
import pytest

from quod.curve import GROUPS, from_points
from quod.device import open_device
from quod.errors import InputError
from quod.field import integers_to_words
from quod.msm import MsmBases, MsmOptions, msm, msm_many

G1 = GROUPS["bn254.g1"]
GENERATOR = G1.parameters.generator
POINTS = from_points(G1, [GENERATOR, GENERATOR])
SCALARS = integers_to_words(G1.scalars, [1, 0])


@pytest.mark.parametrize("vectors", [1, 2])
def test_msm_rejects_several_vectors(vectors: int) -> None:
    with open_device("cpu") as device, pytest.raises(InputError, match="use msm_many"):
        msm(device, G1, POINTS, np.stack([SCALARS] * vectors))


def test_bases_of_another_group() -> None:
    with open_device("cpu") as device:
        kept = MsmBases(device, G1, POINTS)
        with pytest.raises(InputError, match=r"the bases are of bn254.g1, not of bls12_381.g1"):
            msm(device, GROUPS["bls12_381.g1"], kept, SCALARS)


def test_mismatched_vectors_are_rejected() -> None:
    with open_device("cpu") as device:
        for second in (SCALARS[:, :7], SCALARS.astype(np.uint64), SCALARS[0], SCALARS[None]):
            with pytest.raises(InputError):
                msm_many(device, G1, POINTS, [SCALARS, second])


def test_numpy_integers_and_device_names_are_accepted() -> None:
    options = MsmOptions(window_bits=np.int64(4), batch_size=np.uint8(2))  # type: ignore[arg-type]
    assert (type(options.window_bits), type(options.batch_size)) == (int, int)
    assert options == MsmOptions(window_bits=4, batch_size=2)
    assert msm("cpu", G1, POINTS, SCALARS, options) == GENERATOR


def test_coordinates_are_reduced() -> None:
    q = G1.coordinates.value
    for x in (-1, q, q + 1):
        for point in ((x, 2), (1, x)):
            with pytest.raises(InputError, match="a coordinate of point 1 is negative or not"):
                from_points(G1, [GENERATOR, point])
