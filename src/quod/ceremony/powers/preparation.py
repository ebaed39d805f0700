"""Preparation for the second phase: computation of the Lagrange bases of all domains.

snarkjs calls it `powersoftau prepare phase2`. It involves no secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from quod.ceremony.powers.ptau_layout import CONTRIBUTIONS, LAGRANGE, SECTIONS, PtauWriter
from quod.device.cache import sources
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError
from quod.formats.ptau import PowersOfTau
from quod.formats.resumable import Inputs, Parts, write_resumably
from quod.formats.source import Path
from quod.ntt.points import LagrangeLevels


def prepare(
    source: Path,
    target: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    replace: bool = False,
) -> None:
    """Write `source` with its Lagrange bases to `target`, byte for byte as snarkjs does.

    resume: whether to continue an interrupted run from partial files next to `target`.
    report: gets a line if a run is continued.

    Raises InputError for a file that is damaged, is prepared already, or has points that are
    infinity or not on the curve; DeviceError if the device has too little memory for the largest
    transform; and OutputError for an existing target, unless `replace` is set.
    """
    timeline, resolved_device = or_null(timeline), resolve_device(device)
    file = PowersOfTau.open(source)
    if file.prepared:
        raise InputError(
            "is already prepared for the second phase; use it as it is", path=file.path
        )
    curve, power = file.curve_parameters, file.power
    # Check the memory before anything is written.
    for lagrange in LAGRANGE:
        LagrangeLevels.check_memory(
            resolved_device, lagrange.of.group(curve), lagrange.levels(power)
        )

    def write(parts: Parts) -> None:
        writer = PtauWriter(parts.file, curve, 2 + len(SECTIONS) + len(LAGRANGE))
        for identifier in (1, *(section.id for section in SECTIONS), CONTRIBUTIONS):
            writer.copy(file, identifier)
        for lagrange in LAGRANGE:
            writer.reserve(lagrange.id, lagrange.nbytes(curve, power))
        # The sections in G1 share a transform; the first of them has the largest level.
        levels: dict[int, LagrangeLevels] = {}
        for lagrange in LAGRANGE:
            group, max_level = lagrange.of.group(curve), lagrange.levels(power)
            size = 8 * group.point_words
            ranges = {
                level: (writer.file_offset(lagrange.id, ((1 << level) - 1) * size), size << level)
                for level in range(max_level + 1)
            }
            missing_levels = {
                level for level, byte_range in ranges.items() if not parts.is_done(*byte_range)
            }
            with timeline.stage(lagrange.name) as stage:
                if not missing_levels:
                    continue
                points = lagrange.of.checked(
                    resolved_device, file, 0, lagrange.of.count(power), subgroup=False
                )
                if lagrange.of.degree not in levels:
                    levels[lagrange.of.degree] = LagrangeLevels(resolved_device, group, max_level)
                for level, level_points in levels[lagrange.of.degree].run(
                    points, max_level, missing_levels
                ):
                    writer.write_at(lagrange.id, ((1 << level) - 1) * size, level_points)
                    parts.finish(*ranges[level])
                    stage.progress(max_level + 1 - level, max_level + 1)
        file.file.check_unchanged()

    def identity() -> str:
        return f"prepare {sources.digest()} {hashlib.blake2b(file.file.data).hexdigest()}"

    inputs = Inputs(identity, file.file.check_unchanged)
    write_resumably(target, inputs, write, resume=resume, report=report, replace=replace)
