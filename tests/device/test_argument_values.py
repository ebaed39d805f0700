"""Arguments of devices: exact numbers are accepted, others raise errors that name them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer, open_device
from quod.device.discovery import resolve_device
from quod.device.emulated.device import EmulatedDevice
from quod.errors import DeviceError, KernelError
from quod.kernel.examples import vector_add
from tests.device import kernels
from tests.device.cuda_fixture import open_gpu

DEVICES = ("cpu", "cpu:checked", "emulated", "emulated:ptx", "emulated:wgsl", "simulated")


def opened(name: str, folder: Path) -> Any:
    return open_gpu(name, folder) if name == "simulated" else open_device(name)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with opened(request.param, tmp_path) as opened_device:
        yield opened_device


NO_COUNTS: list[Any] = [1.0, 1.5, "1", None, True, np.True_, Fraction(1), np.array([1]), [1], -1]


@pytest.mark.parametrize("groups", [1, np.int64(1), np.uint8(1), np.array(1)])
def test_workgroup_counts_may_be_any_integer_type(device: Any, groups: Any) -> None:
    kernel = device.compile(kernels.increment, lanes=8)
    array = np.zeros(8, np.uint32)
    device.launch(kernel, groups, 8, array)
    buffer = device.upload(array)
    recording = device.stream().record()
    recording.launch(kernel, groups, 8, buffer)
    recording.finish().submit().wait()
    device.download(buffer, array)
    assert array.tolist() == [2] * 8


def test_invalid_workgroup_counts_are_rejected(device: Any) -> None:
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
                with pytest.raises(DeviceError, match="was compiled by another device; compile it"):
                    launch(kernel, 1, 8, *arrays)


def test_non_kernels_are_rejected(device: Any) -> None:
    recording = device.stream().record()
    for launch in (device.launch, recording.launch):
        for candidate in (None, 5, "increment", np.zeros(4), object):
            with pytest.raises(DeviceError, match="can launch only the result of its compile, not"):
                launch(candidate, 1, 8)
        with pytest.raises(KernelError, match="is not compiled"):
            launch(kernels.increment, 1, 8)


OPTIONS: list[dict[str, Any]] = [
    {"threads": 1.5}, {"threads": "2"}, {"threads": True}, {"threads": 0}, {"strategy": 5},
    {"memory_budget": 1.5}, {"memory_budget": "1G"}, {"memory_budget": -1},
]  # fmt: skip
NO_SIZES: list[Any] = [
    -1,
    1.5,
    8.0,
    np.float64(8),
    "8",
    b"8",
    None,
    True,
    [8],
    1 << 80,
    1 << 20_000,
]


def test_invalid_sizes_leave_the_device_unchanged(device: Any) -> None:
    for size in NO_SIZES:
        for ask in (device.allocate, device.pinned, lambda n: device.allocate(n, zero=False)):
            with pytest.raises(DeviceError):
                ask(size)
    for ask in (device.allocate, device.pinned):
        with pytest.raises(DeviceError):
            ask(1 << 60)
    assert device.allocate(np.int64(8)).nbytes == 8
    assert device.pinned(np.uint8(8)).nbytes == 8
    if device.kind == "emulated":
        assert device.memory.in_use == 0


def test_slices_and_views(device: Any) -> None:
    buffer = device.allocate(64)
    for start, stop in ((1.5, 4), (None, None), ("a", 4), (0, 4.0), (True, 4), (0, 65), (4, 2)):
        with pytest.raises(DeviceError):
            buffer.slice(start, stop)
    part = buffer.slice(np.int64(4), np.uint8(7))
    assert (type(part.nbytes), part.nbytes) == (int, 3)
    for asked in ((np.uint32,), ("zz",), (object,), (None, (5,)), (np.uint8, "x"), (np.uint8, 1.5)):
        with pytest.raises(DeviceError):
            part.view(*asked)


def test_non_buffers_are_rejected(device: Any) -> None:
    array = np.zeros(4, np.uint32)
    recording = device.stream().record()
    for argument in (5, "x", array, [0] * 4, object()):
        with pytest.raises(DeviceError, match="must be of the type Buffer"):
            device.download(argument, array)
        with pytest.raises(DeviceError, match="must be of the type Buffer"):
            device.upload(array, into=argument)
    buffer = device.upload(array)
    for argument in (5, None, "x", [0] * 4):
        with pytest.raises(DeviceError):
            recording.fill(argument)
        for copy in (recording.copy, recording.upload, recording.download):
            for pair in (
                (argument, buffer),
                (buffer, argument),
                (argument, array),
                (array, argument),
            ):
                with pytest.raises(DeviceError):
                    copy(*pair)
    recording.finish().submit().wait()


def test_lanes_and_static_arguments(device: Any) -> None:
    for lanes in (1.5, 8.0, "8", True, 0, -1, 1 << 40, (8,)):
        with pytest.raises((KernelError, DeviceError)):
            device.compile(kernels.increment, lanes=lanes)
    compiled = device.compile(kernels.increment, lanes=np.uint8(8))
    assert compiled is device.compile(kernels.increment, lanes=8)
    with pytest.raises(KernelError, match="takes no static arguments; unknown: foo"):
        device.compile(kernels.increment, lanes=8, foo=1)
    with pytest.raises(KernelError, match="takes no static arguments; unknown: n"):
        kernels.increment.on(device, lanes=8, n=1)


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_invalid_open_device_options_are_rejected(options: dict[str, Any]) -> None:
    for name in ("cpu", "cpu:checked", "emulated"):
        with pytest.raises(DeviceError):
            open_device(name, **options)


def test_invalid_device_names_are_rejected() -> None:
    with pytest.raises(DeviceError):
        open_device("")
    for name in (5, None, b"cpu", ["cpu"], ""):
        with pytest.raises(DeviceError):
            resolve_device(name)  # type: ignore[arg-type]


def test_an_array_with_a_mask_is_refused(device: Any) -> None:
    masked: Any = np.ma.masked_array(np.zeros(4, np.uint32), mask=[True, False, False, False])
    buffer = device.allocate(16)
    recording = device.stream().record()
    for use in (
        lambda: device.upload(masked),
        lambda: device.download(buffer, masked),
        lambda: kernels.increment.on(device)(4, masked),
        lambda: recording.upload(masked, buffer),
    ):
        with pytest.raises(DeviceError, match="masked array is not plain memory"):
            use()


def test_failed_allocation_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    device = EmulatedDevice()

    def nothing(_: int) -> Buffer:
        raise DeviceError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(Buffer, "zeros", nothing)
        with pytest.raises(DeviceError, match="no memory"):
            device.allocate(64)
    assert device.memory.in_use == 0
