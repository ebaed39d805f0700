"""What the operating system says of this machine: threads, memory, the processor's name."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from pathlib import Path

_CONTROL_GROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def usable_threads() -> int:
    """Hardware threads that this process may run on."""
    # macOS and Windows have no affinity masks.
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@functools.cache
def memory_bytes() -> int:
    """Memory that this process may come to use: the machine's, or its container's if less.

    0 where the system does not say.
    """
    limits = []
    with contextlib.suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CONTROL_GROUP_LIMITS:
        # The file says "max" where there is no limit.
        with contextlib.suppress(ValueError, OSError):
            limits.append(int(path.read_text()))
    return min((limit for limit in limits if limit > 0), default=0)


def available_memory_bytes() -> int:
    """Memory that is free for use now, or a large number where the system does not say."""
    limit = memory_bytes() or sys.maxsize
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return max(1, min(limit, int(line.split()[1]) << 10))
    return limit


@functools.cache
def processor_description() -> str:
    """The processor as its maker calls it, or at least its architecture."""
    if sys.platform == "darwin":
        import subprocess

        with contextlib.suppress(OSError, subprocess.SubprocessError):
            found = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True, check=True, text=True, timeout=5,
            )  # fmt: skip
            if name := found.stdout.strip():
                return name
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return " ".join(value.split())
    return platform.processor() or platform.machine() or "unknown processor"
