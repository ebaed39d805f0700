"""Blocks: functions of a circuit that are traced once for each form of their arguments.

The form of arguments is all that tracing depends on: the coefficients of each signal, which of its
wires are equal to one another, the known upper bounds, and everything that is not a signal. Calls
of one form have the same constraints and wires, up to the numbers of wires and rows. A block has
the rows and wires of such a call. Its first wires, the formal wires, stand for the wires of the
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from quod.errors import InputError
from quod.r1cs.names import path_name
from quod.r1cs.signal import ONE, Signal, hide_frames_of, merged_terms, signal_of
from quod.r1cs.witness_program.steps import Input
from quod.validation import called, check_function, shown_kind

if TYPE_CHECKING:
    from quod.r1cs.system import ConstraintSystem

hide_frames_of(__file__)


class Block:
    """A traced function.

    system: its constraints; wires 1 to `formal_wires` are the formal wires.
    result: what the function returned, with signals of `system`.
    """

    __slots__ = ("formal_wires", "result", "system")

    def __init__(self, system: ConstraintSystem, formal_wires: int, result: Any) -> None:
        self.system, self.formal_wires, self.result = system, formal_wires, result

    @property
    def wires(self) -> int:
        """The number of wires that a placement adds, without the public ones."""
        return self.system.wires - self.formal_wires

    def column(self, wire: int) -> int:
        """Return the column of a wire (`quod.r1cs.repetition.parts.Part`)."""
        if wire < ONE:
            return self.formal_wires - wire
        return wire + len(self.system.public_names) if wire > self.formal_wires else wire


class Placement:
    """A call of a block: where its rows and wires are in the system that contains it.

    arguments: the wire for each formal wire.
    own_rows, own_wires, own_steps: the numbers of rows, of wires that are not public and of steps
        before it, without those of other placements.
    row, wire, public: the numbers of rows, of wires that are not public and of public wires before
        it, with those of other placements.
    path: the namespace of the call.
    """

    __slots__ = (
        "arguments", "block", "own_rows", "own_steps", "own_wires", "path", "public", "row", "wire",
    )  # fmt: skip

    def __init__(self, system: ConstraintSystem, block: Block, arguments: Sequence[int]) -> None:
        """Describe a call at the end of a system."""
        self.block, self.arguments, self.path = block, arguments, system.path
        self.own_rows, self.own_wires = len(system.row_paths), len(system.wire_paths)
        self.own_steps = len(system.steps)
        self.row, self.wire, self.public = system.rows, system.wires, len(system.public_names)

    def wire_of(self, wire: int) -> int:
        """Return the wire of the containing system for one of the block."""
        formal_wires = self.block.formal_wires
        if wire > formal_wires:
            return wire - formal_wires + self.wire
        if wire < ONE:
            return wire - self.public
        return self.arguments[wire - 1] if wire else ONE

    def signal_of(self, system: ConstraintSystem, signal: Signal) -> Signal:
        """Return the signal of the containing system for one of the block."""
        wires = tuple([self.wire_of(wire) for wire in signal.wires])
        return Signal(system, wires, signal.coefficients, signal.limit)


class _Arguments:
    """The arguments of a call, with its wires numbered in order of occurrence."""

    def __init__(self, system: ConstraintSystem, arguments: Sequence[Any]) -> None:
        self._system = system
        self._formal_wires: dict[int, int] = {ONE: ONE}
        self._bounds: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        structure = self._form(tuple(arguments))
        self.wires = [wire for wire in self._formal_wires if wire != ONE]
        wire_bounds = tuple([system.upper_bound(_wire(system, wire)) for wire in self.wires])
        self.form: Hashable = structure, wire_bounds, tuple(self._bounds.items())
        self._wire_bounds = wire_bounds

    def _form(self, argument: Any) -> Hashable:
        """Return the form of an argument; raises InputError if it has none."""
        if type(argument) is Signal:
            wires, coefficients = self._renamed(argument)
            if len(wires) > 1 and (bound := self._system.upper_bound(argument)) is not None:
                self._bounds[wires, coefficients] = bound
            return Signal, wires, coefficients
        if isinstance(argument, list | tuple):
            return type(argument), tuple([self._form(item) for item in argument])
        try:
            hash(argument)
        except TypeError:
            raise InputError(
                "an argument of repeat must be a signal, an int, a list or tuple of these, or a "
                f"hashable value, not {shown_kind(argument)}"
            ) from None
        return type(argument), argument

    def _renamed(self, signal: Signal) -> tuple[tuple[int, ...], tuple[int, ...]]:
        signal = self._system.determined(signal)
        wires, coefficients = merged_terms(signal.wires, signal.coefficients, self._system.prime)
        numbers = self._formal_wires
        formal_wires = tuple([numbers.setdefault(wire, len(numbers)) for wire in wires])
        return formal_wires, tuple([k % self._system.prime for k in coefficients])

    def trace(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Block:
        """Trace the function with signals of a new system for the arguments' signals."""
        outer = self._system
        system = type(outer)(outer.curve)
        # Calls in several blocks share blocks.
        system.blocks = outer.blocks
        for bound in self._wire_bounds:
            signal = _wire(system, system.formal_wire())
            if bound is not None:
                system.declare_upper_bound(signal, bound)
        for (wires, coefficients), bound in self._bounds.items():
            system.declare_upper_bound(Signal(system, wires, coefficients), bound)
        inner = [self._inner(system, argument) for argument in arguments]
        result = called("a repeated function", function, system, *inner)
        system.finish()
        return Block(system, len(self.wires), result)

    def _inner(self, system: ConstraintSystem, argument: Any) -> Any:
        """Return an argument with its signals replaced by those of the block's system."""
        if type(argument) is Signal:
            return Signal(system, *self._renamed(argument), argument.limit)
        if isinstance(argument, list | tuple):
            return _like(argument, [self._inner(system, item) for item in argument])
        return argument


