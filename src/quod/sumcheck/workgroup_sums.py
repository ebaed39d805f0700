"""Sums of field elements over a workgroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.kernel.builder.builder import Builder
from quod.kernel.machine import Capability, Machine


class WorkgroupSums:
    """Sums of elements over all instances of a workgroup, through shared memory.

    Create it at the top of a kernel; the workgroup size must be a power of two. `totals` contains
    barriers. It does not end with a barrier, so two calls need a barrier between them.
    """

    def __init__(self, k: Builder, f: Any, value_count: int) -> None:
        """Reserve shared memory; `value_count` is the largest number of sums per `totals`."""
        self._k, self._f = k, f
        self._slots_per_value = _slot_count(k.machine)
        self._shared = k.shared(f.word_type, value_count * self._slots_per_value * f.word_count)

    @staticmethod
    def elements(machine: Machine, value_count: int) -> int:
        """Return the number of elements of shared memory that `value_count` sums need."""
        return value_count * _slot_count(machine)

    def totals(self, elements: Sequence[Any]) -> list[Any]:
        """Return the sum of each element over the workgroup, to every instance.

        All instances must call this: it has barriers.
        """
        elements = self._f.bounded_many(elements)
        if _has_shuffles(self._k.machine):
            return self._sum_by_subgroups(elements)
        return self._sum_by_halves(elements)

    def _sum_by_subgroups(self, elements: Sequence[Any]) -> list[Any]:
        """Sum over each subgroup with shuffles, then over the subgroups in shared memory."""
        k, f, value_count = self._k, self._f, len(elements)
        partial, distance = elements, k.subgroup_size // 2
        lanes_are_separate = not k.machine.has(Capability.VECTOR_LANES)
        while lanes_are_separate and distance and len(partial) % 2 == 0:
            partial = self._exchange_halves(partial, distance)
            distance //= 2
        # Each lane now has values_each partial sums; `lanes_per_value` adjacent lanes have sums of
        # the same values.
        values_each, lanes_per_value = len(partial), 2 * distance
        while distance:
            other_lanes = [self._from_lane(element, distance) for element in partial]
            partial = f.bounded_many([a + b for a, b in zip(partial, other_lanes, strict=True)])
            distance //= 2
        if self._slots_per_value == 1:
            return [
                self._broadcast(
                    partial[value_index % values_each], value_index // values_each * lanes_per_value
                )
                for value_index in range(value_count)
            ]
        lane = k.lane_id()
        with k.if_((lane & (lanes_per_value - 1)) == 0):
            for index, element in enumerate(partial):
                value_index = index + values_each * (lane >> (lanes_per_value.bit_length() - 1))
                f.store(
                    self._shared, k.subgroup_id() + value_index * self._slots_per_value, element
                )
        k.barrier()
        return [
            self._sum_slots(value_index, self._slots_per_value)
            for value_index in range(value_count)
        ]

    def _exchange_halves(self, elements: Sequence[Any], distance: int) -> list[Any]:
        """Halve the number of values per lane by an exchange with lane lane_id ^ distance.

        The lane with the lower number keeps the lower half of the values, the other lane the upper
        half. Each adds the other's partial sums of the values that it keeps.
        """
        f, half = self._f, len(elements) // 2
        is_upper_lane = (self._k.lane_id() & distance) != 0
        sums = []
        for lower, upper in zip(elements[:half], elements[half:], strict=True):
            kept, outgoing = (
                f.select(is_upper_lane, upper, lower),
                f.select(is_upper_lane, lower, upper),
            )
            sums.append(kept + self._from_lane(outgoing, distance))
        return list(f.bounded_many(sums))

    def _broadcast(self, element: Any, lane: int) -> Any:
        """Broadcast the element of a lane to all lanes."""
        limbs, _, rebuild = element.flatten()
        return rebuild([self._k.shuffle(limb, lane) for limb in limbs])

    def _from_lane(self, element: Any, distance: int) -> Any:
        """Return the element of lane lane_id ^ distance."""
        k = self._k
        limbs, _, rebuild = element.flatten()
        lane = k.lane_id() ^ distance
        return rebuild([k.shuffle(limb, lane) for limb in limbs])

    def _sum_by_halves(self, elements: Sequence[Any]) -> list[Any]:
        """Sum in shared memory: add the upper half of the instances' values to the lower half."""
        k, f = self._k, self._f
        local, count = k.local_id(), k.workgroup_size
        for value_index, element in enumerate(elements):
            f.store(self._shared, local + value_index * count, element)
        k.barrier()
        half = count // 2
        while half:
            with k.if_(local < half):
                for value_index in range(len(elements)):
                    index = local + value_index * count
                    f.store(
                        self._shared, index,
                        f.load(self._shared, index) + f.load(self._shared, index + half),
                    )  # fmt: skip
            k.barrier()
            half //= 2
        return [self._sum_slots(value_index, 1) for value_index in range(len(elements))]

    def _sum_slots(self, value_index: int, count: int) -> Any:
        """Add the first `count` partial sums of a value in shared memory."""
        f, total = self._f, None
        for index in range(count):
            element = f.load(self._shared, value_index * self._slots_per_value + index)
            total = element if total is None else f.bounded(total + element)
        return f.bounded(total)


def _has_shuffles(machine: Machine) -> bool:
    if machine.workgroup_size == 1 or not machine.has(Capability.SUBGROUPS):
        return False
    fits = machine.workgroup_size % machine.subgroup_size == 0
    return fits and not machine.has(Capability.SLOW_SUBGROUPS)


def _slot_count(machine: Machine) -> int:
    """Return the number of partial sums of a value in shared memory."""
    if _has_shuffles(machine):
        return machine.workgroup_size // machine.subgroup_size
    return machine.workgroup_size
