"""What a prover asks of a proving key, wherever its arrays are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from quod.curve.array import Point
from quod.device.timeline import Stage, Timeline
from quod.field.array import Words

Tasks = Mapping[str, Callable[[], Any]]
"""Work by name."""


class PendingParts(Protocol):
    """The parts of a proof while they are computed: `early` comes first, `close` at any end."""

    def early(self) -> dict[str, Any]:
        """The points A, B1 and B2 by name, and the results of the tasks beside them."""

    def last(self) -> dict[str, Point]:
        """The points C and H, which may take longer."""

    def close(self) -> None:
        """Nobody waits for the parts any more."""


class ResidentKey(Protocol):
    """The matrices and bases of a key where a device computes with them.

    `peak_bytes` is a bound on the memory that a proof takes beside them.
    """

    @property
    def peak_bytes(self) -> int: ...

    def start(
        self, witness: Words, beside: Tasks, timeline: Timeline, stage: Stage
    ) -> PendingParts:
        """Begins the sums of a proof; the host does the tasks `beside` meanwhile.

        `witness` has shape (variables, words), canonical, and must not change meanwhile.
        `stage` is the parent of what the timeline shows.
        """

    def close(self) -> None:
        """Ends threads that wait for work."""
