"""MSMs over finite affine points in device memory, without multiples."""

from __future__ import annotations

from quod.curve.group import Group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import replace
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.device_plan import plan_gpu_msm
from quod.msm.gpu.run.record_buckets import RecordedMsm, record_buckets, record_result
from quod.msm.gpu.run.record_sort import Scalars
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace
from quod.msm.options import MsmOptions


def plain_plan(
    device: AnyDevice, group: Group, count: int, *, affine: bool
) -> GpuMsmPlan:  # fmt: skip
    """Return the plan with the lowest estimated cost for `count` scalars; see `GpuMsmPlan`."""
    plan = plan_gpu_msm(
        group, count, MsmOptions(precompute_factor=1), limits=DeviceLimits.of(device),
        base_budget=1 << 62,
    )  # fmt: skip
    return replace(plan, affine=affine)


def record_plain(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, scalars: Buffer, bases: Buffer,
    workspace: Workspace,
) -> RecordedMsm:  # fmt: skip
    """Record the sum of scalars[i] * bases[i]; scalars are canonical, eight u32 each."""
    arrays = MsmBuffers.of(device, plan, Arena(device, workspace))
    source = Scalars(scalars, plan.count, plan.count)
    record_buckets(recording, device, plan, source, bases, arrays)
    return record_result(recording, device, plan, arrays, plan.count)
