"""Steps one after the other, each for so many threads at a time, with a bounded queue before it.

Whoever has done a step goes on with the work to the next one, if nothing waits there and it has a
place; work that is alone is carried through by one thread, and waits for none to wake. Else it goes
into the next queue, and whoever brings it waits while that is full: so a slow step holds back those
before it, and in the end the claims.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from quod.device.runtime.big_stack_thread import RoomyThread
from quod.frozen import frozen
from quod.service.worker.waiting import Group, Waiting
from quod.service.worker.work import Work

# How often a step that waits to begin looks whether what it waits for has been given up.
_LOOK_SECONDS = 0.5

_log = logging.getLogger(__name__)


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
        # As many threads may be at a step as it says, whichever these are, and so there is always
        # one for what waits at a step that has a place.
        self._places = [step.threads for step in steps]
        self._changed = threading.Condition()
        self._busy, self._closing = 0, False
        self._threads = [
            RoomyThread(target=self._run, name=f"quod-line-{number}")
            for number in range(sum(self._places))
        ]
        for thread in self._threads:
            thread.start()

    def put(self, work: Work) -> None:
        """Gives work to the first step."""
        self._put(0, [work])

    def _put(self, at: int, group: Group) -> None:
        self._queues[at].put(group)
        with self._changed:
            if self._places[at]:
                self._changed.notify()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            self._carry(*found)
            # Work that has ended must not live on until the next one comes.
            del found

    def _next(self) -> tuple[int, Group] | None:
        """What waits at a step that has a place, which is taken; the last steps go first."""
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
        """Takes a group as far as it can go without waiting behind others."""
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
        """Does a step with what waited for it; what of that goes on."""
        step, begins = self._steps[at], self._begun.get(at)
        if begins is not None:
            begins.enter(group[0])
        try:
            if step.together is not None and begins is not None:
                group = _gathered(group[0], self._queues[at], step.together)
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
            # Its place is for others, and the end of the line does not wait for it.
            work.ended = True
            _log.exception("a work could not be ended")

    def _enter(self, at: int) -> bool:
        """Takes a place at a step for which nothing waits, if there is one."""
        with self._changed:
            if not self._places[at] or self._queues[at]:
                return False
            self._places[at] -= 1
            return True

    def _leave(self, at: int, *, busy: bool) -> None:
        """Gives a place back, to what waits for it."""
        with self._changed:
            self._places[at] += 1
            self._busy -= not busy
            if self._closing:
                self._changed.notify_all()
            elif self._queues[at] and busy:
                self._changed.notify()

    def close(self) -> None:
        """Does what there is, then ends the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
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
