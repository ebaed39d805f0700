"""MSMs of scalars in device memory match those of host arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.curve import GROUPS
from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field import integers_to_words
from quod.msm import MsmBases, MsmOptions, msm_buffer, msm_words, multiply_generator

G1 = GROUPS["bn254.g1"]
COUNT, VECTORS = 5, 3


def scalars(most: int = G1.scalars.value - 1) -> np.ndarray:
    generator = random.Random(1)
    numbers = [generator.randint(0, most) for _ in range(COUNT * VECTORS)]
    numbers[:3] = [0, 1, most]
    return integers_to_words(G1.scalars, numbers).reshape(VECTORS, COUNT, 8)


def check(device: AnyDevice, options: MsmOptions) -> None:
    cpu = open_device("cpu")
    points = multiply_generator(cpu, G1, scalars()[0])
    bases = MsmBases(device, G1, points, options)
    vectors = scalars((1 << (options.scalar_bits or 253)) - 1)
    expected = msm_words(MsmBases(cpu, G1, points), vectors)
    assert (msm_buffer(bases, device.upload(vectors), VECTORS) == expected).all()
    single_result = msm_buffer(bases, device.upload(vectors[1, :2]))
    assert (single_result == msm_words(MsmBases(cpu, G1, points), vectors[1, :2])).all()


def test_msm_buffer_on_every_device(device: AnyDevice) -> None:
    check(device, MsmOptions())


@pytest.mark.parametrize("options", [MsmOptions(batch_size=2), MsmOptions(streamed=True)])
def test_batched_and_streamed_msm_buffer(gpu_device: AnyDevice, options: MsmOptions) -> None:
    few = MsmOptions(window_bits=4, scalar_bits=8, batch_size=options.batch_size,
                     streamed=options.streamed)  # fmt: skip
    check(gpu_device, few)


def test_invalid_scalars_are_rejected() -> None:
    device = open_device("cpu")
    bases = MsmBases(device, G1, multiply_generator(device, G1, scalars()[0]))
    order = integers_to_words(NO_FIELD, [G1.scalars.value])
    with pytest.raises(InputError, match="scalar 0 is not below the order"):
        msm_buffer(bases, device.upload(order))
    with pytest.raises(InputError, match="72 bytes are not 1 vectors of scalars"):
        msm_buffer(bases, device.allocate(72))
    with pytest.raises(InputError, match="6 scalars have only 5 bases"):
        msm_buffer(bases, device.allocate(6 * 32))
    assert not msm_buffer(bases, device.allocate(0), 2).any()


NO_FIELD = GROUPS["bls12_381.g1"].scalars
