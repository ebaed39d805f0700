"""Split the levels of a transform on a CPU into passes."""

from __future__ import annotations

from quod.frozen import frozen
from quod.ntt.host.passes import Lanes

MAX_LOG2_SIZE = 32

_MIN_LOG_COLUMNS = 3
"""log2 of the minimum number of columns of a pass if there are several passes: the lanes of a
vector."""

# log2 of the largest transform in a single pass; the second, if there are
# as many transforms as lanes.
_MAX_SINGLE_PASS = 2 * _MIN_LOG_COLUMNS - 1
_MAX_SINGLE_PASS_WIDE = 10
# The levels of the passes above the lowest. `split` takes the first choice with which the lowest
# pass has at most two levels more than the largest of them.
_UPPER_PASSES = ([3], [6], [9], [6, 6], [6, 9], [9, 9], [6, 9, 9])


def split(log_size: int, *, wide: bool) -> list[int]:
    """Return the levels of each pass, lowest first; higher passes have a multiple of three.

    wide: there are at least as many transforms as lanes.
    """
    if log_size <= (_MAX_SINGLE_PASS_WIDE if wide else _MAX_SINGLE_PASS):
        return [log_size]
    upper = next(levels for levels in _UPPER_PASSES if log_size - sum(levels) <= max(levels) + 2)
    return [log_size - sum(upper), *upper]


@frozen
class PassPlace:
    """A pass over 2**log_rows rows 2**log_stride apart; `number` counts from the lowest."""

    number: int
    log_rows: int
    log_stride: int

    def lanes(self, columns: int, lanes: int) -> Lanes:
        """Return the arrangement of the columns of a workgroup's lanes."""
        if self.log_stride:
            return "adjacent"
        return "any" if columns % lanes else "apart"


def places_of(log_rows: list[int]) -> list[PassPlace]:
    """Return the passes, lowest first."""
    return [PassPlace(number, rows, sum(log_rows[:number])) for number, rows in enumerate(log_rows)]
