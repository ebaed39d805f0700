"""Quick code of kernels, its cache entries, and the background process that optimises them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.curve.weierstrass.point_kernels import curve_double
from quod.device import CpuDevice
from quod.device.cache import cache as cache_module
from quod.device.cache import sources
from quod.device.cache.cache import CompileCache
from quod.device.cpu import compile_pool, processor, recompile
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.messages import CODE, send
from quod.device.cpu.processor import HostProcessor
from quod.field import kernels as field_kernels
from quod.field.moduli import BN254_FR
from tests.device import kernels

NAMES = ("field_add", "field_multiply", "field_square")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the user, on a CPU that has quick code."""
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(HostProcessor, "has_quick_code", True)
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that this process compiles, with a mark if quickly."""
    names: list[str] = []
    compile_text = cpu_compiler.KernelText.compile

    def noting(self: cpu_compiler.KernelText, *arguments: Any) -> Any:
        names.append(self._kernel.name + (" quick" if self._quick else ""))
        return compile_text(self, *arguments)

    monkeypatch.setattr(cpu_compiler.KernelText, "compile", noting)
    return names


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests of background processes, which are not started."""
    requests: list[bytes] = []
    monkeypatch.setattr(recompile, "_start", requests.append)
    return requests


def compile_all(*, threads: int = 1, names: tuple[str, ...] = NAMES) -> CpuDevice:
    """Compile kernels on a new device, whose cache is the user's."""
    device = CpuDevice(threads=threads)
    for name in names:
        device.compile(getattr(field_kernels, name), spec=BN254_FR)
    return device


def multiply_works(device: CpuDevice) -> bool:
    kernel = device.compile(field_kernels.field_multiply, spec=BN254_FR)
    words = np.frombuffer(BN254_FR.to_montgomery(3).to_bytes(32, "little"), np.uint32)
    out = np.zeros(8, np.uint32)
    device.launch(kernel, 1, 1, words, words, out)
    return BN254_FR.from_montgomery(int.from_bytes(out.tobytes(), "little")) == 9


def quick_requests() -> bytes:
    with cpu_compiler.quick_code() as requests:
        compile_all()
    return b"".join(requests)


def test_quick_code_has_its_own_entries(compiled: list[str]) -> None:
    with cpu_compiler.quick_code() as requests:
        assert multiply_works(compile_all())
    assert compiled == [f"{name} quick" for name in NAMES]
    assert len(requests) == len(NAMES)
    compiled.clear()
    # A process that stays does not see it.
    assert not CpuDevice().has(field_kernels.field_multiply, spec=BN254_FR)
    assert multiply_works(compile_all(names=("field_multiply",)))
    assert compiled == ["field_multiply"]
    compiled.clear()
    # A process that ends uses the best code that the cache has.
    with cpu_compiler.quick_code() as requests:
        assert CpuDevice().has(field_kernels.field_add, spec=BN254_FR)
        assert multiply_works(compile_all())
    assert len(requests) == len(NAMES) - 1
    assert compiled == []


def test_quick_code_is_compiled_without_optimisations(compiled: list[str]) -> None:
    text = CpuDevice().emit(field_kernels.field_multiply, spec=BN254_FR)
    assert llvm_jit.compile_to_object(text, quick=True) != llvm_jit.compile_to_object(text)


def test_helpers_compile_equal_quick_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def entries() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    compiler_pool = compile_pool._CompilerPool()
    monkeypatch.setattr(compile_pool, "_process_pool", compiler_pool)
    with cpu_compiler.quick_code():
        compile_all()
        here = entries()
        shutil.rmtree(folder)
        with compiler_pool.acquire(2):
            compile_all(threads=2)
    assert len(compiler_pool._helpers) == 1
    compiler_pool.close()
    there = entries()
    assert len(here) == 2 * len(NAMES)
    # The helper has stored a description of the processor as well.
    assert {name: there[name] for name in here} == here


