"""A cache of keys within memory budgets: leases, shared loads and LRU eviction.

One lock guards all state. One thread loads keys in the order of the requests; as only it reserves
memory, two loads cannot deadlock over it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic

from quod.device.runtime.cancellation import Cancellation, current
from quod.errors import InputError
from quod.service.errors import KeyInUseError, KeysBusyError, UnavailableError
from quod.service.keys.leases import CacheStatus, Held, KeyUse, Lease, Loader, Ready
from quod.service.keys.needs import Needs, Tier, check_fits
from quod.validation import shown, whole_number

_BUDGETED = (Tier.HOST, Tier.DEVICE)
_RETRY_SECONDS = 1.0
# At this number of entries, those of keys that are only on disk are dropped with their counters.
_MAX_KNOWN = 4096


class _Entry(Generic[Held, Ready]):
    """The state of a key.

    held: the key in host memory, or None.
    ready: the key in the prover's memory, or None.
    used: the time of its last use, as a count of uses of any key.
    """

    def __init__(self) -> None:
        self.needs: Needs | None = None
        self.held: Held | None = None
        self.ready: Ready | None = None
        self.leases = self.used = 0
        self.loading = False
        self.hits = self.misses = self.loads = self.failures = self.evictions = 0
        self.load_seconds = 0.0

    def bytes(self, tier: Tier) -> int:
        if self.needs is None or self.held is None:
            return 0
        return self.needs.bytes(tier, ready=self.ready is not None)

    @property
    def idle(self) -> bool:
        return self.held is not None and not self.leases and not self.loading


class _Load:
    """A queued or running load.

    waiters: the callers that wait for it, each of which gets a lease.
    done: whether it has ended.
    stopped: whether its result is no longer wanted.
    """

    def __init__(self, key: str, needs: Needs) -> None:
        self.key, self.needs = key, needs
        self.waiters = 0
        self.done = self.stopped = False
        self.error: BaseException | None = None


class _StoppedError(Exception):
    """Raised in a load once no caller waits for it, or the cache is closed."""


class _Waiter:
    """A waiting caller, woken when its `Cancellation` is cancelled."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed

    def cancel(self) -> None:
        with self._changed:
            self._changed.notify_all()


