"""Concurrent computations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from quod.device.runtime.concurrent import run_concurrently


def never() -> None:
    raise AssertionError("nothing is to be stopped")


def test_results_by_name_in_the_order_of_the_tasks() -> None:
    tasks: dict[str, Callable[[], Any]] = {str(n): lambda n=n: n * n for n in range(50)}  # type: ignore[misc]
    assert run_concurrently(tasks, 3, "test", never) == {str(n): n * n for n in range(50)}
    assert run_concurrently({}, 2, "test", never) == {}


def test_tasks_run_concurrently_on_their_threads() -> None:
    barrier, names = threading.Barrier(2, timeout=60), set()

    def meet() -> int:
        names.add(threading.current_thread().name)
        return barrier.wait()

    assert sorted(run_concurrently({"a": meet, "b": meet}, 2, "test", never).values()) == [0, 1]
    assert names == {"test-0", "test-1"}


def test_first_error_cancels_other_tasks() -> None:
    stopped, started = threading.Event(), []

    def fails() -> None:
        raise ZeroDivisionError

    def waits() -> None:
        assert stopped.wait(60)
        started.append("ended")
        raise ValueError

    tasks = {"waits": waits, "fails": fails, "late": lambda: started.append("late")}
    with pytest.raises(ZeroDivisionError):
        run_concurrently(tasks, 2, "test", stopped.set)
    assert started == ["ended"]


def test_interrupt_cancels_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, join = threading.Event(), threading.Thread.join

    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "join", join)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_concurrently({"waits": lambda: stopped.wait(60)}, 1, "test", stopped.set)
    assert not [thread for thread in threading.enumerate() if thread.name == "test-0"]


def test_silently_ended_thread_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may end without a report if it runs out of memory."""

    def run(thread: threading.Thread) -> None:
        time.sleep(0.01)

    monkeypatch.setattr(threading.Thread, "run", run)
    with pytest.raises(MemoryError):
        run_concurrently({"a": lambda: 1}, 1, "test", never)


def test_all_tasks_run_on_fewer_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def one_only(thread: threading.Thread) -> None:
        if not thread.name.endswith("-0"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", one_only)
    assert run_concurrently({"a": lambda: 1, "b": lambda: 2}, 2, "test", never) == {"a": 1, "b": 2}
    monkeypatch.setattr(threading.Thread, "start", lambda thread: one_only(threading.Thread()))
    with pytest.raises(RuntimeError, match="can't start"):
        run_concurrently({"a": lambda: 1}, 2, "test", lambda: None)


def test_a_further_thread_runs_tasks_once_the_first_has_ended() -> None:
    order: list[str] = []
    later_ended = threading.Event()

    def first() -> str:
        time.sleep(0.05)
        order.append("first")
        return threading.current_thread().name

    def last() -> str:
        # Further tasks need not wait for this one.
        assert later_ended.wait(60)
        return threading.current_thread().name

    def later() -> str:
        order.append("later")
        if len(order) == 3:
            later_ended.set()
        return threading.current_thread().name

    tasks = {"first": first, "last": last}
    assert run_concurrently(tasks, 1, "test", never, {"b": later, "a": later}) == {
        "first": "test-0", "last": "test-0", "b": "test-1", "a": "test-1"
    }  # fmt: skip
    assert order == ["first", "later", "later"]
    assert run_concurrently({}, 1, "test", never, {"a": later}) == {"a": "test-0"}


@pytest.mark.parametrize("failing", ["task", "later"])
def test_an_error_ends_the_tasks_of_the_further_thread(failing: str) -> None:
    stops, ran = [], []

    def fails() -> None:
        raise ZeroDivisionError

    task = fails if failing == "task" else lambda: time.sleep(0.2)
    later = {
        "x": lambda: ran.append(1) if failing == "task" else fails(),
        "y": lambda: ran.append(2),
    }
    with pytest.raises(ZeroDivisionError):
        run_concurrently({"a": task}, 1, "test", lambda: stops.append(1), later)
    assert stops == [1]
    assert ran == []
