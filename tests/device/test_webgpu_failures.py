"""Failures of a WebGPU device, each reported as an error."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import WgslLimits
from quod.codegen.wgsl.module import WgslModule
from quod.device.backends import backend
from quod.device.discovery import resolve_device
from quod.device.webgpu import native as webgpu_native
from quod.device.webgpu.adapter import (
    AdapterProperties,
    adapter_limits,
    check_portable,
    list_adapters,
    select,
)
from quod.device.webgpu.compiler import KernelSource, KernelText
from quod.device.webgpu.device import WebGpuDevice
from quod.device.webgpu.names import is_webgpu_name, parse_name
from quod.device.webgpu.native import Native, WebGpuError, open_native, shortened
from quod.environment import number_from_environment
from quod.errors import DeviceError, KernelError
from tests.device import kernels
from tests.support.thorough import one_and_others

WORDS = np.arange(64, dtype=np.uint32)


@pytest.fixture
def own_device(webgpu_device: WebGpuDevice) -> Iterator[WebGpuDevice]:
    """One that a test may break."""
    device = WebGpuDevice(str(webgpu_device.properties.number), strength="portable")
    yield device
    device.close()


def launch(device: WebGpuDevice) -> None:
    out = np.zeros(64, np.uint32)
    device.launch(device.compile(kernels.scale), 1, 64, 3, WORDS, out)
    assert (out == 3 * WORDS).all()


# --- what is not there


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(webgpu_native, "_native", None)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(DeviceError, match=r"needs the package wgpu.*pip install '\.\[webgpu\]'"):
        open_native()
    rows, why = backend("webgpu").list()
    assert rows == []
    assert why is not None
    assert "pip install" in why


def test_library_load_failure_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise OSError("libwgpu_native.so: wrong ELF class")

    monkeypatch.setattr(webgpu_native, "_native", None)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(DeviceError, match=r"wgpu cannot be loaded: .*wrong ELF class"):
        open_native()


def test_unsupported_package_version_is_reported() -> None:
    library = SimpleNamespace(wgpuAdapterGetInfo=None)
    with pytest.raises(
        DeviceError, match=r"no wgpuBufferGetConstMappedRange; install version 0\.32"
    ):
        Native(None, library, SimpleNamespace(), None)


class NoAdapters:
    """A system without a driver."""

    def adapters(self) -> list[Any]:
        return []


def test_missing_adapter_is_reported() -> None:
    with pytest.raises(DeviceError, match=r"finds no adapter.*mesa-vulkan-drivers"):
        list_adapters(NoAdapters())  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="finds no adapter"):
        WebGpuDevice(native=NoAdapters())  # type: ignore[arg-type]


def properties(number: int, name: str, **changed: int) -> AdapterProperties:
    limits = WgslLimits(**changed)
    return AdapterProperties(
        number, name, "driver 7", "Vulkan", "DiscreteGPU", frozenset({"subgroup"}), limits, (32, 32)
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"storage_buffers": 4},
            "max-storage-buffers-per-shader-stage is 4, and WebGPU requires 8",
        ),
        ({"workgroup_bytes": 8192}, "max-compute-workgroup-storage-size is 8192"),
        ({"binding_alignment": 512}, "min-storage-buffer-offset-alignment is 512"),
    ],
)
def test_insufficient_adapter_limits_are_reported(changed: dict[str, int], message: str) -> None:
    check_portable(properties(0, "good", binding_alignment=16, storage_buffers=64))
    with pytest.raises(DeviceError, match=f"old is not an adapter that Quod can use.*{message}"):
        check_portable(properties(0, "old", **changed))


def test_adapters_by_number_and_name() -> None:
    adapters = [(properties(0, "Big GPU"), "a"), (properties(1, "Small Thing"), "b")]
    assert select(adapters, "")[1] == "a"
    assert select(adapters, "1")[1] == "b"
    assert select(adapters, "THING")[1] == "b"
    with pytest.raises(DeviceError, match=r"'2'; there are webgpu:0 \(Big GPU\), webgpu:1 \(Small"):
        select(adapters, "2")
    assert adapters[0][0].notable_features()[-1] == "subgroups"


def test_device_names_are_parsed() -> None:
    assert parse_name("webgpu") == ("", None)
    assert parse_name("webgpu:2") == ("2", None)
    assert parse_name("webgpu:portable") == ("", "portable")
    assert parse_name("webgpu:2:portable") == ("2", "portable")
    assert parse_name("webgpu:a:b:extended") == ("a:b", "extended")
    assert not is_webgpu_name("webgpu:")
    assert not is_webgpu_name("webgpus")
    assert is_webgpu_name("webgpu:x")


@pytest.mark.parametrize("text", ["x", "-1", "0", "nan", "inf", "1e308G", "G"])
def test_invalid_environment_variables_are_reported(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOD_WEBGPU_MEMORY", text)
    with pytest.raises(DeviceError, match="QUOD_WEBGPU_MEMORY is a number above zero"):
        number_from_environment("QUOD_WEBGPU_MEMORY", 1.0)


def test_numeric_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert number_from_environment("QUOD_WEBGPU_WATCHDOG", 5.0) == 5.0
    for text, number in (("8", 8), ("2k", 2048), ("1.5M", 1.5 * 2**20), (" 8G ", 8 << 30)):
        monkeypatch.setenv("QUOD_WEBGPU_WATCHDOG", text)
        assert number_from_environment("QUOD_WEBGPU_WATCHDOG", 5.0) == number


def test_messages_are_shortened() -> None:
    long = (
        "Validation Error\n\nCaused by:\n  In wgpuDeviceX, label = 'a'\n  one\n\n  two\nthree\nfour"
    )
    assert shortened(long) == "one; two; three"
    assert shortened("") == "no reason was given"


# --- a device that fails


def test_zeros_instead_of_results_are_detected(
    own_device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(own_device)
    monkeypatch.setattr(own_device.session.queue, "_read", lambda receipt: (0, 0, 0))
    with pytest.raises(DeviceError, match=r"kernel scale .*only zeros.*did not do its work"):
        own_device.launch(
            own_device.compile(kernels.scale), 1, 64, 3, own_device.upload(WORDS),
            own_device.allocate(256),
        )  # fmt: skip
    with pytest.raises(DeviceError, match="did not do its work"):
        own_device.allocate(16)


def test_dropped_submissions_are_detected(
    own_device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = own_device.session.queue._read
    monkeypatch.setattr(
        own_device.session.queue, "_read", lambda receipt: tuple(n - (n > 9) for n in real(receipt))
    )
    with pytest.raises(
        DeviceError, match=r"the adapter returned the number \d+ where \d+ should be"
    ):
        launch(own_device)


def test_lost_device_is_reported_and_reopened(webgpu_device: WebGpuDevice) -> None:
    device = resolve_device("webgpu:portable")
    assert isinstance(device, WebGpuDevice)
    memory = device.upload(WORDS)
    device.session.gpu.destroy()
    with pytest.raises(DeviceError, match="lost"):
        launch(device)
    with pytest.raises(DeviceError, match="lost"):
        device.download(memory, np.zeros(64, np.uint32))
    with pytest.raises(DeviceError, match="close it and open it again"):
        device.compile(kernels.increment)
    again = resolve_device("webgpu:portable")
    assert again is not device
    assert isinstance(again, WebGpuDevice)
    launch(again)
    with pytest.raises(DeviceError, match=r"is memory of|lost"):
        again.download(memory, np.zeros(64, np.uint32))
    again.close()


def test_device_lost_during_recorded_work(own_device: WebGpuDevice) -> None:
    stream = own_device.stream("unlucky").record()
    memory = own_device.allocate(256)
    stream.launch(own_device.compile(kernels.increment), 1, 64, memory)
    recorded = stream.finish()
    own_device.session.gpu.destroy()
    with pytest.raises(DeviceError, match="lost"):
        recorded.submit().wait()


def test_driver_out_of_memory_is_reported(
    own_device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = own_device.session.native.wgpu.GPUOutOfMemoryError("Not enough memory left.")

    def refuse(**_: Any) -> Any:
        raise error

    own_device.session.memory.destroy_unreferenced()
    before = own_device.session.memory.in_use
    with monkeypatch.context() as patch:
        patch.setattr(own_device.session.gpu, "create_buffer", refuse)
        with pytest.raises(DeviceError, match=r"no memory for a buffer of 1.0 MiB: the driver of"):
            own_device.allocate(1 << 20)
    assert own_device.session.memory.in_use == before
    launch(own_device)


def test_a_kernel_that_the_driver_refuses(
    own_device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = KernelSource.text

    def broken(self: KernelSource, bindings: Any = None) -> KernelText:
        kernel_text = real(self, bindings)
        module = kernel_text.module
        text = module.text.replace("@compute", "let nonsense = ;\n@compute")
        return KernelText(
            kernel_text.uses,
            WgslModule(
                text, module.entry, module.workgroup_size, module.bindings, module.storage,
                module.parameter_words, module.fields, module.dialect, module.lines,
            ),
        )  # fmt: skip

    with monkeypatch.context() as patch:
        patch.setattr(KernelSource, "text", broken)
        compiled = own_device.compile(kernels.increment)
        memory = own_device.allocate(256)
        with pytest.raises(
            KernelError, match=r"kernel increment \(.*kernels.py:\d+\): the driver r"
        ):
            own_device.launch(compiled, 1, 64, memory)
        stream = own_device.stream().record()
        stream.launch(compiled, 1, 64, memory)
        with pytest.raises(KernelError, match=r"rejects the WGSL.*the WGSL is in"):
            stream.finish().submit().wait()
    # It is forgotten: the next attempt is another one.
    own_device.launch(own_device.compile(kernels.increment), 1, 64, memory)


def test_a_device_of_another_process_is_refused(
    own_device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(DeviceError, match="opened before this process was forked"):
            own_device.allocate(16)


def test_memory_of_another_device_is_refused(
    own_device: WebGpuDevice, webgpu_device: WebGpuDevice
) -> None:
    memory = own_device.allocate(256)
    with pytest.raises(DeviceError, match="is memory of"):
        webgpu_device.download(memory, np.zeros(64, np.uint32))
    with pytest.raises(DeviceError, match="is memory of"):
        webgpu_device.launch(webgpu_device.compile(kernels.increment), 1, 64, memory)


HUNG = """
import numpy as np, sys, time
from quod.device.webgpu.device import WebGpuDevice
from quod.errors import DeviceError
from tests.device import kernels
device = WebGpuDevice(strength="portable", watchdog=2.0, synchronous=sys.argv[1] == "synchronous")
increment, spin = device.compile(kernels.increment), device.compile(kernels.spin)
groups = 200_000
memory, out = device.allocate(256), device.allocate(4 * groups)
stream = device.stream("prover").record()
stream.launch(increment, 1, 64, memory, label="first")
stream.launch(spin, groups, 60_000, out, label="spinning")
begin = time.perf_counter()
try:
    stream.finish().submit().wait()
