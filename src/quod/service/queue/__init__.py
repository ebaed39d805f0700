"""The durable queue of the proving service: on disk before it is acknowledged.

    from quod.service.queue import Submission, open_queue

    with open_queue("queue") as queue:
        payload = queue.blob_store.write(witness)
        job = queue.submit(Submission("ann", key, digest, payload, idempotency_key="1"))
        [lease] = queue.claim("worker 0")
        queue.finish(lease, proof)

One interface, `JobQueue`, on SQLite (one process, one host) or Postgres (a fleet). All its calls
may come from any thread. The names below load on first use (PEP 562); none of them loads NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.service.queue.blob_store import BlobStore as BlobStore
    from quod.service.queue.clock import Clock as Clock
    from quod.service.queue.job_queue import JobQueue as JobQueue
    from quod.service.queue.limits import Limits as Limits
    from quod.service.queue.limits import Quota as Quota
    from quod.service.queue.opening import open_queue as open_queue
    from quod.service.queue.records import Attempt as Attempt
    from quod.service.queue.records import Event as Event
    from quod.service.queue.records import Job as Job
    from quod.service.queue.records import JobState as JobState
    from quod.service.queue.records import KeyStatus as KeyStatus
    from quod.service.queue.records import Lease as Lease
    from quod.service.queue.records import Outcome as Outcome
    from quod.service.queue.records import QueueStatus as QueueStatus
    from quod.service.queue.records import Submission as Submission
else:
    __getattr__, __dir__ = lazy_names(__name__)
