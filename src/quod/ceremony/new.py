"""The beginning of a ceremony: powers of a tau of 1, which everyone knows."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from quod.ceremony.challenge import first_challenge
from quod.ceremony.contribution import contributions_data
from quod.ceremony.ptau_layout import (
    CONTRIBUTIONS,
    SECTIONS,
    PtauWriter,
    check_power,
    header_data,
)
from quod.ceremony.windows import windows
from quod.curve.array import from_points
from quod.device.discovery import resolve_device
from quod.device.timeline import Timeline, or_null
from quod.formats.curves import curve_named
from quod.formats.output import write_atomically
from quod.formats.source import Path


def new_powers(curve: str, power: int, target: Path, *, timeline: Timeline | None = None) -> bytes:
    """Writes 2**power powers of 1 to `target`; gives the challenge of the first contribution.

    InputError for an unknown curve and for more powers than its field has roots of unity,
    OutputError if the file cannot be written.
    """
    parameters = curve_named(curve)
    power, timeline = check_power(parameters, power), or_null(timeline)

    def write(file: BinaryIO) -> None:
        writer = PtauWriter(file, parameters, 2 + len(SECTIONS))
        writer.section(1, header_data(parameters, power, power))
        for section in SECTIONS:
            group = section.group(parameters)
            one = from_points(group, [group.parameters.generator])
            writer.begin(section.id, section.nbytes(parameters, power))
            tile = None
            with timeline.stage(f"write {section.name}") as stage:
                count = section.count(power)
                for first, last in windows(group, count):
                    tile = np.repeat(one, last - first, axis=0) if tile is None else tile
                    writer.write(tile[: last - first])
                    stage.progress(last, count)
        writer.section(CONTRIBUTIONS, contributions_data(parameters, []))

    with timeline.stage("challenge"):
        challenge = first_challenge(resolve_device("cpu"), parameters, power)
    write_atomically(target, write)
    return challenge
