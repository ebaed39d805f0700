"""Failures of a GPU on a simulated driver: missing, outdated, full, lost and damaged parts."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import discovery, open_device
from quod.device.backends import backend
from quod.device.cache.cache import CompileCache
from quod.device.cuda import driver as cuda_driver
from quod.device.cuda.device import CudaDevice
from quod.device.cuda.driver import open_driver
from quod.errors import DeviceError, KernelError
from tests.device import kernels

real = pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")

from tests.device.fake_cuda import FUNCTIONS, FakeCuda  # noqa: E402

COUNT = 100


def gpu_of(driver: FakeCuda, folder: Path, **options: Any) -> CudaDevice:
    return CudaDevice(bindings=driver, cache=CompileCache(folder), **options)


def launch_all(device: CudaDevice) -> list[int]:
    out = np.zeros(COUNT, np.uint32)
    device.launch(device.compile(kernels.increment), 1, COUNT, out)
    return out.tolist()


# --- the model of the driver is faithful to the bindings


WITHOUT_BINDINGS = {"cuTensorMapEncodeTiled"}
"""Their object for a map is not aligned as the driver demands."""


def test_every_function_that_is_called_is_one_of_the_bindings() -> None:
    source = Path(cuda_driver.__file__).parent
    used: set[str] = set()
    for file in source.glob("*.py"):
        text = file.read_text()
        used |= set(re.findall(r"(?:driver|api|get)\.(cu[A-Z]\w+)", text))
        used |= set(re.findall(r'"(cu[A-Z]\w+)"', text))
    assert len(used) > 40
    assert used - WITHOUT_BINDINGS <= set(FUNCTIONS)
    for name in FUNCTIONS:
        assert callable(getattr(real, name)), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fake_functions_match_the_bindings_signatures(name: str) -> None:
    signature = (getattr(real, name).__doc__ or "").splitlines()[0]
    inner = re.sub(r"\[[^]]*\]", "", signature[signature.index("(") + 1 : signature.rindex(")")])
    count = len([each for each in inner.split(",") if each.strip()])
    code = getattr(FakeCuda, f"_{name}").__code__
    assert code.co_argcount - 1 == count, signature


# --- what is missing


def test_missing_bindings_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(DeviceError, match=r"needs the package cuda-bindings .*pip install '\.\["):
        open_device("cuda")
    assert "cuda-bindings" in (backend("cuda").why_not() or "")
    assert "cuda" not in {row.kind for row in discovery.devices()}


def test_missing_driver_is_reported() -> None:
    class Nothing:
        CUresult = real.CUresult

        @staticmethod
        def cuInit(flags: int) -> Any:
            raise RuntimeError("Failed to dlopen libcuda.so.1")

    with pytest.raises(DeviceError, match="there is no NVIDIA driver on this machine; install one"):
        open_driver(Nothing)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("CUDA_ERROR_NO_DEVICE", "the NVIDIA driver sees no GPU"),
        ("CUDA_ERROR_STUB_LIBRARY", "is a stub of the toolkit"),
        ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "differ in version; restart"),
        ("CUDA_ERROR_SYSTEM_NOT_READY", "cannot start: CUDA: CUDA_ERROR_SYSTEM_NOT_READY"),
    ],
)
def test_a_driver_that_does_not_start(code: str, message: str) -> None:
    driver = FakeCuda()
    driver.fail("cuInit", code)
    with pytest.raises(DeviceError, match=message):
        CudaDevice(bindings=driver)


def test_unknown_gpu_index_is_reported() -> None:
    with pytest.raises(DeviceError, match="there is no GPU cuda:2; there are cuda:0 to cuda:1"):
        CudaDevice(2, bindings=FakeCuda(gpus=2))
    assert CudaDevice(1, bindings=FakeCuda(gpus=2)).name == "cuda:1"


def test_gpus_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeCuda(gpus=2)
    monkeypatch.setattr(cuda_driver, "_bindings", lambda: driver)
    rows = [row for row in discovery.devices() if row.kind == "cuda"]
    assert [row.name for row in rows] == ["cuda:0", "cuda:1"]
    assert rows[1].description == "Model 1, sm_90a, 4 multiprocessors, CUDA 13.0"
    assert (rows[0].features, rows[0].threads) == (("sm_90a",), 1024)
    assert rows[0].memory_bytes == 1 << 30
    assert backend("cuda").why_not() is None
    device = open_device("cuda:1", memory_budget=1 << 20)
    assert (device.name, device.memory_budget) == ("cuda:1", 1 << 20)
    with pytest.raises(
        DeviceError, match="threads and strategy apply to the device cpu only, not to cuda"
    ):
        open_device("cuda", threads=3)


def test_a_gpu_that_is_too_old() -> None:
    with pytest.raises(KernelError, match=r"compute capability 6\.1 is too old"):
        CudaDevice(bindings=FakeCuda(capability=(6, 1)))


def test_newer_gpu_uses_the_newest_known_architecture() -> None:
    assert CudaDevice(bindings=FakeCuda(capability=(13, 7))).properties.arch == "sm_121"


# --- what is too old


def test_a_driver_that_is_too_old() -> None:
    with pytest.raises(DeviceError, match=r"is for CUDA 11\.8, and Quod needs 12\.0; update"):
        CudaDevice(bindings=FakeCuda(version=11080))


def test_a_driver_without_a_function() -> None:
    class Older(FakeCuda):
        def __getattr__(self, name: str) -> Any:
            if name == "cuGraphInstantiate":

                def missing(*arguments: Any) -> Any:
                    raise RuntimeError("function cuGraphInstantiateWithFlags is not found")

                return missing
            return super().__getattr__(name)

    device = CudaDevice(bindings=Older())
    recording = device.stream().record()
    recording.fill(device.allocate(16))
    with pytest.raises(DeviceError, match=r"has no cuGraphInstantiate .* update the driver"):
        recording.finish().submit()


def test_a_driver_older_than_the_ptx(tmp_path: Path) -> None:
    driver = FakeCuda(version=12040)
    device = gpu_of(driver, tmp_path)
    driver.fail("cuLinkAddData", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
    with pytest.raises(DeviceError) as caught:
        device.compile(kernels.increment).load()
    message = r"kernel increment \(.*kernels\.py:\d+\) needs PTX \d\.\d, which the NVIDIA driver "
    assert re.match(
        message + r"\(CUDA 12\.4\) does not support; update the driver", str(caught.value)
    )


def test_a_driver_without_an_assembler(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    driver.fail("cuLinkAddData", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND")
    with pytest.raises(DeviceError, match="has no PTX compiler"):
        device.compile(kernels.increment).load()


# --- compiling


def test_rejected_kernel_names_the_line_and_keeps_the_ptx(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    driver.fail("cuLinkComplete", "CUDA_ERROR_INVALID_PTX")
    driver.fail("cuLinkAddData", "CUDA_ERROR_INVALID_PTX")
    with pytest.raises(KernelError) as caught:
        device.compile(kernels.increment).load()
    message = str(caught.value)
    assert message.startswith("kernel increment (")
    assert "the assembler rejects the PTX" in message
    place = re.search(r"the PTX is in (\S+)$", message)
    assert place is not None
    assert ".entry" in Path(place.group(1)).read_text()
    # The first refusal is used up; the second comes when the code is complete.
    with pytest.raises(KernelError, match="the assembler rejects the PTX"):
        device.compile(kernels.increment).load()
    assert launch_all(device) == [1] * COUNT


def test_the_log_names_the_python_line(tmp_path: Path) -> None:
    driver = FakeCuda()

    def refusing(self: Any, state: Any, kind: Any, data: bytes, *arguments: Any) -> None:
        lines = data.decode().splitlines()
        number = next(i for i, line in enumerate(lines, 1) if "st.global" in line)
        said = f"ptxas application ptx input, line {number}; error   : Bad things\n"
        self._of(state).log[: len(said)] = said.encode()
        driver.fail("cuLinkComplete", "CUDA_ERROR_INVALID_PTX")

    device = gpu_of(driver, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeCuda, "_cuLinkAddData", refusing)
        with pytest.raises(KernelError) as caught:
            device.compile(kernels.increment).load()
    line = kernels.increment.location.line + 5
    assert re.search(rf"line \d+; error   : Bad things \(.*kernels\.py:{line}\)", str(caught.value))


def test_code_is_cached_and_damaged_entries_are_rebuilt(tmp_path: Path) -> None:
    first = FakeCuda()
    assert launch_all(gpu_of(first, tmp_path)) == [1] * COUNT
    assert first.calls["cuLinkCreate"] == 1
    second = FakeCuda()
    assert launch_all(gpu_of(second, tmp_path)) == [1] * COUNT
    assert second.calls["cuLinkCreate"] == 0
    entries = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert entries
    for damage in (lambda data: data[:-3], lambda data: data[:50] + b"\xff" + data[51:]):
        for entry in entries:
            entry.write_bytes(damage(entry.read_bytes()))
        third = FakeCuda()
        assert launch_all(gpu_of(third, tmp_path)) == [1] * COUNT
        assert third.calls["cuLinkCreate"] == 1


def test_code_that_fails_to_load_is_rebuilt(tmp_path: Path) -> None:
    launch_all(gpu_of(FakeCuda(), tmp_path))
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    driver.fail("cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU")
    assert launch_all(device) == [1] * COUNT
    assert driver.calls["cuLinkCreate"] == 1


def test_cache_entries_depend_on_driver_and_architecture(tmp_path: Path) -> None:
    launch_all(gpu_of(FakeCuda(), tmp_path))
    for other in (FakeCuda(version=13010), FakeCuda(capability=(8, 0))):
        launch_all(gpu_of(other, tmp_path))
        assert other.calls["cuLinkCreate"] == 1


def test_kernel_too_large_for_a_multiprocessor(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    device.compile(kernels.increment).load()
    driver.fail("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(DeviceError, match=r"LAUNCH_OUT_OF_RESOURCES .* in kernel increment \(.*py"):
        launch_all(device)
    # That is no failure of the GPU.
    assert launch_all(device) == [1] * COUNT


# --- memory


def test_memory_error_reports_available_memory(tmp_path: Path) -> None:
    driver = FakeCuda(memory=256 << 20, elsewhere=100 << 20)
    device = gpu_of(driver, tmp_path, memory_budget=1 << 30)
    held = device.allocate(100 << 20, zero=False)
    with pytest.raises(DeviceError) as caught:
        device.allocate(80 << 20)
    assert str(caught.value) == (
        "no memory for a buffer of 80.0 MiB on cuda:0: 56.0 MiB of 256.0 MiB are free, 100.0 MiB "
        "are reserved by this device (100.0 MiB in use) and 100.0 MiB by the driver and other "
        "processes; free memory or split the work"
    )
    del held
    gc.collect()
    assert device.allocate(80 << 20, zero=False).nbytes == 80 << 20


def test_the_budget_is_kept(tmp_path: Path) -> None:
    device = gpu_of(FakeCuda(), tmp_path, memory_budget=10 << 20)
    assert device.memory_budget == 10 << 20
    held = device.allocate(8 << 20, zero=False)
    with pytest.raises(DeviceError, match=r"8\.0 MiB of the budget of 10\.0 MiB are in use; free"):
        device.allocate(4 << 20)
    device.check_budget("a plan", 10 << 20)
    with pytest.raises(DeviceError, match=r"a plan would take 11\.0 MiB of memory; the budget"):
        device.check_budget("a plan", 11 << 20)
    assert held.nbytes == 8 << 20
    for wrong in (0, -1):
        with pytest.raises(DeviceError, match="memory_budget must be a whole number from 1 on"):
            gpu_of(FakeCuda(), tmp_path, memory_budget=wrong)
    assert gpu_of(FakeCuda(memory=1 << 30, elsewhere=1 << 29), tmp_path).memory_budget == int(
        0.92 * (1 << 29)
    )


def test_page_locking_failure_is_reported(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    kept = device.pinned(1 << 20)
    del kept
    gc.collect()
    driver.fail("cuMemHostAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
    assert device.pinned(3 << 20).nbytes == 3 << 20
    assert driver.calls["cuMemFreeHost"] == 1

    class Full(FakeCuda):
        def _cuMemHostAlloc(self, size: int, flags: int) -> int:
            from tests.device.fake_cuda_memory import Refusal

            raise Refusal("CUDA_ERROR_OUT_OF_MEMORY")

    with pytest.raises(DeviceError, match=r"cannot lock 2\.0 MiB of host memory for the GPU"):
        gpu_of(Full(), tmp_path).pinned(2 << 20)


# --- opening and losing


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("CUDA_ERROR_OUT_OF_MEMORY", "other processes hold its memory; end one, or wait"),
        ("CUDA_ERROR_DEVICE_UNAVAILABLE", "another process uses it exclusively"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "cannot be opened in this process any more; start a new"),
        ("CUDA_ERROR_INVALID_DEVICE", "cannot be opened: CUDA: CUDA_ERROR_INVALID_DEVICE"),
    ],
)
def test_a_gpu_that_does_not_open(code: str, message: str) -> None:
    driver = FakeCuda()
    driver.fail("cuDevicePrimaryCtxRetain", code)
    with pytest.raises(DeviceError, match=message):
        CudaDevice(bindings=driver)


@pytest.mark.parametrize(
    "call",
    [
        "cuStreamQuery",
        "cuLaunchKernel",
        "cuMemcpyHtoDAsync",
        "cuMemAlloc",
        "cuStreamCreateWithPriority",
    ],
)
def test_a_gpu_that_is_lost_at_any_call(call: str, tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    device.compile(kernels.increment).load()
    driver.fail(call, "CUDA_ERROR_LAUNCH_FAILED")
    with pytest.raises(DeviceError, match="CUDA_ERROR_LAUNCH_FAILED"):
        launch_all(device)
    for later in (lambda: launch_all(device), lambda: device.allocate(1), device.memory_statistics):
        with pytest.raises(DeviceError, match="has stopped; close the device and open it"):
            later()
    device.close()
    assert launch_all(gpu_of(driver, tmp_path)) == [1] * COUNT


@pytest.mark.parametrize("call", ["cuGraphLaunch", "cuStreamQuery", "cuGraphAddKernelNode"])
def test_a_gpu_that_is_lost_in_recorded_work(call: str, tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    buffer = device.allocate(4 * COUNT)
    recording = device.stream("work").record()
    recording.launch(device.compile(kernels.increment), 1, COUNT, buffer)
    event = recording.event("done")
    recorded = recording.finish()
    driver.fail(call, "CUDA_ERROR_ECC_UNCORRECTABLE")
    with pytest.raises(DeviceError, match=r"ECC.*in the work of work, kernels increment \(.*py:"):
        recorded.submit().wait()
    # An event that will not be passed does not keep anyone waiting.
    with contextlib.suppress(DeviceError):
        assert not event.wait(1)
    with pytest.raises(DeviceError, match="has stopped"):
        launch_all(device)


def test_a_named_device_that_failed_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeCuda()
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_driver, "_bindings", lambda: driver)
    monkeypatch.setattr(discovery, "_opened_devices", {})
    first: Any = discovery.resolve_device("cuda")
    assert discovery.resolve_device("cuda") is first
    driver.fail("cuMemAlloc", "CUDA_ERROR_ILLEGAL_INSTRUCTION")
    with pytest.raises(DeviceError, match="ILLEGAL_INSTRUCTION"):
        first.allocate(1)
    again: Any = discovery.resolve_device("cuda")
    assert again is not first
    assert launch_all(again) == [1] * COUNT
    assert discovery.resolve_device(again) is again


def test_a_closed_device(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    buffer, increment = device.allocate(4 * COUNT), device.compile(kernels.increment)
    recording = device.stream().record()
    recording.launch(increment, 1, COUNT, buffer)
    recorded = recording.finish()
    device.stream().replay(recorded.recording).submit().wait()
    device.close()
    device.close()
    assert driver.contexts == 0
    assert driver.used == 0
    remaining = {type(each).__name__ for each in driver._objects.values()}
    # Nodes go with their graph, and functions with their module.
    assert remaining <= {"FakeNode", "FakeFunction"}
    for late in (
        recorded.submit,
        lambda: device.launch(increment, 1, COUNT, buffer),
        lambda: device.download(buffer, np.zeros(COUNT, np.uint32)),
        lambda: device.stream().record().fill(buffer),
    ):
        with pytest.raises(DeviceError, match="the device was closed; open it again"):
            late()


def test_device_closed_while_working(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    recording = device.stream().record()
    recording.fill(device.allocate(4 << 20, zero=False))
    submitted = recording.finish().submit()
    device.close()
    assert driver.used == driver.contexts == 0
    assert "FakeStream" not in {type(each).__name__ for each in driver._objects.values()}
    with pytest.raises(DeviceError, match="the device was closed; open it again"):
        submitted.wait()


def test_last_handle_may_be_freed_by_another_thread(tmp_path: Path) -> None:
    class Taken(deque[tuple[str, Any]]):
        """A handle that another thread takes as soon as it has been seen."""

        def __bool__(self) -> bool:
            return True

    device = gpu_of(FakeCuda(), tmp_path)
    device._discarded = Taken()
    assert launch_all(device) == [1] * COUNT


def test_page_locked_arrays_outlive_the_device(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    pinned = device.pinned(1000)
    pinned[:] = 7
    device.close()
    # The context owns the array's memory.
    assert driver.contexts == 1
    assert set(pinned.tolist()) == {7}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_use_in_a_forked_process_is_reported(tmp_path: Path) -> None:
    device = gpu_of(FakeCuda(), tmp_path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            device.allocate(1)
            said = "nothing"
        except DeviceError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    said = os.read(read, 10000).decode()
    os.waitpid(child, 0)
    os.close(read)
    assert "which CUDA does not support" in said


# --- interrupts


def test_an_interrupted_launch_keeps_its_memory_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    increment, buffer = device.compile(kernels.increment), device.allocate(4 << 20)
    in_use = device.memory_statistics().in_use
    original, interrupted = FakeCuda._cuStreamQuery, []

    def hangs(self: Any, stream: Any) -> None:
        from tests.device.fake_cuda_memory import Refusal

        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        raise Refusal("CUDA_ERROR_NOT_READY")

    monkeypatch.setattr("quod.device.cuda.device.GRACE_SECONDS", 0.05)
    monkeypatch.setattr(FakeCuda, "_cuStreamQuery", hangs)
    with pytest.raises(KeyboardInterrupt):
        device.launch(increment, 1, COUNT, buffer)
    del buffer
    gc.collect()
    assert device.memory_statistics().in_use == in_use
    monkeypatch.setattr(FakeCuda, "_cuStreamQuery", original)
    for _ in range(10):
        device.memory_statistics()
    gc.collect()
    assert device.memory_statistics().in_use < in_use
    assert launch_all(device) == [1] * COUNT


def test_unsubmitted_work_is_not_done(tmp_path: Path) -> None:
    device = gpu_of(FakeCuda(), tmp_path)
    kept = device.allocate(4 << 20)
    work = device.begin(kept)
    in_use = device.memory_statistics().in_use
    del kept
    gc.collect()
    # Another thread that looks for what is done finds an empty stream.
    assert device.memory_statistics().in_use == in_use
    assert not work.is_ready()
    work.mark_enqueued()
    assert device.memory_statistics().in_use < in_use
    assert work.is_ready()


def test_a_context_is_current_in_every_thread(tmp_path: Path) -> None:
    device = gpu_of(FakeCuda(), tmp_path)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(launch_all(device)))
    thread.start()
    thread.join()
    assert results == [[1] * COUNT]
