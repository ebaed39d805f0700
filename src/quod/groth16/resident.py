"""The interface of a proving key in a device's memory, and the bases of its MSMs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from quod.curve.group import Group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.formats import Zkey
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The default of `KeyBases.of`.
_MIN_INFINITE_SHARE = 0.1

MAX_BATCH = 32
"""The largest batch of witnesses; waiting for more would cost more time than it saves."""

FindFinite = Callable[[Group, Words], np.ndarray[Any, np.dtype[np.bool_]]]
"""A function that returns a boolean mask of the points that are not at infinity."""


@runtime_checkable
class WitnessInMemory(Protocol):
    """A witness in the memory of a device; see `quod.r1cs.resident_witness`."""

    @property
    def device(self) -> AnyDevice: ...
    @property
    def memory(self) -> Buffer: ...
    def first(self, count: int) -> Words:
        """Return the first `count` values, copied to the host."""


class PendingSums(Protocol):
    """The sums of a proof in progress: call `early`, then `last`, and `close` in any case."""

    def early(self) -> dict[str, Any]:
        """Return the points A, B1 and B2 by name, and the results of the concurrent tasks."""

    def last(self) -> dict[str, Any]:
        """Return the points C and H, which may take longer."""

    def close(self) -> None:
        """Release the memory of this proof for the next one; the sums are no longer needed."""


class SumBatches(Protocol):
    """The sums of batches of up to `most` witnesses, for keys whose batches beat single proofs."""

    @property
    def most(self) -> int: ...

    def prepare(self) -> None:
        """Wait for batches in progress, then allocate and record the batches of each size."""

    def start(
        self, witnesses: Sequence[Words | Buffer], host_tasks: Tasks, context: ProofContext
    ) -> PendingSums:
        """Begin the sums of two or more witnesses; see `ResidentKey.start`.

        Each sum is an array of points: one per witness, then padding.
        """

    def wait(self, waiting: Callable[[], int]) -> None:
        """Return as soon as a batch should begin and there is memory for it.

        It should begin when the device is idle, or when `most` witnesses are waiting.
        waiting: returns the number of waiting witnesses, at least 1.
        """


class ResidentKey(Protocol):
    """The matrices and bases of a key in a device's memory.

    nbytes: bytes of device memory that the key takes, without the zkey itself.
    peak_bytes: an upper bound on the additional bytes of a proof.
    in_progress: the number of proofs that can be in progress; further ones wait.
    witness_device: the device whose memory may have the witness.
    batches: the sums of batches, for small proofs.
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
        """Allocate the memory of proofs now, in particular page-locked memory."""

    def start(
        self, witness: Words | Buffer, host_tasks: Tasks, context: ProofContext
    ) -> PendingSums:
        """Begin the sums of a proof; the host runs the tasks `host_tasks` concurrently.

        witness: canonical values, uint32 of shape (variables, words), or a buffer of
            `witness_device`; it must not change until the sums are computed.
        """

    def close(self) -> None:
        """Stop the key's threads."""


def _not_zero(_: Group, points: Words) -> NDArray[np.bool_]:
    return np.asarray(points.any(axis=tuple(range(1, points.ndim))))


@frozen(eq=False)
class KeyBases:
    """The bases of one MSM of a proof.

    points: all points; point i belongs to scalar first + i of the scalar vector.
    used_points: the points that the MSM uses. A key has a point at infinity for each variable that
        a matrix does not use; if there are many, `used_points` omits them.
    indices: the index of the scalar of each point of `used_points`; None if no point is omitted.
    """

    name: str
    group: Group
    points: Words
    first: int
    used_points: Words
    indices: NDArray[np.uint32] | None

    @classmethod
    def of(
        cls, name: str, group: Group, points: Words, first: int = 0,
        find_finite: FindFinite = _not_zero, min_infinite_share: float = _MIN_INFINITE_SHARE,
    ) -> KeyBases:  # fmt: skip
        """Return the bases for a zkey's points, whose scalars begin at index `first`.

        min_infinite_share: points at infinity are removed if more than this share of the points
            is at infinity.
        """
        # A mapped file may have them at an unaligned address.
        points = np.require(points, requirements=("C", "A"))
        finite_indices = np.flatnonzero(find_finite(group, points))
        if len(finite_indices) >= (1 - min_infinite_share) * len(points):
            return cls(name, group, points, first, points, None)
        indices = (finite_indices + first).astype(np.uint32)
        return cls(name, group, points, first, points[finite_indices], indices)

    def scalars(self, vector: Words) -> Words:
        """Return the scalars of the points in `used_points`, from the whole scalar vector."""
        if self.indices is None:
            return vector[self.first : self.first + len(self.used_points)]
        return vector[self.indices]


def bases_of(
    zkey: Zkey, g1: Group, g2: Group, find_finite: FindFinite = _not_zero,
    min_infinite_share: float = _MIN_INFINITE_SHARE,
) -> list[KeyBases]:  # fmt: skip
    """Return the bases of the five MSMs of a proof; see `KeyBases.of`."""
    return [
        KeyBases.of(name, group, points, first, find_finite, min_infinite_share)
        for name, group, points, first in (
            ("B2", g2, zkey.b_g2, 0),
            ("A", g1, zkey.a, 0),
            ("B1", g1, zkey.b_g1, 0),
            ("C", g1, zkey.c, zkey.public + 1),
            ("H", g1, zkey.h, 0),
        )
    ]
