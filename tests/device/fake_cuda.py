"""A model of NVIDIA's driver, in memory: what Quod calls of it, for machines without a GPU.

It takes the place of the module `cuda.bindings.driver`, whose types it uses. A GPU's memory is host
memory, the assembler keeps the PTX text, and kernels are run by the PTX interpreter. Streams do
nothing until they are asked whether they are done, and then one piece at a time; the nodes of a
graph run in any order that its edges allow, those behind a programmatic edge perhaps before. Every
call can be told to fail.
"""

from __future__ import annotations

import bisect
import ctypes
import random
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cuda.bindings.driver as real
import numpy as np

from quod.codegen.ptx.interpreter import interpret_ptx
from quod.kernel.errors import InterpreterError

CONTEXT = 0x1234
LEGACY_STREAM = 1
_PARAMETER = re.compile(r"\.param\s+\.(\w+)([^,\n)]*)")
_DTYPES = {
    "u8": "<u1", "u32": "<u4", "s32": "<i4", "u64": "<u8", "s64": "<i8", "f32": "<f4",
    "f64": "<f8", "b32": "<u4", "b64": "<u8",
}  # fmt: skip
_ALIGNMENT = 512
# Illegal address, timeout, assert, stack, instruction, alignment, space, counter, launch, ECC.
_STICKY_CODES = (700, 702, 710, 714, 715, 716, 717, 718, 719, 214)


