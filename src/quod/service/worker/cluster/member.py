"""The server's handle of a Ray actor: placement, polling and restarts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayError

from quod.errors import QuodError
from quod.frozen import replace
from quod.service.encoding import decode_error, decode_frame
from quod.service.errors import UnavailableError
from quod.service.keys import CacheStatus
from quod.service.worker.cluster.actor import ClusterWorker, SharedStorage
from quod.service.worker.pools.pool import StageRecord, WorkerState, WorkerStatus
from quod.service.worker.settings import WorkerSettings

_POLL_SECONDS: Final = 0.25
# An actor that does not answer for so long is considered lost and killed.
_SILENT_SECONDS: Final = 60.0
_BACKOFF_SECONDS: Final = 0.5
_MAX_BACKOFF_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 30.0
# The calls that an actor runs at a time, so that polls do not wait for long calls.
_THREADS: Final = 8
_NO_KEYS: Final = CacheStatus(False, {}, {}, 0, ())

_log = logging.getLogger(__name__)


class ClusterMember:
    """A worker placed by Ray on any machine of the cluster.

    If its actor or machine is lost, another actor replaces it, and the queue leases its work again
    once the leases expire. All errors of Ray are therefore treated alike: the actor is lost.
    """

    def __init__(
        self, name: str, storage: SharedStorage, settings: WorkerSettings, gpus: int,
        record: Callable[[StageRecord], None],
    ) -> None:  # fmt: skip
        self.name, self._storage, self._settings = name, storage, settings
        self._gpus, self._record = gpus, record
        self._changed = threading.Condition()
        self._actor: Any = None
        self._status: WorkerStatus | None = None
        # The counters of earlier actors.
        self._earlier = WorkerStatus(
            name, settings.device, WorkerState.STARTING, time.time(), 0, {}, 0, 0, 0.0, {},
            _NO_KEYS, "it waits for a place in the cluster",
        )  # fmt: skip
        self._closing = self._draining = False
        self._thread = threading.Thread(target=self._run, name=f"quod-cluster {name}")

    # --- the interface to pools

    def start(self) -> None:
        self._thread.start()

    @property
    def ready(self) -> bool:
        status = self._status
        return status is not None and status.ready

    def status(self) -> WorkerStatus:
        """Return the last status, plus the counters of earlier actors."""
        with self._changed:
            past, status = self._earlier, self._status
        if status is None:
            return past
        return replace(
            status, started=past.started, restarts=past.restarts + status.restarts,
            proofs=past.proofs + status.proofs, failures=past.failures + status.failures,
            busy_seconds=past.busy_seconds + status.busy_seconds,
        )  # fmt: skip

    def ask(self, what: str, *arguments: object) -> Any:
        """Call the worker; raises UnavailableError while it has no place in the cluster."""
        actor = self._actor
        try:
            if actor is not None:
                return _value(ray.get(actor.call.remote(what, *arguments)))
        except RayError as error:
            _log.info("the worker %s did not answer: %s", self.name, type(error).__name__)
        raise UnavailableError(
            f"the worker {self.name} has no place in the cluster now; ask again", retry_seconds=1.0
        )

    def drain(self, timeout: float | None = None) -> bool:
        with self._changed:
            self._draining = True
        with suppress(UnavailableError):
            return bool(self.ask("drain", timeout))
        # The work of a lost actor goes to other workers or to the next server.
        return True

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    # --- the lifecycle

    def _run(self) -> None:
        backoff = _BACKOFF_SECONDS
        while not self._is_closing():
            started_at, actor = time.monotonic(), None
            try:
                actor = self._place_actor()
                reason = self._poll_until_end(actor) if actor is not None else ""
            except (RayError, QuodError) as error:
                reason = f"its actor is lost ({type(error).__name__})"
                if isinstance(error, QuodError):
                    reason = str(error)
            self._end(actor)
            if time.monotonic() - started_at > _MAX_BACKOFF_SECONDS:
                backoff = _BACKOFF_SECONDS
            if self._is_closing():
                return
            _log.error("the worker %s is lost: %s", self.name, reason)
            self._forget(reason)
            with self._changed:
                self._changed.wait_for(self._is_closing, backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    def _place_actor(self) -> Any:
        """Place an actor and start its worker; None if the member is closing."""
        actor_class = ray.remote(ClusterWorker).options(
            num_gpus=self._gpus, num_cpus=1, max_restarts=0, max_task_retries=0,
            max_concurrency=_THREADS, scheduling_strategy="SPREAD",
        )  # fmt: skip
        actor = actor_class.remote(self.name, self._storage, self._settings)
        start_call = actor.begin.remote()
        while not ray.wait([start_call], timeout=_POLL_SECONDS)[0]:
            if self._is_closing():
                ray.kill(actor)
                return None
        _value(ray.get(start_call))
        self._actor = actor
        if self._draining:
            self.ask("drain", 0)
        return actor

    def _poll_until_end(self, actor: Any) -> str:
        """Poll the actor until the member closes, or the actor is silent; return the reason."""
        while not self._is_closing():
            try:
                report = _value(ray.get(actor.poll.remote(), timeout=_SILENT_SECONDS))
            except GetTimeoutError:
                return f"it sent no message for {_SILENT_SECONDS:.0f} s"
            self._status = decode_frame(WorkerStatus, report["status"])
            for record in decode_frame(tuple[StageRecord, ...], report["records"]):
                self._record(record)
            with self._changed:
                self._changed.wait_for(self._is_closing, _POLL_SECONDS)
        return ""

    def _end(self, actor: Any) -> None:
        """Stop an actor cleanly when closing, or kill a lost one."""
        self._actor = None
        if actor is None:
            return
        with suppress(RayError):
            if self._is_closing():
                ray.get(actor.close.remote(), timeout=_CLOSE_SECONDS)
        with suppress(RayError):
            ray.kill(actor)

    def _forget(self, reason: str) -> None:
        last_status = self.status()
        with self._changed:
            self._status = None
            self._earlier = replace(
                last_status, state=WorkerState.DEAD, restarts=last_status.restarts + 1, jobs={},
                memory={},
                keys=_NO_KEYS, problem=reason,
            )  # fmt: skip

    def _is_closing(self) -> bool:
        return self._closing


def _value(answer: dict[str, Any]) -> Any:
    """Return the value of an answer, or raise its error."""
    if "error" in answer:
        raise decode_error(answer["error"])
    return answer["value"]
