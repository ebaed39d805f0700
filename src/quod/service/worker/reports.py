"""Reports of workers to the queue, retried while the queue is unavailable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from quod.errors import TryAgainError

T = TypeVar("T")

_TIMEOUT_SECONDS = 60.0
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.05, 2.0


def call_with_retries(report: Callable[[], T], is_closing: Callable[[], bool]) -> T:
    """Call `report` with retries while the queue is unavailable or cannot write.

    is_closing: returns true if the worker closes, so that no retry follows.
    Raises the TryAgainError of the last call after a minute.
    """
    deadline, pause = time.monotonic() + _TIMEOUT_SECONDS, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return report()
        except TryAgainError:
            if time.monotonic() > deadline or is_closing():
                raise
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
