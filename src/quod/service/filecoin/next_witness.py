"""The witness of the partition that a worker will probably claim next."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.errors import QuodError
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.proving import Prover
from quod.formats import Witness
from quod.service.queue.records import Lease


class NextWitness:
    """Begin and keep the witness of a partition during the proof of the one before."""

    def __init__(self) -> None:
        self._thread = Background("quod-filecoin-witness", 1)
        self._last: tuple[str, int] = "", 0
        self._next: tuple[tuple[str, int], Outcome[Witness]] | None = None

    def take(self, lease: Lease) -> Witness | None:
        """Return the witness of a claimed partition if it was begun and could be computed."""
        prepared, self._next = self._next, None
        if prepared is not None and prepared[0] == (lease.job, lease.partition):
            # Its error may be due to the proof that ran beside it: the caller tries again.
            with suppress(QuodError, MemoryError):
                return prepared[1].result()
        return None

    def begin(self, lease: Lease, prover: Prover, inputs: Sequence[CircuitInputs]) -> None:
        """Begin the witness of the partition that follows a claimed one."""
        job, partition = self._last
        # With several workers, each claims partitions at about this distance.
        step = max(1, lease.partition - partition) if job == lease.job else 1
        self._last, number = (lease.job, lease.partition), lease.partition + step
        if number < len(inputs):
            witness = self._thread.begin(partial(prover.witness, inputs[number]))
            self._next = (lease.job, number), witness

    def close(self) -> None:
        """Wait for a witness that was begun, and free it."""
        self._next = None
        self._thread.close()
