"""The context of one proof: timeline, cancellation, and the self-check."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.cancellation import Cancellation
from quod.device.runtime.concurrent import run_concurrently
from quod.device.runtime.timeline import NullTimeline, Stage, Timeline
from quod.errors import InputError, VerificationError

Tasks = Mapping[str, Callable[[], Any]]
"""Functions without arguments, by the name of their result."""


class ProofContext:
    """The state of a proof in progress.

    timeline: records the stages.
    parent: the stage to which stages of other threads belong; it stays open until they end.
    pinned: whether the witness is in page-locked memory.
    cancellation: stops the proof's launches.
    spans: begin and end of "upload" and "compute" in ns (`time.perf_counter_ns`); recorded even
        without a timeline.
    meter: counts the span "compute" as busy time of the device.
    """

    def __init__(
        self, timeline: Timeline, parent: Stage, meter: BusyMeter | None = None, *,
        pinned: bool = False,
    ) -> None:  # fmt: skip
        self.timeline, self.parent, self.pinned = timeline, parent, pinned
        self.cancellation = Cancellation()
        self.spans: dict[str, tuple[int, int]] = {}
        self._meter = meter

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Record the begin and end of the body in `spans`."""
        begin = perf_counter_ns()
        try:
            yield
        finally:
            self.spans[name] = begin, perf_counter_ns()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Record the body as the span "compute", and as busy time of the device."""
        with self._meter.working() if self._meter else nullcontext(), self.span("compute"):
            yield

    @property
    def is_timed(self) -> bool:
        """True if the timeline records stages."""
        return not isinstance(self.timeline, NullTimeline)

    def stage(self, name: str, **counts: int) -> AbstractContextManager[Stage]:
        """Return a stage below `parent`; `counts` is passed to `Timeline.stage`."""
        return self.timeline.stage(name, parent=self.parent, **counts)

    def run_tasks(
        self, tasks: Tasks, at_once: int, later: Tasks = MappingProxyType({})
    ) -> dict[str, Any]:  # fmt: skip
        """Run tasks in at most `at_once` threads, and return their results by name.

        later: tasks that one further thread runs once the first of `tasks` has ended.
        If a task fails, the launches of all tasks are cancelled and its error is raised.
        """

        def run_guarded(task: Callable[[], Any]) -> Any:
            self.cancellation.check("the proof")
            with self.cancellation:
                return task()

        def guarded(tasks: Tasks) -> Tasks:
            return {name: functools.partial(run_guarded, task) for name, task in tasks.items()}

        return run_concurrently(
            guarded(tasks), at_once, "quod-proof", self.cancellation.cancel,
            later=guarded(later),
        )  # fmt: skip


def self_check(
    timeline: Timeline,
    verify: Callable[[], bool],
    *,
    wrong: str,
    malformed: Callable[[InputError], str],
) -> None:
    """Verify a proof before the prover returns it; raise VerificationError if `verify` rejects it.

    wrong: the message for a proof that does not verify.
    malformed: returns the message for a proof that `verify` finds malformed, from its InputError.
    """
    with timeline.stage("self-check"):
        try:
            valid = verify()
        except InputError as error:
            raise VerificationError(malformed(error)) from error
        if not valid:
            raise VerificationError(wrong)
