"""The initial powers of a ceremony, for tau = alpha = beta = 1."""

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
    """Write 2**power initial powers to `target`; return the challenge of the first contribution.

    resume: whether to continue an interrupted run from partial files next to `target`; the
        challenge is computed again.
    report: gets a line if a run is continued.

    Raises InputError for an unknown curve, or more powers than its field has roots of unity, and
    OutputError if the file cannot be written or, without `replace`, exists.
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
                for first, end in windows(group, count):
                    tile = np.repeat(generator, end - first, axis=0) if tile is None else tile
                    offset = writer.file_offset(section.id, first * generator.nbytes)
                    length = (end - first) * generator.nbytes
                    if not parts.is_done(offset, length):
                        writer.write_at(section.id, first * generator.nbytes, tile[: end - first])
                        parts.finish(offset, length)
                    stage.progress(end, count)
        writer.section(CONTRIBUTIONS, contributions_data(parameters, []))

    with timeline.stage("challenge"):
        challenge = first_challenge(resolve_device("cpu"), parameters, power)
    inputs = Inputs(lambda: f"new {sources.digest()} {parameters.name} {power}")
    write_resumably(target, inputs, write, resume=resume, report=report, replace=replace)
    return challenge
