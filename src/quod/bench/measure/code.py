"""Which code a figure is of, so that it is told from figures of other code.

Two hashes, both short: of the texts of the kernels that were launched, and of all the sources of
this package. Equal sources make equal texts; other sources may.
"""

from __future__ import annotations

import functools
from pathlib import Path

import quod
from quod.device.cache.sources import digest_of
from quod.device.runtime.launch_trace import LaunchedKernels

_DIGITS = 16


def code_of(launched: LaunchedKernels) -> str:
    """The hash of what was launched; "" if nothing was in this process."""
    return launched.digest()[:_DIGITS]


@functools.cache
def sources_digest() -> str:
    """The hash of the sources."""
    return digest_of(Path(quod.__file__).parent, [""])[:_DIGITS]
