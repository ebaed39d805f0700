"""Resource limits of the server process, which its workers inherit."""

from __future__ import annotations

import resource


def raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