class Refusal(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


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
    """What runs it takes what is to be run where it waits for the launches before it."""

    run: Callable[[Callable[[], None]], None]
    after: list[FakeNode]
    overlapped: list[FakeNode] = field(default_factory=list)


@dataclass
class FakeLink:
    log: bytearray
    size: int
    cubin: Any = None


class FakeCuda:
    """One driver with `gpus` GPUs of `memory` bytes; `version` is ``1000 * major + 10 * minor``."""

    def __init__(
        self, *, gpus: int = 1, memory: int = 1 << 30, version: int = 13000,
        capability: tuple[int, int] = (9, 0), elsewhere: int = 0,
    ) -> None:  # fmt: skip
        self.gpus, self.memory, self.version = gpus, memory, version
        self.capability = capability
        self.elsewhere = elsewhere
        self.reaches = self.peer_access = False
        self.calls: Counter[str] = Counter()
        self.sticky: str | None = None
        self.problem: InterpreterError | None = None
        self.contexts = 0
        self.now = 0.0
        self._failures: dict[str, tuple[int, str]] = {}
        self._current = threading.local()
        self.ordinals: dict[int, int] = {}
        self._regions: dict[int, np.ndarray[Any, Any]] = {}
        self._pinned: dict[int, np.ndarray[Any, Any]] = {}
        self._objects: dict[int, Any] = {}
        self._next = 0x1000
        self._streams: list[FakeStream] = []
        self._kernel_nodes: set[FakeNode] = set()
        self._random = random.Random(3)
        self._lock = threading.RLock()

    # --- how tests steer it

    def fail(self, function: str, code: str, after: int = 0) -> None:
        """The call of a function answers `code`, once, `after` calls from now."""
        self._failures[function] = (after, code)

    @property
    def used(self) -> int:
        return sum(region.nbytes for region in self._regions.values())

    # --- how calls arrive

    def __getattr__(self, name: str) -> Any:
        if not re.match(r"cu[A-Z]", name):
            return getattr(real, name)
        implementation = getattr(type(self), f"_{name}")

        def call(*arguments: Any) -> tuple[Any, ...]:
            with self._lock:
                return self._answer(name, implementation, arguments)

        return call

    def _answer(self, name: str, implementation: Any, arguments: tuple[Any, ...]) -> Any:
        self.calls[name] += 1
        try:
            if name in self._failures:
                after, code = self._failures[name]
                if after == 0:
                    del self._failures[name]
                    raise Refusal(code)
                self._failures[name] = (after - 1, code)
            if self.sticky is not None and name not in _ALWAYS:
                raise Refusal(self.sticky)
            if name not in _WITHOUT_CONTEXT and getattr(self._current, "context", 0) != CONTEXT:
                raise Refusal("CUDA_ERROR_INVALID_CONTEXT")
            found = implementation(self, *arguments)
        except Refusal as refusal:
            code = getattr(real.CUresult, refusal.code)
            if int(code) in _STICKY_CODES:
                self.sticky = refusal.code
            return (code,) + (None,) * _RESULTS.get(name, 0)
        if _RESULTS.get(name, 0) == 0:
            return (real.CUresult.CUDA_SUCCESS,)
        results = found if isinstance(found, tuple) else (found,)
        return real.CUresult.CUDA_SUCCESS, *results

    def _keep(self, thing: Any, kind: Any) -> Any:
        self._next += 16
        self._objects[self._next] = thing
        return kind(self._next)

    def _of(self, handle: Any) -> Any:
        if int(handle) not in self._objects:
            raise Refusal("CUDA_ERROR_INVALID_HANDLE")
        return self._objects[int(handle)]

    def _drop(self, handle: Any) -> Any:
        thing = self._of(handle)
        del self._objects[int(handle)]
        return thing

    # --- the driver and its GPUs

    def _cuInit(self, flags: int) -> None:
        assert flags == 0
        if self.gpus == 0:
            raise Refusal("CUDA_ERROR_NO_DEVICE")

    def _cuGetErrorString(self, code: Any) -> bytes:
        return b"as the test wants it"

    def _cuDriverGetVersion(self) -> int:
        return self.version

    def _cuDeviceGetCount(self) -> int:
        return self.gpus

    def _cuDeviceGet(self, ordinal: int) -> Any:
        return real.CUdevice(ordinal)

    def _cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return f"Model {int(device)}".encode().ljust(length, b"\0")

    def _cuDeviceTotalMem(self, device: Any) -> int:
        return self.memory

    def _cuDeviceGetAttribute(self, attribute: Any, device: Any) -> int:
        known = {
            "COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "MULTIPROCESSOR_COUNT": 4,
            "MAX_THREADS_PER_MULTIPROCESSOR": 256,
            "MAX_THREADS_PER_BLOCK": 1024,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
            "CLOCK_RATE": 1000000,
            "MEMORY_CLOCK_RATE": 2000000,
            "GLOBAL_MEMORY_BUS_WIDTH": 256,
        }
        return known[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        self.contexts += 1
        return real.CUcontext(CONTEXT)

    def _cuDevicePrimaryCtxRelease(self, device: Any) -> None:
        self.contexts -= 1

    def _cuDevicePrimaryCtxReset(self, device: Any) -> None:
        self.sticky, self.contexts = None, 0
        self._regions.clear()
        self._objects.clear()

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self._current.context = int(context)

    def _cuCtxGetCurrent(self) -> Any:
        return self.CUcontext(self._current.context)

    def _cuDeviceCanAccessPeer(self, own: Any, other: Any) -> int:
        return int(self.reaches and int(own) != int(other))

    def _cuCtxEnablePeerAccess(self, context: Any, flags: int) -> None:
        if int(context) != CONTEXT or flags != 0:
            raise Refusal("CUDA_ERROR_INVALID_VALUE")
        if self.peer_access:
            raise Refusal("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED")
        self.peer_access = True

    # --- memory

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory - self.used - self.elsewhere, self.memory

    def _cuMemAlloc(self, size: int) -> Any:
        if size > self.memory - self.used - self.elsewhere:
            raise Refusal("CUDA_ERROR_OUT_OF_MEMORY")
        raw = np.empty(size + _ALIGNMENT, np.uint8)
        region = raw[-raw.ctypes.data % _ALIGNMENT :][:size]
        region[: 1 << 16] = 0xA5
        self._regions[region.ctypes.data] = region
        return real.CUdeviceptr(region.ctypes.data)

    def _cuMemFree(self, address: Any) -> None:
        self._regions.pop(int(address))[: 1 << 16] = 0x5A

    def _cuMemHostAlloc(self, size: int, flags: int) -> int:
        assert flags == 1
        if size > 1 << 40:
            raise Refusal("CUDA_ERROR_OUT_OF_MEMORY")
        memory = np.full(size, 0xA5, np.uint8)
        self._pinned[memory.ctypes.data] = memory
        return int(memory.ctypes.data)

    def _cuMemFreeHost(self, address: int) -> None:
        del self._pinned[address]

    def _cuPointerGetAttribute(self, attribute: Any, address: Any) -> int:
        try:
            self._memory(address, 1)
        except Refusal:
            raise Refusal("CUDA_ERROR_INVALID_VALUE") from None
        start = max(start for start in self._regions if start <= int(address))
        match attribute.name.removeprefix("CU_POINTER_ATTRIBUTE_"):
            case "DEVICE_ORDINAL":
                return self.ordinals.get(int(address), 0)
            case "RANGE_START_ADDR":
                return start
            case "RANGE_SIZE":
                return int(self._regions[start].nbytes)
        raise AssertionError(attribute.name)

    def _memory(self, address: Any, size: int) -> Any:
        """GPU memory as bytes; refused where there is none."""
        starts = sorted(self._regions)
        at = bisect.bisect_right(starts, int(address)) - 1
        if at >= 0:
            region = self._regions[starts[at]]
            offset = int(address) - starts[at]
            if offset + size <= region.nbytes:
                return region[offset : offset + size] if size else region[offset:]
        raise Refusal("CUDA_ERROR_ILLEGAL_ADDRESS")

    @staticmethod
    def _host(address: int, size: int) -> Any:
        return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)

    # --- streams and events

    def _cuStreamCreate(self, flags: int) -> Any:
        assert flags == int(real.CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream = FakeStream()
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
        found = self._of(stream)
        if found.queue:
            for each in self._streams:
                self._advance(each)
            raise Refusal("CUDA_ERROR_NOT_READY")

    def _cuEventCreate(self, flags: int) -> Any:
        assert flags == 0
        return self._keep(FakeEvent(), real.CUevent)

    def _cuEventDestroy(self, event: Any) -> None:
        self._drop(event)

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        found = self._of(event)
        found.recorded = True

        def passed() -> None:
            found.milliseconds = self.now

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
        found = self._of(event)
        self._later(stream, lambda: found.is_done)

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
        given = {option.name: value for option, value in zip(options, values, strict=True)}
        log = given["CU_JIT_ERROR_LOG_BUFFER"]
        assert given["CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"] == len(log)
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
            for (kind, rest), data in zip(declared, raw, strict=True):
                if ".ptr" in rest:
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
        known = self._of(graph)
        assert (count, edge.from_port, edge.to_port, edge.type) == (1, 1, 0, 1)
        assert known.index(first) < known.index(second)
        assert {first, second} <= self._kernel_nodes
        assert first not in (*second.after, *second.overlapped)
        second.overlapped.append(first)

    def _cuGraphAddKernelNode(
        self, graph: Any, after: Sequence[Any], count: int, given: Any
    ) -> Any:
        assert isinstance(given, real.CUDA_KERNEL_NODE_PARAMS)
        assert (given.gridDimY, given.gridDimZ, given.blockDimY, given.blockDimZ) == (1, 1, 1, 1)
        run = self._kernel(
            self._of(given.func), given.gridDimX, given.blockDimX, given.sharedMemBytes,
            int(given.kernelParams),
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
            left, done = dict.fromkeys(nodes), set()

            def may_begin(node: FakeNode, depth: int = 6) -> bool:
                ended = depth and all(each in done for each in node.after)
                return bool(ended) and all(
                    each in done or may_begin(each, depth - 1) for each in node.overlapped
                )

            def end(node: FakeNode) -> None:
                if node in left:
                    del left[node]
                    node.run(lambda: [end(each) for each in node.overlapped] and None)
                    done.add(node)

            while left:
                end(self._random.choice([node for node in left if may_begin(node)]))

        self._later(stream, run)


def _nothing() -> None:
    pass


_WITHOUT_CONTEXT = {
    "cuInit", "cuGetErrorString",
    "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
    "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuCtxSetCurrent",
}  # fmt: skip
_ALWAYS = _WITHOUT_CONTEXT - {"cuDevicePrimaryCtxRetain"}

# How many values a function gives beside the result code, where it gives any.
_RESULTS = dict.fromkeys(
    (
        "cuGetErrorString",
        "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuMemAlloc",
        "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuEventElapsedTime",
        "cuLinkCreate", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleGetFunction",
        "cuFuncGetAttribute", "cuPointerGetAttribute", "cuCtxGetCurrent", "cuDeviceCanAccessPeer",
        "cuGraphCreate", "cuGraphAddEmptyNode", "cuGraphAddKernelNode", "cuGraphAddMemcpyNode",
        "cuGraphAddMemsetNode", "cuGraphInstantiate",
    ),
    1,
) | {"cuMemGetInfo": 2, "cuLinkComplete": 2}  # fmt: skip
FUNCTIONS = sorted(name[1:] for name in vars(FakeCuda) if re.match(r"_cu[A-Z]", name))
