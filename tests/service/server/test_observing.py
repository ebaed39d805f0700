"""The log and traces: their contents, and the values they never contain."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from quod.errors import InputError, ServiceError
from quod.service.client import ProofRequest
from quod.service.logs import LineFormatter
from quod.service.queue import Job, JobState
from quod.service.server.config import Tracing
from quod.service.server.tracing import OtelTracer, tracer
from quod.service.worker.pools.pool import Stage, StageRecord
from tests.service.server.conftest import Start

TRACE = "0af7651916cd43dd8448eb211c80319c"


def record(error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    log_record = logging.makeLogRecord({"name": "quod", "levelname": "INFO", "msg": "submitted"})
    vars(log_record).update(extra)
    if error is not None:
        try:
            raise error
        except BaseException as caught:
            log_record.exc_info = (type(caught), caught, caught.__traceback__)
    return log_record


def test_lines_of_json() -> None:
    line = json.loads(LineFormatter(as_json=True).format(record(job="1-a", key="k")))
    assert line["message"] == "submitted"
    assert (line["job"], line["key"], line["level"]) == ("1-a", "k", "info")
    text = LineFormatter(as_json=False).format(record(job="1-a"))
    assert text.endswith("info submitted logger=quod job=1-a")


def test_unexpected_errors_are_logged_without_their_text() -> None:
    formatter = LineFormatter(as_json=True)
    described = json.loads(formatter.format(record(ValueError("the witness is 7"))))["error"]
    assert described["kind"] == "ValueError"
    assert described["places"][0].startswith("test_observing.py:")
    assert "witness" not in json.dumps(described)
    described = json.loads(formatter.format(record(InputError("is not a key"))))["error"]
    assert described["message"] == "is not a key"


def test_no_witness_is_in_the_log(
    start: Start, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG, "quod")
    server = start()
    secret = "314159265358979"
    (tmp_path / secret).write_bytes(secret.encode())
    with server.client() as client:
        for witness_source in (
            {"wtns": secret.encode()}, {"inputs": {secret: secret}},
            {"path": str(tmp_path / secret)},
        ):  # fmt: skip
            assert (
                client.prove(ProofRequest("membership", **witness_source)).state
                is JobState.SUCCEEDED
            )  # type: ignore[arg-type]
        with pytest.raises(InputError):
            client.submit(ProofRequest("membership", path=f"/none/{secret}"))
    lines = [LineFormatter(as_json=True).format(entry) for entry in caplog.records]
    assert len([line for line in lines if '"submitted"' in line]) == 3
    assert not [line for line in lines if secret in line]


def job(**overrides: object) -> Job:
    fields = {
        "id": "1-a", "client": "ann", "key": "k", "digest": b"", "idempotency_key": "",
        "priority": 0, "deadline": None, "partitions": 2, "remaining": 2, "payload_bytes": 0,
        "state": JobState.QUEUED, "created": 10.0, "started": None, "ended": None, "code": "",
        "message": "", "last_event": 1,
    }  # fmt: skip
    return Job(**(fields | overrides))  # type: ignore[arg-type]


def test_traces() -> None:
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    tracer = OtelTracer(exporter)
    tracer.submitted(job(), f"00-{TRACE}-b7ad6b7169203331-01")
    tracer.submitted(job(), "")
    tracer.stage(StageRecord("w", "2-b", 0, "k", Stage.PROVE, 1.0, 2.0))
    for partition in (0, 1):
        tracer.stage(StageRecord("w", "1-a", partition, "k", Stage.PROVE, 11.0, 12.0))
        tracer.stage(StageRecord("w", "1-a", partition, "k", Stage.CHECK, 12.0, 13.0 + partition))
    tracer.submitted(job(id="3-c"), "no traceparent")
    tracer.close()
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["prove", "check"] * 2 + ["proof"] * 2
    proof = spans[4]
    assert f"{proof.context.trace_id:032x}" == TRACE
    assert (proof.start_time, proof.end_time) == (10_000_000_000, 14_000_000_000)
    assert {span.parent.span_id for span in spans[:4]} == {proof.context.span_id}
    assert spans[0].attributes["quod.worker"] == "w"
    assert f"{spans[5].context.trace_id:032x}" != TRACE


def test_tracing_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracer(Tracing()) is None
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(ServiceError, match=r"pip install '\.\[tracing\]'"):
        tracer(Tracing(endpoint="http://127.0.0.1:1/v1/traces"))


def test_the_end_of_each_job_is_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "quod")
    server = start()
    with server.client() as client:
        done = client.prove(ProofRequest("membership", wtns=b"x"))
        server.pool.fail_with = "the witness is 314159"
        failed = client.wait(client.submit(ProofRequest("membership", wtns=b"x")).id)
    server.stop()
    lines = [json.loads(LineFormatter(as_json=True).format(entry)) for entry in caplog.records]
    ended = {line["job"]: line for line in lines if line["message"] == "a job has ended"}
    assert set(ended) == {done.id, failed.id}
    assert (ended[done.id]["state"], ended[done.id]["level"]) == ("succeeded", "info")
    line = ended[failed.id]
    assert (line["state"], line["code"], line["level"]) == (
        "failed", "INVALID_ARGUMENT", "warning"
    )  # fmt: skip
    assert line["client"] == "local"
    assert "314159" not in json.dumps(lines)
