"""Kernels to machine code of a GPU: traced, emitted as PTX, assembled by the driver, cached.

The driver's own linker assembles, so nothing but the driver is needed. Entries of the cache are as
the CPU's (`compiled_code`): code by its text, and the text's key by what the text follows from.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Mapping
from typing import Any

from quod.device.arguments import Argument, Signature, Slots
from quod.device.buffer import Space
from quod.device.cache import CompileCache, key_of
from quod.device.compiled_code import CompiledCode, look_up, trace_key
from quod.device.cuda_driver import CudaError, Driver, version_text
from quod.errors import DeviceError, KernelError
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir import Kernel
from quod.kernel.machine import Machine
from quod.target.pointers import pointer_uses
from quod.target.ptx_module import PtxModule

ADDRESS_ALIGNMENT = 16
"""What all memory given to a kernel begins at a multiple of: the widest load."""

_LOG_BYTES = 64 << 10
_LOG_LINES = 3
_LINE = re.compile(r"\bline (\d+)")
_VERSION = re.compile(r"^\.version (\S+)", re.MULTILINE)


class PackedArguments:
    """The arguments of a launch in the driver's form: an array of pointers to values.

    `address` is where it begins; the array lives as long as this object does.
    """

    __slots__ = ("_pointers", "_slots", "address")

    def __init__(self, slots: Slots) -> None:
        # A value is read in its own width: of a slot's eight bytes, little-endian, the first.
        start, count = ctypes.addressof(slots), len(slots)
        self._slots = slots
        self._pointers = (ctypes.c_void_p * count)(*range(start, start + 8 * count, 8))
        self.address = ctypes.addressof(self._pointers)


class CudaKernel:
    """A kernel in the memory of one GPU.

    `registers` and `local_bytes` (registers that did not fit, in memory) are what an instance uses,
    `static` the arguments that were fixed when it was traced.
    """

    def __init__(
        self, driver: Driver, definition: KernelDefinition, machine: Machine,
        static: Mapping[str, Any], compiled: CompiledCode, space: Space,
    ) -> None:  # fmt: skip
        self.name = definition.name
        self.location = definition.location
        self.parameters = definition.parameters
        self.lanes = machine.workgroup_size
        self.static = dict(static)
        self.stored = frozenset(compiled.uses.stored)
        self.shared_bytes = compiled.shared_bytes
        self.dynamic_shared_bytes = compiled.dynamic_shared_bytes
        self.code = compiled.code
        self.signature = Signature(
            self.name, self.parameters, compiled.uses, space=space, alignment=ADDRESS_ALIGNMENT
        )
        self.module = driver.cuModuleLoadData(compiled.code)
        try:
            self.function = driver.cuModuleGetFunction(self.module, compiled.entry.encode())
            names = driver.api.CUfunction_attribute
            if self.dynamic_shared_bytes:
                driver.cuFuncSetAttribute(
                    self.function, names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    self.dynamic_shared_bytes,
                )  # fmt: skip
            get = driver.cuFuncGetAttribute
            self.registers = int(get(names.CU_FUNC_ATTRIBUTE_NUM_REGS, self.function))
            self.local_bytes = int(get(names.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, self.function))
        except CudaError:
            driver.cuModuleUnload(self.module)
            raise

    def pack(self, arguments: tuple[Argument, ...]) -> PackedArguments:
        """The arguments of a launch; DeviceError for one that does not fit its parameter."""
        return PackedArguments(self.signature.pack(arguments))

    def __str__(self) -> str:
        return f"{self.name} ({self.location})"


def toolchain(driver_version: int, arch: str) -> str:
    """The assembler, as it enters the keys of the cache."""
    return f"cuda driver {driver_version} {arch}"


def build(
    driver: Driver, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
    cache: CompileCache, space: Space, tools: str,
) -> CudaKernel:  # fmt: skip
    """The kernel, from the cache or compiled now, in the current context.

    KernelError if it cannot be compiled, and DeviceError if the driver is too old for it.
    """
    known = trace_key(definition, machine, static, tools)

    def loaded(stored: bytes | None) -> CudaKernel | None:
        if stored is None:
            return None
        try:
            compiled = CompiledCode.unpack(stored)
            return CudaKernel(driver, definition, machine, static, compiled, space)
        except (ValueError, KeyError, struct.error):
            return None
        except CudaError as error:
            # Code that is not what it should be is built anew; a failed device cannot be helped.
            if error.is_sticky or error.is_out_of_memory:
                raise
            return None

    if (kernel := loaded(look_up(cache, known))) is not None:
        return kernel
    traced, module = emit(definition, machine, static)
    key = key_of("ptx text", module.text, tools)
    kernel = loaded(cache.get(key))
    if kernel is None:
        code = _assembled(driver, traced, module, key, cache)
        compiled = CompiledCode(
            code, pointer_uses(traced), traced.shared_bytes, module.entry,
            module.dynamic_shared_bytes,
        )  # fmt: skip
        cache.put(key, compiled.pack())
        kernel = CudaKernel(driver, definition, machine, static, compiled, space)
    if known is not None:
        cache.put(known, key.encode())
    return kernel


def emit(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> tuple[Kernel, PtxModule]:
    """The kernel's IR and its PTX."""
    # A process that finds its code in the cache has no use for the emitter.
    from quod.target import ptx

    kernel = definition.trace(machine, **static)
    return kernel, ptx.translate(kernel, machine)


