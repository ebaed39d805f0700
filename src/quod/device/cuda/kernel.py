"""Kernels of a GPU: compiled in the background and loaded on first use."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import Any

from quod.codegen.ptx.machine import has_dependent_launch
from quod.device.cache.compiled_code import KernelFacts
from quod.device.cuda.driver import CudaError, Driver
from quod.device.memory.buffer import Space
from quod.device.protocol import KernelRepr
from quod.device.runtime.arguments import Argument, Signature, Slots
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine

ADDRESS_ALIGNMENT = 16
"""Alignment of kernel arguments in bytes, that of the widest load."""


class PackedArguments:
    """The arguments of a launch in the driver's form: an array of pointers to values.

    address: the address of the array, which lives as long as this object does.
    """

    __slots__ = ("_pointers", "_slots", "address")

    def __init__(self, slots: Slots) -> None:
        # The driver reads a value in its own width: the first bytes of its little-endian slot of
        # eight.
        start, count = ctypes.addressof(slots), len(slots)
        self._slots = slots
        self._pointers = (ctypes.c_void_p * count)(*range(start, start + 8 * count, 8))
        self.address = ctypes.addressof(self._pointers)


class LoadedCode:
    """A kernel's code in a GPU's memory: the driver's handles, and properties that it reports."""

    def __init__(self, driver: Driver, facts: KernelFacts, code: bytes) -> None:
        self.module = driver.cuModuleLoadData(code)
        try:
            self.function = driver.cuModuleGetFunction(self.module, facts.entry.encode())
            attributes = driver.api.CUfunction_attribute
            if facts.dynamic_shared_bytes:
                driver.cuFuncSetAttribute(
                    self.function, attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    facts.dynamic_shared_bytes,
                )  # fmt: skip
            get = driver.cuFuncGetAttribute
            self.registers = int(get(attributes.CU_FUNC_ATTRIBUTE_NUM_REGS, self.function))
            self.local_bytes = int(
                get(attributes.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, self.function)
            )
        except CudaError:
            driver.cuModuleUnload(self.module)
            raise


class CudaKernel(KernelRepr):
    """A kernel for one GPU, whose code may still be compiling.

    static: arguments that were fixed when the kernel was traced.
    The properties `function`, `registers` and `local_bytes` (per instance) wait for the code.
    """

    def __init__(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
        facts: KernelFacts, space: Space, loading: Callable[[CudaKernel], LoadedCode],
    ) -> None:  # fmt: skip
        self.name = definition.name
        self.location = definition.location
        self.parameters, self.slots = definition.parameters_for(static)
        self.lanes = machine.workgroup_size
        self.static = dict(static)
        self.stored = frozenset(facts.uses.stored)
        early = facts.uses.early
        if early is not None and has_dependent_launch(machine.arch):
            self.early = frozenset(early)
        self.shared_bytes = facts.shared_bytes
        self.dynamic_shared_bytes = facts.dynamic_shared_bytes
        self.digest = facts.digest
        self.space = space
        self.signature = Signature(
            self.name, self.slots, facts.uses, space=space, alignment=ADDRESS_ALIGNMENT
        )
        self._loading = loading
        self._lock = threading.Lock()
        self._loaded: LoadedCode | None = None

    def load(self) -> LoadedCode:
        """Load the code into GPU memory, once; raises KernelError if the driver refused it."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = self._loading(self)
        return self._loaded

    @property
    def function(self) -> Any:
        """The driver's handle."""
        return self.load().function

    @property
    def registers(self) -> int:
        return self.load().registers

    @property
    def local_bytes(self) -> int:
        return self.load().local_bytes

    def pack(self, arguments: tuple[Argument, ...]) -> PackedArguments:
        """Pack a launch's arguments; raises DeviceError for one that does not fit its parameter."""
        return PackedArguments(self.signature.pack(arguments))

    def __str__(self) -> str:
        return f"{self.name} ({self.location})"
