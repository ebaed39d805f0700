"""The layout of a sumcheck's tables in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckSizes

# Entries are ordered by table, then by sumcheck of the batch, then by index in the table.


class Inputs:
    """The tables before the first fold: those over the prime field in `base`, then `extended`."""

    def __init__(
        self, mixed: MixedField, shape: Shape, tables: InputTables, sizes: SumcheckSizes,
        number: Value,
    ) -> None:  # fmt: skip
        """Locate the tables of sumcheck `number` of a batch, of 2**log_size entries each."""
        self._mixed, self._in_base, self._tables = mixed, shape.in_base, tables
        self._batch, self._number, self._log_size = sizes.batch, number, sizes.log_size
        source = shape.source
        self._computed = 0 if source is None else source.tables
        self._reader = None if source is None else source.reader(mixed, tables, sizes.log_size)

    def load(self, table: int, index: Value) -> Any:
        """Load an entry, in the field of its table."""
        if self._reader is not None and table < self._computed:
            return self._reader.load(table, index)
        in_base = table < self._in_base
        position = table if in_base else table - max(self._in_base, self._computed)
        start = (position * self._batch + self._number).cast(types.u64) << self._log_size.cast(
            types.u64
        )
        if in_base:
            return self._mixed.base.load(self._tables.base, start + index.cast(types.u64))
        return self._mixed.extended.load(self._tables.extended, start + index.cast(types.u64))


class Folded:
    """The tables after a fold, all of them in the field of challenges."""

    def __init__(
        self, mixed: MixedField, memory: Value, batch: Value, number: Value, log_size: Value
    ) -> None:
        """Locate the tables of sumcheck `number` of a batch, at strides of 2**log_size entries."""
        self._f, self._memory = mixed.extended, memory
        self._batch, self._number, self._log_size = batch, number, log_size

    def _element_index(self, table: int, index: Value) -> Value:
        start = (table * self._batch + self._number).cast(types.u64) << self._log_size.cast(
            types.u64
        )
        return start + index.cast(types.u64)

    def load(self, table: int, index: Value) -> Any:
        """Load an entry."""
        return self._f.load(self._memory, self._element_index(table, index))

    def store(self, table: int, index: Value, element: Any) -> None:
        """Store an entry."""
        self._f.store(self._memory, self._element_index(table, index), element)


def fold(mixed: MixedField, low: Any, high: Any, challenge: Any) -> Any:
    """Return low + challenge * (high - low), in the field of challenges."""
    return mixed.add(mixed.multiply(challenge, high - low), low)


def fold_all(mixed: MixedField, entries: list[Any], challenges: Sequence[Any]) -> Any:
    """Fold one variable per challenge: return the value of 2**len(challenges) entries at them.

    The first variable is the highest bit of an entry's index.
    """
    for challenge in challenges:
        half = len(entries) // 2
        entries = [
            mixed.extended.bounded(fold(mixed, low, high, challenge))
            for low, high in zip(entries[:half], entries[half:], strict=True)
        ]
    return entries[0]
