"""Verification of a key against its circuit, powers of tau and contributions.

It is stricter than snarkjs. Sections that contributions leave unchanged are recomputed from the
circuit and the powers, or read from a key before its first contribution, and compared byte for
byte, as is the circuit hash. Contributions divide c and h by their secrets, so these are compared
by random sums with 128-bit coefficients and pairings. h is compared with the powers themselves:
keys whose contributions were made to MPC parameters lack the coefficient of h that no quotient has
(`quod.groth16.phase2.mpc_parameters`). Every point must be in its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import numpy as np

from quod.ceremony.powers.hash_limit import MOST_HASHES, check_hashes
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

# What no contribution touches, by section.
_KEPT = {3: "ic", 4: "the coefficients", 5: "a", 6: "b_g1", 7: "b_g2"}
_PRIVATE = 8
_DIVIDED = ("c", "h")


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
    max_hashes: int = MOST_HASHES,
) -> VerifiedKey:
    """Check a key against its circuit and prepared powers of tau.

    With `resume` it skips parts that an interrupted run has verified, which the user's cache
    records, and `report` gets a line that says so. No hash covers the names of contributors: anyone
    may have changed them.

    Whether the powers are any good is for `quod.ceremony.verify`. VerificationError, with the
    number of the contribution and what differs, for a key that does not follow; InputError for
    files that are damaged or have points outside their groups, and for beacons that take more than
    `max_hashes` hashes; MismatchError for another curve.
    """
    timeline, opened = or_null(timeline), resolve_device(device)
    system, powers = open_inputs(r1cs, ptau)
    checked = _KeyVerification(zkey, opened, timeline)
    checked.check_curve(system.curve, system.path)
    checked.check_sizes(system.wires, system.public, 1 << powers.power, system.path)
    checked.check_contributions(max_hashes)
    with checked.in_parts(powers.ptau.file, system.file, resume=resume, report=report) as parts:
        checked.check_points(parts)
        with timeline.stage("check powers"):
            powers.check(resolve_device("cpu"))
        kept = KeyPointStore(parts, checked.file, system.file, powers.arrays(), _KEPT)
        initial_key = NewKey(opened, system, powers, timeline, kept)
        for section in initial_key.sections():
            pieces = (np.frombuffer(as_bytes(piece), np.uint8) for piece in section.parts())
            if section.identifier == 2:
                checked.check_header(b"".join(piece.tobytes() for piece in pieces))
            elif section.identifier == 10:
                checked.check_circuit_hash(next(iter(pieces)).tobytes()[:64])
            else:
                checked.compare(section.identifier, pieces, parts)
        checked.check_quotient(powers.ptau, parts)
    checked.check_unchanged(powers.ptau.file, system.file)
    return checked.verified


def verify_from_init(
    init: Path,
    ptau: Path,
    zkey: Path,
    *,
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    max_hashes: int = MOST_HASHES,
) -> VerifiedKey:
    """Check a key against the one before its first contribution, and the powers of tau of both.

    That one is taken as it is: whoever made it from the circuit can say so. Goes on and raises as
    `verify_from_r1cs`.
    """
    timeline, opened = or_null(timeline), resolve_device(device)
    file, powers = Iden3File.open(init, KIND, VERSION), PowersOfTau.open(ptau)
    first = Zkey.of(file)
    checked = _KeyVerification(zkey, opened, timeline)
    checked.check_curve(first.curve, first.path)
    checked.check_curve(powers.curve, powers.path)
    checked.check_sizes(first.variables, first.public, first.domain_size, first.path)
    ceremony = Ceremony.read(file, CURVES[first.curve])
    if ceremony.contributions:
        raise InputError("has contributions; use the key before the first one", path=first.path)
    check_powers(first, powers)
    checked.check_contributions(max_hashes)
    with checked.in_parts(powers.file, file, resume=resume, report=report) as parts:
        checked.check_points(parts)
        checked.check_header(_section(file, 2).tobytes())
        checked.check_circuit_hash(ceremony.circuit_hash)
        for identifier in (*_KEPT, _PRIVATE):
            checked.compare(identifier, _in_parts(_section(file, identifier)), parts)
        checked.check_quotient(powers, parts)
    checked.check_unchanged(powers.file, file)
    return checked.verified


def _section(file: Iden3File, identifier: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    place = file.sections[identifier]
    return np.frombuffer(file.data, np.uint8, place.length, place.offset)


def _in_parts(data: np.ndarray[Any, np.dtype[np.uint8]]) -> Iterator[Any]:
    """Yield chunks of whole points: the chunk size is a multiple of all point sizes."""
    step = 3 << 22
    return (data[start : start + step] for start in range(0, len(data), step))


class _KeyVerification:
    """A key that is being verified."""

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
        """The circuit hash, and each contribution with its hash."""
        pairs = zip(self._ceremony.contributions, self._hashes, strict=True)
        return VerifiedKey(self._curve.name, self._ceremony.circuit_hash, tuple(pairs))

    def in_parts(
        self, *others: Iden3File, resume: bool, report: Callable[[str], None]
    ) -> VerifiedParts:
        """The parts of the key and of other files that an interrupted run has verified."""
        return VerifiedParts(self.file, *others, resume=resume, report=report)

    def _refuse(self, why: str) -> NoReturn:
        raise VerificationError(f"{self._zkey.path}: {why}")

    def check_unchanged(self, *others: Iden3File) -> None:
        """InputError if the key or another file was written to meanwhile: files are read more than
        once."""
        for file in (self.file, *others):
            file.check_unchanged()

    def check_curve(self, curve: str, path: str) -> None:
        """MismatchError for a key over another curve."""
        if curve != self._zkey.curve:
            raise MismatchError(
                f"{self._zkey.path}: the key is over {self._zkey.curve} and {path} over {curve}; "
                "give files that belong together"
            )

    def check_sizes(self, wires: int, public: int, domain_size: int, path: str) -> None:
        """VerificationError for a key of another circuit."""
        sizes = (self._zkey.variables, self._zkey.public, self._zkey.domain_size)
        if sizes != (wires, public, domain_size):
            self._refuse(
                f"is of another circuit than {path}: {sizes[0]} variables, {sizes[1]} public ones "
                f"and a domain of {sizes[2]}, not {wires}, {public} and {domain_size}"
            )

    def check_contributions(self, max_hashes: int) -> None:
        """VerificationError for a contribution that does not follow, and for the deltas.

        InputError for beacons that take more hashes than allowed.
        """
        curve, zkey = self._curve, self._zkey
        details = [each.details for each in self._ceremony.contributions]
        check_hashes(self.file.path, details, max_hashes)
        check_deltas(zkey)
        before: G1Point = curve.g1.generator
        digests = self._ceremony.digests()
        with self._timeline.stage("contributions") as stage:
            for number, contribution in enumerate(self._ceremony.contributions):
                contribution.check(
                    self.file.path, number + 1, curve, next(digests), before, self._timeline
                )
                self._hashes.append(contribution.hash(curve))
                before = contribution.delta_g1
                stage.progress(number + 1, len(self._ceremony.contributions))
        if not self._ceremony.contributions:
            self._refuse("nobody contributed to it, so anyone can forge proofs; contribute first")
        (delta_g1,) = to_points(group_of(curve, 1), zkey.delta_g1[None])
        (delta_g2,) = to_points(group_of(curve, 2), zkey.delta_g2[None])
        if delta_g1 != before:
            self._refuse(
                f"delta_g1 differs from that of contribution {len(self._ceremony.contributions)}"
            )
        if not same_ratio(curve, (curve.g1.generator, delta_g1), (curve.g2.generator, delta_g2)):
            self._refuse("delta_g2 and delta_g1 have different values of delta")

    def check_points(self, parts: VerifiedParts) -> None:
        """InputError for a point of c or h that is not in its group, and for one of h at infinity.

        The others are compared with those of a key that is known.
        """
        group = group_of(self._curve, 1)
        for name in _DIVIDED:
            points: Words = getattr(self._zkey, name)
            with self._timeline.stage(f"points of {name}") as stage:
                for begin, end in blocks(group, len(points)):
                    look = partial(self._check_block, name, points, begin, end, stage)
                    parts.once(f"points of {name} in {group.name}", look, points[begin:end])

    def _check_block(self, name: str, points: Words, begin: int, end: int, stage: Stage) -> None:
        group = group_of(self._curve, 1)
        for first, last in windows(group, end - begin):
            window = np.array(points[begin + first : begin + last])
            bad = first_bad_point(
                self._device, group, window, subgroup=True, infinity=name in MAY_BE_INFINITE
            )
            if bad is not None:
                self._zkey.refuse(name, begin + first + bad[0], bad[1])
            stage.progress(begin + last, len(points))

    def check_header(self, data: bytes) -> None:
        """VerificationError unless alpha, beta and gamma are those of a header before."""
        deltas = self._zkey.delta_g1.nbytes + self._zkey.delta_g2.nbytes
        header = _section(self.file, 2).tobytes()
        if header[:-deltas] == data[:-deltas]:
            return
        at = len(header) - deltas
        for name in ("gamma_g2", "beta_g2", "beta_g1", "alpha_g1"):
            end, at = at, at - getattr(self._zkey, name).nbytes
            if header[at:end] != data[at:end]:
                self._refuse(f"{name} does not match the powers of tau")
        self._refuse("its header does not match the circuit")

    def check_circuit_hash(self, circuit_hash: bytes) -> None:
        """VerificationError for another circuit hash."""
        if circuit_hash != self._ceremony.circuit_hash:
            self._refuse("its circuit hash does not match the circuit and the powers of tau")

    def compare(self, identifier: int, pieces: Iterator[Any], parts: VerifiedParts) -> None:
        """VerificationError unless a section follows from that of the key before contributions.

        Of h, which `check_quotient` looks at, the pieces are made and nothing else.
        """
        section, at = _section(self.file, identifier), 0
        for piece in pieces:
            key_piece = section[at : at + len(piece)]
            if identifier in _KEPT:
                self._check_same(identifier, key_piece, piece, at)
            elif identifier == _PRIVATE and len(piece):
                check = partial(self._check_divided, key_piece, piece)
                parts.once(
                    f"divided over {self._curve.name}", check, key_piece, piece, self._zkey.delta_g2
                )
            at += len(piece)

    def _check_same(self, identifier: int, key_piece: Any, piece: Any, at: int) -> None:
        if np.array_equal(key_piece, piece):
            return
        differs = key_piece != piece[: len(key_piece)]
        where = int(np.argmax(differs)) if differs.any() else len(key_piece)
        self._refuse(
            f"{_KEPT[identifier]} of the key does not match the circuit and the powers "
            f"of tau (section {identifier}, byte {at + where})"
        )

    def _check_divided(self, key_piece: Any, piece: Any) -> None:
        group = group_of(self._curve, 1)
        both = [
            np.ascontiguousarray(data).view("<u4").reshape(-1, *group.shape)
            for data in (key_piece, piece)
        ]
        after, before = random_sums(self._device, group, *both)
        if not self._is_divided(after, before):
            self._refuse("c is not the initial key's c, divided by delta")

    def _is_divided(self, after: Point, before: Point) -> bool:
        """True if delta * own equals the point `before` the contributions."""
        if after is None and before is None:
            return True
        (delta_g2,) = to_points(group_of(self._curve, 2), self._zkey.delta_g2[None])
        return same_ratio(self._curve, (after, before), (self._curve.g2.generator, delta_g2))

    def check_quotient(self, powers: PowersOfTau, parts: VerifiedParts) -> None:
        """VerificationError unless h is that of the powers of tau, whatever is prepared of them."""

        def check() -> None:
            if not self._is_divided(*quotient_sums(self._device, self._zkey, powers)):
                self._refuse("h does not match the powers of tau, divided by delta")

        zkey = self._zkey
        tau_powers = powers.tau_g1[: 2 * zkey.domain_size - 1]
        with self._timeline.stage("h of the powers"):
            parts.once(f"h over {zkey.curve}", check, zkey.h, tau_powers, zkey.delta_g2)
