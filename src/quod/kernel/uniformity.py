"""Which values may differ between the instances of a workgroup."""

from __future__ import annotations

from collections.abc import Iterable

from quod.kernel.ir import Block, Op
from quod.kernel.value import Value


class Uniformity:
    """The varying values of a region, given which of its arguments vary.

    With `trust_loads` a load from a uniform address is uniform: true where the instances of a
    workgroup run in lockstep. WGSL's rules do not trust them, so the verifier does not either.
    """

    def __init__(self, varying: Iterable[Value], *, trust_loads: bool) -> None:
        self.varying: set[Value] = set(varying)
        self._trust_loads = trust_loads

    def is_varying(self, value: Value) -> bool:
        return value in self.varying

    def visit(self, block: Block) -> None:
        """Adds the varying values that the region defines."""
        for op in block.ops:
            self._visit_op(op)

    def _any(self, values: Iterable[Value]) -> bool:
        return any(value in self.varying for value in values)

    def _mark(self, values: Iterable[Value]) -> None:
        self.varying.update(values)

    def _visit_op(self, op: Op) -> None:
        match op.name:
            case "local_id":
                self._mark(op.results)
            case "load":
                if not self._trust_loads or self._any(op.operands):
                    self._mark(op.results)
            case "atomic_add":
                self._mark(op.results)
            case "call":
                self._visit_call(op)
            case "if":
                for region in op.regions:
                    self.visit(region)
                divergent = op.operands[0] in self.varying
                yielded = zip(*(region.yielded for region in op.regions), strict=True)
                for result, sides in zip(op.results, yielded, strict=True):
                    if divergent or self._any(sides):
                        self.varying.add(result)
            case "for":
                self._visit_for(op)
            case "while":
                self._visit_while(op)
            case _:
                if self._any(op.operands):
                    self._mark(op.results)

    def _visit_call(self, op: Op) -> None:
        block = op.attributes["function"].block
        inner = Uniformity(
            (a for a, given in zip(block.arguments, op.operands, strict=True)
             if given in self.varying),
            trust_loads=self._trust_loads,
        )  # fmt: skip
        inner.visit(block)
        for result, given in zip(op.results, block.yielded, strict=True):
            if given in inner.varying:
                self.varying.add(result)

    def _visit_for(self, op: Op) -> None:
        (body,) = op.regions
        initial, arguments = op.operands[3:], body.arguments[1:]
        divergent = self._any(op.operands[:3])
        if divergent:
            self._mark((*body.arguments, *op.results))
        self._settle(body, arguments, initial, (body,))
        self._mark(
            result for result, argument in zip(op.results, arguments, strict=True)
            if argument in self.varying
        )  # fmt: skip

    def _visit_while(self, op: Op) -> None:
        head, body = op.regions
        self._settle(body, head.arguments, op.operands, op.regions)
        if head.yielded[0] in self.varying:
            # Instances leave at different times: what they carry out differs.
            self._mark((*head.arguments, *op.results))
            self._settle(body, head.arguments, op.operands, op.regions)
        self._mark(
            result for result, argument in zip(op.results, head.arguments, strict=True)
            if argument in self.varying
        )  # fmt: skip

    def _settle(
        self,
        last: Block,
        arguments: tuple[Value, ...],
        initial: tuple[Value, ...],
        regions: tuple[Block, ...],
    ) -> None:
        """Visits a loop until the set of its varying carried values stops growing."""
        for argument, value in zip(arguments, initial, strict=True):
            if value in self.varying:
                self.varying.add(argument)
        while True:
            before = len(self.varying)
            for region in regions:
                self.visit(region)
            for argument, value in zip(arguments, last.yielded, strict=True):
                if value in self.varying:
                    self.varying.add(argument)
            if len(self.varying) == before:
                return
