"""CPU facts that need no LLVM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quod.device.cache.cache import CompileCache
from quod.device.cpu import processor
from quod.device.cpu.processor import HostProcessor, processor_through

CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model name\t: AMD EPYC
cpu MHz\t\t: {mhz}
flags\t\t: fpu {flags}

processor\t: 1
flags\t\t: other
"""
SAID = HostProcessor("znver3", frozenset({"avx2", "adx"}), "+avx2,+adx", "x86_64-linux", "20.1")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list with an entry for each question to LLVM."""
    seen: list[str] = []

    def ask() -> HostProcessor:
        seen.append("asked")
        return SAID

    monkeypatch.setattr(processor, "ask_llvm", ask)
    return seen


def describe(
    monkeypatch: pytest.MonkeyPatch, path: Path, *, mhz: int = 2000, flags: str = "avx2"
) -> None:
    path.write_text(CPUINFO.format(mhz=mhz, flags=flags))
    monkeypatch.setattr(processor, "_DESCRIPTION", str(path))


def test_llvm_is_queried_once_per_cpu_and_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    cache, info = CompileCache(tmp_path / "cache"), tmp_path / "cpuinfo"
    describe(monkeypatch, info)
    assert processor_through(cache) == SAID
    assert processor_through(CompileCache(tmp_path / "cache")) == SAID
    describe(monkeypatch, info, mhz=2600)
    assert processor_through(cache) == SAID
    assert len(asked) == 1
    describe(monkeypatch, info, flags="avx2 avx512f")
    assert processor_through(cache) == SAID
    assert len(asked) == 2
    monkeypatch.setattr(processor, "_llvmlite", lambda: "9.9")
    assert processor_through(cache) == SAID
    assert len(asked) == 3


def test_llvm_is_queried_once_per_arm_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    cache, path = CompileCache(tmp_path / "cache"), tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "_DESCRIPTION", str(path))
    text = (
        "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd aes\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n"
    )
    changes = [
        ("", ""),
        ("50.00", "243.75"),
        ("0xd0c", "0xd40"),
        ("aes", "aes sve"),
        ("0x41", "0x61"),
    ]
    for count, (old, new) in zip((1, 1, 2, 3, 4), changes, strict=True):
        path.write_text(text.replace(old, new))
        assert [processor_through(cache) for _ in range(2)] == [SAID, SAID]
        assert len(asked) == count


@pytest.mark.parametrize("text", [None, "", "processor : 0\n", "\xff\xfe"])
def test_llvm_is_queried_if_cpuinfo_is_insufficient(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    monkeypatch.setattr(processor, "_DESCRIPTION", str(path))
    cache = CompileCache(tmp_path / "cache")
    assert [processor_through(cache) for _ in range(2)] == [SAID, SAID]
    assert len(asked) == 2
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("entry", [b"", b"null", b"[1]", b'["a", "b", "c", "d", 5]', b"[" * 9999])
def test_invalid_cache_entry_is_replaced(
    entry: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    cache = CompileCache(tmp_path / "cache")
    describe(monkeypatch, tmp_path / "cpuinfo")
    key = processor._key()
    assert key is not None
    cache.put(key, entry)
    assert [processor_through(cache) for _ in range(2)] == [SAID, SAID]
    assert len(asked) == 1
    kept = cache.get(key)
    assert kept is not None
    assert json.loads(kept)[0] == "znver3"


def test_cache_returns_the_llvm_answer(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    assert processor_through(cache) == processor_through(cache) == processor.ask_llvm()


def test_compiled_kernels_are_run_without_llvm() -> None:
    source = (
        "import sys\n"
        "from quod.device import open_device\n"
        "from quod.kernel.examples import saxpy\n"
        "open_device('cpu').compile(saxpy)\n"
        "print('llvmlite.binding' in sys.modules)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert runs[1].stdout == "False\n"


def test_quick_code_is_for_tested_processors() -> None:
    def has_quick_code(triple: str, *features: str) -> bool:
        return HostProcessor("", frozenset(features), "", triple).has_quick_code

    assert has_quick_code("x86_64-unknown-linux-gnu", "avx2")
    assert has_quick_code("x86_64-unknown-linux-gnu")
    assert not has_quick_code("x86_64-unknown-linux-gnu", "avx2", "avx512f")
    assert not has_quick_code("aarch64-unknown-linux-gnu", "neon")
