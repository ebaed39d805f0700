"""The heartbeat of leases, which also learns of cancelled work.

A lease is renewed when its work enters another stage, and periodically within a stage up to a time
limit. Work that hangs, or whose process is stopped, is no longer renewed, so another worker gets
it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from quod.errors import QuodError
from quod.service.worker.jobs import Jobs
from quod.service.worker.pools.pool import Stage
from quod.service.worker.work import Work

# Short stages are not all reported: proofs of milliseconds would wait for the disk.
_MIN_STAGE_SECONDS = 0.05
# The time between renewals as a share of the lease's duration: two renewals may fail.
_RENEWAL_SHARE = 1 / 4

_log = logging.getLogger(__name__)


class LeaseHeartbeat:
    """A thread that renews the leases of claimed partitions.

    in_hand: returns these partitions.
    patience: the seconds after which a stage counts as hung.
    hung: called for a partition whose stage hangs.
    """

    def __init__(
        self, jobs: Jobs, in_hand: Callable[[], Sequence[Work]], patience: float,
        hung: Callable[[Work], None],
    ) -> None:  # fmt: skip
        self._jobs, self._in_hand, self._patience, self._hung = jobs, in_hand, patience, hung
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quod-leases", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        interval = min(self._jobs.lease_seconds * _RENEWAL_SHARE / 4, _MIN_STAGE_SECONDS)
        while not self._closed.wait(interval):
            try:
                self.renew(time.monotonic())
            except QuodError as error:
                # Retried at the next interval; lost leases are reported then.
                _log.warning("leases could not be renewed: %s", error)

    def renew(self, now: float) -> None:
        """Renew leases that have entered another stage or are due."""
        due: dict[Stage, list[Work]] = {}
        for work in self._in_hand():
            if work.is_abandoned or work.ended:
                continue
            if now - work.entered > self._patience:
                work.abandon()
                self._hung(work)
                continue
            stage, elapsed = work.stage, now - work.renewed
            changed_stage = stage is not work.reported_stage and elapsed >= _MIN_STAGE_SECONDS
            if changed_stage or elapsed >= self._jobs.lease_seconds * _RENEWAL_SHARE:
                due.setdefault(stage, []).append(work)
        for stage, works in due.items():
            outcomes = self._jobs.renew([work.lease for work in works], stage.value)
            for work, outcome in zip(works, outcomes, strict=True):
                work.renewed, work.reported_stage = now, stage
                if outcome is not None:
                    work.abandon()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
