"""The named barriers of one workgroup: arrivals, and the lanes that can continue."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array
from quod.codegen.ptx.interpreter.collectives import NamedBarrier
from quod.codegen.ptx.interpreter.memory import Memory
from quod.codegen.ptx.interpreter.parse import Instruction
from quod.kernel.interpreter.clocks import Clocks


class BarrierPosition(Protocol):
    """A program position that may begin with a named barrier."""

    @property
    def together(self) -> Instruction | None: ...

    @property
    def named(self) -> NamedBarrier | None: ...


class NamedBarriers:
    """The state of the named barriers; `pending` maps positions to the lanes that wait there."""

    def __init__(
        self, positions: Sequence[BarrierPosition], memory: Memory, clocks: Clocks
    ) -> None:
        self._positions = positions
        self._memory = memory
        self._clocks = clocks
        self._no_lanes = np.zeros(len(clocks.subgroup_of), np.bool_)
        self._arrived: dict[int, Array] = {}
        self._released: set[int] = set()

    def may_go(self, position: int, pending: Mapping[int, Array]) -> bool:
        """Return whether the lanes at a program position can run without waiting for others."""
        named = self._positions[position].named
        if named is None or position in self._released or not named.waits:
            return True
        if (self._arrived.get(named.number, self._no_lanes) & pending[position]).any():
            return True  # an error follows: these lanes arrive for the second time
        return bool(
            np.count_nonzero(self._arrived_or_waiting(named.number, pending)) >= named.count
        )

    def come(self, position: int, mask: Array, pending: Mapping[int, Array]) -> None:
        """Let the lanes of a position arrive at its barrier and continue.

        InterpreterError if they arrive twice, or would wait for ever.
        """
        barrier_position = self._positions[position]
        named, instruction = barrier_position.named, barrier_position.together
        assert named is not None
        assert instruction is not None
        if position in self._released:
            self._released.remove(position)
            return
        arrived = self._arrived.get(named.number, self._no_lanes)
        error = functools.partial(
            self._memory.place(instruction.location).error, int(np.argmax(mask))
        )
        repeated_arrival = "may come to a barrier again before the others have"
        waiting = self._waiting(named.number, pending)
        if any((arrived & lanes).any() for lanes in (mask, *(pending[index] for index in waiting))):
            raise error(repeated_arrival)
        present = self._arrived_or_waiting(named.number, pending) | mask
        is_last = np.count_nonzero(present) == named.count
        is_ordered = True
        # Arrivals of waiting lanes are recorded with the last ones: these lanes have done nothing
        # since they came.
        for lanes, waits in (
            (mask, named.waits),
            *((pending[index], True) for index in waiting),
        ):
            if is_last or not waits:
                is_ordered &= self._clocks.come(named.number, lanes, waits=waits)
        if not is_ordered:
            raise error(repeated_arrival)
        if is_last:
            self._arrived.pop(named.number, None)
            self._released.update(waiting)
            self._clocks.meet(named.number)
        elif named.waits:
            raise error(
                f"waits for ever at the named barrier {named.number}, to which "
                f"{np.count_nonzero(present)} instances have come",
            )
        else:
            self._arrived[named.number] = arrived | mask

    def _waiting(self, number: int, pending: Mapping[int, Array]) -> list[int]:
        """Return the positions at which lanes wait for a barrier."""
        named_positions = (
            (position, self._positions[position].named)
            for position in pending
            if position not in self._released
        )
        return [
            position
            for position, named in named_positions
            if named and named.waits and named.number == number
        ]

    def _arrived_or_waiting(self, number: int, pending: Mapping[int, Array]) -> Array:
        present = self._arrived.get(number, self._no_lanes)
        for position in self._waiting(number, pending):
            present = present | pending[position]
        return present
