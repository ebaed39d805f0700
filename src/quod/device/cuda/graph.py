"""Recordings in the driver's form: CUDA graphs, separated by events for which other streams wait.

The steps between two events become one graph, whose edges are the recorded dependencies:
independent steps may overlap. A kernel that itself waits for earlier launches
(`dependency_wait`) has programmatic edges from them, so that it starts while they end. An event
waits for all earlier work, and all later work waits for the event, so stream order suffices there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from quod.device.cuda.driver import Driver
from quod.device.cuda.kernel import CudaKernel
from quod.device.memory.buffer import HOST, Buffer
from quod.device.runtime.launch_checks import check_groups
from quod.device.runtime.recording import (
    Await,
    Copy,
    Fill,
    Launch,
    Mark,
    Memory,
    Recording,
    Step,
    span,
)
from quod.frozen import frozen

_PROGRAMMATIC_PORT = 1  # CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
_EDGES_SINCE = 12030  # the first CUDA version whose drivers have edges of several kinds
# The driver treats a copy as one row, and rows are shorter than 2 GiB
# (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
_ROW_BYTES = 1 << 30


@frozen
class Graph:
    """The driver's handle of an instantiated graph."""

    handle: Any


Section = Graph | Mark | Await


@frozen
class Program:
    """A recording in the driver's form: graphs and events in order."""

    sections: tuple[Section, ...]

    @cached_property
    def events(self) -> tuple[Mark | Await, ...]:
        """The events among the program's sections."""
        return events_of(self.sections)

    @property
    def handles(self) -> list[Any]:
        """The driver's graphs; the code that drops the program must destroy them."""
        return [section.handle for section in self.sections if isinstance(section, Graph)]


def events_of(steps: Iterable[object]) -> tuple[Mark | Await, ...]:
    """Return the events among the steps of a recording or the sections of a program."""
    return tuple(step for step in steps if isinstance(step, (Mark, Await)))


def load_kernels(recording: Recording) -> None:
    """Wait until the code of all kernels is in the GPU's memory."""
    for step in recording.steps:
        if isinstance(step, Launch):
            assert isinstance(step.kernel, CudaKernel)
            step.kernel.load()


def build_program(driver: Driver, context: Any, recording: Recording) -> Program:
    """Build the graphs of a recording, whose kernels are loaded, in the current context.

    Raises DeviceError if a graph cannot be made.
    """
    sections: list[Section] = []
    try:
        for first_step, steps in _sections(recording.steps):
            first = steps[0]
            if isinstance(first, (Mark, Await)):
                sections.append(first)
            else:
                sections.append(_GraphBuilder(driver, context).build(first_step, steps))
    except BaseException:
        for handle in Program(tuple(sections)).handles:
            driver.cuGraphExecDestroy(handle)
        raise
    return Program(tuple(sections))


def _sections(steps: Sequence[Step]) -> Iterator[tuple[int, Sequence[Step]]]:
    """Split steps at events; yield each section or event with the index of its first step."""
    begin = 0
    for number, step in enumerate(steps):
        if isinstance(step, (Mark, Await)):
            if begin < number:
                yield begin, steps[begin:number]
            yield number, steps[number : number + 1]
            begin = number + 1
    if begin < len(steps):
        yield begin, steps[begin:]


class _Overlaps:
    """The launches of a section that may start before preceding launches have ended.

    The driver lets a launch overlap only if it has a single programmatic edge: with several, it
    waits for the end of all their sources. So edges that another edge implies are left out. Sets of
    steps are bits of an int.
    """

    def __init__(self, driver: Driver, steps: Sequence[Step], first: int) -> None:
        """Prepare to split dependencies; `first` is the index of the first of `steps`."""
        self._steps, self._first = steps, first
        any_overlapped = any(isinstance(step, Launch) and step.overlapped for step in steps)
        self._has_overlaps = any_overlapped and driver.cuDriverGetVersion() >= _EDGES_SINCE
        # For each step, the steps that have ended when the step begins, and when it has ended: a
        # kernel that itself waits does so for the end of all earlier launches.
        self._at_begin: list[int] = []
        self._at_end: list[int] = []

    def split(self, step: Step) -> tuple[list[int], list[int]]:
        """Return the steps that must end before a step starts, and those its kernel waits for."""
        after = [number for number in step.after if number >= self._first]
        if not self._has_overlaps:
            return after, []
        overlapped = step.overlapped if isinstance(step, Launch) else ()
        # The steps that have ended once a step of `after` has ended.
        implied = self._union(self._at_end, after)
        awaited_steps = [
            number for number in after if number in overlapped and not self._has(implied, number)
        ]
        awaited_kernels = [number for number in awaited_steps if self._is_kernel(number)]
        hard_dependencies = [
            number
            for number in after
            if number not in overlapped
            or (number in awaited_steps and number not in awaited_kernels)
        ]
        if overlapped:
            # The step starts after its awaited kernels, and so after the steps before these.
            covered = self._union(self._at_begin, awaited_kernels) | self._union(
                self._at_end, hard_dependencies
            )
            hard_dependencies = [
                number for number in hard_dependencies if not self._has(covered, number)
            ]
        ended = self._union(self._at_end, hard_dependencies) | self._bits(hard_dependencies)
        self._at_begin.append(ended | self._union(self._at_begin, awaited_kernels))
        self._at_end.append(implied | self._bits(after))
        return hard_dependencies, awaited_kernels

    def _union(self, masks: list[int], numbers: Iterable[int]) -> int:
        mask = 0
        for number in numbers:
            mask |= masks[number - self._first]
        return mask

    def _bits(self, numbers: Iterable[int]) -> int:
        return sum(1 << (number - self._first) for number in numbers)

    def _has(self, steps: int, number: int) -> bool:
        return bool(steps >> (number - self._first) & 1)

    def _is_kernel(self, number: int) -> bool:
        step = self._steps[number - self._first]
        return isinstance(step, Launch) and step.groups != 0


