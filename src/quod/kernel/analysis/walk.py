"""Abstract interpretation of a kernel over the lanes of one workgroup.

A `Lanes` represents the values of all lanes. Carried values of loops are iterated to a fixed point
before the body is analysed once. Device functions are analysed at each call, unless they only
compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from quod.frozen import frozen
from quod.kernel.analysis.access import SECTOR, Access, traffic
from quod.kernel.analysis.lane_rules import combine
from quod.kernel.analysis.lanes import WARP, Lanes, Reason, known, shared_unknown, varying
from quod.kernel.analysis.mix import Mix, computing
from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op, walk
from quod.kernel.ir.types import PointerType, is_private
from quod.kernel.ir.value import Value
from quod.kernel.ops.definition import AccessKind
from quod.kernel.ops.scalar import OPS
from quod.kernel.ops.semantics import Array

_BUFFER_ALIGNMENT = 256
"""The assumed alignment of arrays in device memory, in bytes."""


@frozen
class Divergence:
    """A branch or loop exit at which lanes of one warp diverge."""

    form: Literal["branch", "loop"]
    location: Location
    reason: Reason | None
    """The source of the divergence; None if it depends on the lane's index alone."""
    warps: int
    """The number of warps that diverge; all of the workgroup's if not known."""


@dataclass
class Findings:
    """The accesses, divergences and instruction mix found in a kernel."""

    accesses: list[Access] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)
    mix: Mix = field(default_factory=Mix)


def follow(kernel: Kernel) -> Findings:
    """Analyse the accesses, divergence and instruction mix of a kernel."""
    walker = _Walker(kernel)
    all_lanes = np.ones(kernel.workgroup_size, np.bool_)
    walker.findings.mix = walker.visit(kernel.block, all_lanes)
    return walker.findings


