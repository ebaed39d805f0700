"""Multi-scalar multiplication: the sum of scalar times base over two arrays.

`MsmBases` hold bases on a device. The MSMs over them are computed by `quod.msm.host.engine` on a
CPU and by `quod.msm.gpu.run` on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from quod.curve.group import Group
from quod.curve.parameters import Fq2Element
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.msm.host.engine import HostEngine
from quod.msm.options import MsmOptions
from quod.msm.scalars import (
    SCALAR_BYTES,
    check_bases,
    check_count,
    check_words,
    padded_scalars,
)
from quod.validation import instance, plain_array, shown_kind, whole_number

AffineInts = tuple[int, int] | tuple[Fq2Element, Fq2Element] | None


class MsmEngine(Protocol):
    """At least one base in a device's memory, and the MSMs over them.

    If options are None, those of the bases apply.
    """

    @property
    def nbytes(self) -> int:
        """Device memory of the bases and their multiples, in bytes."""

    def peak_bytes(self, count: int, vectors: int, options: MsmOptions | None) -> int:
        """Bound the bytes, beyond the bases, for MSMs of `vectors` vectors of `count` scalars."""

    def scalar_memory(self, count: int, options: MsmOptions | None) -> Array:
        """See `MsmBases.scalar_memory`."""

    def msm_words(
        self, scalars: Array, options: MsmOptions | None, timeline: Timeline | None
    ) -> Array:
        """Return the MSMs of host scalars of shape (m, n, 8), n above 0.

        Affine points in Montgomery form, uint64 of shape (m, point_words).
        """

    def buffer_msm_words(
        self, scalars: Buffer, vectors: int, count: int, timeline: Timeline | None
    ) -> Array:
        """Return the MSMs of `vectors` * `count` scalars in device memory, as `msm_words` does."""


class MsmBases:
    """Bases on a device, for many MSMs.

    points: host array of affine points in Montgomery form, uint32 of shape (n, *group.shape). They
        are not checked to be on the curve. On a CPU the array is used in place: do not change it.
    options: with a `precompute_factor` above 1, the constructor computes multiples of the bases.
        They fit one window width, so every MSM over these bases has these options. A GPU copies the
        bases and computes multiples unless the factor is 1 (see `MsmOptions`).

    Raises DeviceError if the bases do not fit in memory.
    """

    def __init__(
        self, device: DeviceChoice, group: Group, points: Array, options: MsmOptions | None = None
    ) -> None:
        device = resolve_device(device)
        check_bases(group, points)
        self.device = device
        self.group = group
        self.options = options or MsmOptions()
        self._count = len(points)
        self.engine = _engine(device, group, points, self.options) if self._count else None

    def __len__(self) -> int:
        return self._count

    def scalar_memory(self, count: int, options: MsmOptions | None = None) -> Array:
        """Return host memory, uint32 of shape (count, 8), for scalars that need no copy.

        On a GPU the memory is page-locked; MSMs first copy scalars from other arrays into it. It is
        valid for MSMs of `count` scalars with these options, until MSMs of other shapes evict it.
        Raises DeviceError if such an MSM does not fit the device.
        """
        count = whole_number("count", count, 0)
        check_count(count, self._count)
        if self.engine is None or not count:
            return np.zeros((count, SCALAR_BYTES // 4), np.uint32)
        return self.engine.scalar_memory(count, options)

    def peak_bytes(self, count: int | None = None, options: MsmOptions | None = None) -> int:
        """Bound the device bytes, beyond the bases, for an MSM of `count` scalars.

        Default: one scalar per base.
        """
        count = self._count if count is None else whole_number("count", count, 0)
        check_count(count, self._count)
        if self.engine is None or not count:
            return 0
        return self.engine.peak_bytes(count, 1, options)

    @property
    def nbytes(self) -> int:
        """Device memory of the bases and their multiples, in bytes."""
        return 0 if self.engine is None else self.engine.nbytes


def _engine(device: AnyDevice, group: Group, points: Array, options: MsmOptions) -> MsmEngine:
    if in_host_memory(device):
        return HostEngine(device, group, points, options)
    # Imported here, so that a process that only uses the CPU does not load the GPU's kernels.
    from quod.field.strategies.calibration import calibrate
    from quod.msm.gpu.run.engine import GpuEngine

    calibrate(device)
    return GpuEngine(device, group, points, options)


def msm_words(
    bases: MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> Array:
    """Return the sum of scalars[i] * bases[i], an affine point in Montgomery form.

    scalars: canonical integers, uint32 of shape (n, 8) or (n, group.scalars.words), with n at most
        the number of bases; or m vectors of scalars over the same bases, of shape (m, n, words).
    Returns uint64 of shape (point_words,), or (m, point_words) for vectors; zeros are infinity.
    Raises InputError if a scalar is not below the group's order, or not below 2**scalar_bits if the
    options declare that; DeviceError if the plan's `peak_bytes` exceeds the device's memory budget.
    """
    scalars = plain_array("scalars", scalars)
    check_words(bases.group, scalars)
    if scalars.ndim == 2:
        words: Array = msm_words(bases, scalars[None], options, timeline)[0]
        return words
    vectors, count = scalars.shape[:2]
    check_count(count, len(bases))
    if not count:
        return np.zeros((vectors, bases.group.point_words), np.uint64)
    assert bases.engine is not None
    return bases.engine.msm_words(padded_scalars(scalars), options, timeline)


def msm_buffer(
    bases: MsmBases, scalars: Buffer, vectors: int = 1, timeline: Timeline | None = None
) -> Array:
    """Return the MSMs of scalars in device memory, uint64 of shape (vectors, point_words).

    scalars: `vectors` consecutive vectors of equal length, of canonical integers of eight 32-bit
        words. MSMs over streamed bases first download them.
    Raises the errors of `msm_words`, and InputError for a buffer of another shape.
    """
    instance("scalars", scalars, Buffer, "upload them to the device of the bases")
    vectors = whole_number("vectors", vectors, 1)
    shape = scalars.shape or ()
    if scalars.dtype == np.uint32 and len(shape) > 1 and shape[-1] != SCALAR_BYTES // 4:
        raise InputError(
            f"scalars in a buffer must have {SCALAR_BYTES // 4} words each, zero-padded, but the "
            f"buffer has shape {shape}"
        )
    if scalars.nbytes % (SCALAR_BYTES * vectors):
        raise InputError(
            f"{scalars.nbytes} bytes are not {vectors} vectors of scalars of {SCALAR_BYTES} bytes"
        )
    count = scalars.nbytes // (SCALAR_BYTES * vectors)
    check_count(count, len(bases))
    if not count:
        return np.zeros((vectors, bases.group.point_words), np.uint64)
    assert bases.engine is not None
    return bases.engine.buffer_msm_words(scalars, vectors, count, timeline)


def affine_ints(group: Group, words: Array) -> AffineInts:
    """Convert an affine point in Montgomery form to canonical integers; None for infinity.

    Raises InputError for an array of another size.
    """
    if words.nbytes != 8 * group.point_words:
        raise InputError(
            f"a point of {group.name} has {8 * group.point_words} bytes, not {words.nbytes}"
        )
    if not words.any():
        return None
    modulus = group.coordinates
    coordinate_bytes = modulus.bytes
    data = words.tobytes()
    coordinates = [
        modulus.from_montgomery(int.from_bytes(data[start : start + coordinate_bytes], "little"))
        for start in range(0, len(data), coordinate_bytes)
    ]
    if group.degree == 1:
        return coordinates[0], coordinates[1]
    return (coordinates[0], coordinates[1]), (coordinates[2], coordinates[3])


def msm(
    device: DeviceChoice,
    group: Group,
    bases: Array | MsmBases,
    scalars: Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> AffineInts:
    """Return the sum of scalars[i] * bases[i] as canonical affine integers, None for infinity.

    See `MsmBases` and `msm_words` for the arrays and the errors. Raises InputError also for
    several vectors of scalars and for bases of another group.
    """
    check_one_vector(scalars)
    resident = _resident_bases(device, group, bases)
    return affine_ints(group, msm_words(resident, scalars, options, timeline))


def check_one_vector(scalars: Array) -> None:
    """Raise InputError for several vectors of scalars, or if `scalars` is not an array."""
    if plain_array("scalars", scalars).ndim == 3:
        raise InputError(
            f"msm takes one vector of scalars, of shape (n, words), not {len(scalars)} vectors; "
            "use msm_many"
        )


def _resident_bases(device: DeviceChoice, group: Group, bases: Array | MsmBases) -> MsmBases:
    """Put an array of bases on a device, without multiples, which cost more than one MSM saves.

    Raises InputError for `MsmBases` of another group.
    """
    if not isinstance(bases, MsmBases):
        return MsmBases(device, group, bases, MsmOptions(precompute_factor=1))
    if bases.group != group:
        raise InputError(f"the bases are of {bases.group.name}, not of {group.name}")
    return bases


def msm_many(
    device: DeviceChoice,
    group: Group,
    bases: Array | MsmBases,
    vectors: Sequence[Array] | Array,
    options: MsmOptions | None = None,
    timeline: Timeline | None = None,
) -> list[AffineInts]:
    """Return the `msm` of each vector of scalars over the same bases.

    The vectors have equal length and run in batches of `MsmOptions.batch_size`.
    """
    if not isinstance(vectors, (list, tuple, np.ndarray)):
        raise InputError(
            f"vectors of scalars must be a list or an array, not {shown_kind(vectors)}"
        )
    for vector in vectors:
        if plain_array("a vector of scalars", vector).ndim != 2:
            raise InputError(f"a vector of scalars must have shape (n, words), not {vector.shape}")
    lengths = sorted({len(vector) for vector in vectors})
    if not lengths:
        return []
    if len(lengths) > 1:
        raise InputError(
            f"vectors of a batch must have equal length, not {lengths[0]} and {lengths[-1]} scalars"
        )
    for vector in vectors:
        if vector.shape != vectors[0].shape or vector.dtype != vectors[0].dtype:
            raise InputError("vectors of a batch must all be uint32 of one shape (n, words)")
    resident = _resident_bases(device, group, bases)
    words = msm_words(resident, np.stack(list(vectors)), options, timeline)
    return [affine_ints(group, point) for point in words]