class _GraphBuilder:
    """A graph under construction."""

    def __init__(self, driver: Driver, context: Any) -> None:
        self._driver = driver
        self._context = context

    def build(self, number: int, steps: Sequence[Step]) -> Graph:
        """Build the graph of consecutive steps; `number` is the index of the first step."""
        driver = self._driver
        self._graph = driver.cuGraphCreate(0)
        overlaps = _Overlaps(driver, steps, number)
        try:
            nodes: dict[int, list[Any]] = {}
            for index, step in enumerate(steps, number):
                hard_dependencies, awaited_kernels = overlaps.split(step)
                after = [node for earlier in hard_dependencies for node in nodes[earlier]]
                nodes[index] = self._add(step, after)
                for earlier in awaited_kernels:
                    self._overlap(nodes[earlier], nodes[index])
            return Graph(driver.cuGraphInstantiate(self._graph, 0))
        finally:
            driver.cuGraphDestroy(self._graph)

    def _overlap(self, earlier: list[Any], later: list[Any]) -> None:
        """Let a later kernel start before an earlier one has ended; each list has its node."""
        edge = self._driver.api.CUgraphEdgeData()
        edge.from_port = _PROGRAMMATIC_PORT
        kinds = self._driver.api.CUgraphDependencyType
        edge.type = int(kinds.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        # In bindings of CUDA 12 the function of this name takes no kinds of edges.
        name = "cuGraphAddDependencies"
        name = f"{name}_v2" if hasattr(self._driver.api, f"{name}_v2") else name
        getattr(self._driver, name)(self._graph, earlier, later, [edge], 1)

    def _add(self, step: Step, after: list[Any]) -> list[Any]:
        """Add the nodes of a step and return them."""
        match step:
            case Launch() if step.groups != 0:
                return [self._launch(step, after)]
            case Copy() if step.source.nbytes:
                return [self._copy(step, start, after) for start in _rows(step.source.nbytes)]
            case Fill() if step.target.nbytes:
                return [self._fill(step, start, after) for start in _rows(step.target.nbytes)]
        return [self._driver.cuGraphAddEmptyNode(self._graph, after, len(after))]

    def _launch(self, step: Launch, after: list[Any]) -> Any:
        kernel = step.kernel
        assert isinstance(kernel, CudaKernel)
        check_groups(kernel, step.groups)
        parameters = self._driver.api.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = kernel.function
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = step.groups, 1, 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = kernel.lanes, 1, 1
        parameters.sharedMemBytes = kernel.dynamic_shared_bytes
        # The driver copies the argument values, so they need not outlive this call.
        parameters.kernelParams = step.packed.address
        return self._driver.cuGraphAddKernelNode(self._graph, after, len(after), parameters)

    def _copy(self, step: Copy, start: int, after: list[Any]) -> Any:
        api = self._driver.api
        size = min(_ROW_BYTES, step.source.nbytes - start)
        row = api.CUDA_MEMCPY3D()
        for side, memory in (("src", step.source), ("dst", step.target)):
            address = span(memory)[0] + start
            kinds = api.CUmemorytype
            if is_host(memory):
                setattr(row, f"{side}MemoryType", kinds.CU_MEMORYTYPE_HOST)
                setattr(row, f"{side}Host", address)
            else:
                setattr(row, f"{side}MemoryType", kinds.CU_MEMORYTYPE_DEVICE)
                setattr(row, f"{side}Device", api.CUdeviceptr(address))
            setattr(row, f"{side}Pitch", size)
            setattr(row, f"{side}Height", 1)
        row.WidthInBytes, row.Height, row.Depth = size, 1, 1
        return self._driver.cuGraphAddMemcpyNode(self._graph, after, len(after), row, self._context)

    def _fill(self, step: Fill, start: int, after: list[Any]) -> Any:
        api = self._driver.api
        parameters = api.CUDA_MEMSET_NODE_PARAMS()
        parameters.dst = api.CUdeviceptr(span(step.target)[0] + start)
        parameters.value, parameters.elementSize = step.word, 4
        parameters.width = min(_ROW_BYTES, step.target.nbytes - start) // 4
        parameters.height, parameters.pitch = 1, 0
        return self._driver.cuGraphAddMemsetNode(
            self._graph, after, len(after), parameters, self._context
        )


def is_host(memory: Memory) -> bool:
    """Return whether memory is host memory."""
    return not isinstance(memory, Buffer) or memory.space is HOST


def _rows(nbytes: int) -> range:
    return range(0, nbytes, _ROW_BYTES)
