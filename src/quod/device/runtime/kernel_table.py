"""The table of a device's compiled kernels, each compiled once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping
from types import FunctionType
from typing import Any, Generic, Protocol, TypeVar

from quod.device.memory.buffer import Space
from quod.device.runtime.arguments import Argument
from quod.errors import KernelError
from quod.kernel.builder.structure import exact
from quod.kernel.compiled import Compiled
from quod.kernel.definition import KernelDefinition
from quod.validation import shown, whole_number

Kernel = TypeVar("Kernel")


class CompiledKernel(Compiled, Protocol):
    """A kernel compiled by a device, called with one argument for each of its `slots`.

    stored: indices of the slots that the kernel may store through.
    early: indices of the slots that the kernel accesses before it waits for earlier launches; None
        if it does not wait for them.
    static: arguments that were fixed when the kernel was traced.
    digest: identifies the text emitted for the kernel (see `compiled_code.text_digest`).
    space: memory that the kernel accesses.
    """

    @property
    def stored(self) -> frozenset[int]: ...
    @property
    def early(self) -> frozenset[int] | None: ...
    @property
    def static(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str: ...
    @property
    def space(self) -> Space: ...

    def pack(self, arguments: tuple[Argument, ...]) -> Any:
        """Pack the arguments for the device; raises DeviceError if one does not fit."""


def lanes_of(definition: KernelDefinition, requested: int | None, usual: int) -> int:
    """Return the workgroup size: the requested one, else the kernel's, else `usual`.

    Raises KernelError if `definition` is not a kernel or `requested` is not a positive integer.
    """
    candidate: object = definition
    if not isinstance(candidate, KernelDefinition):
        name = (
            candidate.__name__ if isinstance(candidate, (FunctionType, type)) else shown(candidate)
        )
        raise KernelError(f"{name} is not a kernel; write @kernel above its definition")
    if requested is not None:
        return whole_number(f"lanes of kernel {definition.name}", requested, 1, error=KernelError)
    return usual if definition.workgroup is None else definition.workgroup


class KernelTable(Generic[Kernel]):
    """Compiled kernels by definition, lanes and static arguments; for use from any thread."""

    def __init__(self) -> None:
        self._kernels: dict[Hashable, Kernel] = {}
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._building: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(
        self, definition: KernelDefinition, lanes: int, static: Mapping[str, Any],
        build: Callable[[], Kernel],
    ) -> Kernel:  # fmt: skip
        """Return the kernel, built once by the first caller.

        static: hashable keyword arguments with a `repr` that shows everything that distinguishes
        them.
        Raises TraceError if the kernel has changed since it was built, KernelError for a static
        argument that cannot be hashed.
        """
        key = _key(definition, lanes, static)
        try:
            kernel = self._kernels.get(key)
        except TypeError as error:
            raise KernelError(
                f"a static argument of kernel {definition.name} cannot be hashed ({error}); "
                "give numbers, strings, tuples or frozen dataclasses"
            ) from error
        if kernel is not None:
            definition.check_outside()
            return kernel
        if self._process != os.getpid():
            # A thread that was building a kernel when the process was forked does not exist here.
            self._start_anew()
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        # Requests for other kernels, or for built ones, do not wait for this build.
        with building:
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = build()
        with self._lock:
            self._building.pop(key, None)
        return kernel

    def holds(
        self, definition: KernelDefinition, lanes: int, static: Mapping[str, Any]
    ) -> bool:  # fmt: skip
        """Return whether `get` would return a kernel that was built before."""
        return _key(definition, lanes, static) in self._kernels

    def forget(self, kernel: Kernel) -> None:
        """Drop a kernel, so that the next request builds it again."""
        with self._lock:
            for key, cached in tuple(self._kernels.items()):
                if cached is kernel:
                    del self._kernels[key]


def _key(definition: KernelDefinition, lanes: int, static: Mapping[str, Any]) -> Hashable:
    arguments = ((name, exact(value)) for name, value in sorted(static.items()))
    return definition, lanes, tuple(arguments)
