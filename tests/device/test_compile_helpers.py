"""Kernels compiled by helper processes: equal code, and failures that users never see."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.curve.weierstrass.point_kernels import curve_negate
from quod.device import CpuDevice
from quod.device.cache.cache import CompileCache
from quod.device.cache.compilations import Compilations, compilations
from quod.device.cpu import compile_pool
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.messages import receive
from quod.field import kernels as field_kernels
from quod.field.moduli import BN254_FR
from quod.kernel.definition import KernelDefinition
from quod.kernel.errors import TraceError
from tests.device import kernels

SPEC = BN254_FR
NAMES = ("field_add", "field_subtract", "field_multiply", "field_square", "field_sum")


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[compile_pool._CompilerPool]:
    """No helpers yet, and none afterwards."""
    compiler_pool = compile_pool._CompilerPool()
    monkeypatch.setattr(compile_pool, "_process_pool", compiler_pool)
    yield compiler_pool
    compiler_pool.close()


@pytest.fixture
def traced_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that this process traces."""
    names: list[str] = []
    trace = KernelDefinition.trace

    def noting(self: KernelDefinition, *arguments: Any, **static: Any) -> Any:
        names.append(self.name)
        return trace(self, *arguments, **static)

    monkeypatch.setattr(KernelDefinition, "trace", noting)
    return names


def busy(places: compile_pool._CompilerPool, action: Callable[[], Any], most: int = 2) -> Any:
    """Return the result of an action while this process compiles something else."""
    with places.acquire(most) as helper:
        assert helper is None
        return action()


def compile_one(folder: Path) -> Any:
    device = CpuDevice(cache=None if folder is None else CompileCache(folder), threads=2)
    return device, device.compile(field_kernels.field_multiply, spec=SPEC)


