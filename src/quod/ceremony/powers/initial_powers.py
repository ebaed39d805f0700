"""The beginning of a ceremony: powers of tau = 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quod.ceremony.powers.challenge import first_challenge
from quod.ceremony.powers.contribution import contributions_data
from quod.ceremony.powers.ptau_layout import (
    CONTRIBUTIONS,
    SECTIONS,
    PtauWriter,
    check_power,
    header_data,
)
from quod.ceremony.windows import windows
from quod.curve.array import from_points
from quod.device.cache import sources
from quod.device.discovery import resolve_device
from quod.device.runtime.timeline import Timeline, or_null
from quod.formats.curves import curve_named
from quod.formats.resumable import Inputs, Parts, write_resumably
from quod.formats.source import Path


def new_powers(
    curve: str,
    power: int,
    target: Path,
    *,
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    replace: bool = False,
) -> bytes:
    """Write 2**power powers of 1 to `target`; return the challenge of the first contribution.

    With `resume` it continues an interrupted run from partial files next to `target`, and `report`
    gets a line that says so. The challenge is computed again.

    Raises InputError for an unknown curve and for more powers than its field has roots of unity,
    OutputError if the file cannot be written, and for an existing target, unless `replace` is set.
    """
    parameters = curve_named(curve)
    power, timeline = check_power(parameters, power), or_null(timeline)

    def write(parts: Parts) -> None:
        writer = PtauWriter(parts.file, parameters, 2 + len(SECTIONS))
        writer.section(1, header_data(parameters, power, power))
        for section in SECTIONS:
            group = section.group(parameters)
            generator = from_points(group, [group.parameters.generator])
            writer.reserve(section.id, section.nbytes(parameters, power))
            tile = None
            with timeline.stage(f"write {section.name}") as stage:
                count = section.count(power)
                for first, last in windows(group, count):
                    tile = np.repeat(generator, last - first, axis=0) if tile is None else tile
                    place = writer.place(section.id, first * generator.nbytes)
                    length = (last - first) * generator.nbytes
                    if not parts.is_done(place, length):
                        writer.write_at(section.id, first * generator.nbytes, tile[: last - first])
                        parts.finish(place, length)
                    stage.progress(last, count)
        writer.section(CONTRIBUTIONS, contributions_data(parameters, []))

    with timeline.stage("challenge"):
        challenge = first_challenge(resolve_device("cpu"), parameters, power)
    inputs = Inputs(lambda: f"new {sources.digest()} {parameters.name} {power}")
    write_resumably(target, inputs, write, resume=resume, report=report, replace=replace)
    return challenge
