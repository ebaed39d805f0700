"""A digest of Quod's own source files: what its kernels' text depends on."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def is_own(file: Path) -> bool:
    """Whether a source file is part of the package."""
    return file.resolve().is_relative_to(_ROOT)


@functools.cache
def digest() -> str:
    """A hash over the names, sizes and times of the package's modules that kernels come from."""
    state = hashlib.sha256()
    for folder in ("kernel", "target", "field", "curve", "msm", "ntt", "groth16"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            status = path.stat()
            state.update(
                f"{path.relative_to(_ROOT)} {status.st_size} {status.st_mtime_ns}\n".encode()
            )
    return state.hexdigest()
