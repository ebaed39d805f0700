"""Kernels to machine code for this processor, through the cache on disk.

Two kinds of entries are kept. One is code by the text that it was compiled from. The other, for
Quod's own kernels only, is the key of that entry by what the text follows from: the package's
sources, the kernel and its static arguments. With it a later process neither traces nor emits.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from quod.device import llvm_jit
from quod.device.arguments import Argument, Signature, Slots
from quod.device.cache import CompileCache, key_of
from quod.device.compiled_code import (
    CompiledCode,
    KernelFacts,
    look_up,
    text_digest,
    trace_key,
)
from quod.errors import KernelError
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir import Kernel
from quod.kernel.machine import Machine
from quod.target.pointers import pointer_uses

SizeClass = tuple[int, ...]

_SIZE_CLASSES = 256


class CpuKernel:
    """A kernel compiled for this processor.

    `static` are the arguments that were fixed when it was traced.
    """

    def __init__(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
        compiled: CompiledCode, code: llvm_jit.LoadedCode,
    ) -> None:  # fmt: skip
        self.name = definition.name
        self.parameters = definition.parameters
        self.lanes = machine.workgroup_size
        self.static = dict(static)
        self.stored = frozenset(compiled.facts.uses.stored)
        self.shared_bytes = compiled.facts.shared_bytes
        self.digest = compiled.facts.digest
        self._seconds: dict[SizeClass, float] = {}
        self.entry = code.entry
        self._code = code
        self._signature = Signature(self.name, self.parameters, compiled.facts.uses)

    def pack(self, arguments: tuple[Argument, ...]) -> Slots:
        """The argument slots of a launch; DeviceError for one that does not fit its parameter."""
        return self._signature.pack(arguments)

    @staticmethod
    def size_class(groups: int, arguments: tuple[Argument, ...]) -> SizeClass:
        """Launches that take about as long: their numbers have as many bits."""
        lengths = [argument.bit_length() for argument in arguments if isinstance(argument, int)]
        return (groups.bit_length(), *lengths)

    def expected_seconds(self, size: SizeClass) -> float | None:
        """What launches of this size took; None before the first."""
        return self._seconds.get(size)

    def observe(self, size: SizeClass, seconds: float) -> None:
        """Notes what a launch took: a rise counts at once, a fall by and by."""
        if len(self._seconds) >= _SIZE_CLASSES:
            self._seconds.clear()
        before = self._seconds.get(size)
        self._seconds[size] = seconds if before is None else max(seconds, (seconds + before) / 2)


def build(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], cache: CompileCache
) -> CpuKernel:
    """The kernel, from the cache or compiled now; KernelError if it cannot be."""
    known = trace_key(definition, machine, static, llvm_jit.toolchain())
    stored = look_up(cache, known)
    if stored is not None and (kernel := _loaded(definition, machine, static, stored)):
        return kernel
    kernel_ir, text = emit(definition, machine, static)
    text_key = key_of("llvm text", text, llvm_jit.toolchain())
    stored = cache.get(text_key)
    kernel = None if stored is None else _loaded(definition, machine, static, stored)
    if kernel is None:
        compiled = _compile(kernel_ir, text, text_key, cache)
        code = llvm_jit.LoadedCode(compiled.code, definition.name)
        kernel = CpuKernel(definition, machine, static, compiled, code)
    if known is not None:
        cache.put(known, text_key.encode())
    return kernel


def emit(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> tuple[Kernel, str]:
    """The kernel's IR and its text for LLVM on this processor."""
    # A process that finds its code in the cache has no use for the emitter.
    from quod.target import llvm

    kernel = definition.trace(machine, **static)
    return kernel, llvm.emit(kernel, machine, triple=llvm_jit.host_processor().triple)


def _compile(kernel: Kernel, text: str, key: str, cache: CompileCache) -> CompiledCode:
    try:
        code = llvm_jit.compile_to_object(text)
    except KernelError as error:
        place = cache.keep_text(f"{kernel.name}-{key[:12]}.ll", text)
        where = "" if place is None else f"; the text is in {place}"
        raise KernelError(f"kernel {kernel.name} ({kernel.location}): {error}{where}") from error
    facts = KernelFacts(
        pointer_uses(kernel), kernel.shared_bytes, kernel.name, digest=text_digest(text)
    )  # fmt: skip
    compiled = CompiledCode(facts, code)
    cache.put(key, compiled.pack())
    return compiled


def _loaded(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], stored: bytes
) -> CpuKernel | None:
    """A kernel of a cache entry; None if the code cannot be linked, so that it is built anew."""
    try:
        compiled = CompiledCode.unpack(stored)
        code = llvm_jit.LoadedCode(compiled.code, definition.name)
    except (KernelError, ValueError, KeyError, struct.error):
        return None
    return CpuKernel(definition, machine, static, compiled, code)
