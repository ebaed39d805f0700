"""Multi-scalar multiplication: the sum of scalar times base over two arrays.

Pippenger's bucket method: digits, a counting sort into buckets, sums of the buckets in affine
coordinates with shared inversions, sums of rows and columns of buckets by the same kernel, and
Horner's rule over the windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.curve.array import check_group
from quod.curve.group import Group
from quod.curve.parameters import Fq2Element
from quod.device.discovery import DeviceChoice
from quod.device.timeline import Stage, Timeline, or_null
from quod.device.written import UNWRITTEN, check_written, mark, not_written
from quod.errors import InputError
from quod.field.cost import product_cost, square_cost
from quod.frozen import replace
from quod.msm.bases import Array, CpuBases, MsmBases, check_options
from quod.msm.buckets.point_sums import PointSums
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan
from quod.msm.reduce import rows_and_columns
from quod.msm.sort.counting import count_digits, digits, place_buckets, scatter_digits
from quod.msm.sort.scalars import SCALAR_BYTES, check_count, too_large
from quod.validation import instance, plain_array, shown_kind

# Products of an addition in affine coordinates with a shared inversion; one of them is a square.
_PRODUCTS_OF_ADDITION = 6

AffineInts = tuple[int, int] | tuple[Fq2Element, Fq2Element] | None


class _Execution:
    """One MSM, or one batch of MSMs, in progress."""

    def __init__(self, bases: CpuBases, plan: MsmPlan, timeline: Timeline | None) -> None:
        self.bases = bases
        self.device = bases.device
        self.plan = plan
        self.timeline = or_null(timeline)

    def run(self, scalars: Array) -> Array:
        with self.timeline.stage("digits"):
            stored = self._digits(scalars)
        with self.timeline.stage("sort"):
            entries, starts, lengths = self._sort(stored)
        del stored
        with self.timeline.stage("accumulate") as stage:
            self._count(stage, int(lengths.sum()))
            buckets = self._sums(len(starts))
            source = self.bases.points.reshape(-1).view(np.uint64)
            buckets.add_up(source, entries, starts, lengths)
        del entries
        with self.timeline.stage("reduce") as stage:
            # Each bucket in a row and in a column.
            self._count(stage, 2 * len(starts))
            return self._reduce(buckets)

    def _count(self, stage: Stage, additions: int) -> None:
        """Tells a timeline of points that are added, each read once."""
        group = self.plan.group
        product = product_cost(group.coordinates, group.degree)
        square = square_cost(group.coordinates, group.degree)
        stage.add(
            bytes=additions * (8 * group.point_words + 4),
            modmuls=additions * _PRODUCTS_OF_ADDITION * group.degree,
            multiply_adds=additions * ((_PRODUCTS_OF_ADDITION - 1) * product + square),
        )

    def _digits(self, scalars: Array) -> Array:
        plan, device, bases = self.plan, self.device, self.bases
        rows = np.empty((plan.batch, plan.digit_windows * plan.count), np.uint16)
        overflow = np.zeros(1, np.uint32)
        kernel = device.compile(
            digits, lanes=device.lanes, window_bits=plan.window_bits, windows=plan.digit_windows,
            maximum=plan.maximum, masked=bases.has_infinite,
        )  # fmt: skip
        groups = -(-plan.count // device.lanes)
        # The top digit of a scalar that is not too large never carries, so it is not the mark. That
        # the mark has gone says that scalars were looked at, which a zero in `overflow` does not.
        mark(rows)
        for vector, row in zip(scalars, rows, strict=True):
            device.launch(kernel, groups, plan.count, vector, bases.infinite, row, overflow)
        if overflow[0]:
            raise _first_too_large(plan, scalars)
        check_written(device, "digits of scalars", rows)
        return rows

    def _sort(self, stored: Array) -> tuple[Array, Array, Array]:
        plan, device = self.plan, self.device
        parts, buckets, windows = plan.sort_parts(device.threads), plan.buckets, plan.all_windows
        counts = np.zeros(windows * parts * buckets, np.uint32)
        shape = (plan.count, parts, plan.windows, plan.copies, buckets)
        kernel = device.compile(count_digits, lanes=1)
        device.launch(kernel, windows * parts, *shape, stored, counts)
        starts = np.empty(windows * buckets, np.uint32)
        lengths = np.empty(windows * buckets, np.uint32)
        room = plan.count * plan.copies
        if counts.sum(dtype=np.uint64) != np.count_nonzero(stored):
            raise not_written(device, "the sizes of buckets")
        mark(lengths)
        kernel = device.compile(place_buckets, lanes=1)
        device.launch(kernel, windows, room, parts, buckets, counts, starts, lengths)
        check_written(device, "the places of buckets", lengths)
        entries = np.empty(windows * room, np.uint32)
        kernel = device.compile(scatter_digits, lanes=1)
        stride = len(self.bases)
        # There are fewer than 2**31 bases, so that no entry is the mark.
        largest = int(lengths.argmax())
        first = entries[starts[largest] :][: min(1, lengths[largest])]
        first.fill(UNWRITTEN)
        device.launch(kernel, windows * parts, *shape, stride, stored, counts, entries)
        if (first == UNWRITTEN).any():
            raise not_written(device, "the order of entries")
        return entries, starts, lengths

    def _sums(self, owners: int) -> PointSums:
        plan = self.plan
        return PointSums(
            self.device, plan.group, owners, longest=plan.longest, piece=plan.piece
        )  # fmt: skip

    def _reduce(self, buckets: PointSums) -> Array:
        plan, device, group = self.plan, self.device, self.plan.group
        windows = plan.all_windows
        segments = windows * (plan.rows + plan.columns)
        entries = np.empty(windows * plan.buckets * 2 + 1, np.uint32)
        starts, lengths = (np.empty(segments, np.uint32) for _ in range(2))
        kernel = device.compile(rows_and_columns.list_rows_and_columns, lanes=1)
        mark(lengths)
        device.launch(
            kernel, windows, plan.rows, plan.columns, buckets.numbers, entries, starts, lengths
        )  # fmt: skip
        check_written(device, "rows and columns of buckets", lengths)
        lines = self._sums(segments)
        lines.add_up(buckets.points, entries, starts, lengths)
        count = 2 * windows
        sums = np.empty(count * 4 * group.coordinate_words, np.uint64)
        mark(sums)
        kernel = device.compile(rows_and_columns.weigh, group=group)
        device.launch(
            kernel, -(-count // device.lanes), count, plan.rows, plan.columns, lines.numbers,
            lines.points, sums,
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
    """The error of the first scalar that is above the plan's maximum."""
    raw = scalars.astype("<u4").tobytes()
    numbers = [int.from_bytes(raw[at : at + 32], "little") for at in range(0, len(raw), 32)]
    position = next(i for i, number in enumerate(numbers) if number > plan.maximum) % plan.count
    return too_large(plan.group, plan.maximum, position)


