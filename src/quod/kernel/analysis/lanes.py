"""The abstract values of the lane analysis, which describe a value in all lanes of a workgroup.

A value is a base common to all lanes, known or not, plus a known offset per lane. If the offsets
are unknown, the reason is recorded instead. So distances between lanes' addresses are exact unless
they depend on data, even if they are not affine in the lane's index (as for a swizzle).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np

from quod.frozen import frozen
from quod.kernel.ir.nodes import Location
from quod.kernel.ops.semantics import Array

Kind = Literal["data", "stride", "boundary", "other lane", "control", "arithmetic"]

WARP = 32

FAR = 1 << 60
"""The largest offset that the analysis follows: sums of larger ones could overflow."""
MOST = 1 << 62
"""The largest power of two used; also the divisor of base 0, which every power divides."""


@frozen
class Reason:
    """The reason why a value varies: the kind of its source, and the location."""

    kind: Kind
    location: Location

    def __str__(self) -> str:
        return _REASONS[self.kind]


_REASONS: dict[Kind, str] = {
    "data": "depends on data loaded at",
    "stride": "has a distance between lanes that is known at run time only, at",
    "boundary": "compares the lane with a limit at",
    "other lane": "takes values of other lanes at",
    "control": "depends on the branch that a lane took at",
    "arithmetic": "is computed from the lane's index in a way that is not followed, at",
}


@frozen(eq=False)
class Lanes:
    """A value over the lanes of a workgroup.

    offsets: per lane, relative to the base; None if not known.
    base: the identity of an unknown common base (a new `object()` if it equals no other base); None
        if the offsets are the value itself.
    multiple: a power of two that divides the base.
    reason: why the offsets are not known.
    by_warp: True if the offsets are unknown but equal within each warp.
    """

    offsets: Array | None
    base: Hashable | None = None
    multiple: int = MOST
    reason: Reason | None = None
    by_warp: bool = False

    @property
    def uniform_in_warps(self) -> bool:
        """True if the lanes of each warp have equal values."""
        if self.offsets is None:
            return self.by_warp
        first_lanes = np.arange(len(self.offsets)) // WARP * WARP
        return bool((self.offsets == self.offsets[first_lanes]).all())

    @property
    def known(self) -> bool:
        return self.offsets is not None and self.base is None

    @property
    def uniform(self) -> bool:
        """True if all lanes have equal values."""
        return self.offsets is not None and bool((self.offsets == self.offsets[0]).all())

    @property
    def number(self) -> int | None:
        """The value if it is known and uniform, else None."""
        if self.known and self.uniform:
            assert self.offsets is not None
            return int(self.offsets[0])
        return None


def varying(kind: Kind, location: Location) -> Lanes:
    return Lanes(None, reason=Reason(kind, location))


def shared_unknown(lanes: int, multiple: int = 1) -> Lanes:
    """Return an unknown value that is equal in all lanes."""
    return Lanes(np.zeros(lanes, np.int64), object(), multiple)


def known(values: Array) -> Lanes:
    return Lanes(values.astype(np.int64))


def power_of_two(number: int) -> int:
    """Return the largest power of two that divides a number, at most `MOST`."""
    return MOST if number == 0 else min(MOST, number & -number)
