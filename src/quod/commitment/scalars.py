"""Common parts of the schemes that commit to tables of BN254 scalars by points of G1."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from quod.commitment.claim_reduction import prove_reduction
from quod.commitment.scheme import Claim, check_claims, check_size
from quod.commitment.tables import table_of_elements
from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.memory.budget import bytes_text
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.field.array import Words, integers_to_words
from quod.field.integers import Integers
from quod.field.kernels import field_from_montgomery
from quod.field.spec import FieldSpec
from quod.msm import MsmBases, msm, msm_buffer
from quod.transcript.elements import most_likely
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter

GROUP = GROUPS["bn254.g1"]


def checked_log2_size(field: FieldSpec, log2_size: int) -> int:
    """Return a table's number of variables as an int.

    Raises InputError unless it is in range and at least 1, and the field is BN254's Fr.
    """
    log2_size = check_size(log2_size)
    if field != GROUP.scalars:
        raise InputError(
            f"commitments in {GROUP.name} need elements of {GROUP.scalars.name}, not of "
            f"{field.name}; use the scheme raw, or ligero over a small prime"
        )
    if log2_size == 0:
        raise InputError("the polynomial must have at least one variable")
    return log2_size


def combined_errors(field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
    """Return the probability that the reduction of several claims to one accepts a false claim.

    It covers the combining factor, and log2_size rounds of degree 2.
    """
    return {"claims combined": (1 + 2 * log2_size) * most_likely(field)}


class GroupCommitter:
    """A `Committer` to the rows of a table, by MSMs over the same bases.

    `open` of a scheme begins with `reduce_claims`.
    """

    def __init__(
        self, device: AnyDevice, log2_size: int, bases: Words, rows: int
    ) -> None:  # fmt: skip
        size = GROUP.scalars.bytes << log2_size
        if size > device.largest_buffer:
            raise DeviceError(
                f"a table of 2**{log2_size} entries is {bytes_text(size)}, more than a buffer of "
                f"{device.name} has ({bytes_text(device.largest_buffer)})"
            )
        # The scalars, and the memory of a sumcheck over several claims.
        device.check_budget("a commitment", 4 * size)
        self._bases, self._rows = MsmBases(device, GROUP, bases), rows
        self._device, self._field, self._log2_size = device, GROUP.scalars, log2_size
        self._committed: Buffer | None = None

    def commit(self, table: Buffer | Integers, writer: ProofWriter) -> None:
        """Send one point per row."""
        elements = table_of_elements(self._device, self._field, self._log2_size, table)
        writer.points(Label.COMMITMENT, GROUP, committed(self._bases, elements, self._rows))
        self._committed = elements

    def reduce_claims(self, claims: Sequence[Claim], writer: ProofWriter) -> tuple[Claim, Buffer]:
        """Reduce claims to one; return that claim and its table."""
        claims = check_claims(self._field, self._log2_size, claims)
        table = self._committed
        if table is None:
            raise InputError("open needs a commitment; call commit first")
        claim = prove_reduction(self._device, self._field, self._log2_size, table, claims, writer)
        return claim, table


def committed(bases: MsmBases, table: Buffer, vectors: int = 1) -> list[Point]:
    """Return the commitments to `vectors` consecutive vectors of elements in the stored form.

    The vectors are in the memory of the bases' device.
    """
    device, field = bases.device, bases.group.scalars
    count = table.nbytes // field.bytes
    if not count:
        return [None] * vectors
    device.check_budget(f"{count} scalars", table.nbytes)
    scalars = device.allocate(table.nbytes, zero=False)
    kernel = device.compile(field_from_montgomery, spec=field)
    recording = device.stream("scalars").record()
    recording.launch(kernel, -(-count // kernel.lanes), count, table, scalars, label="scalars")
    recording.finish().run()
    return points_of(bases.group, msm_buffer(bases, scalars, vectors))


def points_of(group: Group, words: np.ndarray) -> list[Point]:
    """Convert the words that MSMs return to plain points."""
    return to_points(group, words.view(np.uint32).reshape(-1, *group.shape))


def sum_of_multiples(
    group: Group, points: Sequence[Point] | Words, scalars: Sequence[int]
) -> Point:
    """Return the sum of scalars[i] * points[i], for any integers, computed on the host."""
    order = group.scalars.value
    words = integers_to_words(group.scalars, [scalar % order for scalar in scalars])
    array = points if isinstance(points, np.ndarray) else from_points(group, points)
    return msm("cpu", group, array, words)
