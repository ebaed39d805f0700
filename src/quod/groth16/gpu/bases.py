"""The five MSMs of a proof on a GPU, and their memory.

MSMs with separate workspaces can run concurrently; those that share one run one after the other.
See `quod.groth16.resident.KeyBases` for the bases of an MSM.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from quod.curve.array import to_points
from quod.curve.group import Group
from quod.device.memory.budget import OutOfMemory, bytes_text
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.stream import RecordingStream
from quod.field.array import Words
from quod.frozen import frozen, replace
from quod.groth16.resident import KeyBases
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run import base_multiples
from quod.msm.gpu.run.device_plan import plan_gpu_msm, with_batch
from quod.msm.gpu.run.record_buckets import RecordedMsm, RecordedMsmBatch
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.streamed import StreamedMsm, StreamPlan, plan_streamed
from quod.msm.gpu.run.workspace import Workspace, workspace_bytes
from quod.msm.options import MsmOptions
from quod.msm.scalars import SCALAR_BYTES

# The numbers of multiples per base and of workspaces to try, the best first.
_MULTIPLES = (None, 8, 6, 4, 3, 2, 1)
_WORKSPACES = (5, 2, 1)

# `MsmMemory.fitting` chooses the number of multiples within the budget, so the planner of an MSM
# gets no bound on the bytes of its bases.
_NO_LIMIT = 1 << 62


@frozen
class MsmMemory:
    """The device memory of a key's MSMs.

    multiples: the number of precomputed multiples per base; None for as many as save time.
    affine: whether workspaces have the scratch memory of affine sums; see `GpuMsmPlan`.
    workspaces: sizes of the workspaces in bytes.
    base_bytes: bytes of the resident bases.
    upload_bytes: additional bytes that are in use only while the bases are uploaded.
    streamed: plans of the MSMs whose bases stay in host memory.
    """

    multiples: int | None
    affine: bool
    workspaces: tuple[int, ...]
    base_bytes: int
    upload_bytes: int
    streamed: dict[str, StreamPlan]

    @classmethod
    def fitting(
        cls,
        device: AnyDevice,
        key_bases: Sequence[KeyBases],
        budget: int,
        *,
        workspaces: Sequence[int] = _WORKSPACES,
        multiples: Sequence[int | None] | None = None,
        lanes: int = 1,
    ) -> MsmMemory:
        """Choose the fastest layout within `budget` bytes.

        workspaces: the numbers of workspaces per lane to try.
        multiples: the numbers of multiples per base to try (None: as many as save time).
        lanes: the number of concurrent proofs.

        If the best layout does not fit, no affine sums are tried first, then fewer multiples, then
        fewer workspaces, then streamed bases. Raises OutOfMemory, with the bytes needed, if no
        layout fits.
        """
        resident = (
            cls._resident(device, key_bases, multiples_per_base, workspace_count, affine)
            for workspace_count in workspaces
            for multiples_per_base in multiples or _MULTIPLES
            for affine in (True, False)
        )
        nonempty = [bases for bases in key_bases if len(bases.points)]
        by_size = sorted(nonempty, key=lambda bases: bases.used_points.nbytes, reverse=True)
        streamed = (
            cls._streamed(device, by_size[:count], by_size[count:], budget)
            for count in range(1, len(nonempty) + 1)
        )
        min_bytes = _NO_LIMIT
        for choices in (resident, streamed):
            for choice in choices:
                # With streamed bases there is a single lane.
                lane_workspaces = 0 if choice.streamed else (lanes - 1) * sum(choice.workspaces)
                needed_bytes = choice.nbytes(device) + lane_workspaces
                if needed_bytes <= budget:
                    return choice
                min_bytes = min(min_bytes, needed_bytes)
        raise OutOfMemory(
            f"the MSMs of a proof with this key need {bytes_text(min_bytes)} of device "
            f"memory, and {bytes_text(max(0, budget))} are available for them",
            "prove on a device with more memory, or with --device cpu",
        )

    @classmethod
    def _resident(
        cls,
        device: AnyDevice,
        key_bases: Sequence[KeyBases],
        multiples: int | None,
        workspace_count: int,
        affine: bool,
    ) -> MsmMemory:
        """Return the layout with all bases resident and `workspace_count` workspaces."""
        plans = [_plan(device, bases, multiples, affine) for bases in key_bases]
        sizes = sorted((workspace_bytes(device, plan) for plan in plans), reverse=True)
        # A base takes 64-bit words, and a byte that tells whether it is the point at infinity.
        base_bytes = sum(
            plan.copies * len(bases.used_points) * (8 * plan.base_words + 1)
            + (0 if bases.indices is None else bases.indices.nbytes)
            for plan, bases in zip(plans, key_bases)
        )
        upload_bytes = max(
            (
                base_multiples.scratch_bytes(plan, len(bases.used_points))
                for plan, bases in zip(plans, key_bases)
            ),
            default=0,
        )
        return cls(
            multiples, affine, tuple(_workspace_sizes(sizes, workspace_count)), base_bytes,
            upload_bytes, {},
        )  # fmt: skip

    @classmethod
    def _streamed(
        cls,
        device: AnyDevice,
        streamed: Sequence[KeyBases],
        resident: Sequence[KeyBases],
        budget: int,
    ) -> MsmMemory:
        """Return the layout that streams some bases.

        The streamed MSMs share the bytes that the resident ones leave of the budget equally."""
        resident_memory = cls._resident(device, resident, 1, 1, affine=False)
        budget_per_msm = (budget - resident_memory.nbytes(device)) // len(streamed)
        plans = {
            bases.name: plan_streamed(
                device, bases.group, len(bases.points), MsmOptions(), budget_per_msm
            )
            for bases in streamed
        }
        return cls(
            1,
            resident_memory.affine,
            resident_memory.workspaces,
            resident_memory.base_bytes,
            resident_memory.upload_bytes,
            plans,
        )

    def batch_workspaces(
        self, device: AnyDevice, key_bases: Sequence[KeyBases], batches: Sequence[int]
    ) -> dict[int, int]:
        """Return, for each batch size, the workspace bytes for batches of up to that size.

        batches: batch sizes in ascending order. See `KeyMsms.workspace_sizes`.
        """
        nonempty_bases = [bases for bases in key_bases if len(bases.used_points)]
        plans = [_plan(device, bases, self.multiples, self.affine) for bases in nonempty_bases]
        max_bytes_by_msm, by_batch = [0] * len(plans), {}
        for batch in batches:
            for index, (bases, plan) in enumerate(zip(nonempty_bases, plans, strict=True)):
                plan_bytes = workspace_bytes(
                    device, with_batch(plan, len(bases.used_points), batch)
                )
                max_bytes_by_msm[index] = max(max_bytes_by_msm[index], plan_bytes)
            by_batch[batch] = sum(
                _workspace_sizes(sorted(max_bytes_by_msm, reverse=True), len(self.workspaces))
            )
        return by_batch

    def nbytes(self, device: AnyDevice) -> int:
        """Return the total bytes of device memory."""
        streamed = sum(plan.peak_bytes(device) for plan in self.streamed.values())
        return self.base_bytes + max(sum(self.workspaces), self.upload_bytes) + streamed


def _workspace_sizes(sizes: Sequence[int], count: int) -> list[int]:
    """Return the sizes of `count` workspaces for MSMs with the given sizes, largest first.

    If there are fewer workspaces than MSMs, each has the largest size, because the MSMs are
    distributed over the workspaces later.
    """
    return list(sizes) if count >= len(sizes) else [*sizes[:1]] * count


def _plan(
    device: AnyDevice, bases: KeyBases, multiples: int | None, affine: bool
) -> GpuMsmPlan:  # fmt: skip
    plan = plan_gpu_msm(
        bases.group,
        len(bases.used_points),
        MsmOptions(precompute_factor=multiples),
        limits=DeviceLimits.of(device),
        base_budget=_NO_LIMIT,
    )
    return replace(plan, affine=affine)


class KeyMsms:
    """The bases and workspaces of all MSMs of a proof.

    deferred: leave the bases to `loading`. MSMs may be recorded, but not run, before `load`
        has returned. This takes `memory.upload_bytes` beside the workspaces.
    """

    def __init__(
        self, device: AnyDevice, key_bases: Sequence[KeyBases], memory: MsmMemory, *,
        deferred: bool = False,
    ) -> None:  # fmt: skip
        options = MsmOptions(precompute_factor=memory.multiples)
        self._key_bases = key_bases
        self._streamed = {
            bases.name: (
                StreamedMsm(device, bases.group, bases.points),
                memory.streamed[bases.name],
            )
            for bases in key_bases
            if bases.name in memory.streamed
        }
        self._resident = {
            bases.name: ResidentMsm(
                device, bases.group, bases.used_points, options, base_budget=_NO_LIMIT,
                deferred=deferred, affine=memory.affine,
            )
            for bases in key_bases
            if bases.name not in memory.streamed and len(bases.used_points)
        }  # fmt: skip
        # One after the other, as `memory` has scratch memory for one.
        self._loader = Background("quod-bases", 1)
        self._deferred = list(self._resident.values()) if deferred else []
        self._loads: list[Outcome[bool]] = []
        self._indices = {
            bases.name: device.upload(bases.indices)
            for bases in key_bases
            if bases.name in self._resident and bases.indices is not None
        }
        self._device, self._sizes = device, memory.workspaces
        self._workspaces = self._make_workspaces(self._sizes, (1,))

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Begin to compute deferred bases on another thread, for `load`.

        If the body fails, the bases of further MSMs are not computed.
        """
        try:
            self._loads = [self._loader.begin(msm.load) for msm in self._deferred]
            yield
        except BaseException:
            self._loader.close()
            raise

    def load(self) -> bool:
        """Wait until all bases are computed; return whether one of them is infinite.

        If so, MSMs that were recorded before must be recorded again.
        """
        try:
            have_infinite_bases = [load.result() for load in self._loads]
        finally:
            self._loader.close()
        return any(have_infinite_bases)

    def _make_workspaces(
        self, sizes: Sequence[int], batches: Sequence[int]
    ) -> dict[str, Workspace]:  # fmt: skip
        workspaces = [Workspace(self._device, nbytes) for nbytes in sizes]
        # MSMs in descending order of size take the workspaces in turn. If there is a workspace for
        # each MSM, each gets the one made for its size; otherwise all workspaces have one size.
        bytes_by_msm = self._bytes_by_msm(batches)
        order = sorted(bytes_by_msm, key=bytes_by_msm.__getitem__, reverse=True)
        return {name: workspaces[index % len(workspaces)] for index, name in enumerate(order)}

    def _bytes_by_msm(self, batches: Sequence[int]) -> dict[str, int]:
        """Return the most workspace bytes of each MSM for any of `batches`, by name."""
        return {
            name: max(msm.workspace_bytes(msm.plan(batch=batch)) for batch in batches)
            for name, msm in self._resident.items()
        }

    def sibling(self, batches: Sequence[int] = (1,)) -> KeyMsms:
        """Return MSMs over the same bases with separate workspaces for any of the `batches`."""
        msms = copy.copy(self)
        sizes = self._sizes if batches == (1,) else self.workspace_sizes(batches)
        msms._workspaces = self._make_workspaces(sizes, batches)
        return msms

    def workspace_sizes(self, batches: Sequence[int]) -> list[int]:
        """Return the sizes of a lane's workspaces for any of the `batches`, in bytes."""
        return _workspace_sizes(
            sorted(self._bytes_by_msm(batches).values(), reverse=True), len(self._sizes)
        )

    def largest_batch(self, wanted: int) -> int:
        """Return the largest batch, up to `wanted`, that every MSM can compute.

        That is 1 if bases are streamed.
        """
        if self._streamed:
            return 1
        return min((msm.plan(batch=wanted).batch for msm in self._resident.values()), default=1)

    def group(self, name: str) -> Group:
        """Return the group of an MSM."""
        return self._bases(name).group

    def has_own_workspace(self, name: str) -> bool:
        """True if the MSM shares its workspace with no other MSM."""
        workspace = self._workspaces.get(name)
        return sum(other is workspace for other in self._workspaces.values()) <= 1

    def is_resident(self, name: str) -> bool:
        """True if the MSM has bases other than infinity, and they are in device memory."""
        return name in self._resident

    def blocks(self) -> Iterator[tuple[Group, Words, Buffer]]:
        """Yield the points of each buffer of resident bases, with their group and the buffer."""
        for name, resident in self._resident.items():
            bases = self._bases(name)
            for block in resident.blocks:
                points = bases.used_points[block.start : block.start + block.count]
                yield bases.group, points, block.memory

    def plan(self, name: str) -> GpuMsmPlan:
        """Return the plan of a resident MSM."""
        return self._resident[name].plan()

    def record_to_lines(
        self, recording: RecordingStream, name: str, scalars: Buffer, lines: Buffer, flag: Buffer
    ) -> None:
        """Record a resident MSM up to its lines; see `ResidentMsm.record_to_lines`.

        flag: 16 bytes; the first word is set to 0 if all scalars are below the group's order, and
            to another value if not.
        """
        bases = self._bases(name)
        indices = self._indices.get(name)
        with recording.part(f"MSM {name}"):
            self._resident[name].record_to_lines(
                recording, scalars if indices is not None else self._scalars_of(bases, scalars),
                lines, flag, workspace=self._workspaces[name], indices=indices,
            )  # fmt: skip

    def _bases(self, name: str) -> KeyBases:
        return next(bases for bases in self._key_bases if bases.name == name)

    def _scalars_of(self, bases: KeyBases, scalars: Buffer) -> Buffer:
        """Return the scalars from the first base's scalar on."""
        return scalars.slice(bases.first * bases.group.scalars.bytes, scalars.nbytes)

    def record(
        self, recording: RecordingStream, name: str, scalars: Buffer, batch: int = 1
    ) -> RecordedMsm | None:
        """Record an MSM; return None if all bases, and so the results, are infinity.

        scalars: canonical scalars of the whole witness or quotient; for a `batch`, that many such
            vectors, concatenated.
        """
        bases = self._bases(name)
        msm_scalars = self._scalars_of(bases, scalars)
        with recording.part(f"MSM {name}"):
            if name in self._streamed:
                msm, plan = self._streamed[name]
                return msm.record(recording, msm_scalars, plan)
            if name not in self._resident:
                return None
            indices, resident = self._indices.get(name), self._resident[name]
            return resident.record(
                recording,
                scalars if indices is not None else msm_scalars,
                workspace=self._workspaces[name],
                plan=resident.plan(batch=batch),
                indices=indices,
                stride=scalars.nbytes // (batch * SCALAR_BYTES) if batch > 1 else None,
            )


