"""The verifier: what every kernel must satisfy before a target sees it."""

from __future__ import annotations

from quod.kernel import types
from quod.kernel.errors import VerificationFailure
from quod.kernel.ir import Block, Kernel, Op
from quod.kernel.types import PointerType
from quod.kernel.uniformity import Uniformity
from quod.kernel.value import Value


def verify(kernel: Kernel) -> None:
    """Raises VerificationFailure, naming the Python line, if the kernel breaks a rule."""
    for function in kernel.functions:
        _Scope(set(function.block.arguments)).check(function.block)
    _Scope(set(kernel.block.arguments)).check(kernel.block)
    uniformity = Uniformity((), trust_loads=False)
    uniformity.visit(kernel.block)
    _check_barriers(kernel.block, uniformity, divergent=None)


class _Scope:
    """Definitions before uses, operand types, and the carry rule, over one body."""

    def __init__(self, visible: set[Value]) -> None:
        self._visible = visible

    def check(self, block: Block) -> None:
        self._visible.update(block.arguments)
        pending_carry: Value | None = None
        added: list[Value] = list(block.arguments)
        for op in block.ops:
            for operand in op.operands:
                if operand not in self._visible:
                    raise VerificationFailure(
                        f"{op.name} uses a value from another region or function; carry it, give "
                        "it, or pass it as an argument",
                        op.location,
                    )
            self._check_types(op)
            pending_carry = self._check_carry(op, pending_carry)
            inner = _Scope(set(self._visible)) if op.name == "while" else None
            for region in op.regions:
                (inner or _Scope(set(self._visible))).check(region)
            self._visible.update(op.results)
            added.extend(op.results)

    def _check_types(self, op: Op) -> None:
        definition = op.definition
        if not definition.special:
            try:
                definition.infer([operand.type for operand in op.operands])
            except TypeError as error:
                raise VerificationFailure(str(error), op.location) from None
        elif op.name in ("load", "store", "atomic_add"):
            pointer = op.operands[0].type
            if not isinstance(pointer, PointerType):
                raise VerificationFailure(f"{op.name} needs a pointer, not {pointer}", op.location)
            element = types.loaded_type(pointer.element)
            values = op.results if op.name == "load" else op.operands[2:]
            if any(value.type is not element for value in values):
                raise VerificationFailure(
                    f"{op.name} through {pointer} of another type", op.location
                )

    def _check_carry(self, op: Op, pending: Value | None) -> Value | None:
        """The carry rule: used at most once, in the same block, no carry writer in between."""
        used = [operand for operand in op.operands if operand.type is types.cc]
        for carry in used:
            if carry is not pending:
                raise VerificationFailure(
                    f"{op.name} uses a carry that is not the last one made; a carry is used once, "
                    "in its own region, before any other carry, call or barrier",
                    op.location,
                )
        if op.definition.effect == "carry":
            made = [result for result in op.results if result.type is types.cc]
            return made[0] if made else None
        if op.regions or op.name in ("call", "barrier"):
            return None
        return pending


def _check_barriers(block: Block, uniformity: Uniformity, divergent: Op | None) -> None:
    for op in block.ops:
        if op.name == "barrier" and divergent is not None:
            raise VerificationFailure(
                f"a barrier that not every instance reaches: it stands under the {divergent.name} "
                f"of line {divergent.location.line}, whose condition differs between instances",
                op.location,
            )
        inner = divergent
        if op.name == "if" and uniformity.is_varying(op.operands[0]):
            inner = op
        if op.name == "for" and any(map(uniformity.is_varying, op.operands[:3])):
            inner = op
        if op.name == "while" and uniformity.is_varying(op.regions[0].yielded[0]):
            inner = op
        for region in op.regions:
            _check_barriers(region, uniformity, inner)
