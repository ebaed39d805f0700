"""Verification of roles, the code that a part of a workgroup's subgroups runs.

The checks are of mbarrier arrivals, of ops that need whole warpgroups, and of register counts.

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
    """Raise VerificationFailure if roles misuse mbarriers, warpgroup products or register counts.

    The arrivals at an array's mbarriers must match the count of a phase. Whole warpgroups run
    products and set register counts. Each instance sets its register count at most once, before
    any wait if it gives registers up. The total must not exceed the workgroup's registers.
    """
    role_masks = roles.parts()
    for op, lanes in roles.lanes_at.items():
        if op.name == "cluster_barrier":
            raise VerificationFailure(
                f"{op.name} needs the whole workgroup, but its subgroups have roles here; use "
                "k.barrier(), for which all of them wait",
                op.location,
            )
        if kernel.cluster > 1 and op.definition.capability is Capability.TILE_COPIES:
            raise VerificationFailure(
                f"{op.name} is inside a role, which a kernel with clusters cannot have", op.location
            )
        needs_whole_warpgroups = (
            op.definition.capability is Capability.WARPGROUPS or op.name == "registers"
        )
        if needs_whole_warpgroups and not _are_whole(lanes):
            raise VerificationFailure(
                f"{op.name} needs all {WARPGROUP} instances of a warpgroup, and only some of them "
                "reach this line",
                op.location,
            )
        multiplies = op.definition.capability is Capability.WARPGROUPS
        if multiplies and not all(_are_whole(lanes & role_mask) for role_mask in role_masks):
            raise VerificationFailure(
                f"{op.name} needs a warpgroup with a single role, and subgroups of this one have "
                "different roles elsewhere",
                op.location,
            )
    _check_mbarriers(kernel, roles)
    _check_registers(kernel, roles)


def _are_whole(lanes: Array) -> bool:
    """Return whether a mask has all or none of the instances of each warpgroup."""
    if len(lanes) % WARPGROUP:
        return False
    rows = lanes.reshape(-1, WARPGROUP)
    return bool((rows == rows[:, :1]).all())


def _check_mbarriers(kernel: Kernel, roles: Roles) -> None:
    first_inits: dict[Value, Op] = {}
    for op, array in _at_mbarriers(roles):
        if op.name != "mbarrier_init":
            continue
        first = first_inits.setdefault(array, op)
        if op.attributes["count"] != first.attributes["count"]:
            raise VerificationFailure(
                f"this mbarrier has {op.attributes['count']} arrivals, and another in the same "
                f"array has {first.attributes['count']} (line {first.location.line}); put it "
                "in an array of its own",
                op.location,
            )
    arrivals: dict[Value, list[tuple[Op, Array]]] = {}
    for op, array in _at_mbarriers(roles):
        if not op.definition.arrives:
            continue
        lanes, earlier = roles.lanes_at[op], arrivals.setdefault(array, [])
        counted_before = [
            arrival
            for arrival in earlier
            if arrival[0].name == op.name and np.array_equal(arrival[1], lanes)
        ]
        # Further arrivals of the same instances by the same op belong to other phases.
        if counted_before:
            continue
        if any((lanes & other).any() for _, other in earlier):
            raise VerificationFailure(
                f"some of the instances of this {op.name} also arrive at this array's mbarriers "
                "elsewhere, with other instances or by another op; let each arrive in one role",
                op.location,
            )
        earlier.append((op, lanes))
    for array, ops_and_lanes in arrivals.items():
        init = first_inits.get(array)
        arrival_count = sum(_arrivals(kernel, op, lanes) for op, lanes in ops_and_lanes)
        if init is not None and arrival_count != init.attributes["count"]:
            raise VerificationFailure(
                f"a phase of these mbarriers expects {init.attributes['count']} arrivals and gets "
                f"{arrival_count}: one per k.mbarrier_expect, and one per subgroup at "
                "k.mbarrier_arrive",
                init.location,
            )


def _at_mbarriers(roles: Roles) -> Iterator[tuple[Op, Value]]:
    """Yield mbarrier initialisations and arrivals whose pointer leads to a declared array."""
    for op in roles.lanes_at:
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
    return op.definition.blocks


def _check_registers(kernel: Kernel, roles: Roles) -> None:
    entry_registers = at_entry(kernel.workgroup_size, kernel.resident)
    all_instances = np.ones(kernel.workgroup_size, np.bool_)
    register_counts = np.full(kernel.workgroup_size, entry_registers)
    assigned = np.zeros(kernel.workgroup_size, np.bool_)
    waited = np.zeros(kernel.workgroup_size, np.bool_)
    last_op: Op | None = None
    for op in walk(kernel.block):
        if _waits(op):
            lanes = roles.lanes_at.get(op, all_instances)
            # Before the first register op, waits of the whole workgroup are harmless.
            waited |= lanes & (last_op is not None or not lanes.all())
        if op.name != "registers":
            continue
        lanes = roles.lanes_at[op]
        if op in roles.enclosing:
            raise VerificationFailure(
                f"registers are set under the {roles.enclosing[op].name} of line "
                f"{roles.enclosing[op].location.line}; a role sets them "
                "outside conditions and loops",
                op.location,
            )
        if (assigned & lanes).any():
            raise VerificationFailure(
                "some instances set their registers twice; a role sets them once",
                op.location,
            )
        if op.attributes["count"] < entry_registers and (waited & lanes).any():
            raise VerificationFailure(
                "registers are given up here after a wait, perhaps a wait for a role that needs "
                "these registers; set the count before the first wait",
                op.location,
            )
        assigned |= lanes
        register_counts[lanes] = op.attributes["count"]
        last_op = op
    if last_op is not None and register_counts.sum() > entry_registers * kernel.workgroup_size:
        raise VerificationFailure(
            f"instances have {int(register_counts.sum())} registers in all, and a workgroup of "
            f"{kernel.workgroup_size} begins with {entry_registers} each, "
            f"{entry_registers * kernel.workgroup_size} in all",
            last_op.location,
        )