def repeated(
    system: ConstraintSystem, function: Callable[..., Any], arguments: Sequence[Any]
) -> Any:
    """Place the block of a call, which is traced unless it is known; see `repeat`."""
    check_function("a repeated part", function)
    bound = _Arguments(system, arguments)
    key = function, bound.form
    block = system.blocks.get(key)
    if block is None:
        block = system.blocks[key] = bound.trace(function, arguments)
    placement = _place(system, block, bound.wires)
    for wire in range(1, block.formal_wires + 1):
        _pass_bound(system, placement, _wire(block.system, wire))
    return _outer(system, placement, block.result)


def _place(system: ConstraintSystem, block: Block, arguments: Sequence[int]) -> Placement:
    """Add the rows, wires, names and steps of a block to the system that calls it."""
    inner = block.system
    placement = Placement(system, block, arguments)
    path = path_name(system, system.path)
    prefix = f"{path}/" if path else ""
    names = {name: prefix + name for name in (*inner.inputs, *inner.public_names)}
    system.add_names([*names.values()])
    if inner.outputs:
        system.outputs_first &= inner.outputs_first and system.outputs == len(system.public_names)
    system.outputs += inner.outputs
    system.public_names += [names[name] for name in inner.public_names]
    for declaration in inner.inputs.values():
        name = names[declaration.name]
        wires = [placement.wire_of(wire) for wire in declaration.wires]
        system.inputs[name] = Input(
            name, wires, bits=declaration.bits, single=declaration.single,
            public=declaration.public,
        )  # fmt: skip
    system.private_inputs += inner.private_inputs
    system.rows += inner.rows
    system.wires += block.wires
    system.placements.append(placement)
    return placement


def _outer(system: ConstraintSystem, placement: Placement, result: Any) -> Any:
    """Return a block's result with signals of the containing system, and their bounds."""
    if type(result) is Signal:
        return _pass_bound(system, placement, result)
    if isinstance(result, list | tuple):
        return _like(result, [_outer(system, placement, item) for item in result])
    return result


def _like(sequence: Any, items: list[Any]) -> Any:
    """Return items as a list, tuple or named tuple, as `sequence` is."""
    kind = type(sequence)
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _pass_bound(system: ConstraintSystem, placement: Placement, signal: Signal) -> Signal:
    """Return the outer signal for a block's signal; its bound in the block holds there, too."""
    block_system = placement.block.system
    signal = signal_of(block_system, signal)
    outer = placement.signal_of(system, signal)
    bound = block_system.upper_bound(signal)
    if bound is not None and outer.constant is None:
        system.declare_upper_bound(outer, bound)
    return outer


def _wire(system: ConstraintSystem, wire: int) -> Signal:
    return Signal(system, (wire,), (1,))
