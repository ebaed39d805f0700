"""The entries and columns that an instance of a kernel over columns works on.

A column has an entry for each of 2**log_count instances of the circuit, neighbours in memory. The
instances of a workgroup take neighbouring entries of the same column, so that the column is
uniform. If a column has fewer entries than a workgroup has instances (`narrow`), the workgroup
takes several columns.
"""

from __future__ import annotations

from quod.kernel import Builder, u32
from quod.kernel.ir.value import Value


class Lanes:
    """The work of a kernel instance: its `proof`, its `entry` in columns, and its columns, from
    `first` on every `step`-th one."""

    def __init__(self, k: Builder, log_count: Value, chunks: Value, *, narrow: bool) -> None:
        """Each proof has `groups` workgroups; `group` is the number of this one in its proof."""
        size, local = k.workgroup_size, k.local_id()
        self.count = k.constant(1, u32) << log_count
        """Entries of a column."""
        tiles = k.constant(1, u32) if narrow else self.count // size
        self.groups = tiles * chunks
        self.proof = k.workgroup_id() // self.groups
        self.group = k.workgroup_id() - self.proof * self.groups
        tile = self.group // chunks
        chunk = self.group - tile * chunks
        if narrow:
            side_by_side = k.constant(size, u32) >> log_count
            self.entry = local & (self.count - 1)
            self.first = chunk * side_by_side + (local >> log_count)
            self.step = chunks * side_by_side
        else:
            self.entry = tile * size + local
            self.first, self.step = chunk, chunks
