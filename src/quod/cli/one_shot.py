"""Quick compilation of kernels in processes that run one command.

A process that ends after a proof does not gain from the optimised code that it compiles, so it
leaves the optimisation to a background process (`quod.device.cpu.recompile`). With
`QUOD_BACKGROUND=0` it compiles optimised code itself. Resident helpers run the same commands, and
compile optimised code.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from quod.errors import DeviceError

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "QUOD_BACKGROUND"

_MAX_KEY_BYTES = 64 << 20
"""The largest proving key for which kernels are compiled quickly, of about 100,000 constraints.

Over BN254 the kernels then take 4 s less to compile, and a proof takes 20 microseconds more per
constraint, so twice as large a key would gain nothing on one core."""

_is_one_shot = False


def declare_one_shot() -> None:
    """Declare that this process ends after its command."""
    global _is_one_shot
    _is_one_shot = True


@contextlib.contextmanager
def quick_kernels(key: Path) -> Iterator[None]:
    """Compile kernels quickly during the body, if the process ends soon and the key is small.

    Raises DeviceError if the environment variable is neither 0 nor 1.
    """
    if not _is_one_shot or not _is_small(key) or not _may_use_background():
        yield
        return
    from quod.device.cpu.recompile import quick_code_first

    with quick_code_first():
        yield


def _may_use_background() -> bool:
    text = os.environ.get(VARIABLE, "").strip() or "1"
    if text not in ("0", "1"):
        raise DeviceError(f"{VARIABLE} must be 0 or 1, not {text!r}")
    return text == "1"


def _is_small(key: Path) -> bool:
    try:
        return key.stat().st_size <= _MAX_KEY_BYTES
    except (OSError, ValueError):
        return False
