"""What a cache of keys is given and gives: a loader, leases, and how keys are used."""

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
    """How keys come to their tiers; keys are identities. All but `needs` is called by one thread.

    `stop` raises if nobody wants the key any more; long work calls it now and then.
    """

    def needs(self, key: str) -> Needs:
        """What loading a key takes at most; raises for a key that there is not."""

    def read(self, key: str, stop: Callable[[], None]) -> Held:
        """From disk into host memory of its own."""

    def prepare(
        self, key: str, held: Held, needs: Needs, stop: Callable[[], None]
    ) -> tuple[Ready, Needs]:
        """To where proofs are made; and what it takes there now, which is no more than `needs`."""

    def close(self, ready: Ready) -> None:
        """Gives back what a key has there beside its memory."""


@frozen
class KeyUse:
    """How a key is used: the tier it is ready in (HOST too where it is only read), and counts.

    `hits` and `misses` are leases that found it ready or not; `load_seconds` are those of the last
    load, 0 if there was none.
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
    """What is loaded, of how much: `budgets` and `used` in bytes; `waiting` keys to be loaded."""

    ready: bool
    budgets: Mapping[Tier, int]
    used: Mapping[Tier, int]
    waiting: int
    keys: tuple[KeyUse, ...]


class Lease(Generic[Ready]):
    """A key that stays where it is until the lease is released, at the end of a `with` at least."""

    def __init__(self, key: str, value: Ready, release: Callable[[], None]) -> None:
        self.key = key
        self.value = value
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Gives the key back; a second call does nothing."""
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
