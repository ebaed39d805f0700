"""Blocks: functions of a circuit that are traced once for each signature of their arguments.

The signature has all that tracing depends on: the coefficients of each signal, which wires are
equal to one another, the derived upper bounds, and everything that is not a signal. Calls with the
same signature have the same constraints and wires, up to the numbers of wires and rows. A block has
the rows and wires of such a call. Its first wires, the formal wires, stand for the wires of the
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from quod.errors import InputError
from quod.r1cs.names import path_name
from quod.r1cs.repetition.shortcuts import shortcut_of
from quod.r1cs.signal import ONE, Signal, hide_frames_of, merged_terms, signal_of
from quod.r1cs.traced import Block, Placement, TracedSystem
from quod.r1cs.witness_program.steps import Input
from quod.validation import called, check_function, shown_kind

hide_frames_of(__file__)


class _Arguments:
    """The arguments of a call, with their wires numbered in order of occurrence."""

    def __init__(self, system: TracedSystem, arguments: Sequence[Any]) -> None:
        self._system = system
        self._formal_wires: dict[int, int] = {ONE: ONE}
        self._bounds: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        structure = self._signature(tuple(arguments))
        self.wires = [wire for wire in self._formal_wires if wire != ONE]
        wire_bounds = tuple([system.upper_bound(_wire(system, wire)) for wire in self.wires])
        self.signature: Hashable = structure, wire_bounds, tuple(self._bounds.items())
        self._wire_bounds = wire_bounds

    def _signature(self, argument: Any) -> Hashable:
        """Return the signature of an argument; raises InputError if it is not hashable."""
        if type(argument) is Signal:
            wires, coefficients = self._renamed(argument)
            if len(wires) > 1 and (bound := self._system.upper_bound(argument)) is not None:
                self._bounds[wires, coefficients] = bound
            return Signal, wires, coefficients
        if isinstance(argument, list | tuple):
            return type(argument), tuple([self._signature(item) for item in argument])
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
        # Blocks are shared by all systems of the circuit.
        system.blocks = outer.blocks
        for bound in self._wire_bounds:
            signal = _wire(system, system.formal_wire())
            if bound is not None:
                system.declare_upper_bound(signal, bound)
        for (wires, coefficients), bound in self._bounds.items():
            system.declare_upper_bound(Signal(system, wires, coefficients), bound)
        inner = [self._inner(system, argument) for argument in arguments]
        result = called("the function of repeat", function, system, *inner)
        system.finish()
        shortcut = shortcut_of(system, function, inner, result)
        return Block(system, len(self.wires), result, shortcut)

    def _inner(self, system: TracedSystem, argument: Any) -> Any:
        """Return an argument with its signals replaced by those of the block's system."""
        if type(argument) is Signal:
            return Signal(system, *self._renamed(argument), argument.limit)
        if isinstance(argument, list | tuple):
            return _like(argument, [self._inner(system, item) for item in argument])
        return argument


def repeated(system: TracedSystem, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Place the block of a call, tracing the function if its signature is new; see `repeat`."""
    check_function("the function of repeat", function)
    bound = _Arguments(system, arguments)
    key = function, bound.signature
    block = system.blocks.get(key)
    if block is None:
        block = system.blocks[key] = bound.trace(function, arguments)
    placement = _place(system, block, bound.wires)
    for wire in range(1, block.formal_wires + 1):
        _pass_bound(system, placement, _wire(block.system, wire))
    return _outer(system, placement, block.result)


def _place(system: TracedSystem, block: Block, arguments: Sequence[int]) -> Placement:
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
            public=declaration.public, kind=declaration.kind,
        )  # fmt: skip
    system.private_inputs += inner.private_inputs
    system.rows += inner.rows
    system.wires += block.wires
    system.placements.append(placement)
    return placement


def _outer(system: TracedSystem, placement: Placement, result: Any) -> Any:
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


def _pass_bound(system: TracedSystem, placement: Placement, signal: Signal) -> Signal:
    """Return a block's signal as one of the containing system, with its upper bound."""
    block_system = placement.block.system
    signal = signal_of(block_system, signal)
    outer = placement.signal_of(system, signal)
    bound = block_system.upper_bound(signal)
    if bound is not None and outer.constant is None:
        system.declare_upper_bound(outer, bound)
    return outer


def _wire(system: TracedSystem, wire: int) -> Signal:
    return Signal(system, (wire,), (1,))
