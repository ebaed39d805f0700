"""The settings of a worker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quod.device.backends import backend_of
from quod.errors import InputError
from quod.groth16.keys import MAX_LANES
from quod.groth16.resident import MAX_BATCH
from quod.service.keys.loader import DEFAULT_LANES
from quod.service.queue.validation import checked_list, checked_name, checked_seconds
from quod.validation import whole_number, whole_number_or_none

_MEMORY_SHARE = 0.25
_MAX_THREADS = 64


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker of one device.

    device: its name.
    host_bytes, device_bytes: the budgets of its keys; see `ResidentKeys`.
    memory_bytes: the budget of witnesses in progress and of the host memory of proofs; default: a
        quarter of the machine's.
    warm: keys loaded before the worker is ready.
    ahead: the number of claimed partitions that are not on the device yet.
    checks: the number of threads that verify proofs.
    lanes: concurrent small proofs on a GPU; default: two if one would leave half of it idle.
    together: the maximum batch of proofs with a very small key (a power of two); default: 32. With
        1 there are no batches and no memory for them.
    patience_seconds: the duration after which a partition in one stage counts as hung and its lease
        is no longer renewed.
    reverification_constraints: the maximum number of constraints of a key for which a proof that
        does not verify is repeated on the CPU; see `reverification`.
    of_device, of_host: the number of workers that share the device, and of those on the machine,
        by which the default budgets are divided. Pools set both.
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
    reverification_constraints: int = 1 << 22
    of_device: int = 1
    of_host: int = 1

    def __post_init__(self) -> None:
        checked_name("the device", self.device)
        for name in ("host_bytes", "device_bytes", "memory_bytes"):
            self.__dict__[name] = whole_number_or_none(name, getattr(self, name), 0)
        for key in checked_list("the keys to load at start", self.warm):
            checked_name("a key", key)
        for name in ("ahead", "checks"):
            self.__dict__[name] = whole_number(name, getattr(self, name), 1, _MAX_THREADS)
        for name in ("of_device", "of_host"):
            self.__dict__[name] = whole_number(name, getattr(self, name), 1)
        lanes = whole_number_or_none("lanes", self.lanes, 1, MAX_LANES)
        together = whole_number_or_none("together", self.together, 1, MAX_BATCH)
        checked_seconds("patience_seconds", self.patience_seconds)
        constraints = whole_number("reverification_constraints", self.reverification_constraints, 0)
        self.__dict__.update(lanes=lanes, together=together, reverification_constraints=constraints)

    @property
    def max_lanes(self) -> int:
        """The maximum number of concurrent proofs on its device."""
        if self.lanes is not None:
            return self.lanes
        backend = backend_of(self.device)
        return 1 if backend is not None and backend.of_the_processor else DEFAULT_LANES

    @property
    def buffers(self) -> int:
        """The number of witness buffers: two for each partition ahead, and two more."""
        return 2 * self.ahead + 2

    @property
    def work_bytes(self) -> int:
        """The budget of witnesses and proofs in bytes."""
        if self.memory_bytes is not None:
            return self.memory_bytes
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return int(machine * _MEMORY_SHARE) // self.of_host


def worker_names(settings: Sequence[WorkerSettings]) -> list[str]:
    """Name each worker by its device, numbered if several have the same one."""
    if not settings:
        raise InputError("a pool needs a worker at least; give WorkerSettings()")
    devices = [worker.device for worker in settings]
    return [
        name if devices.count(name) == 1 else f"{name}#{devices[:index].count(name)}"
        for index, name in enumerate(devices)
    ]


def sharing(settings: Sequence[WorkerSettings]) -> list[WorkerSettings]:
    """Set `of_device` and `of_host` for workers on one host."""
    # Raises InputError if there are none.
    worker_names(settings)
    devices = [_canonical_device(worker.device) for worker in settings]
    return [
        replace(
            worker, of_device=devices.count(_canonical_device(worker.device)), of_host=len(settings)
        )
        for worker in settings
    ]


def _canonical_device(device: str) -> str:
    """Return the canonical name of a device: "cuda" is "cuda:0"."""
    return device if ":" in device else f"{device}:0"
