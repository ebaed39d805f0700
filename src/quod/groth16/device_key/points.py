"""The sums of the MSMs of a proof, resident or streamed."""

from __future__ import annotations

from collections.abc import Mapping

from quod.groth16.device_key.bases import counts, group_of
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.gpu.summed_points import SummedPoints
from quod.msm.gpu.run.record_buckets import RecordedMsm


class SumOfMsms(SummedPoints):
    """Points that are sums of recorded MSMs."""

    def __init__(self, circuit: DeviceCircuit, recorded: Mapping[str, list[RecordedMsm]]) -> None:
        degrees = {name: degree for name, (degree, _) in counts(circuit).items()}
        groups = {name: group_of(circuit, degree) for name, degree in degrees.items()}
        super().__init__(groups, recorded)
