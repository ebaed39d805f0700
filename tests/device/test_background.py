"""Tasks that run concurrently with the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from quod.device.runtime import future as outcome
from quod.device.runtime.background import Background
from quod.device.runtime.future import Dropped


def test_tasks_return_their_own_results_and_errors() -> None:
    background = Background("test", 3)
    tasks = [background.begin(lambda n=n: 10 // n) for n in range(20)]  # type: ignore[misc]
    assert [each.result() for each in tasks[1:]] == [10 // n for n in range(1, 20)]
    with pytest.raises(ZeroDivisionError):
        tasks[0].result()
    background.close()
    # Threads that have ended come back.
    assert background.begin(lambda: "again").result() == "again"


def test_one_task_per_thread_runs_concurrently() -> None:
    background, together = Background("test", 2), threading.Barrier(2, timeout=60)
    tasks = [background.begin(together.wait) for _ in range(4)]
    assert sorted(each.result() for each in tasks) == [0, 0, 1, 1]
    alone = Background("test", 1)
    running, most = [0], [0]

    def count() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        running[0] -= 1

    for each in [alone.begin(count) for _ in range(50)]:
        each.result()
    assert most == [1]


def test_closing_waits_for_running_tasks_and_drops_queued_ones() -> None:
    background, started, go = Background("test", 1), threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        go.wait(60)
        return "done"

    first, second = background.begin(slow), background.begin(lambda: "never")
    assert started.wait(60)
    closing = threading.Thread(target=background.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    with pytest.raises(Dropped):
        second.result()
    go.set()
    closing.join(60)
    assert first.result() == "done"


def test_process_exit_drops_queued_tasks() -> None:
    source = (
        "import threading\n"
        "from quod.device.runtime.background import Background\n"
        "background, begun = Background('test', 1), threading.Event()\n"
        "def say(n):\n"
        "    begun.set()\n"
        "    threading.main_thread().join()\n"
        "    print(n, flush=True)\n"
        "for n in range(100):\n"
        "    background.begin(lambda n=n: say(n))\n"
        "begun.wait()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout == "0\n"
    assert ended.stderr == ""


def test_a_forked_process_does_its_own_tasks() -> None:
    background, started, go = Background("test", 1), threading.Event(), threading.Event()

    def hold() -> bool:
        started.set()
        return go.wait(60)

    held = background.begin(hold)
    waiting = background.begin(os.getpid)
    assert started.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            background.begin(lambda: None).result(60)
            status = 0
        finally:
            os._exit(status)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        go.set()
    assert held.result(60)
    assert waiting.result(60) == os.getpid()


def test_failed_thread_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that failed to start is not counted, and nothing waits for it."""
    background, start = Background("test", 1), threading.Thread.start

    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(RuntimeError, match="can't start"):
        background.begin(lambda: "never")
    monkeypatch.setattr(threading.Thread, "start", start)
    assert background.begin(lambda: "later").result(60) == "later"
    background.close()


def test_without_a_second_thread_the_first_does_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background, go = Background("test", 2), threading.Event()
    first = background.begin(lambda: go.wait(60))

    def none(thread: threading.Thread) -> None:
        raise MemoryError

    monkeypatch.setattr(threading.Thread, "start", none)
    second = background.begin(lambda: "done")
    go.set()
    assert (first.result(60), second.result(60)) == (True, "done")


def test_threads_linger_for_the_next_task_and_no_longer() -> None:
    background = Background("lingers", 2, linger=600.0)
    first = background.begin(threading.current_thread).result(60)
    assert background.begin(threading.current_thread).result(60) is first
    # Tasks beyond those that are waited for have threads of their own.
    meeting = threading.Barrier(2, timeout=60)
    both = [background.begin(meeting.wait) for _ in range(2)]
    assert sorted(each.result(60) for each in both) == [0, 1]
    background.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "lingers"]
    brief = Background("test", 1, linger=0.01)
    last = brief.begin(threading.current_thread).result(60)
    last.join(60)
    assert not last.is_alive()
    assert brief.begin(lambda: "again").result(60) == "again"


def test_silently_ended_thread_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may end without a report if it runs out of memory."""
    monkeypatch.setattr(outcome, "_CHECK_SECONDS", 0.01)
    work = Background._work
    monkeypatch.setattr(Background, "_work", lambda self: None)
    background = Background("test", 1)
    lost = background.begin(lambda: "never")
    with pytest.raises(MemoryError):
        lost.result()
    monkeypatch.setattr(Background, "_work", work)
    # Others come after it.
    assert background.begin(lambda: "later").result(60) == "later"
    background.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_in_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(outcome.Outcome, "set", lambda self, result: sys.exit())
    monkeypatch.setattr(outcome.Outcome, "fail", lambda self, error: sys.exit())
    background, go = Background("test", 2), threading.Event()
    other = background.begin(lambda: go.wait(60))
    lost = background.begin(lambda: "nobody hears of it")
    with pytest.raises(MemoryError):
        lost.result()
    # Another thread is still at work.
    assert not other.lost()
    go.set()
    with pytest.raises(MemoryError):
        other.result()


def test_threads_outliving_main_get_their_tasks_done() -> None:
    source = (
        "import threading, time\n"
        "from quod.device.runtime.background import Background\n"
        "background = Background('test', 1)\n"
        "def ask():\n"
        "    first = background.begin(threading.main_thread().join)\n"
        "    print([background.begin(lambda n=n: n).result() for n in range(3)], flush=True)\n"
        "threading.Thread(target=ask).start()\n"
        "def again():\n"
        "    while True:\n"
        "        background.begin(lambda: time.sleep(0.01)).result()\n"
        "threading.Thread(target=again, daemon=True).start()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout == "[0, 1, 2]\n"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_that_ends_while_idle_is_not_reused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background = Background("test", 1, linger=600.0)

    def no_memory(timeout: float) -> bool:
        raise MemoryError

    monkeypatch.setattr(background._changed, "wait", no_memory)
    last = background.begin(threading.current_thread).result(60)
    last.join(60)
    monkeypatch.undo()
    assert background.begin(lambda: "later").result(60) == "later"
    background.close()
