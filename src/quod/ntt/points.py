"""Transforms of curve points on any device, with a scalar multiplication in each butterfly.

The inverse transform of the points tau**i * G yields the Lagrange polynomials of a domain at tau,
times G, without knowledge of tau. The transform is decimation in frequency: in the stage with
blocks of m points, pair k of points a, b becomes a + b and (a - b) * w**-k, with w of order m.
Intermediate points are in extended coordinates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from quod.curve.group import Group
from quod.curve.multiples.fixed_multiple import FixedMultiple, loaded_digits
from quod.curve.multiples.scalar_parts import scalar_decomposition
from quod.curve.multiples.scalar_splitting import split_scalar
from quod.curve.weierstrass.point import PointArithmetic
from quod.curve.weierstrass.point_kernels import curve_normalise
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words
from quod.field.roots import root_of_unity
from quod.field.strategy import prime_field
from quod.hash.words import message_words
from quod.kernel import U32, U64, Builder, KernelDefinition, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.gpu.factors import build_progressions

# The number of points that share an inversion, if there are enough for all lanes.
_SHARING = 64


@kernel
def point_butterflies(
    k: Builder,
    count: U32,
    blocks: U32,
    half: U32,
    first: U32,
    stride: U32,
    digits: Pointer[U32],
    source: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    multiplied: bool,
) -> None:
    """Compute a stage on extended points: pairs k >= `first` of each block of 2 * `half`.

    out: receives the sums and the differences of the pairs. With `multiplied`, the difference of
        pair k is multiplied by the scalar in row k * stride of `digits`.

    Neighbouring instances have pairs with the same k, so that they have the same scalar.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    multiply_by_factor = FixedMultiple(k, curve, scanned=False) if multiplied else None
    with k.if_(i < count):
        pair = first + i // blocks
        low = i % blocks * (half * 2) + pair
        a, b = curve.load_extended(source, low), curve.load_extended(source, low + half)
        curve.store_extended(out, low, curve.add(a, b))
        difference = curve.bounded(curve.add(a, curve.negate(b)))
        if multiply_by_factor is not None:
            difference = multiply_by_factor(difference, _row(digits, pair * stride, group))
        curve.store_extended(out, low + half, difference)


