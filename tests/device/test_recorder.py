"""Recorded tensor functions: replays, and calls that cannot be recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

from quod.device import open_device, recorder_of
from quod.device.export.device import ExportDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Fill, Launch
from quod.errors import DeviceError
from quod.field import Element, ElementOf, Modulus
from quod.field.any_field import field_arithmetic
from quod.field.moduli import M31
from quod.kernel import U32, Builder, Pointer, Struct, kernel
from quod.tensor import cross_entropy, embedding, embedding_backward, gemm, softmax
from tests.device import kernels

Array = np.ndarray[Any, Any]


def down(device: AnyDevice, buffer: Any) -> Array:
    array = np.empty(buffer.shape, buffer.dtype)
    device.download(buffer, array)
    return array


def test_replays_read_current_inputs(device: AnyDevice) -> None:
    random = np.random.default_rng(1)
    a, b = (random.normal(0, 1, (5, 5)).astype(np.float32) for _ in range(2))
    x, y = device.upload(a), device.upload(np.full_like(a, 7))
    stream = device.stream().record()
    softmax(recorder_of(device, stream), gemm(recorder_of(device, stream), x, x), out=y)
    recording = stream.finish().recording
    assert (down(device, y) == 7).all()
    for array in (a, b):
        device.upload(array, into=x)
        device.stream().replay(recording).run()
        at_once = softmax(device, gemm(device, x, x))
        assert down(device, y).tobytes() == down(device, at_once).tobytes()


def test_zeroed_memory_is_zeroed_by_each_replay(device: AnyDevice) -> None:
    kernel, seen = device.compile(kernels.increment), np.zeros(3, np.uint32)
    stream = device.stream().record()
    on = recorder_of(device, stream)
    memory = on.allocate(12)
    on.launch(kernel, -(-3 // device.lanes), 3, memory)
    stream.download(memory, seen)
    recorded = stream.finish()
    assert [type(step).__name__ for step in recorded.recording.steps] == ["Fill", "Launch", "Copy"]
    for _ in range(2):
        device.stream().replay(recorded.recording).run()
        assert seen.tolist() == [1, 1, 1]


def test_unaligned_sizes_are_recorded() -> None:
    with open_device("cpu") as device:
        stream = device.stream().record()
        on = recorder_of(device, stream)
        assert [on.allocate(size).nbytes for size in (0, 1, 6)] == [0, 1, 6]
        assert on.allocate(6, zero=False).nbytes == 6
        fills = [step for step in stream.finish().recording.steps if isinstance(step, Fill)]
        assert [step.target.nbytes for step in fills] == [4, 8]


def test_recorder_of_an_export_device() -> None:
    """Uploads are constants on an export device, and allocations are not."""
    device = ExportDevice()
    x = device.upload(np.ones((2, 3), np.float32))
    stream = device.stream().record()
    y = embedding(recorder_of(device, stream), x, device.upload(np.zeros(4, np.int32)), check=False)
    (launch,) = stream.finish().recording.steps
    assert isinstance(launch, Launch)
    assert not device.is_constant(y)
    assert device.is_constant(launch.arguments[-1])


X = np.ones((2, 3), np.float32)
INDICES = np.zeros(2, np.int32)


@pytest.mark.parametrize(
    "call",
    [
        lambda on, x, picks: cross_entropy(on, x, picks),
        lambda on, x, picks: embedding(on, x, picks),
        lambda on, x, picks: embedding_backward(on, x, picks, 3),
    ],
    ids=["cross_entropy", "embedding", "embedding_backward"],
)
def test_calls_that_need_the_host_are_rejected(call: Callable[..., Any], device: AnyDevice) -> None:
    on = recorder_of(device, device.stream().record())
    with pytest.raises(DeviceError, match=r"cannot be recorded: .* has a parameter `check`, pass"):
        call(on, device.upload(X), device.upload(INDICES))


def test_stores_to_constants_are_rejected() -> None:
    with open_device("cpu") as device:
        on = recorder_of(device, device.stream().record())
        constant, kernel = on.upload(np.zeros(4, np.uint32)), device.compile(kernels.increment)
        for memory in (constant, constant.slice(4, 8)):
            with pytest.raises(
                DeviceError, match="increment, which stores to data that is uploaded"
            ):
                on.launch(kernel, 1, 1, memory)
        on.launch(device.compile(kernels.scale), 1, 1, 2, constant, on.allocate(4))


class Rows(Struct):
    n: U32
    source: Pointer[U32]
    target: Pointer[U32]


@kernel
def move(
    k: Builder, shift: Annotated[Element, ElementOf("field")], rows: Rows, *, field: Modulus
) -> None:
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < rows.n):
        f.store(rows.target, i, f.load(rows.source, i) + shift)


def test_stores_to_constants_in_structs_are_rejected() -> None:
    with open_device("cpu") as device:
        on = recorder_of(device, device.stream().record())
        constant, compiled = on.upload(np.zeros(4, np.uint32)), device.compile(move, field=M31)
        with pytest.raises(DeviceError, match="move, which stores to data that is uploaded"):
            on.launch(compiled, 1, 1, Rows(1, on.allocate(16), constant))
        on.launch(compiled, 1, 1, Rows(1, constant, on.allocate(16)))


def test_other_attributes_match_the_device() -> None:
    with open_device("cpu") as device:
        with recorder_of(device, device.stream().record()) as on:
            assert (on.name, on.lanes, on.space) == (device.name, device.lanes, device.space)
            assert repr(on) == f"<what records launches for {device!r}>"
        assert not device.space.is_lost
        for call, what in (
            (lambda: on.upload(X, into=device.allocate(24)), "uploads to existing memory"),
            (lambda: on.stream("a"), "creates its own stream"),
        ):
            with pytest.raises(DeviceError, match=what):
                call()
        stream = device.stream().record()
        stream.finish()
        with pytest.raises(DeviceError, match="no longer recording"):
            softmax(recorder_of(device, stream), device.upload(X))
        with pytest.raises(
            DeviceError, match="cpu can launch only the result of its compile, not a str"
        ):
            on.launch("k", 1, device.upload(X))


def test_a_stream_of_another_device_is_refused() -> None:
    with open_device("emulated") as device, open_device("emulated") as other:
        stream = device.stream().record()
        on = recorder_of(device, stream)
        for wrong in (other, on):
            with pytest.raises(DeviceError, match="records for another device than"):
                recorder_of(wrong, stream)
