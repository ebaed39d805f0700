"""The five MSMs of a proof on a GPU: how much memory each may take, and which run side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import Point, to_points
from quod.curve.group import Group
from quod.device.buffer import Buffer
from quod.device.memory import bytes_text
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.errors import DeviceError
from quod.field.array import Words
from quod.formats import Zkey
from quod.frozen import frozen
from quod.msm.layout import GpuMsmPlan
from quod.msm.options import MsmOptions
from quod.msm.processor import Processor
from quod.msm.run import base_multiples
from quod.msm.run.device_plan import plan_gpu_msm
from quod.msm.run.recorded import RecordedMsm, RecordedMsms
from quod.msm.run.resident import ResidentMsm
from quod.msm.run.streamed import StreamedMsm, StreamPlan, plan_streamed
from quod.msm.run.workspace import Workspace, workspace_bytes

# Bases are kept without their points at infinity where so many are left out.
_WORTH_GATHERING = 0.1

# Multiples of each base to try to keep, and workspaces to try to have: the best first.
_MULTIPLES = (None, 8, 6, 4, 3, 2, 1)
_WORKSPACES = (5, 2, 1)

# The planner of an MSM is told how many multiples there may be, not how many bytes.
_ANY_BYTES = 1 << 62


@frozen(eq=False)
class KeyBases:
    """The points of one MSM of a proof, of which `finite` are worth keeping.

    Point i belongs to scalar first + i of a vector. Of the finite ones only, where many others are
    left out, point i belongs to scalar indices[i].
    """

    name: str
    group: Group
    points: Words
    first: int
    finite: Words
    indices: NDArray[np.uint32] | None

    @classmethod
    def of(cls, name: str, group: Group, points: Words, first: int = 0) -> KeyBases:
        # Points may begin at an odd place of the file.
        points = np.require(points, requirements=("C", "A"))
        there = np.flatnonzero(points.any(axis=tuple(range(1, points.ndim))))
        if len(there) >= (1 - _WORTH_GATHERING) * len(points):
            return cls(name, group, points, first, points, None)
        indices = (there + first).astype(np.uint32)
        return cls(name, group, points, first, points[there], indices)


def parts_of(zkey: Zkey, g1: Group, g2: Group) -> list[KeyBases]:
    """The five MSMs of a proof."""
    return [
        KeyBases.of("B2", g2, zkey.b_g2),
        KeyBases.of("A", g1, zkey.a),
        KeyBases.of("B1", g1, zkey.b_g1),
        KeyBases.of("C", g1, zkey.c, zkey.public + 1),
        KeyBases.of("H", g1, zkey.h),
    ]


@frozen
class MsmMemory:
    """What the MSMs of a key take in device memory.

    `multiples` are kept of each base (None: as many as pay), and `workspaces` are their sizes.
    `base_bytes` are taken by bases, and `passing_bytes` beside them while they are brought there.
    Those of the MSMs in `streamed` stay with the host.
    """

    multiples: int | None
    workspaces: tuple[int, ...]
    base_bytes: int
    passing_bytes: int
    streamed: dict[str, StreamPlan]

    @classmethod
    def fitting(
        cls,
        device: AnyDevice,
        parts: Sequence[KeyBases],
        budget: int,
        *,
        workspaces: Sequence[int] = _WORKSPACES,
        copies: Sequence[int | None] | None = None,
    ) -> MsmMemory:
        """The fastest choice within `budget` bytes.

        It is made of so many `workspaces`, and `copies` of the bases (None: as many as pay).

        Multiples of the bases are given up first, then workspaces of their own, then room for all
        bases. DeviceError, with what is needed, if all of that is not enough.
        """
        resident = (
            cls._resident(device, parts, multiples, count)
            for count in workspaces
            for multiples in copies or _MULTIPLES
        )
        parts = [part for part in parts if len(part.points)]
        largest_first = sorted(parts, key=lambda part: part.finite.nbytes, reverse=True)
        streamed = (
            cls._streamed(device, largest_first[:count], largest_first[count:], budget)
            for count in range(1, len(parts) + 1)
        )
        least = _ANY_BYTES
        for choices in (resident, streamed):
            for choice in choices:
                if choice.nbytes(device) <= budget:
                    return choice
                least = min(least, choice.nbytes(device))
        raise DeviceError(
            f"the MSMs of a proof with this key need {bytes_text(least)} of device memory, and "
            f"{bytes_text(max(0, budget))} are left for them; prove on a device with more memory, "
            "or with --device cpu"
        )

    @classmethod
    def _resident(
        cls, device: AnyDevice, parts: Sequence[KeyBases], multiples: int | None, count: int
    ) -> MsmMemory:
        plans = [_plan(device, part, multiples) for part in parts]
        sizes = sorted((workspace_bytes(device, plan) for plan in plans), reverse=True)
        bases = sum(
            plan.copies * len(part.finite) * (8 * plan.base_words + 1)
            + (0 if part.indices is None else part.indices.nbytes)
            for plan, part in zip(plans, parts)
        )
        passing = max(
            (
                base_multiples.scratch_bytes(plan, len(part.finite))
                for plan, part in zip(plans, parts)
            ),
            default=0,
        )
        # MSMs take turns on the workspaces, so that each of few must do for any.
        kept = sizes if count >= len(sizes) else sizes[:1] * count
        return cls(multiples, tuple(kept), bases, passing, {})

    @classmethod
    def _streamed(
        cls,
        device: AnyDevice,
        streamed: Sequence[KeyBases],
        resident: Sequence[KeyBases],
        budget: int,
    ) -> MsmMemory:
        rest = cls._resident(device, resident, 1, 1)
        each = (budget - rest.nbytes(device)) // len(streamed)
        plans = {
            part.name: plan_streamed(device, part.group, len(part.points), MsmOptions(), each)
            for part in streamed
        }
        return cls(1, rest.workspaces, rest.base_bytes, rest.passing_bytes, plans)

    def nbytes(self, device: AnyDevice) -> int:
        """All of it."""
        streamed = sum(plan.peak_bytes(device) for plan in self.streamed.values())
        return self.base_bytes + max(sum(self.workspaces), self.passing_bytes) + streamed


def _plan(device: AnyDevice, part: KeyBases, multiples: int | None) -> GpuMsmPlan:
    return plan_gpu_msm(
        part.group,
        len(part.finite),
        MsmOptions(precompute_factor=multiples),
        processor=Processor.of(device),
        base_budget=_ANY_BYTES,
    )


class GpuBases:
    """The bases of all MSMs of a proof, with what the MSMs work in."""

    def __init__(self, device: AnyDevice, parts: Sequence[KeyBases], memory: MsmMemory) -> None:
        options = MsmOptions(precompute_factor=memory.multiples)
        self._parts = parts
        self._streamed = {
            part.name: (StreamedMsm(device, part.group, part.points), memory.streamed[part.name])
            for part in parts
            if part.name in memory.streamed
        }
        self._resident = {
            part.name: ResidentMsm(device, part.group, part.finite, options, base_budget=_ANY_BYTES)
            for part in parts
            if part.name not in memory.streamed and len(part.finite)
        }
        self._indices = {
            part.name: device.upload(part.indices)
            for part in parts
            if part.name in self._resident and part.indices is not None
        }
        made = [Workspace(device, nbytes) for nbytes in memory.workspaces]
        # The largest MSM gets the largest workspace, and the one that it shares with fewest.
        order = sorted(
            self._resident, key=lambda name: self._resident[name].workspace_bytes(), reverse=True
        )
        self._workspaces = {name: made[place % len(made)] for place, name in enumerate(order)}

    def is_apart(self, name: str) -> bool:
        """Whether one of the MSMs shares no memory with the others that they write to."""
        workspace = self._workspaces.get(name)
        return sum(other is workspace for other in self._workspaces.values()) <= 1

    def has(self, name: str) -> bool:
        """Whether any base of an MSM is finite, and resident."""
        return name in self._resident

    def record_finished(
        self, recording: RecordingStream, name: str, scalars: Buffer, out: Buffer, flag: Buffer
    ) -> None:
        """Records one of the resident MSMs to its end on the device.

        `out` becomes an affine point; the first word of `flag`, of 16 bytes, is 0 if all scalars
        are below the group's order.
        """
        part = self._part(name)
        indices = self._indices.get(name)
        with recording.part(f"MSM {name}"):
            self._resident[name].record_finished(
                recording, scalars if indices is not None else self._own(part, scalars), out, flag,
                workspace=self._workspaces[name], indices=indices,
            )  # fmt: skip

    def _part(self, name: str) -> KeyBases:
        return next(part for part in self._parts if part.name == name)

    def _own(self, part: KeyBases, scalars: Buffer) -> Buffer:
        """The scalars from those of the first base on."""
        return scalars.slice(part.first * part.group.scalars.bytes, scalars.nbytes)

    def record(self, recording: RecordingStream, name: str, scalars: Buffer) -> RecordedMsm | None:
        """Records one of the MSMs; `scalars` are all that there are, canonical.

        None if no base is finite: the result is infinity then.
        """
        part = self._part(name)
        own = self._own(part, scalars)
        with recording.part(f"MSM {name}"):
            if name in self._streamed:
                msm, plan = self._streamed[name]
                return msm.record(recording, own, plan)
            if name not in self._resident:
                return None
            indices = self._indices.get(name)
            return self._resident[name].record(
                recording,
                scalars if indices is not None else own,
                workspace=self._workspaces[name],
                indices=indices,
            )


class PendingPoints:
    """Results of MSMs in a recording, by name; infinity for those that have no `RecordedMsm`."""

    def __init__(self, pending: Mapping[str, RecordedMsm | None]) -> None:
        self._names = list(pending)
        kinds: dict[object, dict[str, RecordedMsm]] = {}
        for name, own in pending.items():
            if own is not None:
                kinds.setdefault(own.kind, {})[name] = own
        self._together = [(list(own), RecordedMsms(list(own.values()))) for own in kinds.values()]

    def expect(self) -> None:
        """See `RecordedMsm.expect`."""
        for _, pending in self._together:
            pending.expect()

    def finish(self) -> dict[str, Point]:
        """The points, after a submission of the recording."""
        points: dict[str, Point] = dict.fromkeys(self._names)
        for names, pending in self._together:
            group = pending.group
            words = np.concatenate(pending.finish()).view(np.uint32).reshape(-1, *group.shape)
            points |= zip(names, to_points(group, words))
        return points
