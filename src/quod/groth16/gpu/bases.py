"""The five MSMs of a proof on a GPU: how much memory each may take, and which run side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import Point, to_points
from quod.curve.groups import Group
from quod.device.buffer import Buffer
from quod.device.memory import bytes_text
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.errors import DeviceError
from quod.field.array import Words
from quod.msm.gpu import precompute
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.plan import plan_gpu_msm
from quod.msm.gpu.resident import PendingMsm, ResidentMsm
from quod.msm.gpu.workspace import Workspace, workspace_bytes
from quod.msm.options import MsmOptions

# Bases are kept without their points at infinity where so many are left out.
_WORTH_GATHERING = 0.1

# Multiples of each base to try to keep, and workspaces to try to have: the best first. Two MSMs at
# a time fill the gaps of one another; more gain where all of them are small.
_MULTIPLES = (None, 8, 6, 4, 3, 2, 1)
_WORKSPACES = (5, 2, 1)


@dataclass(frozen=True, eq=False)
class FiniteBases:
    """The bases of one MSM that are worth keeping, and the scalars that they belong to.

    Base i belongs to scalar first + i, or indices[i], of a vector.
    """

    name: str
    group: Group
    points: Words
    first: int
    indices: NDArray[np.uint32] | None

    @classmethod
    def of(cls, name: str, group: Group, points: Words, first: int = 0) -> FiniteBases:
        # Points may begin at an odd place of the file.
        points = np.require(points, requirements=("C", "A"))
        there = points.reshape(len(points), -1).any(axis=1)
        finite = np.flatnonzero(there)
        if len(finite) >= (1 - _WORTH_GATHERING) * len(points):
            return cls(name, group, points, first, None)
        return cls(name, group, points[finite], 0, (finite + first).astype(np.uint32))


@dataclass(frozen=True)
class MsmMemory:
    """What a key's MSMs take: how many multiples are kept of each base, and the workspaces."""

    multiples: int | None
    workspaces: tuple[int, ...]
    base_bytes: int
    passing_bytes: int

    @property
    def nbytes(self) -> int:
        """All of it, with what making the multiples takes while the key is opened."""
        return self.base_bytes + max(sum(self.workspaces), self.passing_bytes)


def fitting_memory(device: AnyDevice, parts: Sequence[FiniteBases], budget: int) -> MsmMemory:
    """The fastest choice within `budget` bytes; DeviceError if there is none, with what is needed.

    Multiples of the bases are given up first, then workspaces of their own.
    """
    choices = [
        _memory(device, parts, multiples, count)
        for count in _WORKSPACES
        for multiples in _MULTIPLES
    ]
    for choice in choices:
        if choice.nbytes <= budget:
            return choice
    least = min(choice.nbytes for choice in choices)
    raise DeviceError(
        f"the MSMs of a proof with this key need {bytes_text(least)} of device memory, and "
        f"{bytes_text(max(0, budget))} are left for them; prove on a device with more memory, or "
        "with --device cpu"
    )


def _memory(
    device: AnyDevice, parts: Sequence[FiniteBases], multiples: int | None, count: int
) -> MsmMemory:
    plans = [_plan(device, part, multiples) for part in parts]
    sizes = sorted((workspace_bytes(device, plan) for plan in plans), reverse=True)
    bases = sum(
        plan.copies * len(part.points) * (8 * plan.base_words + 1)
        + (0 if part.indices is None else part.indices.nbytes)
        for plan, part in zip(plans, parts)
    )
    passing = max(precompute.scratch_bytes(part.group, len(part.points)) for part in parts)
    # MSMs take turns on the workspaces, so that all of few must do for any.
    kept = sizes if count >= len(sizes) else sizes[:1] * count
    return MsmMemory(multiples, tuple(kept), bases, passing)


def _plan(device: AnyDevice, part: FiniteBases, multiples: int | None) -> GpuMsmPlan:
    return plan_gpu_msm(
        part.group,
        len(part.points),
        MsmOptions(precompute_factor=multiples),
        resident_lanes=device.resident_lanes,
        base_budget=1 << 62,
    )


class ResidentBases:
    """The bases of one MSM with their multiples in device memory."""

    def __init__(self, device: AnyDevice, part: FiniteBases, multiples: int | None) -> None:
        self.name, self._first = part.name, part.first
        self._msm = ResidentMsm(
            device,
            part.group,
            part.points,
            MsmOptions(precompute_factor=multiples),
            base_budget=1 << 62,
        )
        self._indices = None if part.indices is None else device.upload(part.indices)

    @property
    def workspace_bytes(self) -> int:
        """The size of the workspace that the MSM needs."""
        return self._msm.workspace_bytes()

    def record(
        self, recording: RecordingStream, scalars: Buffer, workspace: Workspace
    ) -> PendingPoint:
        """Records the MSM over scalars of which each base knows its own."""
        size = self._msm.group.scalars.bytes
        own = scalars.slice(self._first * size, scalars.nbytes)
        pending = self._msm.record(recording, own, workspace=workspace, indices=self._indices)
        return PendingPoint(self._msm.group, pending)


@dataclass(frozen=True)
class PendingPoint:
    """The result of an MSM in a recording."""

    group: Group
    pending: PendingMsm

    def finish(self) -> Point:
        """The point, after a submission of the recording."""
        words = self.pending.finish().view(np.uint32).reshape(1, *self.group.shape)
        return to_points(self.group, words)[0]


def make_workspaces(
    device: AnyDevice, memory: MsmMemory, bases: Iterable[ResidentBases]
) -> dict[str, Workspace]:
    """A workspace for each MSM by its name; the largest get theirs first."""
    made = [Workspace(device, nbytes) for nbytes in memory.workspaces]
    order = sorted(bases, key=lambda part: part.workspace_bytes, reverse=True)
    return {part.name: made[place % len(made)] for place, part in enumerate(order)}
