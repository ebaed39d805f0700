"""Multiples of bases on a GPU: runs of doublings, then one inversion for many points.

Doubling in XYZZ coordinates needs no case distinction: infinity and a point of order two give
ZZ = 0, which further doublings preserve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.bytecode import keeps_elements
from quod.curve.sums.edwards import to_edwards
from quod.curve.sums.forms import resident_workgroups
from quod.curve.weierstrass.normalise import normalise_sums
from quod.curve.weierstrass.point import (
    CoordinateElement,
    ExtendedPoint,
    PointArithmetic,
    plus_a_times,
)
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.field.arithmetic import FieldArithmetic
from quod.field.cost import product_cost
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import GpuMsmPlan

# Bytes of scratch memory for the points of one slice.
_SCRATCH_BYTES = 256 << 20

# The number of points that share an inversion, if there are enough points for all lanes.
_SHARING = 32

# Field products of a doubling, and of a point's conversion to affine coordinates.
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
    resident: int,
) -> None:
    """Compute out[i] = 2**doublings * points[i], from affine to XYZZ coordinates."""
    k.resident_workgroups(resident)
    if keeps_elements(k, group):
        _double_packed(k, count, doublings, points, out, group)
        return
    curve, i = PointArithmetic(k, group, inlined=group.coordinate_words <= 8), k.global_id()
    f = curve.field
    with k.if_(i < count):
        p = curve.load_affine(points, i)
        one = f.one()
        start = tuple(f.bounded_many([p.x, p.y, one, one]))
        with k.range(0, doublings, carry=start) as loop:
            loop.next(_doubled(f, group, loop.carried))
        x, y, zz, zzz = loop.results
        # Affine zeros double to ZZ = 0 too, since there is at least one doubling.
        curve.store_extended(out, i, ExtendedPoint(x, y, zz, zzz, p.infinity))


def _double_packed(
    k: Builder, count: Value, doublings: Value, points: Value, out: Value, group: Group
) -> None:
    """Compute `double_points` in a short kernel, by the bytecode interpreter."""
    law, i = sum_arithmetic(k, group, "weierstrass"), k.global_id()
    with k.if_(i < count):
        # Doubled in XYZZ coordinates, infinity (0, 0) becomes ZZ = 0 like a point of order two.
        start = law.begin(law.base(law.load_base(points, i), i))
        with k.range(0, doublings, carry=start) as loop:
            loop.next(law.double(loop.carried))
        law.store(out, i, loop.results)


def _doubled(
    f: FieldArithmetic[Any], group: Group, p: Sequence[CoordinateElement]
) -> tuple[CoordinateElement, ...]:
    """Double a point in XYZZ coordinates by the formula dbl-2008-s-1."""
    x, y, zz, zzz = p
    u = y + y
    v = f.square(u)
    w = u * v
    s = x * v
    square = f.square(x)
    m = plus_a_times(f, group, square + square + square, f.square(zz))
    x3 = f.bounded(f.square(m) - (s + s))
    y3 = f.sum_of_products([(m, s - x3), (f.negate(w), y)])
    return tuple(f.bounded_many([x3, y3, v * zz, w * zzz]))


@frozen
class _Slice:
    """A slice of the points, start to stop - 1, and its scratch memory.

    extended: XYZZ coordinates.
    prefixes: prefix products of the shared inversion.
    """

    start: int
    stop: int
    extended: Buffer
    prefixes: Buffer

    @property
    def count(self) -> int:
        return self.stop - self.start


def slice_points(plan: GpuMsmPlan, count: int) -> int:
    """Return the points of one slice."""
    return max(1, min(count, _SCRATCH_BYTES // _scratch_per_point(plan)))


def _scratch_per_point(plan: GpuMsmPlan) -> int:
    """Return bytes per point: XYZZ coordinates and a prefix; for Edwards two affine points too."""
    return 8 * plan.group.coordinate_words * (5 if plan.form == "weierstrass" else 9)


def scratch_bytes(plan: GpuMsmPlan, count: int) -> int:
    """Return the bytes that `multiples` of `count` points allocates in addition to its result."""
    return 0 if _bases_equal_points(plan) else slice_points(plan, count) * _scratch_per_point(plan)


def _bases_equal_points(plan: GpuMsmPlan) -> bool:
    """Return whether the bases are the points unchanged."""
    return plan.copies == 1 and plan.form == "weierstrass"


def base_bytes(plan: GpuMsmPlan, count: int) -> int:
    """Return the bytes of the bases and multiples of `count` points."""
    return plan.copies * count * 8 * plan.base_words


def compile_for(device: AnyDevice, plan: GpuMsmPlan) -> None:
    """Compile the kernels of `multiples`, which are assembled in the background."""
    if plan.copies > 1:
        _double_kernel(device, plan.group)
        device.compile(normalise_sums, group=plan.group)
    if plan.form == "edwards":
        device.compile(to_edwards, group=plan.group)


def _double_kernel(device: AnyDevice, group: Group) -> Any:
    return device.compile(double_points, group=group, resident=resident_workgroups(group))


def multiples(
    device: AnyDevice, group: Group, points: Array, plan: GpuMsmPlan, into: Buffer | None = None
) -> Buffer:
    """Compute 2**(j * windows * window_bits) * points[i] for j below `plan.copies`.

    points: host array of affine points, uint32 of shape (n, *group.shape); infinity stays infinity.
        For the Edwards form the points must have odd order.
    into: memory of `base_bytes`, by default new.
    Returns copies * n bases, copy by copy, in the form that `accumulate` reads.
    """
    count = len(points)
    bases = device.allocate(base_bytes(plan, count), zero=False) if into is None else into
    recording = device.stream("precompute").record()
    if count and _bases_equal_points(plan):
        recording.upload(np.require(points, requirements=("C", "A")), bases, label="bases")
    elif count:
        _Recorder(recording, device, points, plan, bases).record()
    recording.finish().run()
    return bases


class _Recorder:
    """Record the launches for one array of points."""

    def __init__(
        self, recording: RecordingStream, device: AnyDevice, points: Array, plan: GpuMsmPlan,
        bases: Buffer,
    ) -> None:  # fmt: skip
        self._recording = recording
        self._device = device
        self._points = points
        self._plan = plan
        self._bases = bases
        self._slice_length = slice_points(plan, len(points))
        self._element = 8 * plan.group.coordinate_words
        self._product = product_cost(plan.group.coordinates, plan.group.degree)

    def record(self) -> None:
        count, slice_length = len(self._points), self._slice_length
        allocate, element = self._device.allocate, self._element
        extended = allocate(slice_length * 4 * element, zero=False)
        prefixes = allocate(slice_length * element, zero=False)
        if self._plan.form == "edwards":
            affine = [allocate(slice_length * 2 * element, zero=False) for _ in range(2)]
        for start in range(0, count, slice_length):
            points_slice = _Slice(start, min(count, start + slice_length), extended, prefixes)
            points = np.require(
                self._points[points_slice.start : points_slice.stop], requirements=("C", "A")
            )
            if self._plan.form == "edwards":
                self._edwards(points_slice, points, affine)
            else:
                self._weierstrass(points_slice, points)

    def _bases_of_slice(self, points_slice: _Slice, copy: int) -> Buffer:
        """Return the memory of a slice of one copy of the bases."""
        first_base, base_bytes = copy * len(self._points), 8 * self._plan.base_words
        return self._bases.slice(
            (first_base + points_slice.start) * base_bytes,
            (first_base + points_slice.stop) * base_bytes,
        )

    def _weierstrass(self, points_slice: _Slice, points: Array) -> None:
        """Record all copies of a slice, as affine points."""
        source = self._bases_of_slice(points_slice, 0)
        self._recording.upload(points, source, label="bases")
        for copy in range(1, self._plan.copies):
            target = self._bases_of_slice(points_slice, copy)
            self._multiply(points_slice, source, target)
            source = target

    def _edwards(self, points_slice: _Slice, points: Array, affine: list[Buffer]) -> None:
        """Record all copies of a slice, in the Edwards form.

        affine: memory for two copies as affine Weierstrass points.
        """
        source, target = (
            copy_memory.slice(0, points_slice.count * 2 * self._element) for copy_memory in affine
        )
        self._recording.upload(points, source, label="bases")
        for copy in range(self._plan.copies):
            if copy:
                self._multiply(points_slice, source, target)
                source, target = target, source
            instances = self._instances(points_slice.count)
            kernel = self._device.compile(to_edwards, group=self._plan.group)
            self._recording.launch(
                kernel, -(-instances // self._device.lanes), instances, points_slice.count, source,
                points_slice.prefixes, self._bases_of_slice(points_slice, copy), label="precompute",
                bytes=points_slice.count * 9 * self._element,
                modmuls=points_slice.count * _NORMALISING,
                multiply_adds=points_slice.count * _NORMALISING * self._product,
            )  # fmt: skip

    def _multiply(self, points_slice: _Slice, source: Buffer, target: Buffer) -> None:
        """Record the next copy of a slice, from affine points to affine points."""
        device, plan, count, element = self._device, self._plan, points_slice.count, self._element
        doublings = plan.windows * plan.window_bits
        self._recording.launch(
            _double_kernel(device, plan.group), -(-count // device.lanes), count, doublings, source,
            points_slice.extended, label="precompute", bytes=count * 6 * element,
            modmuls=count * doublings * _DOUBLING * plan.group.degree,
            multiply_adds=count * doublings * _DOUBLING * self._product,
        )  # fmt: skip
        instances = self._instances(count)
        normalise = device.compile(normalise_sums, group=plan.group)
        self._recording.launch(
            normalise, -(-instances // device.lanes), instances, count, points_slice.extended,
            points_slice.prefixes, target, label="precompute", bytes=count * 12 * element,
            modmuls=count * _NORMALISING * plan.group.degree,
            multiply_adds=count * _NORMALISING * self._product,
        )  # fmt: skip

    def _instances(self, count: int) -> int:
        """Return the number of instances, for shared inversions or an eighth of the lanes."""
        return min(count, max(-(-count // _SHARING), self._device.resident_lanes // 8))
