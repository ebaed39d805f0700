"""The key cache: one load for all waiters, leased keys stay, errors are reported, not cached."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from quod.device.runtime.cancellation import Cancellation
from quod.errors import DeviceError, InputError
from quod.service.errors import (
    KeyInUseError,
    KeysBusyError,
    KeyTooLargeError,
    UnavailableError,
)
from quod.service.keys import KeyCache, KeyUse, Tier
from tests.service.keys.fake_loader import FakeLoader, FakeReady

Cache = KeyCache[str, FakeReady]
SIZES = {"a": (10, 40), "b": (10, 40), "c": (20, 80), "d": (90, 10)}


def made(host: int = 100, device: int = 100, tier: Tier = Tier.DEVICE) -> tuple[FakeLoader, Cache]:
    loader = FakeLoader(SIZES, tier)
    return loader, KeyCache(loader, {Tier.HOST: host, Tier.DEVICE: device})


def use_of(cache: Cache, key: str) -> KeyUse:
    [key_use] = [use for use in cache.status().keys if use.key == key]
    return key_use


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_concurrent_leases_share_one_load() -> None:
    loader, cache = made()
    loader.gate.clear()
    with cache, ThreadPoolExecutor(12) as pool:
        leases = [pool.submit(cache.lease, "a") for _ in range(12)]
        until(lambda: loader.log == [("read", "a")] and use_of(cache, "a").misses == 12)
        assert use_of(cache, "a").loading
        with pytest.raises(KeyInUseError, match="being loaded"):
            cache.evict("a")
        loader.gate.set()
        loaded_leases = [lease.result() for lease in leases]
        assert len({id(lease.value) for lease in loaded_leases}) == 1
        assert loader.log == [("read", "a"), ("prepare", "a")]
        assert use_of(cache, "a").leases == 12
        with pytest.raises(KeyInUseError):
            cache.evict("a")
        for lease in loaded_leases:
            lease.release()
            lease.release()
        with cache.lease("a") as again:
            assert again.value is loaded_leases[0].value
        use = use_of(cache, "a")
        assert (use.leases, use.hits, use.misses, use.loads, use.tier) == (0, 1, 12, 1, Tier.DEVICE)
        assert (use.host_bytes, use.device_bytes) == (10, 40)
        assert cache.evict("a")
        assert not cache.evict("a")
        assert not cache.evict("never")
        assert set(cache.status().used.values()) == {0}
        assert loaded_leases[0].value.closed


def test_load_failure_reaches_all_waiters_and_is_not_cached() -> None:
    loader, cache = made()
    loader.gate.clear()
    loader.failing["a"] = DeviceError("out of order")
    with cache, ThreadPoolExecutor(4) as pool:
        leases = [pool.submit(cache.lease, "a") for _ in range(4)]
        until(lambda: loader.log == [("read", "a")] and use_of(cache, "a").misses == 4)
        loader.gate.set()
        assert {str(lease.exception()) for lease in leases} == {"out of order"}
        assert (use_of(cache, "a").failures, use_of(cache, "a").tier) == (1, Tier.DISK)
        assert set(cache.status().used.values()) == {0}
        loader.failing.clear()
        cache.preload("a")
        assert use_of(cache, "a").loads == 1


def test_eviction_is_lru_and_skips_leased_keys() -> None:
    loader, cache = made()
    with cache:
        cache.preload("a")
        cache.preload("b")
        cache.preload("a")
        with cache.lease("a") as leased:
            # c needs 80 on the device: b would not be enough, so that it stays.
            with pytest.raises(KeysBusyError) as caught:
                cache.lease("c", timeout=0.02)
            assert caught.value.retry_seconds > 0
            assert [use_of(cache, key).tier for key in "abc"] == [
                Tier.DEVICE, Tier.DEVICE, Tier.DISK
            ]  # fmt: skip
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(cache.lease, "c")
                until(lambda: cache.status().waiting == 1)
                assert not leased.value.closed
                leased.release()
                waiting.result().release()
        assert leased.value.closed
        # They went from the device to the host, and are not read again.
        assert [use_of(cache, key).tier for key in "abc"] == [Tier.HOST, Tier.HOST, Tier.DEVICE]
        cache.preload("b")
        assert loader.log.count(("read", "b")) == 1
        assert loader.log.count(("prepare", "b")) == 2
        assert [use_of(cache, key).tier for key in "abc"] == [Tier.HOST, Tier.DEVICE, Tier.HOST]
        # The host's memory is short: the oldest of all go to disk.
        cache.preload("d")
        assert [use_of(cache, key).tier for key in "abcd"] == [
            Tier.DISK, Tier.DEVICE, Tier.DISK, Tier.DEVICE
        ]  # fmt: skip
    assert loader.alive == 0


def test_keys_cached_elsewhere_are_evicted_first() -> None:
    _, cache = made()
    with cache:
        # It may look at the cache itself.
        cache.spare_first(lambda: ["b"] if cache.status().keys else [])
        for key in "abd":
            cache.preload(key)
        assert [use_of(cache, key).tier for key in "abd"] == [
            Tier.DEVICE, Tier.DISK, Tier.DEVICE
        ]  # fmt: skip


def test_key_larger_than_the_budget_is_rejected() -> None:
    loader, cache = made(host=100, device=79)
    loader.saved = 2
    with cache:
        with pytest.raises(KeyTooLargeError) as caught:
            cache.lease("c")
        assert caught.value.parts == {"bases": 80, "slack": 2}
        assert caught.value.budget == 79
        for text in ("82 bytes", "bases 80 bytes + slack 2 bytes", "79 bytes", "device"):
            assert text in str(caught.value)
        with pytest.raises(KeyTooLargeError, match="at the start needs 84 bytes on the device"):
            cache.warm(["a", "b"])
        assert not cache.ready
        assert loader.log == []
    _, cache = made(host=49, tier=Tier.HOST)
    with cache, pytest.raises(KeyTooLargeError, match="50 bytes in host memory"):
        cache.lease("a")


def test_memory_saved_by_a_load_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    loader, cache = made(device=100)
    loader.saved = 15
    with cache:
        cache.preload("a")
        assert cache.status().used[Tier.DEVICE] == 40
        cache.preload("b")
        assert use_of(cache, "a").tier is Tier.DEVICE


def test_last_waiter_to_leave_cancels_the_load() -> None:
    loader, cache = made()
    loader.gate.clear()
    with cache, ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.lease, "a", timeout=0.5)
        until(lambda: loader.log == [("read", "a")])
        second = Cancellation()

        def cancelled() -> None:
            with second:
                cache.lease("a")

        waiting = pool.submit(cancelled)
        until(lambda: use_of(cache, "a").misses == 2)
        assert isinstance(first.exception(), KeysBusyError)
        assert use_of(cache, "a").loading
        second.cancel()
        assert isinstance(waiting.exception(), DeviceError)
        until(lambda: not use_of(cache, "a").loading)
        assert (use_of(cache, "a").tier, use_of(cache, "a").failures) == (Tier.DISK, 0)
        assert set(cache.status().used.values()) == {0}
        loader.gate.set()
        cache.lease("a").release()


def test_request_during_cancellation_starts_a_new_load() -> None:
    loader, cache = made()
    loader.gate.clear()
    loader.deaf = True
    with cache, ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeysBusyError):
            cache.lease("a", timeout=0.05)
        later = pool.submit(cache.lease, "a")
        until(lambda: use_of(cache, "a").misses == 2)
        assert use_of(cache, "a").loading
        loader.gate.set()
        later.result().release()
        assert loader.log == [("read", "a"), ("read", "a"), ("prepare", "a")]
        assert (use_of(cache, "a").loads, use_of(cache, "a").failures) == (1, 0)


def test_loads_are_fifo_and_cancellable() -> None:
    _loader, cache = made()
    with cache, ThreadPoolExecutor(2) as pool, cache.lease("a"):
        large = pool.submit(cache.lease, "c", timeout=1.5)
        until(lambda: cache.status().waiting == 1)
        # b would fit now, but c has come before.
        small = pool.submit(cache.lease, "b")
        until(lambda: cache.status().waiting == 2)
        time.sleep(0.02)
        assert not small.done()
        assert isinstance(large.exception(), KeysBusyError)
        small.result().release()
        assert cache.status().waiting == 0


def test_warm_and_ready() -> None:
    loader, cache = made()
    assert not cache.ready
    loader.failing["b"] = DeviceError("no")
    with pytest.raises(DeviceError):
        cache.warm(["a", "b"])
    assert not cache.ready
    loader.failing.clear()
    cache.warm(["a", "b", "a"])
    assert cache.ready
    assert cache.status().ready
    cache.close()
    assert not cache.ready
    assert loader.alive == 0


def test_closing() -> None:
    loader, cache = made()
    kept = cache.lease("a")
    loader.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(cache.lease, key) for key in "bc"]
        until(lambda: cache.status().waiting == 1)
        cache.close()
        for each in waiting:
            assert isinstance(each.exception(), UnavailableError)
    assert not kept.value.closed
    with pytest.raises(UnavailableError):
        cache.lease("a")
    kept.release()
    assert kept.value.closed
    assert set(cache.status().used.values()) == {0}
    cache.close()


def test_many_threads_never_pass_the_budget() -> None:
    loader, cache = made(host=45, device=90)
    most: list[int] = []

    def work(number: int) -> None:
        for step in range(40):
            with cache.lease("abc"[(number * 7 + step) % 3]) as lease:
                assert not lease.value.closed
                most.append(max(cache.status().used[tier] - cache.status().budgets[tier]
                                for tier in (Tier.HOST, Tier.DEVICE)))  # fmt: skip

    with cache, ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(work, number) for number in range(6)]:
            done.result()
    assert max(most) <= 0
    assert loader.alive == 0
    assert set(cache.status().used.values()) == {0}


def test_wrong_arguments() -> None:
    loader, cache = made()
    for timeout in (-1, "1", True, float("nan")):
        with pytest.raises(InputError, match="timeout"):
            cache.lease("a", timeout=timeout)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        cache.lease("none")
    for budgets in ({}, {Tier.HOST: -1, Tier.DEVICE: 1}, {Tier.HOST: 1, Tier.DEVICE: True}):
        with pytest.raises(InputError, match="budget"):
            KeyCache(loader, budgets)
    with ExitStack() as stack:
        stack.enter_context(cache)
        assert cache.status().keys == ()
