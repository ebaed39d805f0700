"""Loops over rows and over the accesses of a row, split between instances."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import Builder, Value
from quod.kernel.builder.control import CountedLoop
from quod.tensor.rows.plan import GroupPlan


def own_rows(k: Builder, plan: GroupPlan, rows: Value) -> CountedLoop:
    """Return the loop over the rows of this instance."""
    group = k.workgroup_id() * (plan.lanes // plan.threads) + k.local_id() // plan.threads
    first = group * plan.rows
    return k.range(first, k.minimum(first + plan.rows, rows))


def own_accesses(k: Builder, plan: GroupPlan, width: Value) -> CountedLoop:
    """Return the loop over the accesses of this instance in a row of `width`."""
    return k.range(k.local_id() % plan.threads, width, plan.threads)


def rows_in_step(k: Builder, plan: GroupPlan, rows: Value) -> CountedLoop:
    """Return the loop over the rows of a workgroup whose instances share each row."""
    first = k.workgroup_id() * plan.rows
    return k.range(first, k.minimum(first + plan.rows, rows))


def accesses_in_step(
    k: Builder, plan: GroupPlan, width: Value, body: Callable[[Value], None]
) -> None:
    """Call `body` for the accesses of a row that the workgroup shares.

    A CPU's compiler can see that adjacent instances access adjacent memory: it emits no gathers.
    """
    with k.range(0, width // plan.threads) as steps:
        body(steps.index * plan.threads + k.local_id())
    last = width // plan.threads * plan.threads + k.local_id()
    with k.if_(last < width):
        body(last)
