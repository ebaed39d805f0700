"""Steps of recordings that are enqueued on streams, without graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.device.cuda.driver import Driver
from quod.device.cuda.kernel import CudaKernel
from quod.device.runtime.launch_checks import check_groups
from quod.device.runtime.recording import Copy, Fill, Launch, Step, span

_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING


def issue_concurrently(driver: Driver, steps: Sequence[Step], streams: Sequence[Any]) -> list[Any]:
    """Enqueue launches, copies and fills, so that independent steps may overlap.

    The first stream waits for all others at the end. Returns the driver events that order the
    steps; they may be destroyed once the first stream is done.
    """
    last_steps: list[int | None] = [None] * len(streams)
    lanes: list[int] = []
    events: list[Any] = []
    next_lane = 0
    for number, step in enumerate(steps):
        # Continue the stream of a step that this one waits for, if no other step follows it there.
        before = [(earlier, lanes[earlier]) for earlier in step.after]
        followed = [lane for earlier, lane in before if last_steps[lane] == earlier]
        if followed:
            lane = followed[-1]
        else:
            lane, next_lane = next_lane, (next_lane + 1) % len(streams)
        for earlier, earlier_lane in before:
            if earlier_lane != lane:
                driver.cuStreamWaitEvent(streams[lane], events[earlier], 0)
        issue(driver, step, streams[lane])
        events.append(driver.cuEventCreate(_DISABLE_TIMING))
        driver.cuEventRecord(events[-1], streams[lane])
        lanes.append(lane)
        last_steps[lane] = number
    for last in last_steps[1:]:
        if last is not None:
            driver.cuStreamWaitEvent(streams[0], events[last], 0)
    return events


def issue(driver: Driver, step: Step, stream: Any) -> None:
    """Enqueue a launch, copy or fill on a stream, outside any graph."""
    match step:
        case Launch() if step.groups != 0:
            kernel = step.kernel
            assert isinstance(kernel, CudaKernel)
            issue_launch(driver, kernel, step.groups, step.packed.address, stream)
        case Copy() if step.source.nbytes:
            source, target = span(step.source)[0], span(step.target)[0]
            copy = {
                "upload": driver.cuMemcpyHtoDAsync,
                "download": driver.cuMemcpyDtoHAsync,
                "copy": driver.cuMemcpyDtoDAsync,
            }[step.direction]
            copy(target, source, step.source.nbytes, stream)
        case Fill() if step.target.nbytes:
            driver.cuMemsetD32Async(
                span(step.target)[0], step.word, step.target.nbytes // 4, stream
            )


def issue_launch(
    driver: Driver, kernel: CudaKernel, groups: int, parameters: int, stream: Any
) -> None:
    """Enqueue a kernel launch on a stream; `parameters` is the address of its packed arguments."""
    check_groups(kernel, groups)
    driver.cuLaunchKernel(
        kernel.function, groups, 1, 1, kernel.lanes, 1, 1, kernel.dynamic_shared_bytes, stream,
        parameters, 0,
    )  # fmt: skip
