"""Contributions to a key, as section 10 of a zkey has them, and the transcript that binds them.

In files: delta in G1 after the contribution, P and s*P in G1 and s*Q in G2 of the contributor's key
(`quod.ceremony.public_key`), the 64 bytes of its transcript, and details. The transcript is
BLAKE2b-512 of the circuit hash, of all contributions before, and of P and s*P; Q follows from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

from quod.ceremony.chacha import ChaChaStream
from quod.ceremony.details import Details
from quod.ceremony.point_bytes import uncompressed_points
from quod.ceremony.powers.contribution import HASH_BYTES, MOST_CONTRIBUTIONS
from quod.ceremony.public_key import (
    Digest,
    PublicKey,
    check_point,
    group_of,
    point_data,
    take_point,
)
from quod.ceremony.random_points import hash_to_g2, next_g1
from quod.ceremony.ratio import same_ratio
from quod.ceremony.secret import Secret
from quod.curve.named import CURVES
from quod.curve.parameters import G1Point, PairingCurve
from quod.device.discovery import resolve_device
from quod.device.runtime.timeline import Timeline
from quod.errors import VerificationError
from quod.field.array import Words
from quod.formats.iden3 import Iden3File, SectionReader, little_u32
from quod.formats.zkey.file import Zkey
from quod.frozen import frozen
from quod.hash.blake2b import blake2b


@frozen
class KeyContribution:
    """One contribution; its points are in their groups and not infinity."""

    delta_g1: G1Point
    key: PublicKey
    transcript: bytes
    details: Details

    @classmethod
    def read(cls, section: SectionReader, curve: PairingCurve, number: int) -> KeyContribution:
        """The next one of a section; `number`, from 1 on, is for messages. Raises `InputError`."""
        what = f"contribution {number}"
        points = [
            take_point(section, curve, degree, f"{what}: {name}")
            for name, degree in (("delta_g1", 1), ("g1_s", 1), ("g1_sx", 1), ("g2_spx", 2))
        ]
        transcript = bytes(section.take(HASH_BYTES, f"{what}: its transcript"))
        return cls(points[0], PublicKey(*points[1:]), transcript, Details.read(section))

    def data(self, curve: PairingCurve) -> bytes:
        """The bytes that `read` takes."""
        return b"".join(
            [
                point_data(curve, 1, self.delta_g1, self.key.g1_s, self.key.g1_sx),
                point_data(curve, 2, self.key.g2_spx), self.transcript, self.details.data(),
            ]
        )  # fmt: skip

    def public_bytes(self, curve: PairingCurve) -> bytes:
        """The bytes of the contribution that transcripts hash."""
        host = resolve_device("cpu")
        return b"".join(
            [
                uncompressed_points(host, group_of(curve, 1), [self.delta_g1]),
                self.key.first_bytes(curve), self.key.second_bytes(curve), self.transcript,
            ]
        )  # fmt: skip

    def check(
        self,
        path: str,
        number: int,
        curve: PairingCurve,
        digest: Digest,
        before: G1Point,
        timeline: Timeline,
    ) -> None:
        """VerificationError unless it follows from what the transcript has and the delta before.

        `path` is the key's and `number` that of the contribution, from 1 on, for messages.
        """
        key = self.key

        def refuse(why: str) -> NoReturn:
            raise VerificationError(f"{path}: contribution {number} does not follow: {why}")

        if digest(key.first_bytes(curve)) != self.transcript:
            refuse("its transcript is not that of the circuit and the contributions before it")
        ratio = (hash_to_g2(curve, self.transcript), key.g2_spx)
        if not same_ratio(curve, (key.g1_s, key.g1_sx), ratio):
            refuse("its key proves no secret: g1_sx and g2_spx are not of the same one")
        if not same_ratio(curve, (before, self.delta_g1), ratio):
            refuse("its delta is not the one before times the secret of its key")
        if self.delta_g1 is not None and before is not None and self.delta_g1[0] == before[0]:
            refuse("its secret is 1 or -1, which is none")
        if self.details.beacon is not None:
            secret, first = beacon_secret(curve, self.details.beacon.followed_stream(timeline))
            if PublicKey.of(curve, secret, first, digest) != key:
                refuse("its key is not that of its beacon")

    def hash(self, curve: PairingCurve) -> bytes:
        """The 64 bytes that a contributor tells the world."""
        return blake2b(self.public_bytes(curve))


@frozen
class Ceremony:
    """The circuit hash and all contributions of a key."""

    curve: PairingCurve
    circuit_hash: bytes
    contributions: tuple[KeyContribution, ...]

    @classmethod
    def read(cls, file: Iden3File, curve: PairingCurve) -> Ceremony:
        """Section 10 of a zkey. InputError for any other form, with its place."""
        section = file.section(10, "contributions")
        circuit_hash = bytes(section.take(HASH_BYTES, "the circuit hash"))
        start = section.offset
        count = section.u32("the number of contributions")
        if count > MOST_CONTRIBUTIONS:
            section.fail(f"{count} contributions are too many; the file is damaged", start)
        contributions = tuple(KeyContribution.read(section, curve, n) for n in range(1, count + 1))
        section.finish()
        return cls(curve, circuit_hash, contributions)

    def data(self) -> bytes:
        """Section 10."""
        parts = [contribution.data(self.curve) for contribution in self.contributions]
        return self.circuit_hash + little_u32(len(parts)) + b"".join(parts)

    def digests(self) -> Iterator[Digest]:
        """Yield the hash function that binds the public key of each contribution, then of the next.

        It takes bytes of the public key and continues the hash of the circuit and of all earlier
        contributions.
        """
        hasher = hashlib.blake2b(self.circuit_hash)
        yield partial(_continued, hasher.copy())
        for contribution in self.contributions:
            hasher.update(contribution.public_bytes(self.curve))
            yield partial(_continued, hasher.copy())

    def digest(self) -> Digest:
        """The hash function that binds the public key of the next contribution."""
        *_, last = self.digests()
        return last

    def with_contribution(self, added: KeyContribution) -> Ceremony:
        """The ceremony after another contribution."""
        return Ceremony(self.curve, self.circuit_hash, (*self.contributions, added))


def check_deltas(zkey: Zkey) -> None:
    """InputError for a delta that is infinity or outside its group.

    One of small order would come back with what a secret is modulo that order, and pairings say
    nothing about it.
    """
    for name, degree in (("delta_g1", 1), ("delta_g2", 2)):
        points: Words = getattr(zkey, name)
        refuse = partial(zkey.refuse, name, 0)
        check_point(group_of(CURVES[zkey.curve], degree), points[None], refuse)


def beacon_secret(curve: PairingCurve, stream: ChaChaStream) -> tuple[Secret, G1Point]:
    """The secret of a beacon, which anyone can compute, and the P of its key."""
    return Secret.of_public(curve.fr, stream.next_element(curve.fr)), next_g1(curve, stream)


def _continued(hasher: Any, points: bytes) -> bytes:
    continuation = hasher.copy()
    continuation.update(points)
    digest: bytes = continuation.digest()
    return digest
