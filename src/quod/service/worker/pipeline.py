"""A pipeline: steps with a number of threads each, and bounded queues between them.

A thread that has done a step continues with its group at the next step if that has a free slot and
nothing waits there. So a single partition is carried through by one thread without any wake-up.
Otherwise the group enters the next queue, and a full queue blocks the thread. This back-pressure
reaches the claims in the end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from quod.device.runtime.big_stack_thread import LargeStackThread
from quod.frozen import frozen
from quod.service.worker.partition_queue import Group, PartitionQueue
from quod.service.worker.work import Work

# The interval at which a waiting step checks for cancelled work.
_LOOK_SECONDS = 0.5

_log = logging.getLogger(__name__)


@frozen
class Step:
    """A step of the pipeline.

    do: processes a group; partitions that have ended do not continue.
    threads: the number of groups processed at a time.
    room: the number of partitions that may wait for the step.
    form_batch: for the step that forms batches. It waits until the device can take a partition,
        calls its second argument for the number of partitions that could start with it, and returns
        the maximum batch size. The step starts no more groups than the next step has threads, as
        started groups hold device memory. A retried partition runs alone, without a call of
        `form_batch`.
    """

    name: str
    do: Callable[[Group], None]
    threads: int
    room: int
    form_batch: Callable[[Work, Callable[[], int]], int] | None = None


class Pipeline:
    """A pipeline of steps.

    failed: ends a partition whose step raised; must not raise itself.
    """

    def __init__(
        self, steps: Sequence[Step], failed: Callable[[Work, BaseException], None]
    ) -> None:
        self._failed = failed
        self._steps = steps
        self._queues = [PartitionQueue(step.room) for step in steps]
        self._begun = {
            at: _GroupsInProgress(steps[at + 1].threads)
            for at, step in enumerate(steps) if step.form_batch is not None
        }  # fmt: skip
        # Slots limit the threads at each step. As their sum is the number of threads, a thread
        # is free for any group that waits at a step with a free slot.
        self._places = [step.threads for step in steps]
        self._changed = threading.Condition()
        self._busy, self._closing = 0, False
        self._threads = [
            LargeStackThread(target=self._run, name=f"quod-line-{number}")
            for number in range(sum(self._places))
        ]
        for thread in self._threads:
            thread.start()

    def put(self, work: Work) -> None:
        """Enqueue work for the first step."""
        self._put(0, [work])

    def _put(self, at: int, group: Group) -> None:
        self._queues[at].put(group)
        with self._changed:
            if self._places[at]:
                self._changed.notify()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._carry(*item)
            # Otherwise an ended partition would stay alive until the next one.
            del item

    def _next(self) -> tuple[int, Group] | None:
        """Wait for a group at a step with a free slot, take the slot; later steps first."""
        with self._changed:
            while True:
                for at in reversed(range(len(self._steps))):
                    if self._places[at] and (group := self._queues[at].get()):
                        self._places[at] -= 1
                        self._busy += 1
                        return at, group
                if self._closing and not self._busy:
                    self._changed.notify_all()
                    return None
                self._changed.wait()

    def _carry(self, at: int, group: Group) -> None:
        """Process a group for as many steps as it need not queue."""
        while True:
            group = self._step(at, group)
            begins, began = self._begun.get(at), self._begun.get(at - 1)
            goes_on = bool(group) and at + 1 < len(self._steps)
            at_once = goes_on and self._enter(at + 1)
            if goes_on and not at_once:
                self._put(at + 1, group)
            elif begins is not None and not goes_on:
                begins.leave(group)
            if began is not None:
                began.leave(group)
            self._leave(at, busy=at_once)
            if not at_once:
                return
            at += 1

    def _step(self, at: int, group: Group) -> Group:
        """Process a group in a step; return the partitions that continue."""
        step, begins = self._steps[at], self._begun.get(at)
        if begins is not None:
            begins.enter(group[0])
        try:
            if step.form_batch is not None and begins is not None:
                group = _gathered(group[0], self._queues[at], step.form_batch)
                begins.join(group[1:])
            step.do(group)
        except BaseException as error:
            for work in group:
                if not work.ended:
                    self._fail(work, error)
        return [work for work in group if not work.ended]

    def _fail(self, work: Work, error: BaseException) -> None:
        try:
            self._failed(work, error)
        except BaseException:
            # Frees its slot, and lets the pipeline close.
            work.ended = True
            _log.exception("a work could not be ended")

    def _enter(self, at: int) -> bool:
        """Take a slot of a step if one is free and nothing waits there."""
        with self._changed:
            if not self._places[at] or self._queues[at]:
                return False
            self._places[at] -= 1
            return True

    def _leave(self, at: int, *, busy: bool) -> None:
        """Free a slot and notify waiting threads."""
        with self._changed:
            self._places[at] += 1
            self._busy -= not busy
            if self._closing:
                self._changed.notify_all()
            elif self._queues[at] and busy:
                self._changed.notify()

    def close(self) -> None:
        """Process all work, then stop the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()


def _gathered(
    first: Work, source: PartitionQueue, together: Callable[[Work, Callable[[], int]], int]
) -> Group:
    """Form a batch of a partition and waiting partitions with the same key.

    Work that cannot be batched does not wait for others.
    """
    if not first.can_batch_with(first):
        return [first]
    most = together(first, lambda: 1 + source.count_like(first))
    return [first, *source.more_like(first, most - 1)]


class _GroupsInProgress:
    """The groups that one step has started and the next has not finished.

    There are at most `most`, or one retried partition alone.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._works: list[Work] = []
        self._changed = threading.Condition()

    def enter(self, first: Work) -> None:
        """Wait until another group may start."""
        with self._changed:
            # Cancelled work does not notify the condition.
            while not self._changed.wait_for(lambda: self._has_room(first), _LOOK_SECONDS):
                pass
            self._works.append(first)
            self._count += 1

    def _has_room(self, first: Work) -> bool:
        """Report whether a group may start; cancelled partitions, which may hang, do not count."""
        active_works = [work for work in self._works if not work.is_abandoned]
        in_company = not active_works or not any(work.is_retry for work in (first, *active_works))
        return in_company and self._count < self._most

    def join(self, others: Group) -> None:
        """Add the partitions batched with the last one."""
        with self._changed:
            self._works += others

    def leave(self, group: Group) -> None:
        """Remove a group that has ended or no longer needs the device."""
        with self._changed:
            self._works = [work for work in self._works if not work.ended and work not in group]
            self._count -= 1
            self._changed.notify_all()
