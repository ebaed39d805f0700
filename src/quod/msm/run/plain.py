"""MSMs over affine points as they lie in device memory, all of them finite, without multiples."""

from __future__ import annotations

from quod.curve.group import Group
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.msm.layout import GpuMsmPlan
from quod.msm.options import MsmOptions
from quod.msm.processor import Processor
from quod.msm.run.device_plan import plan_gpu_msm
from quod.msm.run.record import Scalars
from quod.msm.run.recorded import RecordedMsm, record_buckets, record_result
from quod.msm.run.workspace import Arena, MsmBuffers, Workspace


def plain_plan(device: AnyDevice, group: Group, count: int) -> GpuMsmPlan:
    """The plan that is expected to be fastest for `count` scalars."""
    return plan_gpu_msm(
        group, count, MsmOptions(precompute_factor=1), processor=Processor.of(device),
        base_budget=1 << 62,
    )  # fmt: skip


def record_plain(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, scalars: Buffer, bases: Buffer,
    workspace: Workspace,
) -> RecordedMsm:  # fmt: skip
    """Records the sum of scalars[i] * bases[i]; scalars are canonical, of eight u32 each."""
    arrays = MsmBuffers.of(device, plan, Arena(device, workspace))
    source = Scalars(scalars, plan.count, plan.count)
    record_buckets(recording, device, plan, source, bases, arrays)
    return record_result(recording, device, plan, arrays, plan.count)
