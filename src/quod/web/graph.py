"""Export a recording as files that the browser's runtime runs; docs/web.md describes them.

The recording is one of an `ExportDevice`: its kernels are traced for portable WGSL, and its
constants are on the host. Every allocation becomes a WebGPU buffer. Constants are concatenated and
split into parts, so that no file is large and each is checked by its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import WgslLimits
from quod.codegen.wgsl.module import Binding, WgslModule
from quod.device.emulated.device import EmulatedKernel
from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.device.runtime.recording import Await, Copy, Fill, Launch, Mark, Recording, Step
from quod.device.webgpu.binding import PointerRange, plan_bindings
from quod.errors import DeviceError
from quod.formats.output import Content
from quod.frozen import frozen
from quod.web.fill import FILL, fill_words

SCHEMA = "quod-graph-1"
PART_BYTES = 16 << 20
"""The most bytes of a data file: hosts of static sites refuse files above 25 MiB."""

_ALIGNMENT = 256


@frozen
class Stage:
    """Recorded work, with the name that the progress display shows."""

    name: str
    recording: Recording


@frozen
class GraphFiles:
    """The files of a graph.

    files: The files by name, including ``graph.json``.
    memory: Bytes of its buffers on the GPU.
    data: Bytes of buffers that are loaded from files.
    limits: The limits that the GPU must support, by WebGPU's names.
    """

    files: Mapping[str, Content]
    memory: int
    data: int
    limits: Mapping[str, int]


def graph_files(
    device: ExportDevice,
    stages: Sequence[Stage],
    *,
    inputs: Mapping[str, Buffer],
    outputs: Mapping[str, Buffer],
    limits: WgslLimits | None = None,
) -> GraphFiles:
    """Return the files of a graph that runs the stages in order.

    A run writes the `inputs` first and reads the `outputs` last. Raises DeviceError if a recording
    needs the host in between, or exceeds `limits` (default: those of every browser).
    """
    return _Graph(device, limits or WgslLimits()).files(stages, inputs, outputs)


@dataclass
class _Graph:
    """Indices of buffers and kernels, in the order of first use.

    Buffer 0 serves bindings through which no memory is accessed.
    """

    device: ExportDevice
    limits: WgslLimits
    _numbers: dict[int, int] = field(default_factory=dict)
    _buffers: list[Buffer] = field(default_factory=list)
    _texts: dict[str, int] = field(default_factory=dict)
    _kernels: list[dict[str, Any]] = field(default_factory=list)
    _modules: dict[tuple[int, tuple[Binding, ...] | None], tuple[int, WgslModule]] = field(
        default_factory=dict
    )
    _most_bytes: int = 0
    _most_bindings: int = 0

    def files(
        self,
        stages: Sequence[Stage],
        inputs: Mapping[str, Buffer],
        outputs: Mapping[str, Buffer],
    ) -> GraphFiles:
        places = [
            {name: self._named(name, buffer) for name, buffer in named.items()}
            for named in (inputs, outputs)
        ]
        rows = [
            {"name": stage.name, "steps": [*self._steps(stage)]}
            for stage in stages
        ]  # fmt: skip
        sizes = [_ALIGNMENT * self.limits.storage_buffers]
        sizes += [_padded(buffer.nbytes) for buffer in self._buffers]
        for size in sizes:
            if size > self.limits.buffer_bytes:
                raise DeviceError(
                    f"the recording has a buffer of {size} bytes, and browsers allow "
                    f"{self.limits.buffer_bytes}; the plan must split it"
                )
        data = _Data(self.device, self._buffers)
        kernels = json.dumps([*self._texts], ensure_ascii=False).encode()
        parts = {f"data-{number:03}.bin": part for number, part in enumerate(data.parts())}
        needed = {
            "maxBufferSize": max(sizes, default=0),
            "maxStorageBufferBindingSize": self._most_bytes,
            "maxStorageBuffersPerShaderStage": self._most_bindings,
        }
        document = {
            "schema": SCHEMA,
            "limits": needed,
            "features": [],
            "memory": sum(sizes),
            "buffers": sizes,
            "data": {"bytes": data.nbytes, "parts": [*parts], "ranges": data.ranges},
            "inputs": places[0],
            "outputs": places[1],
            "kernels": self._kernels,
            "stages": rows,
            "files": {
                "kernels.json": listed(kernels),
                **{name: part.listed() for name, part in parts.items()},
            },
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        written: dict[str, Content] = {"graph.json": text, "kernels.json": kernels}
        written |= {name: part.write for name, part in parts.items()}
        return GraphFiles(written, sum(sizes), data.nbytes, needed)

    # --- memory

    def _number(self, buffer: Buffer) -> int:
        root = self.device.whole(buffer)
        if root.address not in self._numbers:
            self._buffers.append(root)
            self._numbers[root.address] = len(self._buffers)
        return self._numbers[root.address]

    def _place(self, memory: object) -> dict[str, int]:
        if not isinstance(memory, Buffer) or memory.space is not self.device.space:
            raise DeviceError("the recording uses memory of the host, which a browser has not")
        offset = memory.address - self.device.whole(memory).address
        return {"buffer": self._number(memory), "offset": offset, "bytes": memory.nbytes}

    def _named(self, name: str, buffer: Buffer) -> dict[str, int]:
        place = self._place(buffer)
        if place["offset"] % 4 or place["bytes"] % 4:
            raise DeviceError(f"{name} does not begin and end at whole words")
        return place

    # --- steps

    def _steps(self, stage: Stage) -> Iterator[dict[str, Any]]:
        for step in stage.recording.steps:
            row = self._step(step)
            if row is not None:
                yield row

    def _step(self, step: Step) -> dict[str, Any] | None:
        match step:
            case Launch():
                return self._launch(step) if step.groups else None
            case Copy(direction="copy"):
                source, target = self._named("a copy", _memory(step.source)), self._place(
                    step.target
                )  # fmt: skip
                if not target["bytes"]:
                    return None
                if source["buffer"] == target["buffer"]:
                    raise DeviceError(
                        "the recording copies within one buffer, which WebGPU does not do"
                    )
                return {"op": "copy", "source": source, "target": target}
            case Fill():
                return self._filled(step)
            case Mark() | Await():
                # Stages run in their order, and so do their steps.
                return None
        raise DeviceError(f"step {step.label!r} needs the host, which a recorded graph has not")

    def _launch(self, step: Launch) -> dict[str, Any]:
        kernel = step.kernel
        if not isinstance(kernel, EmulatedKernel):
            raise DeviceError("only what an export device has recorded can be exported")
        memory = [argument for argument in step.arguments if isinstance(argument, Buffer)]
        places = [
            PointerRange(place["buffer"], place["offset"], place["offset"] + place["bytes"])
            if buffer.nbytes
            else PointerRange(None, 0, 0)
            for buffer, place in ((buffer, self._place(buffer)) for buffer in memory)
        ]
        plan = plan_bindings(kernel.name, places, self.limits)
        number, module = self._kernel(kernel, plan.bindings)
        offsets = iter(plan.offsets)
        values = [
            next(offsets) if isinstance(argument, Buffer) else _number(argument)
            for argument in step.arguments
        ]
        bind = [
            self._bound(slot, range_.buffer, range_.start, range_.size)
            for slot, range_ in enumerate(plan.ranges)
        ]
        words = np.frombuffer(module.pack(step.groups, values), np.uint32)
        return self._dispatched(number, step.groups, bind, words.tolist())

    def _bound(self, slot: int, buffer: int | None, start: int, size: int) -> list[int]:
        if buffer is None:
            # Empty memory is never accessed, but a binding needs a buffer.
            return [0, _ALIGNMENT * slot, 16]
        self._most_bytes = max(self._most_bytes, size)
        return [buffer, start, size]

    def _dispatched(
        self, kernel: int, groups: int, bind: list[list[int]], words: list[int]
    ) -> dict[str, Any]:
        self._most_bindings = max(self._most_bindings, len(bind))
        rows = -(-groups // self.limits.groups_per_dimension)
        grid = [-(-groups // rows), rows]
        return {"op": "launch", "kernel": kernel, "groups": grid, "bind": bind, "words": words}

    def _kernel(
        self, kernel: EmulatedKernel, bindings: tuple[Binding, ...] | None
    ) -> tuple[int, WgslModule]:
        key = (id(kernel), bindings)
        if key not in self._modules:
            module = wgsl.translate(
                kernel.traced, kernel.machine, dialect="tint", bindings=bindings
            )
            number = self._add_kernel(kernel.name, module.text, module.entry, module.storage)
            self._modules[key] = number, module
        return self._modules[key]

    def _add_kernel(self, name: str, text: str, entry: str, storage: int) -> int:
        number = self._texts.setdefault(text, len(self._texts))
        row = {"name": name, "text": number, "entry": entry, "storage": storage}
        if row not in self._kernels:
            self._kernels.append(row)
        return self._kernels.index(row)

    def _filled(self, step: Fill) -> dict[str, Any] | None:
        place = self._named("a fill", _memory(step.target))
        if not place["bytes"]:
            return None
        if step.word == 0:
            return {"op": "clear", "target": place}
        kernel = self._add_kernel("fill", FILL, "main", 1)
        start = place["offset"] // _ALIGNMENT * _ALIGNMENT
        size = place["offset"] - start + place["bytes"]
        groups, words = fill_words(step.word, place["offset"] - start, place["bytes"])
        bind = [self._bound(0, place["buffer"], start, size)]
        return self._dispatched(kernel, groups, bind, words)


def _memory(memory: object) -> Buffer:
    if not isinstance(memory, Buffer):
        raise DeviceError("the recording uses memory of the host, which a browser has not")
    return memory


def _number(argument: object) -> int | float:
    return argument if isinstance(argument, float) else int(argument)  # type: ignore[call-overload]


def _padded(nbytes: int) -> int:
    return max(16, -(-nbytes // 4) * 4)


def listed(content: bytes) -> dict[str, Any]:
    """Return a row of a table of files: length and SHA-256."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


