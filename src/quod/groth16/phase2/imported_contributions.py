"""Import of contributions that were made to a key as MPC parameters, as bellman's tools do.

`quod.groth16.phase2.mpc_parameters` describes the format.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np

from quod.ceremony.details import Details
from quod.ceremony.point_bytes import from_uncompressed, uncompressed
from quod.ceremony.powers.contribution import HASH_BYTES, MAX_CONTRIBUTIONS
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

_DEGREES = {**VERIFYING_KEY, "ic": 1, **LISTS}
_CHANGED_PARTS = ("delta_g1", "delta_g2", "h", "l")


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

    name: the last contributor's name.
    Random sums check that h and l are those of `source` divided by the contributed secrets. Raises
    MismatchError for parameters of another key, VerificationError for an invalid contribution,
    InputError for files that are damaged, have points outside their groups or no new contribution,
    and OutputError for an existing target, unless `replace` is set.
    """
    timeline, resolved_device, details = or_null(timeline), resolve_device(device), Details(name)
    key = ContributedKey(source)
    mpc_parameters = _Parameters(parameters, key)
    mpc_parameters.check_unchanged_parts()
    ceremony, deltas = mpc_parameters.contributions(details, timeline)
    with timeline.stage("l"):
        l_points = mpc_parameters.divided(resolved_device, "l", [key.zkey.c], deltas[1])
    with timeline.stage("h"):
        powers = mpc_parameters.divided(
            resolved_device, "h", quotient_powers(resolved_device, key.zkey), deltas[1]
        )
        h = quotient_points(resolved_device, key.zkey, powers)
    sections = PlannedSection.of(8, l_points), PlannedSection.of(9, h)
    key.write(target, deltas, *sections, ceremony, replace=replace)
    last_contribution = ceremony.contributions[-1]
    return KeyReceipt(
        len(ceremony.contributions), ceremony.circuit_hash, last_contribution.hash(key.curve)
    )


