"""Warp specialisation: roles of a workgroup's subgroups, which synchronise at named barriers.

A branch makes roles if its condition depends only on constants and on the instance's index in its
workgroup, and is uniform in each subgroup. The instances of a role are then known statically.
Source: PTX ISA 9.0, "barrier".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod.frozen import frozen
from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Block, Kernel, Op, walk
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.kernel.ops.semantics import NUMPY_TYPES, Array
from quod.kernel.verifier.uniformity import Uniformity, uniformity_of

NAMED_BARRIERS = range(1, 16)
"""The numbers of named barriers; 0 is the barrier of the whole workgroup."""

_IN_ROLES = (Capability.NAMED_BARRIERS, Capability.TILE_COPIES, Capability.WARPGROUPS)
"""The capabilities whose ops with effects must be reached by all instances of a role."""


@frozen(eq=False)
class BarrierArrival:
    """An op of a named barrier, with the instances that reach it as a boolean mask."""

    op: Op
    lanes: Array

    @property
    def number(self) -> int:
        return int(self.op.attributes["number"])

    @property
    def count(self) -> int:
        return int(self.op.attributes["count"])

    @property
    def waits(self) -> bool:
        return self.op.definition.blocks


def has_roles(kernel: Kernel) -> bool:
    """Return whether a kernel is warp-specialised."""
    return any(op.definition.makes_roles for op in _ops(kernel))


def is_of_role(op: Op) -> bool:
    """Return whether, in a kernel with roles, all instances of a role must reach an op."""
    return op.definition.capability in _IN_ROLES and op.definition.effect != "none"


def _is_named_barrier(op: Op) -> bool:
    return op.definition.type_rule == "named_barrier"


def _ops(kernel: Kernel) -> Iterator[Op]:
    for block in (kernel.block, *(function.block for function in kernel.functions)):
        yield from walk(block)


class Roles:
    """The ops of a kernel that belong to roles, and the branches that make the roles."""

    def __init__(self, kernel: Kernel, uniformity: Uniformity) -> None:
        """Raise VerificationFailure for an op of a role whose instances are not known."""
        self._size, self._subgroup = kernel.workgroup_size, kernel.subgroup_size
        self._uniformity = uniformity
        self._known: dict[Value, Array | None] = {}
        self.arrivals: list[BarrierArrival] = []
        self.lanes_at: dict[Op, Array] = {}
        """The mask of the instances that reach each op of a role."""
        self.enclosing: dict[Op, Op] = {}
        """The innermost enclosing branch or loop that makes no roles, for each op inside one."""
        self.branches: set[Op] = set()
        self.sides: list[Array] = []
        """The mask of the first side, for each branch that contains ops of roles."""
        for function in kernel.functions:
            for op in filter(is_of_role, walk(function.block)):
                raise VerificationFailure(
                    f"{op.name} stands in the function {function.name}; roles are the kernel's: "
                    "let it be a plain function of Python",
                    op.location,
                )
        self._visit(kernel.block, np.ones(self._size, np.bool_), None, None)

    def parts(self) -> list[Array]:
        """Return masks of the instances that take the same sides of branches that make roles."""
        masks = [np.ones(self._size, np.bool_)]
        for side in self.sides:
            masks = [half for mask in masks for half in (mask & side, mask & ~side) if half.any()]
        return masks

    def first_instance(self, op: Op) -> int:
        """Return the index of the first instance that reaches an op of a role."""
        return int(np.argmax(self.lanes_at[op]))

    def _visit(
        self, block: Block, lanes: Array, divergent: Op | None, enclosing_op: Op | None
    ) -> bool:
        """Visit a region that `lanes` may reach; return whether it contains ops of roles.

        divergent: the innermost enclosing branch or loop that is not uniform and makes no roles.
        enclosing_op: the innermost enclosing branch or loop that makes no roles.
        """
        contains_role_ops = False
        for op in block.ops:
            if is_of_role(op):
                contains_role_ops = True
                if divergent is not None:
                    raise VerificationFailure(
                        f"{op.name} under the {divergent.name} of line {divergent.location.line}, "
                        "of which it is not known before which subgroups take it; compare "
                        "k.subgroup_id() with a constant",
                        op.location,
                    )
                self.lanes_at[op] = lanes
                if enclosing_op is not None:
                    self.enclosing[op] = enclosing_op
                if _is_named_barrier(op):
                    self.arrivals.append(BarrierArrival(op, lanes))
            side = self._side(op)
            if side is not None:
                sides_with_role_ops = [
                    self._visit(region, lanes & region_lanes, divergent, enclosing_op)
                    for region, region_lanes in zip(op.regions, (side, ~side), strict=True)
                ]
                self.branches.add(op)
                if any(sides_with_role_ops):
                    self.sides.append(side)
                    contains_role_ops = True
                continue
            inner_divergent = op if self._uniformity.diverges(op) else divergent
            for region in op.regions:
                contains_role_ops |= self._visit(region, lanes, inner_divergent, op)
        return contains_role_ops

    def _side(self, op: Op) -> Array | None:
        """Return the mask of a branch's first side if the branch makes roles, else None."""
        if op.name != "if" or not self._uniformity.diverges(op):
            return None
        holds = self._evaluated(op.operands[0])
        if holds is None or self._size % self._subgroup:
            return None
        rows = holds.reshape(-1, self._subgroup)
        return holds if (rows == rows[:, :1]).all() else None

    def _evaluated(self, value: Value) -> Array | None:
        """Return a value per instance; None if it depends on more than constants and local id."""
        if value not in self._known:
            self._known[value] = self._evaluate(value)
        return self._known[value]

    def _evaluate(self, value: Value) -> Array | None:
        op = value.op
        if op is None or op.definition.effect != "none":
            return None
        if value.constant is not None:
            return np.full(self._size, value.constant, NUMPY_TYPES[value.type])
        if op.name == "local_id":
            return np.arange(self._size, dtype=np.uint32)
        row = op.definition
        operands: list[Array] = []
        for operand in op.operands:
            operand_values = self._evaluated(operand)
            if operand_values is None:
                return None
            operands.append(operand_values)
        if not operands or len(op.results) != 1:
            return None
        with np.errstate(all="ignore"):
            if row.evaluate_as is not None:
                return row.evaluate_as(operands[0], value.type)
            evaluated = None if row.evaluate is None else row.evaluate(*operands)
        return evaluated if isinstance(evaluated, np.ndarray) else None


