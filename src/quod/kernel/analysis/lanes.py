"""What is known, before a kernel runs, of how a value differs between the lanes of a workgroup.

A value is a base that all lanes share, known or not, plus an offset for each lane; or it varies in
a way that is not known, for a reason. So the distance between the addresses of two lanes is exact
wherever it does not depend on data, be it affine in the lane's index or not (a swizzle, say).
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

FAR = 1 << 60  # offsets beyond are no distances that mean anything
MOST = 1 << 62
"""A power of two that any other divides: that of the base 0."""


@frozen
class Reason:
    """Why a value varies: what it comes from, and where that stands."""

    kind: Kind
    location: Location

    def __str__(self) -> str:
        return _REASONS[self.kind]


_REASONS: dict[Kind, str] = {
    "data": "depends on data loaded at",
    "stride": "has a distance between lanes that is known at run time only, at",
    "boundary": "compares the lane with a limit at",
    "other lane": "takes what other lanes have at",
    "control": "depends on the way that a lane took at",
    "arithmetic": "is computed of the lane in a way that is not followed, at",
}


@frozen(eq=False)
class Lanes:
    """A value over lanes. `base` is None where the offsets are the value itself.

    `multiple` is a power of two that divides the base. Without offsets, `reason` says why; it may
    then be known all the same that the lanes of each warp agree (`by_warp`).
    """

    offsets: Array | None
    base: Hashable | None = None
    multiple: int = MOST
    reason: Reason | None = None
    by_warp: bool = False

    @property
    def uniform_in_warps(self) -> bool:
        """Whether the lanes of each warp have the same value."""
        if self.offsets is None:
            return self.by_warp
        first = np.arange(len(self.offsets)) // WARP * WARP
        return bool((self.offsets == self.offsets[first]).all())

    @property
    def known(self) -> bool:
        return self.offsets is not None and self.base is None

    @property
    def uniform(self) -> bool:
        """Whether all lanes have the same value."""
        return self.offsets is not None and bool((self.offsets == self.offsets[0]).all())

    @property
    def number(self) -> int | None:
        """The value, if it is known and the same for all lanes."""
        if self.known and self.uniform:
            assert self.offsets is not None
            return int(self.offsets[0])
        return None


def varying(kind: Kind, location: Location) -> Lanes:
    return Lanes(None, reason=Reason(kind, location))


def shared_unknown(lanes: int, multiple: int = 1) -> Lanes:
    """A value that is the same for all lanes, and not known."""
    return Lanes(np.zeros(lanes, np.int64), object(), multiple)


def known(values: Array) -> Lanes:
    return Lanes(values.astype(np.int64))


def power_of_two(number: int) -> int:
    """The largest power of two that divides a number."""
    return MOST if number == 0 else min(MOST, number & -number)
