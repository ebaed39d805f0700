"""The witnesses of the partitions that a worker will probably claim next."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quod.device.runtime.future import Dropped, Outcome
from quod.errors import QuodError
from quod.filecoin.circuits.private_inputs import CircuitInputs
from quod.filecoin.proving import Prover
from quod.formats import Witness
from quod.service.queue.records import Lease

_log = logging.getLogger(__name__)

_Partition = tuple[str, int]


class NextWitnesses:
    """Witnesses that background threads compute during the proofs of earlier partitions."""

    def __init__(self) -> None:
        self._last: _Partition = "", 0
        self._begun: dict[_Partition, Outcome[Witness]] = {}

    def take(self, lease: Lease) -> Witness | None:
        """Wait for the witness of a claimed partition and return it; None if there is none.

        Frees the witnesses of other jobs: the key that is opened next may need their memory.
        """
        outcome = self._begun.pop((lease.job, lease.partition), None)
        if lease.job != self._last[0]:
            self.clear()
        if outcome is None:
            return None
        try:
            return outcome.result()
        except (QuodError, MemoryError) as error:
            # The concurrent proof may have taken the memory: the worker computes it again.
            if not isinstance(error, Dropped):
                _log.warning(
                    "a witness that was computed ahead failed: %s",
                    str(error) or type(error).__name__,
                    extra={"job": lease.job, "partition": lease.partition, "key": lease.key},
                )  # fmt: skip
            return None

    def begin(self, lease: Lease, prover: Prover, inputs: Sequence[CircuitInputs]) -> None:
        """Begin the witnesses of the partitions that follow a claimed one; free all others."""
        job, partition = self._last
        # With several workers, each claims partitions at about this distance.
        step = max(1, lease.partition - partition) if job == lease.job else 1
        self._last = lease.job, lease.partition
        before, self._begun = self._begun, {}
        for number in range(lease.partition + step, len(inputs), step)[: prover.witnesses_ahead]:
            key = lease.job, number
            outcome = before.pop(key) if key in before else prover.begin_witness(inputs[number])
            self._begun[key] = outcome
        _drop(before)

    def clear(self) -> None:
        """Free all witnesses; one that is being computed is freed at its end."""
        _drop(self._begun)
        self._begun.clear()


def _drop(witnesses: dict[_Partition, Outcome[Witness]]) -> None:
    for outcome in witnesses.values():
        outcome.drop()
