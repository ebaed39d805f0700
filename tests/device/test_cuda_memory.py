"""The pool of a GPU's memory, over a driver that only counts."""

from __future__ import annotations

import gc
import itertools
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.device.cuda.driver import CudaError
from quod.device.cuda.memory import MemoryPool
from quod.device.memory.buffer import Buffer, Space
from quod.errors import DeviceError

KIB, MIB = 1 << 10, 1 << 20


class CountingDriver:
    """Gives addresses, far apart, of memory that is nowhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.segments: dict[int, int] = {}
        self._next = 1 << 40

    @property
    def free(self) -> int:
        return self.total - sum(self.segments.values())

    def cuMemAlloc(self, size: int) -> int:
        if size > self.free:
            raise CudaError("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
        address = self._next
        self._next += size + (1 << 30)
        self.segments[address] = size
        return address

    def cuMemFree(self, address: int) -> None:
        del self.segments[address]

    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.free, self.total


def pool_of(total: int, limit: int | None = None) -> tuple[MemoryPool, CountingDriver]:
    driver: Any = CountingDriver(total)
    return MemoryPool(driver, Space("a GPU"), "cuda:0", limit or total), driver


@settings(max_examples=60)
@given(st.data())
def test_buffers_never_overlap_and_all_memory_is_freed(data: st.DataObject) -> None:
    pool, driver = pool_of(1 << 30)
    held: list[Buffer] = []
    for _ in range(data.draw(st.integers(1, 60))):
        if held and data.draw(st.booleans()):
            held.pop(data.draw(st.integers(0, len(held) - 1)))
        else:
            exact = st.integers(0, 40 * MIB)
            edge = st.sampled_from([0, 1, 511, 512, 513, MIB - 1, MIB, MIB + 1, 2 * MIB, 64 * MIB])
            held.append(pool.allocate(data.draw(exact | edge)))
        spans = sorted((b.address, b.address + max(1, b.nbytes)) for b in held)
        assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(spans))
        for start, stop in spans:
            assert start % 512 == 0
            assert any(s <= start and stop <= s + n for s, n in driver.segments.items())
        statistics = pool.statistics()
        assert sum(b.nbytes for b in held) <= statistics.in_use <= statistics.reserved
        assert statistics.reserved == sum(driver.segments.values())
        assert statistics.segments == len(driver.segments)
        assert statistics.largest_free <= statistics.reserved - statistics.in_use
        assert 0 <= statistics.fragmentation <= 1
    held.clear()
    statistics = pool.statistics()
    assert statistics.in_use == 0
    assert statistics.largest_free == max(driver.segments.values())
    assert statistics.peak_in_use > 0


def test_freed_memory_is_reused_without_the_driver() -> None:
    pool, driver = pool_of(1 << 30)
    address = pool.allocate(5 * MIB).address
    for _ in range(10):
        assert pool.allocate(5 * MIB).address == address
    assert len(driver.segments) == 1
    assert (pool.statistics().requests, pool.statistics().kept) == (11, 10)


def test_adjacent_free_blocks_are_merged() -> None:
    pool, _ = pool_of(1 << 30)
    parts = [pool.allocate(16 * MIB) for _ in range(4)]
    assert pool.statistics().largest_free == 0
    first = parts[0].address
    for number in (1, 3, 0, 2):
        parts[number] = pool.allocate(0)
    assert pool.statistics().largest_free == 64 * MIB
    assert pool.allocate(64 * MIB).address == first


def test_allocation_is_best_fit() -> None:
    pool, _ = pool_of(1 << 30)
    parts = [pool.allocate(size * MIB) for size in (10, 2, 20, 2, 30)]
    hole = parts[0].address
    parts[0] = parts[2] = pool.allocate(0)
    assert pool.allocate(8 * MIB).address == hole


def test_small_and_large_allocations_use_separate_pools() -> None:
    pool, driver = pool_of(1 << 30)
    small, large = pool.allocate(512), pool.allocate(2 * MIB)
    assert sorted(driver.segments.values()) == [8 * MIB, 64 * MIB]
    assert abs(small.address - large.address) >= 1 << 30


def test_a_slice_keeps_the_block() -> None:
    pool, _ = pool_of(1 << 30)
    part = pool.allocate(4 * MIB).slice(MIB, 2 * MIB)
    gc.collect()
    assert pool.statistics().in_use == 4 * MIB
    del part
    assert pool.statistics().in_use == 0


def test_unused_segments_are_freed_on_demand() -> None:
    pool, driver = pool_of(256 * MIB)
    for size in (100, 120):
        pool.allocate(size * MIB)
    assert len(driver.segments) == 2
    assert pool.allocate(200 * MIB).nbytes == 200 * MIB
    assert list(driver.segments.values()) == [200 * MIB]


def test_last_memory_is_allocated_without_slack() -> None:
    pool, _ = pool_of(40 * MIB)
    assert pool.allocate(20 * MIB).nbytes == 20 * MIB


def test_other_driver_errors_propagate() -> None:
    pool, driver = pool_of(1 << 30)

    def lost(size: int) -> int:
        raise CudaError("cuMemAlloc", "CUDA_ERROR_LAUNCH_FAILED", "lost")

    driver.cuMemAlloc = lost  # type: ignore[method-assign]
    with pytest.raises(CudaError, match="LAUNCH_FAILED"):
        pool.allocate(1)


def test_invalid_sizes_are_rejected() -> None:
    pool, _ = pool_of(MIB)
    with pytest.raises(DeviceError, match=r"number of bytes of a buffer .*, not -1"):
        pool.allocate(-1)


def test_threads() -> None:
    pool, _ = pool_of(1 << 40)
    failures: list[BaseException] = []

    def task(seed: int) -> None:
        try:
            held = []
            for n in range(200):
                held.append(pool.allocate((seed * n * 7919) % (3 * MIB)))
                if n % 3:
                    held.pop(n % len(held))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=task, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    gc.collect()
    assert pool.statistics().in_use == 0
