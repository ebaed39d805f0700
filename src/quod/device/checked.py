"""The processor as a device that checks what kernels do: slow, for finding mistakes.

Kernels are traced for this processor as ever, and run by the interpreter, which defines what a
kernel means and refuses what it leaves undefined: accesses outside a buffer or not aligned, shared
memory that was not set, races in it, barriers that not every instance reaches. The compiled kernel
would do any of these without a word. An error names the line of the kernel's author, also where a
field or a curve does the access.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quod.device import cancellation
from quod.device.arguments import Argument, Signature, Slots
from quod.device.buffer import Buffer
from quod.device.cpu import CpuDevice
from quod.device.cpu_stream import CpuSubmission
from quod.device.emulated import groups_at_once
from quod.device.kernel_table import KernelTable
from quod.device.recording import Launch
from quod.errors import DeviceError
from quod.kernel.definition import KernelDefinition
from quod.kernel.interpreter import interpret
from quod.kernel.ir import Kernel
from quod.kernel.machine import Machine
from quod.kernel.semantics import NUMPY_TYPES
from quod.kernel.types import PointerType
from quod.target.pointers import pointer_uses

if TYPE_CHECKING:
    from quod.device.recording import Recording
    from quod.device.timeline import Stage, Timeline


class CheckedKernel:
    """A kernel as it was traced, for the interpreter."""

    def __init__(
        self, definition: KernelDefinition, traced: Kernel, machine: Machine,
        static: Mapping[str, Any],
    ) -> None:  # fmt: skip
        uses = pointer_uses(traced)
        self.name = definition.name
        self.parameters = definition.parameters
        self.lanes = machine.workgroup_size
        self.static = dict(static)
        self.stored = frozenset(uses.stored)
        self.traced = traced
        self._groups_at_once = groups_at_once(traced)
        self._signature = Signature(self.name, self.parameters, uses)

    def pack(self, arguments: tuple[Argument, ...]) -> Slots:
        """Checks the arguments of a launch; DeviceError for one that does not fit."""
        return self._signature.pack(arguments)

    def run(self, groups: int, arguments: tuple[Argument, ...]) -> None:
        """Interprets so many workgroups; InterpreterError for what is undefined."""
        given: list[Any] = []
        for type_, argument in zip(self.parameters.values(), arguments, strict=True):
            if isinstance(type_, PointerType):
                buffer = argument if isinstance(argument, Buffer) else Buffer.wrap(argument)  # type: ignore[arg-type]
                given.append(buffer.view(NUMPY_TYPES[type_.element]))
            else:
                given.append(argument)
        interpret(self.traced, groups, given, groups_at_once=self._groups_at_once)


class CheckedCpuDevice(CpuDevice):
    """Interprets what `CpuDevice` would compile, in the same memory and with the same results.

    It takes what `CpuDevice` takes; one thread computes at a time.
    """

    name = "cpu:checked"

    def __init__(
        self, *, strategy: str | None = None, threads: int | None = None,
        memory_budget: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(strategy=strategy, threads=threads, memory_budget=memory_budget)
        self._checked: KernelTable[CheckedKernel] = KernelTable()

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> Any:
        """The kernel, traced now or before, as a `CheckedKernel`; KernelError if it is wrong."""
        width = self.lanes if lanes is None else lanes

        def build() -> CheckedKernel:
            machine = self.machine(width)
            traced = definition.trace_to_user_lines(machine, static)
            return CheckedKernel(definition, traced, machine, static)

        return self._checked.get(definition, width, static, build)

    def execute(
        self, kernel: Any, groups: int, slots: Slots, arguments: tuple[Argument, ...]
    ) -> None:
        """A launch with its arguments checked; KernelError for what is undefined."""
        if not 0 <= groups < 1 << 32:
            raise DeviceError(
                f"kernel {kernel.name} was launched with {groups} workgroups; there may be 0 to "
                "2**32 - 1"
            )
        stop = cancellation.current()
        if stop is not None:
            stop.check(f"the launch of {kernel.name}")
        kernel.run(groups, arguments)

    def submit(
        self, recording: Recording, name: str, *, timeline: Timeline | None, parent: Stage | None
    ) -> CpuSubmission:
        """Begins to run recorded work on a thread of its own; streams call it."""
        return CheckedSubmission(self, recording, name, timeline, parent)


class CheckedSubmission(CpuSubmission):
    """One run of a recording."""

    def _launch(self, step: Launch) -> None:
        self._device.execute(step.kernel, step.groups, step.packed, step.arguments)  # type: ignore[arg-type]
