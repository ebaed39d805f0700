"""Export a recording as files that the browser's runtime runs; docs/web.md describes them.

The recording is of an `ExportDevice`: its kernels are traced for portable WGSL, and its constants
are in host memory. Every allocation becomes a WebGPU buffer. The constants are in data files
(`quod.web.data_files`); launches that the device replays compute others, once after loading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quod.codegen.wgsl import emitter as wgsl
from quod.codegen.wgsl.machine import WgslLimits
from quod.codegen.wgsl.module import Binding, WgslModule
from quod.device.emulated.device import EmulatedKernel
from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.device.runtime.arguments import Argument
from quod.device.runtime.kernel_table import CompiledKernel
from quod.device.runtime.recording import Await, Copy, Fill, Launch, Mark, Recording, Step
from quod.device.webgpu.binding import PointerRange, plan_bindings
from quod.errors import DeviceError
from quod.formats.output import Content
from quod.frozen import frozen
from quod.web.data_files import DataFiles, listed
from quod.web.fill import FILL, fill_words

SCHEMA = "quod-graph-2"
_ALIGNMENT = 256


@frozen
class Stage:
    """A recording, with the name that the progress display shows."""

    name: str
    recording: Recording


@frozen
class GraphFiles:
    """The files of a graph.

    files: the contents by file name, including ``graph.json``.
    memory: the size of the graph's buffers on the GPU, in bytes.
    data: the size of the constants in the data files, in bytes.
    limits: the limits that the GPU must support, by WebGPU's names.
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

    inputs, outputs: the buffers that a run writes before the first stage and reads after the last.
    limits: the WebGPU limits of the export; default: the limits that every browser supports.
    Raises DeviceError if a recording needs the host between steps, or exceeds a limit.
    """
    return _Graph(device, limits or WgslLimits()).files(stages, inputs, outputs)


@dataclass
class _Graph:
    """Builds the description of a graph; buffers and kernels are indexed in order of first use.

    Buffer 0 is for bindings of empty memory, which no kernel accesses.
    """

    device: ExportDevice
    limits: WgslLimits
    _indices: dict[int, int] = field(default_factory=dict)
    _buffers: list[Buffer] = field(default_factory=list)
    _texts: dict[str, int] = field(default_factory=dict)
    _kernels: list[dict[str, Any]] = field(default_factory=list)
    _modules: dict[tuple[int, tuple[Binding, ...] | None], tuple[int, WgslModule]] = field(
        default_factory=dict
    )
    _max_binding_bytes: int = 0
    _max_bindings: int = 0

    def files(
        self,
        stages: Sequence[Stage],
        inputs: Mapping[str, Buffer],
        outputs: Mapping[str, Buffer],
    ) -> GraphFiles:
        named_ranges = [
            {name: self._word_range(name, buffer) for name, buffer in buffers.items()}
            for buffers in (inputs, outputs)
        ]
        rows = [
            {"name": stage.name, "steps": [*self._steps(stage)]}
            for stage in stages
        ]  # fmt: skip
        setup = [*self._setup()]
        sizes = [_ALIGNMENT * self.limits.storage_buffers]
        sizes += [_padded(buffer.nbytes) for buffer in self._buffers]
        for size in sizes:
            if size > self.limits.buffer_bytes:
                raise DeviceError(
                    f"the recording has a buffer of {size} bytes, and browsers allow at most "
                    f"{self.limits.buffer_bytes} bytes; use a smaller circuit or memory budget"
                )
        data = DataFiles(self.device, self._buffers)
        kernels = json.dumps([*self._texts], ensure_ascii=False).encode()
        parts = {f"data-{number:03}.bin": part for number, part in enumerate(data.parts())}
        required_limits = {
            "maxBufferSize": max(sizes, default=0),
            "maxStorageBufferBindingSize": self._max_binding_bytes,
            "maxStorageBuffersPerShaderStage": self._max_bindings,
        }
        document = {
            "schema": SCHEMA,
            "limits": required_limits,
            "features": [],
            "memory": sum(sizes),
            "buffers": sizes,
            "data": {"bytes": data.nbytes, "parts": [*parts], "ranges": data.ranges},
            "inputs": named_ranges[0],
            "outputs": named_ranges[1],
            "kernels": self._kernels,
            "setup": setup,
            "stages": rows,
            "files": {
                "kernels.json": listed(kernels),
                **{name: part.listed() for name, part in parts.items()},
            },
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        contents: dict[str, Content] = {"graph.json": text, "kernels.json": kernels}
        contents |= {name: part.write for name, part in parts.items()}
        return GraphFiles(contents, sum(sizes), data.nbytes, required_limits)

    # --- memory

    def _buffer_index(self, buffer: Buffer) -> int:
        """Return the index of the allocation of a buffer, which is added on first use."""
        allocation = self.device.whole_allocation(buffer)
        if allocation.address not in self._indices:
            self._buffers.append(allocation)
            self._indices[allocation.address] = len(self._buffers)
        return self._indices[allocation.address]

    def _range(self, memory: object) -> dict[str, int]:
        if not isinstance(memory, Buffer) or memory.space is not self.device.space:
            raise DeviceError(
                "the recording uses host memory, which a browser does not have; copy it to the "
                "device first"
            )
        offset = memory.address - self.device.whole_allocation(memory).address
        return {"buffer": self._buffer_index(memory), "offset": offset, "bytes": memory.nbytes}

    def _word_range(self, name: str, buffer: Buffer) -> dict[str, int]:
        """Return the range of a buffer; raises DeviceError unless it consists of whole words."""
        range_ = self._range(buffer)
        if range_["offset"] % 4 or range_["bytes"] % 4:
            raise DeviceError(f"{name} must begin and end at a multiple of 4 bytes")
        return range_

    # --- steps

    def _steps(self, stage: Stage) -> Iterator[dict[str, Any]]:
        for step in stage.recording.steps:
            row = self._step(step)
            if row is not None:
                yield row

    def _step(self, step: Step) -> dict[str, Any] | None:
        match step:
            case Launch():
                return self._launch(step.kernel, step.groups, step.arguments)
            case Copy(direction="copy"):
                source, target = self._word_range("a copy", _memory(step.source)), self._range(
                    step.target
                )  # fmt: skip
                if not target["bytes"]:
                    return None
                if source["buffer"] == target["buffer"]:
                    raise DeviceError(
                        "the recording copies within one buffer, which WebGPU does not support"
                    )
                return {"op": "copy", "source": source, "target": target}
            case Fill():
                return self._fill(step)
            case Mark() | Await():
                # Stages and their steps run in order, so no synchronisation is needed.
                return None
        raise DeviceError(
            f"step {step.label!r} needs the host, and an exported graph runs without it"
        )

    def _setup(self) -> Iterator[dict[str, Any]]:
        """Yield the launches of the device's setup whose results the stages use."""
        used = {buffer.address for buffer in self._buffers}
        for launch in self.device.setup:
            kernel, arguments = launch.kernel, launch.arguments
            targets = [
                self.device.whole_allocation(argument).address
                for index, argument in enumerate(arguments)
                if isinstance(argument, Buffer) and index in kernel.stored
            ]
            row = self._launch(kernel, launch.groups, arguments) if used & {*targets} else None
            if row is not None:
                yield row

    def _launch(
        self, kernel: CompiledKernel, groups: int, arguments: Sequence[Argument]
    ) -> dict[str, Any] | None:
        if not groups:
            return None
        if not isinstance(kernel, EmulatedKernel):
            raise DeviceError("only recordings of an export device can be exported")
        buffers = [argument for argument in arguments if isinstance(argument, Buffer)]
        pointer_ranges = [
            PointerRange(range_["buffer"], range_["offset"], range_["offset"] + range_["bytes"])
            if buffer.nbytes
            else PointerRange(None, 0, 0)
            for buffer, range_ in ((buffer, self._range(buffer)) for buffer in buffers)
        ]
        plan = plan_bindings(kernel.name, pointer_ranges, self.limits)
        kernel_index, module = self._kernel(kernel, plan.bindings)
        offsets = iter(plan.offsets)
        values = [
            next(offsets) if isinstance(argument, Buffer) else _scalar(argument)
            for argument in arguments
        ]
        bind = [
            self._binding(slot, range_.buffer, range_.start, range_.size)
            for slot, range_ in enumerate(plan.ranges)
        ]
        words = np.frombuffer(module.pack(groups, values), np.uint32)
        return self._dispatch(kernel_index, groups, bind, words.tolist())

    def _binding(self, slot: int, buffer: int | None, start: int, size: int) -> list[int]:
        """Return the buffer index, byte offset and size of a binding; None is empty memory."""
        if buffer is None:
            # No kernel accesses empty memory, but WebGPU requires a buffer for each binding.
            return [0, _ALIGNMENT * slot, 16]
        self._max_binding_bytes = max(self._max_binding_bytes, size)
        return [buffer, start, size]

    def _dispatch(
        self, kernel: int, groups: int, bind: list[list[int]], words: list[int]
    ) -> dict[str, Any]:
        self._max_bindings = max(self._max_bindings, len(bind))
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
            index = self._add_kernel(kernel.name, module.text, module.entry, module.storage)
            self._modules[key] = index, module
        return self._modules[key]

    def _add_kernel(self, name: str, text: str, entry: str, storage: int) -> int:
        """Return the index of a kernel, which is added unless an equal one exists."""
        text_index = self._texts.setdefault(text, len(self._texts))
        row = {"name": name, "text": text_index, "entry": entry, "storage": storage}
        if row not in self._kernels:
            self._kernels.append(row)
        return self._kernels.index(row)

    def _fill(self, step: Fill) -> dict[str, Any] | None:
        target = self._word_range("a fill", _memory(step.target))
        if not target["bytes"]:
            return None
        if step.word == 0:
            return {"op": "clear", "target": target}
        kernel = self._add_kernel("fill", FILL, "main", 1)
        start = target["offset"] // _ALIGNMENT * _ALIGNMENT
        size = target["offset"] - start + target["bytes"]
        groups, words = fill_words(step.word, target["offset"] - start, target["bytes"])
        bind = [self._binding(0, target["buffer"], start, size)]
        return self._dispatch(kernel, groups, bind, words)


def _memory(memory: object) -> Buffer:
    if not isinstance(memory, Buffer):
        raise DeviceError(
            "the recording uses host memory, which a browser does not have; copy it to the device "
            "first"
        )
    return memory


def _scalar(argument: object) -> int | float:
    return argument if isinstance(argument, float) else int(argument)  # type: ignore[call-overload]


def _padded(nbytes: int) -> int:
    return max(16, -(-nbytes // 4) * 4)
