"""A bounded FIFO queue of partitions before a step."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from quod.service.worker.concurrency_limit import UNITS_PER_PERMIT
from quod.service.worker.work import Work

Group = Sequence[Work]
"""A batch of partitions with one key, or a single partition."""


class PartitionQueue:
    """A queue with a capacity of `room` permits; a partition that is batched takes part of one."""

    def __init__(self, room: int) -> None:
        self._capacity_units = max(1, room) * UNITS_PER_PERMIT
        self._groups: deque[Group] = deque()
        self._used_units = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._groups)

    def put(self, group: Group) -> None:
        """Enqueue a group, waiting for room."""
        with self._changed:
            # A group may exceed the capacity, so that one with a whole permit need not wait until
            # all partial permits are free.
            self._changed.wait_for(lambda: self._used_units < self._capacity_units)
            self._used_units += self._size(group)
            self._groups.append(group)

    def get(self) -> Group | None:
        """Dequeue the oldest group; None if there is none."""
        with self._changed:
            return self._mark_dequeued(self._groups.popleft()) if self._groups else None

    def count_like(self, work: Work) -> int:
        """Count the waiting partitions that can be batched with this one."""
        with self._changed:
            return sum(len(group) for group in self._groups if self._is_like(work, group))

    def more_like(self, work: Work, most: int) -> list[Work]:
        """Dequeue up to `most` partitions that can be batched with this one, without waiting."""
        similar: list[Work] = []
        with self._changed:
            for group in tuple(self._groups):
                if len(similar) < most and self._is_like(work, group):
                    self._groups.remove(group)
                    similar += self._mark_dequeued(group)
        return similar

    @staticmethod
    def _is_like(work: Work, group: Group) -> bool:
        return all(work.can_batch_with(other) for other in group)

    def _mark_dequeued(self, group: Group) -> Group:
        self._used_units -= self._size(group)
        self._changed.notify_all()
        return group

    @staticmethod
    def _size(group: Group) -> int:
        return sum(work.permit_units for work in group)
