"""Which of a kernel's memory parameters it stores to, and how; which it reaches early."""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel.ir.nodes import Kernel, walk


@frozen
class PointerUses:
    """Indices of parameters, in order: stored through in any way, and changed atomically.

    `early` are those that are reached before the launches before this one have ended; None where
    the kernel does not wait for these, and hence begins behind them.
    """

    stored: tuple[int, ...]
    atomic: tuple[int, ...]
    early: tuple[int, ...] | None = None


def pointer_uses(kernel: Kernel) -> PointerUses:
    """What a kernel may do through the pointers among its parameters; see `pointer_roots`."""
    # A process that finds its code in the cache has no use for these.
    from quod.kernel.verifier.dependents import waits
    from quod.kernel.verifier.pointer_roots import pointer_roots

    roots, bodies = pointer_roots(kernel)
    stored: set[int] = set()
    atomic: set[int] = set()
    for block in bodies:
        for op in walk(block):
            access = op.definition.access
            if access not in (None, "load"):
                found = roots.get(op.operands[0], set())
                stored |= found
                if access == "atomic":
                    atomic |= found
    early = tuple(map(kernel.parameters.index, kernel.constant)) if waits(kernel) else None
    return PointerUses(tuple(sorted(stored)), tuple(sorted(atomic)), early)
