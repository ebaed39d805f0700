"""Rows and accesses that are an instance's own, where some instances have a row."""

from __future__ import annotations

from quod.kernel import Builder, Value
from quod.kernel.control import CountedLoop
from quod.tensor.plan import GroupPlan


def own_rows(k: Builder, plan: GroupPlan, rows: Value) -> CountedLoop:
    """The loop over the rows of this instance."""
    group = k.workgroup_id() * (plan.lanes // plan.threads) + k.local_id() // plan.threads
    first = group * plan.rows
    return k.range(first, k.minimum(first + plan.rows, rows))


def own_accesses(k: Builder, plan: GroupPlan, width: Value) -> CountedLoop:
    """The loop over the accesses of this instance in a row of `width`."""
    return k.range(k.local_id() % plan.threads, width, plan.threads)
