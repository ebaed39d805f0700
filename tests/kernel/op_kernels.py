"""A kernel for each op and operand types: it applies the op to arrays, element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quod.kernel import Builder, KernelDefinition, Location, Value, pointer
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.definition import OpDefinition
from quod.kernel.ops.scalar import OPS


def instances(definition: OpDefinition) -> Iterator[dict[str, Type]]:
    """Each choice of the types that the variables of a row stand for."""
    if not definition.variables:
        yield {}
        return
    assert len(definition.variables) == 1
    ((name, choices),) = definition.variables.items()
    for choice in choices:
        yield {name: choice}


def resolve(names: tuple[str, ...], bound: dict[str, Type]) -> list[Type]:
    return [bound[name] if name in bound else types.parse_type(name) for name in names]


def elementwise(
    name: str,
    operand_types: list[Type],
    result_types: list[Type],
    compute: Callable[[Builder, list[Value]], list[Value]],
) -> KernelDefinition:
    """out0[i], out1[i], ... = compute(in0[i], in1[i], ...)."""
    parameters = {f"in{n}": pointer(type_) for n, type_ in enumerate(operand_types)}
    parameters |= {f"out{n}": pointer(type_) for n, type_ in enumerate(result_types)}

    def body(k: Builder, *arguments: Value) -> None:
        i = k.global_id()
        operands = [source[i] for source in arguments[: len(operand_types)]]
        results = compute(k, operands)
        for target, result in zip(arguments[len(operand_types) :], results, strict=True):
            target[i] = result

    code: Any = body.__code__
    return KernelDefinition(name, body, parameters, Location(code.co_filename, 1))


@dataclass(frozen=True)
class OpCase:
    """One op with types for its variables."""

    name: str
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    word: Type
    """The type that carries of the op are kept in: a carry is a number that is 0 or 1."""

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join(type_.name for type_ in self.operand_types)}"

    def stored(self, kinds: tuple[Type, ...]) -> list[Type]:
        """The element types of the arrays of operands or results."""
        return [self.word if type_ is types.cc else type_ for type_ in kinds]

    def apply(self, k: Builder, operands: list[Value]) -> list[Value]:
        if types.cc in self.operand_types:
            ones = k.constant((1 << self.word.bits) - 1, self.word)
            operands = [*operands[:-1], k.emit_many("add_cc", (operands[-1], ones))[1]]
        results = list(k.emit_many(self.name, operands))
        if types.cc in self.result_types:
            zero = k.constant(0, self.word)
            results[-1] = k.emit("addc", (zero, zero, results[-1]))
        return results


def _cases() -> Iterator[OpCase]:
    for name, definition in OPS.items():
        if definition.evaluate is None or definition.capability is not None:
            continue
        for bound in instances(definition):
            yield OpCase(
                name,
                tuple(resolve(definition.operands, bound)),
                tuple(resolve(definition.results, bound)),
                bound.get("T", types.u32),
            )


OP_CASES = list(_cases())
"""Every op that computes values from values alone on every machine, with each of its types."""


def op_kernel(cases: list[OpCase]) -> KernelDefinition:
    """The kernel that applies ops of the same operand types, one after the other."""

    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [result for case in cases for result in case.apply(k, operands)]

    results = [type_ for case in cases for type_ in case.stored(case.result_types)]
    return elementwise("test_ops", cases[0].stored(cases[0].operand_types), results, compute)
