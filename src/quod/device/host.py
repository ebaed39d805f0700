"""Properties of this machine that the operating system reports: threads, memory, CPU name."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def usable_threads() -> int:
    """Return the number of hardware threads that this process may run on."""
    # macOS and Windows have no affinity masks.
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@functools.cache
def memory_bytes() -> int:
    """Return the memory of the machine or, if less, of its container, in bytes; 0 if unknown."""
    limits = [_container_limit()]
    with contextlib.suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((limit for limit in limits if limit is not None and limit > 0), default=0)


def available_memory_bytes() -> int:
    """Return the free memory in bytes, or a large number if the system does not report it."""
    limits = [memory_bytes() or sys.maxsize]
    if (free := _number_after(Path("/proc/meminfo"), "MemAvailable:")) is not None:
        limits.append(free << 10)
    limit, used = _container_limit(), _container_use()
    if limit is not None and used is not None:
        limits.append(limit - used)
    return max(1, min(limits))


def _container_limit() -> int | None:
    """Return the memory limit, in bytes, of the control group (version 2 or 1), or None."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        # The file says "max" where there is no limit.
        with contextlib.suppress(ValueError, OSError):
            return int((CONTROL_GROUPS / name).read_text())
    return None


def _container_use() -> int | None:
    """Return the control group's memory use in bytes, without reclaimable file cache."""
    for use_file, statistics_file, prefix in (
        ("memory.current", "memory.stat", ""),
        ("memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
    ):
        with contextlib.suppress(ValueError, OSError):
            used = int((CONTROL_GROUPS / use_file).read_text())
            names = (f"{prefix}inactive_file", f"{prefix}active_file")
            cached = sum(
                _number_after(CONTROL_GROUPS / statistics_file, name) or 0 for name in names
            )
            return max(0, used - cached)
    return None


def _number_after(file: Path, word: str) -> int | None:
    """Return the number after `word` at the start of a line of a file, or None."""
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            first, *values = line.split() or [""]
            if first == word and values:
                return int(values[0])
    return None


@functools.cache
def processor_description() -> str:
    """Return the vendor's name of the CPU, or at least its architecture."""
    if sys.platform == "darwin":
        import subprocess

        with contextlib.suppress(OSError, subprocess.SubprocessError):
            completed = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True, check=True, text=True, timeout=5,
            )  # fmt: skip
            if name := completed.stdout.strip():
                return name
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return " ".join(value.split())
    import platform

    return platform.processor() or platform.machine() or "unknown processor"
