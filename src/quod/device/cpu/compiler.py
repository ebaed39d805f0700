"""Compilation of kernels to machine code for this CPU, with a cache on disk.

The cache has two kinds of entries. One maps a text to its code. The other, for Quod's own kernels
only, maps what the text depends on (the package's sources, the kernel and its static arguments) to
the key of the first entry. With it a later process neither traces nor emits.

Code that was compiled without optimisations has entries of its own (see `quick_code`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import compress
from typing import Any

from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compilations import compilations
from quod.device.cache.compiled_code import (
    CompiledCode,
    look_up,
    remember,
    text_digest,
    trace_key,
)
from quod.device.cpu import llvm as llvm_jit
from quod.device.cpu.native_code import NativeCode, arrange
from quod.device.cpu.processor import host_processor, toolchain
from quod.device.host import usable_threads
from quod.device.memory.buffer import HOST
from quod.device.protocol import KernelRepr
from quod.device.runtime.arguments import Argument, Signature, Slots
from quod.errors import KernelError
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.nodes import Kernel
from quod.kernel.machine import Machine

SizeClass = tuple[int, ...]

_SIZE_CLASSES = 256


class CpuKernel(KernelRepr):
    """A kernel compiled for this processor.

    static: the arguments that were fixed when the kernel was traced.
    """

    space = HOST

    def __init__(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
        compiled: CompiledCode, code: llvm_jit.LoadedCode,
    ) -> None:  # fmt: skip
        self.name = definition.name
        self.parameters, self.slots = definition.parameters_for(static)
        self.lanes = machine.workgroup_size
        self.static = dict(static)
        self.stored = frozenset(compiled.facts.uses.stored)
        self.shared_bytes = compiled.facts.shared_bytes
        self.digest = compiled.facts.digest
        self._seconds: dict[SizeClass, float] = {}
        self.entry = code.entry
        self._code = code
        self._signature = Signature(self.name, self.slots, compiled.facts.uses)
        self._are_single_slots: list[bool] | None = None
        if self.parameters is not self.slots:
            from quod.kernel.builder.composites import are_single_slots

            flags = are_single_slots(self.parameters)
            all_are = all(flags) and len(flags) == len(self.slots)
            self._are_single_slots = None if all_are else flags

    def pack(self, arguments: tuple[Argument, ...]) -> Slots:
        """Pack a launch's arguments into slots; raises DeviceError for one that does not fit."""
        return self._signature.pack(arguments)

    def size_class(self, groups: int, arguments: tuple[Argument, ...]) -> SizeClass:
        """Return a class of launches that take about as long: the bit lengths of their numbers.

        Arguments of several slots, such as field elements, are ignored.
        """
        if self._are_single_slots is not None:
            arguments = tuple(compress(arguments, self._are_single_slots))
        lengths = [argument.bit_length() for argument in arguments if isinstance(argument, int)]
        return (groups.bit_length(), *lengths)

    def expected_seconds(self, size: SizeClass) -> float | None:
        """Return the expected seconds of launches of this size; None before the first."""
        return self._seconds.get(size)

    def observe(self, size: SizeClass, seconds: float) -> None:
        """Update the expected seconds: a rise takes effect at once, a fall gradually."""
        if len(self._seconds) >= _SIZE_CLASSES:
            self._seconds.clear()
        previous_seconds = self._seconds.get(size)
        self._seconds[size] = (
            seconds if previous_seconds is None else max(seconds, (seconds + previous_seconds) / 2)
        )


class KernelText:
    """The LLVM text of a kernel, and the key of its code; raises KernelError if it is invalid.

    quick: compile without optimisations.
    """

    def __init__(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], *,
        quick: bool = False,
    ) -> None:  # fmt: skip
        self._kernel, self._text = emit(definition, machine, static)
        self._quick = quick
        self.key = key_of("llvm image", self._text, toolchain(quick=quick))

    def compile(self, cache: CompileCache | None = None) -> CompiledCode:
        """Return the installed code of the text, or compile it.

        If LLVM refuses the text, keeps it in `cache` and raises KernelError.
        """
        # Imported here, as a process that finds its code in the cache looks for no other.
        from quod.device.cpu.levels import facts_of, prebuilt_kernels

        kernel = self._kernel
        prebuilt = prebuilt_kernels()
        shipped = None if prebuilt is None else prebuilt.find_text(text_digest(self._text))
        if shipped is not None:
            return shipped
        try:
            code = llvm_jit.compile_to_object(self._text, quick=self._quick)
        except KernelError as error:
            name = f"{kernel.name}-{self.key[:12]}.ll"
            text_path = None if cache is None else cache.keep_text(name, self._text)
            location = "" if text_path is None else f"; the text is in {text_path}"
            raise KernelError(
                f"kernel {kernel.name} ({kernel.location}): {error}{location}"
            ) from error
        # Laid out before it is cached: in Python this takes as long as all else that a load does.
        native = arrange(code, kernel.name)
        facts = facts_of(kernel, self._text, None if native is None else native.entry)
        return CompiledCode(facts, code if native is None else native.image)


_request_lists: list[list[bytes]] = []


