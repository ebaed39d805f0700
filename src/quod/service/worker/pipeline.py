"""A pipeline: steps with a number of threads each, and bounded queues between them.

A thread that has done a step continues with its group at the next step if that step has a free slot
and an empty queue. So one thread takes a single partition through all steps without waking another.
Otherwise the group enters the next queue, and a full queue blocks the thread. By this back-pressure
a full pipeline blocks the worker's claims.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.frozen import frozen
from quod.service.worker.partition_queue import Group, PartitionQueue
from quod.service.worker.work import Work

# The interval at which a waiting step checks for cancelled work.
_POLL_SECONDS = 0.5

_log = logging.getLogger(__name__)


@frozen
class Step:
    """A step of the pipeline.

    do: processes a group; partitions that have ended do not continue.
    threads: the number of groups processed at a time.
    room: the number of whole permits of partitions that may wait for the step.
    form_batch: for the step that forms batches, else None. It waits until the device can take a
        partition, its first argument, and returns the maximum batch size. Its second argument
        returns the number of partitions that could start now, the first included. The step starts
        no more groups than the next step has threads, as started groups hold device memory. A
        retried partition runs alone, without a call of `form_batch`.
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
        self._in_progress = {
            step_index: _GroupsInProgress(steps[step_index + 1].threads)
            for step_index, step in enumerate(steps) if step.form_batch is not None
        }  # fmt: skip
        # Slots limit the threads at each step. There are as many threads as slots, so a thread is
        # free for any group that waits at a step with a free slot.
        self._free_slots = [step.threads for step in steps]
        self._changed = threading.Condition()
        self._busy, self._closing = 0, False
        self._threads = [
            LargeStackThread(target=self._run, name=f"quod-line-{number}")
            for number in range(sum(self._free_slots))
        ]
        for thread in self._threads:
            thread.start()

    def put(self, work: Work) -> None:
        """Enqueue work for the first step."""
        self._put(0, [work])

    def _put(self, step_index: int, group: Group) -> None:
        self._queues[step_index].put(group)
        with self._changed:
            if self._free_slots[step_index]:
                self._changed.notify()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._process(*item)
            # Otherwise the variable would keep an ended partition alive until the next one.
            del item

    def _next(self) -> tuple[int, Group] | None:
        """Wait for a group at a step with a free slot and take the slot; later steps go first."""
        with self._changed:
            while True:
                for step_index in reversed(range(len(self._steps))):
                    if self._free_slots[step_index] and (group := self._queues[step_index].get()):
                        self._free_slots[step_index] -= 1
                        self._busy += 1
                        return step_index, group
                if self._closing and not self._busy:
                    self._changed.notify_all()
                    return None
                self._changed.wait()

    def _process(self, step_index: int, group: Group) -> None:
        """Process a group in a step, and in the following steps that it can enter at once."""
        while True:
            group = self._step(step_index, group)
            started_here, started_before = (
                self._in_progress.get(step_index),
                self._in_progress.get(step_index - 1),
            )
            continues = bool(group) and step_index + 1 < len(self._steps)
            enters_next = continues and self._enter(step_index + 1)
            if continues and not enters_next:
                self._put(step_index + 1, group)
            elif started_here is not None and not continues:
                started_here.leave(group)
            if started_before is not None:
                started_before.leave(group)
            self._leave(step_index, busy=enters_next)
            if not enters_next:
                return
            step_index += 1

    def _step(self, step_index: int, group: Group) -> Group:
        """Process a group in a step; return the partitions that continue."""
        step, started_here = self._steps[step_index], self._in_progress.get(step_index)
        if started_here is not None:
            started_here.enter(group[0])
        try:
            if step.form_batch is not None and started_here is not None:
                group = _form_group(group[0], self._queues[step_index], step.form_batch)
                started_here.join(group[1:])
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
            # An ended partition frees its slot, so the pipeline can close.
            work.ended = True
            _log.exception("a work could not be ended")

    def _enter(self, step_index: int) -> bool:
        """Take a slot of a step if one is free and nothing waits there."""
        with self._changed:
            if not self._free_slots[step_index] or self._queues[step_index]:
                return False
            self._free_slots[step_index] -= 1
            return True

    def _leave(self, step_index: int, *, busy: bool) -> None:
        """Free a slot and notify waiting threads.

        busy: whether this thread continues with its group at the next step.
        """
        with self._changed:
            self._free_slots[step_index] += 1
            self._busy -= not busy
            if self._closing:
                self._changed.notify_all()
            elif self._queues[step_index] and busy:
                # A thread that does not continue takes the waiting group itself.
                self._changed.notify()

    def close(self) -> None:
        """Process all work, then stop the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()


def _form_group(
    first: Work, source: PartitionQueue, form_batch: Callable[[Work, Callable[[], int]], int]
) -> Group:
    """Form a batch of a partition and waiting partitions with the same key.

    Work that cannot be batched does not wait for others.
    """
    if not first.can_batch_with(first):
        return [first]
    max_batch = form_batch(first, lambda: 1 + source.count_like(first))
    return [first, *source.more_like(first, max_batch - 1)]


class _GroupsInProgress:
    """The groups that one step has started and the next has not finished.

    There are at most `max_groups`, or one retried partition alone.
    """

    def __init__(self, max_groups: int) -> None:
        self._max_groups, self._count = max_groups, 0
        self._works: list[Work] = []
        self._changed = threading.Condition()

    def enter(self, first: Work) -> None:
        """Wait until another group may start."""
        with self._changed:
            # Cancelled work does not notify the condition.
            while not self._changed.wait_for(lambda: self._has_room(first), _POLL_SECONDS):
                pass
            self._works.append(first)
            self._count += 1

    def _has_room(self, first: Work) -> bool:
        """Report whether a group may start; cancelled partitions, which may hang, do not count."""
        active_works = [work for work in self._works if not work.is_abandoned]
        may_share_device = not active_works or not any(
            work.is_retry for work in (first, *active_works)
        )
        return may_share_device and self._count < self._max_groups

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
