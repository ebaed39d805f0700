"""Kernels of a WebGPU device, with one pipeline for each choice of bindings."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

from quod.codegen.wgsl.machine import WgslLimits
from quod.codegen.wgsl.module import Binding, WgslModule
from quod.device.cache.compiled_code import text_digest
from quod.device.memory.buffer import Buffer, Space
from quod.device.protocol import KernelRepr
from quod.device.runtime.arguments import Argument, Signature
from quod.device.runtime.launch_checks import LOG2_GROUPS
from quod.device.webgpu.binding import WORD_BYTES, PointerRange, plan_bindings
from quod.device.webgpu.compiler import KernelSource, PipelineCompiler
from quod.device.webgpu.memory import Allocation, allocation_and_offset
from quod.errors import DeviceError
from quod.frozen import frozen
from quod.kernel.ir.types import PointerType


@frozen(eq=False)
class Variant:
    """The kernel with one choice of bindings. `pipeline` waits for its compilation."""

    module: WgslModule
    pipeline: Callable[[], Any]


@frozen
class StorageRange:
    """The range of a binding; `allocation` is None if all its memory is empty."""

    allocation: Allocation | None
    start: int
    size: int


@frozen(eq=False)
class PackedLaunch:
    """The arguments of a launch in WebGPU's form."""

    variant: Variant
    ranges: tuple[StorageRange, ...]
    values: tuple[int | float, ...]

    def parameters(self, groups: int) -> bytes:
        """Return the uniform block for a number of workgroups."""
        return self.variant.module.pack(groups, self.values)


class WebGpuKernel(KernelRepr):
    """A kernel for one adapter.

    static: the arguments that were fixed when the kernel was traced.
    text: its WGSL if each pointer has its own binding.
    """

    def __init__(
        self, source: KernelSource, compiler: PipelineCompiler, limits: WgslLimits, space: Space,
        forget: Callable[[WebGpuKernel], None],
    ) -> None:  # fmt: skip
        definition = source.definition
        self.name = definition.name
        self.location = definition.location
        self.parameters, self.slots = definition.parameters_for(source.static)
        self.lanes = source.machine.workgroup_size
        self.static = dict(source.static)
        self.limbs = source.machine.limbs
        self._pointers = [
            index
            for index, type_ in enumerate(self.slots.values())
            if isinstance(type_, PointerType)
        ]
        self.space = space
        self._source = source
        self._compiler = compiler
        self._limits = limits
        self._forget = forget
        self._lock = threading.Lock()
        self._variants: dict[tuple[Binding, ...] | None, Variant] = {}
        # With more pointers than bindings, the sharing of bindings depends on each launch's memory.
        fits = len(self._pointers) <= limits.storage_buffers
        emitted = source.text(None)
        self.text = emitted.module.text
        self.stored = frozenset(emitted.uses.stored)
        if fits:
            self._add(None, emitted.module)
        self.signature = Signature(
            self.name, self.slots, emitted.uses, space=space, alignment=WORD_BYTES
        )

    def _add(self, bindings: tuple[Binding, ...] | None, module: WgslModule) -> Variant:
        wait_for_pipeline = self._compiler.begin(self._source, module)

        def pipeline() -> Any:
            try:
                return wait_for_pipeline()
            except Exception:
                # Do not keep the failure: a later attempt may succeed.
                self._forget(self)
                raise

        variant = self._variants[bindings] = Variant(module, pipeline)
        return variant

    def variant(self, bindings: tuple[Binding, ...] | None) -> Variant:
        """Return the kernel with these bindings; the first request starts its compilation."""
        known_variant = self._variants.get(bindings)
        if known_variant is None:
            with self._lock:
                known_variant = self._variants.get(bindings)
                if known_variant is None:
                    known_variant = self._add(bindings, self._source.text(bindings).module)
        return known_variant

    def pack(self, arguments: tuple[Argument, ...]) -> PackedLaunch:
        """Pack a launch's arguments; raises DeviceError for one that does not fit its parameter."""
        # Only to check them: addresses are of no use to WebGPU.
        self.signature.pack(arguments)
        allocations: dict[int, Allocation] = {}
        pointer_ranges = []
        for index in self._pointers:
            buffer = arguments[index]
            assert isinstance(buffer, Buffer)
            if buffer.nbytes == 0:
                pointer_ranges.append(PointerRange(None, 0, 0))
                continue
            allocation, start = allocation_and_offset(buffer)
            allocations[allocation.address] = allocation
            pointer_ranges.append(PointerRange(allocation.address, start, start + buffer.nbytes))
        plan = plan_bindings(self.name, pointer_ranges, self._limits)
        offsets = dict(zip(self._pointers, plan.offsets, strict=True))
        values = tuple(
            offsets[index] if index in offsets else _number(argument)
            for index, argument in enumerate(arguments)
        )
        ranges = tuple(
            StorageRange(
                None if row.buffer is None else allocations[row.buffer], row.start, row.size
            )
            for row in plan.ranges
        )
        return PackedLaunch(self.variant(plan.bindings), ranges, values)

    @property
    def digest(self) -> str:
        """Digest of the texts for all the ways in which memory was bound."""
        texts = {self.text, *(variant.module.text for variant in tuple(self._variants.values()))}
        return text_digest("\n".join(sorted(texts)))

    def wait_until_compiled(self) -> None:
        """Wait for the requested pipelines; raise KernelError if one was rejected."""
        for variant in tuple(self._variants.values()):
            variant.pipeline()

    def __str__(self) -> str:
        return f"{self.name} ({self.location})"


def _number(argument: Argument) -> int | float:
    if isinstance(argument, float):
        return argument
    try:
        return operator.index(argument)  # type: ignore[arg-type]
    except TypeError:
        # NumPy's floats and truth values have no `__index__`.
        return float(argument)  # type: ignore[arg-type]


def grid(groups: int, most: int) -> tuple[int, int]:
    """Return a grid of two dimensions, each at most `most`, with at least `groups` workgroups.

    Raises DeviceError if there are more workgroups than a launch may have.
    """
    rows = max(1, -(-groups // most))
    if rows > most or groups >= 1 << LOG2_GROUPS:
        raise DeviceError(f"a launch of {groups} workgroups exceeds the adapter's limit")
    return -(-groups // rows), rows
