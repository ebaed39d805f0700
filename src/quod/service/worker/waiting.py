"""Works that wait for a step, in the order of their coming."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from quod.service.worker.concurrency_limit import WHOLE
from quod.service.worker.work import Work

Group = Sequence[Work]
"""Works that are begun together: one, or several of one key."""


class Waiting:
    """Room for `room` works, or as many more as have but a part of a place each."""

    def __init__(self, room: int) -> None:
        self._room = max(1, room) * WHOLE
        self._groups: deque[Group] = deque()
        self._used = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._groups)

    def put(self, group: Group) -> None:
        """Waits for room."""
        with self._changed:
            # One that needs a whole place does not wait until no parts are taken.
            self._changed.wait_for(lambda: self._used < self._room)
            self._used += self._size(group)
            self._groups.append(group)

    def get(self) -> Group | None:
        """What has waited longest; None if nothing waits."""
        with self._changed:
            return self._took(self._groups.popleft()) if self._groups else None

    def count_like(self, work: Work) -> int:
        """How many wait that may be begun together with this work."""
        with self._changed:
            return sum(len(group) for group in self._groups if self._is_like(work, group))

    def more_like(self, work: Work, most: int) -> list[Work]:
        """Takes up to so many that may be begun together with it, and waits for none."""
        found: list[Work] = []
        with self._changed:
            for group in tuple(self._groups):
                if len(found) < most and self._is_like(work, group):
                    self._groups.remove(group)
                    found += self._took(group)
        return found

    @staticmethod
    def _is_like(work: Work, group: Group) -> bool:
        return all(work.goes_with(other) for other in group)

    def _took(self, group: Group) -> Group:
        self._used -= self._size(group)
        self._changed.notify_all()
        return group

    @staticmethod
    def _size(group: Group) -> int:
        return sum(work.part for work in group)
