"""Which of several workers takes the work of which key.

Work goes to where its key is. A key that is nowhere goes to the emptiest worker that is free. One
whose work waits longer, since it was last loaded, than a load of it takes gets another worker: one
that has nothing of its own to do, or room for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from quod.frozen import frozen, replace
from quod.service.keys import KeyUse, Tier
from quod.service.worker.pools.pool import WorkerState, WorkerStatus

# What workers tell is looked at so often at most.
_LOOK_SECONDS = 0.02
# What was given to a worker counts for so long before the worker has told of it.
_GIVEN_SECONDS = 1.0
# A first proof with a key takes more than its load: kernels, page-locked memory.
LEAST_COST_SECONDS = 1.0
# For how long work of a key that is nowhere waits for the emptiest worker.
_GRACE_SECONDS = 0.5

_TAKES_WORK = (WorkerState.READY, WorkerState.BUSY)


@frozen
class _View:
    """What a worker has, as it was told last."""

    takes_work: bool
    in_hand: int
    fill: float
    room: Mapping[Tier, int]
    uses: Mapping[str, KeyUse]
    keys: frozenset[str]


class Placement:
    """See `KeyChooser`. `look` gives all workers; `clock` is monotonic. For any threads."""

    def __init__(
        self,
        look: Callable[[], Sequence[WorkerStatus]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._clock = look, clock
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._views: dict[str, _View] = {}
        self._given: dict[tuple[str, str], float] = {}
        # Since when the last of the workers that have a key has had it.
        self._ready: dict[str, tuple[frozenset[str], float]] = {}
        self._copies: dict[str, int] = {}

    def choose(
        self, worker: str, waiting: Callable[[], Sequence[str]], waited: Callable[[str], float]
    ) -> list[str] | None:
        """The keys that a worker may take work of, of those that wait; None for any."""
        now = self._clock()
        with self._lock:
            self._refresh(now)
            own = self._views.get(worker)
            others = [
                view for name, view in self._views.items() if name != worker and view.takes_work
            ]
            if own is None or not others:
                return None
            wanted = waiting()
            free = not any(key in own.keys for key in wanted)
            return [
                key for key in wanted
                if key in own.keys or self._takes(key, own, others, free, now, waited)
            ]  # fmt: skip

    def took(self, worker: str, keys: Collection[str]) -> None:
        """Counts a worker among those that have the keys, before it tells so itself."""
        now = self._clock()
        with self._lock:
            self._refresh(now)
            for key in keys:
                own = self._views.get(worker)
                if own is not None and key not in own.keys:
                    if self._holders(key, worker):
                        self._copies[worker] = self._copies.get(worker, 0) + 1
                    self._give(worker, own, key)
                self._given[worker, key] = now

    def elsewhere(self, worker: str) -> frozenset[str]:
        """Keys that other workers have ready: a worker gives these up before others."""
        with self._lock:
            self._refresh(self._clock())
            return frozenset(
                key
                for name, view in self._views.items()
                if name != worker and view.takes_work
                for key, use in view.uses.items()
                if use.ready
            )

    def replications(self, worker: str) -> int:
        """How often a worker was given a key that another one had."""
        with self._lock:
            return self._copies.get(worker, 0)

    # --- with the lock held

    def _takes(
        self, key: str, own: _View, others: Iterable[_View], free: bool, now: float,
        waited: Callable[[str], float],
    ) -> bool:  # fmt: skip
        """Whether a worker that does not have a key takes work of it."""
        holders = [view for view in others if key in view.keys]
        if not holders:
            # Who is free and has less loses less by it.
            emptier = any(not view.in_hand and view.fill < own.fill for view in others)
            return not emptier or waited(key) > _GRACE_SECONDS
        uses = [view.uses[key] for view in holders if key in view.uses and view.uses[key].ready]
        if len(uses) < len(holders):
            # The last one that it was given to is still loading it.
            return False
        if not (free or self._has_room(own, uses[0])):
            return False
        cost = max(LEAST_COST_SECONDS, *(use.load_seconds for use in uses))
        since = now - self._ready[key][1] if key in self._ready else 0.0
        return since > cost and waited(key) > cost

    @staticmethod
    def _has_room(own: _View, use: KeyUse) -> bool:
        taken = {Tier.HOST: use.host_bytes, Tier.DEVICE: use.device_bytes}
        return all(taken[tier] <= room for tier, room in own.room.items())

    def _holders(self, key: str, besides: str) -> list[_View]:
        return [
            view
            for name, view in self._views.items()
            if name != besides and view.takes_work and key in view.keys
        ]

    def _give(self, worker: str, view: _View, key: str) -> None:
        self._views[worker] = replace(view, keys=view.keys | {key})

    def _refresh(self, now: float) -> None:
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self._given = {pair: at for pair, at in self._given.items() if now - at < _GIVEN_SECONDS}
        self._views = {status.name: self._view(status) for status in self._look()}
        holders: dict[str, set[str]] = {}
        for name, view in self._views.items():
            for key, use in view.uses.items():
                if use.ready and view.takes_work:
                    holders.setdefault(key, set()).add(name)
        for key, names in holders.items():
            before, since = self._ready.get(key, (frozenset[str](), now))
            self._ready[key] = frozenset(names), since if names <= before else now
        for key in self._ready.keys() - holders.keys():
            del self._ready[key]

    def _view(self, status: WorkerStatus) -> _View:
        cache = status.keys
        takes_work = status.state in _TAKES_WORK
        room = {tier: size - cache.used.get(tier, 0) for tier, size in cache.budgets.items()}
        fills = [cache.used.get(tier, 0) / size for tier, size in cache.budgets.items() if size]
        uses = {use.key: use for use in cache.keys}
        keys = {key for key, use in uses.items() if use.ready or use.loading}
        keys.update(status.wanted)
        if takes_work:
            keys.update(key for name, key in self._given if name == status.name)
        return _View(
            takes_work, len(status.jobs), max(fills, default=0.0), room, uses, frozenset(keys)
        )
