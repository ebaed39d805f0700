"""Multiples of bases on a GPU: runs of doublings, then one inversion for many points.

Doubling in XYZZ coordinates needs no look at the point: infinity, and a point of order two, give
ZZ = 0, which doublings keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.curve.groups import Group
from quod.curve.kernels import curve_normalise
from quod.curve.point import ExtendedPoint, PointArithmetic, plus_a_times
from quod.device.buffer import Buffer
from quod.device.protocol import Device
from quod.device.stream import RecordingStream
from quod.kernel.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.value import U32, U64, Pointer
from quod.msm.gpu.layout import GpuMsmPlan

Array = np.ndarray[Any, Any]

# Scratch memory for the points that are worked on together.
_SCRATCH_BYTES = 256 << 20

# Points that share an inversion, if there are enough for all lanes.
_SHARING = 32

# Products of a doubling, and of making a point affine.
_DOUBLING, _NORMALISING = 9, 9


@kernel
def double_points(
    k: Builder,
    count: U32,
    doublings: U32,
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """out[i] = 2**doublings * points[i], from affine points to sums in XYZZ coordinates."""
    curve, i = PointArithmetic(k, group), k.global_id()
    f = curve.field
    with k.if_(i < count):
        p = curve.load_affine(points, i)
        one = f.one()
        start = tuple(f.carried_many([p.x, p.y, one, one]))
        with k.range(0, doublings, carry=start) as loop:
            x, y, zz, zzz = loop.carried
            u = y + y
            v = f.square(u)
            w = u * v
            s = x * v
            square = f.square(x)
            m = plus_a_times(f, group, square + square + square, f.square(zz))
            new_x = f.carried(f.square(m) - (s + s))
            new_y = f.sum_of_products([(m, s - new_x), (f.negate(w), y)])
            loop.next(tuple(f.carried_many([new_x, new_y, v * zz, w * zzz])))
        x, y, zz, zzz = loop.results
        # Affine zeros double to ZZ = 0 too, as long as there is a doubling.
        curve.store_extended(out, i, ExtendedPoint(x, y, zz, zzz, p.infinity))


def slice_points(group: Group, count: int) -> int:
    """Points that are worked on together."""
    return max(1, min(count, _SCRATCH_BYTES // (8 * 5 * group.coordinate_words)))


def scratch_bytes(group: Group, count: int) -> int:
    """Memory that `multiples` takes while it works, beside the multiples."""
    return slice_points(group, count) * 8 * 5 * group.coordinate_words


def multiples(device: Device[Any], group: Group, points: Array, plan: GpuMsmPlan) -> Buffer:
    """2**(j * windows * window_bits) times every point, for j below `plan.copies`, copy by copy.

    `points` is a host array of affine points, shape (n, *group.shape), uint32; infinity stays
    infinity. The buffer holds copies * n bases as `accumulate` reads them.
    """
    count = len(points)
    bases = device.allocate(plan.copies * count * 8 * plan.base_words, zero=False)
    recording = device.stream("precompute").record()
    record(recording, device, group, points, plan, bases)
    recording.finish().submit().wait()
    return bases


def record(
    recording: RecordingStream,
    device: Device[Any],
    group: Group,
    points: Array,
    plan: GpuMsmPlan,
    bases: Buffer,
) -> None:
    """What `multiples` does, with `bases` as room for the result."""
    count, size = len(points), 8 * plan.base_words
    if not count:
        return
    recording.upload(points, bases.slice(0, count * size), label="bases")
    if plan.copies == 1:
        return
    together = slice_points(group, count)
    element = 8 * group.coordinate_words
    extended = device.allocate(together * 4 * element, zero=False)
    prefixes = device.allocate(together * element, zero=False)
    double = device.compile(double_points, group=group)
    normalise = device.compile(curve_normalise, group=group)
    doublings = plan.windows * plan.window_bits
    for start in range(0, count, together):
        own = min(together, count - start)
        instances = min(own, max(-(-own // _SHARING), min(own, device.resident_lanes // 8)))
        for copy in range(1, plan.copies):
            source, target = (
                bases.slice((j * count + start) * size, (j * count + start + own) * size)
                for j in (copy - 1, copy)
            )
            recording.launch(
                double, -(-own // device.lanes), own, doublings, source, extended,
                label="precompute", bytes=own * (size + 4 * element),
                modmuls=own * doublings * _DOUBLING * group.degree,
            )  # fmt: skip
            recording.launch(
                normalise, -(-instances // device.lanes), instances, own, extended, prefixes, target,
                label="precompute", bytes=own * (size + 10 * element),
                modmuls=own * _NORMALISING * group.degree,
            )  # fmt: skip
