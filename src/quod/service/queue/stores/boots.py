"""Whether the machine went down under a queue, from what is written in the file of its lock.

While a queue is open the file has the name of the machine's boot; a process that ends well empties
it. One that is killed leaves it, and the next one finds the boot that it is in itself, or another.
"""

from __future__ import annotations

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = b"unknown"


def machine_went_down(lock: int) -> bool:
    """Whether the machine did, or may have done, since the queue was last closed; notes the boot.

    It stays so for those who open the queue after a process was killed, until one ends well.
    """
    try:
        boot = _BOOT.read_bytes().strip()
    except OSError:
        boot = _UNKNOWN
    found = os.pread(lock, 64, 0)
    if not found:
        os.pwrite(lock, boot, 0)
        os.fsync(lock)
        return False
    return found != boot or boot == _UNKNOWN


def ended_well(lock: int) -> None:
    """Nothing is under way any more."""
    os.ftruncate(lock, 0)
