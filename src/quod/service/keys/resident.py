"""The keys of a repository on a device, leased by workers and managed by operators."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import in_host_memory
from quod.formats import Zkey
from quod.groth16 import ProvingKey
from quod.groth16.keys import MAX_LANES
from quod.groth16.resident import MAX_BATCH
from quod.service.keys.cache import KeyCache
from quod.service.keys.leases import CacheStatus, Lease
from quod.service.keys.loader import Groth16Loader
from quod.service.keys.names import is_identity
from quod.service.keys.needs import Tier
from quod.service.keys.repository import KeyRepository
from quod.service.queue.validation import checked_list
from quod.validation import whole_number, whole_number_or_none

# The share of the machine's memory; proofs and witnesses need the rest.
_HOST_SHARE = 0.5


class ResidentKeys:
    """A repository's keys by name or identity, loaded within budgets; see `KeyCache`.

    host_bytes: the budget for host memory; default: half of the machine's, divided by `of_host`.
    device_bytes: the budget for device memory; default: the device's memory budget, divided by
        `of_device`. Unused on a device that computes in host memory.
    of_host, of_device: the number of `ResidentKeys` that share the machine, and of those that share
        the device.
    lanes: concurrent proofs with a small key on a GPU; default: two if one would leave half of it
        idle.
    max_batch: proofs in a batch with a very small key; default: up to 32.
    A name is resolved at each lease.
    """

    def __init__(
        self,
        repository: KeyRepository,
        device: DeviceChoice = "cpu",
        *,
        host_bytes: int | None = None,
        device_bytes: int | None = None,
        lanes: int | None = None,
        max_batch: int | None = None,
        of_host: int = 1,
        of_device: int = 1,
    ) -> None:
        self.repository = repository
        host_budget = whole_number_or_none("host_bytes", host_bytes, 0)
        device_budget = whole_number_or_none("device_bytes", device_bytes, 0)
        of_host = whole_number("of_host", of_host, 1)
        of_device = whole_number("of_device", of_device, 1)
        self.device = resolve_device(device)
        if host_budget is None:
            host_budget = int(
                os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _HOST_SHARE
            )
            host_budget //= of_host
        if in_host_memory(self.device):
            device_budget = 0
        elif device_budget is None:
            device_budget = self.device.memory_budget // of_device
        lanes = whole_number_or_none("lanes", lanes, 1, MAX_LANES)
        max_batch = whole_number_or_none("max_batch", max_batch, 1, MAX_BATCH)
        loader = Groth16Loader(repository, self.device, device_budget, lanes, max_batch)
        budgets = {Tier.HOST: host_budget, Tier.DEVICE: device_budget}
        self._cache: KeyCache[Zkey, ProvingKey] = KeyCache(loader, budgets)

    def lease(self, key: str, *, timeout: float | None = None) -> Lease[ProvingKey]:
        """Lease a key; `value` is its `ProvingKey`. Raises NotFoundError if there is none."""
        return self._cache.lease(self.repository.resolve(key), timeout=timeout)

    def preload(self, key: str, *, timeout: float | None = None) -> None:
        """Load a key in advance."""
        self._cache.preload(self.repository.resolve(key), timeout=timeout)

    def warm(self, keys: Sequence[str]) -> None:
        """Load the initial keys, after which `ready` is true."""
        warm_keys = checked_list("the keys to load at start", keys)
        self._cache.warm([self.repository.resolve(key) for key in warm_keys])

    @property
    def ready(self) -> bool:
        """Report whether the initial keys are loaded."""
        return self._cache.ready

    def evict(self, key: str) -> bool:
        """Evict a key, also one removed from the repository; return whether it was loaded."""
        return self._cache.evict(key if is_identity(key) else self.repository.resolve(key))

    def spare_first(self, elsewhere: Callable[[], Collection[str]]) -> None:
        """See `KeyCache.spare_first`."""
        self._cache.spare_first(elsewhere)

    def status(self) -> CacheStatus:
        """Return the loaded keys and their usage, by identity."""
        return self._cache.status()

    def close(self) -> None:
        """Refuse new leases; see `KeyCache.close`."""
        self._cache.close()

    def __enter__(self) -> ResidentKeys:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