def msm_words(
    bases: MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> Array:
    """The sum of scalars[i] * bases[i] as the uint64 words of an affine point in Montgomery form.

    `scalars` are canonical integers, uint32 words of shape (n, 8); there may be fewer than bases.
    With shape (m, n, 8) they are m vectors of scalars over the same bases, and the results have
    shape (m, point_words). (0, 0) stands for infinity. Raises InputError for a scalar that is not
    below the group's order or the promised 2**scalar_bits, DeviceError if the plan's `peak_bytes`
    are more than the device's memory budget.
    """
    instance("bases", bases, MsmBases, "make them of an array of points")
    check_options(options)
    scalars = plain_array("scalars", scalars)
    if (
        scalars.dtype != np.uint32
        or scalars.ndim not in (2, 3)
        or scalars.shape[-1] != SCALAR_BYTES // 4
    ):
        raise InputError(
            "scalars are uint32 words of shape (n, 8), or (m, n, 8) for m vectors of them, "
            f"not {scalars.dtype} of {scalars.shape}"
        )
    if scalars.ndim == 2:
        words: Array = msm_words(bases, scalars[None], options, timeline)[0]
        return words
    vectors, count = scalars.shape[:2]
    check_count(count, len(bases))
    if not count:
        return np.zeros((vectors, bases.group.point_words), np.uint64)
    if bases.on_gpu is not None:
        return bases.on_gpu.words(scalars, options, timeline)
    assert bases.on_cpu is not None
    return _words_on_cpu(bases.on_cpu, scalars, options, timeline)


def _words_on_cpu(
    bases: CpuBases, scalars: Array, options: MsmOptions | None, timeline: Timeline | None
) -> Array:
    vectors, count = scalars.shape[:2]
    plan = bases.plan(count, options, vectors)
    device = bases.device
    what = f"an MSM of {count} scalars over {bases.group.name}"
    device.check_budget(what, plan.peak_bytes(device.threads))
    results = np.zeros((vectors, bases.group.point_words), np.uint64)
    for start in range(0, vectors, plan.batch):
        batch = np.require(scalars[start : start + plan.batch], requirements=("C", "A"))
        one = plan if len(batch) == plan.batch else replace(plan, batch=len(batch))
        results[start : start + len(batch)] = _Execution(bases, one, timeline).run(batch)
    return results


def affine_ints(group: Group, words: Array) -> AffineInts:
    """An affine point of Montgomery words as plain integers; None for infinity.

    InputError for an array of another size, or no group.
    """
    check_group(group)
    if plain_array("the words of a point", words).nbytes != 8 * group.point_words:
        raise InputError(
            f"a point of {group.name} is {8 * group.point_words} bytes, not {words.nbytes}"
        )
    if not words.any():
        return None
    modulus = group.coordinates
    size = modulus.bytes
    data = words.tobytes()
    numbers = [
        modulus.from_montgomery(int.from_bytes(data[at : at + size], "little"))
        for at in range(0, len(data), size)
    ]
    if group.degree == 1:
        return numbers[0], numbers[1]
    return (numbers[0], numbers[1]), (numbers[2], numbers[3])


def msm(
    device: DeviceChoice,
    group: Group,
    bases: Array | MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> AffineInts:
    """The sum of scalars[i] * bases[i] as plain affine integers, None for infinity.

    See `MsmBases` and `msm_words` for the arrays and the errors. There is one vector of scalars;
    InputError for several, and for bases of another group.
    """
    check_one_vector(scalars)
    resident = _resident(device, group, bases)
    return affine_ints(group, msm_words(resident, scalars, options, timeline))


def check_one_vector(scalars: Array) -> None:
    """InputError for what is several vectors of scalars, or no array."""
    if plain_array("scalars", scalars).ndim == 3:
        raise InputError(
            f"msm takes one vector of scalars, of shape (n, 8), not {len(scalars)} of them; "
            "msm_many takes several"
        )


def _resident(device: DeviceChoice, group: Group, bases: Array | MsmBases) -> MsmBases:
    """Bases on a device; those of an array are without multiples, which would not pay."""
    if not isinstance(bases, MsmBases):
        return MsmBases(device, group, bases, MsmOptions(precompute_factor=1))
    if bases.group != group:
        check_group(group)
        raise InputError(f"bases of {bases.group.name} are none of {group.name}")
    return bases


def msm_many(
    device: DeviceChoice,
    group: Group,
    bases: Array | MsmBases,
    vectors: Sequence[Array] | Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> list[AffineInts]:
    """`msm` for each of several vectors of scalars over the same bases.

    The vectors are equally long; as many as `MsmOptions.batch_size` share each step of the work.
    """
    if not isinstance(vectors, (list, tuple, np.ndarray)):
        raise InputError(
            f"vectors of scalars come in a list or an array, not {shown_kind(vectors)}"
        )
    for vector in vectors:
        if plain_array("a vector of scalars", vector).ndim != 2:
            raise InputError(f"a vector of scalars has the shape (n, 8), not {vector.shape}")
    lengths = sorted({len(vector) for vector in vectors})
    if not lengths:
        return []
    if len(lengths) > 1:
        raise InputError(
            f"vectors of a batch are equally long, not of {lengths[0]} and {lengths[-1]} scalars"
        )
    for vector in vectors:
        if vector.shape != vectors[0].shape or vector.dtype != vectors[0].dtype:
            raise InputError("vectors of a batch are all uint32 words of shape (n, 8)")
    resident = _resident(device, group, bases)
    words = msm_words(resident, np.stack(list(vectors)), options, timeline)
    return [affine_ints(group, point) for point in words]
