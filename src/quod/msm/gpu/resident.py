"""MSMs over bases that stay in device memory with their multiples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from quod.curve.array import check_points_array
from quod.curve.groups import Group
from quod.curve.operations import is_in_subgroup
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.errors import DeviceError, InputError
from quod.msm.gpu import precompute
from quod.msm.gpu.digits import SCALAR_WORDS
from quod.msm.gpu.edwards import edwards_form
from quod.msm.gpu.layout import Form, GpuMsmPlan
from quod.msm.gpu.marks import find_marks
from quod.msm.gpu.parts import Part, PartMemory, record_parts
from quod.msm.gpu.pending import PendingMsm, record_buckets, record_result
from quod.msm.gpu.plan import largest_batch, plan_gpu_msm, with_batch
from quod.msm.gpu.record import Scalars
from quod.msm.gpu.workspace import Arrays, Carver, Workspace, workspace_bytes
from quod.msm.options import MsmOptions

Array = np.ndarray[Any, Any]

# The share of the memory budget that bases and their multiples take unless told otherwise.
_BASE_SHARE = 4

_SCALAR_BYTES = 4 * SCALAR_WORDS


def _form(
    device: AnyDevice, group: Group, points: Array, options: MsmOptions
) -> tuple[Form, str]:  # fmt: skip
    """The form for some bases, and why."""
    if edwards_form(group) is None:
        return "weierstrass", f"{group.name} has no other form"
    if options.precompute_factor == 1:
        return "weierstrass", "the bases have no multiples, and are not checked for another form"
    outside = np.flatnonzero(~is_in_subgroup(device, group, points))
    if len(outside):
        return "weierstrass", f"base {outside[0]} is not in the subgroup of prime order"
    return "edwards", "all bases are in the subgroup of prime order"


class ResidentMsm:
    """Bases in device memory, and the recording of MSMs over them.

    `points` is a host array of affine points in Montgomery form, shape (n, *group.shape), uint32;
    they are not checked to be on the curve. As many multiples are kept as make MSMs fastest within
    `base_budget` bytes, by default a quarter of the device's memory budget; `options` may say
    otherwise. Bases of a curve with a twisted Edwards form are held in that, unless they are to
    have no multiples (a precompute factor of 1), or some are outside the subgroup of prime order,
    where its additions are not complete: `form_reason` says what was chosen and why.

    Raises InputError for arrays of other shapes, DeviceError if the bases do not fit.
    """

    def __init__(
        self,
        device: AnyDevice,
        group: Group,
        points: Array,
        options: MsmOptions | None = None,
        *,
        base_budget: int | None = None,
    ) -> None:
        check_points_array(group, points, "bases")
        if len(points) >= 1 << 31:
            raise InputError("an MSM takes fewer than 2**31 bases")
        self.device = device
        self.group = group
        self.options = options or MsmOptions()
        self._count = len(points)
        budget = device.memory_budget // _BASE_SHARE if base_budget is None else base_budget
        form, self.form_reason = _form(device, group, points, self.options)
        self._plan = plan_gpu_msm(
            group, self._count, self.options, resident_lanes=device.resident_lanes,
            base_budget=budget, form=form,
        )  # fmt: skip
        if self._count:
            self.bases = precompute.multiples(device, group, points, self._plan)
            total = self._count * self._plan.copies
            self.marks = find_marks(device, total, self._plan.base_words, self.bases)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Device memory of the bases, their multiples and marks."""
        if not self._count:
            return 0
        return self.bases.nbytes + (self.marks.nbytes if self.marks else 0)

    def plan(
        self, count: int | None = None, batch: int = 1, options: MsmOptions | None = None
    ) -> GpuMsmPlan:
        """The plan of MSMs of `count` scalars, by default one a base, `batch` of them together.

        The plan's batch may be smaller. Other options than those of the bases may do without the
        multiples. InputError for more scalars than bases, or options that do not fit the bases.
        """
        count = self._count if count is None else count
        if count > self._count:
            raise InputError(f"{count} scalars have only {self._count} bases")
        lanes = self.device.resident_lanes
        if options is None or options == self.options:
            plan = with_batch(self._plan, count, 1, lanes)
            size = self.options.batch_size
        else:
            plan, size = self._other_plan(count, options), options.batch_size
        batch = largest_batch(plan, min(batch, size or batch))
        return with_batch(plan, count, batch, lanes)

    def _other_plan(self, count: int, options: MsmOptions) -> GpuMsmPlan:
        if (self.options.precompute_factor or 1) > 1:
            raise InputError(
                "bases with precomputed multiples keep the options that they were made with"
            )
        if (options.precompute_factor or 1) > 1:
            raise InputError("precompute_factor is a matter of MsmBases: give it these options")
        if options.window_bits in (None, self._plan.window_bits):
            # The digits are the same, and the highest of them zero.
            narrower = plan_gpu_msm(
                self.group, count, replace(options, window_bits=self._plan.window_bits),
                resident_lanes=self.device.resident_lanes, base_budget=1 << 62,
            )  # fmt: skip
            return replace(self._plan, count=max(1, count), maximum=narrower.maximum)
        return plan_gpu_msm(
            self.group, count, replace(options, precompute_factor=1),
            resident_lanes=self.device.resident_lanes, base_budget=1 << 62, form=self._plan.form,
        )  # fmt: skip

    def workspace_bytes(self, plan: GpuMsmPlan | None = None) -> int:
        """The workspace that an MSM of the plan needs; by default one of a scalar for each base."""
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
    ) -> PendingMsm:
        """Records an MSM, by default one of a scalar for each base.

        `scalars` are canonical integers in device memory, eight u32 each; vectors of a batch begin
        `stride` scalars apart, by default the plan's count. With `indices`, a u32 each, base i
        takes scalar indices[i] of its vector. The results are there once the recording was
        submitted and waited for.
        """
        if not self._count:
            raise InputError("there is nothing to record for an MSM over no bases")
        plan = plan or self.plan()
        count = plan.count
        stride = count if stride is None else stride
        needed = _SCALAR_BYTES * ((plan.batch - 1) * stride + (0 if indices else count))
        if scalars.nbytes < needed:
            raise DeviceError(
                f"{plan.batch} x {count} scalars take {needed} bytes, not {scalars.nbytes}"
            )
        if indices is not None and indices.nbytes != 4 * count:
            raise DeviceError(f"{count} indices take {4 * count} bytes, not {indices.nbytes}")
        source = Scalars(scalars, stride, self._count, 0, indices, self.marks)
        arrays = Arrays.of(self.device, plan, Carver(workspace.buffer))
        record_buckets(recording, self.device, plan, source, self.bases, arrays)
        return record_result(recording, self.device, plan, arrays, stride)

    def record_in_parts(
        self,
        recording: RecordingStream,
        scalars: Array,
        parts: Sequence[int],
        plan: GpuMsmPlan,
        room: Buffer,
        memory: PartMemory,
    ) -> PendingMsm:
        """Records an MSM whose scalars come from the host while it works on those before.

        `scalars` has shape (n, 8) and should be page-locked; `parts` are the sizes of the parts,
        `plan` is for the largest of them, `room` holds all scalars on the device.
        """

        def uploaded() -> Iterator[Part]:
            start = 0
            for size in parts:
                stop = start + size
                words = room.slice(_SCALAR_BYTES * start, _SCALAR_BYTES * stop)
                recording.upload(scalars[start:stop], words, label="upload scalars")
                own = Scalars(words, size, self._count, start, None, self.marks)
                yield Part(size, own, self.bases)
                start = stop

        return record_parts(recording, self.device, plan, uploaded(), memory)
