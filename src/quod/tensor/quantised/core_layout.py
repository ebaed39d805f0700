"""How products of blocks by vectors are shared out on tensor cores."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.machine import Capability
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.types.table import QUANTISED_TYPES

SUBGROUP = 32
ROWS = 16
"""Rows of a small matrix."""
UNIT = 512
"""Elements of two blocks."""
PITCH = 80
"""Words of a row's two blocks in shared memory, with some between them: rows beside each other are
in different banks."""


@frozen
class CoreLayout:
    """How a workgroup shares its rows out, and their blocks.

    Of its subgroups `slices` have the same rows and different columns, two blocks of each row at a
    time, and each `tiles` times 16 rows. There are `groups` of such slices, 1 or 2, with rows of
    their own; they make bytes of the same columns together. Blocks are in `stages` of shared
    memory: a `whole` row's at once, or a ring. Registers are for so many `resident` workgroups a
    multiprocessor. Slices and stages are powers of two.
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
        """What blocks, bytes of the vector and sums take."""
        blocks = self.stages * self.rows * PITCH
        return 4 * self.slices * (blocks + UNIT + 32 + UNIT // BYTES + 2 + self.rows)


_SLICES = 8
_RING = CoreLayout(4, 2, 1, 1, False)
"""For rows that are longer than the slices."""


def core_layout(
    device: AnyDevice, type_name: str, rows: int, blocks_per_row: int
) -> CoreLayout | None:
    """The layout for a matrix; None where the device, or the kernel for this type, has none."""
    machine = device.machine(device.lanes)
    on_cores = QUANTISED_TYPES[type_name].core_vector_times is not None
    if not on_cores or not machine.has(Capability.TENSOR_CORES):
        return None
    pairs = (blocks_per_row + 1) // 2
    slices = 1 << (pairs - 1).bit_length()
    found = CoreLayout(slices, 2, 1, 1, True) if slices <= _SLICES else _RING
    if 4 * rows < 3 * device.multiprocessors * found.rows:
        found = replace(found, groups=1)
    return found if found.shared_bytes <= machine.shared_bytes_limit else None


def workgroups(device: AnyDevice, layout: CoreLayout, rows: int) -> int:
    """Workgroups of a launch.

    Where nearly all multiprocessors have one, all get one, for rows that are there already: else
    those of the next launch, which begin beside them, would be two on some and none on others.
    """
    groups, all_ = -(-rows // layout.rows), device.multiprocessors
    return all_ if 3 * all_ <= 4 * groups < 4 * all_ else groups
