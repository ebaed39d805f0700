"""Placement of work by key: on a model of workers, and with processes that prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from quod.groth16.gpu import bases
from quod.service.keys import CacheStatus, KeyUse, Tier
from quod.service.queue import JobState
from quod.service.server.metrics import Metrics
from quod.service.worker.pools import placement
from quod.service.worker.pools.local import LocalPool
from quod.service.worker.pools.placement import MIN_REPLICATION_SECONDS, Placement
from quod.service.worker.pools.pool import Stage, WorkerState, WorkerStatus
from quod.service.worker.pools.processes import ProcessPool
from quod.service.worker.settings import WorkerSettings
from tests.service.worker.conftest import Bench, eventually
from tests.support.thorough import one_and_others

BUDGET = 100


@dataclass
class Fleet:
    """Workers that are told what they have, and a queue of keys that wait so many seconds."""

    keys: dict[str, dict[str, tuple[int, float]]]
    waits: dict[str, float] = field(default_factory=dict)
    states: dict[str, WorkerState] = field(default_factory=dict)
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.placement = Placement(self.status, lambda: self.now)

    def status(self) -> list[WorkerStatus]:
        return [self._status(name, keys) for name, keys in self.keys.items()]

    def _status(self, name: str, keys: Mapping[str, tuple[int, float]]) -> WorkerStatus:
        uses = tuple(
            KeyUse(key, Tier.DEVICE, True, False, 0, size, 0, 0, 0, 1, 0, 0, load)
            for key, (size, load) in keys.items()
        )
        used = {Tier.DEVICE: sum(size for size, _ in keys.values())}
        return WorkerStatus(
            name, "gpu", self.states.get(name, WorkerState.READY), 0.0, 0,
            {"j": Stage.PROVE} if name in self.busy else {}, 0, 0, 0.0, {},
            CacheStatus(True, {Tier.DEVICE: BUDGET}, used, 0, uses), "", self.wanted.get(name, ()),
        )  # fmt: skip

    def later(self, seconds: float, **waits: float) -> None:
        self.now += seconds
        self.waits = waits

    def asks(self, worker: str) -> list[str] | None:
        """Return the keys that a worker is told to take, computed anew each time."""
        self.now += 0.1
        return self.placement.choose(worker, lambda: sorted(self.waits), self.waits.__getitem__)


def test_work_is_placed_where_its_key_is_loaded() -> None:
    fleet = Fleet({"0": {"a": (10, 1.0)}, "1": {"b": (10, 1.0)}})
    fleet.later(10, a=0.2, b=0.2)
    assert (fleet.asks("0"), fleet.asks("1")) == (["a"], ["b"])
    # Nobody else takes it, so that there is nothing to be decided.
    fleet.states["1"] = WorkerState.QUARANTINED
    assert fleet.asks("0") is None
    assert Fleet({"0": {}}).asks("0") is None
    assert fleet.asks("unknown") is None


def test_unloaded_key_is_assigned_once_to_the_emptiest_worker() -> None:
    fleet = Fleet({"0": {"a": (10, 1.0)}, "1": {}})
    fleet.later(10, c=0.0)
    assert (fleet.asks("0"), fleet.asks("1")) == ([], ["c"])
    fleet.placement.record_claim("1", ["c"])
    # Before the worker itself tells of it, and afterwards.
    assert (fleet.asks("0"), fleet.asks("1")) == ([], ["c"])
    fleet.wanted["1"] = ("c",)
    fleet.later(1000, c=999.0)
    assert (fleet.asks("0"), fleet.asks("1")) == ([], ["c"])
    # A load that failed is nobody's any more; who is busy is not waited for.
    fleet.wanted.clear()
    fleet.busy.add("1")
    assert fleet.asks("0") == ["c"]
    # Nor for long who is free and does not come.
    fleet.busy.clear()
    fleet.later(1, c=0.1)
    assert fleet.asks("0") == []
    fleet.later(1, c=1.0)
    assert fleet.asks("0") == ["c"]
    assert fleet.placement.replications("1") == 0


def test_key_is_replicated_if_waiting_exceeds_its_load_time() -> None:
    fleet = Fleet({"0": {"a": (10, 5.0)}, "1": {}, "2": {}})
    fleet.asks("0")
    # What was waited for its first load does not count.
    fleet.later(1, a=100.0)
    assert fleet.asks("1") == []
    fleet.later(10, a=4.0)
    assert fleet.asks("1") == []
    fleet.later(1, a=6.0)
    assert (fleet.asks("1"), fleet.asks("2")) == (["a"], ["a"])
    fleet.placement.record_claim("1", ["a"])
    assert fleet.asks("2") == []
    assert fleet.placement.replications("1") == 1
    # Another one waits for what the second makes of it.
    fleet.keys["1"] = {"a": (10, 5.0)}
    fleet.later(2, a=20.0)
    assert fleet.asks("2") == []
    fleet.later(6, a=20.0)
    assert fleet.asks("2") == ["a"]
    assert fleet.placement.elsewhere("0") == {"a"}
    assert fleet.placement.elsewhere("2") == {"a"}
    # With less work nobody else is asked.
    fleet.later(1, a=1.0)
    assert (fleet.asks("1"), fleet.asks("2")) == (["a"], [])


def test_a_small_load_still_costs_a_first_proof() -> None:
    fleet = Fleet({"0": {"a": (10, 0.01)}, "1": {}})
    fleet.asks("0")
    fleet.later(10, a=0.9 * MIN_REPLICATION_SECONDS)
    assert fleet.asks("1") == []
    fleet.later(10, a=1.1 * MIN_REPLICATION_SECONDS)
    assert fleet.asks("1") == ["a"]


def test_two_hot_keys_do_not_drive_each_other_out() -> None:
    fleet = Fleet({"0": {"a": (60, 1.0)}, "1": {"b": (60, 1.0)}})
    fleet.asks("0")
    fleet.later(100, a=50.0, b=50.0)
    assert (fleet.asks("0"), fleet.asks("1")) == (["a"], ["b"])
    # Where there is room beside, or nothing else to do, it is another matter.
    fleet.later(1, a=50.0)
    assert fleet.asks("1") == ["a"]
    fleet = Fleet({"0": {"a": (20, 1.0), "c": (30, 1.0)}, "1": {"b": (60, 1.0)}})
    fleet.asks("0")
    fleet.later(100, a=50.0, b=50.0)
    assert (fleet.asks("0"), fleet.asks("1")) == (["a"], ["a", "b"])


def test_keys_of_a_dead_worker_are_reassigned() -> None:
    fleet = Fleet({"0": {"a": (10, 100.0)}, "1": {}, "2": {}})
    fleet.later(10, a=1.0)
    assert fleet.asks("1") == []
    fleet.states["0"] = WorkerState.DEAD
    assert fleet.asks("1") == ["a"]
    assert fleet.placement.elsewhere("1") == frozenset()


@pytest.mark.parametrize("device", one_and_others(["cpu", "emulated"]))
def test_keys_are_distributed_over_workers(
    bench: Bench, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is, nothing waits too long for where it belongs.
    for name in ("MIN_REPLICATION_SECONDS", "_GRACE_SECONDS"):
        monkeypatch.setattr(placement, name, 600.0)
    two = [WorkerSettings(device, ahead=1), WorkerSettings("cpu", ahead=1)]
    pool: LocalPool | ProcessPool
    if device == "cpu":
        pool = bench.started(ProcessPool(bench.queue, bench.repository, two))
    else:
        # Multiples take an interpreter long.
        monkeypatch.setattr(bases, "_MULTIPLES", (1,))
        pool = bench.pool(*two)
    eventually(lambda: all(status.state is WorkerState.READY for status in pool.status()))
    first, second = (status.name for status in pool.status())
    # One at a time nobody waits: a key stays on one device.
    pool.preload("small", worker=first)
    shared = pool._placement
    assert shared is not None
    eventually(lambda: shared.elsewhere(second) == {bench.key})
    for _ in range(2):
        assert bench.ended(bench.submit()).state is JobState.SUCCEEDED
    eventually(lambda: {record.worker for record in bench.records} == {first})
    # The other is the emptier one, so that it gets a key that nobody has.
    other = bench.submit(key=bench.other)
    assert bench.ended(other).state is JobState.FAILED
    eventually(
        lambda: (
            [record.job for record in bench.records if record.worker == second] == [other.id] * 2
        )
    )
    assert [status.replications for status in pool.status()] == [0, 0]


@pytest.mark.thorough
def test_a_hot_key_is_replicated(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MIN_REPLICATION_SECONDS", 0.05)
    two = [WorkerSettings("cpu", ahead=1)] * 2
    pool = bench.started(ProcessPool(bench.queue, bench.repository, two))
    eventually(lambda: all(status.state is WorkerState.READY for status in pool.status()))
    # Loaded by one alone: on a busy machine both may take a key that nobody has.
    first, second = (status.name for status in pool.status())
    pool.preload("small", worker=first)
    shared = pool._placement
    assert shared is not None
    eventually(lambda: shared.elsewhere(second) == {bench.key})
    # What waits grows until it waits longer than the key took to load, however long that was.
    jobs = [bench.submit() for _ in range(20)]
    oldest = iter(jobs)
    while not sum(status.replications for status in pool.status()):
        jobs += [bench.submit() for _ in range(3)]
        bench.ended(next(oldest))
    for job in jobs:
        assert bench.ended(job).state is JobState.SUCCEEDED
        bench.check_results(job)
    eventually(
        lambda: all(status.keys.keys and status.keys.keys[0].ready for status in pool.status())
    )
    metrics = Metrics()
    metrics.watch(bench.queue, pool)
    text = metrics.text().decode()
    assert f'quod_key_copies{{key="{bench.key}"}} 2.0' in text
    assert 'quod_key_replications_total{device="cpu",worker="cpu#' in text
    # What is elsewhere goes first, where a key must go.
    assert shared.elsewhere(first) == {bench.key}
