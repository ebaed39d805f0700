"""The operands of a decode workgroup: rows of queries, and lines of keys and values.

The keys of a sequence are contiguous, or in pages that a page table lists (Kwon et al., Efficient
memory management for large language model serving with PagedAttention, 2023).
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
    lengths: A kernel argument gives the number of keys of each sequence.
    sums: The kernel stores log(sum(exp(logits))) of each row.
    split: The keys are split into parts, whose results another kernel combines.
    page_size: The number of keys of a page; 0 if keys are not paged.
    """

    causal: bool = False
    lengths: bool = False
    sums: bool = False
    split: bool = False
    page_size: int = 0


@frozen(eq=False)
class Sizes:
    """The sizes of a launch.

    keys: The maximum number of keys of a sequence.
    heads: The number of key heads of a sequence.
    size: The number of elements of a head.
    rows: The number of rows of queries that share a key head.
    parts: The number of parts of the keys.
    pages: The number of pages in memory.
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
    """A tile of rows that share a key head, and this instance's part of rows and lines.

    number: The index of the key head among the key heads of all sequences.
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
        """The groups of adjacent instances in the workgroup, each of which processes one key."""
        self.group, self.own = k.constant(0, u32), k.local_id()
        if self.groups > 1:
            self.group, self.own = self.own // plan.across, self.own % plan.across
        self.width = sizes.size // plan.vector
        """Accesses of a line."""
        self._line_words = (self.width * self.accesses.words).cast(self.word)
        keys = sizes.keys.cast(self.word) * self._line_words
        self._first_offset, self._table = number.cast(self.word) * keys, table
        if table is not None:
            max_pages = (sizes.keys // form.page_size).cast(self.word)
            self._table = k.pointer_add(table, (number // sizes.heads).cast(self.word) * max_pages)
            page_words = self._line_words * form.page_size
            self._first_offset = (number % sizes.heads).cast(self.word) * page_words
            self._page_words = sizes.heads.cast(self.word) * page_words

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
        """Return the pointer, for `accesses`, to a row in a tensor with the shape of q."""
        return self.at(tensor, self.of_rows(row) * self._line_words)

    def at(self, tensor: Value, offset: Value) -> Value:
        """Return the pointer, for `accesses`, to an offset that `key` returned."""
        return self._k.pointer_add(self.accesses.of(tensor), offset)

    def access_index(self, number: int) -> tuple[Value, Value | None]:
        """Return the index of an access in a line, and whether it is in range (None: always)."""
        access = self.own + number * self._plan.across
        if self._plan.full or number + 1 < self._plan.accesses:
            return access, None
        return self._k.minimum(access, self.width - 1), access < self.width

    def load(self, line: Value) -> list[Value]:
        """Load the instance's elements of a line, padded with zeros."""
        elements: list[Value] = []
        for access in range(self._plan.accesses):
            access_index, in_range = self.access_index(access)
            values = self.accesses.load(line, access_index)
            if in_range is not None:
                values = tuple(self._k.select(in_range, value, 0.0) for value in values)
            elements.extend(values)
        return elements

    def queries(self, q: Value) -> Grid:
        """Load the instance's elements of the rows."""
        return [self.load(self.line(q, self.row(row))) for row in range(self._plan.rows)]

    def key(self, key: Value, *, per_instance: bool = False) -> tuple[Value, Value | None]:
        """Return the word offset of a key in a tensor, and whether its page exists (None: always).

        In a workgroup with one group, all instances must pass the same key, unless `per_instance`
        is true.
        """
        k, word = self._k, self.word
        if self._table is None:
            return self._first_offset + key.cast(word) * self._line_words, None
        page = self._table[key // self._form.page_size]
        if self.groups == 1 and not per_instance:
            page = k.uniform(page)
        page_start = (
            k.minimum(page, self._sizes.pages - 1).cast(word) * self._page_words
            + self._first_offset
        )
        offset_in_page = (key % self._form.page_size).cast(word) * self._line_words
        return page_start + offset_in_page, page < self._sizes.pages

    def value(self, line: Value, exists: Value | None) -> list[Value]:
        """Load the instance's elements of a line; zeros if `exists` is false."""
        elements = self.load(line)
        return (
            elements
            if exists is None
            else [self._k.select(exists, element, 0.0) for element in elements]
        )


def both(first: Value | None, other: Value | None) -> Value | None:
    """Return the conjunction of two conditions, where None means true."""
    if first is None or other is None:
        return first if other is None else other
    return first & other
