"""Verification of powers of tau against their contributions.

It is stricter than snarkjs: every point must be in its group, random sums have 128-bit
coefficients, and the hash of the last response is recomputed from the points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np

from quod.ceremony.point_bytes import compressed
from quod.ceremony.powers.challenge import challenge_after, first_challenge, first_challenge_blocks
from quod.ceremony.powers.contribution import (
    NAMES,
    Contribution,
    Results,
    beacon_keys,
    finished,
    initial_results,
    key_digest,
    keys_bytes,
    read_contributions,
)
from quod.ceremony.powers.hash_limit import MAX_HASHES, check_hashes
from quod.ceremony.powers.lagrange_check import check_prepared
from quod.ceremony.powers.ptau_layout import LAGRANGE, SECTIONS, PointSection, results_of
from quod.ceremony.powers.verified_parts import VerifiedParts
from quod.ceremony.random_points import hash_to_g2
from quod.ceremony.ratio import consecutive_sums, same_ratio
from quod.ceremony.windows import blocks, windows
from quod.curve.array import to_points
from quod.curve.parameters import G1Point, PairingCurve
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Stage, Timeline, or_null
from quod.errors import VerificationError
from quod.field.array import Words
from quod.formats.ptau import PowersOfTau
from quod.formats.source import Path
from quod.frozen import frozen
from quod.hash.blake2b import Blake2b


@frozen
class Verified:
    """Verified powers of tau.

    contributions: each contribution with the hash of its response. The last hash was recomputed
        from the points if the file has all 2**`ceremony_power` powers; the others are only stated
        by the file.
    next_challenge: the challenge of the next contribution.
    """

    curve: str
    power: int
    ceremony_power: int
    contributions: tuple[tuple[Contribution, bytes], ...]
    next_challenge: bytes


def verify(
    source: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    max_hashes: int = MAX_HASHES,
) -> Verified:
    """Verify a file from its first contribution to its last point.

    resume: whether to skip points that an interrupted run has verified, according to the user's
        cache.
    report: gets a line if points are skipped.
    max_hashes: the limit on the hashes of all beacons and the first challenge together.

    No hash covers the names of contributors, so anyone may have changed them. Raises
    VerificationError for an invalid contribution, with its number and what differs, for points that
    are not powers of one tau, and for a file without contributions; raises InputError for a file
    that is damaged, has points outside their groups or needs too many hashes.
    """
    timeline, resolved_device = or_null(timeline), resolve_device(device)
    file = PowersOfTau.open(source)
    curve = file.curve_parameters
    contributions = read_contributions(file)
    if not contributions:
        _fail(
            file.path, "nobody contributed to it, so everyone knows its secrets; contribute first"
        )
    challenge_blocks = first_challenge_blocks(curve, file.ceremony_power)
    details = [contribution.details for contribution in contributions]
    check_hashes(file.path, details, max_hashes, challenge_blocks)
    if file.prepared:
        for basis in LAGRANGE:
            basis.points(file)
    host = resolve_device("cpu")
    with timeline.stage("first challenge"):
        challenge = first_challenge(host, curve, file.ceremony_power)
    results, last_challenge, responses = initial_results(curve), challenge, []
    with timeline.stage("contributions") as stage:
        for number, contribution in enumerate(contributions, start=1):
            check_contribution(file.path, curve, number, challenge, results, contribution, timeline)
            responses.append(contribution.response_hash(curve))
            results, last_challenge = contribution.results, challenge
            challenge = contribution.next_challenge
            stage.progress(number, len(contributions))
    _check_beginnings(file, results, len(contributions))
    with VerifiedParts(file.file, resume=resume, report=report) as parts:
        for section in SECTIONS:
            with timeline.stage(f"points of {section.name}") as stage:
                _check_points(resolved_device, file, section, parts, stage)
        for section in SECTIONS:
            if not section.single:
                with timeline.stage(f"powers of {section.name}"):
                    _check_powers(resolved_device, file, section, results, parts)
        if file.power == file.ceremony_power:
            with timeline.stage("hash of the last response"):
                _check_last(host, file, last_challenge, contributions, parts)
        if file.prepared:
            check_prepared(resolved_device, file, timeline, parts)
    file.file.check_unchanged()
    return Verified(
        curve.name, file.power, file.ceremony_power, tuple(zip(contributions, responses)), challenge
    )


def check_contribution(
    path: str,
    curve: PairingCurve,
    number: int,
    challenge: bytes,
    before: Results,
    contribution: Contribution,
    timeline: Timeline,
) -> None:
    """Raise VerificationError unless a contribution to a challenge is valid.

    path, number: the file and the contribution's index from 1 on, for messages.
    before: the results before the contribution.
    """
    after = contribution.results
    for index, (name, key) in enumerate(zip(NAMES, contribution.keys, strict=True)):
        digest = key_digest(index, challenge)
        q = hash_to_g2(curve, digest(key.first_bytes(curve)))
        ratio = (q, key.g2_spx)
        if not same_ratio(curve, (key.g1_s, key.g1_sx), ratio):
            _fail(path, f"contribution {number}: its key of {name} is not a proof of "
                          "knowledge of a secret: its challenge or its points differ")  # fmt: skip
        if key.g1_sx is not None and key.g1_s is not None and key.g1_sx[0] == key.g1_s[0]:
            _fail(path, f"contribution {number}: its {name} is 1 or -1, which is not secret")
        pairs: tuple[tuple[str, G1Point, G1Point], ...] = {
            "tau": (("tau_g1", before.tau_g1, after.tau_g1),),
            "alpha": (("alpha_g1", before.alpha_g1, after.alpha_g1),),
            "beta": (("beta_g1", before.beta_g1, after.beta_g1),),
        }[name]
        for label, old, new in pairs:
            if not same_ratio(curve, (old, new), ratio):
                _fail_ratio(path, number, label, name)
        g2_pairs = {"tau": ("tau_g2", before.tau_g2, after.tau_g2),
                  "beta": ("beta_g2", before.beta_g2, after.beta_g2)}  # fmt: skip
        if name in g2_pairs:
            label, old_g2, new_g2 = g2_pairs[name]
            if not same_ratio(curve, (key.g1_s, key.g1_sx), (old_g2, new_g2)):
                _fail_ratio(path, number, label, name)
    beacon = contribution.details.beacon
    if beacon is not None and beacon_keys(curve, challenge, beacon, timeline) != contribution.keys:
        _fail(path, f"contribution {number}: its keys are not those that its beacon determines")


def _check_beginnings(file: PowersOfTau, results: Results, number: int) -> None:
    """Raise VerificationError unless the sections begin with the last contribution's results."""
    curve = file.curve_parameters
    for name, group in (("tau_g1", curve.g1), ("tau_g2", curve.g2)):
        section = next(section for section in SECTIONS if section.name == name)
        (first_point,) = to_points(section.group(curve), section.points(file)[:1])
        if first_point != group.generator:
            _fail(file.path, f"{name} does not begin with the generator")
    beginnings = results_of(lambda section: section.points(file)[:2], curve)
    for label in ("tau_g1", "tau_g2", "alpha_g1", "beta_g1", "beta_g2"):
        if getattr(beginnings, label) != getattr(results, label):
            _fail(
                file.path,
                f"contribution {number}: {label} of the file differs from the one it states",
            )