class _Walker:
    def __init__(self, kernel: Kernel) -> None:
        self._size = kernel.workgroup_size
        self._values: dict[Value, Lanes] = {}
        self.findings = Findings()
        self._fixed_point_depth = 0
        self._accessing_functions: dict[int, bool] = {}
        self._function_mixes: dict[int, Mix] = {}
        for argument in kernel.block.arguments:
            multiple = _BUFFER_ALIGNMENT if isinstance(argument.type, PointerType) else 1
            self._values[argument] = shared_unknown(self._size, multiple)

    def get(self, value: Value) -> Lanes:
        lanes = self._values.get(value)
        if lanes is None:
            number = value.constant
            if number is not None and not isinstance(number, float) and abs(number) < 1 << 60:
                lanes = known(np.full(self._size, int(number)))
            else:
                lanes = shared_unknown(self._size)
            self._values[value] = lanes
        return lanes

    def _set(self, values: Sequence[Value], lanes: Sequence[Lanes]) -> None:
        self._values.update(zip(values, lanes, strict=True))

    def visit(self, block: Block, active: Array) -> Mix:
        """Analyse a region; return its instruction mix per instance."""
        mix = Mix(computing(block))
        for op in block.ops:
            if op.name != "const":
                self._visit(op, active, mix)
        return mix

    def _visit(self, op: Op, active: Array, mix: Mix) -> None:
        row, operands = op.definition, [self.get(operand) for operand in op.operands]
        subgroup_operands = row.subgroup_operands
        if op.regions:
            self._control(op, active, mix)
        elif op.name == "call":
            self._call(op, operands, active, mix)
        elif row.access is not None:
            self._access(row.access, op, active, mix)
        elif row.declares is not None:
            # Declared arrays are assumed to be aligned for all accesses.
            self._set(op.results, [shared_unknown(self._size, 1 << 30)])
        elif row.derives_pointer:
            self._derive(op)
        elif row.varies == "always" and not operands:
            # The op `local_id`: the index of the instance in its workgroup.
            self._set(op.results, [known(np.arange(self._size))])
        elif row.varies == "always":
            self._set(op.results, [varying("data", op.location)] * len(op.results))
        elif row.varies == "never" or subgroup_operands == ():
            self._set(op.results, [shared_unknown(self._size)])
        elif subgroup_operands is not None:
            self._set(op.results, [varying("other lane", op.location)])
        else:
            self._compute(op, operands)

    def _compute(self, op: Op, operands: list[Lanes]) -> None:
        if not op.results:
            return
        if not operands:
            self._set(op.results, [shared_unknown(self._size)] * len(op.results))
            return
        # A second result is a carry, which is uniform if the first result is.
        first = combine(op, operands)
        self._set(op.results, [first, *[_carry(first, op, self._size)] * (len(op.results) - 1)])

    # --- memory

    def _derive(self, op: Op) -> None:
        pointer, *index = op.operands
        self._values[op.results[0]] = (
            self._address(op, pointer, index[0]) if index else self.get(pointer)
        )

    def _address(self, op: Op, pointer: Value, index: Value) -> Lanes:
        assert isinstance(pointer.type, PointerType)
        size = known(np.full(self._size, pointer.type.element.bytes))
        product, total = _address_op("mul", op, index), _address_op("add", op, index)
        return combine(total, [self.get(pointer), combine(product, [self.get(index), size])])

    def _access(self, kind: AccessKind, op: Op, active: Array, mix: Mix) -> None:
        if kind == "load":
            self._load(op, active, mix)
            return
        count = 1 if kind == "atomic" else int(op.attributes.get("count", len(op.operands) - 2))
        if op.name == "store_matrices":
            # Only eight instances per matrix supply an address, each of a row of four words.
            active = active & (np.arange(self._size) % WARP < 8 * count)
            count = 4
        for pointer_index in reversed(op.definition.pointers):
            self._record_access(
                kind, op, op.operands[pointer_index : pointer_index + 2], count, active, mix
            )
        self._set(op.results, [varying("data", op.location)] * len(op.results))

    def _load(self, op: Op, active: Array, mix: Mix) -> None:
        address = self._record_access("load", op, op.operands, len(op.results), active, mix)
        for result in op.results:
            self._values[result] = (
                shared_unknown(self._size)
                if address.uniform and not is_private(op.operands[0].type)
                else varying("data", op.location)
            )

    def _record_access(
        self, verb: AccessKind, op: Op,
        element: Sequence[Value], count: int, active: Array, mix: Mix,
    ) -> Lanes:  # fmt: skip
        pointer, index = element
        assert isinstance(pointer.type, PointerType)
        size = pointer.type.element.bytes
        address = self._address(op, pointer, index)
        space = pointer.type.space
        if self._fixed_point_depth or space == "private" or space == "constant":
            return address
        access = Access(verb, space, op.location, size * count, size, address, active)
        self.findings.accesses.append(access)
        if space == "shared":
            mix.counts["shared"] += access.bytes
            return address
        mix.counts["loaded" if verb in ("load", "copy") else "stored"] += access.bytes
        warp_traffic = traffic(access)
        if warp_traffic is not None:
            lanes = min(WARP, self._size)
            mix.counts["moved"] += round(
                max(warp_traffic.sectors, warp_traffic.least) * SECTOR / lanes
            )
        return address

    # --- functions

    def _accesses_or_branches(self, function: Function) -> bool:
        """Return whether a function accesses memory or branches."""
        key = id(function)
        if key not in self._accessing_functions:
            self._accessing_functions[key] = any(
                op.regions
                or op.definition.access
                or (op.name == "call" and self._accesses_or_branches(op.attributes["function"]))
                for op in walk(function.block)
            )
        return self._accessing_functions[key]

    def _call(self, op: Op, operands: list[Lanes], active: Array, mix: Mix) -> None:
        function: Function = op.attributes["function"]
        if self._accesses_or_branches(function):
            self._set(function.block.arguments, operands)
            mix.include(self.visit(function.block, active))
            self._set(op.results, [self.get(value) for value in function.block.yielded])
            return
        mix.include(self._function_mix(function))
        varying_lanes = next((operand for operand in operands if operand.offsets is None), None)
        if varying_lanes is None and not all(operand.uniform for operand in operands):
            varying_lanes = varying("arithmetic", op.location)
        for result in op.results:
            self._values[result] = varying_lanes or shared_unknown(self._size)

    def _function_mix(self, function: Function) -> Mix:
        key = id(function)
        if key not in self._function_mixes:
            mix = Mix(computing(function.block))
            for op in function.block.ops:
                if op.name == "call":
                    mix.include(self._function_mix(op.attributes["function"]))
            self._function_mixes[key] = mix
        return self._function_mixes[key]

    # --- control flow

    def _divided_warps(self, mask: Array, active: Array) -> int:
        """Return the number of warps with active lanes both inside and outside a mask."""
        warps = range(0, self._size, WARP)
        return sum(
            bool(
                (mask & active)[start : start + WARP].any()
                and (~mask & active)[start : start + WARP].any()
            )
            for start in warps
        )

    def _record_divergence(
        self, form: Literal["branch", "loop"], op: Op, condition: Lanes, active: Array
    ) -> None:
        if self._fixed_point_depth or condition.uniform_in_warps:
            return
        if condition.offsets is not None:
            warps = self._divided_warps(condition.offsets != 0, active)
            if warps:
                self.findings.divergences.append(Divergence(form, op.location, None, warps))
            return
        warps = -(-self._size // WARP)
        divergence = Divergence(form, op.location, condition.reason, warps)
        self.findings.divergences.append(divergence)

    def _control(self, op: Op, active: Array, mix: Mix) -> None:
        if not op.definition.repeats:
            self._if(op, active, mix)
        elif op.definition.condition_operands:
            self._for(op, active, mix)
        else:
            self._while(op, active, mix)

    def _if(self, op: Op, active: Array, mix: Mix) -> None:
        condition = self.get(op.operands[0])
        self._record_divergence("branch", op, condition, active)
        masks = [active, active]
        if condition.known:
            assert condition.offsets is not None
            holds = condition.offsets != 0
            masks = [active & holds, active & ~holds]
        sides = []
        for region, mask in zip(op.regions, masks, strict=True):
            side = self.visit(region, mask)
            if mask.any():
                # Both sides count: a divergent warp runs both.
                mix.include(side)
            sides.append([self.get(value) for value in region.yielded])
        for result, a, b in zip(op.results, *sides, strict=True):
            self._values[result] = self._joined(op, condition, a, b)

    def _joined(self, op: Op, condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
        if a.offsets is None or b.offsets is None:
            return a if a.offsets is None else b
        if condition.known and a.base == b.base:
            assert condition.offsets is not None
            return Lanes(
                np.where(condition.offsets != 0, a.offsets, b.offsets), a.base,
                min(a.multiple, b.multiple),
            )  # fmt: skip
        if condition.uniform and (a.offsets == b.offsets).all():
            return Lanes(a.offsets, object(), min(a.multiple, b.multiple))
        if condition.reason is not None and condition.reason.kind == "data":
            return Lanes(None, reason=condition.reason)
        return varying("control", op.location)

    def _set_carried(self, arguments: Sequence[Value], initial: list[Lanes], op: Op) -> None:
        """Set a loop's carried values to a fixed point, which holds in every iteration."""
        *_, last = op.regions
        state = [_any_iteration(lanes) for lanes in initial]
        all_lanes = np.ones(self._size, np.bool_)
        self._fixed_point_depth += 1
        # Each pass but the last one or two loses the offsets of at least one more value.
        for _ in range(len(arguments) + 2):
            self._set(arguments, state)
            for region in op.regions:
                self.visit(region, all_lanes)
            next_values = [self.get(value) for value in last.yielded]
            joined = [_joined_iterations(a, b, op) for a, b in zip(state, next_values, strict=True)]
            if all(_equal_offsets(a, b) for a, b in zip(state, joined, strict=True)):
                break
            state = joined
        self._fixed_point_depth -= 1
        self._set(arguments, state)

    def _for(self, op: Op, active: Array, mix: Mix) -> None:
        start, stop, step = (self.get(value) for value in op.operands[:3])
        (body,) = op.regions
        index, *carried = body.arguments
        self._values[index] = _index(start, step, op)
        self._set_carried(carried, [self.get(value) for value in op.operands[3:]], op)
        self._record_divergence("loop", op, self._loop_condition(start, stop, step, op), active)
        iteration_mix = self.visit(body, active)
        numbers = [lanes.number for lanes in (start, stop, step)]
        if None not in numbers:
            first, end, increment = (int(n) for n in numbers if n is not None)
            mix.include(iteration_mix, max(0, -(-(end - first) // increment)))
        else:
            mix.loops.append((op.location, iteration_mix))
        self._set_results(op, carried)

    def _loop_condition(self, start: Lanes, stop: Lanes, step: Lanes, op: Op) -> Lanes:
        """Return a stand-in for a loop's condition.

        It is uniform if all lanes run the same number of iterations.
        """
        for lanes in (start, stop, step):
            if lanes.offsets is None:
                return lanes
        assert start.offsets is not None
        assert stop.offsets is not None
        if step.uniform and (np.diff(start.offsets) == np.diff(stop.offsets)).all():
            return shared_unknown(self._size)
        by_warp = all(lanes.uniform_in_warps for lanes in (start, stop, step))
        return Lanes(None, reason=Reason("boundary", op.location), by_warp=by_warp)

    def _while(self, op: Op, active: Array, mix: Mix) -> None:
        head, body = op.regions
        self._set_carried(head.arguments, [self.get(value) for value in op.operands], op)
        iteration_mix = self.visit(head, active)
        self._record_divergence("loop", op, self.get(head.yielded[0]), active)
        iteration_mix.include(self.visit(body, active))
        mix.loops.append((op.location, iteration_mix))
        self._set_results(op, head.arguments)

    def _set_results(self, op: Op, carried: Sequence[Value]) -> None:
        for result, argument in zip(op.results, carried, strict=True):
            self._values[result] = self.get(argument)


def _address_op(name: str, op: Op, value: Value) -> Op:
    """Make an op for address arithmetic, which the kernel does not contain."""
    return Op(OPS[name], (value, value), (value,), {}, (), op.location)


def _carry(first: Lanes, op: Op, size: int) -> Lanes:
    if first.uniform:
        return shared_unknown(size)
    return first if first.offsets is None else varying("arithmetic", op.location)


def _any_iteration(lanes: Lanes) -> Lanes:
    """Generalise an initial value to any iteration: the base becomes unknown."""
    if lanes.offsets is None:
        return lanes
    offsets = lanes.offsets - lanes.offsets[0]
    return Lanes(offsets, object(), 1)


def _equal_offsets(a: Lanes, b: Lanes) -> bool:
    if a.offsets is None or b.offsets is None:
        return a.offsets is None and b.offsets is None
    return bool((a.offsets == b.offsets).all())


def _joined_iterations(first: Lanes, following: Lanes, op: Op) -> Lanes:
    """Return the join of a carried value before and after an iteration."""
    if first.offsets is None:
        return first
    if following.offsets is None:
        return following
    if (np.diff(first.offsets) == np.diff(following.offsets)).all():
        return first
    return varying("control", op.location)


def _index(start: Lanes, step: Lanes, op: Op) -> Lanes:
    """Return the index of a loop in any iteration: its start plus a multiple of the step."""
    if start.offsets is None:
        return start
    if not step.uniform:
        return varying("stride", op.location)
    assert step.offsets is not None
    factor = step.number if step.number is not None else step.multiple
    return Lanes(start.offsets, object(), min(start.multiple, factor & -factor))