def find_roles(kernel: Kernel) -> Roles:
    """Return the roles of a verified kernel."""
    return Roles(kernel, uniformity_of(kernel))


def check_named_barriers(kernel: Kernel, roles: Roles) -> None:
    """Raise VerificationFailure for a named barrier with inconsistent arrival counts.

    All ops of one barrier have the same count, of whole subgroups. The sets of instances that reach
    two of its ops are equal or disjoint, the sets add up to the count, and at least one waits.
    """
    by_number: dict[int, list[BarrierArrival]] = {}
    for arrival in roles.arrivals:
        by_number.setdefault(arrival.number, []).append(arrival)
    for number, arrivals in by_number.items():
        _check_counts(kernel, number, arrivals)


def _check_counts(kernel: Kernel, number: int, arrivals: list[BarrierArrival]) -> None:
    first = arrivals[0]
    distinct_masks: list[Array] = []
    for arrival in arrivals:
        if arrival.count != first.count:
            raise VerificationFailure(
                f"the named barrier {number} is of {arrival.count} instances here, and of "
                f"{first.count} on line {first.op.location.line}",
                arrival.op.location,
            )
        if arrival.count % kernel.subgroup_size:
            raise VerificationFailure(
                f"a named barrier is of whole subgroups of {kernel.subgroup_size}, not of "
                f"{arrival.count} instances",
                arrival.op.location,
            )
        if not arrival.lanes.any():
            raise VerificationFailure(
                f"no instance comes to this {arrival.op.name}", arrival.op.location
            )
        if any(np.array_equal(arrival.lanes, lanes) for lanes in distinct_masks):
            continue
        if any((arrival.lanes & lanes).any() for lanes in distinct_masks):
            raise VerificationFailure(
                f"some of the instances that come to the named barrier {number} here come to it "
                "elsewhere with others; let each come in one role",
                arrival.op.location,
            )
        distinct_masks.append(arrival.lanes)
    arriving_count = sum(int(lanes.sum()) for lanes in distinct_masks)
    if arriving_count != first.count:
        raise VerificationFailure(
            f"the named barrier {number} is of {first.count} instances, and "
            f"{arriving_count} come to it",
            first.op.location,
        )
    if not any(arrival.waits for arrival in arrivals):
        raise VerificationFailure(f"nobody waits at the named barrier {number}", first.op.location)
