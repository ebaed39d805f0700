"""Elementwise kernels: a function of f32 applied to tensors of one shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from quod.kernel import (
    Builder,
    KernelDefinition,
    Location,
    Value,
    bf16,
    f16,
    f32,
    pointer,
    u32,
    u64,
)  # fmt: skip
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import ParameterType
from quod.tensor.accesses import Accesses
from quod.tensor.rows.plan import FlatPlan

TYPES = (f32, f16, bf16)
"""The element types; arithmetic is in f32."""

Function: TypeAlias = Callable[..., Sequence[Value]]
"""A function of the builder, the kernel's scalars and one element of each input tensor.

Returns one element of each output tensor, in their order.
"""


def flat_kernel(
    name: str, function: Function, numbers: str, read: Mapping[str, Type],
    stored: Mapping[str, Type], *, held: Mapping[str, int] | None = None,
) -> KernelDefinition:  # fmt: skip
    """Build the kernel that applies a function to each element.

    numbers: The names of the f32 scalars, separated by spaces.
    read, stored: The element types of inputs and outputs by name; a tensor may be in both.
    held: The lengths of f32 vectors in memory by name; their elements are further scalars.
    """
    memory, lengths = {**read, **stored}, [*(held or {}).values()]

    def body(k: Builder, count: Value, *operands: Value, plan: FlatPlan) -> None:
        scalar_count = len(numbers.split())
        first_pointer = scalar_count + len(lengths)
        scalars = [*operands[:scalar_count]]
        for f32_vector, length in zip(operands[scalar_count:first_pointer], lengths, strict=True):
            scalars += [f32_vector[index] for index in range(length)]
        pointers = dict(zip(memory, operands[first_pointer:], strict=True))
        size = plan.lanes * plan.batch
        base = k.workgroup_id() * (size * plan.steps)
        tensors = {name: _Tensor(k, pointers[name], plan.vector, base) for name in memory}

        def step(start: Value, *, full: bool) -> None:
            """Process the accesses of a step, which are all in range if `full`."""
            for access in range(plan.batch):
                index = start + (access * plan.lanes + k.local_id())
                read_index = index if full else k.minimum(base + index, count - 1) - base
                values = [tensors[name].load(read_index) for name in read]
                outputs = [function(k, *scalars, *inputs) for inputs in zip(*values, strict=True)]
                if full:
                    _store(tensors, stored, index, outputs)
                    continue
                with k.if_(base + index < count):
                    _store(tensors, stored, index, outputs)

        if plan.steps == 1:
            step(k.constant(0, u32), full=False)
            return
        steps = k.minimum((count - base) // size, plan.steps)
        with k.range(0, steps) as loop:
            step(loop.index * size, full=True)
        with k.if_(steps < plan.steps):
            step(steps * size, full=False)

    parameters: dict[str, ParameterType] = {"count": u32}
    for each in numbers.split():
        parameters[each] = f32
    for each in held or {}:
        parameters[each] = pointer(f32)
    for each, element in memory.items():
        parameters[each] = pointer(element)
    location = Location(function.__code__.co_filename, function.__code__.co_firstlineno)
    body.__doc__ = function.__doc__
    return KernelDefinition(name, body, parameters, location)


class _Tensor:
    """The slice of a tensor that a workgroup processes, indexed from its first access."""

    def __init__(self, k: Builder, memory: Value, vector: int, base: Value) -> None:
        kind: Any = memory.type
        assert isinstance(kind, PointerType)
        self._accesses = Accesses(k, kind.element, vector)
        self._pointer = self._accesses.of(memory, base.cast(u64))

    def load(self, at: Value) -> Sequence[Value]:
        return self._accesses.load(self._pointer, at)

    def store(self, at: Value, values: Sequence[Value]) -> None:
        self._accesses.store(self._pointer, at, values)


def _store(
    tensors: Mapping[str, _Tensor], stored: Mapping[str, Type], at: Value,
    outputs: Sequence[Sequence[Value]],
) -> None:  # fmt: skip
    for each, values in zip(stored, zip(*outputs, strict=True), strict=True):
        tensors[each].store(at, values)
