"""A server with what the page asks for, and a service behind it that only pretends.

Its documents are those of `quod.service.status`, of records that are made up as time goes by.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import quod.service
from quod.service.encoding import encode_answer
from quod.service.keys.leases import CacheStatus, KeyUse
from quod.service.keys.needs import Tier
from quod.service.queue import Attempt, Event, Job, JobState, Outcome, QueueStatus
from quod.service.records import ServerState
from quod.service.status import (
    WINDOW,
    Activity,
    job_document,
    status_document,
)
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus

PAGE = Path(quod.service.__file__).parent / "page"
TOKEN = "operator-token"
POLICY = "default-src 'self'; frame-ancestors 'none'"

MEMBERSHIP, REGISTRY, LEDGER = "ab" * 32, "cd" * 32, "ef" * 32
NAMES = {MEMBERSHIP: ["membership:latest", "membership:v2"], REGISTRY: ["registry:latest"]}
_CLIENTS = ("wallet", "exchange", "batch-of-the-night")
_KEYS = (MEMBERSHIP, REGISTRY, LEDGER)
_GB = 1 << 30

# Of a proof, in shares of the time between two of them.
_PARTS = (
    (Stage.WITNESS, -0.5, -0.3), (Stage.UPLOAD, -0.3, -0.2), (Stage.PROVE, 0.0, 0.85),
    (Stage.CHECK, 0.85, 1.1),
)  # fmt: skip


class FakeService:
    """Two devices that prove a number of jobs a second each, but for a pause now and then."""

    def __init__(self, rate: float = 2.0, clock: Callable[[], float] = time.time) -> None:
        self.clock, self.rate = clock, rate
        self.started = clock()
        self.state = "ready"
        self.quarantined = False
        self.activity = Activity(clock)
        self.jobs: list[Job] = []
        self._lock = threading.Lock()
        self._proofs = 0
        # There is a minute behind it.
        self._told = self.started - WINDOW - 1
        self._until(self.started)

    def _until(self, now: float) -> None:
        """Makes up what has happened since it was asked last."""
        step = 1 / self.rate
        with self._lock:
            while self._told + 1.2 * step < now:
                begin = self._told
                self._told += step
                self._proofs += 1
                for gpu in range(2):
                    if gpu == 1 and int(begin) % 20 < 7:
                        continue
                    job = self._job(begin, step, 2 * self._proofs + gpu)
                    self.jobs.append(job)
                    for stage, first, last in _PARTS:
                        self.activity.record(
                            StageRecord(
                                f"gpu {gpu}", job.id, 0, job.key, stage, begin + first * step,
                                begin + last * step,
                            )
                        )  # fmt: skip
                del self.jobs[:-200]

    def _job(self, begin: float, step: float, number: int) -> Job:
        bad = number % 11 == 0
        return Job(
            id=f"{number:08d}-5f0c2a7e9b31d446", client=_CLIENTS[number % 3],
            key=_KEYS[number % 7 % 3], digest=bytes(32), idempotency_key="", priority=number % 3,
            deadline=None, partitions=1, remaining=int(bad), payload_bytes=127_852,
            state=JobState.FAILED if bad else JobState.SUCCEEDED,
            created=begin - step * (number % 5), started=begin - step / 2, ended=begin + 1.1 * step,
            code="INVALID_ARGUMENT" if bad else "",
            message="the witness does not satisfy the circuit" if bad else "", last_event=5,
        )  # fmt: skip

    def workers(self) -> list[WorkerStatus]:
        def use(key: str, tier: Tier, size: int, hits: int) -> KeyUse:
            return KeyUse(key, tier, True, False, size // 3, size, 1, hits, 3, 1, 0, 0, 0.42)

        keys = (
            use(LEDGER, Tier.HOST, 0, 12), use(MEMBERSHIP, Tier.DEVICE, 159 << 20, 48_211),
            use(REGISTRY, Tier.DEVICE, 6_300 << 20, 1_204),
        )  # fmt: skip
        cache = CacheStatus(True, {Tier.DEVICE: 100 * _GB}, {Tier.DEVICE: 7 * _GB}, 0, keys)
        memory = {"keys": 41 * _GB, "workspace": 27 * _GB, "free": 71 * _GB}
        passed = self.clock() - self.started
        newest = self.jobs[-1].id
        statuses = [
            WorkerStatus(
                f"gpu {gpu}", "NVIDIA H200, cuda:" + str(gpu), WorkerState.BUSY, self.started - 90,
                0, {newest: Stage.PROVE} if gpu == 0 else {}, self._proofs, gpu,
                (0.85, 0.55)[gpu] * passed, memory, cache, "",
            )
            for gpu in range(2)
        ]  # fmt: skip
        if self.quarantined:
            statuses.append(
                WorkerStatus(
                    "gpu 2", "NVIDIA H200, cuda:2", WorkerState.QUARANTINED, self.started - 90, 1,
                    {}, 812, 2, 0.0, {}, CacheStatus(True, {}, {}, 0, ()),
                    "a proof did not verify, and the same witness did on gpu 0",
                )
            )  # fmt: skip
        return statuses

    def document(self) -> dict[str, Any]:
        self._until(self.clock())
        workers = self.workers()
        self.activity.sample(workers)
        queue = QueueStatus(
            jobs={"wallet": 12, "exchange": 181, "batch-of-the-night": 9_807},
            payload_bytes={"wallet": 1_534_224, "exchange": 23_141_212, "batch-of-the-night": 0},
            kept=12_880, waiting={MEMBERSHIP: 9_893, REGISTRY: 107},
            priorities={0: 9_807, 5: 181, 9: 12}, held=0, running=4,
            oldest=self.clock() - 341, storage_full=False,
        )  # fmt: skip
        return status_document(
            ServerState("0.1.0", self.state, self.started), workers, queue, self.jobs[::-1],
            self.activity, NAMES,
        )  # fmt: skip

    def job(self, number: str) -> dict[str, Any] | None:
        job = next((job for job in self.jobs if job.id == number), None)
        if job is None:
            return None
        assert job.started is not None
        events = [
            Event(1, job.created, "queued", {}),
            Event(2, job.started, "started", {"worker": "gpu 0", "partition": 0}),
            Event(3, job.started + 0.1, "stage", {"stage": "upload", "partition": 0}),
            Event(4, job.started + 0.2, "stage", {"stage": "prove", "partition": 0}),
            Event(5, job.ended or 0, "ended", {"state": str(job.state)}),
        ]
        failed = job.state is JobState.FAILED
        outcome = Outcome.FAILED if failed else Outcome.SUCCEEDED
        attempt = Attempt(0, 1, "gpu 0", job.started, job.ended, outcome, job.code, job.message)
        return job_document(job, events, [attempt])

    def stages(self, after: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        while True:
            self._until(self.clock())
            stages, last = self.activity.stages(after)
            if last != after:
                yield last, encode_answer(stages)
            after = last


class FakeServer:
    """The service on a port of localhost; a `with` block ends it, with its streams."""

    def __init__(self, service: FakeService, port: int = 0, token: str = "") -> None:
        self.service = service
        self.stopping = threading.Event()
        handler = functools.partial(_Handler, fake=self, token=token)
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://localhost:{self.port}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".js": "text/javascript"}

    def __init__(self, *arguments: Any, fake: FakeServer, token: str) -> None:
        self.fake, self.token = fake, token
        super().__init__(*arguments, directory=str(PAGE))

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not path.startswith("/status"):
            super().do_GET()
        elif self.token and self.headers.get("Authorization") != f"Bearer {self.token}":
            self._json({"error": {"message": "a token is needed"}}, 401)
        elif path == "/status":
            self._json(self.fake.service.document())
        elif path == "/status/stages":
            self._stream(int(query.partition("=")[2] or 0))
        else:
            job = self.fake.service.job(path.rpartition("/")[2])
            self._json(job or {"error": {"message": "there is no such job"}}, 200 if job else 404)

    def _json(self, document: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, after: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for last, stages in self.fake.service.stages(after):
                data = json.dumps({"stages": stages})
                self.wfile.write(f"id: {last}\nevent: stages\ndata: {data}\n\n".encode())
                self.wfile.flush()
                if self.fake.stopping.wait(0.1):
                    return
        except OSError:
            return

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