def multiply_works(device: CpuDevice, kernel: Any) -> bool:
    words = np.frombuffer(BN254_FR.to_montgomery(3).to_bytes(32, "little"), np.uint32)
    out = np.zeros(8, np.uint32)
    device.launch(kernel, 1, 1, words, words, out)
    return BN254_FR.from_montgomery(int.from_bytes(out.tobytes(), "little")) == 9


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_helper_process_compiles_identical_code(
    tmp_path: Path, places: compile_pool._CompilerPool, traced_here: list[str]
) -> None:
    def compile_both(folder: Path) -> None:
        device, kernel = compile_one(folder)
        assert multiply_works(device, kernel)
        device.compile(curve_negate, group=GROUPS["bn254.g2"])

    compile_both(tmp_path / "here")
    assert traced_here == ["field_multiply", "curve_negate"]
    busy(places, lambda: compile_both(tmp_path / "there"))
    assert len(traced_here) == 2
    assert len(places._helpers) == 1
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_sites_may_print_at_the_start_of_python(
    tmp_path: Path, places: compile_pool._CompilerPool, traced_here: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The text is no reply of the helper."""
    (tmp_path / "sitecustomize.py").write_text('print("Welcome to this machine", flush=True)')
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    device, kernel = busy(places, lambda: compile_one(tmp_path))
    assert multiply_works(device, kernel)
    assert traced_here == []


PICKLES = (b"", b"cnowhere\nname\n.", b"I1x\n.", b"t.")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\1", struct.pack("<Q", 9) + b"short", b"Welcome to this machine",
        *(struct.pack("<Q", len(text)) + text for text in PICKLES),
    ],
)  # fmt: skip
def test_rubbish_is_no_message(data: bytes) -> None:
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        receive(io.BytesIO(data))


def test_a_helper_with_other_sources_compiles_nothing(
    tmp_path: Path, places: compile_pool._CompilerPool, traced_here: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The helper loads modules from disk, which may have changed since this process started."""
    monkeypatch.setattr(compile_pool, "sources", SimpleNamespace(digest=lambda: "other"))
    device, kernel = busy(places, lambda: compile_one(tmp_path))
    assert multiply_works(device, kernel)
    assert traced_here == ["field_multiply"]
    assert not places._helpers


def test_helper_does_not_recompile_cached_kernels(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_one(tmp_path)
    kept = contents(tmp_path)
    for name, data in kept.items():
        if len(data) < 1000:  # where the code of the kernel is
            (tmp_path / name[0] / name).unlink()
    got: list[Any] = []

    def noting(stream: Any) -> Any:
        got.append(receive(stream))
        return got[-1]

    monkeypatch.setattr(compile_pool, "receive", noting)
    busy(places, lambda: compile_one(tmp_path))
    assert len(got) == 1  # the key, and no code
    assert contents(tmp_path) == kept


def test_threads_compile_concurrently(
    tmp_path: Path, places: compile_pool._CompilerPool, traced_here: list[str]
) -> None:
    device = CpuDevice(cache=CompileCache(tmp_path), threads=2)
    with ThreadPoolExecutor(4) as pool:
        compiling = [
            pool.submit(device.compile, getattr(field_kernels, name), spec=SPEC) for name in NAMES
        ]
        assert [each.result().name for each in compiling] == list(NAMES)
    assert 0 < len(traced_here) < len(NAMES)
    assert len(places._helpers) == 1


@pytest.mark.parametrize(
    "why", ["one thread", "not of the package", "alone", "no interpreter", "limited"]
)
def test_no_helper_is_started_if_unusable(
    tmp_path: Path, places: compile_pool._CompilerPool, traced_here: list[str], why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if why == "no interpreter":
        monkeypatch.setattr(sys, "executable", "/usr/bin/blender")
    if why == "limited":
        monkeypatch.setattr(compile_pool, "memory_limit", lambda: 1 << 30)
    device = CpuDevice(cache=CompileCache(tmp_path), threads=1 if why == "one thread" else 2)
    definition, static = field_kernels.field_add, {"spec": SPEC}
    if why == "not of the package":
        definition, static = kernels.scale, {}
    if why == "alone":
        device.compile(definition, **static)
    else:
        busy(places, lambda: device.compile(definition, **static))
    assert traced_here == [definition.name]
    assert places._helpers == []


def test_dead_helper_falls_back_to_in_process_compilation(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = compile_pool._Helper.ask

    def killed(self: Any, *arguments: Any) -> Any:
        self._process.kill()
        return ask(self, *arguments)

    monkeypatch.setattr(compile_pool._Helper, "ask", killed)
    assert multiply_works(*busy(places, lambda: compile_one(tmp_path)))
    assert places._helpers == places._idle == []


def test_kernels_compile_in_turn_if_no_helper_starts(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with ThreadPoolExecutor(1) as pool:
        with places.acquire(2):
            waiting = pool.submit(compile_one, tmp_path)
            time.sleep(0.1)
            assert not waiting.done()
        assert multiply_works(*waiting.result(300))


def test_failing_helper_falls_back_to_in_process_compilation(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper runs out of memory and reports it."""
    received = []

    def nothing_after_the_key(stream: Any) -> Any:
        received.append(receive(stream))
        return received[0] if len(received) == 1 else None

    receive = vars(compile_pool)["receive"]
    monkeypatch.setattr(compile_pool, "receive", nothing_after_the_key)
    assert multiply_works(*busy(places, lambda: compile_one(tmp_path)))
    assert len(received) == 2
    assert places._helpers == []


def test_helpers_first(
    tmp_path: Path, places: compile_pool._CompilerPool, traced_here: list[str]
) -> None:
    """For a device with one thread, too; without a helper, the kernel is compiled here."""

    def compile_alone(name: str) -> Any:
        folder = tmp_path / name
        device = CpuDevice(cache=CompileCache(folder), threads=1)
        return device, device.compile(field_kernels.field_multiply, spec=SPEC)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_compiler, "usable_threads", lambda: 2)
        with compilations.helpers_first():
            assert multiply_works(*compile_alone("a"))
        assert traced_here == []
        assert len(places._helpers) == 1
        patch.setattr(cpu_compiler, "usable_threads", lambda: 1)
        with compilations.helpers_first():
            assert multiply_works(*compile_alone("b"))
    assert multiply_works(*compile_alone("c"))
    assert traced_here == ["field_multiply"] * 2


def test_waiting_compilation_uses_a_freed_helper(
    tmp_path: Path, places: compile_pool._CompilerPool
) -> None:
    with ThreadPoolExecutor(1) as pool, places.acquire(2):
        with places.acquire(2) as helper:
            assert helper is not None
            waiting = pool.submit(compile_one, tmp_path)
            time.sleep(0.1)
            assert not waiting.done()
        assert multiply_works(*waiting.result(300))


def test_helper_is_ended_if_its_thread_cannot_start(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, start = [], threading.Thread.start
    popen = subprocess.Popen

    def noted(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        return started[-1]

    def none(thread: threading.Thread) -> None:
        if thread.name == "quod-helper":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(OSError, match="can't start"):
        compile_pool._Helper()
    assert started[0].returncode is not None
    assert places._helpers == []


def test_an_interrupt_ends_the_helper(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its answer would be taken for that of the next kernel."""

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compile_pool, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            busy(places, lambda: compile_one(tmp_path))
    assert places._helpers == []
    assert multiply_works(*busy(places, lambda: compile_one(tmp_path)))


def test_helpers_end_with_their_parent(tmp_path: Path) -> None:
    """In the midst of a kernel, however the parent ends; nobody waits for what they hold open."""
    source = (
        "import os, threading, time\n"
        "from quod.curve.pairing.products import pairing_final\n"
        "from quod.device import open_device\n"
        "from quod.device.cpu import compile_pool\n"
        "device = open_device(threads=2)\n"
        "with compile_pool._compiler_pool().acquire(2):\n"
        "    threading.Thread(target=device.compile, args=[pairing_final],\n"
        "                     kwargs=dict(lanes=1, curve='bls12_381')).start()\n"
        "    while not compile_pool._compiler_pool()._helpers:\n"
        "        time.sleep(0.01)\n"
        "    print(compile_pool._compiler_pool()._helpers[0]._process.pid, flush=True)\n"
        "    time.sleep(1)\n"
        "    os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], env={**os.environ, "QUOD_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert done.stderr == ""
    for _ in range(1200):
        if not is_running(int(done.stdout)):
            return
        time.sleep(0.05)
    pytest.fail("the helper outlives its parent")


def is_running(process: int) -> bool:
    """Return whether there is such a process that has not ended, waited for or not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_compile_errors_reach_the_caller(
    tmp_path: Path, places: compile_pool._CompilerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed helper reports no reason; the process compiles again to find it."""
    said: list[Any] = []

    def noting(stream: Any) -> Any:
        said.append(receive(stream))
        return said[-1]

    monkeypatch.setattr(compile_pool, "receive", noting)
    device = CpuDevice(cache=CompileCache(tmp_path), threads=2)
    with pytest.raises(TraceError, match="Extension, not str"):
        busy(places, lambda: device.compile(field_kernels.field_add, spec="nothing"))
    assert said == [None]


# --- how many there are


def test_compilations_are_counted() -> None:
    counted, seen = Compilations(), []
    with counted.running():
        pass
    with counted.watched(lambda done, asked: seen.append((done, asked))):
        with counted.running(), counted.running():
            pass
        with pytest.raises(ValueError), counted.running():
            raise ValueError
    with counted.running():
        pass
    assert seen == [(0, 1), (0, 2), (1, 2), (2, 2), (2, 3), (3, 3)]


def test_cached_kernels_are_not_counted_as_compilations(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with compilations.watched(lambda done, asked: seen.append((done, asked))):
        compile_one(tmp_path)
        assert seen == [(0, 1), (1, 1)]
        compile_one(tmp_path)
    assert len(seen) == 2
    device = CpuDevice(cache=CompileCache(tmp_path))
    assert device.has(field_kernels.field_multiply, spec=SPEC)
    assert not device.has(field_kernels.field_add, spec=SPEC)
    assert not device.has(kernels.scale)
