"""Writing of a file with a further contribution; its response is hashed at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from quod.ceremony.details import Details
from quod.ceremony.powers.challenge import challenge_after
from quod.ceremony.powers.contribution import (
    Contribution,
    contributions_data,
    finished,
    keys_bytes,
)
from quod.ceremony.powers.ptau_layout import (
    CONTRIBUTIONS,
    SECTIONS,
    PointSection,
    PtauWriter,
    header_data,
    results_of,
)
from quod.ceremony.public_key import PublicKey
from quod.ceremony.windows import windows
from quod.device.discovery import resolve_device
from quod.device.runtime.timeline import Timeline
from quod.field.array import Words
from quod.formats.output import write_atomically
from quod.formats.ptau import PowersOfTau
from quod.formats.source import Path
from quod.frozen import frozen
from quod.hash.blake2b import Blake2b


@frozen
class Receipt:
    """The receipt that a contributor publishes.

    number: the contribution's number, counted from 1.
    response_hash: the hash of the response.
    next_challenge: the challenge that the next contribution responds to.
    """

    number: int
    response_hash: bytes
    next_challenge: bytes


Produce = Callable[[PointSection, int, int], tuple[Words, Any]]
"""A function that returns points [first, last) of a section, and their compressed bytes."""


def write_contribution(
    target: Path,
    file: PowersOfTau,
    challenge: bytes,
    earlier: list[Contribution],
    keys: tuple[PublicKey, PublicKey, PublicKey],
    details: Details,
    produce: Produce,
    check: Callable[[Contribution], None],
    timeline: Timeline,
    *,
    replace: bool,
) -> Receipt:
    """Write the new points and all contributions to `target`, unless `check` or `produce` raises.

    file: the powers before the contribution; earlier: its contributions.
    challenge, keys, details: the challenge that is answered, and data of the new contribution.
    Raises OutputError, before any work, for an existing target, unless `replace` is set.
    """
    curve, power, host = file.curve_parameters, file.power, resolve_device("cpu")
    receipts: list[Receipt] = []

    def write(output: BinaryIO) -> None:
        writer = PtauWriter(output, curve, 2 + len(SECTIONS))
        writer.section(1, header_data(curve, power, power))
        response = Blake2b(challenge)
        for section in SECTIONS:
            writer.begin(section.id, section.nbytes(curve, power))
            with timeline.stage(section.name) as stage:
                count = section.count(power)
                for first, end in windows(section.group(curve), count):
                    points, data = produce(section, first, end)
                    writer.write(points)
                    response.update(data)
                    stage.progress(end, count)
        response_hash = finished(response, keys_bytes(curve, keys))
        with timeline.stage("next challenge"):
            next_challenge = challenge_after(
                host, curve, response_hash, lambda section: writer.written(section, power)
            )
        results = results_of(lambda section: next(iter(writer.written(section, power))), curve)
        contribution = Contribution(results, keys, response.state(), next_challenge, details)
        check(contribution)
        file.file.check_unchanged()
        writer.section(CONTRIBUTIONS, contributions_data(curve, [*earlier, contribution]))
        receipts.append(Receipt(len(earlier) + 1, response_hash, next_challenge))

    write_atomically(target, write, replace=replace)
    return receipts[0]
