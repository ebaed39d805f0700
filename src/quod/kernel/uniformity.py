"""Which values may differ between the instances of a workgroup."""

from __future__ import annotations

from collections.abc import Iterable

from quod.kernel.ir import Block, Function, Op
from quod.kernel.ops import ATOMICS
from quod.kernel.types import is_private
from quod.kernel.value import Value


class Uniformity:
    """The varying values of a region, given which of its arguments vary.

    With `trust_loads` a load from a uniform address is uniform: true where the instances of a
    workgroup run in lockstep. WGSL's rules do not trust them, so the verifier does not either.
    With `one_subgroup` the workgroup is a single subgroup, so that a ballot is uniform.
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
        """Adds the varying values that the region defines."""
        for op in block.ops:
            self._visit_op(op)

    def inside(self, call: Op) -> Uniformity:
        """The varying values of the body of a called function, for this call's arguments."""
        function: Function = call.attributes["function"]
        pattern = tuple(operand in self.varying for operand in call.operands)
        key = (id(function), pattern)
        if key not in self._inner:
            arguments = zip(function.block.arguments, pattern, strict=True)
            inner = Uniformity(
                [argument for argument, varies in arguments if varies],
                trust_loads=self._trust_loads,
                one_subgroup=self._one_subgroup,
            )
            inner._inner = self._inner
            inner.visit(function.block)
            self._inner[key] = inner
        return self._inner[key]

    def diverges(self, op: Op) -> bool:
        """Whether the instances of a workgroup may take an `if`, `for` or `while` differently."""
        match op.name:
            case "if":
                return op.operands[0] in self.varying
            case "for":
                return self._any(op.operands[:3])
            case "while":
                return op.regions[0].yielded[0] in self.varying
        return False

    def _any(self, values: Iterable[Value]) -> bool:
        return any(value in self.varying for value in values)

    def _mark(self, values: Iterable[Value]) -> None:
        self.varying.update(values)

    def _mark_where(self, values: Iterable[Value], sources: Iterable[Value]) -> None:
        """Marks each value whose source varies."""
        pairs = zip(values, sources, strict=True)
        self._mark([value for value, source in pairs if source in self.varying])

    def _visit_op(self, op: Op) -> None:
        match op.name:
            case "local_id":
                self._mark(op.results)
            case "uniform":
                pass
            case "ballot":
                if not self._one_subgroup:
                    self._mark_where(op.results, op.operands)
            case "shuffle":
                if self._any(op.operands[1:] if self._one_subgroup else op.operands):
                    self._mark(op.results)
            case "load":
                private = is_private(op.operands[0].type)
                if private or not self._trust_loads or self._any(op.operands):
                    self._mark(op.results)
            case "call":
                inner = self.inside(op)
                pairs = zip(op.results, op.attributes["function"].block.yielded, strict=True)
                self._mark([result for result, given in pairs if given in inner.varying])
            case "if":
                for region in op.regions:
                    self.visit(region)
                    self._mark_where(op.results, region.yielded)
                if self.diverges(op):
                    self._mark(op.results)
            case "for":
                (body,) = op.regions
                if self.diverges(op):
                    self._mark((*body.arguments, *op.results))
                self._settle(op.regions, body.arguments[1:], op.operands[3:])
                self._mark_where(op.results, body.arguments[1:])
            case "while":
                head = op.regions[0]
                self._settle(op.regions, head.arguments, op.operands)
                if self.diverges(op):
                    # Instances leave at different times: what they carry out differs.
                    self._mark((*head.arguments, *op.results))
                    self._settle(op.regions, head.arguments, op.operands)
                self._mark_where(op.results, head.arguments)
            case name if name in ATOMICS:
                self._mark(op.results)
            case _:
                if self._any(op.operands):
                    self._mark(op.results)

    def _settle(
        self, regions: tuple[Block, ...], arguments: tuple[Value, ...], initial: tuple[Value, ...]
    ) -> None:
        """Visits a loop until the set of its varying carried values stops growing."""
        self._mark_where(arguments, initial)
        while True:
            before = len(self.varying)
            for region in regions:
                self.visit(region)
            self._mark_where(arguments, regions[-1].yielded)
            if len(self.varying) == before:
                return
