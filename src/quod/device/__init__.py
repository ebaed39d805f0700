"""Devices, which run kernels, and their memory.

    device = quod.device.open_device("cpu")
    kernel = device.compile(definition)
    device.launch(kernel, groups, n, array)

The public names below are imported on first use (PEP 562), as importing the compiler takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.device.backends import DeviceInfo as DeviceInfo
    from quod.device.cpu.device import CpuDevice as CpuDevice
    from quod.device.cuda.device import CudaDevice as CudaDevice
    from quod.device.discovery import devices as devices
    from quod.device.discovery import open_device as open_device
    from quod.device.memory.buffer import Buffer as Buffer
    from quod.device.protocol import Device as Device
    from quod.device.runtime.cancellation import Cancellation as Cancellation
    from quod.device.runtime.event import Event as Event
    from quod.device.runtime.recorder import recorder_of as recorder_of
    from quod.device.runtime.recording import Recording as Recording
    from quod.device.runtime.stream import IdleStream as IdleStream
    from quod.device.runtime.stream import RecordedStream as RecordedStream
    from quod.device.runtime.stream import RecordingStream as RecordingStream
    from quod.device.runtime.stream import SubmittedStream as SubmittedStream
    from quod.device.runtime.timeline import Timeline as Timeline
else:
    __getattr__, __dir__ = lazy_names(__name__)
