"""What a workgroup of attention with few queries reads: its rows, and lines of keys and values.

Keys of a sequence lie one after the other, or in pages that a table names (Kwon et al., Efficient
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
    """What queries see, as of `AttentionForm`, and whether `sums` of each row are stored; whether
    keys are `split` into parts that another kernel combines; and how many keys a page has, 0 where
    keys are in no pages."""

    causal: bool = False
    lengths: bool = False
    sums: bool = False
    split: bool = False
    page_size: int = 0


@frozen(eq=False)
class Sizes:
    """Of a launch: keys of a sequence, of which lengths may leave fewer, and heads of them;
    elements of a head; `rows` of queries that share one; parts of the keys, and pages."""

    keys: Value
    heads: Value
    size: Value
    rows: Value
    parts: Value
    pages: Value


Grid = list[list[Value]]
"""By an instance's rows or keys, and its elements."""


class Share:
    """Rows of head `number` of keys, from `first` on, and what this instance has of lines."""

    def __init__(
        self, k: Builder, element: Type, plan: DecodePlan, form: DecodeForm, sizes: Sizes,
        number: Value, first: Value, table: Value | None,
    ) -> None:  # fmt: skip
        self._k, self._plan, self._form, self._sizes = k, plan, form, sizes
        self.number, self.first, self.rows = number, first, sizes.rows
        self.accesses = Accesses(k, element, plan.vector)
        self.word = u64 if k.machine.has(Capability.U64) else u32
        self.groups = k.workgroup_size // plan.across
        """Keys that the workgroup has at a time, each in instances beside each other."""
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
        """Whether keys are in pages."""
        return self._table is not None

    def row(self, number: Value | int) -> Value:
        """One of the rows, counted from the head's first; beyond the last it is that one."""
        return self._k.minimum(self.first + number, self.rows - 1)

    def of_rows(self, row: Value) -> Value:
        """The number of a row among those of all heads."""
        return self.number.cast(self.word) * self.rows.cast(self.word) + row.cast(self.word)

    def line(self, tensor: Value, row: Value) -> Value:
        """A pointer to a row in a tensor of all heads, as accesses take it."""
        return self.at(tensor, self.of_rows(row) * self._unit)

    def at(self, tensor: Value, offset: Value) -> Value:
        """The same to what `key` gives."""
        return self._k.pointer_add(self.accesses.of(tensor), offset)

    def place(self, number: int) -> tuple[Value, Value | None]:
        """Where an access of the instance is in a line, and whether it is there; None is yes."""
        at = self.own + number * self._plan.across
        if self._plan.full or number + 1 < self._plan.accesses:
            return at, None
        return self._k.minimum(at, self.width - 1), at < self.width

    def load(self, line: Value) -> list[Value]:
        """The instance's elements of a line, which is padded with zeros."""
        found: list[Value] = []
        for number in range(self._plan.accesses):
            place, there = self.place(number)
            values = self.accesses.load(line, place)
            if there is not None:
                values = tuple(self._k.select(there, value, 0.0) for value in values)
            found.extend(values)
        return found

    def queries(self, q: Value) -> Grid:
        """The instance's elements of the rows."""
        return [self.load(self.line(q, self.row(each))) for each in range(self._plan.rows)]

    def key(self, key: Value, *, own: bool = False) -> tuple[Value, Value | None]:
        """Where a key is in a tensor, and whether it is in a page that there is; None is yes.

        Instances beside each other ask for the same key, unless each has its `own`."""
        k, word = self._k, self.word
        if self._table is None:
            return self._begin + key.cast(word) * self._unit, None
        page = self._table[key // self._form.page_size]
        if self.groups == 1 and not own:
            page = k.uniform(page)
        begin = k.minimum(page, self._sizes.pages - 1).cast(word) * self._of_page + self._begin
        within = (key % self._form.page_size).cast(word) * self._unit
        return begin + within, page < self._sizes.pages

    def value(self, line: Value, there: Value | None) -> list[Value]:
        """The instance's elements of a line of values; what is in no page is zero."""
        found = self.load(line)
        return found if there is None else [self._k.select(there, one, 0.0) for one in found]


def both(one: Value | None, other: Value | None) -> Value | None:
    """Whether both conditions hold, where None always does."""
    if one is None or other is None:
        return one if other is None else other
    return one & other
