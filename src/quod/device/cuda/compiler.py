"""Compilation of kernels to machine code of a GPU: tracing, PTX, the driver's assembler, the cache.

The driver's own linker assembles, so nothing but the driver is needed. The cache has the same two
kinds of entries as the CPU's (see `compiled_code`). For kernels whose roles redistribute registers,
the driver loads the PTX text itself and caches the code.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from quod.codegen.pointers import pointer_uses
from quod.codegen.ptx.module import PtxModule
from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compilations import compilations
from quod.device.cache.compiled_code import (
    CompiledCode,
    KernelFacts,
    look_up,
    remember,
    text_digest,
    trace_key,
)
from quod.device.cache.prebuilt import PrebuiltKernels
from quod.device.cuda.driver import CudaError, Driver, version_text
from quod.device.cuda.kernel import LoadedCode
from quod.device.runtime.future import Dropped, Outcome
from quod.errors import DeviceError, KernelError
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.nodes import Kernel
from quod.kernel.machine import Machine

_LOG_BYTES = 64 << 10
_LOG_LINES = 3
_LINE = re.compile(r"\bline (\d+)")
_VERSION = re.compile(r"^\.version (\S+)", re.MULTILINE)


Assembling = Callable[[Callable[[], bytes]], Outcome[bytes]]
"""Runs a task on another thread, in the context of the device."""


def toolchain(driver_version: int, arch: str) -> str:
    """Return a text for cache keys that identifies the assembler."""
    return f"cuda driver {driver_version} {arch}"


class KernelCode:
    """The machine code of a kernel: cached, prebuilt, or being assembled in the background.

    The constructor returns once the text is known, with `facts`; raises KernelError if the kernel
    cannot be traced.
    """

    def __init__(
        self, driver: Driver, definition: KernelDefinition, machine: Machine,
        static: Mapping[str, Any], cache: CompileCache, prebuilt: PrebuiltKernels, tools: str,
        background: Assembling,
    ) -> None:  # fmt: skip
        self._driver, self._prebuilt = driver, prebuilt
        self._definition, self._machine, self._static = definition, machine, static
        self._cache, self._tools, self._background = cache, tools, background
        self._trace_key = trace_key(definition, machine, static, tools)
        # The cache comes before prebuilt code: it may have code that replaces prebuilt code which
        # the driver refused.
        if not self._take(look_up(cache, self._trace_key)):
            shipped = prebuilt.find_untraced(definition, machine, static)
            if shipped is None:
                self._translate()
            else:
                self._use(shipped, shipped=True)

    def _take(self, stored: bytes | None) -> bool:
        """Use a cache entry if it is valid; return whether it is."""
        if stored is None:
            return False
        try:
            self._use(CompiledCode.unpack(stored))
        except (ValueError, KeyError, struct.error):
            return False
        return True

    def _use(self, compiled: CompiledCode, *, shipped: bool = False) -> None:
        self.facts = compiled.facts
        self._code = Outcome.of(compiled.code)
        self._is_stored, self._is_shipped = True, shipped

    def _translate(self, *, anew: bool = False) -> None:
        """Trace the kernel; take the code of its text from the cache or the prebuilt kernels.

        anew: ignore both.
        """
        from quod.device.cpu.compile_pool import text_elsewhere

        kernel = self._definition, self._machine, self._static
        packed = None if anew else text_elsewhere(__name__, *kernel)
        text = PtxText.of(*kernel) if packed is None else PtxText.unpack(packed)
        key = key_of("ptx text", text.text, self._tools)
        if not anew and self._take(self._cache.get(key)):
            self._remember(key)
            return
        facts = text.facts
        shipped = None if anew else self._prebuilt.find_text(facts.digest)
        if shipped is not None:
            self._use(CompiledCode(facts, shipped.code), shipped=True)
            # So that the next process need not trace the kernel.
            self._keep(key, facts, shipped.code)
            return
        self.facts, self._is_stored = facts, False

        def assembled() -> bytes:
            with compilations.running():
                code = _assembled(self._driver, kernel, text, key, self._cache)
            self._keep(key, facts, code)
            return code

        self._code = self._background(assembled)

    def _keep(self, key: str, facts: KernelFacts, code: bytes) -> None:
        self._cache.put(key, CompiledCode(facts, code).pack())
        self._remember(key)

    def _remember(self, key: str) -> None:
        remember(self._cache, self._trace_key, key)

    def load(self) -> LoadedCode:
        """Wait for the code and load it in the current context.

        Raises KernelError if the assembler refuses the text, and DeviceError if the driver is too
        old for it.
        """
        try:
            return LoadedCode(self._driver, self.facts, self._code.result())
        except Dropped as error:
            raise DeviceError(
                f"kernel {self._definition.name} was not assembled because its device was closed"
            ) from error
        except CudaError as error:
            # Invalid code is built again; after a failure of the device that would be useless.
            if not self._is_stored or error.is_sticky or error.is_out_of_memory:
                raise
            if self._is_shipped:
                self._prebuilt.warn(f"the driver refuses {self._definition.name} ({error})")
        self._translate(anew=True)
        return LoadedCode(self._driver, self.facts, self._code.result())


TracedKernel = tuple[KernelDefinition, Machine, Mapping[str, Any]]


@frozen
class PtxText:
    """The PTX of a kernel and the facts about it; see `PtxModule` for `moves_registers`."""

    facts: KernelFacts
    text: str
    moves_registers: bool

    @classmethod
    def of(
        cls, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
    ) -> PtxText:  # fmt: skip
        """Trace a kernel; raises KernelError if it is invalid."""
        traced, module = emit(definition, machine, static)
        return cls(facts_of(traced, module), module.text, module.moves_registers)

    def pack(self) -> bytes:
        """Encode as bytes for another process."""
        flag = bytes([self.moves_registers])
        return flag + CompiledCode(self.facts, self.text.encode()).pack()

    @classmethod
    def unpack(cls, data: bytes) -> PtxText:
        """Decode the bytes of `pack`."""
        compiled = CompiledCode.unpack(data[1:])
        return cls(compiled.facts, compiled.code.decode(), bool(data[0]))


def packed_text(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> bytes:  # fmt: skip
    """Return the packed `PtxText` of a kernel; helper processes call this."""
    return PtxText.of(definition, machine, static).pack()


def emit(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> tuple[Kernel, PtxModule]:
    """Trace a kernel; return its IR and its PTX."""
    # Imported here, as a process that finds its code in the cache does not need the emitter.
    from quod.codegen.ptx import emitter as ptx

    kernel = definition.trace(machine, **static)
    return kernel, ptx.translate(kernel, machine)


def facts_of(kernel: Kernel, module: PtxModule) -> KernelFacts:
    """Return the launch facts of a kernel and its PTX."""
    return KernelFacts(
        pointer_uses(kernel), kernel.shared_bytes, module.entry, module.dynamic_shared_bytes,
        text_digest(module.text),
    )  # fmt: skip


def assemble(driver: Driver, text: str) -> bytes:
    """Assemble PTX to a cubin for the GPU of the current context.

    Raises CudaError, whose text ends with the assembler's log.
    """
    api = driver.api
    log, names = bytearray(_LOG_BYTES), _log_options(driver)
    # The linker's state holds the addresses of the values, so `log` must live as long as the state.
    state = driver.cuLinkCreate(len(names), names, [log, len(log)])
    try:
        data = text.encode() + b"\0"
        with _with_log(log):
            driver.cuLinkAddData(
                state, api.CUjitInputType.CU_JIT_INPUT_PTX, data, len(data), b"kernel.ptx",
                0, [], [],
            )  # fmt: skip
            address, size = driver.cuLinkComplete(state)
        return ctypes.string_at(address, size)
    finally:
        driver.cuLinkDestroy(state)


def loadable_text(driver: Driver, text: str) -> bytes:
    """Load PTX once with the driver, so that its cache has the code; return the text.

    Raises CudaError as `assemble` does.
    """
    log, names = bytearray(_LOG_BYTES), _log_options(driver)
    data = text.encode() + b"\0"
    with _with_log(log):
        module = driver.cuModuleLoadDataEx(data, len(names), names, [log, len(log)])
    driver.cuModuleUnload(module)
    return data


def _log_options(driver: Driver) -> list[Any]:
    option = driver.api.CUjit_option
    return [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]


@contextmanager
def _with_log(log: bytearray) -> Iterator[None]:
    """Add the assembler's log to a CudaError that the body raises."""
    try:
        yield
    except CudaError as error:
        text = bytes(log).split(b"\0")[0].decode(errors="replace").strip()
        raise CudaError(error.call, error.code, text or error.text) from error


