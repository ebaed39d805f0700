"""Montgomery's trick inside kernels: each instance inverts many elements with one inversion.

Montgomery, "Speeding the Pollard and elliptic curve methods of factorization", Math. Comp. 48
(1987), section 10.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.field.arithmetic import FieldArithmetic
    from quod.kernel.builder.builder import Builder

T = TypeVar("T")


def share_inversion(
    k: Builder,
    field: FieldArithmetic[Any],
    instances: Value,
    count: Value,
    prefixes: Value,
    load: Callable[[Value], T],
    denominator: Callable[[T], Any],
    finish: Callable[[Value, T, Any], None],
) -> None:
    """Call `finish(index, item, 1/denominator)` for each of `count` items.

    Instance i handles items i, i + instances, ..., and finishes them in descending order. `load` is
    called twice per item. No denominator may be zero.
    prefixes: a work array of one field element per item, which is overwritten.
    """
    first = k.global_id()
    with k.if_(first < instances):
        terms = (count - first + (instances - 1)) // instances
        with k.range(0, terms, carry=field.bounded(field.one())) as forward:
            index = first + forward.index * instances
            field.store(prefixes, index, forward.carried)
            item = load(index)
            forward.next(field.bounded(forward.carried * denominator(item)))
        inverse = field.bounded(field.inverse(forward.results))
        with k.range(0, terms, carry=inverse) as backward:
            index = first + (terms - 1 - backward.index) * instances
            item = load(index)
            finish(index, item, backward.carried * field.load(prefixes, index))
            backward.next(field.bounded(backward.carried * denominator(item)))
