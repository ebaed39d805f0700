"""Streams and hardware queues of CUDA, on the model of the driver."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import numpy as np
import pytest

from quod.device.cuda import driver as cuda_driver
from quod.device.cuda.driver import open_driver
from tests.device import kernels

pytest.importorskip("cuda.bindings.driver", reason="needs the package cuda-bindings")

from tests.device.fake_cuda import FakeCuda
from tests.device.test_cuda_failures import COUNT, gpu_of


def test_a_process_has_all_hardware_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    for setting, expected in ((None, "32"), ("8", "8")):
        # Set first, so that the variable is restored after the test in any case.
        monkeypatch.setenv(name, setting or "")
        if setting is None:
            monkeypatch.delenv(name)
        monkeypatch.setattr(cuda_driver, "_bindings", FakeCuda)
        open_driver()
        assert os.environ[name] == expected


def test_urgent_work_runs_in_streams_of_a_higher_priority(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    buffer = device.allocate(4)
    for urgent, priorities in ((False, [0]), (True, [0, -1]), (True, [0, -1]), (False, [0, -1])):
        recording = device.stream().record(urgent=urgent)
        recording.fill(buffer, 1)
        recording.finish().run()
        assert driver.priorities == priorities


def test_urgent_steps_on_several_streams_keep_their_order(tmp_path: Path) -> None:
    driver = FakeCuda()
    device = gpu_of(driver, tmp_path)
    increment, random = device.compile(kernels.increment), Random(1)
    for length in (1, 2, 7, 40):
        steps = [(random.randrange(3), random.randrange(4)) for _ in range(length)]
        contents = []
        for urgent in (False, True):
            buffers = [device.allocate(4 * COUNT) for _ in range(4)]
            recording = device.stream().record(urgent=urgent)
            for kind, index in steps:
                buffer, next_buffer = buffers[index], buffers[(index + 1) % 4]
                if kind == 0:
                    recording.fill(buffer, length)
                elif kind == 1:
                    recording.launch(increment, 1, COUNT, buffer)
                else:
                    recording.copy(buffer, next_buffer)
            recording.finish().run()
            words = np.empty((4, COUNT), np.uint32)
            for buffer, row in zip(buffers, words, strict=True):
                device.download(buffer, row)
            contents.append(words)
        assert (contents[0] == contents[1]).all()
    assert driver.priorities.count(-1) == 16
    assert driver.priorities.count(0) < 4
