"""The bases of MSMs, which stay with a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.group import Group
from quod.curve.operations import is_finite
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import HostDevice, in_host_memory
from quod.device.written import check_written, mark
from quod.errors import InputError
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan, in_batches, plan_msm
from quod.msm.precompute import double_repeatedly
from quod.msm.sort.scalars import SCALAR_BYTES, check_bases, check_count
from quod.validation import instance, whole_number

if TYPE_CHECKING:
    from quod.msm.run.sessions import GpuBases

Array = np.ndarray[Any, Any]


class MsmBases:
    """Bases that stay with a device for many MSMs.

    `points` is a host array of affine points in Montgomery form, shape (n, *group.shape), dtype
    uint32; on a CPU it is used in place and must not change. Points are not checked to be on the
    curve.

    With a `precompute_factor` above 1 in `options`, multiples of the bases are computed now. They
    fit one width of windows, so these options then hold for every MSM over the bases. On a GPU
    multiples are computed unless the factor is 1, and the bases are copied there (see
    `MsmOptions`). DeviceError if they do not fit.
    """

    def __init__(
        self, device: DeviceChoice, group: Group, points: Array, options: MsmOptions | None = None
    ) -> None:
        device = resolve_device(device)
        check_bases(group, points)
        check_options(options)
        self.device = device
        self.group = group
        self.options = options or MsmOptions()
        self._count = len(points)
        self.on_cpu: CpuBases | None = None
        self.on_gpu: GpuBases | None = None
        if in_host_memory(device):
            self.on_cpu = CpuBases(device, group, points, self.options)
        elif self._count:
            # A process that only uses the CPU does not pay for the kernels of GPUs.
            from quod.field.calibration import calibrate
            from quod.msm.run.sessions import GpuBases

            calibrate(device)
            self.on_gpu = GpuBases(device, group, points, self.options)

    def __len__(self) -> int:
        return self._count

    def scalar_room(self, count: int, options: MsmOptions | None = None) -> Array:
        """Host memory, shape (count, 8), for scalars that MSMs take from where they are.

        On a GPU it is page-locked, and scalars from elsewhere are copied there first. It belongs to
        MSMs of so many scalars with these options, until others came between; DeviceError if such
        an MSM does not fit the device.
        """
        count = whole_number("count", count, 0)
        check_options(options)
        if self.on_gpu is None or not count:
            return np.zeros((count, SCALAR_BYTES // 4), np.uint32)
        check_count(count, self._count)
        room: Array = self.on_gpu.session(count, 1, options).scalars[0]
        return room

    @property
    def nbytes(self) -> int:
        """The device's memory that the bases and their multiples take."""
        kept = self.on_cpu or self.on_gpu
        return 0 if kept is None else kept.nbytes


def check_options(options: object) -> None:
    """InputError for what is neither None nor `MsmOptions`."""
    if options is not None:
        instance("options", options, MsmOptions, "make them, or leave them out")


class CpuBases:
    """The bases of `MsmBases` on a CPU: the array of the caller, or one of all multiples.

    infinite[i] is 1 where base i is infinity.
    """

    def __init__(
        self, device: HostDevice, group: Group, points: Array, options: MsmOptions
    ) -> None:  # fmt: skip
        self.device = device
        self.group = group
        self.options = options
        self.points = np.require(points, requirements=("C", "A"))
        self._count = len(points)
        self.infinite: Array = (~is_finite(device, group, self.points)).view(np.uint8)
        self.has_infinite = bool(self.infinite.any())
        self._fixed: MsmPlan | None = None
        if (options.precompute_factor or 1) > 1 and self._count:
            self._fixed = plan_msm(group, self._count, options)
            self._precompute(self._fixed)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory of the bases and their multiples."""
        return int(self.points.nbytes)

    def plan(self, count: int, options: MsmOptions | None, batch: int = 1) -> MsmPlan:
        """The plan of an MSM, or a batch of them, of `count` scalars over these bases.

        InputError for options that do not fit the multiples computed beforehand.
        """
        if self._fixed is not None:
            if options is not None and options != self.options:
                raise InputError(
                    "bases with precomputed multiples keep the options that they were made with"
                )
            fixed = self._fixed
            plan = MsmPlan(
                fixed.group, count, fixed.window_bits, fixed.windows, fixed.copies, fixed.maximum
            )
            return in_batches(plan, batch, self.options.batch_size)
        chosen = self.options if options is None else options
        if (chosen.precompute_factor or 1) > 1:
            raise InputError("precompute_factor is a matter of MsmBases: give it these options")
        return plan_msm(self.group, count, chosen, batch)

    def _precompute(self, plan: MsmPlan) -> None:
        device, count = self.device, self._count
        device.check_budget(
            f"precompute_factor {self.options.precompute_factor} for {count} bases of "
            f"{self.group.name}",
            plan.copies * self.points.nbytes, items=plan.copies, unit="multiples of each",
        )  # fmt: skip
        multiples = np.empty((plan.copies * count, *self.group.shape), np.uint32)
        mark(multiples[-1])
        multiples[:count] = self.points
        kernel = device.compile(double_repeatedly, group=self.group)
        device.launch(
            kernel, -(-count // device.lanes), count, plan.copies, plan.windows * plan.window_bits,
            multiples,
        )  # fmt: skip
        check_written(device, "multiples of bases", multiples[-1])
        self.points = multiples
