"""Events of the server, reported to metrics, log and traces, without data of witnesses."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Protocol

from quod.service.queue import Job
from quod.service.server.clients import Client
from quod.service.server.metrics import Metrics
from quod.service.worker.pools.pool import StageRecord

TRACEPARENT = ContextVar("traceparent", default="")
"""The traceparent header of the current request, whose trace continues here."""

_log = logging.getLogger(__name__)


class Tracer(Protocol):
    """The interface of a trace exporter; see `quod.service.server.tracing`."""

    def submitted(self, job: Job, parent: str) -> None:
        """Begin the span of a submitted job, as a child of a valid ``traceparent``."""

    def stage(self, stage: StageRecord) -> None:
        """Record a finished stage of a job. Thread-safe."""

    def close(self) -> None:
        """Send pending spans."""


class Observer:
    """The reporter of events to metrics, log and traces."""

    def __init__(self, metrics: Metrics, tracer: Tracer | None = None) -> None:
        self.metrics, self._tracer = metrics, tracer

    def submitted(self, client: Client, job: Job) -> Job:
        """Report a submitted job, new or repeated, and return it."""
        self.metrics.submitted(job)
        self.log_action("submitted", client, job)
        if self._tracer is not None:
            self._tracer.submitted(job, TRACEPARENT.get())
        return job

    def log_action(self, what: str, client: Client, job: Job) -> None:
        """Log an action of a client on a job."""
        _log.info(what, extra={"job": job.id, "client": client.name, "key": job.key})

    def stage(self, stage: StageRecord) -> None:
        """Report a finished stage. Thread-safe."""
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
        """Report an answered request; `status` is the name of a gRPC code."""
        self.metrics.answered(call, status, seconds)
        _log.debug(
            "answered",
            extra={"call": call, "client": client, "status": status, "seconds": round(seconds, 6)},
        )

    def close(self) -> None:
        if self._tracer is not None:
            self._tracer.close()
