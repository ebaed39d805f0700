"""Detection of machine crashes, by the boot id in a queue's lock file.

While a queue is open the file holds the machine's boot id; a clean shutdown empties it. A killed
process leaves the id behind, and the next process compares it with its own.
"""

from __future__ import annotations

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = b"unknown"


def machine_crashed(lock: int) -> bool:
    """Report whether the machine crashed, or may have, since the queue was last closed.

    Writes the boot id to an empty lock file. After a crash the result stays true until a process
    shuts down cleanly.
    """
    try:
        boot_id = _BOOT.read_bytes().strip()
    except OSError:
        boot_id = _UNKNOWN
    recorded_id = os.pread(lock, 64, 0)
    if not recorded_id:
        os.pwrite(lock, boot_id, 0)
        os.fsync(lock)
        return False
    return recorded_id != boot_id or boot_id == _UNKNOWN


def ended_well(lock: int) -> None:
    """Record a clean shutdown."""
    os.ftruncate(lock, 0)
