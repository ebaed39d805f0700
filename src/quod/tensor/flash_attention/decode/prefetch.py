"""Keys and values that come to shared memory a step before they are read, by who reads them.

Registers would have no room for a step's, and an assembler puts loads behind what waits for others.
No instance reads what another one copied, so that nobody waits but for himself.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.frozen import frozen
from quod.kernel import Builder, Value
from quod.tensor.flash_attention.decode.lines import Share, both
from quod.tensor.flash_attention.decode.plan import STAGES, DecodePlan


@frozen(eq=False)
class Wanted:
    """Lines of a tensor that an instance reads in a step: those of keys, and places in each."""

    tensor: Value
    keys: list[Value]
    places: list[Value]


class Ahead:
    """What an instance wants of the step that begins at a key: `wanted` says it, always in as many
    accesses of all lines together."""

    def __init__(
        self, k: Builder, plan: DecodePlan, share: Share, accesses: int, step: int,
        wanted: Callable[[Value], list[Wanted]],
    ) -> None:  # fmt: skip
        self._k, self._plan, self._share, self._accesses = k, plan, share, accesses
        self._step, self._wanted, self._words = step, wanted, share.accesses.words
        size = STAGES * accesses * self._words * k.workgroup_size
        self.room = k.shared(share.accesses.held, size)

    def start(self, begin: Value, end: Value) -> None:
        """Begins with the first step of the keys from `begin` on and below `end`."""
        self._begin, self._end = begin, end
        self._copy(begin)

    def come(self, first: Value) -> list[Value]:
        """Waits for a step, and begins the next; gives where the accesses are in shared memory."""
        self._k.copy_async_wait()
        self._copy(first + self._step)
        return [self._place(first, number) for number in range(self._accesses)]

    def _place(self, step: Value, number: int) -> Value:
        stage = (step - self._begin) // self._step & (STAGES - 1)
        return (stage * self._accesses + number) * self._k.workgroup_size + self._k.local_id()

    def _copy(self, step: Value) -> None:
        """Begins the copies of a step; zeros come for what is not there."""
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
        """As of a share; of keys in pages beyond the last one it is that of a key that is there."""
        if self._share.paged:
            key = self._k.minimum(key, self._k.maximum(self._end, 1) - 1)
        return self._share.key(key)
