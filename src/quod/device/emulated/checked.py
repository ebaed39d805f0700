"""The CPU as a device that checks every operation of kernels: slow, for debugging.

Kernels are traced for this CPU as usual, and run by the interpreter, which defines the meaning of a
kernel and raises an error for undefined behaviour: accesses that are out of bounds or unaligned,
reads of uninitialised shared memory, races in it, and barriers that not every instance reaches. A
compiled kernel would do any of these silently. An error names a line of the kernel, even if code of
a field or curve that it calls makes the access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quod.device.cpu.device import CpuDevice
from quod.device.emulated.interpreted import InterpretedKernel
from quod.device.memory.buffer import host_bytes
from quod.device.runtime.arguments import Argument, Slots
from quod.device.runtime.kernel_table import KernelTable, lanes_of
from quod.frozen import replace
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Capability, Machine

if TYPE_CHECKING:
    from quod.device.cpu.compiler import SizeClass
    from quod.device.runtime.cancellation import Cancellation
    from quod.device.runtime.kernel_table import CompiledKernel


class CheckedCpuDevice(CpuDevice):
    """Interprets the kernels that `CpuDevice` would compile; memory and results are the same.

    Its arguments are those of `CpuDevice`; one thread computes at a time.
    """

    name = "cpu:checked"
    kernel_type: type = InterpretedKernel

    def __init__(
        self, *, strategy: str | None = None, threads: int | None = None,
        memory_budget: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(strategy=strategy, threads=threads, memory_budget=memory_budget)
        self._checked: KernelTable[InterpretedKernel] = KernelTable()

    def machine(self, lanes: int) -> Machine:
        """Return the machine for tracing kernels with prints and assertions.

        lanes: the number of instances of a workgroup.
        """
        cpu_machine = super().machine(lanes)
        return replace(cpu_machine, features=cpu_machine.features | {Capability.CHECKS})

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Any:
        """Return the kernel for the interpreter, traced on the first call with these parameters.

        Raises KernelError if the kernel is invalid.
        """
        workgroup_size = lanes_of(definition, lanes, self.lanes)

        def build() -> InterpretedKernel:
            machine = self.machine(workgroup_size)
            traced = definition.trace_to_user_lines(machine, static)
            return InterpretedKernel(definition, traced, machine, static)

        return self._checked.get(definition, workgroup_size, static, build)

    def _run(
        self, kernel: CompiledKernel, groups: int, slots: Slots, arguments: tuple[Argument, ...],
        cancellation: Cancellation | None, size: SizeClass | None,
    ) -> None:  # fmt: skip
        assert isinstance(kernel, InterpretedKernel)
        kernel.run(groups, kernel.arrays(arguments, host_bytes))
