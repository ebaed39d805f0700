"""How a worker is set up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quod.device.backends import backend_of
from quod.errors import InputError
from quod.groth16.keys import MOST_LANES
from quod.groth16.resident import MOST
from quod.service.keys.loader import DEFAULT_LANES
from quod.service.queue.validation import checked_list, checked_name, checked_seconds
from quod.validation import whole_number, whole_number_or_none

_MEMORY_SHARE = 0.25
_MOST_THREADS = 64


@dataclass(frozen=True)
class WorkerSettings:
    """A worker of one device.

    `device` is its name. `host_bytes` and `device_bytes` are the budgets of its keys (see
    `ResidentKeys`), `memory_bytes` that of all witnesses in hand and of what proofs take beside
    them in host memory: a quarter of the machine's unless given. What is not given is divided by
    how many workers are `of_device`, or `of_host`, which pools count themselves. `warm` are the
    keys that are loaded before it is ready. Of partitions that are not on the device yet up to
    `ahead` are in hand, and `checks` threads check proofs. `lanes` small proofs are computed side
    by side on a GPU: two unless given, where one would leave half of it idle. Of partitions of one
    key that is smaller still up to `together` are proved together (a power of two), 32 unless
    given; with 1 none are, and no memory is taken for them. A stage that takes longer than
    `patience_seconds` is taken for hung: its lease is not renewed any more. A proof that does not
    verify is made again by the processor, to tell who is to blame, up to `arbiter_constraints`.
    """

    device: str = "cpu"
    host_bytes: int | None = None
    device_bytes: int | None = None
    memory_bytes: int | None = None
    warm: tuple[str, ...] = ()
    ahead: int = 2
    checks: int = 2
    lanes: int | None = None
    together: int | None = None
    patience_seconds: float = 900.0
    arbiter_constraints: int = 1 << 22
    of_device: int = 1
    of_host: int = 1

    def __post_init__(self) -> None:
        checked_name("the device", self.device)
        for name in ("host_bytes", "device_bytes", "memory_bytes"):
            self.__dict__[name] = whole_number_or_none(name, getattr(self, name), 0)
        for key in checked_list("the keys of the start", self.warm):
            checked_name("a key", key)
        for name in ("ahead", "checks"):
            self.__dict__[name] = whole_number(name, getattr(self, name), 1, _MOST_THREADS)
        for name in ("of_device", "of_host"):
            self.__dict__[name] = whole_number(name, getattr(self, name), 1)
        lanes = whole_number_or_none("lanes", self.lanes, 1, MOST_LANES)
        together = whole_number_or_none("together", self.together, 1, MOST)
        checked_seconds("patience_seconds", self.patience_seconds)
        constraints = whole_number("arbiter_constraints", self.arbiter_constraints, 0)
        self.__dict__.update(lanes=lanes, together=together, arbiter_constraints=constraints)

    @property
    def most_lanes(self) -> int:
        """How many proofs its device computes side by side at most."""
        if self.lanes is not None:
            return self.lanes
        backend = backend_of(self.device)
        return 1 if backend is not None and backend.of_the_processor else DEFAULT_LANES

    @property
    def buffers(self) -> int:
        """How many witnesses are read before the device: such as wait for keys, and others."""
        return 2 * self.ahead + 2

    @property
    def work_bytes(self) -> int:
        """The budget of witnesses and proofs."""
        if self.memory_bytes is not None:
            return self.memory_bytes
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return int(machine * _MEMORY_SHARE) // self.of_host


def worker_names(settings: Sequence[WorkerSettings]) -> list[str]:
    """A name for each worker: its device, with a number where there are several of one."""
    if not settings:
        raise InputError("a pool needs a worker at least; give WorkerSettings()")
    devices = [one.device for one in settings]
    return [
        name if devices.count(name) == 1 else f"{name}#{devices[:at].count(name)}"
        for at, name in enumerate(devices)
    ]


def sharing(settings: Sequence[WorkerSettings]) -> list[WorkerSettings]:
    """Those of workers that are all on one host, where some may have one device."""
    worker_names(settings)
    devices = [_numbered(one.device) for one in settings]
    return [
        replace(one, of_device=devices.count(_numbered(one.device)), of_host=len(settings))
        for one in settings
    ]


def _numbered(device: str) -> str:
    """A name by which devices are told apart: the first one of its kind needs no number."""
    return device if ":" in device else f"{device}:0"
