"""What the sums of a partition have in common, however its key is held."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quod.curve.affine import affine_group
from quod.curve.array import Point
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.groth16.gpu.bases import RecordedPoints
from quod.groth16.partition.bases import counts, group_of
from quod.groth16.partition.circuit import B_STRIDE, FIRST, PartitionCircuit
from quod.msm.run.recorded import RecordedMsm


class PartitionSum:
    """Points that are each a sum of recorded MSMs, named by the point and a number."""

    def __init__(
        self, circuit: PartitionCircuit, recorded: Mapping[str, list[RecordedMsm]]
    ) -> None:
        self._circuit, self._names = circuit, list(recorded)
        self._points = RecordedPoints(
            {
                f"{name} {place}": one
                for name, own in recorded.items()
                for place, one in enumerate(own)
            }
        )

    def expect(self) -> None:
        """See `RecordedMsm.expect`."""
        self._points.expect()

    def finish(self) -> dict[str, Point]:
        """See `FinishedPoints`."""
        sums: dict[str, Point] = dict.fromkeys(self._names)
        for part, point in self._points.finish().items():
            name = part.split()[0]
            group = group_of(self._circuit, counts(self._circuit)[name][0])
            sums[name] = affine_group(group).add(sums[name], point)
        return sums


def wires_of_b(device: AnyDevice, circuit: PartitionCircuit) -> Buffer:
    """The wire of each base of B."""
    wires = np.arange(circuit.used_in_b, dtype=np.uint32)
    wires *= B_STRIDE
    wires += FIRST
    return device.upload(wires)
