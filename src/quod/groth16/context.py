"""What all work on one proof has in common: what it shows, how it is stopped, how it is checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter_ns
from typing import Any

from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.cancellation import Cancellation
from quod.device.runtime.concurrent import together
from quod.device.runtime.timeline import NullTimeline, Stage, Timeline
from quod.errors import InputError, VerificationError

Tasks = Mapping[str, Callable[[], Any]]
"""Work by name."""


class ProofContext:
    """A proof while it is made.

    `timeline` is told of its stages; those that several threads work on belong to `parent`, which
    is open as long as they do. `cancellation` stops them. `spans` has, by name, when a part began
    and ended (`time.perf_counter_ns`), whoever looks at the timeline: "upload" and "compute", in
    which the device computes, and which `meter` is told of. `pinned` says whether the witness
    is in page-locked memory.
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
        """Times the body, as one of `spans`."""
        begin = perf_counter_ns()
        try:
            yield
        finally:
            self.spans[name] = begin, perf_counter_ns()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The device computes in the body."""
        with self._meter.working() if self._meter else nullcontext(), self.span("compute"):
            yield

    @property
    def is_timed(self) -> bool:
        """Whether anyone looks at the stages."""
        return not isinstance(self.timeline, NullTimeline)

    def stage(self, name: str, **counts: int) -> AbstractContextManager[Stage]:
        """A stage of `parent`, with counts as `Timeline.stage` takes them."""
        return self.timeline.stage(name, parent=self.parent, **counts)

    def together(self, tasks: Tasks, at_once: int) -> dict[str, Any]:
        """What each task gives, `at_once` of them at a time; if one fails, launches of all stop."""

        def guarded(task: Callable[[], Any]) -> Any:
            self.cancellation.check("the proof")
            with self.cancellation:
                return task()

        own = {name: functools.partial(guarded, task) for name, task in tasks.items()}
        return together(own, at_once, "quod-proof", self.cancellation.cancel)


def self_check(
    timeline: Timeline,
    verify: Callable[[], bool],
    *,
    wrong: str,
    malformed: Callable[[InputError], str],
) -> None:
    """VerificationError unless `verify` accepts a proof, which nobody has seen yet.

    It says `wrong` of a proof that is not accepted, and what `malformed` makes of the verifier's
    error of one that has a part which no proof has.
    """
    with timeline.stage("self-check"):
        try:
            valid = verify()
        except InputError as error:
            raise VerificationError(malformed(error)) from error
        if not valid:
            raise VerificationError(wrong)
