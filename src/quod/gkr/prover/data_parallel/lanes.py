"""The entries and columns that an instance of a kernel over columns works on.

A column has 2**log_count entries, one for each instance of the circuit, contiguous in memory. The
kernel instances of a workgroup take adjacent entries of the same column, so that the column is
uniform. If a column has fewer entries than a workgroup has instances (`narrow`), the workgroup
takes several columns at a time.
"""

from __future__ import annotations

from quod.kernel import Builder, u32
from quod.kernel.ir.value import Value


class Lanes:
    """The work of a kernel instance.

    proof: the index of its proof.
    entry: the index of its entry in each column.
    first, step: its columns are `first`, `first + step`, and so on.
    groups: the number of workgroups per proof.
    group: the index of its workgroup among those of the proof.
    """

    def __init__(self, k: Builder, log_count: Value, chunks: Value, *, narrow: bool) -> None:
        """Divide the columns of each proof into `chunks` chunks, and their entries by workgroup."""
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
            columns_at_once = k.constant(size, u32) >> log_count
            self.entry = local & (self.count - 1)
            self.first = chunk * columns_at_once + (local >> log_count)
            self.step = chunks * columns_at_once
        else:
            self.entry = tile * size + local
            self.first, self.step = chunk, chunks
