"""The witness of the partition that a worker will probably claim next."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from quod.errors import QuodError
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.proving import Prover
from quod.formats import Witness
from quod.service.queue.records import Lease


class NextWitness:
    """Compute and keep the witness of a partition during the proof of the one before."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = "", 0
        self._next: tuple[tuple[str, int], Witness] | None = None

    def take(self, lease: Lease) -> Witness | None:
        """Return the witness of a claimed partition if it was computed."""
        prepared, self._next = self._next, None
        if prepared is not None and prepared[0] == (lease.job, lease.partition):
            return prepared[1]
        return None

    def compute(self, lease: Lease, prover: Prover, inputs: Sequence[CircuitInputs]) -> None:
        """Compute the witness of the partition that follows a claimed one."""
        job, partition = self._last
        # With several workers, each claims partitions at about this distance.
        step = max(1, lease.partition - partition) if job == lease.job else 1
        self._last, number = (lease.job, lease.partition), lease.partition + step
        if number < len(inputs):
            # An error may be due to the proof that runs beside it: the worker tries again.
            with suppress(QuodError, MemoryError):
                self._next = (lease.job, number), prover.witness(inputs[number])

    def close(self) -> None:
        """Free the witness."""
        self._next = None
