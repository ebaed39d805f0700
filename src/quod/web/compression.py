"""The points of a key without their y, which the page computes once after loading."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.curve.encoding.memory_compression import (
    compressed_words,
    curve_decompress,
    decompress_words,
    is_compressible,
)
from quod.device.export.device import ExportDevice
from quod.errors import InputError
from quod.groth16.gpu.graph import GraphBases
from quod.ntt.gpu.factors import fill_progressions

REPLAYED = (curve_decompress, fill_progressions)
"""The kernels that a page runs once after loading: they compute points, and tables of roots."""

MIN_SAVING = 4 << 20
"""Points are compressed if this makes the download smaller by as many bytes: the kernels that
complete them take seconds to compile."""


def compress_bases(device: ExportDevice, all_bases: Sequence[GraphBases]) -> None:
    """Replace the points of a key by those without y, if that saves `MIN_SAVING` bytes.

    Raises InputError for a point off the curve.
    """
    compressible = [
        bases
        for bases in all_bases
        if is_compressible(bases.group) and _are_points(device, bases)
    ]  # fmt: skip
    if sum(bases.points.nbytes for bases in compressible) < 2 * MIN_SAVING:
        return
    for bases in compressible:
        encodings = compressed_words(bases.group, bases.points)
        decompress_words(device, bases.group, encodings, bases.memory)
        if not _are_points(device, bases):
            raise InputError(f"a point of {bases.group.name} of the key is not on the curve")


def _are_points(device: ExportDevice, bases: GraphBases) -> bool:
    """Return whether the memory has the points alone."""
    content = np.ascontiguousarray(bases.points).view(np.uint8).reshape(-1)
    return np.array_equal(np.asarray(device.bytes_of(bases.memory)), content)
