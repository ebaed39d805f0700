"""Verification of overlapping launches: accesses before the wait for preceding launches.

A launch with a wait may start while preceding launches run; only after the wait have they ended.
So all paths through the kernel wait, and before that the kernel may access only those arrays in
global memory that it declares constant. The next launch waits only for the end of this one, which
must therefore imply the end of all launches before it. Hence a kernel that lets its successor start
early must wait, too.
Source: PTX ISA 9.0, "griddepcontrol".
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Block, Kernel, Op, walk
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value
from quod.kernel.verifier.pointer_roots import pointer_roots


def waits(kernel: Kernel) -> bool:
    """Return whether a kernel waits for preceding launches."""
    return _first_op(kernel, "dependency_wait") is not None


def _first_op(kernel: Kernel, name: str) -> Op | None:
    blocks = (kernel.block, *(function.block for function in kernel.functions))
    return next((op for block in blocks for op in walk(block) if op.name == name), None)


def check_dependents(kernel: Kernel) -> None:
    """Raise VerificationFailure, naming the Python line, for an early access or a missing wait."""
    wait = _first_op(kernel, "dependency_wait")
    launch_op = _first_op(kernel, "launch_dependents")
    if launch_op is not None and wait is None:
        raise VerificationFailure(
            "k.launch_dependents() is for kernels that wait themselves: what it lets begin waits "
            "for this launch alone; write k.dependency_wait() before or after it",
            launch_op.location,
        )
    if wait is None and not kernel.constant:
        return
    access_check = _AccessCheck(kernel)
    access_check.check_constant(kernel)
    if wait is not None and not access_check.check(kernel.block, waited=False):
        raise VerificationFailure(
            "k.dependency_wait() is not reached on all ways through the kernel; write it outside "
            "branches and loops, or on each side",
            wait.location,
        )


class _AccessCheck:
    """The check of one kernel's accesses before its wait."""

    def __init__(self, kernel: Kernel) -> None:
        self._names = kernel.parameters
        self._constant = {kernel.parameters.index(name) for name in kernel.constant}
        self._roots, self._bodies = pointer_roots(kernel)
        self._waits_by_function: dict[int, bool] = {}

    def check_constant(self, kernel: Kernel) -> None:
        """Raise VerificationFailure for a constant parameter that is no array or is stored to."""
        for index in sorted(self._constant):
            if not isinstance(kernel.block.arguments[index].type, PointerType):
                raise VerificationFailure(
                    f"{self._names[index]} is no array that could be constant", kernel.location
                )
        for op in (op for block in self._bodies for op in walk(block)):
            if op.definition.access in (None, "load"):
                continue
            for index in sorted(self._roots.get(op.operands[0], set()) & self._constant):
                raise VerificationFailure(
                    f"{op.name} through {self._names[index]}, of which the kernel says that it is "
                    "constant",
                    op.location,
                )

    def check(self, block: Block, *, waited: bool) -> bool:
        """Check a region; return whether all paths through it have waited."""
        for op in block.ops:
            if waited:
                return True
            if op.name == "dependency_wait":
                waited = True
            elif op.name == "call":
                waited = self._check_call(op)
            elif op.regions:
                waited = self._check_regions(op)
            elif op.definition.reaches_memory:
                self._check_access(op)
        return waited

    def _check_call(self, op: Op) -> bool:
        function = op.attributes["function"]
        if id(function) not in self._waits_by_function:
            self._waits_by_function[id(function)] = self.check(function.block, waited=False)
        return self._waits_by_function[id(function)]

    def _check_regions(self, op: Op) -> bool:
        waited_after = [self.check(region, waited=False) for region in op.regions[:1]]
        if op.definition.repeats:
            # The condition of a `while` loop runs at least once, its body perhaps never.
            waited_at_body = waited_after[0] and not op.definition.condition_operands
            for region in op.regions[1:]:
                self.check(region, waited=waited_at_body)
            return waited_at_body
        return all(
            [*waited_after, *(self.check(region, waited=False) for region in op.regions[1:])]
        )

    def _check_access(self, op: Op) -> None:
        for pointer in _in_global_memory(op.operands[index] for index in op.definition.pointers):
            unsafe_parameters = self._roots.get(pointer, set()) - self._constant
            for index in sorted(unsafe_parameters):
                raise VerificationFailure(
                    f"{op.name} reaches {self._names[index]} before k.dependency_wait(), where the "
                    "launches before may not have ended; wait first, or name what nothing stores "
                    f"to in @kernel(constant=({self._names[index]!r},))",
                    op.location,
                )


def _in_global_memory(pointers: Iterable[Value]) -> list[Value]:
    return [
        pointer
        for pointer in pointers
        if isinstance(pointer.type, PointerType) and pointer.type.space == "global"
    ]