def assemble(driver: Driver, text: str) -> bytes:
    """PTX to a cubin for the GPU of the current context.

    Raises CudaError, whose text ends with what the assembler said.
    """
    api = driver.api
    option = api.CUjit_option
    log = bytearray(_LOG_BYTES)
    names = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    # The state keeps the addresses of the values; `log` lives until it is destroyed.
    state = driver.cuLinkCreate(len(names), names, [log, len(log)])
    try:
        data = text.encode() + b"\0"
        try:
            driver.cuLinkAddData(
                state, api.CUjitInputType.CU_JIT_INPUT_PTX, data, len(data), b"kernel.ptx",
                0, [], [],
            )  # fmt: skip
            address, size = driver.cuLinkComplete(state)
        except CudaError as error:
            said = bytes(log).split(b"\0")[0].decode(errors="replace").strip()
            raise CudaError(error.call, error.code, said or error.text) from error
        return ctypes.string_at(address, size)
    finally:
        driver.cuLinkDestroy(state)


def _assembled(
    driver: Driver, kernel: Kernel, module: PtxModule, key: str, cache: CompileCache
) -> bytes:
    try:
        return assemble(driver, module.text)
    except CudaError as error:
        if error.is_sticky or error.is_out_of_memory:
            raise
        if error.code == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
            version = _VERSION.search(module.text)
            raise DeviceError(
                f"kernel {kernel.name} ({kernel.location}) needs PTX "
                f"{version.group(1) if version else 'of a later version'}, which the NVIDIA driver "
                f"(CUDA {version_text(driver.cuDriverGetVersion())}) does not know; update it"
            ) from error
        if error.code == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND":
            raise DeviceError(
                "the NVIDIA driver has no PTX compiler (libnvidia-ptxjitcompiler); install the "
                "whole driver"
            ) from error
        place = cache.keep_text(f"{kernel.name}-{key[:12]}.ptx", module.text)
        where = "" if place is None else f"; the PTX is in {place}"
        raise KernelError(
            f"kernel {kernel.name} ({kernel.location}): the assembler refuses the PTX: "
            f"{_explained(error.text, module)}{where}"
        ) from error


def _explained(log: str, module: PtxModule) -> str:
    """The first lines of the assembler's log, each with the Python line that it is about."""
    told = []
    for line in [line.strip() for line in log.splitlines() if line.strip()][:_LOG_LINES]:
        found = _LINE.search(line)
        source = module.source_of(int(found.group(1))) if found else None
        told.append(f"{line} ({source})" if source else line)
    return "; ".join(told)
