"""Split the levels of a transform into passes, and a pass into tiles."""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.field.moduli import Modulus
from quod.field.strategies.limb_choice import has_rolled_products
from quod.frozen import frozen, replace
from quod.ntt.gpu.exchange import places
from quod.ntt.gpu.layout import Tile
from quod.ntt.schedule import MAX_LOG2_SIZE


@frozen
class Tuning:
    """Sizes of a transform's passes and tiles, chosen by measurement.

    log_tile: log2 of the elements of a workgroup.
    log_elements: log2 of the elements of an instance.
    max_levels: the maximum number of levels of a pass, if there are several passes.
    resident: workgroups that a multiprocessor should hold, for which registers are limited; 0: the
        assembler chooses.
    rolled: compile the steps of a pass as a loop if they have equal numbers of levels, and split
        transforms so that most passes have such steps.
    log_banks: see `Tile`.
    """

    log_tile: int = 9
    log_elements: int = 2
    max_levels: int = 8
    resident: int = 5
    rolled: bool = False
    log_banks: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.log_elements <= 4 or not self.log_elements < self.log_tile <= 13:
            raise ValueError(
                "an instance has 2, 4, 8 or 16 elements, a tile at most 2^13, and more than that"
            )
        for log_size in range(self.log_tile + 1, MAX_LOG2_SIZE + 1):
            levels = self.split(log_size)
            if levels[0] > self.log_tile or levels[0] + levels[1] < self.log_tile:
                raise ValueError(
                    f"tiles of 2^{self.log_tile} elements cannot have passes of "
                    f"{', '.join(map(str, levels))} levels"
                )

    @property
    def lanes(self) -> int:
        """The number of instances of a workgroup."""
        return 1 << (self.log_tile - self.log_elements)

    def split(self, log_size: int) -> list[int]:
        """Return the levels of each pass, lowest first."""
        if log_size <= self.log_tile:
            return [log_size]
        if self.rolled:
            return _split_into_steps(log_size, self.max_levels, self.log_elements)
        return _split_evenly(log_size, self.max_levels)

    def is_rolled(self, log_rows: int) -> bool:
        """Return whether the steps of a pass are compiled as a loop."""
        steps, remainder = divmod(log_rows, self.log_elements)
        return self.rolled and remainder == 0 and steps > 1

    def tile(self, log_rows: int) -> Tile:
        """Return the tile of a pass with `log_rows` levels."""
        return Tile(log_rows, self.log_tile - log_rows, self.log_elements, self.log_banks)


def _split_evenly(log_size: int, max_levels: int) -> list[int]:
    passes = -(-log_size // max_levels)
    shorter, longer_count = divmod(log_size, passes)
    return [shorter + 1] * longer_count + [shorter] * (passes - longer_count)


def _split_into_steps(log_size: int, max_levels: int, step_levels: int) -> list[int]:
    """Split into passes of whole steps of `step_levels`; the highest takes the remainder."""
    max_levels = max_levels // step_levels * step_levels
    passes = -(-log_size // max_levels)
    shorter, longer_count = divmod(log_size // step_levels, passes)
    split = [(shorter + 1) * step_levels] * longer_count + [shorter * step_levels] * (
        passes - longer_count
    )
    split[-1] += log_size % step_levels
    return split


DEFAULT_TUNING = Tuning()

SHORT_TUNINGS = {
    4: Tuning(log_tile=12, log_elements=4, resident=4, log_banks=5),
    8: Tuning(log_tile=12, log_elements=4, resident=3, log_banks=4),
}
"""Tunings by the bytes of an element: rows of 64 or 128 bytes, steps of four levels."""


def tuning_of(device: AnyDevice, modulus: Modulus) -> Tuning:
    """Return the default sizes, with tiles that fit the workgroup memory of the device.

    On machines where field products are compiled as loops to limit compile time, the steps of a
    pass are a loop too, so that as few products as possible are inlined.
    """
    tuning = SHORT_TUNINGS.get(modulus.bytes, DEFAULT_TUNING)
    machine = device.machine(tuning.lanes)
    limit = machine.shared_bytes_limit
    if has_rolled_products(machine):
        tuning = replace(tuning, log_tile=8, log_elements=1, rolled=True)
    while modulus.bytes * places(tuning.tile(0)) > limit:
        log_tile = tuning.log_tile - 1
        tuning = replace(tuning, log_tile=log_tile, max_levels=min(log_tile, tuning.max_levels))
    return tuning
