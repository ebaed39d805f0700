"""Overlapped results keep their order, and errors follow earlier results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from threading import Event, current_thread

import pytest

from quod.device.runtime import future as outcome
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.pipeline import overlapped


def test_next_task_begins_before_the_previous_result_is_yielded() -> None:
    second = Event()
    names = []

    def begin(number: int) -> Callable[[], int]:
        if number == 2:
            second.set()

        def finish() -> int:
            names.append(current_thread().name)
            # Would wait for ever if the second were begun after it.
            assert second.wait(60)
            return 10 * number

        return finish

    assert list(overlapped([1, 2, 3], begin, name="test-pipeline")) == [10, 20, 30]
    assert [name.startswith("test-pipeline") for name in names] == [True] * 3
    assert list(overlapped([], begin, name="test-pipeline")) == []


@pytest.mark.parametrize("late", [False, True])
def test_errors_follow_earlier_results(late: bool) -> None:
    started = []

    def begin(number: int) -> Callable[[], int]:
        started.append(number)

        def finish() -> int:
            return number // (number - 2)

        if number == 2 and not late:
            raise ZeroDivisionError
        return finish

    results = overlapped([1, 2, 3], begin, name="test-pipeline")
    assert next(results) == -1
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert started == ([1, 2, 3] if late else [1, 2])
    with pytest.raises(StopIteration):
        next(results)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_inputs_that_raise(before: int) -> None:
    """The results of earlier inputs come first."""

    def inputs() -> Iterator[int]:
        yield from range(before)
        raise ZeroDivisionError

    results = []
    with pytest.raises(ZeroDivisionError):
        results.extend(overlapped(inputs(), lambda n: lambda: n, name="test-pipeline"))
    assert results == list(range(before))


def test_two_inputs_ahead() -> None:
    """A pending result is awaited once two more tasks have begun, and no earlier."""
    taken, go_on = [], Event()

    def inputs() -> Iterator[int]:
        for number in range(4):
            taken.append(number)
            yield number

    def begin(number: int) -> Callable[[], int]:
        if number == 2:
            go_on.set()
        return lambda: number if go_on.wait(60) else -1

    results = overlapped(inputs(), begin, name="test-pipeline", ahead=2)
    assert next(results) == 0
    assert taken == [0, 1, 2]
    assert list(results) == [1, 2, 3]


def test_completed_results_are_yielded_promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A completed result is yielded as soon as one more task has begun."""

    def done(_: Background, task: Callable[[], int]) -> Outcome[int]:
        return Outcome.of(task())

    monkeypatch.setattr(Background, "begin", done)
    taken: list[int] = []
    inputs = (taken.append(number) or number for number in range(4))
    results = overlapped(inputs, lambda n: lambda: n, name="test-pipeline", ahead=3)
    for expected in range(4):
        assert next(results) == expected
        assert len(taken) == min(expected + 2, 4)


def test_unrequested_results_are_finished() -> None:
    """Their resources are released."""
    finished = []
    results = overlapped([1, 2, 3], lambda n: lambda: finished.append(n), name="test-pipeline")
    next(results)
    assert isinstance(results, Generator)
    results.close()
    assert finished == [1, 2]


def test_silently_ended_thread_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(Background, "_work", lambda self: None)
    with pytest.raises(MemoryError):
        list(overlapped([1, 2], lambda n: lambda: n, name="test-pipeline"))


def test_begun_work_finishes_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its resources would not be released."""

    def none(waiting: Background, task: Callable[[], int]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Background, "begin", none)
    names: list[str] = []

    def begin(number: int) -> Callable[[], int]:
        def finish() -> int:
            names.append(current_thread().name)
            return number

        return finish

    assert list(overlapped([1, 2, 3], begin, name="test-pipeline")) == [1, 2, 3]
    assert names == [current_thread().name] * 3
