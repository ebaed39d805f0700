"""Bases and their multiples on a GPU: runs of doublings, then one inversion for many points.

Doubling in XYZZ coordinates needs no look at the point: infinity, and a point of order two, give
ZZ = 0, which doublings keep.
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
    resident: int,
) -> None:
    """out[i] = 2**doublings * points[i], from affine points to sums in XYZZ coordinates."""
    k.resident_workgroups(resident)
    if keeps_elements(k, group):
        _double_packed(k, count, doublings, points, out, group)
        return
    curve, i = PointArithmetic(k, group, inlined=group.coordinate_words <= 8), k.global_id()
    f = curve.field
    with k.if_(i < count):
        p = curve.load_affine(points, i)
        one = f.one()
        start = tuple(f.carried_many([p.x, p.y, one, one]))
        with k.range(0, doublings, carry=start) as loop:
            loop.next(_doubled(f, group, loop.carried))
        x, y, zz, zzz = loop.results
        # Affine zeros double to ZZ = 0 too, as long as there is a doubling.
        curve.store_extended(out, i, ExtendedPoint(x, y, zz, zzz, p.infinity))


def _double_packed(
    k: Builder, count: Value, doublings: Value, points: Value, out: Value, group: Group
) -> None:
    """`double_points` where kernels are to be short: as a program over private memory."""
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
    """dbl-2008-s-1."""
    x, y, zz, zzz = p
    u = y + y
    v = f.square(u)
    w = u * v
    s = x * v
    square = f.square(x)
    m = plus_a_times(f, group, square + square + square, f.square(zz))
    new_x = f.carried(f.square(m) - (s + s))
    new_y = f.sum_of_products([(m, s - new_x), (f.negate(w), y)])
    return tuple(f.carried_many([new_x, new_y, v * zz, w * zzz]))


@frozen
class _Slice:
    """Points start to stop - 1, and the scratch memory in which they are worked on."""

    start: int
    stop: int
    extended: Buffer
    prefixes: Buffer

    @property
    def count(self) -> int:
        return self.stop - self.start


def slice_points(plan: GpuMsmPlan, count: int) -> int:
    """Points that are worked on together."""
    return max(1, min(count, _SCRATCH_BYTES // _scratch_per_point(plan)))


def _scratch_per_point(plan: GpuMsmPlan) -> int:
    """XYZZ coordinates and a prefix; on an Edwards curve also the affine point, old and new."""
    return 8 * plan.group.coordinate_words * (5 if plan.form == "weierstrass" else 9)


def scratch_bytes(plan: GpuMsmPlan, count: int) -> int:
    """Memory that `multiples` of so many points takes while it works, beside the multiples."""
    return 0 if _are_the_points(plan) else slice_points(plan, count) * _scratch_per_point(plan)


def _are_the_points(plan: GpuMsmPlan) -> bool:
    """Whether the bases are the points as they come: nothing to compute."""
    return plan.copies == 1 and plan.form == "weierstrass"


def multiples(device: AnyDevice, group: Group, points: Array, plan: GpuMsmPlan) -> Buffer:
    """2**(j * windows * window_bits) times every point, for j below `plan.copies`, copy by copy.

    `points` is a host array of affine points, shape (n, *group.shape), uint32; infinity stays
    infinity. For the Edwards form they are of odd order. The buffer holds copies * n bases as
    `accumulate` reads them.
    """
    count = len(points)
    bases = device.allocate(plan.copies * count * 8 * plan.base_words, zero=False)
    recording = device.stream("precompute").record()
    if count and _are_the_points(plan):
        recording.upload(np.require(points, requirements=("C", "A")), bases, label="bases")
    elif count:
        _Recorder(recording, device, points, plan, bases).record()
    recording.finish().run()
    return bases


class _Recorder:
    """Records the launches for one array of points."""

    def __init__(
        self, recording: RecordingStream, device: AnyDevice, points: Array, plan: GpuMsmPlan,
        bases: Buffer,
    ) -> None:  # fmt: skip
        self._recording = recording
        self._device = device
        self._points = points
        self._plan = plan
        self._bases = bases
        self._together = slice_points(plan, len(points))
        self._element = 8 * plan.group.coordinate_words
        self._product = product_cost(plan.group.coordinates, plan.group.degree)

    def record(self) -> None:
        count, together = len(self._points), self._together
        allocate, element = self._device.allocate, self._element
        extended = allocate(together * 4 * element, zero=False)
        prefixes = allocate(together * element, zero=False)
        if self._plan.form == "edwards":
            affine = [allocate(together * 2 * element, zero=False) for _ in range(2)]
        for start in range(0, count, together):
            own = _Slice(start, min(count, start + together), extended, prefixes)
            points = np.require(self._points[own.start : own.stop], requirements=("C", "A"))
            if self._plan.form == "edwards":
                self._edwards(own, points, affine)
            else:
                self._weierstrass(own, points)

    def _room(self, own: _Slice, copy: int) -> Buffer:
        """Where a slice of a copy of the bases is."""
        first, size = copy * len(self._points), 8 * self._plan.base_words
        return self._bases.slice((first + own.start) * size, (first + own.stop) * size)

    def _weierstrass(self, own: _Slice, points: Array) -> None:
        source = self._room(own, 0)
        self._recording.upload(points, source, label="bases")
        for copy in range(1, self._plan.copies):
            target = self._room(own, copy)
            self._multiply(own, source, target)
            source = target

    def _edwards(self, own: _Slice, points: Array, affine: list[Buffer]) -> None:
        source, target = (room.slice(0, own.count * 2 * self._element) for room in affine)
        self._recording.upload(points, source, label="bases")
        for copy in range(self._plan.copies):
            if copy:
                self._multiply(own, source, target)
                source, target = target, source
            instances = self._instances(own.count)
            kernel = self._device.compile(to_edwards, group=self._plan.group)
            self._recording.launch(
                kernel, -(-instances // self._device.lanes), instances, own.count, source,
                own.prefixes, self._room(own, copy), label="precompute",
                bytes=own.count * 9 * self._element, modmuls=own.count * _NORMALISING,
                multiply_adds=own.count * _NORMALISING * self._product,
            )  # fmt: skip

    def _multiply(self, own: _Slice, source: Buffer, target: Buffer) -> None:
        """The next copy of affine points."""
        device, plan, count, element = self._device, self._plan, own.count, self._element
        doublings = plan.windows * plan.window_bits
        double = device.compile(
            double_points, group=plan.group, resident=resident_workgroups(plan.group)
        )
        self._recording.launch(
            double, -(-count // device.lanes), count, doublings, source, own.extended,
            label="precompute", bytes=count * 6 * element,
            modmuls=count * doublings * _DOUBLING * plan.group.degree,
            multiply_adds=count * doublings * _DOUBLING * self._product,
        )  # fmt: skip
        instances = self._instances(count)
        normalise = device.compile(normalise_sums, group=plan.group)
        self._recording.launch(
            normalise, -(-instances // device.lanes), instances, count, own.extended, own.prefixes,
            target, label="precompute", bytes=count * 12 * element,
            modmuls=count * _NORMALISING * plan.group.degree,
            multiply_adds=count * _NORMALISING * self._product,
        )  # fmt: skip

    def _instances(self, count: int) -> int:
        """As many as share inversions well, or as many as keep an eighth of the lanes busy."""
        return min(count, max(-(-count // _SHARING), self._device.resident_lanes // 8))
