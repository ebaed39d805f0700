"""Callbacks by topic, called after a commit.

The topic of a job's events is its number, the topic of its end is the negated number (`end_of`),
and `WORK` is the topic of new work for workers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

Topic = int

News = object
"""The outcome of a change if it is known; None if the subscriber must read it."""

Callback = Callable[[News], None]

WORK: Final[Topic] = 0
"""Work may be available; jobs are numbered from 1."""


def end_of(job: Topic) -> Topic:
    """Return the topic of a job's end alone."""
    return -job


def is_end(topic: Topic) -> bool:
    """Report whether a topic is the end of a job."""
    return topic < WORK


_log = logging.getLogger(__name__)


class Signals:
    """The subscriptions of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[Topic, list[Callback]] = {}

    def subscribe(self, topic: Topic, callback: Callback) -> Callable[[], None]:
        """Call `callback` after each change; return a function that unsubscribes it.

        The callback runs in any thread. It must return quickly and must not call the queue; it may
        set an event or wake an event loop.
        """
        with self._lock:
            self._callbacks.setdefault(topic, []).append(callback)

        def unsubscribe() -> None:
            with self._lock:
                callbacks = self._callbacks.get(topic, [])
                if callback in callbacks:
                    callbacks.remove(callback)
                if not callbacks:
                    self._callbacks.pop(topic, None)

        return unsubscribe

    def notify(self, topics: Iterable[Topic], news: Mapping[Topic, News] | None = None) -> None:
        """Call the subscribers of the topics with the outcome of each in `news`."""
        if not self._callbacks:
            return
        outcomes = news or {}
        with self._lock:
            callbacks_and_outcomes = [
                (callback, outcomes.get(topic))
                for topic in topics
                for callback in self._callbacks.get(topic, ())
            ]
        self._call(callbacks_and_outcomes)

    def notify_all(self) -> None:
        """Call all subscribers, as notifications were missed or the queue is closed."""
        with self._lock:
            callbacks_and_outcomes = [
                (callback, None) for callbacks in self._callbacks.values() for callback in callbacks
            ]
        self._call(callbacks_and_outcomes)

    def _call(self, callbacks_and_outcomes: Iterable[tuple[Callback, News]]) -> None:
        for callback, news in callbacks_and_outcomes:
            try:
                callback(news)
            except Exception:
                _log.exception("a callback of the queue failed")
