"""A device for recordings that are exported to run elsewhere, such as in a browser.

Kernels are traced for portable WGSL, and recordings keep to its limits; recordings do not run here.
Memory is host memory. Direct launches, which prepare data for recordings, run on the CPU. So there
are two kinds of memory: *constants*, which have data before a recording runs, and scratch memory,
which has none. Constants that some kernels compute from less data are computed again where the
recording runs (`replayed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quod.codegen.wgsl.machine import DEFAULT_LIMBS, WgslTarget
from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice, EmulatedKernel
from quod.device.emulated.memory import whole_allocation
from quod.device.memory.budget import byte_count, check_reach
from quod.device.memory.buffer import Array, Buffer
from quod.device.runtime.arguments import Argument
from quod.device.runtime.recording import Memory
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir.nodes import Kernel, Op, walk
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray
    from quod.device.protocol import RecordingDevice

DEFAULT_RESIDENT_LANES = 1 << 14
"""A number of instances that fills integrated GPUs; browsers do not reveal the GPU."""

DEFAULT_MEMORY_BUDGET = 1 << 30


@frozen(eq=False)
class DirectLaunch:
    """A launch outside recordings: a kernel, its workgroups and its arguments."""

    kernel: EmulatedKernel
    groups: int
    arguments: tuple[Argument, ...]


class ExportDevice(EmulatedDevice):
    """Records few kernels for portable WGSL.

    limbs: the representation of elements; see `kernel.Machine`.
    resident_lanes, memory_budget: assumed by plans. The rest is as in `EmulatedDevice`.
    replayed: kernels whose direct launches are exported in place of the memory that they compute.
        Their launches must write all of it, and must not read it.
    setup: the direct launches of these kernels, in order.
    """

    kind = "export"

    def __init__(
        self,
        *,
        limbs: str = DEFAULT_LIMBS,
        resident_lanes: int = DEFAULT_RESIDENT_LANES,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        processor: CpuDevice | None = None,
        replayed: Iterable[KernelDefinition] = (),
    ) -> None:
        super().__init__(
            executor="wgsl", resident_lanes=resident_lanes, memory_budget=memory_budget,
            target=WgslTarget(limbs=limbs, few_kernels=True),
        )  # fmt: skip
        self.name = "export"
        self._processor = processor or CpuDevice()
        self._definitions: dict[EmulatedKernel, KernelDefinition] = {}
        self._constants: set[int] = set()
        self._replayed = frozenset(replayed)
        self.setup: list[DirectLaunch] = []

    def compile(
        self, definition: KernelDefinition, *, lanes: int | None = None, **static: Any
    ) -> EmulatedKernel:
        """Return the kernel traced for WGSL; raises KernelError if it is invalid."""
        compiled = super().compile(definition, lanes=lanes, **static)
        self._definitions[compiled] = definition
        return compiled

    def definition_of(self, compiled: EmulatedKernel) -> KernelDefinition:
        """Return the definition of a kernel of this device."""
        return self._definitions[compiled]

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        """Allocate zeroed memory; it is exported as a constant if `zero` is set."""
        check_reach("a buffer", byte_count(nbytes), 2 * self.largest_buffer)
        buffer = self.memory.allocate(nbytes, zero=True)
        if zero:
            self._remember(buffer)
        return buffer

    def is_constant(self, buffer: Buffer) -> bool:
        """Return whether the buffer's allocation had data before a recording ran."""
        return whole_allocation(buffer).address in self._constants

    def whole_allocation(self, buffer: Buffer) -> Buffer:
        """Return the whole allocation that contains a buffer."""
        return whole_allocation(buffer)

    def upload(self, array: Array | ForeignArray, *, into: Buffer | None = None) -> Buffer:
        """Copy host data to a buffer, whose memory is then exported as a constant."""
        buffer = super().upload(array, into=into)
        self._remember(buffer)
        return buffer

    def execute(
        self, kernel: EmulatedKernel, groups: int, arguments: Iterable[Argument],
        waiting: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Run a launch on the CPU, with the kernel's workgroup size in WGSL if it matters."""
        if waiting is not None:
            waiting()
        definition, processor = self.definition_of(kernel), self._processor
        lanes, arguments = kernel.lanes, tuple(arguments)
        is_replayed = definition in self._replayed
        if is_replayed:
            self.setup.append(DirectLaunch(kernel, groups, arguments))
        if kernel.lanes % processor.lanes == 0 and counts_instances(kernel.traced):
            # Use the CPU's vector lanes, as the kernel does not depend on the workgroup size.
            groups, lanes = groups * (kernel.lanes // processor.lanes), processor.lanes
        compiled = processor.compile(definition, lanes=lanes, **kernel.static)
        host_arguments: list[Argument] = []
        for index, argument in enumerate(arguments):
            if not isinstance(argument, Buffer):
                host_arguments.append(argument)
                continue
            check_reach(f"an argument of {kernel.name}", argument.nbytes, self.largest_buffer)
            host_arguments.append(Buffer.wrap(self.bytes_of(argument)))
            if index in kernel.stored and is_replayed:
                self._constants.discard(whole_allocation(argument).address)
            elif index in kernel.stored:
                self._remember(argument)
        processor.launch_adopted(compiled, groups, tuple(host_arguments))

    def wrote(self, target: Memory) -> None:
        """Remember that the target of a copy or fill has data."""
        if isinstance(target, Buffer) and target.space is self.space:
            self._remember(target)

    def _remember(self, buffer: Buffer) -> None:
        if buffer.nbytes:
            self._constants.add(whole_allocation(buffer).address)


def counts_instances(kernel: Kernel) -> bool:
    """Return whether an instance's index in the grid is all that depends on workgroups.

    The index is `workgroup_id * workgroup_size + local_id`: one sum, and products by that size.
    """
    blocks = (kernel.block, *(function.block for function in kernel.functions))
    ops = [op for block in blocks for op in walk(block)]
    if any(
        op.definition.requires_uniformity
        or op.definition.declares == "shared"
        or op.name == "num_workgroups"
        for op in ops
    ):
        return False
    users: dict[Value, list[Op]] = {}
    for op in ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)

    def using(sources: list[Op]) -> list[Op]:
        return [user for source in sources for user in users.get(source.results[0], [])]

    sums = using([op for op in ops if op.name == "local_id"])
    products = using([op for op in ops if op.name == "workgroup_id"])
    return (
        len(sums) <= 1
        and all(op.name == "mul" and _multiplies_by(op, kernel.workgroup_size) for op in products)
        and all(op.name == "add" for op in sums)
        and sums == using(products)
    )


def _multiplies_by(op: Op, factor: int) -> bool:
    return any(operand.constant == factor for operand in op.operands)


if TYPE_CHECKING:
    _: RecordingDevice = ExportDevice()
