"""The identification of measured code, to compare only figures of equal code.

There are two short hashes: of the texts of the launched kernels, and of all sources of the package.
Equal sources give equal texts, and different sources may do so too.
"""

from __future__ import annotations

import functools
from pathlib import Path

import quod
from quod.device.cache.sources import digest_of
from quod.device.runtime.launch_trace import LaunchedKernels

_DIGITS = 16


def code_of(launched: LaunchedKernels) -> str:
    """Return the hash of the launched kernels; "" if this process launched none."""
    return launched.digest()[:_DIGITS]


@functools.cache
def sources_digest() -> str:
    """Return the hash of the sources."""
    return digest_of(Path(quod.__file__).parent, [""])[:_DIGITS]
