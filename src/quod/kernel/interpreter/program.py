"""Compilation of kernels for the interpreter: ops become Python closures over slots of a frame.

A frame is a list of the arrays of a body's values. Slots are reused once their values are dead,
which keeps the arrays in the CPU's cache.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

import numpy as np

from quod.kernel.builder.roles import find_roles, has_roles
from quod.kernel.interpreter import control as interpreter_control
from quod.kernel.interpreter import steps as interpreter_steps
from quod.kernel.interpreter.run import Frame, Lanes, Mask, Run
from quod.kernel.ir.nodes import Block, Function, Kernel, Op, walk
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value
from quod.kernel.ops.semantics import NUMPY_TYPES

Step = Callable[[Frame, Run, Mask], None]
Make = Callable[[Op, list[int], list[int]], Step]
MakeControl = Callable[[Op, list["Region"], list[int], list[int]], Step]


class Body:
    """The steps of a kernel or function, and the slots of its arguments and results."""

    def __init__(
        self, arguments: list[int], steps: list[Step], results: list[int], size: int,
        constants: list[tuple[int, Type, object]],
    ) -> None:  # fmt: skip
        self.arguments = arguments
        self.results = results
        self._steps = steps
        self._size = size
        self._constants = constants
        self._frames: dict[int, Frame] = {}

    def frame(self, lanes: int) -> Frame:
        """Create a frame that holds the constants."""
        if lanes not in self._frames:
            slots: Frame = [np.empty(0)] * self._size
            for slot, type_, value in self._constants:
                slots[slot] = np.full(lanes, value, NUMPY_TYPES[type_])
            self._frames[lanes] = slots
        return self._frames[lanes].copy()

    def run(self, frame: Frame, run: Run, mask: Mask) -> None:
        """Run the steps. Pure ops run for all instances: results of inactive ones are not used."""
        for step in self._steps:
            step(frame, run, mask)


class Region:
    """The steps of a region, which run in the frame of its body."""

    def __init__(self, arguments: list[int], steps: list[Step], results: list[int]) -> None:
        self.arguments = arguments
        self.steps = steps
        self.results = results

    def run(self, frame: Frame, run: Run, mask: Mask) -> list[Lanes]:
        """Run the steps; return the values that the region yields."""
        for step in self.steps:
            step(frame, run, mask)
        return [frame[slot] for slot in self.results]


class Program:
    """The compiled bodies of a kernel and its functions."""

    def __init__(self, kernel: Kernel) -> None:
        self.workgroup_size = kernel.workgroup_size
        self.subgroup_size = kernel.subgroup_size
        # The unit of race detection is the smallest element size of the kernel's shared arrays.
        values = (value for op in _ops(kernel) for value in op.results)
        self.granule = min(
            (
                value.type.element.bytes
                for value in values
                if isinstance(value.type, PointerType) and value.type.space == "shared"
            ),
            default=1,
        )
        self.roles = find_roles(kernel) if has_roles(kernel) else None
        """The roles of the kernel, if it has any."""
        self._functions: dict[int, Body] = {}
        self.body = _Compiler(self).body(kernel.block)

    def function(self, function: Function) -> Body:
        """Return the body of a device function."""
        if id(function) not in self._functions:
            self._functions[id(function)] = _Compiler(self).body(function.block)
        return self._functions[id(function)]


_programs: weakref.WeakKeyDictionary[Kernel, Program] = weakref.WeakKeyDictionary()


def program(kernel: Kernel) -> Program:
    """Return the program of a kernel, cached; the kernel must not be changed afterwards."""
    compiled = _programs.get(kernel)
    if compiled is None:
        compiled = _programs[kernel] = Program(kernel)
    return compiled


def _ops(kernel: Kernel) -> Iterable[Op]:
    for block in (kernel.block, *(function.block for function in kernel.functions)):
        yield from walk(block)


class _Compiler:
    """Compiler of one body: makes its steps and allocates slots."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._slots: dict[Value, int] = {}
        self._free: list[int] = []
        self._size = 0
        self._constants: dict[tuple[Type, str], tuple[int, object]] = {}
        self._uses: dict[int, frozenset[Value]] = {}

    def body(self, block: Block) -> Body:
        arguments = [self._allocate(value) for value in block.arguments]
        region, _ = self._region(block)
        constants = [(slot, type_, value) for (type_, _), (slot, value) in self._constants.items()]
        return Body(arguments, region.steps, region.results, self._size, constants)

    # --- slots

    def _new(self) -> int:
        if self._free:
            return self._free.pop()
        self._size += 1
        return self._size - 1

    def _allocate(self, value: Value) -> int:
        slot = self._slots[value] = self._new()
        return slot

    def _release(self, values: Iterable[Value]) -> None:
        for value in values:
            self._free.append(self._slots[value])

    def _constant(self, value: Value, number: object) -> None:
        """Allocate the slot of a constant, which is kept for the whole body."""
        key = (value.type, repr(number))
        if key not in self._constants:
            self._constants[key] = (self._size, number)
            self._size += 1
        self._slots[value] = self._constants[key][0]

    def _used(self, op: Op) -> frozenset[Value]:
        """Return the values that an op and the regions in it use."""
        if not op.regions:
            return frozenset(op.operands)
        if id(op) not in self._uses:
            inner_values = (
                self._used(inner_op) for region in op.regions for inner_op in region.ops
            )
            self._uses[id(op)] = frozenset(op.operands).union(*inner_values)
        return self._uses[id(op)]

    # --- steps

    def _region(
        self, block: Block, keep: frozenset[Value] = frozenset()
    ) -> tuple[Region, list[Value]]:
        """Compile a region whose arguments have slots.
        Returns the region and the values whose slots are still allocated, which include those in
        `keep`.
        """
        defined_at = {
            result: op_index
            for op_index, op in enumerate(block.ops)
            for result in op.results
            if op.name != "const"
        }
        allocated = {*block.arguments, *defined_at}
        last_use: dict[Value, int] = {}
        for op_index, op in enumerate(block.ops):
            last_use.update(dict.fromkeys(self._used(op) & allocated, op_index))
        dead_operands: list[list[Value]] = [[] for _ in block.ops]
        unused: list[list[Value]] = [[] for _ in block.ops]
        for value, op_index in last_use.items():
            if value not in keep and block.ops[op_index].name != "yield":
                dead_operands[op_index].append(value)
        for value, op_index in defined_at.items():
            if value not in last_use and value not in keep:
                unused[op_index].append(value)
        steps: list[Step] = []
        for op_index, op in enumerate(block.ops):
            if op.name == "const":
                self._constant(op.results[0], op.attributes["value"])
            elif op.name != "yield":
                steps.append(self._step(op, dead_operands[op_index]))
                self._release(unused[op_index])
                allocated.difference_update(dead_operands[op_index], unused[op_index])
        arguments = [self._slots[value] for value in block.arguments]
        results = [self._slots[value] for value in block.yielded]
        return Region(arguments, steps, results), list(allocated)

    def _step(self, op: Op, dead_operands: list[Value]) -> Step:
        """Make the step of an op; the values `dead_operands` are not used after it."""
        operands = [self._slots[operand] for operand in op.operands]
        if op.regions:
            return self._control(op, operands, dead_operands)
        if op.definition.evaluate_in_range and op.operands[1].constant is not None:
            operands[1] = self._shift_amount(op)
        self._release(dead_operands)
        results = [self._allocate(result) for result in op.results]
        evaluate = _evaluator(op)
        if evaluate is not None:
            return _pure(evaluate, operands, results)
        if op.name == "call":
            return _call(self._program.function(op.attributes["function"]), operands, results)
        make: Make = getattr(interpreter_steps, op.definition.interpreter_function or op.name)
        return make(op, operands, results)

    def _shift_amount(self, op: Op) -> int:
        """Return the slot of a constant shift amount, reduced modulo the width."""
        a, n = op.operands
        amount = int(n.constant or 0) % a.type.bits
        constant = Value(a.type, n.builder)
        self._constant(constant, amount)
        return self._slots[constant]

    def _control(self, op: Op, operands: list[int], dead_operands: list[Value]) -> Step:
        dead_values: list[Value] = []
        regions: list[Region] = []
        live_values = frozenset[Value]()
        if not op.definition.condition_operands:
            # A `while` loop: values of its head that its body uses must keep their slots.
            live_values = frozenset().union(*(self._used(op_) for op_ in op.regions[1].ops))
        for block in op.regions:
            for value in block.arguments:
                self._allocate(value)
            region, kept_values = self._region(
                block, live_values if block is op.regions[0] else frozenset()
            )
            regions.append(region)
            dead_values += kept_values
            if not op.definition.repeats:
                # The sides of a branch can share slots: the results of one are read from the frame
                # before the other runs.
                self._release(dead_values)
                dead_values = []
        self._release(dead_values)
        self._release(dead_operands)
        results = [self._allocate(result) for result in op.results]
        make: MakeControl = getattr(interpreter_control, op.definition.interpreter_function)
        return make(op, regions, operands, results)


