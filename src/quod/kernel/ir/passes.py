"""Passes over a traced kernel."""

from __future__ import annotations

from quod.kernel.ir.nodes import Block, Function, Kernel, Op
from quod.kernel.ir.value import Value


def eliminate_dead_code(kernel: Kernel) -> None:
    """Remove unused ops without side effects, and uncalled functions.

    A call, branch or counted loop has no side effect if its ops have none. A `while` loop is never
    removed, as it may not terminate.
    """
    elimination = _DeadCodeElimination()
    elimination.block(kernel.block, set())
    swept: set[int] = set()
    while called := elimination.called.keys() - swept:
        for function in called:
            elimination.block(elimination.called[function].block, set())
        swept |= called
    kernel.functions = [function for function in kernel.functions if id(function) in swept]


def only_computes(op: Op) -> bool:
    """Return whether an op and everything nested in it only computes values.

    Such an op can be reordered freely among ops with effects.
    """
    if op.name == "call":
        function: Function = op.attributes["function"]
        return all(only_computes(inner_op) for inner_op in function.block.ops)
    if op.definition.ends:
        return all(only_computes(inner_op) for region in op.regions for inner_op in region.ops)
    return op.name == "yield" or op.definition.effect in ("none", "carry")


def is_without_effect(block: Block) -> bool:
    """Return whether a region with unused results can be removed or executed again."""
    return _DeadCodeElimination().without_effect(block)


class _DeadCodeElimination:
    """Dead-code elimination, which visits ops from the last to the first."""

    def __init__(self) -> None:
        self.called: dict[int, Function] = {}
        """The functions that the remaining ops call, by identity."""
        self._pure_functions: dict[int, bool] = {}

    def block(self, block: Block, used: set[Value]) -> None:
        """Sweep a region; `used` collects the operands of the ops that remain."""
        kept_ops = []
        for op in reversed(block.ops):
            if used.isdisjoint(op.results) and self._removable(op):
                continue
            for region in reversed(op.regions):
                self.block(region, used)
            if op.name == "call":
                function: Function = op.attributes["function"]
                self.called[id(function)] = function
            used.update(op.operands)
            kept_ops.append(op)
        kept_ops.reverse()
        block.ops[:] = kept_ops

    def _removable(self, op: Op) -> bool:
        if op.definition.ends:
            return all(map(self.without_effect, op.regions))
        if op.name == "call":
            function: Function = op.attributes["function"]
            if id(function) not in self._pure_functions:
                self._pure_functions[id(function)] = self.without_effect(function.block)
            return self._pure_functions[id(function)]
        return op.definition.removable

    def without_effect(self, block: Block) -> bool:
        """Return whether no op in a region has a side effect."""
        return all(op.name == "yield" or self._removable(op) for op in block.ops)
