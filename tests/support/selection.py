"""Whether a run is that of `make test` or the complete one of `make test-all`."""

from __future__ import annotations

import os


def runs_all() -> bool:
    """Whether thorough tests run too, and checks of kernels whose text has not changed."""
    return os.environ.get("QUOD_TEST") == "all"
