"""The sums of a proof, which a GPU computes concurrently with the host; see `PendingSums`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.slots import Slots


class FinishedPoints(Protocol):
    """Results of recorded MSMs."""

    def finish(self) -> dict[str, Any]:
        """Return the computed points by name; for a batch, arrays of points."""


class SumSlot(Protocol):
    """The buffers and recordings of one proof in progress, or of one batch.

    early: the sums that A and B need.
    late: the other sums.
    joint: all sums, which take less time to finish together; None if the slot has no such results.
    """

    @property
    def runner(self) -> Background:
        """The thread that computes the sums of slots with shared memory, one slot at a time."""

    @property
    def early(self) -> FinishedPoints: ...
    @property
    def late(self) -> FinishedPoints: ...
    @property
    def joint(self) -> FinishedPoints | None: ...

    def upload(self, witness: Any, *, pinned: bool = False) -> None:
        """Upload the witness; work submitted afterwards reads the uploaded values.

        pinned: whether the witness is in page-locked memory.
        """

    def run(self, early_done: Outcome[None], context: ProofContext) -> None:
        """Compute the sums and wait for them; complete `early_done` after the early sums."""


def replay(
    device: AnyDevice, recording: Recording, timeline: Timeline | None = None,
    context: ProofContext | None = None,
) -> SubmittedStream:  # fmt: skip
    """Submit a recording of a proof; with a timeline, each step is measured."""
    parent = None if context is None else context.parent
    return device.stream("proof").replay(recording).submit(timeline, parent=parent)


def end_after(
    error: BaseException, early_done: Outcome[None], streams: Sequence[SubmittedStream]
) -> None:
    """Fail `early_done` if it is not complete, and wait for the submitted work."""
    if not early_done.done():
        early_done.fail(error)
    for stream in streams:
        with suppress(DeviceError):
            stream.wait()


class RunningSums:
    """The sums that are queued or running on a device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Outcome[None]] = []

    def add(self, sums: GpuSums) -> GpuSums:
        """Add sums that have started, and return them."""
        running = sums.running
        with self._lock:
            self._running = [*self._unfinished(), running]
        # Drop a failed outcome at once, as it refers to the buffers of its sums.
        running.then(self._forget)
        return sums

    def _unfinished(self) -> list[Outcome[None]]:
        return [outcome for outcome in self._running if not _has_ended(outcome)]

    def _forget(self) -> None:
        with self._lock:
            self._running = self._unfinished()

    def wait(self, timeout: float) -> bool:
        """Wait for each running sum up to `timeout` seconds; return whether all have ended."""
        with self._lock:
            running = self._unfinished()
        return all(outcome.wait(timeout) for outcome in running)


def _has_ended(running: Outcome[None]) -> bool:
    return running.done() or running.lost()


class GpuSums:
    """See `PendingSums`.

    slots, slot: the pool of slots, and the slot of these sums.
    running: completes with the last sums.
    """

    def __init__(
        self, slots: Slots[Any], slot: SumSlot, host_tasks: Tasks, context: ProofContext
    ) -> None:
        self._slots, self._slot = slots, slot
        self._host_tasks, self._context = host_tasks, context
        # All sums, if the device computed them before the host's tasks ended.
        self._points: dict[str, Any] = {}
        self._early_done: Outcome[None] = Outcome(lambda: self.running.lost())

        def compute() -> None:
            with context.computing():
                slot.run(self._early_done, context)

        self.running = slot.runner.begin(compute)
        self.running.then(self._fail_early)

    @classmethod
    def started(
        cls, slots: Slots[Any], witness: Words | Buffer | Sequence[Words | Buffer],
        host_tasks: Tasks, context: ProofContext,
    ) -> GpuSums:  # fmt: skip
        """Wait for a slot, and begin the sums of a witness or of a batch in it."""
        witnesses = [witness] if isinstance(witness, np.ndarray | Buffer) else witness
        nbytes = sum(values.nbytes for values in witnesses)
        slot: SumSlot = slots.acquire()
        try:
            # The copy to page-locked memory and the transfer both read the witness.
            with context.stage("upload", bytes=2 * nbytes), context.span("upload"):
                slot.upload(witness, pinned=context.pinned)
            return cls(slots, slot, host_tasks, context)
        except BaseException:
            slots.release(slot)
            raise

    def early(self) -> dict[str, Any]:
        # The tasks refer to the proof and so to its witness, whose memory garbage must not keep.
        tasks, self._host_tasks = self._host_tasks, {}
        results = {name: task() for name, task in tasks.items()}
        self._early_done.result()
        joint = self._slot.joint if self.running.done() else None
        if joint is None:
            return results | self._finish(self._slot.early)
        self.running.result()
        self._points = self._finish(joint)
        return results | self._points

    def last(self) -> dict[str, Any]:
        self.running.result()
        return self._points or self._finish(self._slot.late)

    def _fail_early(self) -> None:
        """Fail the early sums if the computation ended without them."""
        if not self._early_done.done():
            try:
                self.running.result()
            except BaseException as error:
                self._early_done.fail(error)

    def _finish(self, points: FinishedPoints) -> dict[str, Any]:
        with self._context.stage("finish sums"):
            return points.finish()

    def close(self) -> None:
        if self.running.lost():
            self._slots.release(self._slot)
        else:
            # After an error or Ctrl-C, the GPU may still use the slot.
            self.running.then(lambda: self._slots.release(self._slot))
