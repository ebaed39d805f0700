"""The interpreter: defines what a kernel means.

It runs a traced kernel with NumPy, one workgroup after the other, all instances of a workgroup in
step: an array a value, a mask of the instances that are active. What the language leaves undefined
is an error here: an access outside a buffer or not aligned, a read of shared memory that was not
set, a race in shared memory, a barrier or subgroup op that not every instance reaches, an
asynchronous copy that is used before it was waited for, a loop that does not end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter_copies import PendingCopies
from quod.kernel.interpreter_memory import Buffer, Place, Pointers, SharedBuffer
from quod.kernel.ir import Block, Kernel, Op
from quod.kernel.ops import ATOMICS, OPS
from quod.kernel.semantics import NUMPY_TYPES, Array, bitcast, convert
from quod.kernel.types import PointerType, Type
from quod.kernel.value import Value

Argument = Array | int | float | bool | np.generic
Lanes = Array | Pointers
Frame = dict[Value, Lanes]


def interpret(
    kernel: Kernel, groups: int, arguments: Sequence[Argument], *, iteration_limit: int = 1 << 24
) -> None:
    """Runs `groups` workgroups of a kernel.

    A pointer parameter takes a C-contiguous NumPy array of its element type, of any shape, which
    the kernel reads and changes; any other parameter takes a number. InterpreterError, naming the
    Python line, for everything that the language leaves undefined, and for a loop that runs more
    than `iteration_limit` times.
    """
    if groups < 0:
        raise InterpreterError(f"a grid cannot have {groups} workgroups", kernel.location)
    if len(arguments) != len(kernel.parameters):
        raise InterpreterError(
            f"{kernel.name} takes {len(kernel.parameters)} arguments, not {len(arguments)}",
            kernel.location,
        )
    buffers: list[Buffer] = []
    frame: Frame = {}
    for name, parameter, given in zip(
        kernel.parameters, kernel.block.arguments, arguments, strict=True
    ):
        frame[parameter] = _bind(kernel, name, parameter.type, given, buffers)
    with np.errstate(all="ignore"):
        for group in range(groups):
            workgroup = _Workgroup(kernel, group, groups, list(buffers), iteration_limit)
            workgroup.run(kernel.block, dict(frame), np.ones(kernel.workgroup_size, np.bool_))


def _bind(kernel: Kernel, name: str, type_: Type, given: Argument, buffers: list[Buffer]) -> Lanes:
    lanes = kernel.workgroup_size
    if isinstance(type_, PointerType):
        wanted = np.dtype(NUMPY_TYPES[type_.element])
        if not isinstance(given, np.ndarray) or given.dtype != wanted:
            found = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
            raise InterpreterError(
                f"argument {name} must be an array of {wanted}, not {found}", kernel.location
            )
        if not given.flags.c_contiguous:
            raise InterpreterError(f"argument {name} must be C-contiguous", kernel.location)
        buffers.append(Buffer(name, given))
        return Pointers(np.full(lanes, len(buffers) - 1), np.zeros(lanes, np.int64))
    problem = f"argument {name} must be a number that fits {type_}, not {given!r}"
    if isinstance(given, np.ndarray):
        raise InterpreterError(problem, kernel.location)
    try:
        with np.errstate(all="ignore"):
            number = np.array(given).astype(NUMPY_TYPES[type_])
        overflowed = np.isinf(number) and not np.isinf(given)
        fits = not overflowed if type_.kind == "float" else int(number) == given
    except (OverflowError, ValueError, TypeError):
        fits = False
    if not fits:
        raise InterpreterError(problem, kernel.location)
    return np.full(lanes, number)


class _Workgroup:
    """One workgroup while it runs."""

    def __init__(
        self, kernel: Kernel, group: int, groups: int, buffers: list[Buffer], limit: int
    ) -> None:
        self._lanes = kernel.workgroup_size
        self._group = group
        self._limit = limit
        self._buffers = buffers
        self._subgroup_size = kernel.subgroup_size
        self._copies = PendingCopies(self._lanes)
        self._identities = {
            "local_id": np.arange(self._lanes, dtype=np.uint32),
            "workgroup_id": np.full(self._lanes, group, np.uint32),
            "num_workgroups": np.full(self._lanes, groups, np.uint32),
        }

    def run(self, block: Block, frame: Frame, active: Array) -> list[Lanes]:
        """Runs a region for the active instances; gives what it yields.

        Ops that only compute run for all instances: what they give for an inactive one is never
        seen.
        """
        for op in block.ops:
            if op.name == "yield":
                break
            evaluate = OPS[op.name].evaluate
            if evaluate is not None:
                made = evaluate(*(frame[operand] for operand in op.operands))
                results: Sequence[Lanes] = made if isinstance(made, tuple) else (made,)
            else:
                results = self._special(op, frame, active)
            for result, lanes in zip(op.results, results, strict=True):
                frame[result] = lanes
        return [frame[value] for value in block.yielded]

    def _special(self, op: Op, frame: Frame, active: Array) -> Sequence[Lanes]:
        operands = [frame[operand] for operand in op.operands]
        match op.name:
            case "const":
                type_ = op.results[0].type
                return [np.full(self._lanes, op.attributes["value"], NUMPY_TYPES[type_])]
            case "local_id" | "workgroup_id" | "num_workgroups":
                return [self._identities[op.name]]
            case "convert":
                return [convert(_array(operands[0]), op.results[0].type)]
            case "bitcast":
                return [bitcast(_array(operands[0]), op.results[0].type)]
            case "pointer_cast":
                return operands
            case "pointer_add":
                return [_pointers(operands[0]).plus(_array(operands[1]), _element(op.operands[0]))]
            case "load":
                return self._load(op, operands, active)
            case "store":
                self._store(op, operands, active)
                return []
            case name if name in ATOMICS:
                return [self._atomic(op, operands, active)]
            case "prefetch" | "fence":
                return []
            case "copy_async":
                self._copy_async(op, operands, active)
                return []
            case "copy_async_commit":
                self._copies.commit(active)
                return []
            case "copy_async_wait":
                self._copies.wait(op.attributes["pending"], active)
                return []
            case "shared":
                return [self._shared(op)]
            case "barrier":
                self._together(op, active)
                self._barrier()
                return []
            case "uniform" | "shuffle" | "ballot":
                self._together(op, active)
                return [getattr(self, f"_{op.name}")(op, *map(_array, operands))]
            case "call":
                block: Block = op.attributes["function"].block
                inner = dict(zip(block.arguments, operands, strict=True))
                return self.run(block, inner, active)
            case "if":
                return self._if(op, frame, active)
            case "for":
                return self._for(op, frame, active)
            case "while":
                return self._while(op, frame, active)
        raise InterpreterError(f"there is no op {op.name}", op.location)

    # --- memory

    def _place(self, op: Op) -> Place:
        return Place(op.location, self._group)

    def _each_buffer(self, pointers: Pointers, active: Array) -> list[tuple[Buffer, Array]]:
        """The buffers that active instances point into, with the instances of each."""
        lanes = np.flatnonzero(active)
        numbers = pointers.buffer[lanes]
        return [(self._buffers[number], lanes[numbers == number]) for number in np.unique(numbers)]

    def _load(self, op: Op, operands: list[Lanes], active: Array) -> list[Lanes]:
        element = _element(op.operands[0])
        pointers = _pointers(operands[0]).plus(_array(operands[1]), element)
        count = len(op.results)
        results = [np.zeros(self._lanes, NUMPY_TYPES[result.type]) for result in op.results]
        for buffer, lanes in self._each_buffer(pointers, active):
            parts = buffer.load(pointers.offset[lanes], lanes, element, count, self._place(op))
            for result, part in zip(results, parts, strict=True):
                result[lanes] = part
        return list(results)

    def _store(self, op: Op, operands: list[Lanes], active: Array) -> None:
        element = _element(op.operands[0])
        pointers = _pointers(operands[0]).plus(_array(operands[1]), element)
        for buffer, lanes in self._each_buffer(pointers, active):
            values = [_array(value)[lanes] for value in operands[2:]]
            buffer.store(pointers.offset[lanes], lanes, element, values, self._place(op))

    def _atomic(self, op: Op, operands: list[Lanes], active: Array) -> Array:
        element = _element(op.operands[0])
        pointers = _pointers(operands[0]).plus(_array(operands[1]), element)
        before = np.zeros(self._lanes, NUMPY_TYPES[element])
        for buffer, lanes in self._each_buffer(pointers, active):
            values = [_array(value)[lanes] for value in operands[2:]]
            before[lanes] = buffer.atomic(
                op.name, pointers.offset[lanes], lanes, element, values, self._place(op)
            )
        return before

    def _copy_async(self, op: Op, operands: list[Lanes], active: Array) -> None:
        element, count = _element(op.operands[0]), int(op.attributes["count"])
        targets, sources = (
            _pointers(operands[at]).plus(_array(operands[at + 1]), element) for at in (0, 2)
        )
        for source, lanes in self._each_buffer(sources, active):
            chosen = np.zeros(self._lanes, np.bool_)
            chosen[lanes] = True
            for target, both in self._each_buffer(targets, chosen):
                assert isinstance(target, SharedBuffer)
                self._copies.begin(
                    source, sources.offset[both], target, targets.offset[both], both, element,
                    count, self._place(op),
                )  # fmt: skip

    def _shared(self, op: Op) -> Pointers:
        element = _element(op.results[0])
        name = f"the shared memory of line {op.location.line}"
        self._buffers.append(SharedBuffer(name, element.bytes * int(op.attributes["count"])))
        return Pointers(
            np.full(self._lanes, len(self._buffers) - 1), np.zeros(self._lanes, np.int64)
        )

    # --- all instances together

    def _together(self, op: Op, active: Array) -> None:
        if not active.all():
            missing = int(np.argmin(active))
            raise InterpreterError(
                f"instance {missing} of workgroup {self._group} does not reach the {op.name} that "
                f"instance {int(np.argmax(active))} waits at",
                op.location,
            )

    def _uniform(self, op: Op, value: Array) -> Array:
        bits = value.view(f"u{value.itemsize}")
        other = bits != bits[0]
        if other.any():
            lane = int(np.argmax(other))
            raise InterpreterError(
                f"instance {lane} of workgroup {self._group} has {value[lane]} where instance 0 "
                f"has {value[0]}: the value is not uniform",
                op.location,
            )
        return value

    def _shuffle(self, op: Op, value: Array, lane: Array) -> Array:
        size = self._subgroup_size
        first = np.arange(self._lanes) // size * size
        source = first + lane.astype(np.int64) % size
        if source.max() >= self._lanes:
            at = int(np.argmax(source >= self._lanes))
            raise InterpreterError(
                f"instance {at} of workgroup {self._group} takes the value of instance "
                f"{source[at]}, and there are {self._lanes}",
                op.location,
            )
        taken: Array = value[source]
        return taken

    def _ballot(self, op: Op, condition: Array) -> Array:
        size = self._subgroup_size
        bits = np.zeros(-(-self._lanes // size) * size, np.uint32)
        bits[: self._lanes] = condition
        shifted = bits.reshape(-1, size) << np.arange(size, dtype=np.uint32)
        words: Array = shifted.sum(1, dtype=np.uint32)
        return np.repeat(words, size)[: self._lanes]

    def _barrier(self) -> None:
        for buffer in self._buffers:
            if isinstance(buffer, SharedBuffer):
                buffer.barrier()

    # --- control flow

    def _if(self, op: Op, frame: Frame, active: Array) -> list[Lanes]:
        condition = _array(frame[op.operands[0]])
        sides = []
        for region, mask in zip(op.regions, (active & condition, active & ~condition), strict=True):
            sides.append(self.run(region, frame, mask) if mask.any() else None)
        then, otherwise = sides
        if then is None or otherwise is None:
            return then or otherwise or []
        return [_choose(condition, a, b) for a, b in zip(then, otherwise, strict=True)]

    def _for(self, op: Op, frame: Frame, active: Array) -> list[Lanes]:
        index, stop, step = (_array(frame[value]) for value in op.operands[:3])
        carried = [frame[value] for value in op.operands[3:]]
        (body,) = op.regions
        if (step[active] <= 0).any():
            raise InterpreterError("the step of a loop must be above zero", op.location)
        running = active & (index < stop)
        rounds = 0
        while running.any():
            rounds = self._count(rounds, op)
            frame.update(zip(body.arguments, (index, *carried), strict=True))
            following = self.run(body, frame, running)
            carried = [_choose(running, a, b) for a, b in zip(following, carried, strict=True)]
            advanced = index + step
            if (running & (advanced < index)).any():
                raise InterpreterError(
                    f"the index of a loop passes the end of {op.operands[0].type}", op.location
                )
            index = np.where(running, advanced, index)
            running = running & (index < stop)
        return carried

    def _while(self, op: Op, frame: Frame, active: Array) -> list[Lanes]:
        head, body = op.regions
        carried = [frame[value] for value in op.operands]
        running = active
        rounds = 0
        while True:
            frame.update(zip(head.arguments, carried, strict=True))
            (condition,) = self.run(head, frame, running)
            running = running & _array(condition)
            if not running.any():
                return carried
            rounds = self._count(rounds, op)
            following = self.run(body, frame, running)
            carried = [_choose(running, a, b) for a, b in zip(following, carried, strict=True)]

    def _count(self, rounds: int, op: Op) -> int:
        if rounds == self._limit:
            raise InterpreterError(f"the loop ran {rounds} times and goes on", op.location)
        return rounds + 1


def _array(lanes: Lanes) -> Array:
    assert isinstance(lanes, np.ndarray)
    return lanes


def _pointers(lanes: Lanes) -> Pointers:
    assert isinstance(lanes, Pointers)
    return lanes


def _element(pointer: Value) -> Type:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def _choose(condition: Array, a: Lanes, b: Lanes) -> Lanes:
    if isinstance(a, Pointers):
        b = _pointers(b)
        return Pointers(
            np.where(condition, a.buffer, b.buffer), np.where(condition, a.offset, b.offset)
        )
    chosen: Array = np.where(condition, a, _array(b))
    return chosen


__all__ = ["Argument", "InterpreterError", "interpret"]
