"""The surroundings of a process: whatever, apart from files, its results may depend on.

A helper runs commands of processes with its own surroundings only.
"""

from __future__ import annotations

import os
import resource
import sys

import quod

# Variables that change what Quod, Python, loaders of libraries and drivers do.
_PREFIXES = (
    "CUDA", "HOME", "LD_", "LLVM", "NVIDIA", "OMP_", "OPENBLAS", "PYTHONHOME", "PYTHONPATH",
    "PYTHONWARNINGS", "QUOD_", "VK_", "WGPU", "XDG_CACHE_HOME",
)  # fmt: skip
# The first decides whether a helper is used; the next is set for all commands.
_IGNORED = ("QUOD_RESIDENT", "OPENBLAS_NUM_THREADS")
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)


def surroundings() -> list[str]:
    """Describe the surroundings of this process in texts such as ``version=0.1.0``.

    Raises OSError if the system does not tell them.
    """
    package = quod.__file__
    root, processors = os.stat("/"), sorted(os.sched_getaffinity(0))
    return [
        f"version={quod.__version__}",
        f"installation={package} {os.stat(package).st_mtime_ns} {sys.executable}",
        # Users, groups and mounts decide which file a path names and who may read it.
        f"user={os.geteuid()} {os.getuid()} {os.getegid()} {sorted(os.getgroups())}",
        f"file systems={os.readlink('/proc/self/ns/mnt')} {root.st_dev} {root.st_ino}",
        f"processors={processors}",
        *sorted(
            f"{name}={value}"
            for name, value in os.environ.items()
            if name.startswith(_PREFIXES) and name not in _IGNORED
        ),
    ]


def is_limited() -> bool:
    """Report whether this process has a limit on memory, time or file sizes (`ulimit`).

    A helper has no such limits, or those of the command that started it.
    """
    return any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in _LIMITS)


def difference(texts: list[str], others: list[str]) -> str:
    """Return the name of a text that only one of two lists has; empty if there is none."""
    names = sorted(text.partition("=")[0] for text in set(texts) ^ set(others))
    return names[0] if names else ""
