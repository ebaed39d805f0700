"""Feature levels of x86-64 CPUs, for which kernels are compiled ahead of time.

Code for a level runs on each CPU that has the level's features. The levels are those of the System
V ABI for AMD64 ("Micro-architecture levels"); AVX-512 IFMA is an addition to the fourth.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from quod.codegen.pointers import pointer_uses
from quod.device.cache.compiled_code import CompiledCode, KernelFacts, text_digest
from quod.device.cache.prebuilt import VARIABLE, PrebuiltKernels
from quod.device.cpu.machine import machine_of
from quod.device.cpu.native_code import arrange
from quod.device.cpu.processor import HostProcessor, host_processor
from quod.errors import KernelError
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.types import PointerType
from quod.kernel.machine import Machine

_TRIPLE = "x86_64-unknown-linux-gnu"
_SYSTEM_NAME = "x86_64"
_V3 = frozenset({
    "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse4.2",
})  # fmt: skip
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@frozen
class Level:
    """A feature level.

    strategy: the representation of field elements in its code.
    cpu, additions: LLVM's name of the level, and its features beyond that.
    features: LLVM's names of the features that a CPU needs.
    """

    name: str
    strategy: str
    cpu: str
    additions: str
    features: frozenset[str]

    def machine(self, lanes: int) -> Machine:
        """Return the machine that kernels of `lanes` lanes are traced for."""
        return machine_of(
            self.strategy, lanes, has_f16=True,
            pair_product_lanes=self.target.pair_product_lanes,
        )  # fmt: skip

    @property
    def target(self) -> HostProcessor:
        """The target of code for the level."""
        return HostProcessor(self.cpu, self.features, self.additions, _TRIPLE)


LEVELS = {
    level.name: level
    for level in (
        Level("x86-64-v4-ifma", "ifma", "x86-64-v4", "+avx512ifma", _V4 | {"avx512ifma"}),
        Level("x86-64-v3", "avx2", "x86-64-v3", "", _V3),
    )
}
"""The levels by name, the highest first."""


def level_of(processor: HostProcessor) -> Level | None:
    """Return the highest level whose code a CPU can run, or None."""
    if processor.triple != _TRIPLE:
        return None
    return next((level for level in LEVELS.values() if level.features <= processor.features), None)


def prebuilt_kernels() -> PrebuiltKernels | None:
    """Return the kernels that are installed for the level of this CPU, or None if it has none."""
    level = level_of(host_processor())
    return None if level is None else _prebuilt(level.name, os.environ.get(VARIABLE))


@functools.cache
def _prebuilt(level: str, folder: str | None) -> PrebuiltKernels:
    # A folder for GPUs only is no error.
    return PrebuiltKernels(folder or None, level, optional=True)


class LevelText:
    """The LLVM text of a kernel for a level; raises KernelError if the kernel is invalid."""

    def __init__(
        self, level: Level, definition: KernelDefinition, machine: Machine,
        static: Mapping[str, Any],
    ) -> None:  # fmt: skip
        # Imported here, as a device needs only the lookup.
        from quod.codegen.llvm import emitter

        self._level = level
        self._kernel = definition.trace(machine, **static)
        self.text = emitter.emit(self._kernel, machine, triple=_TRIPLE)
        self.digest = text_digest(self.text)

    def compile(self) -> CompiledCode:
        """Compile the text, on any machine; raises KernelError if LLVM refuses it."""
        from quod.device.cpu import llvm

        kernel, level = self._kernel, self._level
        code = llvm.compile_to_object(self.text, processor=level.target)
        native = arrange(code, kernel.name, _SYSTEM_NAME)
        if native is None:
            raise KernelError(f"the code of kernel {kernel.name} for {level.name} needs a linker")
        return CompiledCode(facts_of(kernel, self.text, native.entry), native.image)


def facts_of(kernel: Kernel, text: str, offset: int | None) -> KernelFacts:
    """Return the launch facts of a kernel and its LLVM text."""
    return KernelFacts(
        pointer_uses(kernel), _workgroup_bytes(kernel), kernel.name, digest=text_digest(text),
        offset=offset,
    )  # fmt: skip


def _workgroup_bytes(kernel: Kernel) -> int:
    """Return the bytes of the arrays of a workgroup and its instances."""
    private = 0
    for op in kernel.block.ops:
        if op.definition.declares == "private":
            pointer = op.results[0].type
            assert isinstance(pointer, PointerType)
            private += pointer.element.bytes * int(op.attributes["count"])
    return kernel.shared_bytes + private * kernel.workgroup_size