def _assembled(
    driver: Driver, kernel: TracedKernel, text: PtxText, key: str, cache: CompileCache
) -> bytes:
    definition = kernel[0]
    try:
        # Linked code could not redistribute registers: see `PtxModule`.
        return (loadable_text if text.moves_registers else assemble)(driver, text.text)
    except CudaError as error:
        if error.is_sticky or error.is_out_of_memory:
            raise
        if error.code == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
            version = _VERSION.search(text.text)
            raise DeviceError(
                f"kernel {definition.name} ({definition.location}) needs PTX "
                f"{version.group(1) if version else 'of a later version'}, which the "
                f"NVIDIA driver (CUDA {version_text(driver.cuDriverGetVersion())}) does "
                "not support; update the driver"
            ) from error
        if error.code == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND":
            raise DeviceError(
                "the NVIDIA driver has no PTX compiler (libnvidia-ptxjitcompiler); "
                "install the complete driver"
            ) from error
        text_path = cache.keep_text(f"{definition.name}-{key[:12]}.ptx", text.text)
        location = "" if text_path is None else f"; the PTX is in {text_path}"
        # Traced once more for the Python lines of the text.
        explained = _explained(error.text, emit(*kernel)[1])
        raise KernelError(
            f"kernel {definition.name} ({definition.location}): the assembler rejects the PTX: "
            f"{explained}{location}"
        ) from error


def _explained(log: str, module: PtxModule) -> str:
    """Return the first lines of the assembler's log, each with the Python line that it concerns."""
    explained = []
    for line in [line.strip() for line in log.splitlines() if line.strip()][:_LOG_LINES]:
        match = _LINE.search(line)
        source = module.source_of(int(match.group(1))) if match else None
        explained.append(f"{line} ({source})" if source else line)
    return "; ".join(explained)
