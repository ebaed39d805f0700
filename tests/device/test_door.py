"""What devices are given, whatever it is: numbers made exact, or errors that name it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.errors import DeviceError, KernelError
from quod.kernel.examples import vector_add
from tests.device import kernels
from tests.device.cuda_fixture import open_gpu

DEVICES = ("cpu", "cpu:checked", "emulated", "emulated:ptx", "emulated:wgsl", "simulated")


def opened(name: str, folder: Path) -> Any:
    return open_gpu(name, folder) if name == "simulated" else open_device(name)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with opened(request.param, tmp_path) as found:
        yield found


NO_COUNTS: list[Any] = [1.0, 1.5, "1", None, True, np.True_, Fraction(1), np.array([1]), [1], -1]


@pytest.mark.parametrize("groups", [1, np.int64(1), np.uint8(1), np.array(1)])
def test_workgroups_are_any_whole_number(device: Any, groups: Any) -> None:
    kernel = device.compile(kernels.increment, lanes=8)
    array = np.zeros(8, np.uint32)
    device.launch(kernel, groups, 8, array)
    buffer = device.upload(array)
    recording = device.stream().record()
    recording.launch(kernel, groups, 8, buffer)
    recording.finish().submit().wait()
    device.download(buffer, array)
    assert array.tolist() == [2] * 8


def test_workgroups_that_are_no_number(device: Any) -> None:
    kernel = device.compile(kernels.increment, lanes=8)
    buffer = device.upload(np.zeros(8, np.uint32))
    recording = device.stream().record()
    for groups in (*NO_COUNTS, 1 << 33, 1 << 80):
        for launch in (device.launch, recording.launch):
            with pytest.raises(DeviceError, match="workgroups"):
                launch(kernel, groups, 8, buffer)
    recording.finish().submit().wait()


def test_kernels_of_other_devices(device: Any, tmp_path: Path) -> None:
    for name in DEVICES:
        with opened(name, tmp_path) as other:
            if other.name == device.name:
                # One processor is as good as another; a GPU that was closed is gone.
                continue
            kernel = other.compile(vector_add, lanes=8)
            recording = device.stream().record()
            arrays = [device.upload(np.zeros(8, np.float32)) for _ in range(3)]
            for launch in (device.launch, recording.launch):
                with pytest.raises(
                    DeviceError, match="was compiled by another device; launch what"
                ):
                    launch(kernel, 1, 8, *arrays)


def test_what_is_no_kernel(device: Any) -> None:
    recording = device.stream().record()
    for launch in (device.launch, recording.launch):
        for given in (None, 5, "increment", np.zeros(4), object):
            with pytest.raises(DeviceError, match="launches what its compile gives, not"):
                launch(given, 1, 8)
        with pytest.raises(KernelError, match="is not compiled"):
            launch(kernels.increment, 1, 8)