def _check_points(
    device: AnyDevice, file: PowersOfTau, section: PointSection, parts: VerifiedParts, stage: Stage
) -> None:
    """Raise InputError for a point that is infinity or outside its group."""
    group, count = section.group(file.curve_parameters), section.count(file.power)

    def check(begin: int, end: int) -> None:
        for first, last in windows(group, end - begin):
            section.checked(device, file, begin + first, begin + last)
            stage.progress(begin + last, count)

    for begin, end in blocks(group, count):
        points = section.points(file)[begin:end]
        parts.once(f"points in {group.name}", partial(check, begin, end), points)


def _check_powers(
    device: AnyDevice,
    file: PowersOfTau,
    section: PointSection,
    results: Results,
    parts: VerifiedParts,
) -> None:
    """Raise VerificationError unless each point is tau times the one before."""
    curve, group = file.curve_parameters, section.group(file.curve_parameters)
    all_points, generators = section.points(file), (curve.g1.generator, curve.g2.generator)
    tau = results.tau_g2 if section.degree == 1 else results.tau_g1

    def check(points: Words) -> None:
        sums = consecutive_sums(device, group, points)
        if section.degree == 1:
            matches = same_ratio(curve, sums, (generators[1], results.tau_g2))
        else:
            matches = same_ratio(curve, (generators[0], results.tau_g1), sums)
        if not matches:
            _fail(
                file.path,
                f"{section.name}: its points are not powers of the tau of its contributions",
            )

    # Blocks overlap by one point, so that all pairs of neighbours are compared.
    for first, end in blocks(group, len(all_points) - 1):
        points = all_points[first : end + 1]
        parts.once(f"powers in {group.name} of {tau}", partial(check, points), points)
    _check_order(file, section)


def _check_order(file: PowersOfTau, section: PointSection) -> None:
    """Raise VerificationError if tau is a root of unity of a domain.

    A denominator of the Lagrange polynomials would be 0 there.
    """
    points = section.points(file)
    for exponent in range(file.power + 1):
        if 1 << exponent < len(points) and np.array_equal(points[1 << exponent], points[0]):
            _fail(file.path, f"{section.name}: tau**(2**{exponent}) is 1, so tau is not secret")


def _check_last(
    host: AnyDevice,
    file: PowersOfTau,
    challenge: bytes,
    contributions: list[Contribution],
    parts: VerifiedParts,
) -> None:
    """Raise VerificationError unless the last contribution's hashes are those of the points."""
    curve, last_contribution, number = file.curve_parameters, contributions[-1], len(contributions)

    def windows_of(section: PointSection) -> list[Words]:
        return [
            section.points(file)[first:end]
            for first, end in windows(section.group(curve), section.count(file.power))
        ]

    def check() -> None:
        response = Blake2b(challenge)
        for section in SECTIONS:
            for window in windows_of(section):
                response.update(compressed(host, section.group(curve), window))
        response_hash = finished(response, keys_bytes(curve, last_contribution.keys))
        if response_hash != last_contribution.response_hash(curve):
            _fail(
                file.path,
                f"contribution {number}: the hash of its response does not match the points",
            )
        if (
            challenge_after(host, curve, response_hash, windows_of)
            != last_contribution.next_challenge
        ):
            _fail(file.path, f"contribution {number}: its next challenge does not match the points")

    response_key = (curve.name, challenge.hex(), last_contribution.data(curve).hex())
    parts.once(
        f"the last response {response_key}", check, *(section.points(file) for section in SECTIONS)
    )


def _fail_ratio(path: str, number: int, label: str, name: str) -> NoReturn:
    _fail(
        path,
        f"contribution {number}: its {label} is not the previous one times the secret of its key "
        f"of {name}",
    )


def _fail(path: str, reason: str) -> NoReturn:
    raise VerificationError(f"{path}: {reason}")