@contextmanager
def quick_code() -> Iterator[list[bytes]]:
    """Compile Quod's own kernels without optimisations during the body.

    LLVM takes a third of the time, and proofs take one and a half times as long. A kernel whose
    optimised code is in the cache uses that. Only kernels that another process can optimise are
    compiled so. Yields a list that grows by a request (`messages.Request`) for the optimised code
    of each kernel that has quick code.
    """
    requests: list[bytes] = []
    _request_lists.append(requests)
    try:
        yield requests
    finally:
        _request_lists.pop()


def _request_if_quick(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> bool:
    """Request the optimised code of a kernel if it gets quick code; return whether it does."""
    lists = _request_lists[-1:]  # another thread may leave `quick_code`
    if not lists or not host_processor().has_quick_code:
        return False
    from quod.device.cpu.compile_pool import request_for

    request = request_for(definition, machine, static)
    if request is None:
        return False
    lists[0].append(request)
    return True


def is_known(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], cache: CompileCache
) -> bool:
    """Return whether the cache or the installed kernels have the code of a kernel."""
    traces = (
        trace_key(definition, machine, static, toolchain(quick=quick))
        for quick in ((False, True) if _request_lists else (False,))
    )
    if any(trace is not None and cache.get(trace) is not None for trace in traces):
        return True
    from quod.device.cpu.levels import prebuilt_kernels

    prebuilt = prebuilt_kernels()
    return prebuilt is not None and prebuilt.has(definition, machine, static)


def build(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
    cache: CompileCache, threads: int = 1,
) -> CpuKernel:  # fmt: skip
    """Load the kernel from the cache or the installed kernels, or compile it.

    Raises KernelError if it is invalid.
    threads: number of Quod's own kernels that may be compiled at a time.
    """
    trace = trace_key(definition, machine, static, toolchain())
    cached_code = look_up(cache, trace)
    if cached_code is not None and (
        kernel := _kernel_of_entry(definition, machine, static, cached_code)
    ):
        return kernel
    from quod.device.cpu.levels import prebuilt_kernels

    prebuilt = prebuilt_kernels()
    shipped = None if prebuilt is None else prebuilt.find_untraced(definition, machine, static)
    if shipped is not None and (kernel := _kernel_of_code(definition, machine, static, shipped)):
        return kernel
    quick = trace is not None and _request_if_quick(definition, machine, static)
    if quick:
        trace = trace_key(definition, machine, static, toolchain(quick=True))
        cached_code = look_up(cache, trace)
        if cached_code is not None and (
            kernel := _kernel_of_entry(definition, machine, static, cached_code)
        ):
            return kernel
    with compilations.running():
        return _compile_and_load(definition, machine, static, cache, trace, threads, quick=quick)


def _compile_and_load(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
    cache: CompileCache, trace: str | None, threads: int, *, quick: bool,
) -> CpuKernel:  # fmt: skip
    # Imported here: a process that finds its code in the cache starts no helper.
    from quod.device.cpu.compile_pool import KeyedCode, compile_elsewhere

    loaded: list[CpuKernel] = []

    def linkable_code(key: str) -> bytes | None:
        """Return the cached code of a text if it can be linked, else None."""
        packed = cache.get(key)
        kernel = None if packed is None else _kernel_of_entry(definition, machine, static, packed)
        if kernel is not None:
            loaded.append(kernel)
        return None if kernel is None else packed

    def compile_here() -> KeyedCode:
        text = KernelText(definition, machine, static, quick=quick)
        packed = linkable_code(text.key)
        return text.key, text.compile(cache).pack() if packed is None else packed

    if trace is None:
        key, packed = compile_here()
    else:
        key, packed = compile_elsewhere(
            definition,
            machine,
            static,
            most=usable_threads() if compilations.helpers_first_depth else threads,
            stored=linkable_code,
            here=compile_here,
            helper_first=compilations.helpers_first_depth > 0,
            quick=quick,
        )
    if not loaded:
        compiled = CompiledCode.unpack(packed)
        loaded.append(CpuKernel(definition, machine, static, compiled, _linked(compiled)))
        cache.put(key, packed)
    remember(cache, trace, key)
    return loaded[0]


def emit(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> tuple[Kernel, str]:
    """Trace a kernel; return its IR and its LLVM IR for this CPU."""
    # Imported here, as a process that finds its code in the cache does not need the emitter.
    from quod.codegen.llvm import emitter as llvm

    kernel, processor = definition.trace(machine, **static), host_processor()
    return kernel, llvm.emit(
        kernel, machine, triple=processor.triple, register_bits=processor.register_bits
    )


def _kernel_of_entry(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], stored: bytes
) -> CpuKernel | None:
    """Make a kernel from a cache entry; None if its code cannot be linked and must be rebuilt."""
    try:
        compiled = CompiledCode.unpack(stored)
    except (ValueError, KeyError, struct.error):
        return None
    return _kernel_of_code(definition, machine, static, compiled)


def _kernel_of_code(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
    compiled: CompiledCode,
) -> CpuKernel | None:  # fmt: skip
    """Make a kernel of compiled code; None if it cannot be linked."""
    try:
        code = _linked(compiled)
    except (KernelError, ValueError):
        return None
    return CpuKernel(definition, machine, static, compiled, code)


def _linked(compiled: CompiledCode) -> llvm_jit.LoadedCode:
    """Load compiled code; raises KernelError, or ValueError for an invalid memory image."""
    facts, code = compiled.facts, compiled.code
    image = code if facts.offset is None else NativeCode.stored(code, facts.offset)
    return llvm_jit.LoadedCode(image, facts.entry)
