"""Layouts of products of Q4_K blocks by vectors on tensor cores."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.machine import Capability
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.types.table import QUANTISED_TYPES

SUBGROUP = 32
ROWS = 16
"""Rows of an MMA matrix."""
UNIT = 512
"""Elements of two blocks."""
PITCH = 80
"""Words of a row's two blocks in shared memory, padded to put adjacent rows in different banks."""


@frozen
class CoreLayout:
    """The rows and blocks of a workgroup.

    slices: Subgroups that share rows, each with other columns, two blocks of a row at a time; a
        power of two.
    groups: Groups of such slices, 1 or 2, each with its own rows; they convert the same columns of
        the vector together.
    tiles: Tiles of 16 rows in a subgroup.
    stages: Stages of blocks in shared memory; a power of two.
    whole: The stages hold a whole row; otherwise they are a ring.
    resident: Workgroups per multiprocessor for which the registers are limited.
    """

    slices: int
    groups: int
    tiles: int
    stages: int
    whole: bool
    resident: int = 2

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return self.slices * self.groups * SUBGROUP

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return self.groups * self.tiles * ROWS

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for blocks, bytes of the vector and sums."""
        blocks = self.stages * self.rows * PITCH
        return 4 * self.slices * (blocks + UNIT + 32 + UNIT // BYTES + 2 + self.rows)


_SLICES = 8
_RING = CoreLayout(4, 2, 1, 1, False)
"""The layout for rows that are longer than all slices."""


def core_layout(
    device: AnyDevice, type_name: str, rows: int, blocks_per_row: int
) -> CoreLayout | None:
    """Return the layout for a matrix, or None if the device or the type does not support it."""
    machine = device.machine(device.lanes)
    on_cores = QUANTISED_TYPES[type_name].core_vector_times is not None
    if not on_cores or not machine.has(Capability.TENSOR_CORES):
        return None
    pairs = (blocks_per_row + 1) // 2
    slices = 1 << (pairs - 1).bit_length()
    layout = CoreLayout(slices, 2, 1, 1, True) if slices <= _SLICES else _RING
    if 4 * rows < 3 * device.multiprocessors * layout.rows:
        layout = replace(layout, groups=1)
    return layout if layout.shared_bytes <= machine.shared_bytes_limit else None


def workgroups(device: AnyDevice, layout: CoreLayout, rows: int) -> int:
    """Return the number of workgroups of a launch.

    If nearly all multiprocessors have one workgroup, all get one, though some have no rows.
    Otherwise the workgroups of the next launch, which start concurrently, would be two on some
    multiprocessors and none on others.
    """
    groups, all_ = -(-rows // layout.rows), device.multiprocessors
    return all_ if 3 * all_ <= 4 * groups < 4 * all_ else groups
