"""The work of the model of NVIDIA's driver: streams, events, kernels and graphs.

Streams do nothing until they are asked whether they are done, and then one piece at a time; the
nodes of a graph run in any order that its edges allow, those behind a programmatic edge perhaps
before. The assembler keeps the PTX text, and the PTX interpreter runs kernels.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cuda.bindings.driver as real
import numpy as np

from quod.codegen.ptx.interpreter import interpret_ptx
from quod.kernel.errors import InterpreterError
from tests.device.fake_cuda_memory import CONTEXT, FakeMemory, Refusal

LEGACY_STREAM = 1
_PARAMETER = re.compile(r"\.param\s+\.(\w+)([^,\n)]*)")
_DTYPES = {
    "u8": "<u1", "u32": "<u4", "s32": "<i4", "u64": "<u8", "s64": "<i8", "f32": "<f4",
    "f64": "<f8", "b32": "<u4", "b64": "<u8",
}  # fmt: skip


@dataclass
class FakeEvent:
    milliseconds: float | None = None
    recorded: bool = False

    @property
    def is_done(self) -> bool:
        return not self.recorded or self.milliseconds is not None


@dataclass
class FakeStream:
    queue: deque[Callable[[], bool]] = field(default_factory=deque)


@dataclass
class FakeFunction:
    text: str
    name: str
    dynamic: int = 0

    @property
    def head(self) -> str:
        start = self.text.index(".entry")
        return self.text[start : self.text.index(")", start)]


@dataclass(eq=False)
class FakeNode:
    """A node whose `run` takes a callback, to call at the wait for the launches before it."""

    run: Callable[[Callable[[], None]], None]
    after: list[FakeNode]
    overlapped: list[FakeNode] = field(default_factory=list)


@dataclass
class FakeLink:
    log: bytearray
    size: int
    cubin: Any = None


class FakeExecution(FakeMemory):
    """Streams, events, kernels and graphs over the model's memory."""

    def __init__(self, memory: int, elsewhere: int) -> None:
        super().__init__(memory, elsewhere)
        self.peer_access = False
        self.problem: InterpreterError | None = None
        self.now = 0.0
        self._failures: dict[str, tuple[int, str]] = {}
        self._streams: list[FakeStream] = []
        self.priorities: list[int] = []
        self._kernel_nodes: set[FakeNode] = set()
        self._random = random.Random(3)

    # --- streams and events

    def _cuStreamCreateWithPriority(self, flags: int, priority: int) -> Any:
        assert flags == int(real.CUstream_flags.CU_STREAM_NON_BLOCKING)
        assert priority in {-1, 0}
        stream = FakeStream()
        self.priorities.append(priority)
        self._streams.append(stream)
        return self._keep(stream, real.CUstream)

    def _cuStreamDestroy(self, stream: Any) -> None:
        self._streams.remove(self._drop(stream))

    def _later(self, stream: Any, work: Callable[[], Any]) -> None:
        self._of(stream).queue.append(lambda: work() is not False)

    def _advance(self, stream: FakeStream) -> None:
        """One piece of work; an event that has not been passed holds it."""
        if stream.queue and stream.queue[0]():
            stream.queue.popleft()
            self.now += 0.25

    def _cuStreamQuery(self, stream: Any) -> None:
        if stream == LEGACY_STREAM:
            return
        queried = self._of(stream)
        if queried.queue:
            for each in self._streams:
                self._advance(each)
            raise Refusal("CUDA_ERROR_NOT_READY")

    def _cuEventCreate(self, flags: int) -> Any:
        # With or without CU_EVENT_DISABLE_TIMING.
        assert flags in (0, 2)
        return self._keep(FakeEvent(), real.CUevent)

    def _cuEventDestroy(self, event: Any) -> None:
        self._drop(event)

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        recorded_event = self._of(event)
        recorded_event.recorded = True

        def passed() -> None:
            recorded_event.milliseconds = self.now

        self._later(stream, passed)

    def _cuEventQuery(self, event: Any) -> None:
        if not self._of(event).is_done:
            for each in self._streams:
                self._advance(each)
            raise Refusal("CUDA_ERROR_NOT_READY")

    def _cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        first, last = self._of(begin), self._of(end)
        if first.milliseconds is None or last.milliseconds is None:
            raise Refusal("CUDA_ERROR_NOT_READY")
        return float(last.milliseconds - first.milliseconds)

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        assert flags == 0
        awaited = self._of(event)
        self._later(stream, lambda: awaited.is_done)

    def _cuMemcpyHtoDAsync(self, target: Any, source: int, size: int, stream: Any) -> None:
        self._later(stream, lambda: self._move(target, self._host(source, size), size))

    def _cuMemcpyDtoHAsync(self, target: int, source: Any, size: int, stream: Any) -> None:
        def work() -> None:
            self._host(target, size)[:] = self._memory(source, size)

        self._later(stream, work)

    def _cuMemcpyDtoDAsync(self, target: Any, source: Any, size: int, stream: Any) -> None:
        self._later(stream, lambda: self._move(target, self._memory(source, size), size))

    def _cuMemcpyPeerAsync(
        self, target: Any, there: Any, source: Any, here: Any, size: int, stream: Any
    ) -> None:
        if not self.peer_access or int(there) != CONTEXT or int(here) != CONTEXT:
            raise Refusal("CUDA_ERROR_INVALID_VALUE")
        self._cuMemcpyDtoDAsync(target, source, size, stream)

    def _move(self, target: Any, source: Any, size: int) -> None:
        self._memory(target, size)[:] = source

    def _cuMemsetD8Async(self, target: Any, value: int, count: int, stream: Any) -> None:
        self._later(stream, lambda: self._set(target, count, np.uint8, value))

    def _cuMemsetD32Async(self, target: Any, value: int, count: int, stream: Any) -> None:
        self._later(stream, lambda: self._set(target, 4 * count, np.uint32, value))

    def _set(self, target: Any, size: int, dtype: Any, value: int) -> None:
        self._memory(target, size).view(dtype)[:] = value

    # --- code

    def _cuLinkCreate(self, count: int, options: Sequence[Any], values: Sequence[Any]) -> Any:
        log = self._log_of(count, options, values)
        return self._keep(FakeLink(log, len(log)), real.CUlinkState)

    @staticmethod
    def _log_of(count: int, options: Sequence[Any], values: Sequence[Any]) -> Any:
        assert count == len(options) == len(values)
        by_option = {option.name: value for option, value in zip(options, values, strict=True)}
        log = by_option["CU_JIT_ERROR_LOG_BUFFER"]
        assert by_option["CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"] == len(log)
        return log

    def _cuLinkAddData(
        self, state: Any, kind: Any, data: bytes, size: int, name: bytes, count: int,
        options: Sequence[Any], values: Sequence[Any],
    ) -> None:  # fmt: skip
        assert kind == real.CUjitInputType.CU_JIT_INPUT_PTX
        assert size == len(data)
        assert data[-1:] == b"\0"
        assert isinstance(name, bytes)
        assert (count, options, values) == (0, [], [])
        text = data[:-1].decode()
        link = self._of(state)
        for number, line in enumerate(text.splitlines(), 1):
            if "add.u32" in line and "cuLinkAddData" in self._failures:
                said = f"ptxas application ptx input, line {number}; error : told to fail\n"
                link.log[: len(said)] = said.encode()
        link.cubin = ctypes.create_string_buffer(b"CUBIN" + text.encode())

    def _cuLinkComplete(self, state: Any) -> tuple[int, int]:
        link = self._of(state)
        return ctypes.addressof(link.cubin), len(link.cubin) - 1

    def _cuLinkDestroy(self, state: Any) -> None:
        self._drop(state)

    def _cuModuleLoadData(self, image: bytes) -> Any:
        if image.startswith(b"CUBIN"):
            return self._keep(image[5:].decode(), real.CUmodule)
        # Text is read to a zero.
        if b".entry" not in image or image[-1:] != b"\0":
            raise Refusal("CUDA_ERROR_INVALID_IMAGE")
        return self._keep(image[:-1].decode(), real.CUmodule)

    def _cuModuleLoadDataEx(
        self, image: bytes, count: int, options: Sequence[Any], values: Sequence[Any]
    ) -> Any:
        self._log_of(count, options, values)
        return self._cuModuleLoadData(image)

    def _cuModuleUnload(self, module: Any) -> None:
        self._drop(module)

    def _cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        text = self._of(module)
        if f".entry {name.decode()}(" not in text:
            raise Refusal("CUDA_ERROR_NOT_FOUND")
        return self._keep(FakeFunction(text, name.decode()), real.CUfunction)

    def _cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:
        self._of(function)
        return {"CU_FUNC_ATTRIBUTE_NUM_REGS": 24, "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES": 0}[
            attribute.name
        ]

    def _cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> None:
        assert attribute.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self._of(function).dynamic = value

    def _cuLaunchKernel(
        self, function: Any, x: int, y: int, z: int, lanes: int, ly: int, lz: int, shared: int,
        stream: Any, parameters: int, extra: int,
    ) -> None:  # fmt: skip
        assert (y, z, ly, lz, extra) == (1, 1, 1, 1, 0)
        work = self._kernel(self._of(function), x, lanes, shared, parameters)
        self._later(stream, lambda: work(_nothing))

    def _kernel(
        self, function: FakeFunction, groups: int, lanes: int, shared: int, parameters: int
    ) -> Callable[[Callable[[], None]], None]:
        """A launch; its arguments are read now. It takes what is run where it waits."""
        if not 1 <= groups < 1 << 31:
            raise Refusal("CUDA_ERROR_INVALID_VALUE")
        if shared > 48 << 10 and shared > function.dynamic:
            raise Refusal("CUDA_ERROR_INVALID_VALUE")
        declared = _PARAMETER.findall(function.head)
        pointers = (ctypes.c_void_p * len(declared)).from_address(parameters)
        raw = [ctypes.string_at(pointer, 8) for pointer in pointers]
        assert re.search(rf"\.(max|req)ntid {lanes}\b", function.text)

        def run(waiting: Callable[[], None]) -> None:
            values: list[Any] = []
            for (kind, qualifiers), data in zip(declared, raw, strict=True):
                if ".ptr" in qualifiers:
                    values.append(self._memory(int.from_bytes(data, "little"), 0))
                else:
                    values.append(np.frombuffer(data, _DTYPES[kind], 1)[0].item())
            try:
                interpret_ptx(function.text, groups, values, dynamic_shared=shared, waiting=waiting)
            except InterpreterError as error:
                self.problem = error
                raise Refusal("CUDA_ERROR_ILLEGAL_ADDRESS") from error

        return run

    # --- graphs

    def _cuGraphCreate(self, flags: int) -> Any:
        assert flags == 0
        return self._keep([], real.CUgraph)

    def _cuGraphDestroy(self, graph: Any) -> None:
        self._drop(graph)

    def _node(
        self, graph: Any, after: Sequence[Any], count: int,
        run: Callable[[Callable[[], None]], None],
    ) -> Any:  # fmt: skip
        nodes = self._of(graph)
        earlier = [self._of(node) for node in after]
        assert count == len(after)
        assert all(node in nodes for node in earlier)
        node = FakeNode(run, earlier)
        nodes.append(node)
        return self._keep(node, real.CUgraphNode)

    def _cuGraphAddEmptyNode(self, graph: Any, after: Sequence[Any], count: int) -> Any:
        return self._node(graph, after, count, lambda waiting: None)

    def _cuGraphAddDependencies(
        self, graph: Any, before: Sequence[Any], nodes: Sequence[Any], edges: Sequence[Any],
        count: int,
    ) -> None:  # fmt: skip
        """A programmatic edge, which kernels alone have."""
        (earlier,), (node,), (edge,) = before, nodes, edges
        first, second = self._of(earlier), self._of(node)
        graph_nodes = self._of(graph)
        assert (count, edge.from_port, edge.to_port, edge.type) == (1, 1, 0, 1)
        assert graph_nodes.index(first) < graph_nodes.index(second)
        assert {first, second} <= self._kernel_nodes
        assert first not in (*second.after, *second.overlapped)
        second.overlapped.append(first)

    def _cuGraphAddKernelNode(
        self, graph: Any, after: Sequence[Any], count: int, parameters: Any
    ) -> Any:
        assert isinstance(parameters, real.CUDA_KERNEL_NODE_PARAMS)
        assert (
            parameters.gridDimY,
            parameters.gridDimZ,
            parameters.blockDimY,
            parameters.blockDimZ,
        ) == (1, 1, 1, 1)
        run = self._kernel(
            self._of(parameters.func), parameters.gridDimX, parameters.blockDimX,
            parameters.sharedMemBytes, int(parameters.kernelParams),
        )  # fmt: skip
        node = self._node(graph, after, count, run)
        self._kernel_nodes.add(self._of(node))
        return node

    def _cuGraphAddMemcpyNode(
        self, graph: Any, after: Sequence[Any], count: int, row: Any, context: Any
    ) -> Any:
        assert int(context) == CONTEXT
        size = row.WidthInBytes
        assert (row.Height, row.Depth, row.srcPitch, row.dstPitch) == (1, 1, size, size)
        assert size < 1 << 31
        kinds = real.CUmemorytype
        from_host = row.srcMemoryType == kinds.CU_MEMORYTYPE_HOST
        to_host = row.dstMemoryType == kinds.CU_MEMORYTYPE_HOST
        source_host, source = int(row.srcHost), int(row.srcDevice)
        target_host, target = int(row.dstHost), int(row.dstDevice)

        def run(waiting: Callable[[], None]) -> None:
            data = self._host(source_host, size) if from_host else self._memory(source, size)
            (self._host(target_host, size) if to_host else self._memory(target, size))[:] = data

        return self._node(graph, after, count, run)

    def _cuGraphAddMemsetNode(
        self, graph: Any, after: Sequence[Any], count: int, words: Any, context: Any
    ) -> Any:
        assert int(context) == CONTEXT
        assert (words.elementSize, words.height) == (4, 1)
        target, size, value = int(words.dst), 4 * words.width, words.value
        return self._node(
            graph, after, count, lambda waiting: self._set(target, size, np.uint32, value)
        )

    def _cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        assert flags == 0
        return self._keep(list(self._of(graph)), real.CUgraphExec)

    def _cuGraphExecDestroy(self, graph: Any) -> None:
        self._drop(graph)

    def _cuGraphUpload(self, graph: Any, stream: Any) -> None:
        self._of(graph)
        self._later(stream, lambda: None)

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        nodes = self._of(graph)

        def run() -> None:
            pending, done = dict.fromkeys(nodes), set()

            def may_begin(node: FakeNode, depth: int = 6) -> bool:
                ended = depth and all(each in done for each in node.after)
                return bool(ended) and all(
                    each in done or may_begin(each, depth - 1) for each in node.overlapped
                )

            def end(node: FakeNode) -> None:
                if node in pending:
                    del pending[node]
                    node.run(lambda: [end(each) for each in node.overlapped] and None)
                    done.add(node)

            while pending:
                end(self._random.choice([node for node in pending if may_begin(node)]))

        self._later(stream, run)


def _nothing() -> None:
    pass
