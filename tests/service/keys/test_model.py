"""The cache against a plain model: random leases, ends of leases, evictions and failures."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quod.errors import DeviceError
from quod.service.errors import KeyInUseError, KeysBusyError, KeyTooLargeError
from quod.service.keys import KeyCache, Lease, Tier
from tests.service.keys.fake_loader import FakeLoader, FakeReady

SIZES = {"a": (1, 3), "b": (2, 2), "c": (4, 4), "d": (3, 6), "e": (6, 1), "f": (9, 1), "g": (1, 9)}
HOST, DEVICE = 8, 8
KEYS = st.sampled_from(sorted(SIZES))


@dataclass
class Entry:
    """A key of the model."""

    tier: Tier = Tier.DISK
    leases: int = 0
    used: int = 0
    hits: int = 0
    loads: int = 0


class Model:
    """Model of the cache, with sums taken anew each time."""

    def __init__(self, ready_in: Tier) -> None:
        self.ready_in = ready_in
        self.entries = {key: Entry() for key in SIZES}
        self.tick = 0

    def takes(self, key: str, tier: Tier) -> dict[Tier, int]:
        """Return the bytes that a key takes of host and device in a tier."""
        held, ready = SIZES[key]
        if tier is Tier.DISK:
            return {Tier.HOST: 0, Tier.DEVICE: 0}
        usage = {Tier.HOST: held, Tier.DEVICE: 0}
        if tier is self.ready_in:
            usage[self.ready_in] += ready
        return usage

    def total(self, place: Tier) -> int:
        return sum(self.takes(key, entry.tier)[place] for key, entry in self.entries.items())

    def touch(self, key: str) -> None:
        self.tick += 1
        self.entries[key].used = self.tick

    def room(self, key: str) -> bool:
        """Takes out what must go for a key, if that is enough."""
        wanted, budgets = self.takes(key, self.ready_in), {Tier.HOST: HOST, Tier.DEVICE: DEVICE}
        before = {name: entry.tier for name, entry in self.entries.items()}
        # The key's own place is part of what it takes.
        self.entries[key].tier = Tier.DISK
        idle = sorted(
            (name for name, entry in self.entries.items() if name != key and not entry.leases),
            key=lambda name: self.entries[name].used,
        )
        for place in (Tier.HOST, Tier.DEVICE):
            for name in idle:
                if self.total(place) + wanted[place] <= budgets[place]:
                    break
                if self.takes(name, self.entries[name].tier)[place]:
                    self.entries[name].tier = Tier.DISK if place is Tier.HOST else Tier.HOST
        fits = all(self.total(place) + wanted[place] <= budgets[place] for place in budgets)
        if not fits:
            for name, tier in before.items():
                self.entries[name].tier = tier
        return fits


class Machine(RuleBasedStateMachine):
    """Both, side by side."""

    tier = Tier.DEVICE

    def __init__(self) -> None:
        super().__init__()
        self.loader = FakeLoader(SIZES, self.tier)
        budgets = {Tier.HOST: HOST, Tier.DEVICE: DEVICE}
        self.cache: KeyCache[str, FakeReady] = KeyCache(self.loader, budgets)
        self.model = Model(self.tier)
        self.leases: list[Lease[FakeReady]] = []

    @rule(key=KEYS, fails=st.sampled_from([False, False, False, True]))
    def lease(self, key: str, fails: bool) -> None:
        entry = self.model.entries[key]
        usage = self.model.takes(key, self.tier)
        self.loader.failing = {key: DeviceError("no")} if fails else {}
        if entry.tier is self.tier:
            entry.hits += 1
        elif usage[Tier.HOST] > HOST or usage[Tier.DEVICE] > DEVICE:
            self.expect(key, KeyTooLargeError)
            return
        elif not self.model.room(key):
            self.expect(key, KeysBusyError, timeout=0.002)
            return
        elif fails:
            entry.tier = Tier.DISK
            self.expect(key, DeviceError)
            return
        else:
            entry.tier = self.tier
            entry.loads += 1
        self.leases.append(self.cache.lease(key, timeout=30))
        entry.leases += 1
        self.model.touch(key)

    def expect(self, key: str, kind: type[Exception], timeout: float = 30) -> None:
        try:
            self.cache.lease(key, timeout=timeout)
        except kind:
            return
        raise AssertionError(f"{key} was leased")

    @rule(number=st.integers(0, 100))
    def release(self, number: int) -> None:
        if self.leases:
            lease = self.leases.pop(number % len(self.leases))
            assert not lease.value.closed
            lease.release()
            self.model.entries[lease.key].leases -= 1
            self.model.touch(lease.key)

    @rule(key=KEYS)
    def evict(self, key: str) -> None:
        entry = self.model.entries[key]
        try:
            done = self.cache.evict(key)
        except KeyInUseError:
            assert entry.leases
            return
        assert not entry.leases
        assert done == (entry.tier is not Tier.DISK)
        entry.tier = Tier.DISK

    @invariant()
    def same(self) -> None:
        status = self.cache.status()
        assert status.waiting == 0
        for place in (Tier.HOST, Tier.DEVICE):
            assert status.used[place] == self.model.total(place) <= status.budgets[place]
        for use in status.keys:
            entry = self.model.entries[use.key]
            usage = self.model.takes(use.key, entry.tier)
            assert (use.tier, use.ready) == (entry.tier, entry.tier is self.tier)
            assert (use.host_bytes, use.device_bytes) == (usage[Tier.HOST], usage[Tier.DEVICE])
            assert (use.leases, use.hits, use.loads) == (entry.leases, entry.hits, entry.loads)
        ready = sum(entry.tier is self.tier for entry in self.model.entries.values())
        assert self.loader.alive == ready

    def teardown(self) -> None:
        for lease in self.leases:
            lease.release()
        self.cache.close()
        assert self.loader.alive == 0


class HostMachine(Machine):
    """On a device that computes in host memory."""

    tier = Tier.HOST


TestOnADevice = Machine.TestCase
TestInHostMemory = HostMachine.TestCase
TestOnADevice.settings = TestInHostMemory.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
