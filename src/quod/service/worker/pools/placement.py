"""Placement of keys on workers.

Work goes to the workers that have its key. A key that no worker has goes to the free worker with
the most room. A key gets a further worker if both its work has waited, and the last worker to load
it has had it, longer than loading the key takes. That worker must have no work for its own keys, or
room for the key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from quod.frozen import frozen, replace
from quod.service.keys import KeyUse, Tier
from quod.service.worker.pools.pool import WorkerState, WorkerStatus

# The minimum interval between status reads.
_REFRESH_SECONDS = 0.02
# Seconds for which an assigned key counts as the worker's before the worker reports it.
_ASSIGNMENT_SECONDS = 1.0
# The least assumed cost of a further worker: its first proof also compiles kernels and page-locks
# memory, beyond `load_seconds`.
MIN_REPLICATION_SECONDS = 1.0
# Seconds for which work with an unloaded key waits for an idle worker with more room.
_GRACE_SECONDS = 0.5

_TAKES_WORK = (WorkerState.READY, WorkerState.BUSY)


@frozen
class _View:
    """The last reported state of a worker.

    in_hand: the number of its jobs.
    fill: the used share of its fullest memory budget.
    room: free bytes of its key budgets.
    usages: the records of its cache, by key.
    keys: those loaded, being loaded, or of claimed work.
    """

    takes_work: bool
    in_hand: int
    fill: float
    room: Mapping[Tier, int]
    usages: Mapping[str, KeyUse]
    keys: frozenset[str]


class Placement:
    """A thread-safe `KeyChooser`.

    look: returns the status of all workers.
    clock: a monotonic clock.
    """

    def __init__(
        self,
        look: Callable[[], Sequence[WorkerStatus]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._clock = look, clock
        self._lock = threading.Lock()
        self._refreshed = float("-inf")
        self._views: dict[str, _View] = {}
        self._assigned: dict[tuple[str, str], float] = {}
        # By key: the workers that have it, and when the last of them got it.
        self._ready: dict[str, tuple[frozenset[str], float]] = {}
        self._replications: dict[str, int] = {}

    def choose(
        self, worker: str, waiting: Callable[[], Sequence[str]], waited: Callable[[str], float]
    ) -> list[str] | None:
        """Return those waiting keys whose work the worker may take; None for any key.

        waiting, waited: see `KeyChooser.choose`.
        """
        now = self._clock()
        with self._lock:
            self._refresh(now)
            own_view = self._views.get(worker)
            others = [
                view for name, view in self._views.items() if name != worker and view.takes_work
            ]
            if own_view is None or not others:
                return None
            waiting_keys = waiting()
            lacks_work = not any(key in own_view.keys for key in waiting_keys)
            return [
                key for key in waiting_keys
                if key in own_view.keys
                or self._may_take(key, own_view, others, lacks_work, now, waited)
            ]  # fmt: skip

    def record_claim(self, worker: str, keys: Collection[str]) -> None:
        """Record that a worker is given keys, before it reports them itself."""
        now = self._clock()
        with self._lock:
            self._refresh(now)
            for key in keys:
                worker_view = self._views.get(worker)
                if worker_view is not None and key not in worker_view.keys:
                    if self._holders(key, worker):
                        self._replications[worker] = self._replications.get(worker, 0) + 1
                    self._assign(worker, worker_view, key)
                self._assigned[worker, key] = now

    def elsewhere(self, worker: str) -> frozenset[str]:
        """Return the keys loaded on other workers, which this worker evicts first."""
        with self._lock:
            self._refresh(self._clock())
            return frozenset(
                key
                for name, view in self._views.items()
                if name != worker and view.takes_work
                for key, usage in view.usages.items()
                if usage.ready
            )

    def replications(self, worker: str) -> int:
        """Return how often a worker was given a key that another one had."""
        with self._lock:
            return self._replications.get(worker, 0)

    # --- called with the lock held

    def _may_take(
        self, key: str, own_view: _View, others: Iterable[_View], lacks_work: bool, now: float,
        waited: Callable[[str], float],
    ) -> bool:  # fmt: skip
        """Decide whether a worker takes work of a key that it does not have.

        lacks_work: whether no work waits for the keys that the worker has.
        """
        holders = [view for view in others if key in view.keys]
        if not holders:
            # An idle worker with fewer keys loses less by loading another.
            has_emptier_worker = any(
                not view.in_hand and view.fill < own_view.fill for view in others
            )
            return not has_emptier_worker or waited(key) > _GRACE_SECONDS
        usages = [
            view.usages[key] for view in holders if key in view.usages and view.usages[key].ready
        ]
        if len(usages) < len(holders):
            # The last worker given the key is still loading it.
            return False
        if not (lacks_work or self._has_room(own_view, usages[0])):
            return False
        cost = max(MIN_REPLICATION_SECONDS, *(usage.load_seconds for usage in usages))
        ready_seconds = now - self._ready[key][1] if key in self._ready else 0.0
        return ready_seconds > cost and waited(key) > cost

    @staticmethod
    def _has_room(own_view: _View, usage: KeyUse) -> bool:
        bytes_by_tier = {Tier.HOST: usage.host_bytes, Tier.DEVICE: usage.device_bytes}
        return all(bytes_by_tier[tier] <= room for tier, room in own_view.room.items())

    def _holders(self, key: str, except_worker: str) -> list[_View]:
        return [
            view
            for name, view in self._views.items()
            if name != except_worker and view.takes_work and key in view.keys
        ]

    def _assign(self, worker: str, view: _View, key: str) -> None:
        self._views[worker] = replace(view, keys=view.keys | {key})

    def _refresh(self, now: float) -> None:
        if now - self._refreshed < _REFRESH_SECONDS:
            return
        self._refreshed = now
        self._assigned = {
            pair: assigned_at
            for pair, assigned_at in self._assigned.items()
            if now - assigned_at < _ASSIGNMENT_SECONDS
        }
        self._views = {status.name: self._view(status) for status in self._look()}
        holders: dict[str, set[str]] = {}
        for name, view in self._views.items():
            for key, usage in view.usages.items():
                if usage.ready and view.takes_work:
                    holders.setdefault(key, set()).add(name)
        for key, names in holders.items():
            old_names, ready_since = self._ready.get(key, (frozenset[str](), now))
            self._ready[key] = frozenset(names), ready_since if names <= old_names else now
        for key in self._ready.keys() - holders.keys():
            del self._ready[key]

    def _view(self, status: WorkerStatus) -> _View:
        cache = status.keys
        takes_work = status.state in _TAKES_WORK
        room = {tier: size - cache.used.get(tier, 0) for tier, size in cache.budgets.items()}
        fills = [cache.used.get(tier, 0) / size for tier, size in cache.budgets.items() if size]
        usages = {usage.key: usage for usage in cache.keys}
        keys = {key for key, usage in usages.items() if usage.ready or usage.loading}
        keys.update(status.wanted)
        if takes_work:
            keys.update(key for name, key in self._assigned if name == status.name)
        return _View(
            takes_work, len(status.jobs), max(fills, default=0.0), room, usages, frozenset(keys)
        )