class _Parameters:
    """MPC parameters that are compared with a key and converted back to a key."""

    def __init__(self, path: Path, key: ContributedKey) -> None:
        """Open a file of parameters for `key`.

        Raises MismatchError if a list has another length than in the key, and InputError for a
        truncated file.
        """
        self.path, self._key = file_path(path), key
        self._data = map_file(path)
        self._ranges: dict[str, tuple[int, int]] = {}
        self._reader = reader = SectionReader(
            self.path, "MPC parameters", self._data, 0, len(self._data)
        )
        for name, degree in _DEGREES.items():
            count = 1
            if name not in VERIFYING_KEY:
                count = len(getattr(key.zkey, NAMES.get(name, name))) - (name == "h")
                start = reader.offset
                file_count = int.from_bytes(reader.take(4, f"the count of {name}"), "big")
                if file_count != count:
                    self._fail_mismatch(
                        name, f"{name} has {file_count} points, not {count} like that", start
                    )
            part_bytes = 8 * group_of(key.curve, degree).point_words * count
            self._ranges[name] = reader.offset, part_bytes
            reader.take(part_bytes, name)

    def check_unchanged_parts(self) -> None:
        """Raise MismatchError unless the parts that no contribution changes equal the key's."""
        host = resolve_device("cpu")
        for name, degree in _DEGREES.items():
            if name in _CHANGED_PARTS:
                continue
            group, (offset, _) = group_of(self._key.curve, degree), self._ranges[name]
            points: Words = getattr(self._key.zkey, name).reshape(-1, *group.shape)
            for first, end in windows(group, len(points)):
                key_bytes = uncompressed(host, group, np.array(points[first:end])).reshape(-1)
                differs = key_bytes != np.frombuffer(self._data, np.uint8, len(key_bytes), offset)
                if differs.any():
                    self._fail_mismatch(
                        name, f"{name} differs from that", offset + int(np.argmax(differs))
                    )
                offset += len(key_bytes)

    def contributions(self, details: Details, timeline: Timeline) -> tuple[Ceremony, list[Point]]:
        """Return the ceremony with the new contributions, and the deltas in G1 and G2.

        Raises MismatchError for the contributions of another key, VerificationError for an invalid
        contribution, and InputError for malformed points.
        """
        curve, reader, ceremony = self._key.curve, self._reader, self._key.ceremony
        start = reader.offset
        if bytes(reader.take(HASH_BYTES, "the circuit hash")) != ceremony.circuit_hash:
            self._fail_mismatch("contributions", "the circuit hash differs from that", start)
        start, key_count = reader.offset, len(ceremony.contributions)
        count = int.from_bytes(reader.take(4, "the number of contributions"), "big")
        if not key_count < count <= MAX_CONTRIBUTIONS:
            reader.fail(
                f"there are {count} contributions, and the key has {key_count}; use "
                "parameters with a new contribution",
                start,
            )
        for contribution in ceremony.contributions:
            data, start = contribution.public_bytes(curve), reader.offset
            if bytes(reader.take(len(data), "a contribution")) != data:
                self._fail_mismatch(
                    "contributions", "the contributions do not begin with those", start
                )
        delta = ceremony.contributions[-1].delta_g1 if key_count else curve.g1.generator
        for number in range(key_count + 1, count + 1):
            new_contribution = self._contribution(
                number, details if number == count else Details("")
            )
            new_contribution.check(self.path, number, curve, ceremony.digest(), delta, timeline)
            ceremony, delta = (
                ceremony.with_contribution(new_contribution),
                new_contribution.delta_g1,
            )
        reader.finish()
        deltas: list[Any] = []
        for name, degree in (("delta_g1", 1), ("delta_g2", 2)):
            points = self._points(name, degree)
            check_point(group_of(curve, degree), points, partial(self._fail_malformed, name))
            deltas += to_points(group_of(curve, degree), points)
        g1_pair, g2_pair = (curve.g1.generator, deltas[0]), (curve.g2.generator, deltas[1])
        if deltas[0] != delta or not same_ratio(curve, g1_pair, g2_pair):
            self._fail_verification("delta differs from the last contribution's")
        return ceremony, deltas

    def divided(self, device: AnyDevice, name: str, initial_points: Any, delta_g2: Any) -> Words:
        """Return the points of a list; raise VerificationError unless delta divides them.

        initial_points: the key's points before the division, in order, in arrays of any lengths.
        delta_g2: delta in G2 after the contributions.
        """
        curve = self._key.curve
        group, quotients = group_of(curve, 1), self._points(name, 1)
        infinity = NAMES.get(name, name) in MAY_BE_INFINITE
        bad_point = first_bad_point(device, group, quotients, subgroup=True, infinity=infinity)
        if bad_point is not None:
            self._fail_malformed(
                name, f"point {bad_point[0]} {bad_point[1]}", bad_point[0] * quotients[0].nbytes
            )
        law, index = affine_group(group), 0
        totals: list[Any] = [None, None]
        for points in initial_points:
            sums = random_sums(
                device, group, quotients[index : index + len(points)], np.array(points)
            )
            totals = [law.add(total, summand) for total, summand in zip(totals, sums, strict=True)]
            index += len(points)
        ratio = (self._key.delta(2), delta_g2)
        if totals != [None, None] and not same_ratio(curve, (totals[0], totals[1]), ratio):
            self._fail_verification(
                f"{name} is not the key's {name} divided by the contributed secrets"
            )
        return quotients

    def _contribution(self, number: int, details: Details) -> KeyContribution:
        """Read the next contribution; raise InputError for a malformed point."""
        curve, reader = self._key.curve, self._reader
        elements: list[Any] = []
        for name, degree in (("delta_g1", 1), ("g1_s", 1), ("g1_sx", 1), ("g2_spx", 2)):
            group, start = group_of(curve, degree), reader.offset
            label = f"contribution {number}: {name}"
            encoded = reader.take(8 * group.point_words, label)

            def fail(reason: str, label: str = label, start: int = start) -> NoReturn:
                reader.fail(f"{label} {reason}", start)

            points = from_uncompressed(resolve_device("cpu"), group, encoded)
            if points is None:
                fail("has a coordinate that is not below the modulus")
            check_point(group, points, fail)
            elements += to_points(group, points)
        transcript = bytes(reader.take(HASH_BYTES, f"contribution {number}: its transcript"))
        return KeyContribution(elements[0], PublicKey(*elements[1:]), transcript, details)

    def _points(self, name: str, degree: int) -> Words:
        offset, part_bytes = self._ranges[name]
        group = group_of(self._key.curve, degree)
        points = from_uncompressed(
            resolve_device("cpu"), group, self._data[offset : offset + part_bytes]
        )
        if points is None:
            self._fail_malformed(name, "a coordinate is not below the modulus")
        return points

    def _fail_malformed(self, name: str, reason: str, relative_offset: int = 0) -> NoReturn:
        offset = self._ranges[name][0] + relative_offset
        raise InputError(f"{name}: {reason}; the file is damaged", path=self.path, section=name,
                         offset=offset)  # fmt: skip

    def _fail_mismatch(self, name: str, difference: str, offset: int) -> NoReturn:
        raise MismatchError(
            f"{difference} of {self._key.zkey.path}; use MPC parameters made from this key",
            path=self.path,
            section=name,
            offset=offset,
        )

    def _fail_verification(self, reason: str) -> NoReturn:
        raise VerificationError(f"{self.path}: {reason}")
