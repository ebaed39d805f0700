"""The workers of the proving service, which claim jobs from the queue and prove them.

    from quod.service.worker import ProcessPool, WorkerSettings

    pool = ProcessPool(queue, repository, [WorkerSettings("cuda", warm=("membership",))])
    pool.start()
    ...
    pool.drain(timeout=60)
    pool.close()

The pools are thread-safe. The public names below are imported on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.service.worker.pools.local import LocalPool as LocalPool
    from quod.service.worker.pools.pool import Stage as Stage
    from quod.service.worker.pools.pool import StageRecord as StageRecord
    from quod.service.worker.pools.pool import WorkerPool as WorkerPool
    from quod.service.worker.pools.pool import WorkerState as WorkerState
    from quod.service.worker.pools.pool import WorkerStatus as WorkerStatus
    from quod.service.worker.pools.processes import ProcessPool as ProcessPool
    from quod.service.worker.result import read_result as read_result
    from quod.service.worker.settings import WorkerSettings as WorkerSettings
else:
    __getattr__, __dir__ = lazy_names(__name__)
