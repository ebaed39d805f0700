"""A loader of keys that are numbers: what they take is told, and each load can be held or fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from quod.errors import InputError
from quod.service.keys import Needs, Tier


@dataclass
class FakeReady:
    """A fake ready key, whose leases are tracked."""

    key: str
    closed: bool = False


@dataclass
class FakeLoader:
    """`sizes` has bytes when held and when ready of each key; `tier` is where keys are ready.

    A load stands at `gate`, where it hears that it is to stop unless it is `deaf`; one of a key
    in `failing` fails. `log` has what was done.
    """

    sizes: Mapping[str, tuple[int, int]]
    tier: Tier = Tier.DEVICE
    failing: dict[str, BaseException] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    log: list[tuple[str, str]] = field(default_factory=list)
    alive: int = 0
    saved: int = 0
    deaf: bool = False

    def __post_init__(self) -> None:
        self.gate.set()

    def needs(self, key: str) -> Needs:
        if key not in self.sizes:
            raise InputError(f"no key {key}")
        held, ready = self.sizes[key]
        return Needs({"file": held}, {"bases": ready, "slack": self.saved}, self.tier)

    def read(self, key: str, check_cancelled: Callable[[], None]) -> str:
        self.log.append(("read", key))
        while not self.gate.wait(0.002):
            if not self.deaf:
                check_cancelled()
        return key

    def prepare(
        self, key: str, held: str, needs: Needs, check_cancelled: Callable[[], None]
    ) -> tuple[FakeReady, Needs]:
        assert held == key
        self.log.append(("prepare", key))
        if key in self.failing:
            raise self.failing[key]
        self.alive += 1
        return FakeReady(key), Needs(needs.held, {"bases": needs.ready["bases"]}, self.tier)

    def close(self, ready: FakeReady) -> None:
        assert not ready.closed
        ready.closed = True
        self.alive -= 1
