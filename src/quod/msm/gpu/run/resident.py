"""MSMs over bases that are resident in device memory, with their multiples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from quod.curve.group import Group
from quod.curve.sums.edwards import edwards_form
from quod.curve.sums.forms import Form
from quod.curve.weierstrass.operations import is_in_subgroup
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError, InputError
from quod.frozen import frozen, replace
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import line_bytes
from quod.msm.gpu.run import base_multiples
from quod.msm.gpu.run.blocks import BaseBlock, record_blocks, record_blocks_to_lines
from quod.msm.gpu.run.device_plan import largest_batch, plan_gpu_msm, with_batch
from quod.msm.gpu.run.record_buckets import (
    RecordedMsm,
    record_buckets,
    record_result,
    record_window_sums,
)
from quod.msm.gpu.run.record_sort import Scalars
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace, block_of, workspace_bytes
from quod.msm.gpu.sort.infinity_mask import find_infinity_mask
from quod.msm.options import MsmOptions
from quod.msm.scalars import SCALAR_BYTES, check_bases, check_count

# By default bases and their multiples take at most the memory budget divided by this.
_BASE_SHARE = 4


def _form(
    device: AnyDevice, group: Group, points: Array, options: MsmOptions
) -> tuple[Form, str]:  # fmt: skip
    """Return the form for some bases, and the reason for it."""
    if edwards_form(group) is None:
        return "weierstrass", f"{group.name} has no other form"
    if options.precompute_factor == 1:
        return "weierstrass", "the bases have no multiples, and are not checked for another form"
    outside = np.flatnonzero(~is_in_subgroup(device, group, points))
    if len(outside):
        return "weierstrass", f"base {outside[0]} is not in the subgroup of prime order"
    return "edwards", "all bases are in the subgroup of prime order"


def _addressed_slice(scalars: Buffer, start: int, count: int, batch: int, stride: int) -> Buffer:
    """Return the slice with scalars start to start + count - 1 of all vectors.

    The whole buffer may be larger than a kernel can address.
    """
    stop = (batch - 1) * stride + start + count
    return scalars.slice(SCALAR_BYTES * start, SCALAR_BYTES * stop)


@frozen
class _Bases:
    """`count` bases from base `start` on, with their multiples and infinity mask."""

    start: int
    count: int
    memory: Buffer
    infinity_mask: Buffer | None

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes + (self.infinity_mask.nbytes if self.infinity_mask else 0)


class ResidentMsm:
    """Bases in device memory, and the recording of MSMs over them.

    points: host array of affine points in Montgomery form, uint32 of shape (n, *group.shape). They
        are not checked to be on the curve.
    options: if None, the bases have the number of multiples that is fastest within `base_budget`.
    base_budget: bytes for bases and multiples. Default: a quarter of the device's memory budget.
    deferred: leave the bases to `load`; only their kernels begin to compile. MSMs may be
        recorded, but not run, before `load`.
    affine: see `GpuMsmPlan`.

    Bases of a curve with a twisted Edwards form use that form, unless they have no multiples (a
    precompute factor of 1) or some are outside the subgroup of prime order, where its additions are
    not complete. `form_reason` names the reason. Bases that exceed what a kernel can address are in
    several buffers.

    Raises InputError for an array of another shape, DeviceError if the bases do not fit.
    """

    def __init__(
        self,
        device: AnyDevice,
        group: Group,
        points: Array,
        options: MsmOptions | None = None,
        *,
        base_budget: int | None = None,
        deferred: bool = False,
        affine: bool = True,
    ) -> None:
        check_bases(group, points)
        self.device = device
        self.group = group
        self._count = len(points)
        self.options = options or MsmOptions()
        budget = device.memory_budget // _BASE_SHARE if base_budget is None else base_budget
        form, self.form_reason = _form(device, group, points, self.options)
        self._limits = DeviceLimits.of(device)
        plan = plan_gpu_msm(
            group, self._count, self.options, limits=self._limits, base_budget=budget,
            form=form,
        )  # fmt: skip
        self._plan = replace(plan, affine=affine)
        self.blocks: list[_Bases] = []
        start = 0
        for size in self._plan.block_counts if self._count else ():
            memory = device.allocate(base_multiples.base_bytes(self._plan, size), zero=False)
            self.blocks.append(_Bases(start, size, memory, None))
            start += size
        self._points: Array | None = points
        if deferred:
            # The kernels that compute the multiples begin to compile now.
            base_multiples.compile_for(device, self._plan)
        else:
            self.load()

    def load(self) -> bool:
        """Compute the bases and their multiples; return whether one of them is infinite.

        If so, MSMs that were recorded before must be recorded again.
        """
        device, plan, points = self.device, self._plan, self._points
        if points is not None:
            self._points = None
            for index, block in enumerate(self.blocks):
                block_points = points[block.start : block.start + block.count]
                base_multiples.multiples(device, self.group, block_points, plan, block.memory)
                base_count = block.count * plan.copies
                mask = find_infinity_mask(device, base_count, plan.base_words, block.memory)
                self.blocks[index] = replace(block, infinity_mask=mask)
        return any(block.infinity_mask is not None for block in self.blocks)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of device memory of the bases, their multiples and infinity mask."""
        return sum(block.nbytes for block in self.blocks)

    def plan(
        self, count: int | None = None, batch: int = 1, options: MsmOptions | None = None
    ) -> GpuMsmPlan:
        """Return the plan for `batch` MSMs of `count` scalars; default: one scalar per base.

        The plan's `batch` may be smaller. Options other than those of the bases may leave the
        multiples unused. Raises InputError for more scalars than bases, and for options that do not
        fit the bases.
        """
        count = self._count if count is None else count
        check_count(count, self._count)
        if options is None or options == self.options:
            plan = with_batch(self._plan, count, 1)
            batch_size = self.options.batch_size
        else:
            plan, batch_size = self._other_plan(count, options), options.batch_size
        batch = largest_batch(plan, min(batch, batch_size or batch))
        return with_batch(plan, count, batch)

    def _other_plan(self, count: int, options: MsmOptions) -> GpuMsmPlan:
        """Return a plan for options other than those of the bases; see `plan`."""
        if (self.options.precompute_factor or 1) > 1:
            raise InputError(
                "bases with precomputed multiples keep the options that they were made with"
            )
        if (options.precompute_factor or 1) > 1:
            raise InputError(
                "precompute_factor applies only when MsmBases is made; pass these options there"
            )
        if options.window_bits in (None, self._plan.window_bits):
            # Keep the bases' windows: for smaller scalars the highest digits are zero.
            narrower = plan_gpu_msm(
                self.group, count, replace(options, window_bits=self._plan.window_bits),
                limits=self._limits, base_budget=1 << 62,
            )  # fmt: skip
            return replace(self._plan, count=max(1, count), maximum=narrower.maximum)
        plan = plan_gpu_msm(
            self.group, count, replace(options, precompute_factor=1), limits=self._limits,
            base_budget=1 << 62, form=self._plan.form,
        )  # fmt: skip
        # The bases keep their buffers.
        return replace(plan, base_block=self._plan.base_block)

    def workspace_bytes(self, plan: GpuMsmPlan | None = None) -> int:
        """Return the workspace bytes of a plan; default: that of one scalar per base."""
        return workspace_bytes(self.device, plan or self.plan())

    def record(
        self,
        recording: RecordingStream,
        scalars: Buffer,
        *,
        workspace: Workspace,
        plan: GpuMsmPlan | None = None,
        indices: Buffer | None = None,
        stride: int | None = None,
    ) -> RecordedMsm:
        """Record an MSM.

        scalars: canonical integers in device memory, eight u32 each.
        plan: default: that of one scalar per base.
        indices: u32 indices; base i takes scalar indices[i] of its vector instead of scalar i.
        stride: the number of scalars from the start of one vector to the next. Default: the plan's
            count.

        Results are available after a submission of the recording has finished.
        """
        plan, stride = self._checked(scalars, plan, indices, stride)
        if len(plan.block_counts) > 1:
            blocks = self._blocks(plan, scalars, indices, stride)
            return record_blocks(recording, self.device, blocks, workspace)
        arrays = self._record_buckets(recording, plan, scalars, indices, stride, workspace)
        return record_result(recording, self.device, plan, arrays, stride)

    def record_to_lines(
        self,
        recording: RecordingStream,
        scalars: Buffer,
        lines: Buffer,
        flag: Buffer,
        *,
        workspace: Workspace,
        plan: GpuMsmPlan | None = None,
        indices: Buffer | None = None,
        stride: int | None = None,
    ) -> None:
        """Record an MSM up to its lines, which stay on the device; arguments as for `record`.

        lines: `weighted_sums.line_bytes` bytes for the lines, which `finish.Finisher` adds up.
        flag: 16 bytes, whose first word the recording sets to zero if no scalar is too large.
        """
        plan, stride = self._checked(scalars, plan, indices, stride)
        device = self.device
        if lines.nbytes != line_bytes(plan):
            raise DeviceError(f"the lines take {line_bytes(plan)} bytes, not {lines.nbytes}")
        recording.fill(flag, label="digits")
        if len(plan.block_counts) > 1:
            blocks = self._blocks(plan, scalars, indices, stride)
            record_blocks_to_lines(recording, device, blocks, workspace, lines, flag)
        else:
            arrays = self._record_buckets(
                recording, plan, scalars, indices, stride, workspace, flag
            )  # fmt: skip
            record_window_sums(
                recording, device, plan, arrays.chunks.first_chunk, arrays.sums, lines,
                arrays.scratch,
            )  # fmt: skip

    def _checked(
        self, scalars: Buffer, plan: GpuMsmPlan | None, indices: Buffer | None, stride: int | None
    ) -> tuple[GpuMsmPlan, int]:  # fmt: skip
        """Return the plan and the stride.

        Raises InputError if there are no bases, DeviceError if a buffer has the wrong size.
        """
        if not self._count:
            raise InputError("there is nothing to record for an MSM over no bases")
        plan = plan or self.plan()
        count = plan.count
        stride = count if stride is None else stride
        needed_bytes = SCALAR_BYTES * ((plan.batch - 1) * stride + (0 if indices else count))
        if scalars.nbytes < needed_bytes:
            raise DeviceError(
                f"{plan.batch} x {count} scalars take {needed_bytes} bytes, not {scalars.nbytes}"
            )
        if indices is not None and indices.nbytes != 4 * count:
            raise DeviceError(f"{count} indices take {4 * count} bytes, not {indices.nbytes}")
        return plan, stride

    def _record_buckets(
        self, recording: RecordingStream, plan: GpuMsmPlan, scalars: Buffer,
        indices: Buffer | None, stride: int, workspace: Workspace, flag: Buffer | None = None,
    ) -> MsmBuffers:  # fmt: skip
        """Record an MSM over a single buffer of bases up to its bucket sums; return its arrays."""
        (bases,) = self.blocks[:1]
        if indices is None:
            scalars = _addressed_slice(scalars, 0, plan.count, plan.batch, stride)
        source = Scalars(scalars, stride, bases.count, 0, indices, bases.infinity_mask)
        arrays = MsmBuffers.of(self.device, plan, Arena(self.device, workspace))
        arrays = arrays if flag is None else replace(arrays, too_large=flag)
        record_buckets(recording, self.device, plan, source, bases.memory, arrays)
        return arrays

    def _blocks(
        self, plan: GpuMsmPlan, scalars: Buffer, indices: Buffer | None, stride: int
    ) -> Iterator[BaseBlock]:
        """Yield the block of each buffer of bases."""
        for bases, count in zip(self.blocks, plan.block_counts):
            start, stop = bases.start, bases.start + count
            words, block_indices = scalars, indices
            if indices is None:
                words = _addressed_slice(scalars, start, count, plan.batch, stride)
            else:
                block_indices = indices.slice(4 * start, 4 * stop)
            source = Scalars(words, stride, bases.count, 0, block_indices, bases.infinity_mask)
            first = start if indices is None else 0
            yield BaseBlock(block_of(plan, count), first, source, bases.memory)

    def record_in_blocks(
        self,
        recording: RecordingStream,
        scalars: Array,
        plans: Sequence[GpuMsmPlan],
        memory: Buffer,
        workspace: Workspace,
    ) -> RecordedMsm:
        """Record an MSM that uploads the scalars of a block while it computes the previous block.

        scalars: host array of shape (n, 8), page-locked for concurrent uploads.
        plans: one plan per block.
        memory: device memory for all scalars.
        workspace: of as many bytes as `blocks_bytes` returns.
        """
        (bases,) = self.blocks

        def upload_blocks() -> Iterator[BaseBlock]:
            start = 0
            for plan in plans:
                size, stop = plan.count, start + plan.count
                words = memory.slice(SCALAR_BYTES * start, SCALAR_BYTES * stop)
                recording.upload(scalars[start:stop], words, label="upload scalars")
                source = Scalars(words, size, self._count, start, None, bases.infinity_mask)
                yield BaseBlock(plan, start, source, bases.memory)
                start = stop

        return record_blocks(recording, self.device, upload_blocks(), workspace)
