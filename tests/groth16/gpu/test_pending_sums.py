"""Sums that a key's thread never began, or that its thread lost, do not block their waiters."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from quod.device.runtime import future as outcome
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.timeline import NullTimeline
from quod.errors import DeviceError
from quod.groth16.context import ProofContext
from quod.groth16.gpu.gpu_sums import GpuSums
from quod.groth16.gpu.key import _Slot
from quod.groth16.slots import Slots


class Key:
    """As much of a key as sums take."""

    def __init__(self) -> None:
        self.runner = Background("test-gpu", 1)
        self.slots: Slots[Slot] = Slots(lambda: Slot(self), 1)

    def sums(self) -> GpuSums:
        timeline = NullTimeline()
        with timeline.stage("sums") as parent:
            context = ProofContext(timeline, parent)
        slot: Any = self.slots.acquire()
        return GpuSums(self.slots, slot, {}, context)


class Slot:
    """`go` lets a run go on."""

    def __init__(self, lane: Key) -> None:
        self.runner = lane.runner
        self.begun, self.go = threading.Event(), threading.Event()

    def run(self, first: Outcome[None], context: ProofContext) -> None:
        self.begun.set()
        self.go.wait(60)
        first.set(None)


def early_error(sums: GpuSums) -> list[BaseException]:
    """Return the errors that asking for the early sums raises, within a minute."""
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            sums.early()
        except BaseException as error:
            errors.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(60)
    return errors


def test_key_closed_before_sums_begin() -> None:
    key = Key()
    other = Slot(key)
    running = key.runner.begin(lambda: Slot.run(other, Outcome(), None))  # type: ignore[arg-type]
    assert other.begun.wait(60)
    sums = key.sums()
    closing = threading.Thread(target=key.runner.close)
    closing.start()
    errors = early_error(sums)
    assert [type(error).__bases__ for error in errors] == [(DeviceError,)]
    sums.close()
    other.go.set()
    closing.join(60)
    running.result(60)
    # The slot is there for the next proof.
    assert key.slots._free


def test_sum_preparation_failure() -> None:
    class Full(_Slot):
        def __init__(self) -> None:
            self.early: Any = self
            self.lane: Any = key

        def reset_results(self) -> None:
            raise MemoryError

    key = Key()
    key.slots._free = [Full()]  # type: ignore[list-item]
    errors = early_error(key.sums())
    assert [type(error) for error in errors] == [MemoryError]


def test_lost_thread_releases_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(Background, "_work", lambda self: None)
    key = Key()
    sums = key.sums()
    assert [type(error) for error in early_error(sums)] == [MemoryError]
    sums.close()
    assert key.slots._free
