"""Who waits for what: callbacks by topic, called once something has been committed.

The topic of a job is its number, that of its end the number below zero (`end_of`), that of work for
workers is `WORK`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

Topic = int

News = object
"""What a change has come to, where that is known already; None where one has to look."""

Callback = Callable[[News], None]

WORK: Final[Topic] = 0
"""There may be something to claim; jobs are numbered from 1."""


def end_of(job: Topic) -> Topic:
    """The end of a job, for who does not care for its other events."""
    return -job


def is_end(topic: Topic) -> bool:
    """Whether a topic is the end of a job."""
    return topic < WORK


_log = logging.getLogger(__name__)


class Signals:
    """Callbacks of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Topic, list[Callback]] = {}

    def subscribe(self, topic: Topic, callback: Callback) -> Callable[[], None]:
        """Has `callback` called after each change, by some thread; gives what ends that.

        It must be short and not call the queue: setting an event, or waking a loop.
        """
        with self._lock:
            self._waiting.setdefault(topic, []).append(callback)

        def unsubscribe() -> None:
            with self._lock:
                waiting = self._waiting.get(topic, [])
                if callback in waiting:
                    waiting.remove(callback)
                if not waiting:
                    self._waiting.pop(topic, None)

        return unsubscribe

    def notify(self, topics: Iterable[Topic], news: Mapping[Topic, News] | None = None) -> None:
        """Calls whoever waits for one of the topics, with the news of it."""
        if not self._waiting:
            return
        known = news or {}
        with self._lock:
            called = [
                (callback, known.get(topic))
                for topic in topics
                for callback in self._waiting.get(topic, ())
            ]
        self._call(called)

    def notify_all(self) -> None:
        """Calls everyone: notifications may have been missed, or there will be none any more."""
        with self._lock:
            called = [(one, None) for waiting in self._waiting.values() for one in waiting]
        self._call(called)

    def _call(self, callbacks: Iterable[tuple[Callback, News]]) -> None:
        for callback, news in callbacks:
            try:
                callback(news)
            except Exception:
                _log.exception("a callback of the queue failed")