@frozen
class _Part:
    """The bytes from `start` to `stop` - 1 of all data."""

    data: _Data
    start: int
    stop: int

    def write(self, file: BinaryIO) -> None:
        for piece in self.data.pieces(self.start, self.stop):
            file.write(piece)

    def listed(self) -> dict[str, Any]:
        hash_ = hashlib.sha256()
        for piece in self.data.pieces(self.start, self.stop):
            hash_.update(piece)
        return {"bytes": self.stop - self.start, "sha256": hash_.hexdigest()}


class _Data:
    """The concatenated bytes of all constants, in buffer order, each padded to whole words."""

    def __init__(self, device: ExportDevice, buffers: Sequence[Buffer]) -> None:
        self._sources: list[tuple[int, memoryview]] = []
        self.ranges: list[dict[str, int]] = []
        self.nbytes = 0
        for number, buffer in enumerate(buffers, 1):
            if not buffer.nbytes or not device.is_constant(buffer):
                continue
            content = np.asarray(device.bytes_of(buffer))
            if not content.any():
                # Buffers of WebGPU begin as zeros.
                continue
            if len(content) % 4:
                content = np.concatenate([content, np.zeros(-len(content) % 4, np.uint8)])
            self._sources.append((self.nbytes, memoryview(content.data)))
            self.ranges.append({"buffer": number, "offset": 0, "bytes": len(content)})
            self.nbytes += len(content)

    def parts(self) -> Iterator[_Part]:
        for start in range(0, self.nbytes, PART_BYTES):
            yield _Part(self, start, min(start + PART_BYTES, self.nbytes))

    def pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        for begin, content in self._sources:
            low, high = max(start - begin, 0), min(stop - begin, len(content))
            if low < high:
                yield content[low:high]
