"""The final step of MSMs on the host: from the lines of `weighted_sums` to affine points.

Two launches finish any number of MSMs over one group: the first with one lane per weighted sum, the
second with one lane per result. They take about 40 us, so arrays and packed arguments are kept
between calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import Form
from quod.device.discovery import open_processor
from quod.device.memory.buffer import Array
from quod.device.protocol import HostDevice
from quod.device.runtime.sentinel import check_written, mark
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.value import U32, U64, Pointer
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import line_bytes, vectors_of


@kernel
def weigh_lines(
    k: Builder,
    count: U32,
    firsts: Pointer[U32],
    lengths: Pointer[U32],
    weights: Pointer[U32],
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Compute out[i] = the weighted sum of the lengths[i] points from points[firsts[i]] on.

    weights: weights[i], 0 or 1, is the weight of the first point; each further point weighs one
        more.
    """
    law = sum_arithmetic(k, group, form)
    i = k.global_id()
    with k.if_(i < count):
        first, length, weight = firsts[i], lengths[i], weights[i]
        # Each point is added to `total` once for each unit of its weight.
        with k.range(1 - weight, length, carry=(law.neutral(), law.neutral())) as loop:
            running, total = loop.carried
            index = length - weight - loop.index
            running = law.add(running, law.load(points, first + index))
            loop.next((running, law.add(total, running)))
        law.store(out, i, loop.results[1])


@kernel
def combine_lines(
    k: Builder,
    count: U32,
    bounds: Pointer[U32],
    gaps: Pointer[U32],
    sums: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Compute out[i], affine, from sums[bounds[i]] to sums[bounds[i + 1] - 1] by Horner's rule.

    gaps: the total is doubled gaps[j] times before sums[j] is added.
    """
    law = sum_arithmetic(k, group, form)
    i = k.global_id()
    with k.if_(i < count):
        with k.range(bounds[i], bounds[i + 1], carry=law.neutral()) as loop:
            with k.range(0, gaps[loop.index], carry=loop.carried) as doubling:
                doubling.next(law.double(doubling.carried))
            loop.next(law.add(doubling.results, law.load(sums, loop.index)))
        k.store(out, i * group.point_words, *law.to_affine_words(loop.results))


@cache
def _host() -> HostDevice:
    return open_processor(threads=1)


def compile_for(group: Group, form: Form) -> None:
    """Compile the kernels of a `Finisher` in advance."""
    for definition in (weigh_lines, combine_lines):
        _host().compile(definition, group=group, form=form)


class Finisher:
    """Finish a batch of MSMs whose plans share a group and form. Not thread-safe."""

    def __init__(self, plans: Sequence[GpuMsmPlan]) -> None:
        host, group, form = _host(), plans[0].group, plans[0].form
        if any((plan.group, plan.form) != (group, form) for plan in plans):
            raise ValueError("MSMs that are finished together share their group and form")
        terms = [_terms(plan) for plan in plans]
        sizes = [line_bytes(plan) // (8 * plan.sum_words) for plan in plans]
        starts = itertools.accumulate(sizes, initial=0)
        firsts, lengths, weights, gaps = (
            np.concatenate(parts).astype(np.uint32)
            for parts in zip(
                *((first + start, *others) for start, (first, *others) in zip(starts, terms))
            )
        )  # fmt: skip
        counts = [len(term_arrays[0]) // plan.batch for plan, term_arrays in zip(plans, terms)]
        terms_per_result = np.repeat(counts, [plan.batch for plan in plans])
        bounds = np.concatenate([[0], np.cumsum(terms_per_result)]).astype(np.uint32)
        self._results = list(itertools.accumulate((plan.batch for plan in plans), initial=0))
        self._lines = np.empty(sum(sizes) * plans[0].sum_words, np.uint64)
        self._out = np.empty((self._results[-1], group.point_words), np.uint64)
        self._sums = sums = np.empty(len(firsts) * plans[0].sum_words, np.uint64)
        self._launches = []
        for definition, count, arguments in (
            (weigh_lines, len(firsts), (firsts, lengths, weights, self._lines, sums)),
            (combine_lines, len(self._out), (bounds, gaps, sums, self._out)),
        ):
            compiled = host.compile(definition, group=group, form=form)
            packed = compiled.pack((count, *arguments))
            workgroups = -(-count // compiled.lanes)
            self._launches.append((compiled, workgroups, packed, (count, *arguments)))

    def finish(self, lines: Sequence[Array]) -> list[Array]:
        """Return the results of each MSM from its lines.

        lines: for each MSM uint64 of `weighted_sums.line_bytes` bytes.
        Returns for each MSM affine points in Montgomery form, uint64 of shape (batch,
        group.point_words); zeros are infinity.
        """
        np.concatenate(lines, out=self._lines)
        for launch, output in zip(self._launches, (self._sums, self._out), strict=True):
            # The arrays still hold the results of the previous call.
            mark(output)
            _host().execute(*launch)
            check_written(_host(), "the sums of MSMs", output)
        return [self._out[start:stop].copy() for start, stop in itertools.pairwise(self._results)]


def _terms(plan: GpuMsmPlan) -> tuple[Array, Array, Array, Array]:
    """Return the terms of `combine_lines`, result by result, highest powers of two first.

    Returns four arrays: first point, number of points, weight of the first point, and gap.
    """
    vectors = vectors_of(plan)
    lengths = np.array([1 << vector.bits for vector in vectors])
    starts = plan.all_windows * (np.cumsum(lengths) - lengths)
    log2_weights = [plan.window_bits, *(vector.place for vector in vectors)]
    gaps = [above - below for above, below in itertools.pairwise(log2_weights)]
    # Bucket 0 has weight 1, so the points of the lowest vector weigh 1, 2, ... instead of 0, 1, ...
    weights = [0] * (len(vectors) - 1) + [1]
    windows = np.arange(plan.all_windows).reshape(plan.batch, -1)[:, ::-1].reshape(-1, 1)
    return (
        (starts + windows * lengths).reshape(-1), np.tile(lengths, plan.all_windows),
        np.tile(weights, plan.all_windows), np.tile(gaps, plan.all_windows),
    )  # fmt: skip
