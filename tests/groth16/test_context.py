"""The context of a proof and the slots that proofs share."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import DeviceError, InputError, VerificationError
from quod.groth16.context import ProofContext, self_check
from quod.groth16.slots import Slots


def test_stages_of_other_threads_belong_to_the_proof() -> None:
    timeline = Timeline()
    with timeline.stage("sums") as parent:
        context = ProofContext(timeline, parent)

        def work() -> int:
            with context.stage("sum", bytes=7):
                return 3

        assert context.is_timed
        assert context.run_tasks({"a": work, "b": work}, 2) == {"a": 3, "b": 3}
    first, *others = timeline.rows()
    assert first.name == "sums"
    assert [(row.name, row.bytes, row.parent) for row in others] == [("sum", 7, first)] * 2


def test_failure_cancels_tasks_that_have_not_begun() -> None:
    timeline, ran = or_null(None), list[int]()
    with timeline.stage("sums") as parent:
        context = ProofContext(timeline, parent)

        def fail() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            context.run_tasks({"a": fail, "b": lambda: ran.append(1)}, 1)
        assert not context.is_timed
        assert not ran
        assert context.cancellation.requested
        # What comes later is refused.
        with pytest.raises(DeviceError, match="the proof was stopped"):
            context.run_tasks({"c": lambda: ran.append(1)}, 1)


def test_a_proof_that_is_wrong_or_malformed() -> None:
    def malformed() -> bool:
        raise InputError("off the curve")

    def check(verify: Callable[[], bool]) -> None:
        self_check(
            or_null(None), verify, wrong="is wrong", malformed=lambda error: f"a point is {error}"
        )

    check(lambda: True)
    with pytest.raises(VerificationError, match="is wrong"):
        check(lambda: False)
    with pytest.raises(VerificationError, match="a point is off the curve"):
        check(malformed)


def test_slots_are_created_lazily_and_awaited() -> None:
    numbers: list[int] = []

    def make() -> int:
        numbers.append(len(numbers))
        return numbers[-1]

    slots = Slots(make, 2)
    assert numbers == [0]
    first, second = slots.acquire(), slots.acquire()
    assert {first, second} == {0, 1} == set(numbers)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slots.acquire)
        time.sleep(0.01)
        assert not waiting.done()
        slots.release(second)
        assert waiting.result(60) == second
    assert numbers == [0, 1]


def test_slot_creation_is_retried_after_failure() -> None:
    full = False

    def make() -> object:
        if full:
            raise DeviceError("no memory")
        return object()

    slots = Slots(make, 2)
    slots.acquire()
    full = True
    with pytest.raises(DeviceError):
        slots.acquire()
    full = False
    assert slots.acquire() is not None
