"""What stages and timelines say of a device: how busy it is, where it waits, what a proof takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quod.device.runtime.intervals import union
from quod.device.runtime.timeline import Stage as Timed
from quod.device.runtime.timeline import Timeline
from quod.frozen import frozen
from quod.service.worker.pools.pool import Stage, StageRecord

# What the host does beside the sums of a proof.
_OF_THE_HOST = frozenset(
    ("multiples of delta", "verifying key", "blind", "check A and B", "finish sums", "upload")
)


@frozen
class DeviceUse:
    """A device between two moments: it computed for a share `busy` of the time.

    `gaps` are the seconds between, `copies` how many witnesses were brought there, of `copied`
    bytes in `copy_seconds`.
    """

    busy: float
    gaps: tuple[float, ...]
    copies: int
    copied: int
    copy_seconds: float

    @property
    def copy_rate(self) -> float:
        """Bytes a second of the copies."""
        return self.copied / self.copy_seconds if self.copy_seconds else 0.0


def device_use(records: Sequence[StageRecord], begin: float, end: float) -> DeviceUse:
    """What the stages of a worker say of its device from `begin` to `end`, by the wall clock."""
    computed = union(
        (max(one.begin, begin), min(one.end, end))
        for one in records
        if one.stage is Stage.PROVE and one.begin < end and one.end > begin
    )
    gaps = tuple(later[0] - earlier[1] for earlier, later in pairwise(computed))
    copies = [
        one
        for one in records
        if one.stage is Stage.UPLOAD and begin <= one.begin and one.end <= end
    ]
    return DeviceUse(
        sum(last - first for first, last in computed) / (end - begin) if end > begin else 0.0,
        gaps,
        len(copies),
        sum(one.payload for one in copies),
        sum(one.end - one.begin for one in copies),
    )


@frozen
class Phases:
    """What a device takes for a proof whose steps run one after the other, in milliseconds.

    `ntt_msm_h_ms` is all from the witness to the sum over H, `batch_add_ms` adding points to the
    buckets of the other sums, `tail_msm_ms` what else those take, `gpu_total_ms` everything. The
    names are those of cuzk, so that figures can be compared.
    """

    ntt_msm_h_ms: float
    batch_add_ms: float
    tail_msm_ms: float

    @property
    def gpu_total_ms(self) -> float:
        return self.ntt_msm_h_ms + self.batch_add_ms + self.tail_msm_ms


def phases_of(timeline: Timeline) -> Phases:
    """The phases of a proof that was made with this timeline."""
    stages = timeline.rows()
    outer = {id(stage.parent) for stage in stages if stage.parent is not None}
    sums = [0.0, 0.0, 0.0]
    for stage in stages:
        phase = _phase_of(stage)
        if id(stage) not in outer and phase is not None:
            sums[phase] += 1e3 * stage.seconds
    return Phases(*sums)


def _phase_of(stage: Timed) -> int | None:
    """The place of a stage's time in `Phases`; None for what is not the device's."""
    names = [stage.name]
    while stage.parent is not None:
        stage = stage.parent
        names.append(stage.name)
    if names[-1] != "sums" or len(names) < 2 or names[-2] in _OF_THE_HOST:
        return None
    path = ": ".join(reversed(names[:-1]))
    if not path.startswith("MSM ") or path.startswith("MSM H"):
        return 0
    return 1 if "accumulate" in path else 2
