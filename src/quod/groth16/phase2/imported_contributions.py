"""A key with the contributions of MPC parameters (`quod.groth16.phase2.mpc_parameters`)."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np

from quod.ceremony.details import Details
from quod.ceremony.point_bytes import from_uncompressed, uncompressed
from quod.ceremony.powers.contribution import HASH_BYTES, MOST_CONTRIBUTIONS
from quod.ceremony.public_key import PublicKey, check_point, group_of
from quod.ceremony.ratio import random_sums, same_ratio
from quod.ceremony.windows import windows
from quod.curve.array import Point, to_points
from quod.curve.weierstrass.affine import affine_group
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.field.array import Words
from quod.formats.bellman import LISTS, VERIFYING_KEY
from quod.formats.iden3 import SectionReader
from quod.formats.iden3_stream import PlannedSection
from quod.formats.source import Path, map_file
from quod.formats.zkey.infinity import MAY_BE_INFINITE
from quod.groth16.phase2.key_contribution import Ceremony, KeyContribution
from quod.groth16.phase2.key_update import ContributedKey, KeyReceipt
from quod.groth16.phase2.mpc_parameters import NAMES, quotient_points, quotient_powers
from quod.validation import file_path

_PARTS = {**VERIFYING_KEY, "ic": 1, **LISTS}
_CHANGED = ("delta_g1", "delta_g2", "h", "l")


def import_bellman(
    source: Path,
    parameters: Path,
    target: Path,
    *,
    name: str = "",
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> KeyReceipt:
    """Write the key `source`, with contributions made to it as MPC parameters, to `target`.

    `name` is the last contributor's. Random sums check that h and l are those of `source` divided
    by the contributed secrets. MismatchError for parameters of another key,
    VerificationError for a contribution that does not follow, InputError for files that are damaged
    or have points outside their groups, and where nobody contributed, OutputError for an existing
    target, unless `replace` is set.
    """
    timeline, opened, details = or_null(timeline), resolve_device(device), Details(name)
    key = ContributedKey(source)
    mpc_parameters = _Parameters(parameters, key)
    mpc_parameters.check_kept()
    after, deltas = mpc_parameters.contributions(details, timeline)
    with timeline.stage("l"):
        private = mpc_parameters.divided(opened, "l", [key.zkey.c], deltas[1])
    with timeline.stage("h"):
        powers = mpc_parameters.divided(opened, "h", quotient_powers(opened, key.zkey), deltas[1])
        h = quotient_points(opened, key.zkey, powers)
    sections = PlannedSection.of(8, private), PlannedSection.of(9, h)
    key.write(target, deltas, *sections, after, replace=replace)
    last = after.contributions[-1]
    return KeyReceipt(len(after.contributions), after.circuit_hash, last.hash(key.curve))


class _Parameters:
    """MPC parameters of which a key is made again."""

    def __init__(self, path: Path, key: ContributedKey) -> None:
        """MismatchError for lists of other lengths than the key's, InputError for a short file."""
        self.path, self._key = file_path(path), key
        self._data = map_file(path)
        self._places: dict[str, tuple[int, int]] = {}
        self._reader = reader = SectionReader(
            self.path, "MPC parameters", self._data, 0, len(self._data)
        )
        for name, degree in _PARTS.items():
            count = 1
            if name not in VERIFYING_KEY:
                count = len(getattr(key.zkey, NAMES.get(name, name))) - (name == "h")
                start = reader.offset
                stored = int.from_bytes(reader.take(4, f"the count of {name}"), "big")
                if stored != count:
                    self._mismatch(
                        name, f"{name} has {stored} points, not {count}, the number", start
                    )
            size = 8 * group_of(key.curve, degree).point_words * count
            self._places[name] = reader.offset, size
            reader.take(size, name)

    def check_kept(self) -> None:
        """MismatchError unless all that no contribution touches is the key's."""
        host = resolve_device("cpu")
        for name, degree in _PARTS.items():
            if name in _CHANGED:
                continue
            group, (at, _) = group_of(self._key.curve, degree), self._places[name]
            points: Words = getattr(self._key.zkey, name).reshape(-1, *group.shape)
            for first, last in windows(group, len(points)):
                key_bytes = uncompressed(host, group, np.array(points[first:last])).reshape(-1)
                differs = key_bytes != np.frombuffer(self._data, np.uint8, len(key_bytes), at)
                if differs.any():
                    self._mismatch(name, f"{name} is not that", at + int(np.argmax(differs)))
                at += len(key_bytes)

    def contributions(self, details: Details, timeline: Timeline) -> tuple[Ceremony, list[Point]]:
        """The ceremony with what was contributed, and the deltas in G1 and G2."""
        curve, reader, ceremony = self._key.curve, self._reader, self._key.ceremony
        start = reader.offset
        if bytes(reader.take(HASH_BYTES, "the circuit hash")) != ceremony.circuit_hash:
            self._mismatch("contributions", "the circuit hash is not that", start)
        start, in_key = reader.offset, len(ceremony.contributions)
        count = int.from_bytes(reader.take(4, "the number of contributions"), "big")
        if not in_key < count <= MOST_CONTRIBUTIONS:
            reader.fail(
                f"{count} contributions are not more than the {in_key} of the key; use "
                "parameters with a new contribution",
                start,
            )
        for contribution in ceremony.contributions:
            data, start = contribution.public_bytes(curve), reader.offset
            if bytes(reader.take(len(data), "a contribution")) != data:
                self._mismatch("contributions", "the contributions do not begin with those", start)
        delta = ceremony.contributions[-1].delta_g1 if in_key else curve.g1.generator
        for number in range(in_key + 1, count + 1):
            added = self._contribution(number, details if number == count else Details(""))
            added.check(self.path, number, curve, ceremony.digest(), delta, timeline)
            ceremony, delta = ceremony.with_contribution(added), added.delta_g1
        reader.finish()
        deltas: list[Any] = []
        for name, degree in (("delta_g1", 1), ("delta_g2", 2)):
            points = self._points(name, degree)
            check_point(group_of(curve, degree), points, partial(self._refuse, name))
            deltas += to_points(group_of(curve, degree), points)
        first, second = (curve.g1.generator, deltas[0]), (curve.g2.generator, deltas[1])
        if deltas[0] != delta or not same_ratio(curve, first, second):
            self._differs("delta differs from the last contribution's")
        return ceremony, deltas

    def divided(self, device: AnyDevice, name: str, before: Any, delta_g2: Any) -> Words:
        """The points of a part, which are those that come in parts of `before`, divided."""
        curve = self._key.curve
        group, quotients = group_of(curve, 1), self._points(name, 1)
        infinity = NAMES.get(name, name) in MAY_BE_INFINITE
        bad = first_bad_point(device, group, quotients, subgroup=True, infinity=infinity)
        if bad is not None:
            self._refuse(name, f"point {bad[0]} {bad[1]}", bad[0] * quotients[0].nbytes)
        law, at = affine_group(group), 0
        totals: list[Any] = [None, None]
        for part in before:
            sums = random_sums(device, group, quotients[at : at + len(part)], np.array(part))
            totals = [law.add(total, summand) for total, summand in zip(totals, sums, strict=True)]
            at += len(part)
        ratio = (self._key.plain(2), delta_g2)
        if totals != [None, None] and not same_ratio(curve, (totals[0], totals[1]), ratio):
            self._differs(f"{name} is not that of the key, divided by what was contributed")
        return quotients

    def _contribution(self, number: int, details: Details) -> KeyContribution:
        curve, reader = self._key.curve, self._reader
        elements: list[Any] = []
        for name, degree in (("delta_g1", 1), ("g1_s", 1), ("g1_sx", 1), ("g2_spx", 2)):
            group, start = group_of(curve, degree), reader.offset
            what = f"contribution {number}: {name}"
            raw = reader.take(8 * group.point_words, what)

            def fail(why: str, what: str = what, start: int = start) -> NoReturn:
                reader.fail(f"{what} {why}", start)

            points = from_uncompressed(resolve_device("cpu"), group, raw)
            if points is None:
                fail("has a coordinate that is not below the modulus")
            check_point(group, points, fail)
            elements += to_points(group, points)
        transcript = bytes(reader.take(HASH_BYTES, f"contribution {number}: its transcript"))
        return KeyContribution(elements[0], PublicKey(*elements[1:]), transcript, details)

    def _points(self, name: str, degree: int) -> Words:
        at, size = self._places[name]
        group = group_of(self._key.curve, degree)
        points = from_uncompressed(resolve_device("cpu"), group, self._data[at : at + size])
        if points is None:
            self._refuse(name, "a coordinate is not below the modulus")
        return points

    def _refuse(self, name: str, why: str, within: int = 0) -> NoReturn:
        offset = self._places[name][0] + within
        raise InputError(f"{name}: {why}; the file is damaged", path=self.path, section=name,
                         offset=offset)  # fmt: skip

    def _mismatch(self, name: str, why: str, offset: int) -> NoReturn:
        raise MismatchError(
            f"{why} of {self._key.zkey.path}; use parameters that were contributed to for this key",
            path=self.path,
            section=name,
            offset=offset,
        )

    def _differs(self, why: str) -> NoReturn:
        raise VerificationError(f"{self.path}: {why}")
