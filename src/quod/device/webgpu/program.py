"""A recording in WebGPU's form: the commands of each step, prepared once for all replays."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from quod.device.memory.buffer import Buffer
from quod.device.runtime.launch_checks import check_groups
from quod.device.runtime.recording import Await, Copy, Fill, Launch, Mark, Recording
from quod.device.webgpu.encoding import Parameters, bind_group
from quod.device.webgpu.kernel import PackedLaunch, StorageRange, WebGpuKernel, grid
from quod.device.webgpu.memory import Allocation, allocation_and_offset
from quod.device.webgpu.shaders import FILL_LANES
from quod.errors import DeviceError
from quod.frozen import frozen

if TYPE_CHECKING:
    from quod.device.webgpu.session import Session

_WORD = 4


@frozen(eq=False)
class Dispatch:
    """Launch of a kernel, or of the kernel that fills memory if `kernel` is None.

    offset: the byte offset of its parameters in the uniform buffer.
    """

    step: int
    kernel: WebGpuKernel | None
    packed: PackedLaunch | None
    bind_group: Any
    offset: int
    grid: tuple[int, int]


@frozen
class Clear:
    """Fill of a range of a driver buffer with zeros."""

    step: int
    target: Any
    start: int
    nbytes: int


@frozen
class Transfer:
    """Copy between two driver buffers; both starts are byte offsets."""

    step: int
    source: Any
    source_start: int
    target: Any
    target_start: int
    nbytes: int


@frozen(eq=False)
class Host:
    """A step in which the host takes part: an upload, a download or an event."""

    step: int
    recorded: Copy | Mark | Await


Operation = Dispatch | Clear | Transfer | Host


@frozen(eq=False)
class Program:
    """The operations of a recording, in order; `keep` are buffers that only they use."""

    operations: tuple[Operation, ...]
    kernels: tuple[WebGpuKernel, ...]
    keep: tuple[object, ...]


def whole_words(buffer: Buffer) -> tuple[Allocation, int, int]:
    """Return the allocation, byte offset and size of memory to copy, in whole 32-bit words.

    The padding of an allocation's last word may be copied, too. Raises DeviceError for memory that
    starts or ends within a word.
    """
    allocation, start = allocation_and_offset(buffer)
    size = buffer.nbytes
    if size % _WORD and start + size == allocation.nbytes:
        size += -size % _WORD
    if start % _WORD or size % _WORD:
        raise DeviceError(
            f"WebGPU copies whole 32-bit words, and bytes {start} to {start + buffer.nbytes} of a "
            "buffer are not; copy a larger piece"
        )
    return allocation, start, size


def first_word_and_offset(buffer: Buffer) -> tuple[Allocation, int, int]:
    """Return the allocation of a buffer, and the word of its first byte.

    The numbers are the byte offset of the word that contains this byte, and the byte's offset in
    the word.
    """
    allocation, start = allocation_and_offset(buffer)
    return allocation, start - start % _WORD, start % _WORD


class Programs:
    """The programs of a session's recordings, each made on first use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._known: weakref.WeakKeyDictionary[Recording, Program] = weakref.WeakKeyDictionary()

    def of(self, recording: Recording) -> Program:
        """Return the program of a recording; raise DeviceError if WebGPU cannot run it."""
        program = self._known.get(recording)
        if program is None:
            with self._lock:
                program = self._known.get(recording)
            if program is None:
                program = _Builder(self._session).build(recording)
                with self._lock:
                    self._known[recording] = program
        return program

    def clear(self) -> None:
        """Release all programs."""
        self._known.clear()


class _Builder:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._parameters = Parameters()
        self._operations: list[Operation] = []
        self._keep: list[object] = []
        self._kernels: dict[WebGpuKernel, None] = {}
        # The dispatches with their indices, bytes of parameters and memory. Their bind groups are
        # made at the end, since they need the buffer with all parameters.
        self._pending_dispatches: list[tuple[int, Dispatch, int, tuple[StorageRange, ...]]] = []

    def build(self, recording: Recording) -> Program:
        for number, step in enumerate(recording.steps):
            match step:
                case Launch():
                    self._launch(number, step)
                case Fill():
                    self._fill(number, step)
                case Copy() if step.direction == "copy":
                    self._copy(number, step)
                case Copy() | Mark() | Await():
                    self._operations.append(Host(number, step))
        uniform = self._parameters.buffer(self._session)
        bind_groups: dict[tuple[int, tuple[StorageRange, ...]], Any] = {}
        for operation_index, operation, nbytes, ranges in self._pending_dispatches:
            group = bind_groups.get((nbytes, ranges))
            if group is None:
                group = bind_groups[nbytes, ranges] = bind_group(
                    self._session, uniform, nbytes, ranges
                )
            self._operations[operation_index] = Dispatch(
                operation.step, operation.kernel, operation.packed, group, operation.offset,
                operation.grid,
            )  # fmt: skip
        return Program(tuple(self._operations), tuple(self._kernels), (uniform, *self._keep))

    def _dispatch(
        self, step: int, kernel: WebGpuKernel | None, packed: PackedLaunch | None, block: bytes,
        ranges: tuple[StorageRange, ...], groups: int,
    ) -> None:  # fmt: skip
        shape = grid(groups, self._session.limits.groups_per_dimension)
        offset = self._parameters.add(block)
        operation = Dispatch(step, kernel, packed, None, offset, shape)
        self._pending_dispatches.append((len(self._operations), operation, len(block), ranges))
        self._operations.append(operation)

    def _launch(self, number: int, step: Launch) -> None:
        kernel, packed = step.kernel, step.packed
        assert isinstance(kernel, WebGpuKernel)
        assert isinstance(packed, PackedLaunch)
        check_groups(kernel, step.groups)
        self._kernels[kernel] = None
        if step.groups:
            block = packed.parameters(step.groups)
            self._dispatch(number, kernel, packed, block, packed.ranges, step.groups)

    def _fill(self, number: int, step: Fill) -> None:
        assert isinstance(step.target, Buffer)
        if not step.target.nbytes:
            return
        allocation, start, size = whole_words(step.target)
        if step.word == 0:
            self._operations.append(Clear(number, allocation.handle, start, size))
            return
        limits = self._session.limits
        align, max_bytes = limits.binding_alignment, limits.binding_bytes // _WORD * _WORD
        position = start
        while position < start + size:
            low = position // align * align
            high = min(start + size, low + max_bytes)
            count = (high - position) // _WORD
            # The parameters of `shaders.FILL`.
            words = (step.word, (position - low) // _WORD, count, 0)
            block = b"".join(word.to_bytes(4, "little") for word in words)
            ranges = (StorageRange(allocation, low, high - low),)
            self._dispatch(number, None, None, block, ranges, -(-count // FILL_LANES))
            position = high

    def _copy(self, number: int, step: Copy) -> None:
        assert isinstance(step.source, Buffer)
        assert isinstance(step.target, Buffer)
        if not step.source.nbytes:
            return
        source, source_start, size = whole_words(step.source)
        target, target_start, target_size = whole_words(step.target)
        # The sizes are equal: both buffers are padded to the same size, or one was refused.
        size = max(size, target_size)
        if source is not target:
            self._operations.append(
                Transfer(number, source.handle, source_start, target.handle, target_start, size)
            )
            return
        # WebGPU copies between two buffers only.
        temporary = self._session.allocate(size)
        self._keep.append(temporary)
        middle = allocation_and_offset(temporary)[0].handle
        self._operations += [
            Transfer(number, source.handle, source_start, middle, 0, size),
            Transfer(number, middle, 0, target.handle, target_start, size),
        ]
