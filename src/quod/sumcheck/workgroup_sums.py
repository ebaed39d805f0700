"""Sums of field elements over a workgroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.kernel.builder.builder import Builder
from quod.kernel.machine import Capability, Machine


class WorkgroupSums:
    """Sums of elements over all instances of a workgroup, through shared memory.

    Create it at the top of a kernel; the workgroup size is a power of two. Two uses need a barrier
    in between.
    """

    def __init__(self, k: Builder, f: Any, values: int) -> None:
        """`values` is how many sums are made at a time."""
        self._k, self._f = k, f
        self._each = _stored(k.machine)
        self._shared = k.shared(f.word_type, values * self._each * f.word_count)

    @staticmethod
    def elements(machine: Machine, values: int) -> int:
        """Elements of shared memory that it takes."""
        return values * _stored(machine)

    def totals(self, elements: Sequence[Any]) -> list[Any]:
        """Return the sums in every instance. All instances must call this."""
        elements = self._f.carried_many(elements)
        if _has_shuffles(self._k.machine):
            return self._by_subgroups(elements)
        return self._by_halves(elements)

    def _by_subgroups(self, elements: Sequence[Any]) -> list[Any]:
        """Over each subgroup by shuffles, then over the subgroups."""
        k, f, values = self._k, self._f, len(elements)
        parted, distance = elements, k.subgroup_size // 2
        halves = not k.machine.has(Capability.VECTOR_LANES)
        while halves and distance and len(parted) % 2 == 0:
            parted = self._parted(parted, distance)
            distance //= 2
        # Each lane has so many of the values, and so many neighbours have the same ones.
        values_each, alike = len(parted), 2 * distance
        while distance:
            others = [self._from_lane(element, distance) for element in parted]
            parted = f.carried_many([a + b for a, b in zip(parted, others, strict=True)])
            distance //= 2
        if self._each == 1:
            return [
                self._of_all(parted[value % values_each], value // values_each * alike)
                for value in range(values)
            ]
        lane = k.lane_id()
        with k.if_((lane & (alike - 1)) == 0):
            for place, element in enumerate(parted):
                value = place + values_each * (lane >> (alike.bit_length() - 1))
                f.store(self._shared, k.subgroup_id() + value * self._each, element)
        k.barrier()
        return [self._added(value, self._each) for value in range(values)]

    def _parted(self, elements: Sequence[Any], distance: int) -> list[Any]:
        """The lower half of the values in some lanes, the upper one in those a distance behind:
        each gives the other what it does not go on with."""
        f, half = self._f, len(elements) // 2
        is_behind = (self._k.lane_id() & distance) != 0
        sums = []
        for lower, upper in zip(elements[:half], elements[half:], strict=True):
            kept, outgoing = f.select(is_behind, upper, lower), f.select(is_behind, lower, upper)
            sums.append(kept + self._from_lane(outgoing, distance))
        return list(f.carried_many(sums))

    def _of_all(self, element: Any, lane: int) -> Any:
        """Broadcast the element of a lane to all lanes."""
        limbs, _, rebuild = element.flatten()
        return rebuild([self._k.shuffle(limb, lane) for limb in limbs])

    def _from_lane(self, element: Any, distance: int) -> Any:
        """Return the element of lane lane_id ^ distance."""
        k = self._k
        limbs, _, rebuild = element.flatten()
        lane = k.lane_id() ^ distance
        return rebuild([k.shuffle(limb, lane) for limb in limbs])

    def _by_halves(self, elements: Sequence[Any]) -> list[Any]:
        """Add the upper half to the lower half until one instance is left."""
        k, f = self._k, self._f
        local, count = k.local_id(), k.workgroup_size
        for value, element in enumerate(elements):
            f.store(self._shared, local + value * count, element)
        k.barrier()
        half = count // 2
        while half:
            with k.if_(local < half):
                for value in range(len(elements)):
                    place = local + value * count
                    f.store(
                        self._shared, place,
                        f.load(self._shared, place) + f.load(self._shared, place + half),
                    )  # fmt: skip
            k.barrier()
            half //= 2
        return [self._added(value, 1) for value in range(len(elements))]

    def _added(self, value: int, count: int) -> Any:
        """The sum of what stands first of a value."""
        f, total = self._f, None
        for place in range(count):
            part = f.load(self._shared, value * self._each + place)
            total = part if total is None else f.carried(total + part)
        return f.carried(total)


def _has_shuffles(machine: Machine) -> bool:
    if machine.workgroup_size == 1 or not machine.has(Capability.SUBGROUPS):
        return False
    fits = machine.workgroup_size % machine.subgroup_size == 0
    return fits and not machine.has(Capability.SLOW_SUBGROUPS)


def _stored(machine: Machine) -> int:
    """Elements of a value in shared memory."""
    if _has_shuffles(machine):
        return machine.workgroup_size // machine.subgroup_size
    return machine.workgroup_size
