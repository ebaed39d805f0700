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

    def __init__(self, places: Sequence[BarrierPosition], memory: Memory, clocks: Clocks) -> None:
        self._places = places
        self._memory = memory
        self._clocks = clocks
        self._nobody = np.zeros(len(clocks.subgroup_of), np.bool_)
        self._come: dict[int, Array] = {}
        self._free: set[int] = set()

    def may_go(self, at: int, pending: Mapping[int, Array]) -> bool:
        """Return whether the lanes at a program position can run without waiting for others."""
        named = self._places[at].named
        if named is None or at in self._free or not named.waits:
            return True
        if (self._come.get(named.number, self._nobody) & pending[at]).any():
            return True  # an error follows: these lanes arrive for the second time
        return bool(np.count_nonzero(self._here(named.number, pending)) >= named.count)

    def come(self, at: int, mask: Array, pending: Mapping[int, Array]) -> None:
        """Let the lanes of a position arrive at its barrier and continue.

        InterpreterError if they arrive twice, or would wait for ever.
        """
        place = self._places[at]
        named, instruction = place.named, place.together
        assert named is not None
        assert instruction is not None
        if at in self._free:
            self._free.remove(at)
            return
        before = self._come.get(named.number, self._nobody)
        error = functools.partial(
            self._memory.place(instruction.location).error, int(np.argmax(mask))
        )
        again = "may come to a barrier again before the others have"
        waiting = self._waiting(named.number, pending)
        if any((before & who).any() for who in (mask, *(pending[place] for place in waiting))):
            raise error(again)
        here = self._here(named.number, pending) | mask
        is_last = np.count_nonzero(here) == named.count
        knows = True
        # Waiting lanes arrive together with the last ones; they have done nothing in between.
        for who, waits in (mask, named.waits), *((pending[place], True) for place in waiting):
            if is_last or not waits:
                knows &= self._clocks.come(named.number, who, waits=waits)
        if not knows:
            raise error(again)
        if is_last:
            self._come.pop(named.number, None)
            self._free.update(waiting)
            self._clocks.meet(named.number)
        elif named.waits:
            raise error(
                f"waits for ever at the named barrier {named.number}, to which "
                f"{np.count_nonzero(here)} instances have come",
            )
        else:
            self._come[named.number] = before | mask

    def _waiting(self, number: int, pending: Mapping[int, Array]) -> list[int]:
        """Return the positions at which lanes wait for a barrier."""
        named_positions = ((at, self._places[at].named) for at in pending if at not in self._free)
        return [
            at for at, named in named_positions if named and named.waits and named.number == number
        ]

    def _here(self, number: int, pending: Mapping[int, Array]) -> Array:
        here = self._come.get(number, self._nobody)
        for at in self._waiting(number, pending):
            here = here | pending[at]
        return here
