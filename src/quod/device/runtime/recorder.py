"""A device that records the launches of functions instead of running them.

Tensor functions compile, allocate and launch when they are called. With this device in place of
theirs, they do so once; their launches are replayed with everything else that the stream records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from quod.device.memory.budget import byte_count
from quod.device.memory.buffer import Array, Buffer, overlap
from quod.device.protocol import AnyDevice
from quod.device.runtime.arguments import LaunchArgument, adopt
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray
    from quod.kernel.launcher import Groups

_WORD = 4
_CHECK = "; if it has a parameter `check`, pass check=False"


def recorder_of(device: AnyDevice, stream: RecordingStream) -> AnyDevice:
    """Return a device that records the launches of functions in `stream`, a stream of `device`.

        stream = device.stream().record()
        softmax(recorder_of(device, stream), x, out=x)
        recording = stream.finish().recording

    Functions allocate memory, upload host data and compute on the host while they are recorded,
    once for all replays. Each replay zeroes memory that was allocated with `zero`.
    Raises DeviceError for a stream of another device, for a function that reads results on the host
    in between, and for a launch that stores to uploaded data, which the next replay would find
    changed. Other methods are those of `device`. Closing the recorder does not close `device`.
    """
    if not stream.is_of(device):
        raise DeviceError(f"{stream!r} records for another device than {device!r}")
    return cast(AnyDevice, _Recorder(device, stream))


class _Recorder:
    """The device of `recorder_of`, which records launches instead of running them."""

    def __init__(self, device: AnyDevice, stream: RecordingStream) -> None:
        self._device = device
        self._stream = stream
        self._constants: list[Buffer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def __repr__(self) -> str:
        return f"<what records launches for {self._device!r}>"

    def launch(self, kernel: Any, groups: Groups, *arguments: LaunchArgument) -> None:
        """Record a launch."""
        # `stored` counts slots, of which structs and elements have several.
        _, slots = adopt(self._device, kernel, groups, arguments)
        for slot, memory in enumerate(slots):
            if slot not in kernel.stored or not isinstance(memory, (Buffer, np.ndarray)):
                continue
            if any(overlap(memory, constant) for constant in self._constants):
                self._refuse(
                    f"launches {kernel.name}, which stores to data that is uploaded "
                    f"once for all replays{_CHECK}"
                )
        self._stream.launch(kernel, groups, *arguments)

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate device memory; with `zero`, each replay zeroes it."""
        nbytes = byte_count(nbytes)
        if not zero or not nbytes:
            return self._device.allocate(nbytes, zero=False)
        buffer = self._device.allocate(-(-nbytes // _WORD) * _WORD, zero=False)
        self._stream.fill(buffer)
        return buffer.slice(0, nbytes)

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Upload host data as a constant of all replays."""
        if into is not None:
            self._refuse("uploads to existing memory; let the stream upload it")
        constant = self._device.upload(array)
        self._constants.append(constant)
        return constant

    def download(self, *_: object) -> NoReturn:
        """Raise DeviceError: nothing has been computed yet."""
        self._refuse(f"reads memory of the device{_CHECK}")

    def stream(self, *_: object) -> NoReturn:
        """Raise DeviceError: the only stream is the one that records."""
        self._refuse("creates its own stream")

    def close(self) -> None:
        """Do nothing: the device belongs to its owner."""

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse(self, reason: str) -> NoReturn:
        raise DeviceError(f"this cannot be recorded: the function {reason}")
