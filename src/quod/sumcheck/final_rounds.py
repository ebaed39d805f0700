"""The set-up that the kernels of the final rounds have in common.

One workgroup runs each sumcheck.
"""

from __future__ import annotations

from typing import Any

from quod.frozen import frozen
from quod.hash.words import Words
from quod.kernel.builder.builder import Builder
from quod.kernel.ir.value import Value
from quod.sumcheck.accumulators import accumulator_for
from quod.sumcheck.eq_tables import Equality
from quod.sumcheck.finish import RoundEnd
from quod.sumcheck.memory import PointCoordinates, Proof, SumcheckProgress, TermScales
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import SumcheckMemory, SumcheckSizes
from quod.sumcheck.workgroup_sums import WorkgroupSums


@frozen
class FinalForm:
    """The static parameters of the kernels of the final rounds.

    log_capacity: log2 of the number of entries of a table that shared memory has room for.
    from_inputs: the kernel reads the input tables, not folded ones.
    folds: number of pending folds: earlier rounds whose challenges have not folded the tables yet.
    in_place: the first round reads its tables in device memory, not in shared memory. They may have
        2 * 2**log_capacity entries.
    """

    shape: Shape
    log_capacity: int
    from_inputs: bool
    folds: int
    in_place: bool = False


class FinalRounds:
    """The memory of a workgroup in the final rounds; the kernels run the rounds.

    Shared memory holds the tables, with room for 2**log_capacity entries each. Device memory holds
    the sumcheck's arrays in the buffers `equality`, `progress` and `proof`
    (`quod.sumcheck.memory`). Create it at the top of a kernel.

    stride: entries from one table to the next, by default the capacity. It may be any value from
        the number of entries in use to the capacity.
    """

    def __init__(
        self, k: Builder, form: FinalForm, sizes: SumcheckSizes, memory: SumcheckMemory, *,
        stride: Value | None = None,
    ) -> None:  # fmt: skip
        shape, batch, log_size = form.shape, sizes.batch, sizes.log_size
        self.mixed = MixedField(k, shape.field)
        self.f, self.accumulator = self.mixed.extended, accumulator_for(self.mixed)
        self.sums, self.end = WorkgroupSums(k, self.f, shape.degree), RoundEnd(k, self.f, shape)
        capacity = 1 << form.log_capacity
        self._shape, self._stride = shape, capacity if stride is None else stride
        entries = shape.tables * capacity
        self.shared = k.shared(self.f.word_type, entries * self.f.word_count)
        self.sumcheck, self.local, self.lanes = k.workgroup_id(), k.local_id(), k.workgroup_size
        self.one = k.constant(1, log_size.type)
        self.progress = SumcheckProgress(self.f, memory.progress, batch, self.sumcheck, log_size)
        self.sent = Proof(self.f, memory.proof, batch, self.sumcheck, log_size, shape.degree)
        # One buffer, `equality`, holds the coordinates of the point, the eq tables and the terms'
        # scales.
        self.point = PointCoordinates(self.f, memory.equality, self.sumcheck, log_size)
        self.eq = Equality(self.f, memory.equality, sizes, self.sumcheck)
        self.scales = TermScales.load(self.f, shape, memory.equality, sizes, self.sumcheck)

    def load(self, table: int, index: Value) -> Any:
        """Load an entry from shared memory."""
        return self.f.load(self.shared, self.place(table, index))

    def store(self, table: int, index: Value, element: Any) -> None:
        """Store an entry in shared memory."""
        self.f.store(self.shared, self.place(table, index), element)

    def place(self, table: int, index: Value) -> Value:
        """Return the index of a table's entry in shared memory, in elements."""
        return index + self._stride * table

    def finish(self, state: Words, claim: Any) -> None:
        """Store the transcript's state and the claim, and the tables' values in the proof.

        The tables must have been folded to one entry each.
        """
        k = self.f.k
        with k.if_(self.local == 0):
            # The chain is the kernel's form of the transcript (`quod.transcript.chain`).
            self.progress.set_state(self.end.chain, state)
            self.progress.set_claim(claim)
            for table in range(self._shape.tables):
                self.sent.set_value(table, self.load(table, k.constant(0, self.one.type)))
