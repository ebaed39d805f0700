"""The CPU as a device: a workgroup is a vector, workgroups are spread over threads."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from quod.device import host, llvm_jit, sources
from quod.device.buffer import Buffer
from quod.device.cache import CompileCache, key_of
from quod.errors import DeviceError
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine
from quod.kernel.types import PointerType, Type
from quod.target import llvm

STRATEGIES = ("ifma", "scalar")
"""How field elements are held."""

Argument = Buffer | np.ndarray[Any, Any] | int | float | bool

_SLOT_TYPES: dict[str, type[Any]] = {
    "bool": ctypes.c_uint64, "u32": ctypes.c_uint64, "u64": ctypes.c_uint64,
    "i32": ctypes.c_int64, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double,
}  # fmt: skip

# Shared memory is a worker's stack, of which Linux gives a thread 8 MiB.
_SHARED_BYTES = 4 << 20


class CpuKernel:
    """A kernel compiled for this processor."""

    def __init__(self, name: str, parameters: dict[str, Type], code: llvm_jit.LoadedCode) -> None:
        self.name = name
        self.parameters = parameters
        self._code = code
        self.entry = code.entry

    def pack(self, arguments: Sequence[Argument]) -> ctypes.Array[ctypes.c_uint64]:
        """The argument slots: addresses of buffers, values of scalars."""
        if len(arguments) != len(self.parameters):
            raise DeviceError(
                f"kernel {self.name} takes {len(self.parameters)} arguments, not {len(arguments)}"
            )
        slots = (ctypes.c_uint64 * max(1, len(arguments)))()
        pairs = zip(self.parameters.items(), arguments, strict=True)
        for index, ((name, type_), argument) in enumerate(pairs):
            if isinstance(type_, PointerType):
                if isinstance(argument, Buffer):
                    slots[index] = argument.address
                elif isinstance(argument, np.ndarray):
                    slots[index] = argument.ctypes.data
                else:
                    raise DeviceError(f"argument {name} of kernel {self.name} must be a buffer")
            elif isinstance(argument, (Buffer, np.ndarray)):
                raise DeviceError(f"argument {name} of kernel {self.name} must be a number")
            else:
                slot = _SLOT_TYPES[type_.name].from_address(
                    ctypes.addressof(slots) + 8 * index
                )  # fmt: skip
                slot.value = argument
        return slots


class CpuDevice:
    """Runs kernels on this machine's processor.

    `strategy` chooses how field elements are held: ``ifma`` (eight lanes of 52-bit limbs, AVX-512
    IFMA) or ``scalar`` (one lane of 64-bit limbs). By default it is what the processor has.
    """

    kind = "cpu"

    def __init__(
        self,
        *,
        strategy: str | None = None,
        threads: int | None = None,
        cache: CompileCache | None = None,
    ) -> None:
        processor = llvm_jit.host_processor()
        if strategy is None:
            strategy = "ifma" if processor.has_ifma else "scalar"
        if strategy not in STRATEGIES:
            raise DeviceError(f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
        if strategy == "ifma" and not processor.has_ifma:
            raise DeviceError("this processor has no AVX-512 IFMA; use the strategy 'scalar'")
        if threads is not None and threads < 1:
            raise DeviceError(f"a device computes with at least one thread, not {threads}")
        self.strategy = strategy
        self.threads = threads or host.usable_threads()
        self.name = "cpu"
        self._cache = cache or CompileCache()
        self._kernels: dict[Hashable, CpuKernel] = {}
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def lanes(self) -> int:
        """Instances a workgroup of kernels that compute in field elements."""
        return 8 if self.strategy == "ifma" else 1

    def machine(self, lanes: int) -> Machine:
        """What kernels of so many lanes are traced for."""
        features = {"u64"}
        if lanes == 8 and self.strategy == "ifma":
            features.add("ifma52")
        if lanes == 1:
            features.add("carry")
        return Machine("llvm", lanes, frozenset(features), shared_bytes_limit=_SHARED_BYTES)

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> CpuKernel:
        """The kernel for this processor, from memory, from disk, or compiled now."""
        lanes = self.lanes if lanes is None else lanes
        key = (definition, lanes, tuple(sorted(static.items())))
        with self._lock:
            if key not in self._kernels:
                self._kernels[key] = self._build(definition, lanes, static)
            return self._kernels[key]

    def _build(self, definition: KernelDefinition, lanes: int, static: dict[str, Any]) -> CpuKernel:
        machine = self.machine(lanes)
        trace_key = self._trace_key(definition, machine, static)
        code = None
        if trace_key is not None:
            pointer = self._cache.get(trace_key)
            code = None if pointer is None else self._cache.get(pointer.decode())
        if code is None:
            text = llvm.emit(definition.trace(machine, **static), machine)
            text_key = key_of("llvm text", text, llvm_jit.toolchain())
            code = self._cache.get(text_key)
            if code is None:
                code = llvm_jit.compile_to_object(text)
                self._cache.put(text_key, code)
            if trace_key is not None:
                self._cache.put(trace_key, text_key.encode())
        loaded = llvm_jit.LoadedCode(code, definition.name)
        return CpuKernel(definition.name, definition.parameters, loaded)

    @staticmethod
    def _trace_key(
        definition: KernelDefinition, machine: Machine, static: dict[str, Any]
    ) -> str | None:
        """A key that stands for the emitted text without tracing: for Quod's own kernels only."""
        if not sources.is_own(Path(definition.location.file)):
            return None
        options = ", ".join(f"{name}={value!r}" for name, value in sorted(static.items()))
        described = f"{machine.target} {machine.workgroup_size} {sorted(machine.features)}"
        place = f"{Path(definition.location.file).name} {definition.name}"
        return key_of(
            "trace", sources.digest(), place, options, described, llvm_jit.toolchain()
        )  # fmt: skip

    # --- memory

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed memory."""
        return Buffer.zeros(nbytes)

    def upload(self, array: np.ndarray[Any, Any]) -> Buffer:
        """Host data as a buffer; on the CPU the same memory, which must not change meanwhile."""
        return Buffer.wrap(array)

    # --- execution

    def launch(self, kernel: CpuKernel, groups: int, *arguments: Argument) -> None:
        """Runs `groups` workgroups and waits for them."""
        if groups <= 0:
            return
        slots = kernel.pack(arguments)
        workers = min(self.threads, groups)
        counter = ctypes.c_int64(0)
        chunk = max(1, groups // (16 * workers)) if workers > 1 else groups
        run = functools.partial(
            kernel.entry, ctypes.addressof(slots), ctypes.addressof(counter), groups, chunk
        )
        if workers == 1:
            run()
            return
        futures: list[Future[None]] = [self._workers().submit(run) for _ in range(workers - 1)]
        try:
            run()
        finally:
            # Also after an interrupt: no worker may outlive the memory it works on.
            for future in futures:
                future.result()

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max(1, self.threads - 1), "quod-worker")
        return self._pool

    def close(self) -> None:
        """Ends the worker threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
