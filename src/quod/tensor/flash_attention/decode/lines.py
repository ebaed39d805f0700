"""The data that a decode workgroup reads: its rows of queries, and lines of keys and values.

The keys of a sequence are contiguous, or in pages that a table lists (Kwon et al., Efficient memory
management for large language model serving with PagedAttention, 2023).
"""

from __future__ import annotations

from quod.frozen import frozen
from quod.kernel import Builder, Value, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses
from quod.tensor.flash_attention.decode.plan import DecodePlan


@frozen
class DecodeForm:
    """The masks, outputs and memory layout of a decode kernel.

    causal: A query sees no later keys.
    lengths: Sequences have lengths of their own.
    sums: The logarithm of each row's sum is stored.
    split: Keys are split into parts, which another kernel combines.
    page_size: Keys of a page; 0 if keys are not paged.
    """

    causal: bool = False
    lengths: bool = False
    sums: bool = False
    split: bool = False
    page_size: int = 0


@frozen(eq=False)
class Sizes:
    """The sizes of a launch.

    keys: The most keys of a sequence.
    heads: Heads of keys of a sequence.
    size: Elements of a head.
    rows: Rows of queries that share a head of keys.
    parts: Parts of the keys.
    pages: Pages in memory.
    """

    keys: Value
    heads: Value
    size: Value
    rows: Value
    parts: Value
    pages: Value


Grid = list[list[Value]]
"""Indexed by the instance's rows or keys, then by its elements."""


class RowTile:
    """A tile of rows of one head of keys, and the instance's share of its lines.

    number: The index of the head among the heads of all sequences.
    first: The first row of the tile.
    """

    def __init__(
        self, k: Builder, element: Type, plan: DecodePlan, form: DecodeForm, sizes: Sizes,
        number: Value, first: Value, table: Value | None,
    ) -> None:  # fmt: skip
        self._k, self._plan, self._form, self._sizes = k, plan, form, sizes
        self.number, self.first, self.rows = number, first, sizes.rows
        self.accesses = Accesses(k, element, plan.vector)
        self.word = u64 if k.machine.has(Capability.U64) else u32
        self.groups = k.workgroup_size // plan.across
        """Keys that the workgroup processes at a time, each by adjacent instances."""
        self.group, self.own = k.constant(0, u32), k.local_id()
        if self.groups > 1:
            self.group, self.own = self.own // plan.across, self.own % plan.across
        self.width = sizes.size // plan.vector
        """Accesses of a line."""
        self._unit = (self.width * self.accesses.words).cast(self.word)
        keys = sizes.keys.cast(self.word) * self._unit
        self._begin, self._table = number.cast(self.word) * keys, table
        if table is not None:
            most = (sizes.keys // form.page_size).cast(self.word)
            self._table = k.pointer_add(table, (number // sizes.heads).cast(self.word) * most)
            of_head = self._unit * form.page_size
            self._begin = (number % sizes.heads).cast(self.word) * of_head
            self._of_page = sizes.heads.cast(self.word) * of_head

    @property
    def paged(self) -> bool:
        """True if keys are in pages."""
        return self._table is not None

    def row(self, number: Value | int) -> Value:
        """Return the index of a row within its head, clamped to the last row."""
        return self._k.minimum(self.first + number, self.rows - 1)

    def of_rows(self, row: Value) -> Value:
        """Return the index of a row among the rows of all heads."""
        return self.number.cast(self.word) * self.rows.cast(self.word) + row.cast(self.word)

    def line(self, tensor: Value, row: Value) -> Value:
        """Return the pointer, for `accesses`, to a row in a tensor of all heads."""
        return self.at(tensor, self.of_rows(row) * self._unit)

    def at(self, tensor: Value, offset: Value) -> Value:
        """Return the pointer, for `accesses`, to an offset that `key` returned."""
        return self._k.pointer_add(self.accesses.of(tensor), offset)

    def place(self, number: int) -> tuple[Value, Value | None]:
        """Return the index of an access in a line, and whether it is in range (None: always)."""
        at = self.own + number * self._plan.across
        if self._plan.full or number + 1 < self._plan.accesses:
            return at, None
        return self._k.minimum(at, self.width - 1), at < self.width

    def load(self, line: Value) -> list[Value]:
        """Load the instance's elements of a line, padded with zeros."""
        elements: list[Value] = []
        for number in range(self._plan.accesses):
            place, there = self.place(number)
            values = self.accesses.load(line, place)
            if there is not None:
                values = tuple(self._k.select(there, value, 0.0) for value in values)
            elements.extend(values)
        return elements

    def queries(self, q: Value) -> Grid:
        """Load the instance's elements of the rows."""
        return [self.load(self.line(q, self.row(each))) for each in range(self._plan.rows)]

    def key(self, key: Value, *, per_instance: bool = False) -> tuple[Value, Value | None]:
        """Return the offset of a key in a tensor, and whether its page exists (None: always).

        All instances of a workgroup with one group ask for the same key, except with
        `per_instance`.
        """
        k, word = self._k, self.word
        if self._table is None:
            return self._begin + key.cast(word) * self._unit, None
        page = self._table[key // self._form.page_size]
        if self.groups == 1 and not per_instance:
            page = k.uniform(page)
        begin = k.minimum(page, self._sizes.pages - 1).cast(word) * self._of_page + self._begin
        within = (key % self._form.page_size).cast(word) * self._unit
        return begin + within, page < self._sizes.pages

    def value(self, line: Value, there: Value | None) -> list[Value]:
        """Load the instance's elements of a line of values; zeros if the page does not exist."""
        elements = self.load(line)
        return (
            elements
            if there is None
            else [self._k.select(there, element, 0.0) for element in elements]
        )


def both(first: Value | None, other: Value | None) -> Value | None:
    """Return the conjunction of two conditions, where None means true."""
    if first is None or other is None:
        return first if other is None else other
    return first & other
