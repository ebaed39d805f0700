"""Layouts of products of Q4_K blocks by vectors on tensor cores."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.machine import Capability
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.types.table import QUANTISED_TYPES

SUBGROUP = 32
"""Instances of a subgroup."""
ROWS = 16
"""Rows of an MMA matrix."""
UNIT = 512
"""Elements of two blocks."""
PITCH = 80
"""Words of a row's two blocks in shared memory, padded to put adjacent rows in different banks."""


@frozen
class CoreLayout:
    """The division of rows and blocks among the subgroups of a workgroup.

    slices: Number of subgroups that share rows; each has other columns, two blocks of a row at a
        time. A power of two.
    groups: Number of groups of `slices` subgroups, 1 or 2. Each group has its own rows; two groups
        share the work of converting the same columns of the vector.
    tiles: Tiles of 16 rows per subgroup.
    stages: How many pairs of blocks of each row shared memory holds; a power of two.
    whole: True if the stages of all slices hold a whole row; otherwise the stages are a ring.
    resident: Workgroups per multiprocessor; limits the registers so that so many fit.
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
        """Bytes of shared memory for blocks, for the vector as bytes, and for sums."""
        blocks = self.stages * self.rows * PITCH
        return 4 * self.slices * (blocks + UNIT + 32 + UNIT // BYTES + 2 + self.rows)


_SLICES = 8
"""The largest number of slices of a layout whose shared memory holds a whole row."""
_RING = CoreLayout(4, 2, 1, 1, False)
"""The layout for rows of more pairs of blocks than `_SLICES`."""


def core_layout(
    device: AnyDevice, type_name: str, rows: int, blocks_per_row: int
) -> CoreLayout | None:
    """Return the layout for a matrix, or None if the device or the type does not support it."""
    machine = device.machine(device.lanes)
    has_core_product = QUANTISED_TYPES[type_name].core_vector_times is not None
    if not has_core_product or not machine.has(Capability.TENSOR_CORES):
        return None
    pairs = (blocks_per_row + 1) // 2
    slices = 1 << (pairs - 1).bit_length()
    layout = CoreLayout(slices, 2, 1, 1, True) if slices <= _SLICES else _RING
    if 4 * rows < 3 * device.multiprocessors * layout.rows:
        layout = replace(layout, groups=1)
    return layout if layout.shared_bytes <= machine.shared_bytes_limit else None


def workgroups(device: AnyDevice, layout: CoreLayout, rows: int) -> int:
    """Return the number of workgroups of a launch.

    If three quarters of the multiprocessors or more, but not all, would have one workgroup, every
    multiprocessor gets one, some without rows. Otherwise workgroups of the next launch, which
    start concurrently, would go to the free multiprocessors in twos and leave others with none.
    """
    needed, multiprocessors = -(-rows // layout.rows), device.multiprocessors
    return multiprocessors if 3 * multiprocessors <= 4 * needed < 4 * multiprocessors else needed