def _evaluator(op: Op) -> Callable[..., object] | None:
    """Return the NumPy function of an op that only computes, else None."""
    row = op.definition
    if row.evaluate_as is not None:
        evaluate, target = row.evaluate_as, op.results[0].type
        return lambda a: evaluate(a, target)
    if row.evaluate_in_range is not None and op.operands[1].constant is not None:
        return row.evaluate_in_range
    return row.evaluate


def _pure(evaluate: Callable[..., object], operands: list[int], results: list[int]) -> Step:
    """Make a step that computes arrays from arrays."""
    if len(results) == 2:
        first_slot, second_slot = results

        def step(frame: Frame, run: Run, mask: Mask) -> None:
            frame[first_slot], frame[second_slot] = evaluate(*[frame[slot] for slot in operands])  # type: ignore[misc]

        return step
    (result,) = results
    match operands:
        case [a]:

            def step(frame: Frame, run: Run, mask: Mask) -> None:
                frame[result] = evaluate(frame[a])  # type: ignore[call-overload]

        case [a, b]:

            def step(frame: Frame, run: Run, mask: Mask) -> None:
                frame[result] = evaluate(frame[a], frame[b])  # type: ignore[call-overload]

        case _:

            def step(frame: Frame, run: Run, mask: Mask) -> None:
                frame[result] = evaluate(*[frame[slot] for slot in operands])  # type: ignore[call-overload]

    return step


def _call(body: Body, operands: list[int], results: list[int]) -> Step:
    def step(frame: Frame, run: Run, mask: Mask) -> None:
        callee_frame = body.frame(run.lanes)
        for target, source in zip(body.arguments, operands, strict=True):
            callee_frame[target] = frame[source]
        body.run(callee_frame, run, mask)
        for target, source in zip(results, body.results, strict=True):
            frame[target] = callee_frame[source]

    return step
