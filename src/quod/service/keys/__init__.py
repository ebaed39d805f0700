"""The keys of the proving service: a repository on disk, and a cache of loaded keys.

    from quod.service.keys import KeyRepository, ResidentKeys

    repository = KeyRepository("keys", create=True)
    repository.add("circuit.zkey", names=["membership"])
    with ResidentKeys(repository, "cuda") as keys:
        keys.warm(["membership"])
        with keys.lease("membership") as lease:
            lease.value.prove("witness.wtns")

All calls may come from any thread. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.service.keys.cache import KeyCache as KeyCache
    from quod.service.keys.calculators import RegisteredCalculators as RegisteredCalculators
    from quod.service.keys.leases import CacheStatus as CacheStatus
    from quod.service.keys.leases import KeyUse as KeyUse
    from quod.service.keys.leases import Lease as Lease
    from quod.service.keys.leases import Loader as Loader
    from quod.service.keys.needs import Needs as Needs
    from quod.service.keys.needs import Tier as Tier
    from quod.service.keys.record import FileRecord as FileRecord
    from quod.service.keys.record import KeyRecord as KeyRecord
    from quod.service.keys.repository import KeyRepository as KeyRepository
    from quod.service.keys.repository import ListedKey as ListedKey
    from quod.service.keys.repository import Removed as Removed
    from quod.service.keys.resident import ResidentKeys as ResidentKeys
else:
    __getattr__, __dir__ = lazy_names(__name__)
