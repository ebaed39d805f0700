"""Verification of a key against its circuit, powers of tau and contributions.

It is stricter than snarkjs. Sections that contributions leave unchanged are recomputed from the
circuit and the powers, or read from the initial key, and compared byte for byte; so is the circuit
hash. Contributions divide c and h by their secrets, so these sections are compared by random sums
with 128-bit coefficients and pairings. h is compared with the powers and not with the initial key's
h, because contributions to MPC parameters (`quod.groth16.phase2.mpc_parameters`) omit the point of
degree n - 1 for a domain of size n; every quotient has a smaller degree. Every point must be in its
group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import numpy as np

from quod.ceremony.powers.hash_limit import MAX_HASHES, check_hashes
from quod.ceremony.powers.verified_parts import VerifiedParts
from quod.ceremony.public_key import group_of
from quod.ceremony.ratio import random_sums, same_ratio
from quod.ceremony.windows import blocks, windows
from quod.curve.array import Point, to_points
from quod.curve.named import CURVES
from quod.curve.parameters import G1Point, PairingCurve
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Stage, Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.field.array import Words
from quod.formats.iden3 import Iden3File, as_bytes
from quod.formats.ptau import PowersOfTau
from quod.formats.source import Path
from quod.formats.zkey.file import KIND, VERSION, Zkey
from quod.formats.zkey.infinity import MAY_BE_INFINITE
from quod.frozen import frozen
from quod.groth16.phase2.initial_key import NewKey, open_inputs
from quod.groth16.phase2.key_contribution import (
    Ceremony,
    KeyContribution,
    check_deltas,
)
from quod.groth16.phase2.quotient_points import check_powers, quotient_sums
from quod.groth16.phase2.resumed_points import KeyPointStore

# The sections that contributions leave unchanged, with their names in messages.
_UNCHANGED = {3: "ic", 4: "coefficients", 5: "a", 6: "b_g1", 7: "b_g2"}
_C_SECTION = 8
_DIVIDED_LISTS = ("c", "h")


@frozen
class VerifiedKey:
    """A verified key: its curve, its circuit hash, and each contribution with its hash."""

    curve: str
    circuit_hash: bytes
    contributions: tuple[tuple[KeyContribution, bytes], ...]


def verify_from_r1cs(
    r1cs: Path,
    ptau: Path,
    zkey: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    max_hashes: int = MAX_HASHES,
) -> VerifiedKey:
    """Check a key against its circuit and prepared powers of tau.

    resume: whether to skip parts that an interrupted run has verified, according to the user's
        cache.
    report: gets a line if parts are skipped.
    max_hashes: the limit on the hashes of all beacons together.

    No hash covers the names of contributors, so anyone may have changed them. The powers are only
    checked to be on their curves; `quod.ceremony.verify` verifies them. Raises VerificationError,
    with the contribution's number or the section that differs, for an invalid key; InputError for
    files that are damaged or have points outside their groups, and for beacons with too many
    hashes; MismatchError for another curve.
    """
    timeline, resolved_device = or_null(timeline), resolve_device(device)
    system, powers = open_inputs(r1cs, ptau)
    verification = _KeyVerification(zkey, resolved_device, timeline)
    verification.check_curve(system.curve, system.path)
    verification.check_sizes(system.wires, system.public, 1 << powers.power, system.path)
    verification.check_contributions(max_hashes)
    with verification.open_record(
        powers.ptau.file, system.file, resume=resume, report=report
    ) as parts:
        verification.check_points(parts)
        with timeline.stage("check powers"):
            powers.check(resolve_device("cpu"))
        point_store = KeyPointStore(
            parts, verification.file, system.file, powers.arrays(), _UNCHANGED
        )
        initial_key = NewKey(resolved_device, system, powers, timeline, point_store)
        for section in initial_key.sections():
            chunks = (np.frombuffer(as_bytes(chunk), np.uint8) for chunk in section.parts())
            if section.identifier == 2:
                verification.check_header(b"".join(chunk.tobytes() for chunk in chunks))
            elif section.identifier == 10:
                verification.check_circuit_hash(next(iter(chunks)).tobytes()[:64])
            else:
                verification.compare(section.identifier, chunks, parts)
        verification.check_quotient(powers.ptau, parts)
    verification.check_unchanged(powers.ptau.file, system.file)
    return verification.verified


def verify_from_init(
    init: Path,
    ptau: Path,
    zkey: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    max_hashes: int = MAX_HASHES,
) -> VerifiedKey:
    """Check a key against the initial key, before any contribution, and the powers of tau.

    This does not verify that the initial key is the circuit's. Parameters and errors are those of
    `verify_from_r1cs`.
    """
    timeline, resolved_device = or_null(timeline), resolve_device(device)
    file, powers = Iden3File.open(init, KIND, VERSION), PowersOfTau.open(ptau)
    initial_key = Zkey.of(file)
    verification = _KeyVerification(zkey, resolved_device, timeline)
    verification.check_curve(initial_key.curve, initial_key.path)
    verification.check_curve(powers.curve, powers.path)
    verification.check_sizes(
        initial_key.variables, initial_key.public, initial_key.domain_size, initial_key.path
    )
    ceremony = Ceremony.read(file, CURVES[initial_key.curve])
    if ceremony.contributions:
        raise InputError(
            "has contributions; use the key before the first one", path=initial_key.path
        )
    check_powers(initial_key, powers)
    verification.check_contributions(max_hashes)
    with verification.open_record(powers.file, file, resume=resume, report=report) as parts:
        verification.check_points(parts)
        verification.check_header(_section(file, 2).tobytes())
        verification.check_circuit_hash(ceremony.circuit_hash)
        for identifier in (*_UNCHANGED, _C_SECTION):
            verification.compare(identifier, _chunks(_section(file, identifier)), parts)
        verification.check_quotient(powers, parts)
    verification.check_unchanged(powers.file, file)
    return verification.verified


def _section(file: Iden3File, identifier: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    section = file.sections[identifier]
    return np.frombuffer(file.data, np.uint8, section.length, section.offset)


def _chunks(data: np.ndarray[Any, np.dtype[np.uint8]]) -> Iterator[Any]:
    """Yield chunks of whole points: the chunk size is a multiple of all point sizes."""
    chunk_bytes = 3 << 22
    return (data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes))


class _KeyVerification:
    """The verification of a key; its methods raise VerificationError for an invalid key."""

    def __init__(self, path: Path, device: AnyDevice, timeline: Timeline) -> None:
        self._device, self._timeline = device, timeline
        self.file = Iden3File.open(path, KIND, VERSION)
        self._zkey = Zkey.of(self.file)
        self._zkey.check_points()
        self._curve: PairingCurve = CURVES[self._zkey.curve]
        self._ceremony = Ceremony.read(self.file, self._curve)
        self._hashes: list[bytes] = []

    @property
    def verified(self) -> VerifiedKey:
        """The result of the verification; read it after all checks."""
        pairs = zip(self._ceremony.contributions, self._hashes, strict=True)
        return VerifiedKey(self._curve.name, self._ceremony.circuit_hash, tuple(pairs))

    def open_record(
        self, *others: Iden3File, resume: bool, report: Callable[[str], None]
    ) -> VerifiedParts:
        """Return the record of parts that this or an interrupted run has verified."""
        return VerifiedParts(self.file, *others, resume=resume, report=report)

    def _fail(self, reason: str) -> NoReturn:
        raise VerificationError(f"{self._zkey.path}: {reason}")

    def check_unchanged(self, *others: Iden3File) -> None:
        """Raise InputError if the key or another file has changed since it was opened.

        The files are read more than once.
        """
        for file in (self.file, *others):
            file.check_unchanged()

    def check_curve(self, curve: str, path: str) -> None:
        """Raise MismatchError for a key over another curve."""
        if curve != self._zkey.curve:
            raise MismatchError(
                f"{self._zkey.path}: the key is over {self._zkey.curve} and {path} over {curve}; "
                "use files over the same curve"
            )

    def check_sizes(self, wires: int, public: int, domain_size: int, path: str) -> None:
        """Raise VerificationError for a key of another circuit."""
        sizes = (self._zkey.variables, self._zkey.public, self._zkey.domain_size)
        if sizes != (wires, public, domain_size):
            self._fail(
                f"is for another circuit than {path}: {sizes[0]} variables, {sizes[1]} public ones "
                f"and a domain of {sizes[2]}, not {wires}, {public} and {domain_size}"
            )

    def check_contributions(self, max_hashes: int) -> None:
        """Check all contributions and the deltas; raise VerificationError for an invalid one.

        Raises InputError if the beacons need more than `max_hashes` hashes.
        """
        curve, zkey = self._curve, self._zkey
        details = [contribution.details for contribution in self._ceremony.contributions]
        check_hashes(self.file.path, details, max_hashes)
        check_deltas(zkey)
        previous_delta: G1Point = curve.g1.generator
        digests = self._ceremony.digests()
        with self._timeline.stage("contributions") as stage:
            for number, contribution in enumerate(self._ceremony.contributions):
                contribution.check(
                    self.file.path, number + 1, curve, next(digests), previous_delta, self._timeline
                )
                self._hashes.append(contribution.hash(curve))
                previous_delta = contribution.delta_g1
                stage.progress(number + 1, len(self._ceremony.contributions))
        if not self._ceremony.contributions:
            self._fail("nobody contributed to it, so anyone can forge proofs; contribute first")
        (delta_g1,) = to_points(group_of(curve, 1), zkey.delta_g1[None])
        (delta_g2,) = to_points(group_of(curve, 2), zkey.delta_g2[None])
        if delta_g1 != previous_delta:
            self._fail(
                f"delta_g1 differs from that of contribution {len(self._ceremony.contributions)}"
            )
        if not same_ratio(curve, (curve.g1.generator, delta_g1), (curve.g2.generator, delta_g2)):
            self._fail("delta_g2 and delta_g1 have different values of delta")

    def check_points(self, parts: VerifiedParts) -> None:
        """Raise InputError for a point of c or h outside its group, and for infinity in h.

        Other points need no check, as they are compared with those of the initial key.
        """
        group = group_of(self._curve, 1)
        for name in _DIVIDED_LISTS:
            points: Words = getattr(self._zkey, name)
            with self._timeline.stage(f"points of {name}") as stage:
                for begin, end in blocks(group, len(points)):
                    check = partial(self._check_block, name, points, begin, end, stage)
                    parts.once(f"points of {name} in {group.name}", check, points[begin:end])

    def _check_block(self, name: str, points: Words, begin: int, end: int, stage: Stage) -> None:
        """Raise InputError for one of points[begin:end] that is not in the group."""
        group = group_of(self._curve, 1)
        for first, last in windows(group, end - begin):
            window = np.array(points[begin + first : begin + last])
            bad_point = first_bad_point(
                self._device, group, window, subgroup=True, infinity=name in MAY_BE_INFINITE
            )
            if bad_point is not None:
                self._zkey.refuse(name, begin + first + bad_point[0], bad_point[1])
            stage.progress(begin + last, len(points))

    def check_header(self, data: bytes) -> None:
        """Raise VerificationError unless the header equals the initial key's up to the deltas."""
        delta_bytes = self._zkey.delta_g1.nbytes + self._zkey.delta_g2.nbytes
        header = _section(self.file, 2).tobytes()
        if header[:-delta_bytes] == data[:-delta_bytes]:
            return
        start = len(header) - delta_bytes
        for name in ("gamma_g2", "beta_g2", "beta_g1", "alpha_g1"):
            end, start = start, start - getattr(self._zkey, name).nbytes
            if header[start:end] != data[start:end]:
                self._fail(f"{name} differs from the initial key's")
        self._fail("its header differs from the initial key's")

    def check_circuit_hash(self, circuit_hash: bytes) -> None:
        """Raise VerificationError for another circuit hash."""
        if circuit_hash != self._ceremony.circuit_hash:
            self._fail("its circuit hash differs from the initial key's")

    def compare(self, identifier: int, chunks: Iterator[Any], parts: VerifiedParts) -> None:
        """Raise VerificationError unless a section is valid, given that of the initial key.

        chunks: the initial key's section in chunks of whole points. Those of h are generated, as
            the circuit hash covers them, but not compared; `check_quotient` checks h.
        """
        section, offset = _section(self.file, identifier), 0
        for chunk in chunks:
            key_chunk = section[offset : offset + len(chunk)]
            if identifier in _UNCHANGED:
                self._check_equal(identifier, key_chunk, chunk, offset)
            elif identifier == _C_SECTION and len(chunk):
                check = partial(self._check_divided, key_chunk, chunk)
                parts.once(
                    f"divided over {self._curve.name}", check, key_chunk, chunk, self._zkey.delta_g2
                )
            offset += len(chunk)

    def _check_equal(self, identifier: int, key_chunk: Any, chunk: Any, offset: int) -> None:
        if np.array_equal(key_chunk, chunk):
            return
        mask = key_chunk != chunk[: len(key_chunk)]
        first_difference = int(np.argmax(mask)) if mask.any() else len(key_chunk)
        self._fail(
            f"section {identifier} ({_UNCHANGED[identifier]}) differs from the initial key's from "
            f"byte {offset + first_difference} on"
        )

    def _check_divided(self, key_chunk: Any, chunk: Any) -> None:
        group = group_of(self._curve, 1)
        points = [
            np.ascontiguousarray(data).view("<u4").reshape(-1, *group.shape)
            for data in (key_chunk, chunk)
        ]
        after, before = random_sums(self._device, group, *points)
        if not self._is_divided(after, before):
            self._fail("c is not the initial key's c, divided by delta")

    def _is_divided(self, after: Point, before: Point) -> bool:
        """Return whether delta * after equals before."""
        if after is None and before is None:
            return True
        (delta_g2,) = to_points(group_of(self._curve, 2), self._zkey.delta_g2[None])
        return same_ratio(self._curve, (after, before), (self._curve.g2.generator, delta_g2))

    def check_quotient(self, powers: PowersOfTau, parts: VerifiedParts) -> None:
        """Raise VerificationError unless h is valid for the powers of tau.

        The Lagrange bases of prepared powers are not used.
        """

        def check() -> None:
            if not self._is_divided(*quotient_sums(self._device, self._zkey, powers)):
                self._fail("h does not match the powers of tau, divided by delta")

        zkey = self._zkey
        tau_powers = powers.tau_g1[: 2 * zkey.domain_size - 1]
        with self._timeline.stage("h of the powers"):
            parts.once(f"h over {zkey.curve}", check, zkey.h, tau_powers, zkey.delta_g2)
