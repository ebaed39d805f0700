"""The limit on the memory that this process may take (`ulimit -v`)."""

from __future__ import annotations

import resource


def memory_limit() -> int | None:
    """Return the limit of the process's address space in bytes, or None if it is unlimited."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