class RecordedPoints:
    """Results of the MSMs of a recording, by name.

    recorded: the MSMs; the result of None is the point at infinity.
    """

    def __init__(self, recorded: Mapping[str, RecordedMsm | None]) -> None:
        self._names = list(recorded)
        # MSMs of one group and form are finished in one batch.
        by_kind: dict[object, dict[str, RecordedMsm]] = {}
        for name, msm in recorded.items():
            if msm is not None:
                by_kind.setdefault(msm.kind, {})[name] = msm
        self._by_kind = [
            (list(msms_of_kind), RecordedMsmBatch(list(msms_of_kind.values())))
            for msms_of_kind in by_kind.values()
        ]

    def reset_results(self) -> None:
        """Prepare for a new submission; call it before each one except the first.

        Overwrites the results of the last submission with a sentinel, so that they are not
        mistaken for new ones; see `RecordedMsm.reset_results`.
        """
        for _, msms in self._by_kind:
            msms.reset_results()

    def finish(self) -> dict[str, Any]:
        """Return the points by name, after a submission of the recording."""
        points: dict[str, Any] = dict.fromkeys(self._names)
        for names, msms in self._by_kind:
            group = msms.group
            words = np.concatenate(msms.finish()).view(np.uint32).reshape(-1, *group.shape)
            points |= zip(names, to_points(group, words))
        return points


class RecordedPointArrays(RecordedPoints):
    """`RecordedPoints` of a batch: `finish` returns an array of points for each name.

    groups: the group of each MSM, by name.
    batch: the number of vectors of scalars, and of points in each array.
    """

    def __init__(
        self, recorded: Mapping[str, RecordedMsm | None], groups: Mapping[str, Group], batch: int
    ) -> None:
        super().__init__(recorded)
        self._shapes = {name: (batch, *groups[name].shape) for name in recorded}

    def finish(self) -> dict[str, Words]:
        arrays: dict[str, Words] = {
            name: np.zeros(shape, np.uint32) for name, shape in self._shapes.items()
        }
        for names, msms in self._by_kind:
            for name, words in zip(names, msms.finish(), strict=True):
                arrays[name] = words.view(np.uint32).reshape(self._shapes[name])
        return arrays
