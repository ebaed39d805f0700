"""Results that overlap come in their order, and errors after what was before them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, current_thread

import pytest

from quod.device.pipeline import overlapped


def test_the_next_is_begun_before_the_last_is_given() -> None:
    second = Event()
    names = []

    def begin(number: int) -> Callable[[], int]:
        if number == 2:
            second.set()

        def finish() -> int:
            names.append(current_thread().name)
            # Would wait for ever if the second were begun after it.
            assert second.wait(10)
            return 10 * number

        return finish

    assert list(overlapped([1, 2, 3], begin, name="test-pipeline")) == [10, 20, 30]
    assert [name.startswith("test-pipeline") for name in names] == [True] * 3
    assert list(overlapped([], begin, name="test-pipeline")) == []


@pytest.mark.parametrize("late", [False, True])
def test_an_error_comes_after_the_results_before_it(late: bool) -> None:
    begun = []

    def begin(number: int) -> Callable[[], int]:
        begun.append(number)

        def finish() -> int:
            return number // (number - 2)

        if number == 2 and not late:
            raise ZeroDivisionError
        return finish

    results = overlapped([1, 2, 3], begin, name="test-pipeline")
    assert next(results) == -1
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert begun == ([1, 2, 3] if late else [1, 2])
    with pytest.raises(StopIteration):
        next(results)
