"""MSMs on a CPU.

Pippenger's bucket method: digits, a counting sort into buckets, affine bucket sums with shared
inversions, row and column sums of the buckets by the same kernel, and Horner's rule over the
windows.
"""

from __future__ import annotations

import numpy as np

from quod.curve.group import Group
from quod.curve.weierstrass.operations import is_finite
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import HostDevice
from quod.device.runtime.sentinel import UNWRITTEN, check_written, mark, not_written
from quod.device.runtime.timeline import Stage, Timeline, or_null
from quod.errors import InputError
from quod.field.cost import product_cost, square_cost
from quod.frozen import replace
from quod.msm.host import bucket_reduction as rows_and_columns
from quod.msm.host.counting_sort import count_digits, digits, place_buckets, scatter_digits
from quod.msm.host.point_sums import PointSums
from quod.msm.host.precompute import double_repeatedly
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan, in_batches, plan_msm
from quod.msm.scalars import SCALAR_BYTES, too_large

# Field products of an affine addition with a shared inversion; one of them is a square.
_PRODUCTS_OF_ADDITION = 6


class HostEngine:
    """The engine for bases in host memory; see `MsmEngine`.

    points: the caller's array; with precompute_factor, `plan.copies` arrays of bases, concatenated,
        each 2**(windows * window_bits) times the one before.
    infinite: infinite[i] is 1 if base i is infinity, else 0.
    """

    def __init__(
        self, device: HostDevice, group: Group, points: Array, options: MsmOptions
    ) -> None:  # fmt: skip
        self.device = device
        self.group = group
        self.options = options
        self.points = np.require(points, requirements=("C", "A"))
        self._count = len(points)
        self.infinite: Array = (~is_finite(device, group, self.points)).view(np.uint8)
        self.has_infinite = bool(self.infinite.any())
        # The plan of the precomputed multiples, which every MSM must follow.
        self._precomputed_plan: MsmPlan | None = None
        if (options.precompute_factor or 1) > 1 and self._count:
            self._precomputed_plan = plan_msm(group, self._count, options)
            self._precompute(self._precomputed_plan)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return int(self.points.nbytes)

    def peak_bytes(self, count: int, vectors: int, options: MsmOptions | None) -> int:
        return self.plan(count, options, vectors).peak_bytes(self.device.threads)

    def scalar_memory(self, count: int, options: MsmOptions | None) -> Array:
        return np.zeros((count, SCALAR_BYTES // 4), np.uint32)

    def msm_words(
        self, scalars: Array, options: MsmOptions | None, timeline: Timeline | None
    ) -> Array:
        vectors, count = scalars.shape[:2]
        plan, device = self.plan(count, options, vectors), self.device
        what = f"an MSM of {count} scalars over {self.group.name}"
        device.check_budget(what, plan.peak_bytes(device.threads))
        results = np.zeros((vectors, self.group.point_words), np.uint64)
        for start in range(0, vectors, plan.batch):
            batch = np.require(scalars[start : start + plan.batch], requirements=("C", "A"))
            batch_plan = plan if len(batch) == plan.batch else replace(plan, batch=len(batch))
            results[start : start + len(batch)] = _Execution(self, batch_plan, timeline).run(batch)
        return results

    def buffer_msm_words(
        self, scalars: Buffer, vectors: int, count: int, timeline: Timeline | None
    ) -> Array:
        return self.msm_words(
            scalars.view(np.uint32, (vectors, count, SCALAR_BYTES // 4)), None, timeline
        )

    def plan(self, count: int, options: MsmOptions | None, batch: int = 1) -> MsmPlan:
        """Return the plan of `batch` MSMs of `count` scalars over these bases.

        Raises InputError for options that do not fit the precomputed multiples.
        """
        if self._precomputed_plan is not None:
            if options is not None and options != self.options:
                raise InputError(
                    "bases with precomputed multiples keep the options that they were made with"
                )
            precomputed = self._precomputed_plan
            plan = MsmPlan(
                precomputed.group, count, precomputed.window_bits, precomputed.windows,
                precomputed.copies, precomputed.maximum,
            )  # fmt: skip
            return in_batches(plan, batch, self.options.batch_size)
        chosen_options = self.options if options is None else options
        if (chosen_options.precompute_factor or 1) > 1:
            raise InputError(
                "precompute_factor applies only when MsmBases is made; pass these options there"
            )
        return plan_msm(self.group, count, chosen_options, batch)

    def _precompute(self, plan: MsmPlan) -> None:
        """Replace the points by `plan.copies` copies of multiples."""
        device, count = self.device, self._count
        device.check_budget(
            f"precompute_factor {self.options.precompute_factor} for {count} bases of "
            f"{self.group.name}",
            plan.copies * self.points.nbytes, items=plan.copies, unit="multiples of each",
        )  # fmt: skip
        multiples = np.empty((plan.copies * count, *self.group.shape), np.uint32)
        mark(multiples[-1])
        multiples[:count] = self.points
        kernel = device.compile(double_repeatedly, group=self.group)
        device.launch(
            kernel, -(-count // device.lanes), count, plan.copies, plan.windows * plan.window_bits,
            multiples,
        )  # fmt: skip
        check_written(device, "multiples of bases", multiples[-1])
        self.points = multiples


class _Execution:
    """The computation of one batch of MSMs."""

    def __init__(self, engine: HostEngine, plan: MsmPlan, timeline: Timeline | None) -> None:
        self.engine = engine
        self.device = engine.device
        self.plan = plan
        self.timeline = or_null(timeline)

    def run(self, scalars: Array) -> Array:
        with self.timeline.stage("digits"):
            digit_rows = self._digits(scalars)
        with self.timeline.stage("sort"):
            entries, starts, lengths = self._sort(digit_rows)
        del digit_rows
        with self.timeline.stage("accumulate") as stage:
            self._report_cost(stage, int(lengths.sum()))
            buckets = self._sums(len(starts))
            source = self.engine.points.reshape(-1).view(np.uint64)
            buckets.add_up(source, entries, starts, lengths)
        del entries
        with self.timeline.stage("reduce") as stage:
            # Each bucket is added to a row and to a column.
            self._report_cost(stage, 2 * len(starts))
            return self._reduce(buckets)

    def _report_cost(self, stage: Stage, additions: int) -> None:
        """Report the traffic and products of additions to a timeline; each reads one point."""
        group = self.plan.group
        # A product takes one modular reduction per coefficient over Fq.
        product = product_cost(group.coordinates, group.degree)
        square = square_cost(group.coordinates, group.degree)
        stage.add(
            bytes=additions * (8 * group.point_words + 4),
            modmuls=additions * _PRODUCTS_OF_ADDITION * group.degree,
            multiply_adds=additions * ((_PRODUCTS_OF_ADDITION - 1) * product + square),
        )

    def _digits(self, scalars: Array) -> Array:
        """Return the digits of each vector's scalars as a row, window by window."""
        plan, device, engine = self.plan, self.device, self.engine
        digit_rows = np.empty((plan.batch, plan.digit_windows * plan.count), np.uint16)
        overflow = np.zeros(1, np.uint32)
        kernel = device.compile(
            digits, lanes=device.lanes, window_bits=plan.window_bits, windows=plan.digit_windows,
            maximum=plan.maximum, masked=engine.has_infinite,
        )  # fmt: skip
        workgroups = -(-plan.count // device.lanes)
        # Digits are in 16-bit two's complement, so the sentinel 0xFFFF is the digit -1. A row ends
        # with the top digit of a scalar, which is not negative if the scalar is valid. An
        # overwritten sentinel shows that the scalars were checked, which a zero in `overflow` does
        # not show.
        mark(digit_rows)
        for vector, row in zip(scalars, digit_rows, strict=True):
            device.launch(kernel, workgroups, plan.count, vector, engine.infinite, row, overflow)
        if overflow[0]:
            raise _first_too_large(plan, scalars)
        check_written(device, "digits of scalars", digit_rows)
        return digit_rows

    def _sort(self, digit_rows: Array) -> tuple[Array, Array, Array]:
        """Return the entries sorted by bucket, and the start and the length of each bucket."""
        plan, device = self.plan, self.device
        # Windows of the whole batch; plan.windows are those of one MSM.
        parts, buckets, windows = plan.sort_parts(device.threads), plan.buckets, plan.all_windows
        counts = np.zeros(windows * parts * buckets, np.uint32)
        shape = (plan.count, parts, plan.windows, plan.copies, buckets)
        kernel = device.compile(count_digits, lanes=1)
        device.launch(kernel, windows * parts, *shape, digit_rows, counts)
        starts = np.empty(windows * buckets, np.uint32)
        lengths = np.empty(windows * buckets, np.uint32)
        window_entries = plan.count * plan.copies
        if counts.sum(dtype=np.uint64) != np.count_nonzero(digit_rows):
            raise not_written(device, "the sizes of buckets")
        mark(lengths)
        kernel = device.compile(place_buckets, lanes=1)
        device.launch(kernel, windows, window_entries, parts, buckets, counts, starts, lengths)
        check_written(device, "the places of buckets", lengths)
        entries = np.empty(windows * window_entries, np.uint32)
        kernel = device.compile(scatter_digits, lanes=1)
        stride = len(self.engine)
        # An entry is the index of a base, below 2**31 - 1, and a sign in bit 31; so it never equals
        # the sentinel, whose bits are all ones.
        largest = int(lengths.argmax())
        first_entry = entries[starts[largest] :][: min(1, lengths[largest])]
        first_entry.fill(UNWRITTEN)
        device.launch(kernel, windows * parts, *shape, stride, digit_rows, counts, entries)
        if (first_entry == UNWRITTEN).any():
            raise not_written(device, "the order of entries")
        return entries, starts, lengths

    def _sums(self, sum_count: int) -> PointSums:
        plan = self.plan
        return PointSums(
            self.device, plan.group, sum_count, longest=plan.longest, chunk_length=plan.chunk_length
        )  # fmt: skip

    def _reduce(self, buckets: PointSums) -> Array:
        """Return the MSMs, affine, from the sums of all buckets."""
        plan, device, group = self.plan, self.device, self.plan.group
        windows = plan.all_windows
        segments = windows * (plan.rows + plan.columns)
        # Each bucket is in a row and in a column. The kernel writes an entry even for an empty
        # bucket and overwrites it with the next one; the + 1 is room for such an entry at the end.
        entries = np.empty(windows * plan.buckets * 2 + 1, np.uint32)
        starts, lengths = (np.empty(segments, np.uint32) for _ in range(2))
        kernel = device.compile(rows_and_columns.list_rows_and_columns, lanes=1)
        mark(lengths)
        device.launch(
            kernel, windows, plan.rows, plan.columns, buckets.point_indices, entries, starts,
            lengths,
        )  # fmt: skip
        check_written(device, "rows and columns of buckets", lengths)
        # For each window the sums of its rows, then of its columns.
        line_sums = self._sums(segments)
        line_sums.add_up(buckets.points, entries, starts, lengths)
        count = 2 * windows
        sums = np.empty(count * 4 * group.coordinate_words, np.uint64)
        mark(sums)
        # Weighing takes about a hundredth of an MSM. Four lanes halve that, and compile three times
        # as long as a single lane.
        lanes = 1 if device.lanes <= 4 else device.lanes
        kernel = device.compile(rows_and_columns.weigh, lanes=lanes, group=group)
        device.launch(
            kernel, -(-count // lanes), count, plan.rows, plan.columns,
            line_sums.point_indices, line_sums.points, sums,
        )  # fmt: skip
        check_written(device, "weighted sums", sums)
        results = np.empty((plan.batch, group.point_words), np.uint64)
        mark(results)
        kernel = device.compile(rows_and_columns.combine, lanes=1, group=group)
        device.launch(
            kernel, plan.batch, plan.windows, plan.window_bits, plan.column_bits, sums, results
        )  # fmt: skip
        check_written(device, "the sum of an MSM", results)
        return results


def _first_too_large(plan: MsmPlan, scalars: Array) -> InputError:
    """Return the error for the first scalar above the plan's maximum."""
    scalar_bytes = scalars.astype("<u4").tobytes()
    integers = [
        int.from_bytes(scalar_bytes[start : start + 32], "little")
        for start in range(0, len(scalar_bytes), 32)
    ]
    position = next(i for i, integer in enumerate(integers) if integer > plan.maximum) % plan.count
    return too_large(plan.group, plan.maximum, position)
