"""The interfaces of a key cache: loaders, leases and usage records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Annotated, Generic, Protocol, TypeVar

from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.keys.needs import Needs, Tier

Held = TypeVar("Held")
Ready = TypeVar("Ready")


class Loader(Protocol[Held, Ready]):
    """A loader of keys, given by identity. One thread calls all methods but `needs`.

    `check_cancelled` raises an error once no caller waits for the key; long operations call it
    regularly.
    """

    def needs(self, key: str) -> Needs:
        """Return upper bounds on the key's memory; raises NotFoundError if there is no such key."""

    def read(self, key: str, check_cancelled: Callable[[], None]) -> Held:
        """Read a key from disk into host memory of its own."""

    def prepare(
        self, key: str, held: Held, needs: Needs, check_cancelled: Callable[[], None]
    ) -> tuple[Ready, Needs]:
        """Load a held key to the prover's memory; return it and its memory, at most `needs`."""

    def close(self, ready: Ready) -> None:
        """Release the resources of a loaded key other than its memory."""


@frozen
class KeyUse:
    """The usage of a key.

    tier: the tier it is ready in, or HOST if it is only in host memory.
    hits, misses: leases that found the key loaded, or not.
    load_seconds: the duration of the last load, 0 if there was none.
    """

    key: Annotated[str, Wire(answer=None)]
    tier: Tier
    ready: bool
    loading: bool
    host_bytes: int
    device_bytes: int
    leases: int
    hits: int
    misses: int
    loads: int
    failures: int
    evictions: int
    load_seconds: float


@frozen
class CacheStatus:
    """The state of a cache.

    budgets, used: bytes per tier.
    waiting: the number of queued loads.
    """

    ready: bool
    budgets: Mapping[Tier, int]
    used: Mapping[Tier, int]
    waiting: int
    keys: tuple[KeyUse, ...]


class Lease(Generic[Ready]):
    """A loaded key that is not evicted until the lease is released or its `with` block ends."""

    def __init__(self, key: str, value: Ready, release: Callable[[], None]) -> None:
        self.key = key
        self.value = value
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Release the key; a second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Lease[Ready]:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.release()
