"""What happens in the server, told to metrics, the log and traces. Nothing of a witness is."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Protocol

from quod.service.queue import Job
from quod.service.server.clients import Client
from quod.service.server.metrics import Metrics
from quod.service.worker.pools.pool import StageRecord

TRACEPARENT = ContextVar("traceparent", default="")
"""The header of the request that is being answered, by which its trace goes on."""

_log = logging.getLogger(__name__)


class Tracer(Protocol):
    """Where traces go; see `quod.service.server.tracing`."""

    def submitted(self, job: Job, parent: str) -> None:
        """A job that was taken, below the span of a ``traceparent``, if that is one."""

    def stage(self, stage: StageRecord) -> None:
        """A stage of a job that has ended. From any thread."""

    def close(self) -> None:
        """Sends what has not been sent."""


class Observer:
    """One call for each thing that happens."""

    def __init__(self, metrics: Metrics, tracer: Tracer | None = None) -> None:
        self.metrics, self._tracer = metrics, tracer

    def submitted(self, client: Client, job: Job) -> None:
        """A job was taken, or was there before."""
        self.metrics.submitted(job)
        self.told("submitted", client, job)
        if self._tracer is not None:
            self._tracer.submitted(job, TRACEPARENT.get())

    def told(self, what: str, client: Client, job: Job) -> None:
        """Something that a client did with a job."""
        _log.info(what, extra={"job": job.id, "client": client.name, "key": job.key})

    def stage(self, stage: StageRecord) -> None:
        """A stage that has ended. From any thread."""
        self.metrics.stage(stage)
        if self._tracer is not None:
            self._tracer.stage(stage)
        _log.debug(
            "stage",
            extra={
                "job": stage.job, "partition": stage.partition, "key": stage.key,
                "worker": stage.worker, "stage": str(stage.stage),
                "seconds": round(stage.end - stage.begin, 6),
            },
        )  # fmt: skip

    def answered(self, call: str, client: str, status: str, seconds: float) -> None:
        """A request and how it was answered; `status` is a code of gRPC."""
        self.metrics.answered(call, status, seconds)
        _log.debug(
            "answered",
            extra={"call": call, "client": client, "status": status, "seconds": round(seconds, 6)},
        )

    def close(self) -> None:
        if self._tracer is not None:
            self._tracer.close()
