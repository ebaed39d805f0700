"""Makes work that runs beside its caller late, and memory that nobody has written recognisable.

    python -m pytest -p tests.support.slow_streams tests/gkr

What a stream brings to the host is there once it has been waited for, and memory that was not
zeroed holds anything. Code that looks earlier is right nearly always, on a machine with nothing
else to do. With this plugin of pytest it is wrong at once:

- steps of streams, and tasks of threads, begin after a while of random length;
- host memory that a recording writes as a whole before it uses it, such as that of a download, is
  filled with the word of what was never written when the recording is submitted;
- all that is allocated without being zeroed is filled with a pattern, `numpy.empty` included;
- two uses of one memory of which one writes, and that nothing puts in order, are an error of the
  test that names both (`tests.support.races`).

QUOD_SLOW_SEED is the seed of the delays, else the system's randomness, and QUOD_SLOW_SECONDS the
longest of them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice
from quod.device.emulated.memory import POISON
from quod.device.memory.buffer import HOST, Buffer, host_bytes
from quod.device.runtime.background import Background
from quod.device.runtime.event import Event
from quod.device.runtime.recording import Copy, Fill
from quod.device.runtime.stream import RecordedStream, SubmittedStream
from quod.device.runtime.thread_stream import BackgroundSubmission, ThreadSubmission
from quod.kernel.builder.composites import split
from tests.support.races import Races, Run

_SEED = os.environ.get("QUOD_SLOW_SEED") or os.urandom(4).hex()
_SECONDS = float(os.environ.get("QUOD_SLOW_SECONDS", "0.003"))
_random = random.Random(_SEED)
_races = Races()


def _pause(chance: float = 1.0) -> None:
    if _random.random() < chance:
        time.sleep(_SECONDS * _random.random())


def _around(owner: type, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))


# --- streams


def _submit(original: Any) -> Any:
    def submit(self: RecordedStream, *arguments: Any, **named: Any) -> SubmittedStream:
        run = _races.submitted(self.recording)
        for step in run.written_first():
            if isinstance(step, Copy | Fill) and _is_of_host(step.target):
                host_bytes(step.target)[:] = 0xFF
        submitted: SubmittedStream = original(self, *arguments, **named)
        submitted.__dict__["run"] = run
        return submitted

    return submit


def _is_of_host(memory: Any) -> bool:
    return not isinstance(memory, Buffer) or memory.space is HOST


def _wait(original: Any) -> Any:
    def wait(self: SubmittedStream) -> Any:
        try:
            return original(self)
        finally:
            run: Run = self.__dict__["run"]
            _races.waited(run)

    return wait


def _event_wait(original: Any) -> Any:
    def wait(self: Event, timeout: float | None = None) -> bool:
        passed: bool = original(self, timeout)
        if passed:
            _races.passed(self)
        return passed

    return wait


def _run(original: Any) -> Any:
    def run(self: BackgroundSubmission) -> None:
        _pause()
        original(self)

    return run


def _run_step(original: Any) -> Any:
    def run_step(self: ThreadSubmission, step: Any) -> None:
        _pause(0.1)
        original(self, step)

    return run_step


def _begin(original: Any) -> Any:
    def begin(self: Background, task: Callable[[], Any]) -> Any:
        def late() -> Any:
            _pause()
            return task()

        return original(self, late)

    return begin


# --- what the host does itself


def _launch(original: Any) -> Any:
    def launch(self: Any, kernel: Any, groups: Any, *arguments: Any) -> None:
        _, slots = split(kernel, groups, arguments)
        memory = {i: a for i, a in enumerate(slots) if isinstance(a, Buffer | np.ndarray)}
        _races.host_uses(
            f"a launch of {kernel.name}",
            [memory[i] for i in memory if i not in kernel.stored],
            [memory[i] for i in memory if i in kernel.stored],
        )
        original(self, kernel, groups, *arguments)

    return launch


def _upload(original: Any) -> Any:
    def upload(self: Any, array: Any, *, into: Buffer | None = None) -> Buffer:
        if isinstance(array, np.ndarray) and array.flags.c_contiguous:
            _races.host_uses("an upload", [array], [] if into is None else [into])
        buffer: Buffer = original(self, array, into=into)
        return buffer

    return upload


def _download(original: Any) -> Any:
    def download(self: Any, buffer: Buffer, array: Any) -> None:
        if isinstance(buffer, Buffer) and isinstance(array, np.ndarray):
            _races.host_uses("a download", [buffer], [array])
        original(self, buffer, array)

    return download


def _filled(original: Any) -> Any:
    def empty(*arguments: Any, **named: Any) -> Any:
        array = original(*arguments, **named)
        if array.dtype.kind in "uifcb" and array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[:] = POISON
        return array

    return empty


# --- pytest


def pytest_configure() -> None:
    """Puts all of it in place, for the whole run."""
    _around(RecordedStream, "submit", _submit)
    _around(SubmittedStream, "wait", _wait)
    _around(Event, "wait", _event_wait)
    _around(BackgroundSubmission, "_run", _run)
    _around(ThreadSubmission, "_run_step", _run_step)
    _around(Background, "begin", _begin)
    for device in (CpuDevice, EmulatedDevice):
        _around(device, "launch", _launch)
        _around(device, "upload", _upload)
        _around(device, "download", _download)
    np.empty = _filled(np.empty)
    np.empty_like = _filled(np.empty_like)


def pytest_report_header() -> str:
    return f"slow streams: QUOD_SLOW_SEED={_SEED}, delays of up to {_SECONDS} s"


@pytest.fixture(autouse=True)
def no_races() -> Iterator[None]:
    """Fails a test in which an order was missing, whoever has caught the error."""
    _races.clear()
    yield
    races = _races.clear()
    assert not races, "\n".join(races)
