"""The worker pool of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.server.config import Config
from quod.service.worker import LocalPool, ProcessPool, WorkerPool, WorkerSettings

if TYPE_CHECKING:
    from quod.service.generation.models import Models


def worker_settings(config: Config) -> list[WorkerSettings]:
    """Return the settings of the worker of each device."""
    shared_fields = config.workers.model_dump(exclude={"devices", "processes", "ray"})
    return [WorkerSettings(device=device, **shared_fields) for device in config.workers.devices]


def served_models(config: Config) -> Models:
    """Read the metadata and plans of all models; raises the errors of `read_model`."""
    from quod.service.generation.models import Models, read_model

    return Models(
        [
            read_model(
                name, section.path, plan=section.plan, context=section.context,
                sequences=section.sequences,
            )
            for name, section in config.models.items()
        ]
    )  # fmt: skip


def make_pool(config: Config, queue: JobQueue, repository: KeyRepository) -> WorkerPool:
    """Create the pool with a worker for each device; it is not started."""
    workers_config, settings = config.workers, worker_settings(config)
    if config.filecoin is not None:
        from quod.service.filecoin.pool import FilecoinPool

        section = config.filecoin
        return FilecoinPool(
            queue, repository, settings, section.params, allow_insecure=section.insecure_test_key
        )
    if config.models:
        from quod.service.generation.pool import GenerationPool

        return GenerationPool(queue, repository, settings, served_models(config))
    if workers_config.ray is not None:
        from quod.service.worker.cluster.pool import RayPool

        return RayPool(
            queue, repository, settings, address=workers_config.ray, data=config.data,
            database=config.database, schema=config.database_schema,
        )  # fmt: skip
    kind = ProcessPool if workers_config.processes else LocalPool
    return kind(queue, repository, settings)
