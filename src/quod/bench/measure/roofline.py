"""The data of a roofline plot: stages as points under the two limits of a device.

A stage is placed by its multiply-adds per byte moved and its multiply-adds per second (Williams,
Waterman, Patterson, "Roofline", 2009). This puts products of fields of any width on one scale; see
`quod.field.cost`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quod.device.limits import Limits
from quod.device.runtime.timeline import Row, Timeline


@dataclass(frozen=True)
class StageFigures:
    """A stage of a timeline that counts work.

    series: the outermost stage that contains it.
    share: its share of the time of all counting stages in the series.
    least_seconds: the time that its work takes at the device's limit; None if that is unknown.
    """

    series: str
    name: str
    seconds: float
    share: float
    bytes: int
    multiply_adds: int
    least_seconds: float | None

    @property
    def is_point(self) -> bool:
        """Report whether the stage can be plotted: it has products and bytes."""
        return self.multiply_adds > 0 and self.bytes > 0

    @property
    def intensity(self) -> float:
        """Multiply-adds per byte."""
        return self.multiply_adds / self.bytes

    @property
    def rate(self) -> float:
        """Multiply-adds per second."""
        return self.multiply_adds / self.seconds


@dataclass(frozen=True)
class Roofline:
    """The content of a plot; `counted` names the operands of the multiply-adds."""

    device: str
    limits: Limits | None
    stages: tuple[StageFigures, ...]
    counted: str = "of 32-bit words"

    @property
    def points(self) -> tuple[StageFigures, ...]:
        return tuple(stage for stage in self.stages if stage.is_point)

    @property
    def series(self) -> tuple[str, ...]:
        """The names of the series, in order."""
        return tuple(dict.fromkeys(stage.series for stage in self.stages))


def roofline(
    timeline: Timeline, device: str, limits: Limits | None, counted: str = Roofline.counted
) -> Roofline:
    """Compute the figures of a timeline; each outermost stage is a series.

    A stage that counts work has a figure, and its inner stages have none. Equal names within a
    series are prefixed with the name of the enclosing stage.
    """
    stages: list[StageFigures] = []
    rows = timeline.table()
    for index, row in enumerate(rows):
        if row.parent is None:
            counting_rows = list(_counting(rows, index))
            total = sum(stage_row.busy for stage_row in counting_rows)
            names = Counter(stage_row.name for stage_row in counting_rows)
            for stage_row in counting_rows:
                name = stage_row.name
                if names[name] > 1 and stage_row.parent is not None:
                    name = f"{rows[stage_row.parent].name}: {name}"
                stages.append(_figures(row.name, name, stage_row, stage_row.busy / total, limits))
    return Roofline(device, limits, tuple(stages), counted)


def _counting(rows: Sequence[Row], index: int) -> list[Row]:
    """Return the row if it counts work, otherwise its inner rows that do."""
    row = rows[index]
    if row.busy and (row.bytes or row.multiply_adds):
        return [row]
    inner_indices = [i for i, candidate in enumerate(rows) if candidate.parent == index]
    return [counted for i in inner_indices for counted in _counting(rows, i)]


def _figures(series: str, name: str, row: Row, share: float, limits: Limits | None) -> StageFigures:
    least = None if limits is None else limits.least_seconds(row.bytes, row.multiply_adds)
    return StageFigures(series, name, row.busy, share, row.bytes, row.multiply_adds, least)
