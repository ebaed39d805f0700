"""Operations on host arrays of points, computed on a device.

Arrays are as in `quod.curve.array`: affine, Montgomery form, uint32 of shape (n, *group.shape),
infinity all zero. Extended points have the coordinates X, Y, ZZ and ZZZ, as in
`quod.curve.weierstrass.point`. Every function is right for every point of the curve. Only
`first_bad_point` and the membership tests check that points are on the curve. The functions of
affine points raise InputError for arrays of other shapes or types. To multiply one point by many
scalars use `quod.msm.fixed_base`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.array import check_points_array, widened_scalars
from quod.curve.group import Group
from quod.curve.infinity import infinite_points
from quod.curve.weierstrass import point_kernels as kernels
from quod.curve.weierstrass.membership import (
    OFF_CURVE,
    ON_CURVE,
    OUTSIDE_SUBGROUP,
    curve_check,
    find_finite,
)
from quod.device.protocol import AnyDevice, in_host_memory, lanes_for
from quod.device.runtime.sentinel import check_written, not_written, unwritten
from quod.errors import InputError
from quod.field.array import Words, canonical
from quod.kernel import KernelDefinition

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Points per instance, which share one inversion, where there are enough points.
_SHARING = 64
# The host finds infinity among these in less than a millisecond.
_FEW_POINTS = 1 << 14

# Partial sums per lane of a CPU, and points per partial sum on a GPU.
_SUMS_PER_LANE, _POINTS_PER_SUM = 8, 8


def add(device: AnyDevice, group: Group, a: Words, b: Words) -> Words:
    """a[i] + b[i]."""
    a, b = _points(group, a), _points(group, b)
    if len(a) != len(b):
        raise InputError(f"{len(a)} points cannot be added to {len(b)}")
    return _extended(device, group, kernels.curve_add, len(a), a, b)


def double(device: AnyDevice, group: Group, points: Words) -> Words:
    """2 * points[i]."""
    points = _points(group, points)
    return _extended(device, group, kernels.curve_double, len(points), points)


def negate(device: AnyDevice, group: Group, points: Words) -> Words:
    """-points[i]."""
    points = _points(group, points)
    out = unwritten(*points.shape)
    _launch(device, kernels.curve_negate, len(points), points, out, group=group)
    check_written(device, "negated points", out)
    return out


def multiply(device: AnyDevice, group: Group, points: Words, scalars: Words) -> Words:
    """scalars[i] * points[i].

    scalars: uint32 of shape (n, words), or (1, words) for one scalar that all points share. They
    are integers of any size and are not reduced, so points need not be in the subgroup.
    """
    points = _points(group, points)
    # Padded to 64-bit words, each of two uint32 words.
    padded = widened_scalars(scalars, len(points))
    return _extended(
        device,
        group,
        kernels.curve_multiply,
        len(points),
        points,
        padded,
        scalar_words=padded.shape[1] // 2,
    )


def sum_points(device: AnyDevice, group: Group, points: Words) -> Words:
    """The sum of all points, of shape group.shape."""
    points = _points(group, points)
    if not len(points):
        return np.zeros(group.shape, np.uint32)
    count, source, extended = len(points), points, False
    while True:
        instances = _sums_of(device, count, first=not extended)
        lanes = 1 if instances == 1 and device.host_memory else device.lanes
        sums = unwritten(instances, 4 * group.field.words)
        kernel = device.compile(kernels.curve_sum, lanes=lanes, group=group, extended=extended)
        device.launch(kernel, -(-instances // lanes), instances, count, source, sums)
        check_written(device, "sums of points", sums)
        if instances == 1:
            break
        count, source, extended = instances, sums, True
    total: Words = normalise(device, group, sums)[0]
    return total


def _sums_of(device: AnyDevice, count: int, *, first: bool) -> int:
    """Return the number of partial sums that a round computes from `count` points.

    first: the round adds points, not partial sums. On a CPU one lane adds all partial sums of the
    first round; on a GPU a single lane is slow, so further rounds are parallel too.
    """
    if device.host_memory:
        return min(count, _SUMS_PER_LANE * device.resident_lanes) if first else 1
    return min(-(-count // _POINTS_PER_SUM), device.resident_lanes)


def normalise(device: AnyDevice, group: Group, extended: Words) -> Words:
    """Return extended points, uint32 of shape (n, 4 * group.field.words), as affine ones."""
    prefixes = np.empty((len(extended), group.field.words), np.uint32)
    return normalise_within(device, group, len(extended), extended, prefixes)


def normalise_within(
    device: AnyDevice, group: Group, count: int, extended: Any, prefixes: Any
) -> Words:
    """Compute `normalise` of `count` points; the caller allocates the work array.

    extended, prefixes: arrays or device buffers. `prefixes` has one field element per point and is
    overwritten. Callers must wipe both if they depend on a secret.
    """
    out = unwritten(count, *group.shape)
    if not count:
        return out
    # At least one instance per lane; with more points, _SHARING points share an inversion.
    instances = min(count, max(device.resident_lanes, count // _SHARING))
    lanes = lanes_for(device, count)
    kernel = device.compile(kernels.curve_normalise, lanes=lanes, group=group)
    device.launch(kernel, -(-instances // lanes), instances, count, extended, prefixes, out)
    check_written(device, "affine points", out)
    return out


def is_finite(device: AnyDevice, group: Group, points: Words) -> NDArray[np.bool_]:
    """Return for each point whether it is finite.

    A few points in host memory are read here, which takes less time than loading a kernel. Raises
    DeviceError if the kernel left a result unwritten.
    """
    points = _points(group, points)
    if in_host_memory(device) and len(points) <= _FEW_POINTS:
        finite = np.ones(len(points), np.bool_)
        finite[infinite_points(points)] = False
        return finite
    # The kernel writes the OR of all words of a point, so 1, the initial value, is a rare result.
    # Points with that result are computed again here, to detect results that were not written.
    word_ors = np.ones(len(points), np.uint32)
    _launch(device, find_finite, len(points), points, word_ors, group=group)
    recomputed = points[word_ors == 1].reshape(-1, 2 * group.point_words)
    if (np.bitwise_or.reduce(recomputed, axis=1) != 1).any():
        raise not_written(device, "which points are finite")
    return np.not_equal(word_ors, 0)


def is_on_curve(device: AnyDevice, group: Group, points: Words) -> NDArray[np.bool_]:
    """Return for each point whether it is on the curve with canonical coordinates, or infinity."""
    return np.equal(_check(device, group, points, subgroup=False), ON_CURVE)


def is_in_subgroup(device: AnyDevice, group: Group, points: Words) -> NDArray[np.bool_]:
    """Return whether each point is on the curve and in the subgroup of prime order; infinity is."""
    return np.equal(_check(device, group, points, subgroup=True), ON_CURVE)


def first_bad_point(
    device: AnyDevice, group: Group, points: Words, *, subgroup: bool, infinity: bool
) -> tuple[int, str] | None:
    """Return the index of the first invalid point and the reason, or None if all are valid.

    subgroup: points must also be in the subgroup of prime order, not only on the curve.
    infinity: points at infinity are valid. A file that was not fully written has zeros, which
    read as infinity, so allow it only where a correct file contains it.
    """
    answers = _check(device, group, points, subgroup=subgroup)
    bad = np.flatnonzero(answers)
    infinite = np.zeros(0, np.intp) if infinity else infinite_points(points)
    if len(infinite) and (not len(bad) or infinite[0] < bad[0]):
        return int(infinite[0]), "is the point at infinity"
    if not len(bad):
        return None
    index = int(bad[0])
    if answers[index] == OFF_CURVE:
        return index, "is not on the curve"
    return index, "is not in the subgroup of prime order"


def _check(device: AnyDevice, group: Group, points: Words, *, subgroup: bool) -> Words:
    """Return a code for each point: `ON_CURVE`, `OFF_CURVE` or `OUTSIDE_SUBGROUP`."""
    points = _points(group, points)
    answers = unwritten(len(points), 1)
    _launch(device, curve_check, len(points), points, answers, group=group, subgroup=subgroup)
    # Every code must have been written, including the code 0 of valid points.
    codes: Words = answers[:, 0]
    if (codes > OUTSIDE_SUBGROUP).any():
        raise not_written(device, "which points are in the group")
    is_canonical = canonical(group.coordinates, points).reshape(len(points), 2 * group.degree)
    codes[~is_canonical.all(axis=1)] = OFF_CURVE
    return codes


def _points(group: Group, points: Words) -> Words:
    """Check an array of points, and return it contiguous and aligned."""
    check_points_array(group, points)
    return np.require(points, requirements=("C", "A"))


def _extended(
    device: AnyDevice,
    group: Group,
    definition: KernelDefinition,
    count: int,
    *arrays: Words,
    **static: Any,
) -> Words:
    """Run a kernel that writes `count` extended points, and return them as affine points."""
    results = unwritten(count, 4 * group.field.words)
    _launch(device, definition, count, *arrays, results, group=group, **static)
    check_written(device, "points", results)
    return normalise(device, group, results)


def _launch(
    device: AnyDevice, definition: KernelDefinition, count: int, *arrays: Words, **static: Any
) -> None:
    """Run a kernel with one instance for each of `count` points."""
    lanes = lanes_for(device, count)
    kernel = device.compile(definition, lanes=lanes, **static)
    device.launch(kernel, -(-count // lanes), count, *arrays)
