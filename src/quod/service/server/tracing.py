"""OpenTelemetry traces: a span for each job, with its stages as children."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from quod.errors import ServiceError
from quod.extras import installation
from quod.service.queue import Job
from quod.service.server.config import Tracing
from quod.service.worker.pools.pool import Stage, StageRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_MAX_JOBS: Final = 10_000
"""The maximum number of open spans; a further one ends the oldest."""

_NANOSECONDS_PER_SECOND: Final = 1e9


class OtelTracer:
    """Spans of the jobs submitted to this process, until the check of their last partition."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": "quod"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("quod.service")
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def submitted(self, job: Job, parent: str) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract({"traceparent": parent})
        attributes: dict[str, str | int] = {
            "quod.job": job.id, "quod.key": job.key, "quod.priority": job.priority,
        }  # fmt: skip
        with self._lock:
            if job.id in self._open or job.state.ended:
                return
            span = self._tracer.start_span(
                "proof", context, start_time=_nanoseconds(job.created), attributes=attributes
            )
            self._open[job.id] = (span, job.partitions)
            if len(self._open) > _MAX_JOBS:
                self._open.popitem(last=False)[1][0].end()

    def stage(self, stage: StageRecord) -> None:
        from opentelemetry.trace import set_span_in_context

        with self._lock:
            span, remaining_checks = self._open.get(stage.job, (None, 0))
            if span is None:
                return
            attributes: dict[str, str | int] = {
                "quod.worker": stage.worker,
                "quod.partition": stage.partition,
            }
            child_span = self._tracer.start_span(
                str(stage.stage), set_span_in_context(span),
                start_time=_nanoseconds(stage.begin), attributes=attributes,
            )  # fmt: skip
            child_span.end(_nanoseconds(stage.end))
            if stage.stage is Stage.CHECK:
                self._open[stage.job] = (span, remaining_checks - 1)
                if remaining_checks <= 1:
                    del self._open[stage.job]
                    span.end(_nanoseconds(stage.end))

    def close(self) -> None:
        with self._lock:
            for span, _ in self._open.values():
                span.end()
            self._open.clear()
        self._provider.shutdown()


def tracer(config: Tracing) -> OtelTracer | None:
    """Create the tracer for the configured endpoint; None if there is no endpoint."""
    if not config.endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise ServiceError(f"traces need OpenTelemetry: {installation('tracing')}") from None
    return OtelTracer(OTLPSpanExporter(endpoint=config.endpoint))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS_PER_SECOND)
