"""Commands that end after a proof or its verification compile kernels quickly."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quod.cli import entry, one_shot
from quod.device.cpu import recompile
from quod.device.cpu.processor import host_processor
from quod.errors import DeviceError
from tests.groth16.conftest import Made

Make = Callable[..., Made]

EXPORT = ["zkey", "export", "verificationkey", "circuit.zkey", "vkey.json"]
PROVE = ["groth16", "prove", "circuit.zkey", "witness.wtns", "proof.json", "public.json", "-q"]
VERIFY = ["groth16", "verify", "vkey.json", "public.json", "proof.json", "-q"]
INSECURE = "--insecure-test-key"


@pytest.fixture
def folder(circuit_files: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a key, its verifying key, and a witness."""
    files = circuit_files("bn254", 6)
    for path in (files.wtns, files.zkey):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert entry.run([*EXPORT, INSECURE, "-q"]) == 0
    return tmp_path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The starts and ends of quick compilation, which the environment allows."""
    monkeypatch.delenv("QUOD_BACKGROUND", raising=False)
    seen: list[str] = []

    @contextmanager
    def noting() -> Iterator[None]:
        seen.append("begin")
        try:
            yield
        finally:
            seen.append("end")

    monkeypatch.setattr(recompile, "quick_code_first", noting)
    return seen


@pytest.mark.usefixtures("folder")
def test_only_processes_of_one_command_compile_quickly(
    quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resident helpers and programs that call commands do not."""
    monkeypatch.setattr(one_shot, "_is_one_shot", False)
    assert entry.run(PROVE) == entry.run([*VERIFY, INSECURE]) == 0
    assert quick == []
    one_shot.declare_one_shot()
    assert entry.run(PROVE) == entry.run([*VERIFY, INSECURE]) == 0
    assert quick == ["begin", "end"] * 2


def test_kernels_for_large_keys_are_optimised(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Their proofs would take longer by more than the compilation is shorter."""
    monkeypatch.setattr(one_shot, "_is_one_shot", True)
    key = tmp_path / "key"
    for size, steps in ((1 << 20, 2), (1 << 27, 0)):
        with key.open("wb") as file:
            file.truncate(size)
        quick.clear()
        with one_shot.quick_kernels(key):
            pass
        assert len(quick) == steps
    with one_shot.quick_kernels(tmp_path / "absent"), one_shot.quick_kernels(Path("\0")):
        pass
    assert quick == []


def test_the_environment_decides(quick: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_shot, "_is_one_shot", True)
    key = Path(__file__)
    for value, steps in (("1", 2), ("0", 0), (" ", 2)):
        monkeypatch.setenv("QUOD_BACKGROUND", value)
        quick.clear()
        with one_shot.quick_kernels(key):
            pass
        assert len(quick) == steps
    monkeypatch.setenv("QUOD_BACKGROUND", "no")
    with pytest.raises(DeviceError, match="QUOD_BACKGROUND"), one_shot.quick_kernels(key):
        pass


def run_first(words: list[str], cache: Path) -> int:
    """Run a command that may use the background; return the number of entries in its cache."""
    environment = dict(os.environ, QUOD_CACHE_DIR=str(cache), QUOD_BACKGROUND="1")
    done = subprocess.run(
        [sys.executable, "-m", "quod", *words], env=environment, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    # Keys of tests are insecure, which is a warning.
    assert all(line.startswith("quod: warning:") for line in done.stderr.splitlines())
    return entries(cache)


def entries(cache: Path) -> int:
    return sum(path.is_file() for path in cache.glob("?/*"))


def test_a_first_proof(folder: Path) -> None:
    run_first(PROVE, folder / "cache")
    # On a CPU with quick code, a background process optimises it. It ends.
    lock = folder / "cache" / "recompile.lock"
    assert lock.exists() == host_processor().has_quick_code
    lock.unlink(missing_ok=True)
    assert entry.run([*VERIFY, INSECURE]) == 0


@pytest.mark.thorough
def test_a_first_verification(folder: Path) -> None:
    """A later command finds the optimised code, and starts no background process."""
    if not host_processor().has_quick_code:
        pytest.skip("this CPU has no quick code")
    cache = folder / "cache"
    assert entry.run(PROVE) == 0
    quick_entries = run_first([*VERIFY, INSECURE], cache)
    with (cache / "recompile.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    # Each kernel has two entries more.
    assert quick_entries < entries(cache) <= 2 * quick_entries
    (cache / "recompile.lock").unlink()
    assert run_first([*VERIFY, INSECURE], cache) == entries(cache)
    assert not (cache / "recompile.lock").exists()
