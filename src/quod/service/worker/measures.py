"""Utilisation of a device, computed from stage records and timelines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quod.device.runtime.intervals import union
from quod.device.runtime.timeline import Stage as Timed
from quod.device.runtime.timeline import Timeline
from quod.frozen import frozen
from quod.service.worker.pools.pool import Stage, StageRecord

# Stages that the host computes within the stage "sums" of a proof.
_HOST_STAGES = frozenset(
    ("fixed terms", "verifying key", "blind", "check A and B", "finish sums", "upload")
)


@frozen
class DeviceUse:
    """The utilisation of a device in a time interval.

    busy: the share of the time it computed.
    gaps: the idle seconds between computations.
    uploads: the number of witnesses uploaded.
    uploaded_bytes, upload_seconds: their bytes and the duration of their uploads.
    """

    busy: float
    gaps: tuple[float, ...]
    uploads: int
    uploaded_bytes: int
    upload_seconds: float

    @property
    def upload_rate(self) -> float:
        """The upload rate in bytes per second."""
        return self.uploaded_bytes / self.upload_seconds if self.upload_seconds else 0.0


def device_use(records: Sequence[StageRecord], begin: float, end: float) -> DeviceUse:
    """Compute the utilisation from a worker's stages between two wall-clock times."""
    busy_intervals = union(
        (max(record.begin, begin), min(record.end, end))
        for record in records
        if record.stage is Stage.PROVE and record.begin < end and record.end > begin
    )
    gaps = tuple(later[0] - earlier[1] for earlier, later in pairwise(busy_intervals))
    uploads = [
        record
        for record in records
        if record.stage is Stage.UPLOAD and begin <= record.begin and record.end <= end
    ]
    return DeviceUse(
        sum(stop - start for start, stop in busy_intervals) / (end - begin) if end > begin else 0.0,
        gaps,
        len(uploads),
        sum(record.copied_bytes for record in uploads),
        sum(record.end - record.begin for record in uploads),
    )


@frozen
class Phases:
    """The device time of a proof with sequential steps, in milliseconds.

    ntt_msm_h_ms: from the witness to the MSM over H.
    batch_add_ms: bucket accumulation of the other MSMs.
    tail_msm_ms: the reduction of buckets of those MSMs, and all other work on them.
    The names are those of cuzk, for comparison.
    """

    ntt_msm_h_ms: float
    batch_add_ms: float
    tail_msm_ms: float

    @property
    def gpu_total_ms(self) -> float:
        return self.ntt_msm_h_ms + self.batch_add_ms + self.tail_msm_ms


def phases_of(timeline: Timeline) -> Phases:
    """Compute the phases of a proof from its timeline."""
    stages = timeline.rows()
    parents = {id(stage.parent) for stage in stages if stage.parent is not None}
    milliseconds = [0.0, 0.0, 0.0]
    for stage in stages:
        phase = _phase_of(stage)
        if id(stage) not in parents and phase is not None:
            milliseconds[phase] += 1e3 * stage.seconds
    return Phases(*milliseconds)


def _phase_of(stage: Timed) -> int | None:
    """Return the index of a stage's phase in `Phases`; None for stages of the host."""
    names = [stage.name]
    while stage.parent is not None:
        stage = stage.parent
        names.append(stage.name)
    if names[-1] != "sums" or len(names) < 2 or names[-2] in _HOST_STAGES:
        return None
    path = ": ".join(reversed(names[:-1]))
    if not path.startswith("MSM ") or path.startswith("MSM H"):
        return 0
    return 1 if "accumulate" in path else 2
