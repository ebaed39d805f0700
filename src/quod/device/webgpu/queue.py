"""The queue of submissions to the GPU; each submission has a receipt.

The last kernel of a submission increments a count, which is copied to memory that the host can map.
A readable copy shows that the submission is done. A correct count shows that kernels ran: a driver
that has lost the GPU or its memory may continue and return zeros. The copy has three words for the
count (`shaders.COUNT`), and one that tells whether a driver ended loops early, if kernels watch for
that.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quod.device.webgpu.native import READ, Mapping, Native, WebGpuError
from quod.device.webgpu.shaders import STATE_BYTES, count_words
from quod.errors import DeviceError

_RECEIPT_BYTES = 16
# Polling takes time from other Python threads, and from the CPU itself if the adapter is emulated
# on it: so even the first poll is followed by a pause. Later pauses grow with the time waited, so
# that a wait ends at most 50 us or 2 % late.
_FIRST_PAUSE = 50e-6
_LONGEST_PAUSE = 2e-3
_PAUSE_FRACTION = 0.02


class Receipt:
    """One submission.

    handle: the buffer to which the count is copied.
    doing: returns a description of the work, for messages.
    submitted, done_ns: the times of its submission, and at which the host saw that it was done.
    error: the error of a submission that failed, or None.
    """

    def __init__(self, number: int, handle: Any, doing: Callable[[], str], keep: object) -> None:
        self.number = number
        self.handle = handle
        self.doing = doing
        self.submitted = time.perf_counter()
        self.mapping: Mapping | None = None
        self.done_ns = 0
        self.is_done = False
        self.error: DeviceError | None = None
        self._keep = keep

    def finish(self, error: DeviceError | None) -> None:
        """Mark the submission as done and release the objects that it kept alive."""
        self.error, self.done_ns, self._keep = error, time.perf_counter_ns(), None
        self.is_done = True


class WebGpuQueue:
    """Submits to one device and watches over it; for use from any thread.

    `lose` is called once, with the reason, when nothing more can be expected of the device. One
    such reason is a submission that has neither ended nor failed within `watchdog` seconds of the
    end of the one before it.
    """

    def __init__(
        self, native: Native, device: Any, name: str, watchdog: float, lose: Callable[[str], None]
    ) -> None:
        self._native = native
        self._device = device
        self._name = name
        self.watchdog = watchdog
        self._lose = lose
        self._lock = threading.Lock()
        self._poll_lock = threading.Lock()
        self._count = 0
        self._outstanding: deque[Receipt] = deque()
        self._idle_receipts: list[Any] = []
        self._last_progress = time.perf_counter()
        self._dead: str | None = None
        usage = native.wgpu.BufferUsage
        self._receipt_usage = usage.COPY_DST | usage.MAP_READ
        self._state = device.create_buffer(
            size=STATE_BYTES, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        )
        self._counter: tuple[Any, Any] | None = None

    @property
    def state(self) -> Any:
        """The buffer with the count."""
        return self._state

    def set_counter(self, pipeline: Any, bind_group: Any) -> None:
        """Set the counting kernel; it is required before the first submission."""
        self._counter = pipeline, bind_group

    @property
    def submissions(self) -> int:
        """Number of submissions so far."""
        return self._count

    def submit(self, encoder: Any, doing: Callable[[], str], keep: object = None) -> Receipt:
        """Submit encoded commands to the GPU; `keep` stays alive until they are done."""
        with self._lock:
            self._check()
            assert self._counter is not None
            pipeline, bind_group = self._counter
            handle = self._receipt_handle()
            with self._native.errors():
                counting = encoder.begin_compute_pass()
                counting.set_pipeline(pipeline)
                counting.set_bind_group(0, bind_group, [0])
                counting.dispatch_workgroups(1)
                counting.end()
                encoder.copy_buffer_to_buffer(self._state, 0, handle, 0, _RECEIPT_BYTES)
                commands = encoder.finish()
                self._device.queue.submit([commands])
            self._count += 1
            receipt = Receipt(self._count, handle, doing, keep)
            receipt.mapping = self._native.map(handle, READ, _RECEIPT_BYTES)
            if not self._outstanding:
                self._last_progress = receipt.submitted
            self._outstanding.append(receipt)
            return receipt

    def _receipt_handle(self) -> Any:
        if self._idle_receipts:
            return self._idle_receipts.pop()
        with self._native.errors():
            return self._device.create_buffer(size=_RECEIPT_BYTES, usage=self._receipt_usage)

    def _check(self) -> None:
        if self._dead is not None:
            raise DeviceError(f"{self._name}: {self._dead}")

    def poll(self) -> None:
        """Mark finished submissions; raises DeviceError if the device was lost or hangs."""
        # One thread polls at a time, on behalf of all.
        if not self._poll_lock.acquire(blocking=False):
            return
        try:
            if self._dead is not None:
                return
            self._native.poll(self._device)
            loss_report = self._native.take_loss_report()
            if loss_report and self._is_lost():
                self._mark_dead(f"the device was lost ({loss_report}); close it and open it again")
                return
            self._finish_done()
            self._check_for_hang()
        finally:
            self._poll_lock.release()

    def _is_lost(self) -> bool:
        """Test by a harmless request whether this device was lost."""
        try:
            with self._native.errors():
                self._device.create_command_encoder().finish()
        except WebGpuError:
            return True
        return False

    def _finish_done(self) -> None:
        while self._outstanding:
            receipt = self._outstanding[0]
            mapping = receipt.mapping
            if mapping is None or not mapping.is_done:
                return
            self._last_progress = time.perf_counter()
            if mapping.refusal:
                reason = self._native.take_loss_report() or mapping.refusal
                self._mark_dead(
                    f"the device was lost in {receipt.doing()} ({reason}); close it and "
                    "open it again"
                )
                return
            *words, cut_short = self._read(receipt)
            if tuple(words) != count_words(receipt.number):
                self._mark_dead(_wrong_count_message(words, receipt))
                return
            self._outstanding.popleft()
            receipt.finish(self._loops_were_ended(receipt) if cut_short else None)
            self._idle_receipts.append(receipt.handle)

    def _read(self, receipt: Receipt) -> tuple[int, ...]:
        data = self._native.mapped_bytes(receipt.handle, _RECEIPT_BYTES, mode=READ)
        words = tuple(int(word) for word in data.view(np.uint32))
        del data
        self._native.unmap(receipt.handle)
        return words

    def _loops_were_ended(self, receipt: Receipt) -> DeviceError:
        return DeviceError(
            f"{self._name}: in {receipt.doing()} the driver ended a loop early without "
            "an error, as Mesa's lavapipe does after 65,535 rounds: the results are "
            "wrong; compute less at a time, or use --device cpu"
        )

    def _check_for_hang(self) -> None:
        if not self._outstanding:
            return
        waited = time.perf_counter() - self._last_progress
        if waited > self.watchdog:
            self._mark_dead(
                f"{self._outstanding[0].doing()} has not ended for {waited:.0f} s and is taken for "
                "hung; QUOD_WEBGPU_WATCHDOG sets another limit, in seconds"
            )

    def _mark_dead(self, why: str) -> None:
        """Mark the device as dead: all outstanding submissions fail."""
        self._dead = why
        error = DeviceError(f"{self._name}: {why}")
        while self._outstanding:
            self._outstanding.popleft().finish(error)
        self._lose(why)

    @property
    def is_dead(self) -> bool:
        return self._dead is not None

    @property
    def is_idle(self) -> bool:
        """Return whether all submissions are done."""
        return not self._outstanding

    def wait(self, ready: Callable[[], bool], stop: Callable[[], bool] | None = None) -> bool:
        """Wait until `ready` returns true; return False if `stop` returns true before.

        Ctrl-C interrupts the wait. Raises DeviceError if the device is dead.
        """
        begin = time.perf_counter()
        while True:
            self.poll()
            if ready():
                return True
            self._check()
            if stop is not None and stop():
                return False
            waited = time.perf_counter() - begin
            time.sleep(min(_LONGEST_PAUSE, max(_FIRST_PAUSE, waited * _PAUSE_FRACTION)))


def _wrong_count_message(words: Sequence[int], receipt: Receipt) -> str:
    if not any(words):
        seen = "only zeros where a known number should be"
    else:
        seen = f"the number {words[0]} where {receipt.number} should be"
    return (
        f"after {receipt.doing()} the adapter returned {seen}: it did not do its work, "
        "perhaps for lack of memory, or its driver is faulty; close the device and "
        "open it again"
    )
