"""The keys of a repository on a device: what a worker leases, and an operator loads and evicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import in_host_memory
from quod.formats import Zkey
from quod.groth16 import ProvingKey
from quod.groth16.keys import MOST_LANES
from quod.groth16.resident import MOST
from quod.service.keys.cache import KeyCache
from quod.service.keys.leases import CacheStatus, Lease
from quod.service.keys.loader import Groth16Loader
from quod.service.keys.names import is_identity
from quod.service.keys.needs import Tier
from quod.service.keys.repository import KeyRepository
from quod.service.queue.validation import checked_list
from quod.validation import whole_number, whole_number_or_none

# Of the machine's memory; proofs and witnesses need the rest.
_HOST_SHARE = 0.5


class ResidentKeys:
    """Keys by name or identity, in memory within budgets; see `KeyCache` for what its calls do.

    `host_bytes` are for keys in host memory (half of the machine's unless given), `device_bytes`
    for those in a device's own (its memory budget); what is not given is divided by how many such
    objects are `of_host` and `of_device`. On a device that computes in host memory only
    the first counts. On a GPU up to `lanes` proofs with a small key
    are computed side by side: two unless given, where one would leave half of it idle; of one so
    small that several are worth computing together up to `together`, 32 unless given. A name means
    what it points to when it is leased.
    """

    def __init__(
        self,
        repository: KeyRepository,
        device: DeviceChoice = "cpu",
        *,
        host_bytes: int | None = None,
        device_bytes: int | None = None,
        lanes: int | None = None,
        together: int | None = None,
        of_host: int = 1,
        of_device: int = 1,
    ) -> None:
        self.repository = repository
        host = whole_number_or_none("host_bytes", host_bytes, 0)
        own = whole_number_or_none("device_bytes", device_bytes, 0)
        of_host = whole_number("of_host", of_host, 1)
        of_device = whole_number("of_device", of_device, 1)
        self.device = resolve_device(device)
        if host is None:
            host = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _HOST_SHARE)
            host //= of_host
        if in_host_memory(self.device):
            own = 0
        elif own is None:
            own = self.device.memory_budget // of_device
        lanes = whole_number_or_none("lanes", lanes, 1, MOST_LANES)
        together = whole_number_or_none("together", together, 1, MOST)
        loader = Groth16Loader(repository, self.device, own, lanes, together)
        budgets = {Tier.HOST: host, Tier.DEVICE: own}
        self._cache: KeyCache[Zkey, ProvingKey] = KeyCache(loader, budgets)

    def lease(self, key: str, *, timeout: float | None = None) -> Lease[ProvingKey]:
        """A key to prove with; `value` is the `ProvingKey`. `NotFoundError` if there is none."""
        return self._cache.lease(self.repository.resolve(key), timeout=timeout)

    def preload(self, key: str, *, timeout: float | None = None) -> None:
        """Loads a key before it is needed."""
        self._cache.preload(self.repository.resolve(key), timeout=timeout)

    def warm(self, keys: Sequence[str]) -> None:
        """Loads the keys of the start, after which `ready` is true."""
        wanted = checked_list("the keys of the start", keys)
        self._cache.warm([self.repository.resolve(key) for key in wanted])

    @property
    def ready(self) -> bool:
        """Whether the keys of the start are loaded."""
        return self._cache.ready

    def evict(self, key: str) -> bool:
        """Gives up a key's memory; whether it had any. Works for keys that have been removed."""
        return self._cache.evict(key if is_identity(key) else self.repository.resolve(key))

    def spare_first(self, elsewhere: Callable[[], Collection[str]]) -> None:
        """See `KeyCache.spare_first`."""
        self._cache.spare_first(elsewhere)

    def status(self) -> CacheStatus:
        """What is loaded and how it is used, by identity."""
        return self._cache.status()

    def close(self) -> None:
        """Gives no more keys out; see `KeyCache.close`."""
        self._cache.close()

    def __enter__(self) -> ResidentKeys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
