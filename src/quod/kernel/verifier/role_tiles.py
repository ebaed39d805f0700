"""Verification of roles that use tiles and registers: mbarrier arrivals and whole warpgroups.

All mbarriers in one shared array have the same number of arrivals per phase, so arrivals are
counted per array, whichever of its mbarriers a role uses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod.kernel.builder.roles import Roles
from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Kernel, Op, walk
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import WARPGROUP
from quod.kernel.verifier.registers import at_entry


def check_roles(kernel: Kernel, roles: Roles) -> None:
    """Raise VerificationFailure for a misuse of mbarriers, products or registers by roles.

    The arrivals at an array's mbarriers match the count of a phase; products and register counts
    apply to whole warpgroups; each instance sets its registers once, before any wait if it gives
    some up, and the total does not exceed the workgroup's registers.
    """
    parts = roles.parts()
    for op, lanes in roles.come.items():
        if op.name == "cluster_barrier":
            raise VerificationFailure(
                f"{op.name} is of the whole workgroup, whose subgroups go their own ways; "
                "k.barrier() is where all of them meet",
                op.location,
            )
        if kernel.cluster > 1 and op.definition.capability is Capability.TILE_COPIES:
            raise VerificationFailure(
                f"{op.name} is of a role, and workgroups of a cluster have no roles", op.location
            )
        of_four = op.definition.capability is Capability.WARPGROUPS or op.name == "registers"
        if of_four and not _are_whole(lanes):
            raise VerificationFailure(
                f"{op.name} is of whole warpgroups, {WARPGROUP} instances each, of which only some "
                "come here",
                op.location,
            )
        multiplies = op.definition.capability is Capability.WARPGROUPS
        if multiplies and not all(_are_whole(lanes & part) for part in parts):
            raise VerificationFailure(
                f"{op.name} is of warpgroups, and subgroups of one have roles of their own "
                "elsewhere; let a warpgroup that multiplies have one role",
                op.location,
            )
    _check_mbarriers(kernel, roles)
    _check_registers(kernel, roles)


def _are_whole(lanes: Array) -> bool:
    if len(lanes) % WARPGROUP:
        return False
    rows = lanes.reshape(-1, WARPGROUP)
    return bool((rows == rows[:, :1]).all())


def _check_mbarriers(kernel: Kernel, roles: Roles) -> None:
    counts: dict[Value, Op] = {}
    for op, array in _at_mbarriers(roles):
        if op.name != "mbarrier_init":
            continue
        first = counts.setdefault(array, op)
        if op.attributes["count"] != first.attributes["count"]:
            raise VerificationFailure(
                f"an mbarrier has {op.attributes['count']} arrivals here, and one of the same "
                f"array {first.attributes['count']} on line {first.location.line}; let it be in an "
                "array of its own",
                op.location,
            )
    arrivals: dict[Value, list[tuple[Op, Array]]] = {}
    for op, array in _at_mbarriers(roles):
        if not op.definition.arrives:
            continue
        lanes, others = roles.come[op], arrivals.setdefault(array, [])
        same = [it for it in others if it[0].name == op.name and np.array_equal(it[1], lanes)]
        if same:
            continue
        if any((lanes & other).any() for _, other in others):
            raise VerificationFailure(
                f"some of the instances of this {op.name} arrive at the mbarriers of the array "
                "elsewhere with others, or in another way; let each arrive in one role",
                op.location,
            )
        others.append((op, lanes))
    for array, ops_and_lanes in arrivals.items():
        init = counts.get(array)
        come = sum(_arrivals(kernel, op, lanes) for op, lanes in ops_and_lanes)
        if init is not None and come != init.attributes["count"]:
            raise VerificationFailure(
                f"a phase of these mbarriers has {init.attributes['count']} arrivals, and {come} "
                "come to it: one of each k.mbarrier_expect, and one of each subgroup that comes to "
                "k.mbarrier_arrive",
                init.location,
            )


def _at_mbarriers(roles: Roles) -> Iterator[tuple[Op, Value]]:
    """Yield the ops of mbarriers with their arrays, if those are known."""
    for op in roles.come:
        if op.definition.arrives or op.name == "mbarrier_init":
            array = op.operands[0]
            while array.op is not None and array.op.definition.derives_pointer:
                array = array.op.operands[0]
            if array.op is not None and array.op.definition.declares:
                yield op, array


def _arrivals(kernel: Kernel, op: Op, lanes: Array) -> int:
    return 1 if op.definition.arrives == "one" else int(lanes.sum()) // kernel.subgroup_size


def _waits(op: Op) -> bool:
    """Return whether an op, or a function that it calls, blocks instances."""
    if op.name == "call":
        return any(map(_waits, walk(op.attributes["function"].block)))
    return op.definition.stays


def _check_registers(kernel: Kernel, roles: Roles) -> None:
    entry = at_entry(kernel.workgroup_size, kernel.resident)
    everyone = np.ones(kernel.workgroup_size, np.bool_)
    registers = np.full(kernel.workgroup_size, entry)
    assigned = np.zeros(kernel.workgroup_size, np.bool_)
    waited = np.zeros(kernel.workgroup_size, np.bool_)
    last: Op | None = None
    for op in walk(kernel.block):
        if _waits(op):
            lanes = roles.come.get(op, everyone)
            # Before the first register op, waits of the whole workgroup are harmless.
            waited |= lanes & (last is not None or not lanes.all())
        if op.name != "registers":
            continue
        lanes = roles.come[op]
        if op in roles.under:
            raise VerificationFailure(
                f"registers under the {roles.under[op].name} of line "
                f"{roles.under[op].location.line}; a role says once, and always, how many it has",
                op.location,
            )
        if (assigned & lanes).any():
            raise VerificationFailure(
                "some instances are given registers twice; a role says once how many it has",
                op.location,
            )
        if op.attributes["count"] < entry and (waited & lanes).any():
            raise VerificationFailure(
                "registers are given up here behind a wait, for others who may wait for these "
                "registers; a role says how many it has before it waits for anybody",
                op.location,
            )
        assigned |= lanes
        registers[lanes] = op.attributes["count"]
        last = op
    if last is not None and registers.sum() > entry * kernel.workgroup_size:
        raise VerificationFailure(
            f"instances have {int(registers.sum())} registers in all, and a workgroup of "
            f"{kernel.workgroup_size} begins with {entry} each, {entry * kernel.workgroup_size}",
            last.location,
        )
