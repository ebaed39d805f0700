"""Steps one after the other, each with threads of its own and a bounded queue before it.

Whoever has done a step puts the work into the next queue, and waits while that is full: so a slow
step holds back those before it, and in the end the claims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from quod.device.roomy_thread import RoomyThread
from quod.frozen import frozen
from quod.service.worker.waiting import Group, Waiting
from quod.service.worker.work import Work

# How often a step that waits to begin looks whether what it waits for has been given up.
_LOOK_SECONDS = 0.5


@frozen
class Step:
    """What is done with a group, by how many threads, and how much may wait for it.

    Works that end with it do not go on. The step that brings groups together has `together`, which
    waits until the device can take a work, told how many would be begun with it, itself among them,
    and says how many may be. It begins nothing that the step behind it has no thread for: what is
    begun holds memory of the device, for which the steps behind may wait. What was tried before is
    begun once nothing else is, and nothing beside it; `together` is not asked about it.
    """

    name: str
    do: Callable[[Group], None]
    threads: int
    room: int
    together: Callable[[Work, Callable[[], int]], int] | None = None


class Line:
    """All of the steps.

    What a step raises goes to `failed`, which ends the works of the group, and raises nothing.
    """

    def __init__(
        self, steps: Sequence[Step], failed: Callable[[Work, BaseException], None]
    ) -> None:
        self._failed = failed
        self._steps = steps
        self._queues = [Waiting(step.room) for step in steps]
        self._begun = {
            at: _Begun(steps[at + 1].threads)
            for at, step in enumerate(steps) if step.together is not None
        }  # fmt: skip
        self._threads = [
            [
                RoomyThread(target=self._run, args=(at,), name=f"quod-{step.name}-{number}")
                for number in range(step.threads)
            ]
            for at, step in enumerate(steps)
        ]
        for threads in self._threads:
            for thread in threads:
                thread.start()

    def put(self, work: Work) -> None:
        """Gives work to the first step."""
        self._queues[0].put([work])

    def _run(self, at: int) -> None:
        step, source = self._steps[at], self._queues[at]
        begins, began = self._begun.get(at), self._begun.get(at - 1)
        while (group := source.get()) is not None:
            if begins is not None:
                begins.enter(group[0])
            try:
                if step.together is not None and begins is not None:
                    group = _gathered(group[0], source, step.together)
                    begins.join(group[1:])
                step.do(group)
            except BaseException as error:
                for work in group:
                    if not work.ended:
                        self._failed(work, error)
            group = [work for work in group if not work.ended]
            if group and at + 1 < len(self._steps):
                self._queues[at + 1].put(group)
            elif begins is not None:
                begins.leave(group)
            if began is not None:
                began.leave(group)
            # Work that has ended must not live on until the next one comes.
            del group

    def close(self) -> None:
        """Does what there is, then ends the threads."""
        for queue, threads in zip(self._queues, self._threads, strict=True):
            for _ in threads:
                queue.put(None)
            for thread in threads:
                thread.join()


def _gathered(
    first: Work, source: Waiting, together: Callable[[Work, Callable[[], int]], int]
) -> Group:
    """A work with those like it that wait when the device can take them.

    What goes with none has no company to wait for.
    """
    if not first.goes_with(first):
        return [first]
    most = together(first, lambda: 1 + source.count_like(first))
    return [first, *source.more_like(first, most - 1)]


class _Begun:
    """What one step has begun and the next one has not passed on: `most`, or one that is alone."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._works: list[Work] = []
        self._changed = threading.Condition()

    def enter(self, first: Work) -> None:
        """Waits until one more may be begun."""
        with self._changed:
            # Nobody tells when a work is given up.
            while not self._changed.wait_for(lambda: self._has_room(first), _LOOK_SECONDS):
                pass
            self._works.append(first)
            self._count += 1

    def _has_room(self, first: Work) -> bool:
        """What hangs is given up, and does not keep others from being tried again."""
        wanted = [work for work in self._works if not work.gone]
        in_company = not wanted or not any(work.tried for work in (first, *wanted))
        return in_company and self._count < self._most

    def join(self, others: Group) -> None:
        """What is begun together with the one that came last."""
        with self._changed:
            self._works += others

    def leave(self, group: Group) -> None:
        """One has ended, or goes on without the device."""
        with self._changed:
            self._works = [work for work in self._works if not work.ended and work not in group]
            self._count -= 1
            self._changed.notify_all()
