"""Points of a proof, each of which is the sum of several recorded MSMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quod.curve.array import Point
from quod.curve.group import Group
from quod.curve.weierstrass.affine import affine_group
from quod.groth16.gpu.bases import RecordedPoints
from quod.msm.gpu.run.record_buckets import RecordedMsm


class SummedPoints:
    """`FinishedPoints`, each of which is the sum of MSMs on one or several devices."""

    def __init__(
        self, groups: Mapping[str, Group], recorded: Mapping[str, Sequence[RecordedMsm | None]]
    ) -> None:
        """Collect recorded MSMs by the name of their point; `groups` has each point's group."""
        self._groups, self._names = groups, list(recorded)
        self._points = RecordedPoints(
            {
                f"{name} {device_index}": msm
                for name, by_device in recorded.items()
                for device_index, msm in enumerate(by_device)
            }
        )

    def reset_results(self) -> None:
        """See `RecordedMsm.reset_results`."""
        self._points.reset_results()

    def finish(self) -> dict[str, Point]:
        """See `FinishedPoints`."""
        sums: dict[str, Point] = dict.fromkeys(self._names)
        for label, point in self._points.finish().items():
            name = label.split()[0]
            sums[name] = affine_group(self._groups[name]).add(sums[name], point)
        return sums
