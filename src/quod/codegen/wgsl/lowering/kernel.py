"""Lowering of a traced kernel to one that WGSL can express."""

from __future__ import annotations

from collections.abc import Mapping

from quod.codegen.wgsl.lowering import control, functions, memory, subgroups
from quod.codegen.wgsl.lowering.body import LoweredPointer, Lowering
from quod.codegen.wgsl.lowering.subgroups import declare_shuffle_memory
from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.passes import eliminate_dead_code
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

RULES = control.RULES | functions.RULES | memory.RULES | subgroups.RULES
"""The lowering rules of ops with control flow, calls, memory or other lanes."""


@frozen(eq=False)
class LoweredKernel:
    """A lowered kernel.

    kernel: the IR; each original parameter is one parameter, or two for a u64 in halves.
    atomic: the arrays that are changed atomically: parameters and shared arrays.
    roots: the kernel's array behind each array parameter of a function.
    """

    kernel: Kernel
    atomic: frozenset[Value]
    roots: Mapping[Value, Value]

    def root(self, array: Value) -> Value:
        """Return the kernel's array behind a function's array parameter."""
        return self.roots.get(array, array)


def lower(kernel: Kernel, machine: Machine) -> LoweredKernel:
    """Lower a traced kernel; KernelError for features that WGSL cannot express."""
    lowering = Lowering(kernel, machine, RULES)
    k, tracer, source = lowering.k, lowering.tracer, lowering.source
    tracer.location = source.location
    arguments: list[Value] = []
    names: list[str] = []
    for name, argument in zip(source.parameters, source.block.arguments, strict=True):
        type_ = argument.type
        if isinstance(type_, PointerType):
            array = Value(types.pointer(types.u32, type_.space), k)
            arguments.append(array)
            names.append(name)
            lowering.values[argument] = LoweredPointer(
                array, k.constant(0, types.u32), type_.element
            )
        else:
            parts = [Value(part, k) for part in lowering.wide.part_types(type_)]
            arguments += parts
            names += [name] if len(parts) == 1 else [f"{name}_low", f"{name}_high"]
            lowering.values[argument] = lowering.wide.joined(type_, parts)
    tracer.block.arguments = tuple(arguments)
    declare_shuffle_memory(lowering)
    lowering.block(source.block)
    tracer.close_region((), source.location)
    lowered = Kernel(
        source.name, tuple(names), tracer.block, source.workgroup_size, tracer.functions,
        source.location, tracer.shared_bytes, source.subgroup_size, source.resident,
    )  # fmt: skip
    eliminate_dead_code(lowered)
    return LoweredKernel(lowered, frozenset(lowering.atomic), lowering.roots)
