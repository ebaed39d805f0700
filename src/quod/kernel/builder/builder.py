"""The kernel language: the builder `k` that a kernel's Python function records its ops with."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from quod.kernel.builder.control import Branch, CountedLoop, WhileLoop, check_condition
from quod.kernel.builder.memory import check_type, check_value
from quod.kernel.builder.tracer import FunctionBody, Tracer
from quod.kernel.builder.values import ValueBuilder
from quod.kernel.errors import TraceError, an, current_location
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Location
from quod.kernel.ir.simplify import fold
from quod.kernel.ir.types import Space, Type
from quod.kernel.ir.value import Operand, Value
from quod.kernel.machine import Capability, Machine
from quod.kernel.ops.scalar import NUMPY_TYPES, OPS
from quod.kernel.ops.tile import REGISTER_COUNTS
from quod.names import nearest
from quod.validation import offers, whole_number

_BESIDE_ELEMENT = (
    ": an element goes with elements and integers; write field.load(pointer, index) for a number "
    "in memory, field.store(pointer, index, a) to put the element there"
)


def _converted(number: int | float | bool, type_: Type) -> int | float | bool:
    """Convert a number to the type; TraceError if it is out of range or not exact."""
    if type_ is types.bool_:
        if number not in (0, 1):
            raise TraceError(f"{number} is not a bool; compare with x != 0")
        return bool(number)
    if type_.is_integer:
        if isinstance(number, float):
            raise TraceError(f"{number} is not an integer; the value beside it is {type_}")
        low = -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
        high = 1 << (type_.bits - (type_.kind == "signed"))
        if not low <= number < high:
            raise TraceError(f"{number} does not fit {type_}")
        return int(number)
    try:
        with np.errstate(all="ignore"):
            rounded = float(NUMPY_TYPES[type_](number))
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded) and not (isinstance(number, float) and math.isinf(number)):
        raise TraceError(f"{number} does not fit {type_}")
    if isinstance(number, int) and rounded != number:
        raise TraceError(f"{number} is not exact in {type_}; write {float(number)!r} to round it")
    return rounded


def _not_emitted(name: object, operands: object) -> TraceError:
    """Return the error for an op that `emit` does not record."""
    if type(name) is not str or not isinstance(operands, (tuple, list)):
        return TraceError("emit takes the name of an op and a tuple of its operands")
    if name not in OPS:
        close = nearest(name, OPS)
        hint = f"did you mean {close}?" if close else "docs/kernel-ops.md lists them"
        return TraceError(f"there is no op {name}; {hint}")
    return TraceError(f"{name} has a method of its own on the builder; it is not emitted")


_DECLARING = {row.declares: name for name, row in OPS.items() if row.declares}
"""The op that declares an array, by memory space."""


class Builder(ValueBuilder):
    """The recorder of a kernel's ops, passed to its Python function as `k`."""

    def __init__(
        self, machine: Machine, *, locate: Callable[[], Location] = current_location
    ) -> None:
        """Start a trace.

        locate: returns the source line to which an op is attributed.
        """
        self.machine = machine
        self._tracer = Tracer(self, machine.workgroup_size, locate)

    # --- any op

    def emit(self, name: str, operands: Sequence[Value]) -> Value:
        """Record an op with one result; pure ops are folded and shared."""
        return self.emit_many(name, operands)[0]

    def emit_many(self, name: str, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Record an op with any number of results; pure ops are folded and shared."""
        definition = OPS.get(name) if type(name) is str else None
        if definition is None or definition.special or not isinstance(operands, (tuple, list)):
            raise _not_emitted(name, operands)
        operand_types, has_constants = [], False
        for operand in operands:
            if not isinstance(operand, Value) or operand.builder is not self:
                check_value(operand, name)
                raise TraceError(f"an operand of {name} belongs to another kernel")
            operand_types.append(operand.type)
            has_constants = has_constants or operand.constant is not None
        try:
            result_types = definition.infer(tuple(operand_types))
        except TypeError as error:
            raise TraceError(f"{error}; convert one with value.cast(type)") from None
        if not definition.pure:
            return self._tracer.record(name, operands, result_types)
        if has_constants or name == "select":
            folded = fold(self, name, operands, result_types)
            if folded is not None:
                return (folded,)
        return self._tracer.record(name, operands, result_types, shared=True)

    def operand(self, item: Operand, type_: Type) -> Value:
        """Return `item` if it is a value, else a constant of the given type."""
        if isinstance(item, Value):
            return item
        return self.constant(item, type_)

    def constant(self, number: int | float | bool, type_: Type) -> Value:
        """Return a constant; raises TraceError for a number outside the type's range.

        Floats are rounded to the type; integers must be representable exactly.
        """
        if type(number) is int and isinstance(type_, Type):
            constant = self._tracer.integer(number, type_)
            if constant is not None:
                return constant
        if isinstance(number, np.generic):
            number = number.item()
        if not isinstance(number, (bool, int, float)):
            raise TraceError(
                f"{an(type(number).__name__)} cannot stand beside a value of {type_}"
                + (_BESIDE_ELEMENT if offers(number, "flatten") else "")
            )
        check_type(type_)
        if type_ not in types.SCALARS:
            raise TraceError(f"there are no constants of type {type_}")
        return self._tracer.constant(_converted(number, type_), type_)

    # --- indices of an instance

    @property
    def workgroup_size(self) -> int:
        """The number of instances in a workgroup, a Python integer."""
        return self.machine.workgroup_size

    def local_id(self, axis: int | None = None) -> Value:
        """Return the index of this instance in its workgroup, or along one of its axes (from 0).

        Consecutive instances lie along the first axis.
        """
        linear = self.emit("local_id", ())
        if axis is None or len(self._checked_shape(axis)) == 1:
            return linear
        stride, extent = math.prod(self._tracer.shape[:axis]), self._tracer.shape[axis]
        index = linear if stride == 1 else linear // stride
        return index if axis == len(self._tracer.shape) - 1 else index % extent

    def workgroup_id(self, axis: int | None = None) -> Value:
        """Return the index of this workgroup in the grid, or along one of its axes."""
        linear = self.emit("workgroup_id", ())
        if axis is None or len(self._checked_shape(axis)) == 1:
            return linear
        for extent in self._tracer.grid[:axis]:
            linear = linear // extent
        return linear % self._tracer.grid[axis] if axis < len(self._tracer.grid) else linear

    def num_workgroups(self, axis: int | None = None) -> Value:
        """Return the number of workgroups in the grid, or along one of its axes."""
        if axis is not None and axis < len(self._checked_shape(axis)) - 1:
            return self._tracer.grid[axis]
        count = self.emit("num_workgroups", ())
        if axis is not None:
            for extent in self._tracer.grid:
                count = count // extent
        return count

    def global_id(self, axis: int | None = None) -> Value:
        """Return the index of this instance in the grid, or along one of its axes."""
        if axis is None or len(self._checked_shape(axis)) == 1:
            return self.workgroup_id() * self.workgroup_size + self.local_id()
        return self.workgroup_id(axis) * self._tracer.shape[axis] + self.local_id(axis)

    def _checked_shape(self, axis: int) -> tuple[int, ...]:
        """Return the extents of a workgroup; raises TraceError if there is no such axis."""
        if type(axis) is not int or not 0 <= axis < len(self._tracer.shape):
            count = len(self._tracer.shape)
            raise TraceError(
                f"the grid has {count} {'axis' if count == 1 else 'axes'}, counted from 0, and no "
                f"axis {axis!r}; write @kernel(axes=...)"
            )
        return self._tracer.shape

    @property
    def subgroup_size(self) -> int:
        """The number of instances in a subgroup, a Python integer of at most 32."""
        if not self.machine.has(Capability.SUBGROUPS):
            raise TraceError(
                f"the machine for {self.machine.target} has no subgroups; ask "
                "k.machine.has('subgroup') and use shared memory without them"
            )
        return self.machine.subgroup_size

    def lane_id(self) -> Value:
        """Return the index of this instance in its subgroup."""
        if self.subgroup_size >= self.workgroup_size:
            return self.local_id()
        return self.local_id() % self.subgroup_size

    def subgroup_id(self) -> Value:
        """Return the index of this instance's subgroup in its workgroup."""
        if self.subgroup_size >= self.workgroup_size:
            return self.constant(0, types.u32)
        return self.local_id() // self.subgroup_size

    def resident_workgroups(self, count: int) -> None:
        """Hint that registers be limited so that `count` workgroups fit on a multiprocessor."""
        if count < 1:
            raise TraceError(f"at least one workgroup is resident, not {count}")
        self._tracer.resident = count

    # --- memory of the workgroup

    def shared(self, element: Type, count: int, *, alignment: int = 16) -> Value:
        """Declare an uninitialised array of `count` elements in the workgroup's shared memory.

        `alignment` is 16, 128 or 1024 bytes.
        """
        array = self._declared("shared", element, count)
        assert array.op is not None
        if alignment != 16:
            array.op.attributes["alignment"] = alignment
        self._tracer.shared_bytes += element.bytes * array.op.attributes["count"]
        return array

    def private(self, element: Type, count: int) -> Value:
        """Declare an uninitialised array of `count` elements, private to each instance.

        Use it for values selected by a run-time index; at most 8192 bytes per instance in all.
        """
        return self._declared("private", element, count)

    def table(self, element: Type, numbers: Sequence[int | float]) -> Value:
        """Declare a read-only table of constants, for run-time indices.

        Raises TraceError for a number out of the type's range.
        """
        check_type(element)
        if element in types.NARROW_FLOATS:
            raise TraceError(f"there are no tables of {element}; make one of f32")
        value_type = types.loaded_type(element)
        if not isinstance(numbers, Iterable):
            raise TraceError(f"a table is a list of numbers, not {an(type(numbers).__name__)}")
        numbers = list(numbers)
        for number in numbers:
            if not isinstance(number, (int, float, np.number)):
                raise TraceError(
                    f"{an(type(number).__name__)} is no number; a table holds numbers that are "
                    "known while tracing"
                )
        converted = [_converted(number, value_type) for number in numbers]
        data = np.array(converted, NUMPY_TYPES[value_type])
        stored = data.astype(NUMPY_TYPES[element])
        if (stored != data).any() and element is not value_type:
            raise TraceError(f"{data[stored != data][0]} does not fit {element}")
        pointer = self._declared("constant", element, len(converted))
        assert pointer.op is not None
        pointer.op.attributes["data"] = (
            stored.astype(stored.dtype.newbyteorder("<")).tobytes().hex()
        )
        return pointer

    def _declared(self, space: Space, element: Type, count: int) -> Value:
        candidate: object = count
        check_type(element)
        noun = "a table" if space == "constant" else f"{space} memory"
        if isinstance(candidate, Value):
            raise TraceError(
                f"the size of {space} memory is fixed while the kernel is traced; give a Python "
                "number, a parameter behind the `*` or k.workgroup_size"
            )
        if not self._tracer.is_at_top:
            raise TraceError(
                f"{noun} is declared at the top of a kernel, outside any region or function"
            )
        count = whole_number(f"the elements of {noun}", count, error=TraceError)
        if count < 1:
            raise TraceError(f"{noun} holds at least one element, not {count}")
        result = types.pointer(element, space)
        return self._tracer.record(_DECLARING[space], (), (result,), {"count": count})[0]

    def barrier(self) -> None:
        """Wait for all instances of the workgroup; legal where all of them reach it."""
        self._tracer.record("barrier", (), ())

    def named_barrier(self, number: int, count: int) -> None:
        """Wait until `count` instances have arrived at the barrier `number`, from 1 to 15.

        Legal where the arriving subgroups are known statically: under conditions that are uniform
        or compare `k.subgroup_id()` with constants. Requires the capability ``named_barriers``.
        """
        self._named_barrier("named_barrier", number, count)

    def named_barrier_arrive(self, number: int, count: int) -> None:
        """Arrive at the barrier `number` as `named_barrier` does, without waiting.

        Instances that wait there see this instance's earlier stores; it does not see theirs.
        """
        self._named_barrier("named_barrier_arrive", number, count)

    def _named_barrier(self, name: str, number: int, count: int) -> None:
        number = whole_number("the number of a named barrier", number, 1, 15, error=TraceError)
        count = whole_number("the instances of a named barrier", count, 1, error=TraceError)
        self._tracer.record(name, (), (), {"number": number, "count": count})

    def registers(self, count: int) -> None:
        """Set the registers per instance of this role from here on: a multiple of 8, 24 to 256.

        Legal once per role, which must consist of whole warpgroups (four subgroups), and under no
        condition but the one that makes the role. The workgroup's total must not exceed its initial
        registers; see `quod.kernel.verifier.registers.at_entry`. No effect on machines with fixed
        registers.
        """
        count = whole_number("the registers of an instance", count, 24, 256, error=TraceError)
        if count not in REGISTER_COUNTS:
            raise TraceError(f"the registers of an instance are a multiple of 8, not {count}")
        self._tracer.record("registers", (), (), {"count": count})

    # --- launches that overlap

    def dependency_wait(self) -> None:
        """Wait until the preceding launches have ended and their stores are visible.

        A kernel that calls it may start before the preceding launch of a recording has ended. All
        paths must call it; before it, the only global memory a kernel may access is that of
        parameters named in `@kernel(constant=...)`. Outside recordings it has no effect.
        """
        self._tracer.record("dependency_wait", (), ())

    def launch_dependents(self) -> None:
        """Allow the next launch to start and run up to its `dependency_wait`.

        The next launch starts once all workgroups of this launch have called this method or ended.
        The kernel must also call `dependency_wait`, before or after, so that the end of this launch
        implies the end of all earlier ones.
        """
        self._tracer.record("launch_dependents", (), ())

    # --- control flow

    def if_(self, condition: Value) -> Branch:
        """Run a region where the condition holds: `with k.if_(c) as branch:`."""
        check_condition(condition)
        return Branch(self._tracer, condition)

    def range(
        self, start: Operand, stop: Operand | None = None, step: Operand = 1, *, carry: Any = None
    ) -> CountedLoop:
        """Run a region for each index: `with k.range(start, stop) as loop:`."""
        if stop is None:
            raise TraceError("k.range takes a start and a stop: k.range(0, n)")
        for item in (start, stop, step):
            if isinstance(item, Value):
                index_type = item.type
                break
        else:
            index_type = types.u32
        if index_type not in types.INTEGERS:
            raise TraceError(f"a loop counts in integers, not in {index_type}")
        bounds = [self.operand(item, index_type) for item in (start, stop, step)]
        if any(bound.type is not index_type for bound in bounds):
            raise TraceError("start, stop and step of a loop must have one type")
        fixed_step = bounds[2].constant
        if fixed_step is not None and fixed_step <= 0:
            raise TraceError(f"the step of a loop must be above zero, not {fixed_step}")
        return CountedLoop(self._tracer, bounds, carry)

    def while_(self, carry: Any) -> WhileLoop:
        """Run a region while `loop.check(condition)` holds: `with k.while_(state) as loop:`."""
        return WhileLoop(self._tracer, carry)

    # --- functions

    def call(
        self,
        name: str,
        body: FunctionBody,
        *arguments: Any,
        key: Hashable = None,
        inline: bool = False,
    ) -> Any:
        """Call a device function, tracing `body` on the first call with these argument types.

        `body(k, *arguments)` may return a structure of values. Functions are identified by their
        bodies, or by name and `key` if that is not None: the key must then hold everything the
        body depends on. `inline` tells the target to inline the function.
        """
        return self._tracer.call(name, body, arguments, key, inline)


def tracer_of(k: Builder) -> Tracer:
    """Return the tracer behind a builder."""
    return k._tracer
