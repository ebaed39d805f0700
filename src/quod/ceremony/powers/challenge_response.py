"""Challenges and responses: a contribution by another program, or on another machine.

A challenge file has the hash of the last response and all points, uncompressed. A response file has
the hash of the challenge, all points, compressed, and the public keys, uncompressed. These are the
files of bellman's powersoftau and of the perpetual powers of tau.
"""

from __future__ import annotations

import hashlib
from typing import Any, BinaryIO

from quod.ceremony.details import Details
from quod.ceremony.point_bytes import decompressed, from_uncompressed, uncompressed
from quod.ceremony.powers.challenge import BLANK, current_challenge
from quod.ceremony.powers.contribution import (
    HASH_BYTES,
    NAMES,
    Contribution,
    initial_results,
    read_contributions,
)
from quod.ceremony.powers.extended_file import Receipt, write_contribution
from quod.ceremony.powers.ptau_layout import (
    SECTIONS,
    PointSection,
    check_not_truncated,
)
from quod.ceremony.powers.verification import check_contribution
from quod.ceremony.public_key import PublicKey, check_point, group_of
from quod.ceremony.windows import windows
from quod.curve.array import to_points
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.field.array import Words
from quod.formats.iden3 import SectionReader
from quod.formats.output import write_atomically
from quod.formats.ptau import PowersOfTau
from quod.formats.source import Path, map_file
from quod.validation import file_path


def export_challenge(
    source: Path, target: Path, *, timeline: Timeline | None = None, replace: bool = False
) -> bytes:
    """Write the challenge of a file to `target`, and return its hash.

    Raises InputError for a damaged or truncated file; raises VerificationError if its points are
    not those that its last contribution hashed; raises OutputError for an existing target, unless
    `replace` is set.
    """
    timeline, host = or_null(timeline), resolve_device("cpu")
    file = PowersOfTau.open(source)
    check_not_truncated(file)
    curve = file.curve_parameters
    contributions = read_contributions(file)
    expected = current_challenge(host, curve, file.power, contributions)
    response_hash = contributions[-1].response_hash(curve) if contributions else BLANK

    def write(output: BinaryIO) -> None:
        output.write(response_hash)
        hasher = hashlib.blake2b(response_hash)
        for section in SECTIONS:
            group, count = section.group(curve), section.count(file.power)
            with timeline.stage(section.name) as stage:
                for first, end in windows(group, count):
                    data = uncompressed(host, group, section.points(file)[first:end]).data
                    output.write(data)
                    hasher.update(data)
                    stage.progress(end, count)
        file.file.check_unchanged()
        if hasher.digest() != expected:
            raise VerificationError(
                f"{file.path}: its points do not match its last contribution; get the file again"
            )

    write_atomically(target, write, replace=replace)
    return expected


def import_response(
    source: Path,
    response: Path,
    target: Path,
    *,
    name: str = "",
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> Receipt:
    """Write `source` with the contribution of a response file to `target`.

    Raises InputError, with section and offset, for a response of another length, and for points
    that are malformed or outside their groups; MismatchError for a response to another challenge;
    VerificationError for an invalid contribution; and OutputError for an existing target, unless
    `replace` is set. Only `verify` checks that the points are powers of tau.
    """
    timeline, resolved_device, host = (
        or_null(timeline),
        resolve_device(device),
        resolve_device("cpu"),
    )
    file, details = PowersOfTau.open(source), Details(name)
    check_not_truncated(file)
    curve, power = file.curve_parameters, file.power
    earlier = read_contributions(file)
    challenge = current_challenge(host, curve, power, earlier)
    path, data = file_path(response), map_file(response)
    groups = {degree: group_of(curve, degree) for degree in (1, 2)}
    sizes = {degree: 8 * group.coordinate_words for degree, group in groups.items()}
    keys_start = HASH_BYTES + sum(
        point_section.count(power) * sizes[point_section.degree] for point_section in SECTIONS
    )
    # P, s*P and s*Q are uncompressed: two coordinates each.
    key_bytes = len(NAMES) * (4 * sizes[1] + 2 * sizes[2])
    if len(data) != keys_start + key_bytes:
        raise InputError(
            f"a response of 2**{power} powers of {curve.name} has {keys_start + key_bytes} bytes, "
            f"not {len(data)}; check that the right file was given",
            path=path,
        )
    reader = SectionReader(path, "response", data, 0, len(data))
    if bytes(reader.take(HASH_BYTES, "the challenge")) != challenge:
        raise MismatchError(
            "answers another challenge; contribute to the challenge of these powers", path=path,
            section="response", offset=0,
        )  # fmt: skip
    keys = _keys(
        SectionReader(path, "keys", data, keys_start, key_bytes), curve.name, groups, sizes
    )
    previous_results = earlier[-1].results if earlier else initial_results(curve)

    def produce(section: PointSection, first: int, end: int) -> tuple[Words, Any]:
        group, size, start = section.group(curve), sizes[section.degree], reader.offset
        encoded = reader.take((end - first) * size, section.name)
        points, bad_point = decompressed(resolved_device, group, encoded)
        bad_point = bad_point or first_bad_point(
            resolved_device, group, points, subgroup=True, infinity=False
        )
        if bad_point is not None:
            reader.fail(f"point {first + bad_point[0]} of {section.name} {bad_point[1]}",
                        start + bad_point[0] * size)  # fmt: skip
        return points, encoded

    def check(contribution: Contribution) -> None:
        check_contribution(
            path, curve, len(earlier) + 1, challenge, previous_results, contribution, timeline
        )

    return write_contribution(
        target, file, challenge, earlier, keys, details, produce, check, timeline, replace=replace
    )


def _keys(
    reader: SectionReader, curve: str, groups: dict[int, Any], sizes: dict[int, int]
) -> tuple[PublicKey, PublicKey, PublicKey]:
    """Read the public keys of tau, alpha and beta at the end of a response."""
    host = resolve_device("cpu")

    def take(degree: int, label: str) -> Any:
        start = reader.offset
        encoded = reader.take(2 * sizes[degree], label)
        points = from_uncompressed(host, groups[degree], encoded)
        if points is None:
            reader.fail(f"{label} has a coordinate that is not below the modulus of {curve}", start)
        check_point(groups[degree], points, lambda why: reader.fail(f"{label} {why}", start))
        return to_points(groups[degree], points)[0]

    g1_points = [take(1, f"{part} of {name}") for name in NAMES for part in ("g1_s", "g1_sx")]
    g2_points = [take(2, f"g2_spx of {name}") for name in NAMES]
    tau, alpha, beta = (
        PublicKey(g1_points[2 * index], g1_points[2 * index + 1], g2_points[index])
        for index in range(len(NAMES))
    )
    return tau, alpha, beta
