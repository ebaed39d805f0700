"""Batching on the pipeline: works that join a batch, the order of waits, and forbidden waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from quod.service.worker.concurrency_limit import UNITS_PER_PERMIT, Permits
from quod.service.worker.partition_queue import Group, PartitionQueue
from quod.service.worker.pipeline import Pipeline, Step
from quod.service.worker.stages import Stages
from quod.service.worker.work import Work
from tests.service.worker.conftest import SECONDS, eventually

_LEASE: dict[str, Any] = {"attempt": 1, "token": 1, "body": b""}


def work(name: str, key: str = "k", part: int = UNITS_PER_PERMIT, **lease: int) -> Any:
    """A work with its key, as far as the line looks at one."""
    new_work: Any = Work(SimpleNamespace(job=name, **(_LEASE | lease)), part)  # type: ignore[arg-type]
    new_work.key = SimpleNamespace(value=_KEYS[key])
    return new_work


_KEYS = {name: object() for name in "kl"}


def names(group: Sequence[Work] | None) -> str:
    return "".join(member.lease.job for member in group or ())


# --- what waits


def test_jobs_of_one_key_are_taken_and_others_keep_their_order() -> None:
    waiting = PartitionQueue(9)
    for member in (
        work("a"), work("b", "l"), work("c"), work("d", token=2), work("e", attempt=2, token=2),
        work("f"), work("g"),
    ):  # fmt: skip
        waiting.put([member])
    first = waiting.get()
    assert names(first) == "a"
    assert first is not None
    assert waiting.count_like(first[0]) == 3
    assert names(waiting.more_like(first[0], 2)) == "cf"
    assert names(waiting.more_like(first[0], 9)) == "g"
    assert waiting.more_like(first[0], 9) == []
    assert waiting.count_like(first[0]) == 0
    # What was in a worker's hands before goes with none, and neither does what has no key yet.
    again = work("h", token=2)
    assert not again.can_batch_with(again)
    assert not work("i").can_batch_with(SimpleNamespace(key=None, lease=work("j").lease))
    assert [names(waiting.get()) for _ in range(3)] == ["b", "d", "e"]


def test_room_is_for_works_or_more_parts() -> None:
    waiting = PartitionQueue(1)
    half = UNITS_PER_PERMIT // 2
    waiting.put([work("a", part=half)])
    waiting.put([work("b", part=half)])
    done: list[str] = []

    def put() -> None:
        waiting.put([work("c")])
        done.append("c")

    thread = threading.Thread(target=put)
    thread.start()
    assert not done
    # One that needs a whole place does not wait until no parts are taken.
    assert names(waiting.get()) == "a"
    thread.join(SECONDS)
    assert done == ["c"]
    assert [names(waiting.get()) for _ in range(3)] == ["b", "c", ""]


def test_permits_are_returned_in_fractions() -> None:
    permits = Permits(2)
    assert permits.take(9, 0.0) == 2
    assert permits.take(1, 0.0) == 0
    assert permits.take_units(9, 1) == 0
    permits.give_back(UNITS_PER_PERMIT - 1)
    # One work of the two had but a part.
    assert permits.take(1, 0.0) == 0
    assert permits.take_units(5, 8) == 3
    permits.give_back(25)
    assert permits.take(1, 0.0) == 1
    assert permits.take_units(0, 1) == 0


def test_shrinking_halves_permits_once_per_batch_in_flight() -> None:
    permits = Permits(12)
    for _ in range(32):
        permits.shrink(12)
    assert permits.limit == 6
    # What was claimed since then tells that it was not enough.
    permits.shrink(6)
    permits.shrink(12)
    assert permits.limit == 3
    permits.shrink(1)
    assert permits.limit == 1
    for _ in range(16):
        permits.grow()
    assert permits.limit == 2


# --- the line


def line(*steps: Step) -> tuple[Pipeline, list[tuple[str, str]]]:
    """With what has failed, and the kind of its error."""
    failed: list[tuple[str, str]] = []

    def fail(failed_work: Work, error: BaseException) -> None:
        failed_work.ended = True
        failed.append((failed_work.lease.job, type(error).__name__))

    return Pipeline(steps, fail), failed


def test_batch_is_formed_when_the_device_is_ready() -> None:
    turn, gate = threading.Event(), threading.Event()
    counts: list[tuple[int, int]] = []
    started: list[str] = []
    done: list[str] = []

    def together(_: Work, waiting: Callable[[], int]) -> int:
        before = waiting()
        gate.set()
        assert turn.wait(SECONDS)
        counts.append((before, waiting()))
        return 3

    def begin(group: Group) -> None:
        started.append(names(group))
        if "x" in names(group):
            group[0].ended = True
        if "y" in names(group):
            raise ValueError

    pipeline, failed = line(
        Step("begin", begin, 1, 9, together),
        Step("done", lambda group: done.append(names(group)), 1, 1),
    )
    pipeline.put(work("a"))
    assert gate.wait(SECONDS)
    for name in "bcdx":
        pipeline.put(work(name))
    pipeline.put(work("y", "l"))
    turn.set()
    pipeline.close()
    assert started == ["abc", "dx", "y"]
    # The first was alone when it came, and others came while it waited for its turn.
    assert counts == [(1, 5), (2, 2), (1, 1)]
    assert done == ["abc", "x"]
    assert failed == [("y", "ValueError")]


def test_single_job_uses_one_thread() -> None:
    """Jobs that arrive meanwhile use other threads, within the limit of each step."""
    gate, inside = threading.Event(), threading.Event()
    threads: dict[str, list[int]] = {}
    at_once: list[int] = []

    def do(group: Group) -> None:
        threads.setdefault(names(group), []).append(threading.get_ident())

    def prove(group: Group) -> None:
        do(group)
        at_once.append(1)
        assert sum(at_once) == 1
        if names(group) == "b":
            inside.set()
            assert gate.wait(SECONDS)
        at_once.append(-1)

    pipeline, failed = line(
        Step("read", do, 2, 9), Step("begin", do, 1, 1), Step("prove", prove, 1, 1),
        Step("check", do, 1, 1),
    )  # fmt: skip
    pipeline.put(work("a"))
    eventually(lambda: len(threads.get("a", ())) == 4)
    assert len({*threads["a"]}) == 1
    pipeline.put(work("b"))
    assert inside.wait(SECONDS)
    for name in "cdefg":
        pipeline.put(work(name))
    # One waits before the step that does not get on, one at the step before it holds that up.
    eventually(
        lambda: sum(len(carriers) for carriers in threads.values()) == 4 + 3 + 2 + 2 + 1 + 1 + 1
    )
    gate.set()
    pipeline.close()
    assert {name: len(carriers) for name, carriers in threads.items()} == dict.fromkeys(
        "abcdefg", 4
    )
    assert failed == []


def test_failing_jobs_release_their_slot(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def do(group: Group) -> None:
        if names(group) != "c":
            raise ValueError
        done.append(names(group))

    def failed(*_: object) -> None:
        raise OSError

    pipeline = Pipeline([Step("read", do, 1, 1)], failed)
    for name in "abc":
        pipeline.put(work(name))
    pipeline.close()
    assert done == ["c"]
    assert caplog.text.count("a work could not be ended") == 2


@pytest.mark.parametrize("lease", [{"token": 2}, {"attempt": 2, "token": 2}])
def test_unbatchable_work_does_not_wait_for_a_batch(lease: dict[str, int]) -> None:
    """Work on the device may hang, and be abandoned."""
    asked: list[str] = []
    done: list[str] = []

    def together(first: Work, _: Callable[[], int]) -> int:
        asked.append(first.lease.job)
        return 9

    pipeline, failed = line(
        Step("begin", lambda _: None, 1, 9, together),
        Step("done", lambda group: done.append(names(group)), 1, 1),
    )
    for member in (work("a", **lease), work("b")):
        pipeline.put(member)
    pipeline.close()
    assert (asked, done, failed) == (["b"], ["a", "b"], [])


def test_waiting_for_the_device_ends_on_cancellation() -> None:
    first = work("a")
    looked = threading.Semaphore(0)

    def wait_for_turn(waiting: Callable[[], int]) -> None:
        end = time.monotonic() + SECONDS
        while waiting() < 3 and time.monotonic() < end:
            looked.release()

    first.key = SimpleNamespace(value=SimpleNamespace(wait_for_turn=wait_for_turn, max_batch=3))
    stages: Any = Stages.__new__(Stages)
    pipeline, failed = line(
        Step("begin", lambda _: None, 1, 9, stages._wait_for_turn),
        Step("done", lambda _: None, 1, 1),
    )
    pipeline.put(first)
    for _ in range(2):
        assert looked.acquire(timeout=SECONDS)
    first.abandon()
    pipeline.close()
    assert failed == [("a", "AbandonedError")]


def test_retried_work_runs_alone() -> None:
    """Retried work waits until the device is idle, and nothing else begins."""
    leave = {name: threading.Event() for name in "abcd"}
    inside: set[str] = set()
    seen: list[set[str]] = []

    def begin(group: Group) -> None:
        inside.add(names(group))
        seen.append(set(inside))

    def prove(group: Group) -> None:
        assert leave[names(group)].wait(SECONDS)
        inside.discard(names(group))

    pipeline, failed = line(Step("begin", begin, 1, 9, lambda *_: 1), Step("prove", prove, 3, 3))
    for member in (work("a"), work("b", token=2), work("c", attempt=2, token=2), work("d")):
        pipeline.put(member)
    eventually(lambda: len(seen) == 2)
    leave["a"].set()
    leave["b"].set()
    eventually(lambda: len(seen) == 3)
    leave["c"].set()
    leave["d"].set()
    pipeline.close()
    assert seen == [{"a"}, {"a", "b"}, {"c"}, {"d"}]
    assert failed == []


def test_abandoned_work_is_not_awaited() -> None:
    """Once it is given up, what was tried before is begun beside it."""
    gate = threading.Event()
    done: list[str] = []

    def prove(group: Group) -> None:
        assert names(group) != "a" or gate.wait(SECONDS)
        done.append(names(group))

    pipeline, _ = line(
        Step("begin", lambda _: None, 1, 9, lambda *_: 1), Step("prove", prove, 2, 2)
    )
    hangs = work("a")
    pipeline.put(hangs)
    pipeline.put(work("b", attempt=2, token=2))
    assert not done
    hangs.is_abandoned = True
    eventually(lambda: done == ["b"])
    gate.set()
    pipeline.close()
    assert done == ["b", "a"]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_checks_that_need_the_device_get_it(slots: int) -> None:
    """Slots are given back by the step that proves, which waits for the one that checks.

    Were more begun than that step has threads for, all slots would be held by what waits for it.
    """
    free = threading.Semaphore(slots)
    all_wait, count = threading.Event(), 16
    passed: list[str] = []

    def begin(_: Group) -> None:
        assert free.acquire(timeout=SECONDS)

    def prove(_: Group) -> None:
        free.release()

    def check(group: Group) -> None:
        # Until the line stands still behind it.
        assert all_wait.wait(SECONDS)
        assert free.acquire(timeout=SECONDS / 4)
        free.release()
        passed.append(names(group))

    started: list[int] = []
    pipeline, failed = line(
        Step("begin", _counting(started, begin), 1, 1, lambda *_: 1),
        Step("prove", prove, slots, slots), Step("check", check, 2, 2),
    )  # fmt: skip
    putting = threading.Thread(target=lambda: [pipeline.put(work(f"{at},")) for at in range(count)])
    putting.start()
    # Two at each thread of the check, two before it, and one in each of the others' hands.
    eventually(lambda: len(started) == 4 + slots)
    all_wait.set()
    putting.join(SECONDS)
    pipeline.close()
    assert len(passed) == count
    assert failed == []


def _counting(calls: list[int], do: Callable[[Group], None]) -> Callable[[Group], None]:
    def counted(group: Group) -> None:
        calls.append(len(group))
        do(group)

    return counted