class KeyCache(Generic[Held, Ready]):
    """Keys by identity in host and device memory, within budgets in bytes.

    loader: reads keys into host memory and loads them to the device.
    budgets: the bytes of each tier that keys may use.

    A lease loads its key; one thread loads a key once for all callers that wait for it. Leased keys
    stay loaded. Others are evicted when memory is needed, least recently used first: from the
    device to the host, then from the host. A failed load raises in all waiting callers, and the
    next lease retries it. Do not take a second lease while holding one: two callers may deadlock.
    """

    def __init__(self, loader: Loader[Held, Ready], budgets: Mapping[Tier, int]) -> None:
        self._loader = loader
        self._budgets = {
            tier: whole_number(f"the budget of {tier.value} memory", budgets.get(tier), 0)
            for tier in _BUDGETED
        }
        self._used = dict.fromkeys(_BUDGETED, 0)
        self._changed = threading.Condition(threading.Lock())
        self._entries: dict[str, _Entry[Held, Ready]] = {}
        self._loads: dict[str, _Load] = {}
        self._queue: deque[_Load] = deque()
        self._tick = 0
        self._warm = self._closed = False
        self._thread: threading.Thread | None = None
        self._elsewhere: Callable[[], Collection[str]] = tuple

    # --- leases

    def lease(self, key: str, *, timeout: float | None = None) -> Lease[Ready]:
        """Lease a key, waiting until it is loaded or `timeout` seconds have passed.

        Raises KeyTooLargeError if the key exceeds a budget by itself, KeysBusyError after the
        timeout, UnavailableError once the cache is closed, DeviceError if the caller's
        `Cancellation` is cancelled, and any error of the load.
        """
        deadline = None if timeout is None else time.monotonic() + _seconds(timeout)
        with self._changed:
            lease = self._grant(key)
        if lease is not None:
            return lease
        # Called without the lock, as it may read a file.
        needs = self._loader.needs(key)
        for tier in _BUDGETED:
            check_fits(f"the key {key}", tier, needs.parts(tier), self._budgets[tier])
        cancellation, waiter = current(), _Waiter(self._changed)
        if cancellation is not None:
            cancellation.begin(waiter)
        try:
            with self._changed:
                return self._grant(key) or self._await(
                    self._begin(key, needs), deadline, cancellation
                )
        finally:
            if cancellation is not None:
                cancellation.end(waiter)

    def preload(self, key: str, *, timeout: float | None = None) -> None:
        """Load a key by leasing and releasing it; raises as `lease` does."""
        self.lease(key, timeout=timeout).release()

    def warm(self, keys: Iterable[str]) -> None:
        """Load the initial keys, after which the cache is `ready`.

        Raises KeyTooLargeError if they do not fit together, and any error of a load.
        """
        needs_by_key = {key: self._loader.needs(key) for key in dict.fromkeys(keys)}
        for tier in _BUDGETED:
            parts = {key: needs.bytes(tier) for key, needs in needs_by_key.items()}
            check_fits("what is loaded at the start", tier, parts, self._budgets[tier])
        for key in needs_by_key:
            self.preload(key)
        with self._changed:
            self._warm = True

    @property
    def ready(self) -> bool:
        """Report whether the initial keys are loaded and the cache is open."""
        with self._changed:
            return self._warm and not self._closed

    def spare_first(self, elsewhere: Callable[[], Collection[str]]) -> None:
        """Evict keys that `elsewhere()` returns before others: other workers have loaded them."""
        self._elsewhere = elsewhere

    def evict(self, key: str) -> bool:
        """Evict a key; return whether it was loaded.

        Raises KeyInUseError while it is leased or being loaded.
        """
        with self._changed:
            entry = self._entries.get(key)
            if entry is None or (entry.held is None and not entry.loading):
                return False
            if not entry.idle:
                state = "loaded" if entry.loading else "proved with"
                raise KeyInUseError(f"the key {key} is being {state}; evict it later")
            # The key's bytes count as used until they are freed.
            evicted, freed = self._detach(entry, to_host=False)
        self._close([evicted])
        del evicted
        with self._changed:
            self._release_bytes(freed)
        return True

    def status(self) -> CacheStatus:
        """Return the loaded keys and their usage, for metrics and listings."""
        with self._changed:
            keys = tuple(self._usage(key, entry) for key, entry in self._entries.items())
            used, ready = dict(self._used), self._warm and not self._closed
            return CacheStatus(ready, dict(self._budgets), used, len(self._queue), keys)

    def close(self) -> None:
        """Refuse new leases and evict all keys, leased ones upon their release."""
        with self._changed:
            self._closed = True
            for load in self._loads.values():
                load.stopped = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        with self._changed:
            idle_entries = [entry for entry in self._entries.values() if entry.idle]
            detached = [self._detach(entry, to_host=False) for entry in idle_entries]
        self._close([evicted for evicted, _ in detached])
        with self._changed:
            for _, freed in detached:
                self._release_bytes(freed)

    def __enter__(self) -> KeyCache[Held, Ready]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- with the lock held

    def _grant(self, key: str) -> Lease[Ready] | None:
        """Lease a loaded key and count a hit; None if it is not loaded."""
        self._check_open()
        entry = self._entries.get(key)
        if entry is None or entry.ready is None:
            return None
        entry.hits += 1
        entry.leases += 1
        return self._new_lease(key, entry)

    def _new_lease(self, key: str, entry: _Entry[Held, Ready]) -> Lease[Ready]:
        assert entry.ready is not None
        self._mark_used(entry)
        return Lease(key, entry.ready, lambda: self._release(key))

    def _begin(self, key: str, needs: Needs) -> _Load:
        """Join the load of a key, or enqueue one."""
        self._entry(key).misses += 1
        load = self._loads.get(key)
        if load is None or load.stopped:
            load = self._loads[key] = _Load(key, needs)
            self._queue.append(load)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="quod-keys", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        load.waiters += 1
        return load

    def _await(
        self, load: _Load, deadline: float | None, cancellation: Cancellation | None
    ) -> Lease[Ready]:
        """Wait for a load; return the lease that it granted."""
        try:
            while not load.done:
                self._check_open()
                if cancellation is not None:
                    cancellation.check(f"waiting for the key {load.key}")
                remaining_seconds = None if deadline is None else deadline - time.monotonic()
                if remaining_seconds is not None and remaining_seconds <= 0:
                    raise KeysBusyError(
                        f"the key {load.key} could not be loaded in time: other keys "
                        "are in use or ahead of it",
                        retry_seconds=_RETRY_SECONDS,
                    )
                self._changed.wait(remaining_seconds)
        except BaseException:
            if load.done and load.error is None:
                # Ctrl-C arrived after the lease was granted.
                self._entries[load.key].leases -= 1
            elif not load.done:
                self._withdraw(load)
            self._changed.notify_all()
            raise
        if load.error is not None:
            raise load.error
        return self._new_lease(load.key, self._entries[load.key])

    def _withdraw(self, load: _Load) -> None:
        """Withdraw one caller from a load; the last one stops it."""
        load.waiters -= 1
        if not load.waiters:
            load.stopped = True
            if load in self._queue:
                self._queue.remove(load)
                self._end_load(load)

    def _end_load(self, load: _Load, error: BaseException | None = None) -> None:
        load.done, load.error = True, error
        if self._loads.get(load.key) is load:
            del self._loads[load.key]
        self._changed.notify_all()

    def _entry(self, key: str) -> _Entry[Held, Ready]:
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= _MAX_KNOWN:
                unused_keys = [
                    name
                    for name, cached_entry in self._entries.items()
                    if not self._is_used(name, cached_entry)
                ]
                for name in unused_keys:
                    del self._entries[name]
            entry = self._entries[key] = _Entry()
        return entry

    def _is_used(self, key: str, entry: _Entry[Held, Ready]) -> bool:
        return entry.held is not None or entry.loading or key in self._loads

    def _mark_used(self, entry: _Entry[Held, Ready]) -> None:
        self._tick += 1
        entry.used = self._tick

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()

    def _usage(self, key: str, entry: _Entry[Held, Ready]) -> KeyUse:
        tier = Tier.DISK
        if entry.held is not None:
            tier = entry.needs.tier if entry.ready is not None and entry.needs else Tier.HOST
        return KeyUse(
            key, tier, entry.ready is not None, entry.loading, entry.bytes(Tier.HOST),
            entry.bytes(Tier.DEVICE), entry.leases, entry.hits, entry.misses, entry.loads,
            entry.failures, entry.evictions, entry.load_seconds,
        )  # fmt: skip

    def _detach(
        self, entry: _Entry[Held, Ready], *, to_host: bool
    ) -> tuple[tuple[Held | None, Ready | None], dict[Tier, int]]:
        """Detach a key from device or host; return the objects to close and the freed bytes."""
        bytes_before = {tier: entry.bytes(tier) for tier in _BUDGETED}
        closing = (None if to_host else entry.held, entry.ready)
        entry.evictions += 1
        entry.ready = None
        if not to_host:
            entry.held = None
        return closing, {tier: bytes_before[tier] - entry.bytes(tier) for tier in _BUDGETED}

    def _release_bytes(self, freed: Mapping[Tier, int]) -> None:
        for tier in _BUDGETED:
            self._used[tier] -= freed[tier]
        self._changed.notify_all()

    def _release(self, key: str) -> None:
        with self._changed:
            entry = self._entries[key]
            entry.leases -= 1
            self._mark_used(entry)
            is_last = self._closed and not entry.leases
            self._changed.notify_all()
        if is_last:
            self._evict_last(key)

    def _evict_last(self, key: str) -> None:
        with self._changed:
            entry = self._entries[key]
            if not entry.idle:
                return
            evicted, freed = self._detach(entry, to_host=False)
        self._close([evicted])
        with self._changed:
            self._release_bytes(freed)

    # --- the loading thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._closed or self._can_begin()):
                    self._changed.wait()
            # Called without the lock, as it may call this cache.
            elsewhere = self._elsewhere()
            with self._changed:
                if self._closed:
                    for load in self._queue:
                        self._end_load(load, _closed())
                    self._queue.clear()
                    return
                if not self._can_begin():
                    continue
                load = self._queue.popleft()
                entry = self._entry(load.key)
                entry.loading = True
                evicted = self._evict_for(load, elsewhere)
            self._load(load, entry, evicted)

    def _can_begin(self) -> bool:
        return bool(self._queue) and self._fits(self._queue[0])

    def _load_bytes(self, load: _Load) -> dict[Tier, int]:
        """Return the additional bytes that a load takes, per tier."""
        entry = self._entry(load.key)
        return {tier: load.needs.bytes(tier) - entry.bytes(tier) for tier in _BUDGETED}

    def _missing_bytes(self, load: _Load) -> dict[Tier, int]:
        """Return the bytes of each tier that a load lacks."""
        load_bytes = self._load_bytes(load)
        return {
            tier: self._used[tier] + load_bytes[tier] - self._budgets[tier] for tier in _BUDGETED
        }

    def _fits(self, load: _Load) -> bool:
        """Report whether a load fits after evicting all keys that are not leased."""
        idle_entries = [
            entry for key, entry in self._entries.items() if entry.idle and key != load.key
        ]
        missing = self._missing_bytes(load)
        return all(
            missing[tier] <= sum(entry.bytes(tier) for entry in idle_entries) for tier in _BUDGETED
        )

    def _evict_for(
        self, load: _Load, elsewhere: Collection[str]
    ) -> list[tuple[Held | None, Ready | None]]:
        """Evict keys until a load fits, those loaded elsewhere and least recently used first.

        Reserves the memory of the load, and returns the evicted keys, which the caller closes.
        """
        idle_keys = sorted(
            (key not in elsewhere, entry.used, key)
            for key, entry in self._entries.items() if entry.idle
        )  # fmt: skip
        evicted = []
        for tier in _BUDGETED:
            for *_, key in idle_keys:
                entry = self._entries[key]
                if self._missing_bytes(load)[tier] <= 0:
                    break
                if entry.bytes(tier):
                    values, freed = self._detach(entry, to_host=tier is Tier.DEVICE)
                    evicted.append(values)
                    self._release_bytes(freed)
        for tier, load_bytes in self._load_bytes(load).items():
            self._used[tier] += load_bytes
        return evicted

    def _load(
        self, load: _Load, entry: _Entry[Held, Ready],
        evicted: list[tuple[Held | None, Ready | None]],
    ) -> None:  # fmt: skip
        """Close the `evicted` keys, load a key, and wake the callers that wait for it."""

        def check_cancelled() -> None:
            if load.stopped:
                raise _StoppedError

        begin = time.monotonic()
        held, ready, needs = entry.held, None, load.needs
        failure: BaseException | None = None
        try:
            self._close(evicted)
            evicted.clear()
            check_cancelled()
            if held is None:
                held = self._loader.read(load.key, check_cancelled)
            check_cancelled()
            ready, needs = self._loader.prepare(load.key, held, needs, check_cancelled)
        except BaseException as error:
            # The error is kept by other threads and must not keep the key's memory alive.
            failure = error.with_traceback(None)
            held = None
        with self._changed:
            entry.loading = False
            # The bytes that were reserved give way to those that the key takes.
            for tier in _BUDGETED:
                self._used[tier] -= load.needs.bytes(tier)
            entry.held = entry.ready = entry.needs = None
            if failure is None:
                entry.held, entry.ready, entry.needs = held, ready, needs
                entry.loads += 1
                entry.load_seconds = time.monotonic() - begin
                entry.leases += load.waiters
                self._mark_used(entry)
                for tier in _BUDGETED:
                    self._used[tier] += needs.bytes(tier)
            elif not isinstance(failure, _StoppedError):
                entry.failures += 1
            self._end_load(load, _closed() if isinstance(failure, _StoppedError) else failure)

    def _close(self, evicted: Iterable[tuple[Held | None, Ready | None]]) -> None:
        for _, ready in evicted:
            if ready is not None:
                self._loader.close(ready)


def _closed() -> UnavailableError:
    return UnavailableError(
        "the keys are closed because the service is stopping", retry_seconds=_RETRY_SECONDS
    )


def _seconds(timeout: object) -> float:
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 <= timeout < 1e9:
        return float(timeout)
    raise InputError(f"timeout must be None or seconds from 0, not {shown(timeout)}")
