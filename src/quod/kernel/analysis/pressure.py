"""Register pressure: an estimate of the words that are live at each point of a kernel.

The estimate follows the order of ops; the assembler reorders instructions and adds registers for
addresses. Called functions count on top of the caller's live values. Constants, predicates and
values that are cheaper to recompute (such as indices of instances) count as zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quod.frozen import frozen
from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value


@frozen
class Pressure:
    """The maximum of live 32-bit words, its location, and the lines that the words come from."""

    words: int
    location: Location
    sources: tuple[tuple[Location, int], ...]


def _words(value: Value) -> int:
    if value.op is not None and value.op.definition.cheap_to_recompute:
        return 0
    if value.type.kind in ("bool", "carry"):
        return 0
    if isinstance(value.type, PointerType) and value.type.space != "global":
        return 1
    return max(1, value.type.bits // 32)


class _Live:
    """The set of live values, with their total size in words."""

    def __init__(self, values: Sequence[Value] = ()) -> None:
        self.values: set[Value] = set()
        self.words = 0
        for value in values:
            self.add(value)

    def add(self, value: Value) -> None:
        if value not in self.values:
            self.values.add(value)
            self.words += _words(value)

    def remove(self, value: Value) -> None:
        if value in self.values:
            self.values.discard(value)
            self.words -= _words(value)

    def copy(self) -> _Live:
        other = _Live()
        other.values, other.words = set(self.values), self.words
        return other


class _PressureCounter:
    def __init__(self, location: Location) -> None:
        self.max_words = 0
        self.location = location
        self.live: tuple[Value, ...] = ()
        self._functions: dict[int, _PressureCounter] = {}

    def _record(
        self, live: _Live, callee_words: int, location: Location, inner: Sequence[Value]
    ) -> None:
        if live.words + callee_words > self.max_words:
            self.max_words = live.words + callee_words
            self.location = location
            self.live = (*live.values, *inner)

    def visit(self, block: Block, live: _Live) -> None:
        """Visit a region backwards, updating `live` from the values after it to those before it."""
        for op in reversed(block.ops):
            for result in op.results:
                live.remove(result)
            if op.name == "call":
                self._call(op, live)
            elif op.regions:
                self._regions(op, live)
            for operand in op.operands:
                live.add(operand)
            self._record(live, 0, op.location, ())
        for argument in block.arguments:
            live.remove(argument)

    def _call(self, op: Op, live: _Live) -> None:
        function: Function = op.attributes["function"]
        callee = self._functions.get(id(function))
        if callee is None:
            callee = _PressureCounter(function.location)
            callee._functions = self._functions
            callee.visit(function.block, _Live())
            self._functions[id(function)] = callee
        # A value that the caller both passes and keeps counts once; this assumes that the function
        # still needs it at its maximum.
        passed_words = sum(_words(operand) for operand in set(op.operands) & live.values)
        self._record(live, max(0, callee.max_words - passed_words), callee.location, callee.live)

    def _regions(self, op: Op, live: _Live) -> None:
        if not op.definition.repeats:
            live_before = []
            for region in op.regions:
                live_in_region = live.copy()
                self.visit(region, live_in_region)
                live_before.append(live_in_region)
            for live_in_region in live_before:
                for value in live_in_region.values:
                    live.add(value)
            return
        # Values that a loop reads but does not define are live in all its iterations.
        for region in op.regions:
            for value in _outer_values(region):
                live.add(value)
        for region in reversed(op.regions):
            live_in_loop = live.copy()
            self.visit(region, live_in_loop)


def _outer_values(block: Block) -> set[Value]:
    """Return the values of enclosing regions that a region reads."""
    defined: set[Value] = set(block.arguments)
    outer: set[Value] = set()
    for op in block.ops:
        outer.update(operand for operand in op.operands if operand not in defined)
        for region in op.regions:
            outer.update(value for value in _outer_values(region) if value not in defined)
        defined.update(op.results)
    return outer


def pressure(kernel: Kernel) -> Pressure:
    """Estimate the register pressure of a kernel."""
    counter = _PressureCounter(kernel.location)
    counter.visit(kernel.block, _Live())
    sources: Counter[Location] = Counter()
    for value in counter.live:
        location = value.op.location if value.op is not None else kernel.location
        sources[location] += _words(value)
    main_sources = tuple((location, words) for location, words in sources.most_common(5) if words)
    return Pressure(counter.max_words, counter.location, main_sources)
