"""The common part of resident and streamed sums of a partition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quod.bench.porep.bases import counts, group_of
from quod.bench.porep.circuit import B_STRIDE, WIRES_BEFORE_BLOCKS, PartitionCircuit
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.groth16.gpu.summed_points import SummedPoints
from quod.msm.gpu.run.record_buckets import RecordedMsm


class PartitionSum(SummedPoints):
    """Points that are sums of recorded MSMs."""

    def __init__(
        self, circuit: PartitionCircuit, recorded: Mapping[str, list[RecordedMsm]]
    ) -> None:
        degrees = {name: degree for name, (degree, _) in counts(circuit).items()}
        groups = {name: group_of(circuit, degree) for name, degree in degrees.items()}
        super().__init__(groups, recorded)


def wires_of_b(device: AnyDevice, circuit: PartitionCircuit) -> Buffer:
    """Upload the index of the wire of each base of B."""
    wires = np.arange(circuit.used_in_b, dtype=np.uint32)
    wires *= B_STRIDE
    wires += WIRES_BEFORE_BLOCKS
    return device.upload(wires)
