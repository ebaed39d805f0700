"""Limits of the server's process, which its workers have from it."""

from __future__ import annotations

import resource


def raise_file_limit() -> None:
    """Has the process open as many files as the system lets it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
