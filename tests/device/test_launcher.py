"""Kernels called with their arguments: the workgroups that are launched, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from quod.device import CpuDevice, open_device
from quod.errors import DeviceError, KernelError
from quod.kernel import F32, U32, Builder, Pointer, TraceError, kernel
from quod.kernel.examples import saxpy


@kernel(workgroup=16)
def count_groups(k: Builder, n: U32, groups: Pointer[U32], *, step: int = 1) -> None:
    """Adds `step` for each workgroup."""
    with k.if_((k.local_id() == 0) & (n > 0)):
        k.atomic_add(groups, 0, step)


@kernel(instances="rows")
def fill_rows(k: Builder, value: U32, rows: U32, out: Pointer[U32]) -> None:
    i = k.global_id()
    with k.if_(i < rows):
        out[i] = value


@kernel
def no_count(k: Builder, x: Pointer[U32]) -> None:
    x[k.global_id()] = 1


@kernel
def float_count(k: Builder, n: F32, x: Pointer[F32]) -> None:
    x[k.global_id()] = n


@pytest.fixture(params=["cpu", "cpu:checked", "emulated", "emulated:ptx", "emulated:wgsl"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    opened = open_device(request.param)
    yield opened
    opened.close()


def test_a_call_computes_everything(device: Any) -> None:
    run = saxpy.on(device)
    x, y = np.arange(300, dtype=np.float32), np.ones(300, dtype=np.float32)
    run(300, 2.0, x, y)
    run(300, 1.0, y=y, x=x)
    assert y.tolist() == [3.0 * i + 1 for i in range(300)]
    assert run.groups(0) == 0
    assert run.groups(1) == 1
    assert run.groups(run.kernel.lanes + 1) == 2
    run(0, 2.0, x, y)
    assert y[1] == 4.0


def test_workgroup_size_comes_from_the_kernel(device: Any) -> None:
    total = np.zeros(1, np.uint32)
    assert device.compile(count_groups).lanes == 16
    assert device.compile(saxpy).lanes == device.lanes
    count_groups.on(device)(33, total)
    assert total[0] == 3
    count_groups.on(device, lanes=8, step=10)(33, total)
    assert total[0] == 3 + 50


def test_text_uses_the_kernels_workgroup_size() -> None:
    device = CpuDevice()
    assert device.emit(count_groups) == device.emit(count_groups, lanes=16)
    assert device.emit(count_groups) != device.emit(count_groups, lanes=8)


def test_instances_may_name_another_parameter() -> None:
    out = np.zeros(50, np.uint32)
    fill_rows.on(open_device("cpu"))(7, 50, out)
    assert out.tolist() == [7] * 50


def test_invalid_calls_are_rejected(device: Any) -> None:
    run = saxpy.on(device)
    x = np.zeros(4, np.float32)
    takes = r"kernel saxpy takes 4 arguments \(n, a, x, y\); "
    with pytest.raises(DeviceError, match=takes + "missing: y$"):
        run(4, 1.0, x)
    with pytest.raises(DeviceError, match=takes + "the call has 5$"):
        run(4, 1.0, x, x, x)
    with pytest.raises(DeviceError, match=takes + "twice: n; missing: y$"):
        run(4, 1.0, x, n=4)
    with pytest.raises(DeviceError, match=takes + "unknown: z$"):
        run(4, 1.0, x, x, z=x)
    for count in (-1, 1 << 32, 2.0, "4", x):
        with pytest.raises(DeviceError, match=r"argument n of kernel saxpy is the number of inst"):
            run(count, 1.0, x, x)
    with pytest.raises(DeviceError, match="argument a of kernel saxpy must be a number"):
        run(4, "1", x, x)
    with pytest.raises(DeviceError, match="argument y of kernel saxpy is an array of int32"):
        run(4, 1.0, x, x.astype(np.int32))


def test_kernels_without_an_instance_count_are_rejected() -> None:
    device = open_device("cpu")
    for definition in (no_count, float_count):
        with pytest.raises(KernelError, match=r'name another with @kernel\(instances="\.\.\."\)'):
            definition.on(device)


def test_decorator_mistakes_are_reported() -> None:
    for wrong in (0, -8, 2.0):
        with pytest.raises(TraceError, match="whole number of instances, at least one, not"):
            kernel(workgroup=wrong)(saxpy.function)  # type: ignore[arg-type]
    for name in ("m", "a", "x"):
        with pytest.raises(TraceError, match=f"instances='{name}' names no parameter that is U32"):
            kernel(instances=name)(saxpy.function)
