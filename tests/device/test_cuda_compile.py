"""GPU kernels are assembled concurrently with the caller, on a simulated driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import host
from quod.device.cache.cache import CompileCache
from quod.device.cache.compilations import compilations
from quod.device.cpu import compile_pool
from quod.device.cuda import compiler as cuda_compiler
from quod.device.cuda.device import CudaDevice
from quod.errors import DeviceError, KernelError
from quod.field.kernels import field_multiply
from quod.field.moduli import BN254_FR
from quod.kernel.definition import KernelDefinition
from tests.device import kernels

pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")

from tests.device.fake_cuda import FakeCuda

COUNT = 100


class SlowAssembler(FakeCuda):
    """Its assembler says that it was `begun`, and goes on when it may `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        function = super().__getattr__(name)
        if name != "cuLinkComplete":
            return function

        def slow(*arguments: Any) -> Any:
            self.begun.release()
            assert self.go.wait(60)
            return function(*arguments)

        return slow


def gpu_of(driver: FakeCuda, folder: Path) -> CudaDevice:
    return CudaDevice(bindings=driver, cache=CompileCache(folder))


def test_compile_does_not_wait_for_the_assembler(tmp_path: Path) -> None:
    driver = SlowAssembler()
    device = gpu_of(driver, tmp_path)
    increment = device.compile(kernels.increment)
    assert driver.begun.acquire(timeout=60)
    # What a recording needs is known.
    assert (increment.lanes, increment.stored) == (device.lanes, frozenset({1}))
    assert device.compile(kernels.increment) is increment
    buffer = device.upload(np.zeros(COUNT, np.uint32))
    recording = device.stream().record()
    recording.launch(increment, 1, COUNT, buffer)
    recorded = recording.finish()
    assert driver.calls["cuModuleLoadData"] == 0
    threading.Timer(0.1, driver.go.set).start()
    recorded.submit().wait()
    values = np.zeros(COUNT, np.uint32)
    device.download(buffer, values)
    assert values.tolist() == [1] * COUNT
    assert driver.calls["cuModuleLoadData"] == 1
    assert increment.registers == 24


def test_kernels_are_assembled_concurrently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "usable_threads", lambda: 3)
    driver = SlowAssembler()
    device = gpu_of(driver, tmp_path)
    compiled = [device.compile(kernels.raise_to, amount=amount) for amount in range(5)]
    for _ in range(3):
        assert driver.begun.acquire(timeout=60)
    assert not driver.begun.acquire(timeout=0.05)
    driver.go.set()
    out = np.zeros(1, np.uint32)
    for kernel in compiled:
        device.launch(kernel, 1, 1, out)
    assert out.tolist() == [10]


@pytest.mark.parametrize("synchronous", [False, True])
def test_assembler_error_is_raised_at_first_use(tmp_path: Path, synchronous: bool) -> None:
    driver = FakeCuda()
    device = CudaDevice(bindings=driver, cache=CompileCache(tmp_path), synchronous=synchronous)
    buffer = device.upload(np.zeros(COUNT, np.uint32))
    driver.fail("cuLinkComplete", "CUDA_ERROR_INVALID_PTX")
    refused = device.compile(kernels.increment)
    recording = device.stream().record()
    recording.launch(refused, 1, COUNT, buffer)
    with pytest.raises(KernelError, match=r"kernel increment \(.*the assembler rejects the PTX"):
        recording.finish().submit()
    # All that was recorded with it fails, and a new attempt is one.
    with pytest.raises(KernelError, match="the assembler rejects the PTX"):
        device.launch(refused, 1, COUNT, buffer)
    another = device.compile(kernels.increment)
    assert another is not refused
    device.launch(another, 1, COUNT, buffer)
    values = np.zeros(COUNT, np.uint32)
    device.download(buffer, values)
    assert values.tolist() == [1] * COUNT


def test_out_of_memory_for_code_is_not_an_assembler_error(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    increment = device.compile(kernels.increment)
    driver.fail("cuModuleLoadData", "CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(DeviceError, match=r"OUT_OF_MEMORY.* in loading increment \("):
        increment.load()
    assert increment.load().registers == 24
    assert driver.calls["cuLinkCreate"] == 1


def test_cached_kernels_are_neither_traced_nor_assembled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = BN254_FR
    first = gpu_of(FakeCuda(), tmp_path)
    registers = first.compile(field_multiply, spec=spec).registers
    first.close()

    def never(*arguments: Any) -> Any:
        raise AssertionError("traced")

    monkeypatch.setattr(cuda_compiler, "emit", never)
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    before = {*threading.enumerate()}
    kernel = device.compile(field_multiply, spec=spec)
    assert {*threading.enumerate()} <= before
    assert kernel.registers == registers
    assert driver.calls["cuLinkCreate"] == 0


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[compile_pool._CompilerPool]:
    helpers = compile_pool._CompilerPool()
    monkeypatch.setattr(compile_pool, "_process_pool", helpers)
    monkeypatch.setattr(compile_pool, "usable_threads", lambda: 2)
    yield helpers
    helpers.close()


@pytest.mark.parametrize("ends", [False, True], ids=["alive", "ended"])
def test_texts_from_helpers(
    tmp_path: Path, pool: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A helper traces the kernel; if it fails, this process does; the text is the same."""
    traced: list[str] = []
    emit = cuda_compiler.emit

    def noting(definition: KernelDefinition, *arguments: Any) -> Any:
        traced.append(definition.name)
        return emit(definition, *arguments)

    expected = gpu_of(FakeCuda(), tmp_path / "a").compile(field_multiply, spec=BN254_FR)
    monkeypatch.setattr(cuda_compiler, "emit", noting)
    if ends:
        monkeypatch.setattr(compile_pool, "_START", "raise SystemExit")
    device = gpu_of(FakeCuda(), tmp_path / "b")
    with compilations.texts_from_helpers():
        kernel = device.compile(field_multiply, spec=BN254_FR)
        assert traced == (["field_multiply"] if ends else [])
        assert len(pool._helpers) == (0 if ends else 1)
    assert (kernel.digest, kernel.stored) == (expected.digest, expected.stored)
    # A kernel that is in no module, and one outside of the context.
    with compilations.texts_from_helpers():
        device.compile(kernels.raise_to, amount=2)
    device.compile(kernels.increment)
    assert traced[-1] == "increment"
    words = np.frombuffer(BN254_FR.to_montgomery(3).to_bytes(32, "little"), np.uint32)
    out = np.zeros(8, np.uint32)
    device.launch(kernel, 1, 1, words, words, out)
    assert BN254_FR.from_montgomery(int.from_bytes(out.tobytes(), "little")) == 9


def test_the_line_of_a_text_from_a_helper(tmp_path: Path, pool: compile_pool._CompilerPool) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    driver.fail("cuLinkComplete", "CUDA_ERROR_INVALID_PTX")
    with compilations.texts_from_helpers():
        kernel = device.compile(field_multiply, spec=BN254_FR)
    words = np.zeros(8, np.uint32)
    with pytest.raises(KernelError, match=r"kernel field_multiply \(.*the assembler rejects"):
        device.launch(kernel, 1, 1, words, words, words)


def test_closing_drops_pending_assembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "usable_threads", lambda: 1)
    driver = SlowAssembler()
    device = gpu_of(driver, tmp_path)
    compiled = [device.compile(kernels.raise_to, amount=amount) for amount in range(3)]
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            compiled[2].load()
        except DeviceError as error:
            waiting.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert driver.begun.acquire(timeout=60)
    threading.Timer(0.1, driver.go.set).start()
    device.close()
    waiter.join(60)
    assert driver.calls["cuLinkCreate"] == 1
    assert driver.contexts == 0
    (told,) = waiting
    assert "closed" in str(told)
    for kernel in compiled:
        with pytest.raises(DeviceError, match="the device was closed; open it again"):
            kernel.load()


def test_setmaxnreg_kernels_are_loaded_as_ptx(tmp_path: Path) -> None:
    """Linked code would not change its register counts."""
    local = np.arange(128, 384)
    for loads in (1, 0):
        driver = FakeCuda()
        device = gpu_of(driver, tmp_path)
        out = np.zeros(256, np.uint32)
        device.launch(device.compile(kernels.in_roles), 1, out)
        assert np.array_equal(out, local % 128 * 3 + local)
        assert driver.calls["cuLinkCreate"] == 0
        # Once beside the caller, which the next process has in the driver's cache.
        assert driver.calls["cuModuleLoadDataEx"] == loads
        assert driver.calls["cuModuleLoadData"] == 1
        assert driver.calls["cuModuleUnload"] == loads


def test_text_that_the_driver_rejects(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    driver.fail("cuModuleLoadDataEx", "CUDA_ERROR_INVALID_PTX")
    refused = device.compile(kernels.in_roles)
    with pytest.raises(KernelError, match=r"kernel in_roles \(.*the assembler rejects the PTX"):
        refused.load()
