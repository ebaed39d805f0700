"""Sector sizes with the shapes of their trees and the numbers of challenges and partitions.

The values are those of rust-fil-proofs (filecoin-proofs/src/constants.rs and
storage-proofs-update/src/constants.rs).
"""

from __future__ import annotations

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import shown
from quod.wording import alternatives

NODE_BYTES = 32
BASE_ARITY = 8
"""The arity of the base trees of TreeC and TreeRLast (TreeR in SnapDeals)."""

WINDOW_CHALLENGES = 10
"""Challenges of a sector in a WindowPoSt."""

WINNING_CHALLENGES = 66
"""Challenges of a WinningPoSt; its circuit proves them as 66 sectors with a challenge each."""

MAX_SECTOR_NUMBER = (1 << 63) - 1
"""The largest sector number that the network assigns; rust-fil-proofs accepts all of 64 bits."""

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@frozen
class UpdateShape:
    """The numbers of a SnapDeals proof (EmptySectorUpdate).

    partitions: proofs of a sector.
    challenges: challenges of a partition.
    apex_leaves: nodes of TreeD, all on one level, that are the leaves of a partition's apex tree.
    possible_h: the six numbers of high bits of a challenge from which `h_select` chooses.
    """

    partitions: int
    challenges: int
    apex_leaves: int
    possible_h: tuple[int, ...]

    @property
    def default_h(self) -> int:
        """The number of high bits that sectors are updated with."""
        return self.possible_h[3]


@frozen
class SectorShape:
    """A sector size with the shapes of its trees and the numbers of its proofs.

    size: bytes.
    sub_arity, top_arity: arities of the two levels of TreeC and TreeRLast above the base trees; 0
        for a level that the trees lack.
    layers: layers of labels.
    partitions, challenges: PoRep's partitions, and challenges of each.
    non_interactive_partitions: partitions of a non-interactive PoRep; its partitions have
        `challenges` challenges, too.
    window_sectors: sectors of a partition of WindowPoSt.
    """

    size: int
    sub_arity: int
    top_arity: int
    layers: int
    partitions: int
    challenges: int
    non_interactive_partitions: int
    window_sectors: int

    @property
    def name(self) -> str:
        """The size as in the names of registered proofs, such as 32GiB."""
        units = ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB"))
        unit, suffix = next(row for row in units if self.size >= row[0])
        return f"{self.size // unit}{suffix}"

    @property
    def nodes(self) -> int:
        """The number of nodes of a layer, a power of two."""
        return self.size // NODE_BYTES

    @property
    def node_bits(self) -> int:
        """log2 of the number of nodes: the levels of TreeD."""
        return self.nodes.bit_length() - 1

    @property
    def base_trees(self) -> int:
        """The number of base trees of TreeC and of TreeRLast."""
        return max(1, self.sub_arity) * max(1, self.top_arity)

    @property
    def base_levels(self) -> int:
        """The number of levels of a base tree, without its leaves."""
        return ((self.nodes // self.base_trees).bit_length() - 1) // 3

    @property
    def arities(self) -> tuple[int, ...]:
        """The arity of each level of TreeC and TreeRLast, from the leaves to the root."""
        upper_arities = [arity for arity in (self.sub_arity, self.top_arity) if arity]
        return (*[BASE_ARITY] * self.base_levels, *upper_arities)

    @property
    def data_arities(self) -> tuple[int, ...]:
        """The arity of each level of TreeD: 2."""
        return (2,) * self.node_bits

    @property
    def update(self) -> UpdateShape:
        """The numbers of SnapDeals proofs."""
        size = self.size
        partitions = 1 if size <= 8 * _KIB else 2 if size <= 32 * _KIB else 16
        return UpdateShape(
            partitions=4 if 32 * _KIB < size <= 16 * _MIB else partitions,
            challenges=10 if size <= 16 * _MIB else 86,
            apex_leaves=8 if size <= 8 * _KIB else 128,
            possible_h=(1,) * 6 if size <= 32 * _KIB else (7, 8, 9, 10, 11, 12),
        )


def _small(size: int, sub_arity: int = 0, top_arity: int = 0) -> SectorShape:
    """Return the shape of a size for tests: at least 2 challenges, or 26 without interaction."""
    return SectorShape(
        size, sub_arity, top_arity, layers=2, partitions=1, challenges=2,
        non_interactive_partitions=13, window_sectors=2,
    )  # fmt: skip


def _large(size: int, sub_arity: int, top_arity: int, *, window_sectors: int) -> SectorShape:
    """Return the shape of a size of mainnet.

    PoRep needs at least 176 challenges, or 2,253 without interaction, in partitions of 18.
    """
    return SectorShape(
        size, sub_arity, top_arity, layers=11, partitions=10, challenges=18,
        non_interactive_partitions=126, window_sectors=window_sectors,
    )  # fmt: skip


SECTORS = {
    shape.size: shape
    for shape in (
        _small(2 * _KIB),
        _small(4 * _KIB, 2),
        _small(16 * _KIB, 8),
        _small(32 * _KIB, 8, 2),
        _small(8 * _MIB),
        _small(16 * _MIB, 2),
        _small(512 * _MIB),
        _small(1 * _GIB, 2),
        _large(32 * _GIB, 8, 0, window_sectors=2349),
        _large(64 * _GIB, 8, 2, window_sectors=2300),
    )
}
"""Shapes by size in bytes."""


def sector_shape(size: int) -> SectorShape:
    """Return the shape of a sector size in bytes; raises InputError for other sizes."""
    if type(size) is not int or size not in SECTORS:
        sizes = alternatives(shape.name for shape in SECTORS.values())
        raise InputError(f"the sector size must be {sizes}, not {shown(size)} bytes")
    return SECTORS[size]


def sector_named(name: str) -> SectorShape:
    """Return the shape of a size such as 32GiB, in any case; raises InputError for other names."""
    for shape in SECTORS.values():
        if shape.name.lower() == str(name).lower():
            return shape
    sizes = alternatives(shape.name for shape in SECTORS.values())
    raise InputError(f"the sector size must be {sizes}, not {shown(name)}")
