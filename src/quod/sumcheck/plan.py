"""Plans of batches of sumchecks: the launches from tables in device memory to final evaluations."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import word_lanes
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel.machine import DEFAULT_SHARED_BYTES
from quod.sumcheck.eq_tables import eq_table_entries, equality_pyramids, invert_points
from quod.sumcheck.final_rounds import FinalForm
from quod.sumcheck.final_rounds_thread import finish_alone
from quod.sumcheck.final_rounds_workgroup import finish_sumcheck
from quod.sumcheck.finish import finish_rounds, parts_at_once
from quod.sumcheck.interpolation import check_degree
from quod.sumcheck.memory import Proof, SumcheckProgress, TermScales
from quod.sumcheck.rounds import PassForm, evaluate_inputs, fold_and_evaluate, sum_inputs
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckMemory, SumcheckSizes
from quod.sumcheck.summands import pass_points
from quod.sumcheck.verifier import MAX_VARIABLES
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.elements import challenge_bits
from quod.validation import whole_number, whole_number_or_none

_MAX_LOG_CAPACITY = 12
# Up to 2**13 entries, one core takes less time than waking other threads would.
_ONE_CORE_LOG_CAPACITY = 13
_LANES = 128
_FINAL_LANES = 128
# The instances of a pass, as a share of those that the device holds at a time.
_OCCUPANCY = 1.0
_LONG_FIELD_OCCUPANCY = 0.25
_UNROLLED_INPUTS = 2
_GROUPS_PER_THREAD = 8
# The number of workgroups, each with its own sumcheck, that should fit into the shared memory of a
# multiprocessor, if the GPU has more shared memory than the minimum.
_GROUPS_PER_MULTIPROCESSOR = 6
_LONG_FIELD_GROUPS_PER_MULTIPROCESSOR = 3
# Such workgroups are small: their rounds wait for hashes, which every subgroup computes again.
_SHARED_MULTIPROCESSOR_LANES = 64
_MIN_LOG_IN_PLACE = 8


@frozen(eq=False)
class Inputs:
    """The tables of a batch in device memory, ordered by table, then by sumcheck, then by entry.

    base: the `Shape.in_base` tables over the prime field, or None if there are none.
    extended: the other tables, over the field of challenges, or None if there are none.
    parameters: further input of `Shape.source`, whose tables are not in memory. It may use `base`.
    """

    base: Buffer | None
    extended: Buffer | None
    parameters: Buffer | None = None


@frozen
class Pass:
    """A pass over large tables, which evaluates the polynomials of `depth` rounds.

    first: the index of its first round.
    depth: the number of rounds that it evaluates.
    folds: the number of challenges by which it folds the tables before that.
    """

    first: int
    depth: int
    folds: int


_SUM_PASS = Pass(0, 1, 0)


class SumcheckPlan:
    """A batch of sumchecks of one shape on one device.

    `record` adds the launches to a recording. They read and update claims and transcript states in
    `progress`, and write messages and final evaluations to `proof`. The caller allocates the
    buffers; `equality_bytes`, `progress_bytes`, `proof_bytes`, `folded_bytes` and `partial_bytes`
    are their sizes.
    """

    def __init__(
        self, device: DeviceChoice, shape: Shape, log2_size: int, *, batch: int = 1,
        log_capacity: int | None = None, depth: int | None = None, in_place: bool | None = None,
    ) -> None:  # fmt: skip
        """Plan a batch of sumchecks; None for the last three arguments chooses the fastest.

        log2_size: the number of variables.
        log_capacity: maximum of log2 of a table's entries in shared memory in the final rounds.
        depth: rounds per pass over larger tables, 1 or 2.
        in_place: on a GPU, the final rounds begin with twice as many entries, which the first of
            them reads in device memory.
        Raises InputError if the tables do not fit a workgroup's memory or an argument is out of
        range.
        """
        device = resolve_device(device)
        self.device, self.shape = device, shape
        self.log2_size = whole_number("the variables", log2_size, 1, MAX_VARIABLES)
        self.batch = whole_number("the batch", batch, 1, 1 << 16)
        if shape.source is not None and self.batch > 1:
            raise InputError(f"tables of a source need a batch of 1, not {self.batch}")
        check_degree(shape.field.modulus, shape.degree)
        challenge_bits(shape.field)
        log_capacity = whole_number_or_none("log_capacity", log_capacity, 1, _MAX_LOG_CAPACITY)
        self._depth = whole_number_or_none("depth", depth, 1, 2)
        self._in_place = self._batch_fills_device and log_capacity is None
        if in_place is not None:
            self._in_place = in_place and not device.host_memory
        default_capacity = (
            _ONE_CORE_LOG_CAPACITY if self._one_core_is_fastest else _MAX_LOG_CAPACITY
        )
        self._max_log_capacity = min(log_capacity or default_capacity, self._shared_log_capacity)
        if self._max_log_capacity < 1:
            raise InputError(
                f"{shape.tables} tables of {shape.field.name} do not fit the memory of a workgroup "
                f"of {device.name}; use fewer tables"
            )
        self.rounds_before = self._rounds_before()
        """Number of rounds on tables in device memory; one workgroup runs the rounds after them."""

    def _rounds_before(self) -> int:
        rounds = max(0, self.log2_size - self._max_log_capacity - self._in_place)
        # The kernel for one core can evaluate and fold the inputs itself, so a single pass before
        # that kernel does not save time.
        one_kernel_suffices = self.device.host_memory and not self.shape.has_point
        return 0 if one_kernel_suffices and rounds <= 1 else rounds

    # --- sizes

    @property
    def field(self) -> FieldSpec:
        """The field of challenges."""
        return self.shape.field

    @property
    def _is_long_field(self) -> bool:
        """True if a coefficient needs more than one word of 64 bits."""
        return self.field.modulus.bits > 64

    @property
    def _element_bytes(self) -> int:
        return 4 * self.field.words

    @property
    def _batch_fills_device(self) -> bool:
        """True if one workgroup per sumcheck fills a GPU.

        Then several workgroups should share a multiprocessor, to hide the latency of hashes. In a
        smaller batch a workgroup should have all the memory, so that more rounds need no launch.
        """
        return not self.device.host_memory and self.batch >= self.device.multiprocessors

    @property
    def _one_core_is_fastest(self) -> bool:
        """True for a CPU, a prime field of one word and a sum without eq.

        An entry then takes few instructions, so one core runs all rounds on small tables.
        """
        is_short = self.field.degree == 1 and not self._is_long_field
        return self.device.host_memory and is_short and not self.shape.has_point

    @property
    def _log_capacity(self) -> int:
        """The value of `FinalForm.log_capacity`, rounded up so that fewer kernels are compiled."""
        if self.device.host_memory:
            return self._max_log_capacity
        if self._in_place:
            return min(self._max_log_capacity, max(_MIN_LOG_IN_PLACE, self.log2_size - 1))
        return min(self._max_log_capacity, -(-self.log2_size // 4) * 4)

    @cached_property
    def _lanes(self) -> int:
        """The workgroup size of passes, a power of two."""
        if not self.device.host_memory:
            return _LANES
        if self.field.modulus.bits <= 64:
            return word_lanes(self.device, self.field.modulus.bits)
        lanes = min(_LANES, self.device.lanes)
        return 1 << (lanes.bit_length() - 1)

    @property
    def pass_lanes(self) -> int:
        """The workgroup size of passes."""
        return self._lanes

    @cached_property
    def _shared_log_capacity(self) -> int:
        """log2 of the number of entries of each table that fit shared memory; -1 if none fits."""
        machine = self.device.machine(self._final_lanes)
        sums = WorkgroupSums.elements(machine, self.shape.degree)
        limit = machine.shared_bytes_limit
        if self._in_place:
            groups = (
                _LONG_FIELD_GROUPS_PER_MULTIPROCESSOR
                if self._is_long_field
                else _GROUPS_PER_MULTIPROCESSOR
            )
            limit = max(limit // groups, min(limit, DEFAULT_SHARED_BYTES))
        entries = limit // self._element_bytes - sums
        entries //= self.shape.tables
        return max(0, entries).bit_length() - 1

    @property
    def _final_lanes(self) -> int:
        """The workgroup size of the kernels that compute the messages of rounds."""
        shares_multiprocessor = self._in_place and not self._is_long_field
        return min(
            _SHARED_MULTIPROCESSOR_LANES if shares_multiprocessor else _FINAL_LANES, self._lanes
        )

    @property
    def finish_lanes(self) -> int:
        """The workgroup size of the kernel after a pass.

        On a CPU most of its time is a hash that is not vectorised.
        """
        is_short = self.device.host_memory and self.field.modulus.bits <= 64
        return 1 if is_short else self._final_lanes

    @cached_property
    def _max_groups(self) -> int:
        """The number of workgroups per sumcheck on the largest tables, a power of two."""
        if self.device.host_memory:
            groups = _GROUPS_PER_THREAD * self.device.threads  # type: ignore[attr-defined]
        else:
            # In long fields the sum over a workgroup costs as much as many multiplications.
            occupancy = _LONG_FIELD_OCCUPANCY if self._is_long_field else _OCCUPANCY
            groups = int(self.device.resident_lanes * occupancy) // self._lanes
        groups = max(1, groups // self.batch)
        return int(1 << (groups.bit_length() - 1))

    @cached_property
    def passes(self) -> list[Pass]:
        """The passes over tables in device memory, in order."""
        passes: list[Pass] = []
        round_number = 0
        while round_number < self.rounds_before:
            depth = min(self._depth_from(round_number), self.rounds_before - round_number)
            passes.append(Pass(round_number, depth, passes[-1].depth if passes else 0))
            round_number += depth
        return passes

    def _depth_from(self, round_number: int) -> int:
        """Return the number of rounds of the pass that begins with a round.

        By default it is two for a GPU's first pass over tables of the prime field, else one.
        """
        if self._depth is not None:
            return self._depth
        has_base_tables = self.shape.in_base > 0 and self.field.degree > 1
        gains_from_two_rounds = round_number == 0 and has_base_tables and self.shape.degree == 2
        return (
            2
            if gains_from_two_rounds and not self.device.host_memory and self._two_rounds_fit
            else 1
        )

    @property
    def _two_rounds_fit(self) -> bool:
        """True if the workgroup's sums for the values of two rounds fit into shared memory."""
        machine = self.device.machine(self._lanes)
        sums = WorkgroupSums.elements(machine, len(pass_points(self.shape.degree, 2)))
        return sums * self._element_bytes <= machine.shared_bytes_limit

    def _index_count(self, pass_: Pass) -> int:
        """Return the number of indices over which a pass loops, per table."""
        return 1 << (self.log2_size - pass_.first - pass_.depth)

    def groups_each(self, pass_: Pass) -> int:
        """Return the number of workgroups of a pass per sumcheck.

        There are at most as many kernel instances as indices, or one workgroup. All indices of an
        instance agree in the lower variables or, with blocks, in the upper variables.
        """
        indices, lower = self._index_count(pass_), 1 << self.log_low
        if self._uses_blocks:
            blocks = indices // lower if self.shape.has_point else 1
            return max(1, blocks, min(self._max_groups, indices // self._lanes))
        instances = max(self._max_groups * self._lanes, lower)
        return max(1, min(instances, indices) // self._lanes)

    @property
    def _uses_blocks(self) -> bool:
        """True if the indices of a workgroup are contiguous, which suits the caches of a CPU."""
        return self.device.host_memory

    def _form(self, pass_: Pass) -> PassForm:
        """Return the static parameters of a pass's kernel."""
        block = self._index_count(pass_) // self.groups_each(pass_)
        unrolled = self._unrolled(pass_)
        return PassForm(
            self.shape, pass_.depth, unrolled, self._uses_blocks,
            equal_iterations=self._uses_blocks and block % (self._lanes * unrolled) == 0,
            folds=pass_.folds, from_inputs=pass_.folds == pass_.first,
        )  # fmt: skip

    @property
    def sizes(self) -> SumcheckSizes:
        """The sizes that are passed to kernels."""
        return SumcheckSizes(self.batch, self.log2_size, self.log_low)

    @property
    def sum_groups(self) -> int:
        """The number of partial sums per sumcheck that `record_sum` writes."""
        return self.groups_each(_SUM_PASS)

    @property
    def _log_folded(self) -> int:
        """log2 of the number of entries of a table after the first fold."""
        return self.log2_size - (self.passes[0].depth if self.passes else 0)

    @cached_property
    def log_low(self) -> int:
        """Number of variables of the lower eq table: about half, and all of the final rounds."""
        variables = max(self.log2_size // 2, self.log2_size - self.rounds_before - 1)
        return min(self.log2_size - 1, variables)

    @property
    def equality_bytes(self) -> int:
        """Bytes of `equality`: data computed from the points, and scales of terms."""
        entries = self.first_scale + self.batch * self.shape.scale_count
        return max(1, entries) * self._element_bytes

    @property
    def first_scale(self) -> int:
        """Offset of the terms' scales in `equality`, in elements.

        The caller writes them, `shape.scale_count` per sumcheck.
        """
        offset: int = TermScales.offset(
            self.shape.has_point, self.batch, self.log2_size, self.log_low
        )  # fmt: skip
        return offset

    @property
    def progress_bytes(self) -> int:
        """Bytes of `progress`: claims, challenges and states of transcripts."""
        return 4 * SumcheckProgress.words(self.field, self.batch, self.log2_size)

    @property
    def proof_bytes(self) -> int:
        """Bytes of `proof`: messages and final evaluations."""
        shape = self.shape
        return 4 * Proof.words(self.field, self.batch, self.log2_size, shape.degree, shape.tables)

    @property
    def folded_bytes(self) -> int:
        """Bytes of `folded`: the tables after the first fold."""
        if len(self.passes) < 2:
            return self._element_bytes
        return (self.shape.tables * self.batch << self._log_folded) * self._element_bytes

    @property
    def partial_bytes(self) -> int:
        """Bytes of `partial`: the partial sums of workgroups."""
        part_counts = [
            self.groups_each(pass_) * len(pass_points(self.shape.degree, pass_.depth))
            for pass_ in self.passes
        ]
        return self.batch * max([self.sum_groups, *part_counts]) * self._element_bytes

    @property
    def peak_bytes(self) -> int:
        """Bytes of device memory in addition to the input tables."""
        return (
            self.equality_bytes + self.progress_bytes + self.proof_bytes + self.folded_bytes
            + self.partial_bytes
        )  # fmt: skip

    # --- launches

    def _compiled(self, definition: Any, *, lanes: int | None = None, **static: Any) -> Any:
        return self.device.compile(definition, lanes=lanes or self._lanes, **static)

    def record_point(self, recording: RecordingStream, points: Buffer, equality: Buffer) -> None:
        """Record the launches that fill `equality` from `batch` points of log2_size elements each.

        The scales of terms in `equality` stay as they are.
        """
        count = self.batch * self.log2_size
        entries = self.batch * eq_table_entries(self.log2_size, self.log_low)
        lanes = self._lanes
        recording.launch(
            self._compiled(invert_points, field=self.field), -(-count // lanes),
            count, points, equality,
        )  # fmt: skip
        recording.launch(
            self._compiled(equality_pyramids, field=self.field), -(-entries // lanes),
            entries, self.log2_size, self.log_low, 2 * count, points, equality,
        )  # fmt: skip

    def record_sum(
        self, recording: RecordingStream, inputs: Inputs, equality: Buffer, partial: Buffer
    ) -> None:
        """Record the sum over the hypercube: `sum_groups` partial sums per sumcheck in `partial`.

        The host or a later launch adds the partial sums. `record_point` comes first if the shape
        has a point.
        """
        recording.launch(
            self._compiled(sum_inputs, form=self._form(_SUM_PASS)), self.batch * self.sum_groups,
            self.sizes, self.sum_groups, self._input_tables(inputs, equality), equality, partial,
        )  # fmt: skip

    def record(
        self, recording: RecordingStream, inputs: Inputs, *, equality: Buffer, progress: Buffer,
        proof: Buffer, folded: Buffer, partial: Buffer,
    ) -> None:  # fmt: skip
        """Record all rounds. The inputs are not modified; `folded` and `partial` are scratch."""
        tables, sizes, batch = self._input_tables(inputs, equality), self.sizes, self.batch
        memory = SumcheckMemory(equality, progress, proof)
        for pass_ in self.passes:
            round_number, groups, form = pass_.first, self.groups_each(pass_), self._form(pass_)
            if round_number == 0:
                recording.launch(
                    self._compiled(evaluate_inputs, form=form), batch * groups, sizes, groups,
                    tables, equality, partial,
                )  # fmt: skip
            else:
                recording.launch(
                    self._compiled(fold_and_evaluate, form=form), batch * groups, sizes,
                    self._log_folded, groups, round_number, tables, folded, progress, equality,
                    partial,
                )  # fmt: skip
            recording.launch(
                self._compiled(
                    finish_rounds, lanes=self.finish_lanes, shape=self.shape, depth=pass_.depth,
                    at_once=parts_at_once(groups, self.finish_lanes),
                ),
                batch, batch, self.log2_size, round_number, groups, partial, memory,
            )  # fmt: skip
        recording.launch(
            self._final_kernel(), batch, sizes, self._log_folded, self.rounds_before, tables,
            folded, memory,
        )  # fmt: skip

    def _final_kernel(self) -> Any:
        """Compile the kernel of the final rounds."""
        on_host = self.device.host_memory
        form = FinalForm(
            self.shape, self._log_capacity, from_inputs=len(self.passes) < 2,
            folds=self.passes[-1].depth if self.passes else 0,
            in_place=self._in_place and not on_host,
        )  # fmt: skip
        definition = finish_alone if on_host else finish_sumcheck
        return self._compiled(definition, lanes=self._final_lanes, form=form)

    def _unrolled(self, pass_: Pass) -> int:
        """Return the number of indices that an instance handles per iteration of a pass."""
        indices = self._index_count(pass_)
        limit = _UNROLLED_INPUTS if pass_.first == 0 and pass_.depth == 1 else 1
        return min(limit, max(1, indices // (self.groups_each(pass_) * self._lanes)))

    def _input_tables(self, inputs: Inputs, other: Buffer) -> InputTables:
        """Return the inputs as kernel arguments; a missing buffer is replaced by `other`."""
        return InputTables(
            inputs.base or other, inputs.extended or other, inputs.parameters or other
        )
