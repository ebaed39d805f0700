"""What the rules of lowering share: the new kernel, and what stands in it for each value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from quod.codegen.int64.arithmetic import WideArithmetic
from quod.codegen.int64.forms import Wide
from quod.codegen.int64.rules import compute
from quod.errors import KernelError
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder, tracer_of
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Function, Kernel, Op
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability, Machine

WORD_BYTES = 4
WORD_BITS = 32


@frozen(eq=False)
class Place:
    """A pointer: the array it points into, a parameter or one declared, and an offset in it.

    The offset counts elements, or 32-bit words where elements are as wide or wider.
    """

    array: Value
    offset: Value
    element: Type

    @property
    def unit(self) -> int:
        return min(self.element.bytes, WORD_BYTES)


Lowered = Value | Wide | Place


def begins(lowered: Lowered) -> bool:
    """Whether it is a pointer to the begin of an array: functions know its offset, zero."""
    return isinstance(lowered, Place) and lowered.offset.constant == 0


class Lowering:
    """One kernel that is being lowered, by the rules that it is given."""

    def __init__(self, kernel: Kernel, machine: Machine, rules: Mapping[str, Rule]) -> None:
        self.source = kernel
        self.machine = machine
        self.rules = rules
        self.k = Builder(machine)
        """What the new kernel is written to."""
        self.tracer = tracer_of(self.k)
        self.wide = WideArithmetic(self.k, native=machine.has(Capability.U64))
        self.values: dict[Value, Lowered] = {}
        self.functions: dict[Hashable, Function] = {}
        """The lowered functions, by the old one and the arrays that it is given."""
        self.roots: dict[Value, Value] = {}
        """The kernel's own arrays that the parameters of functions are."""
        self.plain: dict[int, bool] = {}
        """Whether WGSL can say a function as it is, where that is known."""
        self.exchanging: dict[int, bool] = {}
        """Whether a function exchanges values through shared memory, where that is known."""
        self.atomic: set[Value] = set()
        self.exchange: Value | None = None
        """Shared memory for values of emulated subgroups, a word an instance."""
        self.votes: Value | None = None
        """Shared memory for ballots of emulated subgroups, a word a subgroup."""

    # --- regions

    def block(self, block: Block) -> list[Value]:
        """Lowers the ops of a region but its yield; gives the parts of what it yields."""
        for op in block.ops:
            if op.name == "yield":
                return self.flat(op.operands)
            self.tracer.location = op.location
            self._op(op)
        return []

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """The values that stand for some, of places their offsets."""
        flat: list[Value] = []
        for value in values:
            lowered = self.values[value]
            if isinstance(lowered, Place):
                flat.append(lowered.offset)
            else:
                flat += self.wide.parts(lowered)
        return flat

    def _part_types(self, value: Value) -> list[Type]:
        if isinstance(value.type, PointerType):
            return [types.u32]
        return self.wide.part_types(value.type)

    def bind(
        self, values: Sequence[Value], parts: Sequence[Value], like: Sequence[Lowered | None]
    ) -> None:
        """Lets values stand for parts; places are in the arrays of those that they are `like`."""
        at = 0
        for value, model in zip(values, like, strict=True):
            count = len(self._part_types(value))
            own = parts[at : at + count]
            at += count
            if isinstance(value.type, PointerType):
                assert isinstance(model, Place)
                self.values[value] = Place(model.array, own[0], model.element)
            else:
                self.values[value] = self.wide.joined(value.type, own)

    def lowered(self, values: Sequence[Value]) -> list[Lowered]:
        """What stands for each of some values."""
        return [self.values[value] for value in values]

    def check_same_arrays(self, a: Sequence[Lowered | None], b: Sequence[Lowered], op: Op) -> None:
        """KernelError unless the pointers of both are in the same arrays."""
        for one, other in zip(a, b, strict=True):
            if isinstance(one, Place) and isinstance(other, Place):
                if one.array is not other.array or one.unit != other.unit:
                    raise KernelError(
                        f"{op.location}: a pointer that may be in one of two arrays, which WGSL "
                        "cannot express; branch around the accesses instead"
                    )

    def types_of(self, values: Sequence[Value]) -> list[Type]:
        """The types of the parts of some values."""
        return [type_ for value in values for type_ in self._part_types(value)]

    # --- single ops

    def value(self, value: Value) -> Value:
        """What stands for a value that is neither wide nor a pointer."""
        lowered = self.values[value]
        assert isinstance(lowered, Value)
        return lowered

    def place(self, value: Value) -> Place:
        """Where a pointer points."""
        lowered = self.values[value]
        assert isinstance(lowered, Place)
        return lowered

    def zero(self) -> Value:
        return self.k.constant(0, types.u32)

    def root(self, array: Value) -> Value:
        """The kernel's own array that a function's parameter is."""
        return self.roots.get(array, array)

    def record_atomic(self, place: Place) -> None:
        """Notes that an array is changed atomically."""
        self.atomic.add(self.root(place.array))

    def _op(self, op: Op) -> None:
        rule = self.rules.get(op.name)
        if rule is not None:
            rule(self, op)
        else:
            results = compute(self.wide, op, self.lowered(op.operands))
            self.values.update(zip(op.results, results, strict=True))


Rule = Callable[[Lowering, Op], None]
"""Lowers one op."""
