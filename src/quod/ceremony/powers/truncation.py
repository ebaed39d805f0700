"""Truncation of a file to fewer powers, for smaller circuits."""

from __future__ import annotations

from typing import BinaryIO

from quod.ceremony.powers.ptau_layout import (
    CONTRIBUTIONS,
    LAGRANGE,
    SECTIONS,
    PtauWriter,
    header_data,
)
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError
from quod.formats.output import write_atomically
from quod.formats.ptau import PowersOfTau
from quod.formats.source import Path
from quod.validation import shown, whole_number


def check_smaller_power(file: PowersOfTau, power: object) -> int:
    """Return the power; raise InputError unless a file can be truncated to it."""
    number = whole_number("the power", power)
    if not 1 <= number < file.power:
        raise InputError(
            f"has 2**{file.power} powers, of which 2**1 to 2**{file.power - 1} can be taken, not "
            f"2**{shown(number)}",
            path=file.path,
        )
    return number


def truncate(
    source: Path,
    target: Path,
    power: int,
    *,
    timeline: Timeline | None = None,
    replace: bool = False,
) -> None:
    """Write the first 2**power powers of `source`, and of its Lagrange bases, to `target`.

    The result has the contributions and can be verified, but no further contribution can be made to
    it. Raises InputError for a damaged file, and unless 1 <= power < the file's power; raises
    OutputError for an existing target, unless `replace` is set.
    """
    timeline = or_null(timeline)
    file = PowersOfTau.open(source)
    power = check_smaller_power(file, power)
    curve = file.curve_parameters
    copied_sections = [(section.id, section.nbytes(curve, power)) for section in SECTIONS]
    copied_sections.append((CONTRIBUTIONS, file.contributions_section().remaining))
    if file.prepared:
        for lagrange in LAGRANGE:
            lagrange.points(file)
        copied_sections += [(lagrange.id, lagrange.nbytes(curve, power)) for lagrange in LAGRANGE]

    def write(output: BinaryIO) -> None:
        writer = PtauWriter(output, curve, 1 + len(copied_sections))
        writer.section(1, header_data(curve, power, file.ceremony_power))
        for number, (identifier, length) in enumerate(copied_sections, start=1):
            writer.copy(file, identifier, length)
            stage.progress(number, len(copied_sections))
        file.file.check_unchanged()

    with timeline.stage(f"2**{power} powers") as stage:
        write_atomically(target, write, replace=replace)
