"""A proving key where a device computes with it: what the prover asks of it, and its bases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from quod.curve.group import Group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.formats import Zkey
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks

# Bases are kept without their points at infinity where so many are left out.
_WORTH_GATHERING = 0.1

MOST = 32
"""Witnesses that are proved together: more would be waited for longer than they gain."""

FindFinite = Callable[[Group, Words], NDArray[np.bool_]]
"""Which of some points are not infinity."""


@runtime_checkable
class WitnessInMemory(Protocol):
    """A witness that is in the memory of a device already; see `quod.r1cs.resident_witness`."""

    @property
    def device(self) -> AnyDevice: ...
    @property
    def memory(self) -> Buffer: ...
    def first(self, count: int) -> Words:
        """The first values, copied to the host."""


class PendingSums(Protocol):
    """The sums of a proof while they are computed: `early` comes first, `close` at any end."""

    def early(self) -> dict[str, Any]:
        """The points A, B1 and B2 by name, and the results of the tasks beside them."""

    def last(self) -> dict[str, Any]:
        """The points C and H, which may take longer."""

    def close(self) -> None:
        """Nobody waits for the sums any more."""


class SumBatches(Protocol):
    """Sums of up to `most` witnesses together, where that takes less than one after the other."""

    @property
    def most(self) -> int: ...

    def prepare(self) -> None:
        """Makes now what the first batch of each size would make; waits for those in progress."""

    def start(
        self, witnesses: Sequence[Words | Buffer], beside: Tasks, context: ProofContext
    ) -> PendingSums:
        """`ResidentKey.start` of two witnesses or more.

        Sums are arrays of a point for each witness, and some behind that are nobody's.
        """

    def wait(self, waiting: Callable[[], int]) -> None:
        """Waits until those that are `waiting`, one at least, can be begun at once.

        As long as the device computes, more of them may come: until there are `most`, they wait.
        """


class ResidentKey(Protocol):
    """The matrices and bases of a key where a device computes with them.

    `nbytes` are those of the device's memory that it keeps, beside the zkey; `peak_bytes` is a
    bound on the memory that a proof takes beside them. More proofs at a time than `in_progress`
    wait for one another. `witness_device` is the one in whose memory a witness may be. `batches`
    are for proofs so small that several are made together.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def in_progress(self) -> int: ...
    @property
    def witness_device(self) -> AnyDevice | None: ...
    @property
    def batches(self) -> SumBatches | None: ...

    def prepare(self) -> None:
        """Lays aside now, page-locked memory above all, what proofs take when they come."""

    def start(self, witness: Words | Buffer, beside: Tasks, context: ProofContext) -> PendingSums:
        """Begins the sums of a proof; the host does the tasks `beside` meanwhile.

        `witness` has shape (variables, words), canonical, and must not change meanwhile; a buffer
        is memory of `witness_device`.
        """

    def close(self) -> None:
        """Ends threads that wait for work."""


def _not_zero(_: Group, points: Words) -> NDArray[np.bool_]:
    return np.asarray(points.any(axis=tuple(range(1, points.ndim))))


@frozen(eq=False)
class KeyBases:
    """The points of one MSM of a proof, of which `finite` are worth keeping.

    Point i belongs to scalar first + i of a vector. A key has a point at infinity for each variable
    that a matrix does not use: where those are many, `finite` is what is left without them, and its
    point i belongs to scalar indices[i].
    """

    name: str
    group: Group
    points: Words
    first: int
    finite: Words
    indices: NDArray[np.uint32] | None

    @classmethod
    def of(
        cls, name: str, group: Group, points: Words, first: int = 0,
        find_finite: FindFinite = _not_zero,
    ) -> KeyBases:  # fmt: skip
        """Points of a zkey, from scalar `first` on."""
        # They may begin at an odd place of the file.
        points = np.require(points, requirements=("C", "A"))
        there = np.flatnonzero(find_finite(group, points))
        if len(there) >= (1 - _WORTH_GATHERING) * len(points):
            return cls(name, group, points, first, points, None)
        indices = (there + first).astype(np.uint32)
        return cls(name, group, points, first, points[there], indices)

    def scalars(self, vector: Words) -> Words:
        """The scalars of the bases in `finite` out of all of them."""
        if self.indices is None:
            return vector[self.first : self.first + len(self.finite)]
        return vector[self.indices]


def bases_of(
    zkey: Zkey, g1: Group, g2: Group, find_finite: FindFinite = _not_zero
) -> list[KeyBases]:
    """The bases of the five MSMs of a proof."""
    return [
        KeyBases.of(name, group, points, first, find_finite)
        for name, group, points, first in (
            ("B2", g2, zkey.b_g2, 0),
            ("A", g1, zkey.a, 0),
            ("B1", g1, zkey.b_g1, 0),
            ("C", g1, zkey.c, zkey.public + 1),
            ("H", g1, zkey.h, 0),
        )
    ]