@pytest.mark.parametrize("why", ["processor", "no interpreter", "limited"])
def test_code_is_optimised_where_no_process_could_do_so_later(
    why: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "processor":
        monkeypatch.setattr(HostProcessor, "has_quick_code", False)
    if why == "no interpreter":
        monkeypatch.setattr(sys, "executable", "/usr/bin/blender")
    if why == "limited":
        monkeypatch.setattr(compile_pool, "memory_limit", lambda: 1 << 30)
    assert quick_requests() == b""
    assert compiled == list(NAMES)


def test_code_of_other_packages_is_optimised(compiled: list[str]) -> None:
    with cpu_compiler.quick_code() as requests:
        CpuDevice().compile(kernels.scale)
    assert requests == []
    assert compiled == ["scale"]


def test_later_processes_use_the_optimised_code(compiled: list[str]) -> None:
    requests = quick_requests()
    recompile.recompile(io.BytesIO(requests), CompileCache())
    compiled.clear()
    with cpu_compiler.quick_code() as missing:
        assert multiply_works(compile_all())
    assert multiply_works(compile_all())
    assert compiled == missing == []


def test_kernels_that_cannot_be_compiled_are_left_out(compiled: list[str]) -> None:
    stream = io.BytesIO()
    machine = CpuDevice().machine(1)
    digest, module = sources.digest(), "quod.field.kernels"
    send(stream, (digest, CODE, "quod.nothing", "kernel", machine, {}))
    send(stream, (digest, CODE, module, "field_add", machine, {"spec": "nothing"}))
    send(stream, (digest, CODE, module, "field_add", machine, {"spec": BN254_FR}))
    # A kernel of other sources ends the process.
    send(stream, ("another", CODE, module, "field_add", machine, {"spec": BN254_FR}))
    send(stream, (digest, CODE, module, "field_multiply", machine, {"spec": BN254_FR}))
    truncated = stream.getvalue() + b"\x09"
    recompile.recompile(io.BytesIO(truncated), CompileCache())
    assert compiled == ["field_add"]


# --- the start of the background process


def test_a_process_is_started_for_quick_code_alone(started: list[bytes]) -> None:
    with recompile.quick_code_first():
        pass
    assert started == []
    with pytest.raises(ZeroDivisionError), recompile.quick_code_first():
        compile_all()
        raise ZeroDivisionError
    stream = io.BytesIO(started[0])
    for name in NAMES:
        stream.seek(8, os.SEEK_CUR)
        assert pickle.load(stream)[2:4] == ("quod.field.kernels", name)
    with cpu_compiler.quick_code() as outer:
        assert outer == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_no_process_is_started_after_an_interrupt(
    interrupt: type[BaseException], started: list[bytes]
) -> None:
    with pytest.raises(interrupt), recompile.quick_code_first():
        compile_all()
        raise interrupt
    assert started == []


def test_no_process_is_started_without_a_cache(
    started: list[bytes], monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    monkeypatch.setenv("QUOD_CACHE_DIR", "relative")
    # The warning is given once a process.
    monkeypatch.setattr(cache_module, "_warned_folders", set())
    with pytest.warns(cache_module.CacheWarning), recompile.quick_code_first():
        assert multiply_works(compile_all())
    assert started == []
    assert compiled == [f"{name} quick" for name in NAMES]


def test_a_cache_has_one_background_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    requests = quick_requests()
    lock = recompile._take_lock(str(cache_module.default_folder()))
    try:
        with pytest.raises(BlockingIOError):
            recompile._start(requests)
        with recompile.quick_code_first():
            compile_all()
    finally:
        os.close(lock)
    os.close(recompile._take_lock(str(cache_module.default_folder())))


# --- its end


def wait(process: int) -> None:
    for _ in range(2400):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the background process does not end")


def run_command() -> int:
    """Run a process that compiles quickly and ends; return the background process's ID."""
    source = (
        "import os\n"
        "from quod.device.cpu import recompile\n"
        "from quod.device.cpu.processor import HostProcessor\n"
        "from tests.device.test_recompile import compile_all\n"
        "HostProcessor.has_quick_code = True\n"
        "with recompile.quick_code_first():\n"
        "    compile_all()\n"
        "print(recompile._processes[0].pid, flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=300,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stderr == ""
    return int(done.stdout)


def test_the_process_outlives_the_command(compiled: list[str]) -> None:
    """Readers of the command's output do not wait for it, and Ctrl-C does not reach it."""
    process = run_command()
    assert os.getpgid(process) == process
    assert os.readlink(f"/proc/{process}/cwd") == "/"
    assert {os.readlink(f"/proc/{process}/fd/{number}") for number in (1, 2)} == {"/dev/null"}
    with contextlib.suppress(ProcessLookupError):  # it has ended
        while os.getpriority(os.PRIO_PROCESS, process) == os.getpriority(os.PRIO_PROCESS, 0):
            time.sleep(0.01)
    wait(process)
    assert multiply_works(compile_all())
    assert compiled == []


@pytest.mark.thorough
def test_a_later_process_continues_for_a_killed_one(compiled: list[str]) -> None:
    process = run_command()
    os.kill(process, signal.SIGKILL)
    wait(process)
    process = run_command()
    wait(process)
    assert multiply_works(compile_all())
    assert compiled == []


def test_the_process_ends_if_the_cache_is_removed(folder: Path, compiled: list[str]) -> None:
    requests = quick_requests()
    lock = recompile._take_lock(str(folder))
    cache = recompile._LockedCache(lock)
    cache.put("0" * 64, b"content")
    assert cache.get("0" * 64) == b"content"
    shutil.rmtree(folder)
    compiled.clear()
    with pytest.raises(recompile._CacheLostError):
        recompile.recompile(io.BytesIO(requests), cache)
    assert compiled == [NAMES[0]]
    assert not folder.exists()
    # Another command has made it again.
    folder.mkdir(mode=0o700)
    with pytest.raises(recompile._CacheLostError):
        cache.put("0" * 64, b"content")
    os.close(lock)
    assert list(folder.iterdir()) == []


def test_the_process_ends_if_the_disk_is_full(
    folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = quick_requests()
    compiled.clear()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module, "_write_new", full)
    monkeypatch.setattr(cache_module, "_warned_folders", set())
    lock = recompile._take_lock(str(folder))
    with (
        pytest.warns(cache_module.CacheWarning, match="No space"),
        pytest.raises(recompile._CacheLostError),
    ):
        recompile.recompile(io.BytesIO(requests), recompile._LockedCache(lock))
    os.close(lock)
    assert compiled == [NAMES[0]]


def test_main_ends_quietly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = quick_requests()
    lock = recompile._take_lock(str(folder))
    shutil.rmtree(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(requests)))
    # As in a process that has just started, which asks for its processor.
    processor.host_processor.cache_clear()
    recompile.main(lock)
    os.close(lock)
    assert not folder.exists()


# --- results


def test_quick_code_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one lane and in vectors, with calls that pass arguments in registers."""
    generator, group = np.random.default_rng(1), GROUPS["bn254.g2"]
    points = generator.integers(0, 1 << 28, (8, *group.shape), np.uint32)

    def results() -> list[bytes]:
        device, outputs = CpuDevice(), []
        for lanes in (1, device.lanes):
            out = np.zeros((8, 4 * group.field.words), np.uint32)
            kernel = device.compile(curve_double, lanes=lanes, group=group)
            device.launch(kernel, 8 // lanes, 8, points, out)
            outputs.append(out.tobytes())
        return outputs

    optimised = results()
    with cpu_compiler.quick_code() as requests:
        # The cache has the optimised code, which would be used.
        monkeypatch.setattr(cpu_compiler, "look_up", lambda *_: None)
        assert results() == optimised
    assert requests
