"""Selection of tests: those of `make test`, or all as by `make test-all`."""

from __future__ import annotations

import os


def runs_all() -> bool:
    """Return whether thorough tests run too, and checks of kernels whose text has not changed."""
    return os.environ.get("QUOD_TEST") == "all"
