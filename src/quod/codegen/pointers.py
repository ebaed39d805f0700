"""The uses of a kernel's pointer parameters: stores, atomic changes and early accesses."""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel.ir.nodes import Kernel, walk


@frozen
class PointerUses:
    """The uses of pointer parameters, as sorted indices.

    stored: parameters that are stored through, atomically or not.
    atomic: those that are changed atomically.
    early: those accessed before preceding launches have ended; None if the kernel does not wait for
        these itself and so starts after them.
    """

    stored: tuple[int, ...]
    atomic: tuple[int, ...]
    early: tuple[int, ...] | None = None


def pointer_uses(kernel: Kernel) -> PointerUses:
    """Return how a kernel may use its pointer parameters; see `pointer_roots`."""
    # Imported here because processes that load cached code do not need them.
    from quod.kernel.verifier.dependents import waits
    from quod.kernel.verifier.pointer_roots import pointer_roots

    roots, bodies = pointer_roots(kernel)
    stored: set[int] = set()
    atomic: set[int] = set()
    for block in bodies:
        for op in walk(block):
            access = op.definition.access
            if access not in (None, "load"):
                roots_of_pointer = roots.get(op.operands[0], set())
                stored |= roots_of_pointer
                if access == "atomic":
                    atomic |= roots_of_pointer
    early = tuple(map(kernel.parameters.index, kernel.constant)) if waits(kernel) else None
    return PointerUses(tuple(sorted(stored)), tuple(sorted(atomic)), early)
