"""Devices as context managers, and how devices, memory, streams, kernels and values are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer, open_device
from quod.errors import DeviceError
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.examples import saxpy
from tests.device.cuda_fixture import open_gpu

SEEN: list[str] = []


@kernel
def shows(k: Builder, n: U32, x: Pointer[U32], *, factor: int = 2) -> None:
    """Notes what values look like."""
    SEEN.extend(map(repr, (n, x, k.constant(7, n.type), n * factor)))
    x[0] = n * factor


@pytest.mark.parametrize("name", ["cpu", "cpu:checked", "emulated"])
def test_a_device_is_closed_at_the_end_of_its_block(name: str) -> None:
    with pytest.raises(ZeroDivisionError), open_device(name) as device:
        assert repr(device).startswith(f"<{type(device).__name__} {name}: workgroups of ")
        raise ZeroDivisionError
    assert ("gone" in repr(device)) is (name == "emulated")
    if name == "emulated":
        with pytest.raises(DeviceError, match="the device was closed"):
            device.upload(np.zeros(1, np.uint32))


def test_a_gpu_is_closed_at_the_end_of_its_block(tmp_path: Path) -> None:
    with open_gpu("simulated", tmp_path) as device:
        compiled = device.compile(saxpy)
        assert repr(compiled) == (
            "<CudaKernel saxpy(n: u32, a: f32, x: ptr<f32, global>, y: ptr<f32, global>): "
            f"workgroups of {device.lanes}>"
        )
        buffer = device.allocate(8)
        assert repr(buffer) == "<Buffer of 8 bytes: memory of cuda:0>"
    assert repr(buffer) == "<Buffer of 8 bytes: memory of cuda:0, which is gone>"
    with pytest.raises(DeviceError, match="the device was closed"):
        device.allocate(8)


def test_repr_of_memory() -> None:
    array = np.zeros(4, np.uint32)
    assert repr(Buffer.zeros(16)) == "<Buffer of 16 bytes: memory of the host>"
    array.flags.writeable = False
    assert (
        repr(Buffer.wrap(array))
        == "<Buffer of 16 bytes: memory of the host, uint32 (4,), read-only>"
    )


def test_repr_of_streams() -> None:
    with open_device("cpu") as device:
        idle = device.stream("mine")
        assert repr(idle) == "<IdleStream 'mine' on cpu>"
        recording = idle.record()
        assert repr(idle) == "<IdleStream 'mine' on cpu, used up by record()>"
        assert repr(recording) == "<RecordingStream 'mine' on cpu>"
        submitted = recording.finish().submit()
        assert repr(submitted) == "<SubmittedStream 'mine' on cpu>"
        submitted.wait()


@pytest.mark.parametrize("name", ["cpu", "cpu:checked", "emulated"])
def test_kernels_and_values(name: str) -> None:
    parameters = "n: u32, x: ptr<u32, global>"
    assert repr(shows).startswith(f"<kernel shows({parameters}), ")
    SEEN.clear()
    device: Any = open_device(name)
    compiled = device.compile(shows, lanes=4, factor=3)
    assert repr(compiled) == (
        f"<{type(compiled).__name__} shows({parameters}, factor=3): workgroups of 4>"
    )
    if name == "cpu":  # Its code may come from the cache, so that nothing is traced.
        shows.trace(device.machine(4), factor=3)
    number, pointer, constant, product = SEEN[-4:]
    assert number == "<u32 value>"
    assert pointer == "<ptr<u32, global> value>"
    assert constant == "<u32 value 7>"
    assert product.startswith("<u32 value of mul, ")
    assert f"{Path(__file__).name}:" in product
    run = shows.on(device, lanes=4)
    assert repr(run) == f"<shows on {device!r}, workgroups of 4>"
