"""Asynchronous copies of keys and values to shared memory, one step ahead.

Registers cannot hold a step ahead, and the assembler moves loads after code that waits. Each
instance reads only what it copied itself, so that it waits for its own copies alone.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.frozen import frozen
from quod.kernel import Builder, Value
from quod.tensor.flash_attention.decode.lines import RowTile, both
from quod.tensor.flash_attention.decode.plan import STAGES, DecodePlan


@frozen(eq=False)
class Wanted:
    """The accesses of an instance to a tensor in a step: all `places` of each line of `keys`."""

    tensor: Value
    keys: list[Value]
    places: list[Value]


class Prefetcher:
    """The copies of an instance, one step ahead.

    `wanted(first)` returns the lines of the step that begins at key `first`, with `accesses`
    accesses in all.
    """

    def __init__(
        self, k: Builder, plan: DecodePlan, share: RowTile, accesses: int, step: int,
        wanted: Callable[[Value], list[Wanted]],
    ) -> None:  # fmt: skip
        self._k, self._plan, self._share, self._accesses = k, plan, share, accesses
        self._step, self._wanted, self._words = step, wanted, share.accesses.words
        size = STAGES * accesses * self._words * k.workgroup_size
        self.room = k.shared(share.accesses.held, size)

    def start(self, begin: Value, end: Value) -> None:
        """Start the copies of the first step of the keys from `begin` to `end` - 1."""
        self._begin, self._end = begin, end
        self._copy(begin)

    def wait_for(self, first: Value) -> list[Value]:
        """Wait for a step, start the next, and return the accesses' indices in shared memory."""
        self._k.copy_async_wait()
        self._copy(first + self._step)
        return [self._place(first, number) for number in range(self._accesses)]

    def _place(self, step: Value, number: int) -> Value:
        stage = (step - self._begin) // self._step & (STAGES - 1)
        return (stage * self._accesses + number) * self._k.workgroup_size + self._k.local_id()

    def _copy(self, step: Value) -> None:
        """Start the copies of a step, with zeros for keys and elements out of range."""
        number = 0
        for each in self._wanted(step):
            for key in each.keys:
                offset, there = self.key(key)
                there = both(key < self._end, there)
                line = self._share.at(each.tensor, offset)
                for place in each.places:
                    inside = there if self._plan.full else both(there, place < self._share.width)
                    self._k.copy_async(
                        self.room, self._place(step, number) * self._words, line,
                        place * self._words, self._words, where=inside,
                    )  # fmt: skip
                    number += 1
        self._k.copy_async_commit()

    def key(self, key: Value) -> tuple[Value, Value | None]:
        """Return the offset of a key as `RowTile.key` does; paged keys are clamped to the last."""
        if self._share.paged:
            key = self._k.minimum(key, self._k.maximum(self._end, 1) - 1)
        return self._share.key(key)
