"""Grids of several axes, and invalid launches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from quod.device import open_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, KernelError
from quod.kernel import U32, Builder, Machine, Pointer, TraceError, kernel, u32
from quod.kernel.interpreter.interpreter import interpret
from tests.conftest import open_for_test
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import refuses
from tests.support.devices import present

DEVICES = present("scalar", "cpu:checked", "emulated:ptx", "emulated:wgsl", "cuda", "webgpu")


@pytest.fixture(scope="module", params=DEVICES)
def some_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    with open_for_test(request.param) as opened:
        yield opened


@kernel(workgroup=(4, 2), instances=("width", "height"))
def transpose(
    k: Builder, width: U32, height: U32, x: Pointer[U32], grid_0: U32, y: Pointer[U32]
) -> None:
    """y[column, row] = x[row, column] + grid_0, by tiles in shared memory."""
    room = k.shared(u32, 8)
    column, row = k.global_id(0), k.global_id(1)
    inside = (column < width) & (row < height)
    index = k.local_id(1) * 4 + k.local_id(0)
    with k.if_(inside) as branch:
        branch.yield_(x[row * width + column])
    with branch.otherwise():
        branch.yield_(k.constant(0, u32))
    room[index] = branch.results + grid_0
    k.barrier()
    with k.if_(inside):
        y[column * height + row] = room[index]


@kernel(axes=3)
def places(k: Builder, y: Pointer[U32]) -> None:
    """Store the position of each instance, and the number of workgroups along each axis."""
    at = k.global_id()
    parts = [k.workgroup_id(axis) for axis in range(3)]
    counts = [k.num_workgroups(axis) for axis in range(3)]
    local = [k.local_id(axis) for axis in range(3)]
    for number, value in enumerate([*parts, *counts, *local, k.num_workgroups(), k.global_id(0)]):
        y[at * 11 + number] = value


def test_two_axes(some_device: AnyDevice) -> None:
    x = np.arange(7 * 5, dtype=np.uint32).reshape(5, 7)
    y = np.zeros((7, 5), np.uint32)
    run = transpose.on(some_device)
    run(7, 5, x, 3, y)
    assert np.array_equal(y, x.T + 3)
    assert run.groups(7, 5) == (2, 3)
    stream = some_device.stream().record()
    on_device, out = some_device.upload(x), some_device.allocate(y.nbytes)
    stream.launch(run.kernel, run.groups(7, 5), 7, 5, on_device, 1, out)
    stream.download(out, y)
    stream.finish().submit().wait()
    assert np.array_equal(y, x.T + 1)


def test_three_axes(some_device: AnyDevice) -> None:
    lanes = 4
    compiled = some_device.compile(places, lanes=lanes)
    shape = (3, 2, 5)
    y = np.zeros((30 * lanes, 11), np.uint32)
    some_device.launch(compiled, shape, y)
    for at, row in enumerate(y.tolist()):
        group, local = divmod(at, lanes)
        parts = [group % 3, group // 3 % 2, group // 6]
        assert row == [*parts, *shape, local, 0, 0, 30, parts[0] * lanes + local]


def test_one_axis_is_the_default() -> None:
    @kernel
    def plain(k: Builder, y: Pointer[U32]) -> None:
        y[k.global_id(0)] = k.workgroup_id(0) + k.num_workgroups(0) + k.local_id(0)

    @kernel
    def same(k: Builder, y: Pointer[U32]) -> None:
        y[k.global_id()] = k.workgroup_id() + k.num_workgroups() + k.local_id()

    ops = [[op.name for op in definition.trace(EIGHT).block.ops] for definition in (plain, same)]
    assert ops[0] == ops[1]
    y = np.zeros(16, np.uint32)
    interpret(plain.trace(EIGHT), 2, [y])
    assert y.tolist() == [i // 8 + 2 + i % 8 for i in range(16)]


def test_launches_that_are_refused(some_device: AnyDevice) -> None:
    compiled = some_device.compile(places, lanes=4)
    y = np.zeros(11 * 4, np.uint32)
    for wrong in (1, (1, 1), (1, 1, 1.5), (1, 1, -1), (1, 1, 1, 1), None):
        with pytest.raises(
            DeviceError, match=r"kernel places was launched with .* give 3 whole num"
        ):
            some_device.launch(compiled, wrong, y)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=r"the number must be from 0 to 2\*\*3[12] - 1"):
        some_device.launch(compiled, (1 << 12, 1 << 12, 1 << 12), y)
    some_device.launch(compiled, (0, 7, 2), y)
    assert not y.any()

    @kernel
    def plain(k: Builder, y: Pointer[U32]) -> None:
        y[k.global_id()] = 1

    simple = some_device.compile(plain, lanes=4)
    for wrong in (1.5, "1", None, (1, 1)):
        with pytest.raises(DeviceError, match=r"plain was launched with .* give a whole number"):
            some_device.launch(simple, wrong, y)  # type: ignore[arg-type]
        with pytest.raises(DeviceError, match=r"plain was launched with .* give a whole number"):
            some_device.stream().record().launch(simple, wrong, y)  # type: ignore[arg-type]
    some_device.launch(simple, np.int64(2), y)  # type: ignore[arg-type]
    assert y.sum() == 8


def test_kernels_of_other_devices(some_device: AnyDevice) -> None:
    compiled = some_device.compile(places, lanes=4)
    y = np.zeros(44, np.uint32)
    for name in ("cpu", "cpu:checked", "emulated"):
        with open_device(name) as other:
            if other.kernel_type is some_device.kernel_type:
                continue
            shown = "kernel places was compiled by another device"
            with pytest.raises(DeviceError, match=shown):
                other.launch(compiled, (1, 1, 1), y)
            with pytest.raises(DeviceError, match=shown):
                some_device.launch(other.compile(places, lanes=4), (1, 1, 1), y)
            with pytest.raises(DeviceError, match=shown):
                other.stream().record().launch(compiled, (1, 1, 1), y)


def test_invalid_axes_are_rejected() -> None:
    def no_axis(k: Builder, y: Pointer[U32]) -> None:
        y[0] = k.global_id(1)  # here

    refuses(
        no_axis, TraceError,
        "the grid has 1 axis, counted from 0, and no axis 1; write @kernel(axes=...)",
    )  # fmt: skip
    with pytest.raises(
        TraceError, match=r"has workgroups of 4 \* 2 instances, not of 4; omit `lanes`"
    ):
        transpose.trace(Machine("llvm", 4, frozenset()))
    with pytest.raises(TraceError, match=r"a grid has 1, 2 or 3 axes"):
        kernel(axes=4)(no_axis)
    with pytest.raises(TraceError, match=r"as many extents, not 3 and \(4, 2\)"):
        kernel(axes=3, workgroup=(4, 2))(no_axis)
    with pytest.raises(TraceError, match="at least one, not \\(4, 0\\)"):
        kernel(workgroup=(4, 0))(no_axis)
    with pytest.raises(TraceError, match="names 1 parameters, and the grid has 2 axes"):
        kernel(axes=2, instances="n")(_counted)
    with pytest.raises(
        KernelError, match="no parameter of kernel places is known to be the number"
    ):
        places.on(open_device("cpu"))


def _counted(k: Builder, n: U32) -> None: ...
