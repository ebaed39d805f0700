"""Outcomes set by other threads."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from quod.device.runtime import future as outcome_module
from quod.device.runtime.future import Dropped, Outcome


def test_all_waiters_get_the_result() -> None:
    outcome: Outcome[int] = Outcome()
    results: list[int] = []
    waiting = [threading.Thread(target=lambda: results.append(outcome.result())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert not outcome.done()
    assert not outcome.wait(0.01)
    with pytest.raises(TimeoutError):
        outcome.result(0.01)
    outcome.set(7)
    for thread in waiting:
        thread.join(60)
    assert results == [7] * 3
    assert outcome.done()
    assert Outcome.of(8).result(0) == 8


def test_error_is_raised_each_time_without_leaking_frames() -> None:
    outcome: Outcome[int] = Outcome()
    outcome.fail(ZeroDivisionError("by nothing"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="by nothing"):
            outcome.result()
    gone = weakref.ref(outcome)
    gc.disable()
    try:
        del outcome
        assert gone() is None
    finally:
        gc.enable()


def test_begun_and_dropped_are_exclusive() -> None:
    outcome: Outcome[int] = Outcome()
    assert outcome.begin()
    assert not outcome.drop()
    outcome.set(1)
    assert (outcome.result(0), outcome.drop()) == (1, False)
    dropped: Outcome[int] = Outcome()
    assert dropped.drop()
    assert not dropped.begin()
    assert not dropped.drop()
    with pytest.raises(Dropped):
        dropped.result()


def test_actions_follow_the_end() -> None:
    outcome: Outcome[None] = Outcome()
    seen: list[str] = []
    outcome.then(lambda: seen.append("first"))
    assert seen == []
    outcome.set(None)
    outcome.then(lambda: seen.append("second"))
    assert seen == ["first", "second"]


def test_abandoned_task_is_lost() -> None:
    nobody: Outcome[None] = Outcome(lambda: True)
    assert nobody.lost()
    with pytest.raises(MemoryError):
        nobody.result()
    nobody.set(None)
    assert not nobody.lost()
    nobody.result()


def test_a_wait_that_was_interrupted_does_not_keep_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C may interrupt a wait that holds the lock."""
    monkeypatch.setattr(outcome_module, "_CHECK_SECONDS", 0.01)
    outcome = Outcome.of(3)
    outcome._pending_lock.acquire()
    results: list[int] = []
    waiting = threading.Thread(target=lambda: results.append(outcome.result()), daemon=True)
    waiting.start()
    waiting.join(60)
    assert results == [3]
    assert outcome.wait(0.01)