@kernel
def point_multiples(
    k: Builder,
    count: U32,
    digits: Pointer[U32],
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Multiply affine points[i] by the scalar in row 0 of `digits`; out[i] is extended."""
    curve, i = PointArithmetic(k, group), k.global_id()
    multiply_by_factor = FixedMultiple(k, curve, scanned=False)
    with k.if_(i < count):
        point = curve.extend(curve.load_affine(points, i))
        curve.store_extended(out, i, multiply_by_factor(point, _row(digits, i * 0, group)))


@kernel
def point_doubles(
    k: Builder, count: U32, points: Pointer[U64], out: Pointer[U64], *, group: Group
) -> None:
    """Compute out[i] = 2 * points[i], extended."""
    curve, i = PointArithmetic(k, group), k.global_id()
    with k.if_(i < count):
        curve.store_extended(out, i, curve.double(curve.load_extended(points, i)))


@kernel
def factor_digits(
    k: Builder, count: U32, factors: Pointer[U64], out: Pointer[U32], *, group: Group
) -> None:
    """Write the digits of factors[i], in Montgomery form, to row i of `out`."""
    f, parts, i = prime_field(k, group.scalars), scalar_decomposition(group), k.global_id()
    with k.if_(i < count):
        digits = split_scalar(k, parts, message_words(f, f.load(factors, i)))
        word_offset = i.cast(types.u64) * (parts.count * parts.part_words)
        k.store(out, word_offset, *(word for part in digits for word in part))


def _row(digits: Value, row: Value, group: Group) -> list[list[Value]]:
    """Load the digits of one factor."""
    parts = scalar_decomposition(group)
    return loaded_digits(digits, row, parts.count, parts.part_words)


class LagrangeLevels:
    """Inverse transforms of the first 2**n points of an array, for all n up to a largest one.

    The transforms share the twiddles and the points scaled by the inverse of the domain's size.
    """

    def __init__(self, device: AnyDevice, group: Group, top: int) -> None:
        """Build the twiddles of levels up to `top`, with the roots of unity of snarkjs."""
        self._device = device
        self._group = group
        self._top = top
        self._parts = scalar_decomposition(group)
        fr, count = group.scalars, max((1 << top) // 2, 1)
        inverse_root = pow(root_of_unity(fr, "snarkjs", top), -1, fr.value)
        self._factors = device.allocate(
            4 * self._parts.count * self._parts.part_words * count, zero=False
        )
        powers = build_progressions(device, fr, [1], [inverse_root], count)
        self._launch(factor_digits, count, powers, self._factors)

    @staticmethod
    def check_memory(device: AnyDevice, group: Group, top: int) -> None:
        """Raise DeviceError if the largest transform exceeds the device's memory budget."""
        parts = scalar_decomposition(group)
        # Two arrays of extended points, prefix products, and affine points in and out.
        bytes_per_point = (
            2 * 16 * group.field.words + 4 * group.field.words + 16 * group.point_words
        )
        needed_bytes = (bytes_per_point << top) + (2 * parts.count * parts.part_words << top)
        device.check_budget(f"a transform of 2**{top} points of {group.name}", needed_bytes)

    def run(
        self, points: Words, top: int | None = None, wanted: Collection[int] | None = None
    ) -> Iterator[tuple[int, Words]]:
        """Yield (level, affine points in the order of the domain), largest level first.

        points: at most 2**top affine points, which are padded with infinity.
        top: the largest level; default and maximum: `top` of the constructor.
        wanted: the levels to compute. Default: all.
        """
        device, group = self._device, self._group
        top = self._top if top is None else top
        size, fr = 1 << top, group.scalars
        padded = np.zeros((size, *group.shape), np.uint32)
        padded[: len(points)] = points
        point_bytes = 16 * group.field.words
        inverse_size_digits = device.upload(self._parts.words([pow(size, -1, fr.value)]))
        scaled, work = device.allocate(size * point_bytes), device.allocate(size * point_bytes)
        self._launch(point_multiples, size, inverse_size_digits, device.upload(padded), scaled)
        del padded
        for level in reversed(range(top + 1)):
            if wanted is None or level in wanted:
                points_of_level = self._transform(scaled, work, level)
                yield level, points_of_level[bit_reversed(level)]
            if level:
                # Double the scale for the next level, on the points that it reads.
                self._launch(point_doubles, 1 << (level - 1), scaled, scaled)

    def _transform(self, source: Buffer, work: Buffer, level: int) -> Words:
        """Return the transform of 2**level points, affine and in bit-reversed order."""
        stage_input = source
        for stage in range(level):
            half, blocks = 1 << (level - stage - 1), 1 << stage
            # The scalar of pair 0 is 1.
            for first, pairs in ((0, 1), (1, half - 1)):
                if pairs:
                    self._launch(
                        point_butterflies, pairs * blocks, blocks, half, first,
                        1 << (self._top - level + stage), self._factors, stage_input, work,
                        multiplied=bool(first),
                    )  # fmt: skip
            stage_input = work
        return self._affine(stage_input, 1 << level)

    def _affine(self, points: Buffer, count: int) -> Words:
        device, group = self._device, self._group
        out = unwritten(count, *group.shape)
        prefixes = device.allocate(4 * count * group.field.words, zero=False)
        instances = min(count, max(device.resident_lanes, count // _SHARING))
        kernel_ = device.compile(curve_normalise, group=group)
        device.launch(
            kernel_, -(-instances // device.lanes), instances, count, points, prefixes, out
        )
        check_written(device, "affine points", out)
        return out

    def _launch(
        self, definition: KernelDefinition, count: int, *arguments: Any, **static: bool
    ) -> None:
        device = self._device
        compiled = device.compile(definition, group=self._group, **static)
        device.launch(compiled, -(-count // device.lanes), count, *arguments)


def bit_reversed(log_size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the bit-reversed order of 2**log_size results of decimation in frequency."""
    order = np.zeros(1, np.int64)
    for _ in range(log_size):
        order = np.concatenate([2 * order, 2 * order + 1])
    return order
