"""Plans of batches of sumchecks: the launches from tables in device memory to their values."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel.machine import DEFAULT_SHARED_BYTES
from quod.sumcheck.eq_tables import equality_pyramids, invert_points, pyramid_entries
from quod.sumcheck.final_rounds import FinalForm
from quod.sumcheck.final_rounds_thread import finish_alone
from quod.sumcheck.final_rounds_workgroup import finish_sumcheck
from quod.sumcheck.finish import finish_rounds, parts_at_once
from quod.sumcheck.interpolation import check_degree
from quod.sumcheck.memory import Progress, Proof, Scales
from quod.sumcheck.rounds import PassForm, evaluate_inputs, fold_and_evaluate, sum_inputs
from quod.sumcheck.shape import Shape
from quod.sumcheck.structs import InputTables, SumcheckMemory, SumcheckSizes
from quod.sumcheck.summands import evaluated
from quod.sumcheck.verifier import MOST_VARIABLES
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.elements import challenge_bits
from quod.validation import whole_number, whole_number_or_none

_MOST_LOG_CAPACITY = 12
# log2 of the entries that one core handles faster than waking other threads takes.
_LOG_CAPACITY_OF_ONE_CORE = 13
_LANES = 128
_TAIL_LANES = 128
_SHARE = 1.0
_SHARE_OF_LONG = 0.25
_UNROLLED_INPUTS = 2
_GROUPS_A_THREAD = 8
_LANES_OF_SHORT = 8
# Workgroups that should share a multiprocessor's memory, if each has its own sumcheck and the GPU
# has more shared memory than the minimum.
_SIDE_BY_SIDE = 6
_SIDE_BY_SIDE_OF_LONG = 3
# Rounds of such workgroups wait for hashes, which each subgroup computes redundantly.
_LANES_SIDE_BY_SIDE = 64
_LEAST_LOG_IN_PLACE = 8


@frozen(eq=False)
class Inputs:
    """The tables of a batch in device memory: table by table, each for all sumchecks.

    base: tables in the prime field, or None.
    extended: the other tables, or None.
    """

    base: Buffer | None
    extended: Buffer | None


@frozen
class Pass:
    """A pass over large tables.

    first: its first round.
    depth: rounds that it evaluates.
    folds: challenges by which it folds first.
    """

    first: int
    depth: int
    folds: int


_WHOLE = Pass(0, 1, 0)


class SumcheckPlan:
    """A batch of sumchecks of one shape on one device.

    `record` adds their launches to a recording. They read and update claims and transcript states
    in `progress`, and write messages to `proof`.
    """

    def __init__(
        self, device: DeviceChoice, shape: Shape, log2_size: int, *, batch: int = 1,
        log_capacity: int | None = None, depth: int | None = None, in_place: bool | None = None,
    ) -> None:  # fmt: skip
        """Plan a batch of sumchecks; None for the last three arguments chooses the fastest.

        log_capacity: bounds log2 of a table's entries in a workgroup's memory in the final rounds.
        depth: rounds of a pass over larger tables, 1 or 2.
        in_place: on a GPU, the final rounds begin with twice as many entries, which the first of
            them reads in device memory.
        """
        device = resolve_device(device)
        self.device, self.shape = device, shape
        self.log2_size = whole_number("the variables", log2_size, 1, MOST_VARIABLES)
        self.batch = whole_number("the batch", batch, 1, 1 << 16)
        check_degree(shape.field.modulus, shape.degree)
        challenge_bits(shape.field)
        log_capacity = whole_number_or_none("log_capacity", log_capacity, 1, _MOST_LOG_CAPACITY)
        self._depth = whole_number_or_none("depth", depth, 1, 2)
        self._in_place = self._fills and log_capacity is None
        if in_place is not None:
            self._in_place = in_place and not device.host_memory
        most = _LOG_CAPACITY_OF_ONE_CORE if self._is_quick else _MOST_LOG_CAPACITY
        self._most = min(log_capacity or most, self._fitting)
        if self._most < 1:
            raise InputError(
                f"{shape.tables} tables of {shape.field.name} do not fit the memory of a workgroup "
                f"of {device.name}; take fewer tables"
            )
        self.rounds_before = self._rounds_before()
        """Rounds on tables in device memory; the final rounds run in one workgroup."""

    def _rounds_before(self) -> int:
        before = max(0, self.log2_size - self._most - self._in_place)
        # A core can evaluate and fold the inputs itself, so a single pass before does not pay.
        is_alone = self.device.host_memory and not self.shape.has_point
        return 0 if is_alone and before <= 1 else before

    # --- sizes

    @property
    def field(self) -> FieldSpec:
        """The field of challenges."""
        return self.shape.field

    @property
    def _is_long(self) -> bool:
        """True if a coefficient is more than one word of any machine."""
        return self.field.modulus.bits > 64

    @property
    def _element_bytes(self) -> int:
        return 4 * self.field.words

    @property
    def _fills(self) -> bool:
        """True if one workgroup a sumcheck fills a GPU.

        Then several workgroups should share a multiprocessor, to hide the latency of hashes. A
        smaller batch should run as many rounds as fit a workgroup's memory, without launches.
        """
        return not self.device.host_memory and self.batch >= self.device.multiprocessors

    @property
    def _is_quick(self) -> bool:
        """True if a CPU computes an entry in few instructions and needs no eq tables.

        Then one core runs all rounds on small tables.
        """
        is_short = self.field.degree == 1 and not self._is_long
        return self.device.host_memory and is_short and not self.shape.has_point

    @property
    def _log_capacity(self) -> int:
        """`log_capacity` of the final rounds' kernel, rounded up so that few kernels exist."""
        if self._in_place:
            return min(self._most, max(_LEAST_LOG_IN_PLACE, self.log2_size - 1))
        return min(self._most, -(-self.log2_size // 4) * 4)

    @cached_property
    def _lanes(self) -> int:
        """Instances of the workgroups, a power of two."""
        if not self.device.host_memory:
            return _LANES
        if self.field.modulus.bits <= 64:
            return _LANES_OF_SHORT  # any processor has vectors of words
        lanes = min(_LANES, self.device.lanes)
        return 1 << (lanes.bit_length() - 1)

    @property
    def pass_lanes(self) -> int:
        """Instances of the workgroups of a pass."""
        return self._lanes

    @cached_property
    def _fitting(self) -> int:
        """The logarithm of how many entries of each table shared memory holds."""
        machine = self.device.machine(self._tail_lanes)
        sums = WorkgroupSums.elements(machine, self.shape.degree)
        limit = machine.shared_bytes_limit
        if self._in_place:
            share = _SIDE_BY_SIDE_OF_LONG if self._is_long else _SIDE_BY_SIDE
            limit = max(limit // share, min(limit, DEFAULT_SHARED_BYTES))
        entries = limit // self._element_bytes - sums
        entries //= self.shape.tables
        return max(0, entries).bit_length() - 1

    @property
    def _tail_lanes(self) -> int:
        """Instances of the workgroups that compute the messages of rounds."""
        short = self._in_place and not self._is_long
        return min(_LANES_SIDE_BY_SIDE if short else _TAIL_LANES, self._lanes)

    @property
    def finish_lanes(self) -> int:
        """Instances of the workgroups that end a pass, mostly by a hash that is not vectorised."""
        is_short = self.device.host_memory and self.field.modulus.bits <= 64
        return 1 if is_short else self._tail_lanes

    @cached_property
    def _most_groups(self) -> int:
        """Workgroups a sumcheck on the largest tables, a power of two."""
        if self.device.host_memory:
            wanted = _GROUPS_A_THREAD * self.device.threads  # type: ignore[attr-defined]
        else:
            # What they add up at the end costs as much as many products of long elements.
            share = _SHARE_OF_LONG if self._is_long else _SHARE
            wanted = int(self.device.resident_lanes * share) // self._lanes
        wanted = max(1, wanted // self.batch)
        return int(1 << (wanted.bit_length() - 1))

    @cached_property
    def passes(self) -> list[Pass]:
        """The passes over tables in the memory of the device."""
        passes: list[Pass] = []
        at = 0
        while at < self.rounds_before:
            depth = min(self._depth_from(at), self.rounds_before - at)
            passes.append(Pass(at, depth, passes[-1].depth if passes else 0))
            at += depth
        return passes

    def _depth_from(self, number: int) -> int:
        """Return the rounds of a pass: two for a GPU's first pass over prime field elements."""
        if self._depth is not None:
            return self._depth
        is_short = self.shape.in_base > 0 and self.field.degree > 1
        pays = number == 0 and is_short and self.shape.degree == 2
        return 2 if pays and not self.device.host_memory and self._two_rounds_fit else 1

    @property
    def _two_rounds_fit(self) -> bool:
        """True if workgroups have room to add up the values of two rounds."""
        machine = self.device.machine(self._lanes)
        sums = WorkgroupSums.elements(machine, len(evaluated(self.shape.degree, 2)))
        return sums * self._element_bytes <= machine.shared_bytes_limit

    def _entries(self, step: Pass) -> int:
        """Return the number of indices of a pass."""
        return 1 << (self.log2_size - step.first - step.depth)

    def groups_each(self, step: Pass) -> int:
        """Return the workgroups of a pass for one sumcheck, at most one instance an entry.

        All entries of an instance share the lower variables, or in blocks the upper ones.
        """
        entries, lower = self._entries(step), 1 << self.log_low
        if self._in_blocks:
            blocks = entries // lower if self.shape.has_point else 1
            return max(1, blocks, min(self._most_groups, entries // self._lanes))
        wanted = max(self._most_groups * self._lanes, lower)
        return max(1, min(wanted, entries) // self._lanes)

    @property
    def _in_blocks(self) -> bool:
        """True if a workgroup's entries are neighbours, which is what a processor's cache wants."""
        return self.device.host_memory

    def _form(self, step: Pass) -> PassForm:
        """The static part of a pass's kernel."""
        block, unrolled = self._entries(step) // self.groups_each(step), self._unrolled(step)
        even = self._in_blocks and block % (self._lanes * unrolled) == 0
        return PassForm(
            self.shape, step.depth, unrolled, self._in_blocks, even, step.folds,
            from_inputs=step.folds == step.first,
        )  # fmt: skip

    @property
    def sizes(self) -> SumcheckSizes:
        """The sizes that kernels take."""
        return SumcheckSizes(self.batch, self.log2_size, self.log_low)

    @property
    def sum_groups(self) -> int:
        """Workgroups a sumcheck that add up the polynomial itself."""
        return self.groups_each(_WHOLE)

    @property
    def _log_folded(self) -> int:
        """The logarithm of the entries of a table after the first fold."""
        return self.log2_size - (self.passes[0].depth if self.passes else 0)

    @cached_property
    def log_low(self) -> int:
        """Variables of the lower pyramid: about half of them, and all of the last rounds."""
        wanted = max(self.log2_size // 2, self.log2_size - self.rounds_before - 1)
        return min(self.log2_size - 1, wanted)

    @property
    def equality_bytes(self) -> int:
        """Bytes of `equality`: data computed from the points, and factors of terms."""
        entries = self.first_scale + self.batch * self.shape.scale_count
        return max(1, entries) * self._element_bytes

    @property
    def first_scale(self) -> int:
        """Offset of the terms' factors in `equality`, in elements.

        The caller writes them, `shape.scale_count` for each sumcheck.
        """
        offset: int = Scales.first(
            self.shape.has_point, self.batch, self.log2_size, self.log_low
        )  # fmt: skip
        return offset

    @property
    def progress_bytes(self) -> int:
        """Bytes of claims, challenges and states of transcripts."""
        return 4 * Progress.words(self.field, self.batch, self.log2_size)

    @property
    def proof_bytes(self) -> int:
        """Bytes of messages and values."""
        shape = self.shape
        return 4 * Proof.words(self.field, self.batch, self.log2_size, shape.degree, shape.tables)

    @property
    def folded_bytes(self) -> int:
        """Bytes of the tables after the first fold."""
        if len(self.passes) < 2:
            return self._element_bytes
        return (self.shape.tables * self.batch << self._log_folded) * self._element_bytes

    @property
    def partial_bytes(self) -> int:
        """Bytes of the workgroups' partial sums."""
        parts = [
            self.groups_each(step) * len(evaluated(self.shape.degree, step.depth))
            for step in self.passes
        ]
        return self.batch * max([self.sum_groups, *parts]) * self._element_bytes

    @property
    def peak_bytes(self) -> int:
        """Bytes of device memory in addition to the inputs."""
        return (
            self.equality_bytes + self.progress_bytes + self.proof_bytes + self.folded_bytes
            + self.partial_bytes
        )  # fmt: skip

    # --- launches

    def _compiled(self, definition: Any, *, lanes: int | None = None, **static: Any) -> Any:
        return self.device.compile(definition, lanes=lanes or self._lanes, **static)

    def record_point(self, recording: RecordingStream, points: Buffer, equality: Buffer) -> None:
        """Record the eq tables of `batch` points of log2_size elements each."""
        count = self.batch * self.log2_size
        entries = self.batch * pyramid_entries(self.log2_size, self.log_low)
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
        """Record the sum of the polynomial itself: `sum_groups` parts a sumcheck in `partial`."""
        recording.launch(
            self._compiled(sum_inputs, form=self._form(_WHOLE)), self.batch * self.sum_groups,
            self.sizes, self.sum_groups, self._reached(inputs, equality), equality, partial,
        )  # fmt: skip

    def record(
        self, recording: RecordingStream, inputs: Inputs, *, equality: Buffer, progress: Buffer,
        proof: Buffer, folded: Buffer, partial: Buffer,
    ) -> None:  # fmt: skip
        """Record all rounds; the inputs are not modified."""
        tables, sizes, batch = self._reached(inputs, equality), self.sizes, self.batch
        memory = SumcheckMemory(equality, progress, proof)
        for step in self.passes:
            number, groups, form = step.first, self.groups_each(step), self._form(step)
            if number == 0:
                recording.launch(
                    self._compiled(evaluate_inputs, form=form), batch * groups, sizes, groups,
                    tables, equality, partial,
                )  # fmt: skip
            else:
                recording.launch(
                    self._compiled(fold_and_evaluate, form=form), batch * groups, sizes,
                    self._log_folded, groups, number, tables, folded, progress, equality, partial,
                )  # fmt: skip
            recording.launch(
                self._compiled(
                    finish_rounds, lanes=self.finish_lanes, shape=self.shape, depth=step.depth,
                    at_once=parts_at_once(groups, self.finish_lanes),
                ),
                batch, batch, self.log2_size, number, groups, partial, memory,
            )  # fmt: skip
        recording.launch(
            self._last_rounds(), batch, sizes, self._log_folded, self.rounds_before, tables,
            folded, memory,
        )  # fmt: skip

    def _last_rounds(self) -> Any:
        """The kernel of the rounds on the smallest tables."""
        is_alone = self.device.host_memory
        form = FinalForm(
            self.shape, self._log_capacity, from_inputs=len(self.passes) < 2,
            folds=self.passes[-1].depth if self.passes else 0,
            in_place=self._in_place and not is_alone,
        )  # fmt: skip
        definition = finish_alone if is_alone else finish_sumcheck
        return self._compiled(definition, lanes=self._tail_lanes, form=form)

    def _unrolled(self, step: Pass) -> int:
        """Return the entries that an instance handles at a time in a pass."""
        entries = self._entries(step)
        most = _UNROLLED_INPUTS if step.first == 0 and step.depth == 1 else 1
        return min(most, max(1, entries // (self.groups_each(step) * self._lanes)))

    def _reached(self, inputs: Inputs, other: Buffer) -> InputTables:
        """Return the inputs as kernel arguments; `other` stands in for missing ones."""
        return InputTables(inputs.base or other, inputs.extended or other)
