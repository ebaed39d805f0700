"""Contributions to a key: multiply delta by a secret, divide c and h by it, and wipe it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from quod.ceremony.beacon import Beacon
from quod.ceremony.core_dumps import no_core_dumps
from quod.ceremony.details import Details
from quod.ceremony.multiples import secret_multiples
from quod.ceremony.public_key import PublicKey, group_of, multiple_of, point_data, random_g1
from quod.ceremony.secret import Secret
from quod.ceremony.windows import windows
from quod.curve.array import Point, to_points
from quod.curve.named import CURVES
from quod.curve.parameters import G1Point
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.field.array import Words
from quod.formats.iden3 import Buffer, Iden3File
from quod.formats.iden3_stream import PlannedSection, write_planned
from quod.formats.output import write_atomically
from quod.formats.source import Path
from quod.formats.zkey.file import KIND, VERSION, Zkey
from quod.formats.zkey.infinity import MAY_BE_INFINITE
from quod.frozen import frozen
from quod.groth16.phase2.key_contribution import (
    Ceremony,
    KeyContribution,
    beacon_secret,
    check_deltas,
)


@frozen
class KeyReceipt:
    """The receipt that a contributor publishes.

    number: the contribution's number, counted from 1.
    circuit_hash: the circuit hash of the key.
    contribution_hash: the hash of the contribution.
    """

    number: int
    circuit_hash: bytes
    contribution_hash: bytes


def contribute(
    source: Path,
    target: Path,
    *,
    name: str = "",
    text: str = "",
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> KeyReceipt:
    """Write the key `source` with a contribution of a random secret to `target`.

    The secret comes from the system's randomness, with `text` mixed in. It is overwritten before
    this returns or raises, and never written to a file. Raises InputError for a key that is
    damaged, has points outside their groups or no transcript; OutputError if the result cannot be
    written, and for an existing target, unless `replace` is set.
    """
    details = Details(name)
    with no_core_dumps():
        key = ContributedKey(source)
        with Secret.drawn(key.curve.fr, text) as secret:
            base = random_g1(key.curve)
            return key.extend(
                resolve_device(device), target, secret, base, details, or_null(timeline),
                replace=replace,
            )  # fmt: skip


def add_beacon(
    source: Path,
    target: Path,
    beacon: Beacon,
    *,
    name: str = "",
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> KeyReceipt:
    """Contribute as `contribute`, with a secret derived from a public value; see `Beacon`."""
    timeline = or_null(timeline)
    details = Details(name, beacon)
    key = ContributedKey(source)
    stream = beacon.followed_stream(timeline)
    secret, base = beacon_secret(key.curve, stream)
    resolved_device = resolve_device(device)
    return key.extend(resolved_device, target, secret, base, details, timeline, replace=replace)


class ContributedKey:
    """A key to which a contribution is made. Raises InputError for a damaged key or delta."""

    def __init__(self, source: Path) -> None:
        self.file = Iden3File.open(source, KIND, VERSION)
        self.zkey = Zkey.of(self.file)
        self.zkey.check_points()
        self.curve = CURVES[self.zkey.curve]
        self.ceremony = Ceremony.read(self.file, self.curve)
        check_deltas(self.zkey)

    def extend(
        self,
        device: AnyDevice,
        target: Path,
        secret: Secret,
        first: G1Point,
        details: Details,
        timeline: Timeline,
        *,
        replace: bool,
    ) -> KeyReceipt:
        """Write the key with one more contribution.

        first: the point P of the contribution's public key.
        """
        zkey, curve = self.zkey, self.curve
        deltas = [
            multiple_of(curve, degree, self.delta(degree), secret) for degree in (1, 2)
        ]  # fmt: skip
        digest = self.ceremony.digest()
        public_key = PublicKey.of(curve, secret, first, digest)
        transcript = digest(public_key.first_bytes(curve))
        contribution = KeyContribution(deltas[0], public_key, transcript, details)
        ceremony = self.ceremony.with_contribution(contribution)
        with secret.inverse() as inverse:

            def divided_section(identifier: int, name: str) -> PlannedSection:
                points: Words = getattr(zkey, name)
                return PlannedSection(
                    identifier,
                    points.nbytes,
                    lambda: self._divide(device, name, points, inverse, timeline),
                )

            c, h = divided_section(8, "c"), divided_section(9, "h")
            self.write(target, deltas, c, h, ceremony, replace=replace)
        return KeyReceipt(
            len(ceremony.contributions), ceremony.circuit_hash, contribution.hash(curve)
        )  # fmt: skip

    def write(
        self,
        target: Path,
        deltas: Sequence[Point],
        c: PlannedSection,
        h: PlannedSection,
        after: Ceremony,
        *,
        replace: bool,
    ) -> None:
        """Write the key with new sections.

        deltas: delta in G1 and in G2.
        c, h: sections 8 and 9.
        after: the ceremony with the new contributions.
        """
        sections = [
            self._copy_section(1),
            PlannedSection.of(2, *self._header(deltas[0], deltas[1])),
            *map(self._copy_section, (3, 4, 5, 6, 7)),
            c,
            h,
            PlannedSection.of(10, after.data()),
        ]

        def write(file: BinaryIO) -> None:
            write_planned(file, KIND, VERSION, sections)
            self.zkey.check_unchanged()

        write_atomically(target, write, replace=replace)

    def delta(self, degree: int) -> Point:
        """Return the key's delta in G1 or G2, as integers."""
        points: Words = getattr(self.zkey, f"delta_g{degree}")
        return to_points(group_of(self.curve, degree), points[None])[0]

    def _copy_section(self, identifier: int) -> PlannedSection:
        """Return a section with the bytes of the key's."""
        section = self.file.sections[identifier]
        data = self.file.data[section.offset : section.offset + section.length]
        return PlannedSection.of(identifier, np.frombuffer(data, np.uint8))

    def _header(self, delta_g1: Point, delta_g2: Point) -> list[Buffer]:
        """Return section 2 in parts, with other deltas, which are at its end."""
        section = self.file.sections[2]
        new_deltas = point_data(self.curve, 1, delta_g1) + point_data(self.curve, 2, delta_g2)
        unchanged = self.file.data[
            section.offset : section.offset + section.length - len(new_deltas)
        ]
        return [bytes(unchanged), new_deltas]

    def _divide(
        self, device: AnyDevice, name: str, points: Words, inverse: Secret, timeline: Timeline
    ) -> Iterator[Buffer]:
        """Yield the points divided by the secret, after checking that they are in their group."""
        group = group_of(self.curve, 1)
        with timeline.stage(name) as stage:
            for first, end in windows(group, len(points)):
                window = np.array(points[first:end])
                self._check_window(device, name, window, first)
                yield secret_multiples(device, group, window, inverse.words[None])
                stage.progress(end, len(points))

    def _check_window(self, device: AnyDevice, name: str, points: Words, first: int) -> None:
        """Raise InputError for a point outside the group; `first` is the index of points[0]."""
        # A point of small order, times the secret, would reveal the secret modulo that order.
        bad_point = first_bad_point(
            device, group_of(self.curve, 1), points, subgroup=True, infinity=name in MAY_BE_INFINITE
        )
        if bad_point is not None:
            self.zkey.refuse(name, first + bad_point[0], bad_point[1])
