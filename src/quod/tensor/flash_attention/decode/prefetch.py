"""Asynchronous copies of keys and values to shared memory, one step ahead.

There are too few registers to load a step ahead, and the assembler would move such loads behind
code that waits. An instance reads only what it copied itself, so it needs no barrier.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.frozen import frozen
from quod.kernel import Builder, Value
from quod.tensor.flash_attention.decode.lines import RowTile, both
from quod.tensor.flash_attention.decode.plan import STAGES, DecodePlan


@frozen(eq=False)
class LineAccesses:
    """The accesses of an instance to a tensor in a step.

    tensor: The pointer to the tensor of keys or of values.
    keys: The keys whose lines are read.
    access_indices: The indices of the accesses to each of the lines.
    """

    tensor: Value
    keys: list[Value]
    access_indices: list[Value]


class Prefetcher:
    """A ring of `STAGES` steps in shared memory, which one instance fills and reads.

    accesses: The number of accesses of the instance in a step.
    step: The number of keys of a step.
    accesses_of: Given the first key of a step, returns the accesses of the step.
    """

    def __init__(
        self, k: Builder, plan: DecodePlan, row_tile: RowTile, accesses: int, step: int,
        accesses_of: Callable[[Value], list[LineAccesses]],
    ) -> None:  # fmt: skip
        self._k, self._plan, self._row_tile, self._accesses = k, plan, row_tile, accesses
        self._step, self._accesses_of, self._words = step, accesses_of, row_tile.accesses.words
        size = STAGES * accesses * self._words * k.workgroup_size
        self.buffer = k.shared(row_tile.accesses.held, size)

    def start(self, first_key: Value, end_key: Value) -> None:
        """Start the copies of the first step of the keys from `first_key` to `end_key` - 1."""
        self._first_key, self._end_key = first_key, end_key
        self._copy(first_key)

    def wait_for(self, first_key: Value) -> list[Value]:
        """Wait for the step that begins at `first_key`, and start the copies of the next step.

        Returns the index of each access in shared memory.
        """
        self._k.copy_async_wait()
        self._copy(first_key + self._step)
        return [self._buffer_index(first_key, access) for access in range(self._accesses)]

    def _buffer_index(self, first_key: Value, access: int) -> Value:
        stage = (first_key - self._first_key) // self._step & (STAGES - 1)
        return (stage * self._accesses + access) * self._k.workgroup_size + self._k.local_id()

    def _copy(self, first_key: Value) -> None:
        """Start the copies of a step, with zeros for keys and elements out of range."""
        access = 0
        for line_accesses in self._accesses_of(first_key):
            for key in line_accesses.keys:
                offset, is_key = self.key(key)
                is_key = both(key < self._end_key, is_key)
                line = self._row_tile.at(line_accesses.tensor, offset)
                for access_index in line_accesses.access_indices:
                    in_range = (
                        is_key
                        if self._plan.full
                        else both(is_key, access_index < self._row_tile.width)
                    )
                    self._k.copy_async(
                        self.buffer, self._buffer_index(first_key, access) * self._words, line,
                        access_index * self._words, self._words, where=in_range,
                    )  # fmt: skip
                    access += 1
        self._k.copy_async_commit()

    def key(self, key: Value) -> tuple[Value, Value | None]:
        """Return the offset of a key as `RowTile.key` does; paged keys are clamped to the last."""
        if self._row_tile.paged:
            key = self._k.minimum(key, self._k.maximum(self._end_key, 1) - 1)
        return self._row_tile.key(key)
