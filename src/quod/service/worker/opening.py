"""The opening of a worker's keys."""

from __future__ import annotations

from collections.abc import Callable

from quod.service.keys import KeyRepository, ResidentKeys
from quod.service.worker.settings import WorkerSettings


def opener(repository: KeyRepository, settings: WorkerSettings) -> Callable[[], ResidentKeys]:
    """Return a function that opens the keys of a repository on the device of the settings."""
    return lambda: ResidentKeys(
        repository, settings.device, host_bytes=settings.host_bytes,
        device_bytes=settings.device_bytes, lanes=settings.lanes,
        max_batch=settings.together, of_host=settings.of_host, of_device=settings.of_device,
    )  # fmt: skip