except DeviceError as error:
    print(error)
assert time.perf_counter() - begin < 60
try:
    device.allocate(16)
except DeviceError as error:
    assert "taken for hung" in str(error)
    print("refused")
device.close()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("way", one_and_others(["synchronous", "together"]))
def test_a_kernel_that_does_not_end(webgpu_device: WebGpuDevice, way: str) -> None:
    if not webgpu_device.properties.is_software:
        pytest.skip("needs a kernel that runs long, and a GPU may drive a display")
    done = subprocess.run(
        [sys.executable, "-c", HUNG, way], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    said, refused = done.stdout.splitlines()
    assert refused == "refused"
    assert "spinning (kernel spin (" in said
    assert "has not ended for" in said
    assert "QUOD_WEBGPU_WATCHDOG" in said
    assert ("first" in said) == (way == "together")


def test_errors_tell_their_kind() -> None:
    error = WebGpuError("no", is_lost=True)
    assert error.is_lost
    assert not error.is_out_of_memory
    assert adapter_limits({
        "max-buffer-size": 1, "max-storage-buffer-binding-size": 2,
        "max-storage-buffers-per-shader-stage": 3, "min-storage-buffer-offset-alignment": 4,
        "max-compute-workgroup-storage-size": 5, "max-compute-invocations-per-workgroup": 6,
        "max-compute-workgroups-per-dimension": 7,
    }) == WgslLimits(1, 2, 3, 4, 5, 6, 7)  # fmt: skip
