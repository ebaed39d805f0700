"""The limit on the memory that this process may take (`ulimit -v`)."""

from __future__ import annotations

import resource


def memory_limit() -> int | None:
    """Bytes of address space that the process may take, or None where there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
