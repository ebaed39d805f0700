"""The checked CPU device: normal calls give equal results, mistakes raise errors with lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.device import open_device
from quod.device.cpu.device import CpuDevice
from quod.errors import DeviceError
from quod.field.moduli import BN254_FR
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel, u32
from quod.kernel.errors import InterpreterError
from quod.msm import msm
from tests.msm.inputs import bases, by_logarithms, logarithms, scalar_words, uniform


@pytest.fixture(scope="module")
def checked() -> Any:
    return open_device("cpu", checked=True)


def test_names() -> None:
    for device in (open_device("cpu:checked"), open_device("cpu:scalar", checked=True)):
        assert device.name == "cpu:checked"
        assert isinstance(device, CpuDevice)
    with pytest.raises(DeviceError, match="only the device cpu can check kernels; emulated"):
        open_device("emulated", checked=True)


@pytest.mark.thorough
def test_an_msm(checked: Any) -> None:
    group = GROUPS["bn254.g1"]
    scalars = uniform(group, 17, seed=3)
    expected = by_logarithms(group, scalars, logarithms(17))
    assert msm(checked, group, bases(group, 17), scalar_words(scalars)) == expected


@kernel
def overrun(k: Builder, x: Pointer[U32]) -> None:
    room = k.shared(u32, 4)
    room[k.local_id()] = x[k.local_id()]


@kernel
def race(k: Builder, x: Pointer[U32]) -> None:
    room = k.shared(u32, 8)
    i = k.local_id()
    room[i] = x[i]
    x[i] = room[(i + 1) % 8]


@kernel
def outside(k: Builder, x: Pointer[U64]) -> None:
    f = prime_field(k, BN254_FR)
    a = f.load(x, k.local_id() + 1)
    f.store(x, 0, a)


@pytest.mark.parametrize(
    ("definition", "line", "message"),
    [
        (overrun, 2, "stores to element 4 of the shared memory"),
        (race, 4, "what another instance stored; a barrier is needed between"),
        (outside, 2, "instance 7 of workgroup 0 loads element 32 of x, which has 32 of type u64"),
    ],
)
def test_kernel_mistakes_are_reported(
    checked: Any, definition: Any, line: int, message: str
) -> None:
    argument = np.zeros(32, np.uint64 if definition is outside else np.uint32)
    compiled = checked.compile(definition, lanes=8)
    with pytest.raises(InterpreterError, match=message) as caught:
        checked.launch(compiled, 1, argument)
    # The line of the kernel's author, also where a field does the access.
    assert caught.value.location.file == __file__
    assert caught.value.location.line == definition.location.line + 1 + line
