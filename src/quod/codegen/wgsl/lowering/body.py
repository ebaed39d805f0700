"""The state shared by the lowering rules: the lowered kernel and the lowered form of values."""

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
class LoweredPointer:
    """A lowered pointer: an array (a parameter or declared) and an offset into it.

    The offset counts elements, or 32-bit words if elements have at least 32 bits.
    """

    array: Value
    offset: Value
    element: Type

    @property
    def unit(self) -> int:
        """The bytes of a unit of the offset: an element, or a word if that is smaller."""
        return min(self.element.bytes, WORD_BYTES)


Lowered = Value | Wide | LoweredPointer


def begins(lowered: Lowered) -> bool:
    """Return whether a value is a pointer to the start of an array, passed without an offset."""
    return isinstance(lowered, LoweredPointer) and lowered.offset.constant == 0


class Lowering:
    """The state of lowering one kernel by a table of rules."""

    def __init__(self, kernel: Kernel, machine: Machine, rules: Mapping[str, Rule]) -> None:
        self.source = kernel
        self.machine = machine
        self.rules = rules
        self.k = Builder(machine)
        """The builder of the lowered kernel."""
        self.tracer = tracer_of(self.k)
        self.wide = WideArithmetic(self.k, native=machine.has(Capability.U64))
        self.values: dict[Value, Lowered] = {}
        self.functions: dict[Hashable, Function] = {}
        """The lowered functions, by the original one and the arrays passed to it."""
        self.roots: dict[Value, Value] = {}
        """The kernel's array behind each array parameter of a function."""
        self.plain: dict[int, bool] = {}
        """Cached by function id: True if WGSL can express the function without lowering."""
        self.exchanging: dict[int, bool] = {}
        """Cached by function id: True if the function exchanges values through shared memory."""
        self.atomic: set[Value] = set()
        self.exchange: Value | None = None
        """Shared memory for values of emulated subgroups, one word per instance."""
        self.votes: Value | None = None
        """Shared memory for ballots of emulated subgroups, one word per subgroup."""

    # --- regions

    def block(self, block: Block) -> list[Value]:
        """Lower the ops of a region except its yield; return the parts of its yielded values."""
        for op in block.ops:
            if op.name == "yield":
                return self.flat(op.operands)
            self.tracer.location = op.location
            self._op(op)
        return []

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """Flatten values to their lowered parts; a pointer becomes its offset."""
        flat: list[Value] = []
        for value in values:
            lowered = self.values[value]
            if isinstance(lowered, LoweredPointer):
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
        """Bind values to their lowered parts; pointers refer to the arrays of those in `like`."""
        start = 0
        for value, model in zip(values, like, strict=True):
            count = len(self._part_types(value))
            value_parts = parts[start : start + count]
            start += count
            if isinstance(value.type, PointerType):
                assert isinstance(model, LoweredPointer)
                self.values[value] = LoweredPointer(model.array, value_parts[0], model.element)
            else:
                self.values[value] = self.wide.joined(value.type, value_parts)

    def lowered(self, values: Sequence[Value]) -> list[Lowered]:
        """Return the lowered forms of values."""
        return [self.values[value] for value in values]

    def check_same_arrays(self, a: Sequence[Lowered | None], b: Sequence[Lowered], op: Op) -> None:
        """Raise KernelError unless corresponding pointers refer to the same arrays."""
        for pointer, other in zip(a, b, strict=True):
            if isinstance(pointer, LoweredPointer) and isinstance(other, LoweredPointer):
                if pointer.array is not other.array or pointer.unit != other.unit:
                    raise KernelError(
                        f"{op.location}: a pointer that may be in one of two arrays, which WGSL "
                        "cannot express; branch around the accesses instead"
                    )

    def types_of(self, values: Sequence[Value]) -> list[Type]:
        """Return the types of the parts of values."""
        return [type_ for value in values for type_ in self._part_types(value)]

    # --- single ops

    def value(self, value: Value) -> Value:
        """Return the lowered form of a value that is neither wide nor a pointer."""
        lowered = self.values[value]
        assert isinstance(lowered, Value)
        return lowered

    def pointer(self, value: Value) -> LoweredPointer:
        """Return the lowered form of a pointer."""
        lowered = self.values[value]
        assert isinstance(lowered, LoweredPointer)
        return lowered

    def zero(self) -> Value:
        return self.k.constant(0, types.u32)

    def root(self, array: Value) -> Value:
        """Return the kernel's array behind a function's array parameter."""
        return self.roots.get(array, array)

    def record_atomic(self, pointer: LoweredPointer) -> None:
        """Record that an array is changed atomically."""
        self.atomic.add(self.root(pointer.array))

    def _op(self, op: Op) -> None:
        rule = self.rules.get(op.name)
        if rule is not None:
            rule(self, op)
        else:
            results = compute(self.wide, op, self.lowered(op.operands))
            self.values.update(zip(op.results, results, strict=True))


Rule = Callable[[Lowering, Op], None]
"""The lowering of one op."""
