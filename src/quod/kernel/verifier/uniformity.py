"""Uniformity analysis: the values that may differ between the instances of a workgroup."""

from __future__ import annotations

from collections.abc import Iterable

from quod.kernel.ir.nodes import Block, Function, Kernel, Op
from quod.kernel.ir.types import is_private
from quod.kernel.ir.value import Value
from quod.kernel.ops.definition import OpDefinition


class Uniformity:
    """The varying values of a block, given which of its arguments vary.

    trust_loads: treat loads from uniform addresses as uniform. That holds if the instances of a
        workgroup run in lockstep. WGSL treats every such load as varying, so the verifier sets
        False.
    one_subgroup: the workgroup is a single subgroup, so a ballot is uniform.
    """

    def __init__(
        self, varying: Iterable[Value], *, trust_loads: bool, one_subgroup: bool = False
    ) -> None:
        self.varying: set[Value] = set(varying)
        self._trust_loads = trust_loads
        self._one_subgroup = one_subgroup
        # One analysis of a function for each set of arguments that vary, shared by all calls.
        self._inner: dict[tuple[int, tuple[bool, ...]], Uniformity] = {}

    def is_varying(self, value: Value) -> bool:
        return value in self.varying

    def visit(self, block: Block) -> None:
        """Add the varying values that the block defines."""
        varying = self.varying
        for op in block.ops:
            # The fast path: most ops only compute.
            if op.definition.varies_plainly:
                if not varying.isdisjoint(op.operands):
                    varying.update(op.results)
            else:
                self._visit_op(op)

    def inside(self, call: Op) -> Uniformity:
        """Return the varying values of the body of a called function, for this call's arguments."""
        pattern = tuple([operand in self.varying for operand in call.operands])
        return self.of_function(call.attributes["function"], pattern)

    def of_function(self, function: Function, pattern: tuple[bool, ...]) -> Uniformity:
        """Return the varying values of a function's body, for the arguments that vary."""
        key = (id(function), pattern)
        if key not in self._inner:
            arguments = zip(function.block.arguments, pattern, strict=True)
            callee = Uniformity(
                [argument for argument, varies in arguments if varies],
                trust_loads=self._trust_loads,
                one_subgroup=self._one_subgroup,
            )
            callee._inner = self._inner
            callee.visit(function.block)
            self._inner[key] = callee
        return self._inner[key]

    def diverges(self, op: Op) -> bool:
        """Return whether instances of a workgroup may diverge at an op with regions."""
        return bool(op.regions) and self._any(op.conditions)

    def _any(self, values: Iterable[Value]) -> bool:
        return not self.varying.isdisjoint(values)

    def _mark(self, values: Iterable[Value]) -> None:
        self.varying.update(values)

    def _mark_where(self, values: Iterable[Value], sources: Iterable[Value]) -> None:
        """Mark each value whose source varies."""
        pairs = zip(values, sources, strict=True)
        self._mark([value for value, source in pairs if source in self.varying])

    def _visit_op(self, op: Op) -> None:
        definition = op.definition
        if definition.repeats:
            self._loop(op)
        elif op.regions:
            for region in op.regions:
                self.visit(region)
                self._mark_where(op.results, region.yielded)
            if self.diverges(op):
                self._mark(op.results)
        elif op.name == "call":
            callee = self.inside(op)
            pairs = zip(op.results, op.attributes["function"].block.yielded, strict=True)
            self._mark([result for result, yielded in pairs if yielded in callee.varying])
        elif self._varies(op, definition):
            self._mark(op.results)

    def _varies(self, op: Op, definition: OpDefinition) -> bool:
        """Return whether the results of an op without regions may differ between instances."""
        if definition.varies == "always":
            return True
        if definition.varies == "never":
            return False
        if definition.varies == "memory":
            # Each instance has private memory of its own.
            may_differ = is_private(op.operands[0].type) or not self._trust_loads
            return may_differ or self._any(op.operands)
        subgroup_operands = definition.subgroup_operands
        if self._one_subgroup and subgroup_operands is not None:
            return self._any(op.operands[index] for index in subgroup_operands)
        return self._any(op.operands)

    def _loop(self, op: Op) -> None:
        # Bounds are conditions that are known at entry: if one varies, so does the loop's index.
        diverges_at_entry = self.diverges(op)
        if diverges_at_entry:
            self._mark((*op.regions[0].arguments, *op.results))
        self._repeat_until_stable(op.regions, op.carried, op.initial)
        if not diverges_at_entry and self.diverges(op):
            # Instances leave in different iterations, so the carried values differ.
            self._mark((*op.carried, *op.results))
            self._repeat_until_stable(op.regions, op.carried, op.initial)
        self._mark_where(op.results, op.carried)

    def _repeat_until_stable(
        self, regions: tuple[Block, ...], arguments: tuple[Value, ...], initial: tuple[Value, ...]
    ) -> None:
        """Visit a loop until the set of its varying carried values stops growing."""
        self._mark_where(arguments, initial)
        while True:
            old_count = len(self.varying)
            for region in regions:
                self.visit(region)
            self._mark_where(arguments, regions[-1].yielded)
            if len(self.varying) == old_count:
                return


def uniformity_of(kernel: Kernel) -> Uniformity:
    """Return the varying values of a kernel, by the verifier's rules."""
    uniformity = Uniformity(
        (), trust_loads=False, one_subgroup=kernel.workgroup_size <= kernel.subgroup_size
    )
    uniformity.visit(kernel.block)
    return uniformity
