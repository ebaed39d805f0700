"""The figures of a roofline plot: stages as points under the two limits of a device.

A stage's place is the multiply-adds that it makes for each byte that it moves, and how many it
makes a second (Williams, Waterman, Patterson, "Roofline", 2009). Products of fields of any width
are on one scale so: see `quod.field.cost`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quod.device.limits import Limits
from quod.device.runtime.timeline import Row, Timeline


@dataclass(frozen=True)
class StageFigures:
    """One line of a timeline's table that counts work.

    `series` is what was measured, a stage of the timeline with this one inside; `share` of the
    time of all of its stages that count work. `least_seconds` is what the work takes at the limit,
    None where that is not known.
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
        """Whether the stage has a place in the plot: it makes products and moves bytes."""
        return self.multiply_adds > 0 and self.bytes > 0

    @property
    def intensity(self) -> float:
        """Multiply-adds a byte."""
        return self.multiply_adds / self.bytes

    @property
    def rate(self) -> float:
        """Multiply-adds a second."""
        return self.multiply_adds / self.seconds


@dataclass(frozen=True)
class Roofline:
    """What a plot shows; `counted` says what the multiply-adds are of."""

    device: str
    limits: Limits | None
    stages: tuple[StageFigures, ...]
    counted: str = "of 32-bit words"

    @property
    def points(self) -> tuple[StageFigures, ...]:
        return tuple(stage for stage in self.stages if stage.is_point)

    @property
    def series(self) -> tuple[str, ...]:
        """What was measured, in order."""
        return tuple(dict.fromkeys(stage.series for stage in self.stages))


def roofline(
    timeline: Timeline, device: str, limits: Limits | None, counted: str = Roofline.counted
) -> Roofline:
    """The figures of what a timeline holds; each outermost stage is a series.

    A stage that counts work stands for itself and all that is inside it. Where two of a series have
    one name, that of what they are inside of is put before it.
    """
    stages: list[StageFigures] = []
    rows = timeline.table()
    for number, row in enumerate(rows):
        if row.parent is None:
            found = list(_counting(rows, number))
            total = sum(one.busy for one in found)
            names = Counter(one.name for one in found)
            for one in found:
                name = one.name
                if names[name] > 1 and one.parent is not None:
                    name = f"{rows[one.parent].name}: {name}"
                stages.append(_figures(row.name, name, one, one.busy / total, limits))
    return Roofline(device, limits, tuple(stages), counted)


def _counting(rows: Sequence[Row], number: int) -> list[Row]:
    """The row of that number if it counts work, else those inside it that do."""
    row = rows[number]
    if row.busy and (row.bytes or row.multiply_adds):
        return [row]
    inner = [i for i, one in enumerate(rows) if one.parent == number]
    return [found for i in inner for found in _counting(rows, i)]


def _figures(series: str, name: str, row: Row, share: float, limits: Limits | None) -> StageFigures:
    least = None if limits is None else limits.least_seconds(row.bytes, row.multiply_adds)
    return StageFigures(series, name, row.busy, share, row.bytes, row.multiply_adds, least)
