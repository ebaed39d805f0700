"""quod bench serve: closed and open load, and the figures of both."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from quod.bench.measure.load import Load, run_load
from quod.cli import entry
from quod.errors import ServiceError
from quod.service.client import JobState, ProofRequest, RemoteJob, ServerStatus
from quod.service.errors import QueueFullError
from tests.service.server.conftest import keys, start  # noqa: F401
from tests.service.server.running_server import RunningServer

REQUEST = ProofRequest("k", wtns=b"w")


class FakeClient:
    """A server with one worker, whose proofs take some time one after the other."""

    def __init__(self, seconds: float, *, full: int = 0, fails_at: int = -1) -> None:
        self.seconds, self.full, self.fails_at = seconds, full, fails_at
        self.alone, self.proofs, self.most, self.under_way = threading.Lock(), 0, 0, 0
        self.counting = threading.Lock()

    def prove(self, request: ProofRequest, timeout: float | None = None) -> RemoteJob:
        assert request is REQUEST
        with self.counting:
            if self.full:
                self.full -= 1
                raise QueueFullError("full", retry_seconds=0.001)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        with self.alone:
            if self.proofs == self.fails_at:
                raise ServiceError("a worker died")
            begin = time.time()
            time.sleep(self.seconds)
            self.proofs += 1
        with self.counting:
            self.under_way -= 1
        return RemoteJob(
            "j", "c", "k", JobState.SUCCEEDED, 0, 1, 0, begin, begin, begin + self.seconds, None,
            "", "", "", 5, (),
        )  # fmt: skip

    def status(self) -> ServerStatus:
        worker = {"name": "w", "started": 1.0, "busy_seconds": self.proofs * self.seconds}
        return ServerStatus("1", "ready", 0.0, 0, 0, {"workers": [worker]})


def test_closed_load_never_exceeds_its_client_count() -> None:
    client = FakeClient(0.005, full=3)
    measured = run_load(Load(4, 40), client, lambda: REQUEST)
    assert len(measured.latencies) == len(measured.outside) == client.proofs == 40
    assert client.most <= 4
    assert measured.refused == 3
    assert 0 < measured.overhead(50) < measured.latency(50)
    # Each client has one proof under way at a time, and waits for it as long as it takes.
    assert 40 * client.seconds <= sum(measured.latencies) <= 4 * measured.seconds
    assert (
        measured.latency(50)
        <= measured.latency(95)
        <= measured.latency(99)
        <= max(measured.latencies)
    )
    assert measured.busy == pytest.approx(40 * client.seconds / measured.seconds)


def test_open_load_latency_counts_from_scheduled_time() -> None:
    # Twice as many as there can be; with one client, none is sent before the last is done.
    for clients in (50, 1):
        client, load = FakeClient(0.01), Load(clients, 50, rate=200.0)
        measured = run_load(load, client, lambda: REQUEST)
        assert (client.most > 4) == (clients > 4)
        # The worker has done n of them after n times its seconds at the earliest.
        ends = (client.seconds * number for number in range(1, 51))
        assert sum(measured.latencies) >= sum(ends) - sum(load.due()) > 5 * 50 * client.seconds
    due = Load(1, 2000, rate=100.0).due()
    assert due == sorted(due)
    assert due[-1] == pytest.approx(20, rel=0.1)


def test_an_error_ends_the_load() -> None:
    client = FakeClient(0.001, fails_at=3)
    with pytest.raises(ServiceError, match="a worker died"):
        run_load(Load(2, 1000), client, lambda: REQUEST)
    assert client.proofs < 1000


def test_a_server(start: object, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    server: RunningServer = start()  # type: ignore[operator]
    witness = Path(__file__).parents[3] / "examples" / "membership" / "witness.wtns"
    words = ["bench", "serve", server.listeners.grpc[0], "membership", str(witness)]
    loads = ["--clients", "2", "--rate", "50", "--proofs", "6", "--repeats", "2", "--cold"]
    assert entry.run([*words, *loads, "--json", "--quiet"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["load"] for row in rows] == ["cold"] + ["closed"] * 8 + ["open"] * 8
    assert {row["parameters"].get("what") for row in rows} >= {"latency, p99", "proofs"}
    assert server.pool.calls[0][0] == "evict"
    # Two runs of each load, two cold ones, and one to be warm.
    assert server.queue.status().kept == 2 * (6 + 6) + 2 + 1
    by_name = {row["parameters"].get("what"): row["median"] for row in rows[1:9]}
    assert by_name["latency, p50"] <= by_name["latency, p99"]
    assert by_name["proofs"] > 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["unix:none.sock", "k", "none.wtns"], 3, "none.wtns"),
        (["nowhere", "k", "none.wtns"], 3, "server's address"),
        (["unix:none.sock", "k", "none.wtns", "--rate", "0"], 2, "above 0"),
        (["unix:none.sock", "k", "none.wtns", "--token-file", "none"], 3, "none"),
    ],
)
def test_invalid_arguments_are_rejected(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", "serve", *words]) == code
    assert message in capsys.readouterr().err
