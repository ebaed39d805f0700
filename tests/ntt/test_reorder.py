"""Rejected data is unchanged: elements are marked only before a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.memory.buffer import Buffer
from quod.errors import DeviceError
from quod.field.moduli import BN254_FR
from quod.ntt import NttPlan, Ordering

NUMBERS = np.arange(64, dtype=np.uint32).reshape(8, 8)


def unaligned() -> np.ndarray[Any, Any]:
    raw = np.zeros(NUMBERS.nbytes + 1, np.uint8)
    raw[1:] = NUMBERS.view(np.uint8).reshape(-1)
    return raw[1:]


@pytest.mark.parametrize("ordering", ["NN", "NR"])
@pytest.mark.parametrize("device", ["cpu", "cpu:checked"])
@pytest.mark.parametrize(
    "data",
    [NUMBERS.astype(">u4"), NUMBERS.astype(np.float32), unaligned()],
    ids=["big-endian", "floats", "unaligned"],
)
def test_rejected_data_is_unchanged(
    data: np.ndarray[Any, Any], device: str, ordering: Ordering
) -> None:
    before = data.tobytes()
    plan = NttPlan(open_device(device), BN254_FR, 3)
    with pytest.raises(DeviceError, match="argument data"):
        plan.forward(data, coset=5, ordering=ordering)
    assert data.tobytes() == before


def test_read_only_data_is_refused_by_the_launch() -> None:
    data = NUMBERS.copy()
    data.flags.writeable = False
    for coset in (1, 5):
        with pytest.raises(DeviceError, match="is read-only, and the kernel stores to it"):
            NttPlan(open_device("cpu"), BN254_FR, 3).forward(Buffer.wrap(data), coset=coset)
    assert (data == NUMBERS).all()
