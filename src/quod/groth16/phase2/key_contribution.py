"""Contributions to a key in the format of section 10 of a zkey, and the transcript that binds them.

A contribution consists of delta in G1 after it, the contributor's public key for the secret s (P
and s*P in G1, s*Q in G2; `quod.ceremony.public_key`), the 64 bytes of its transcript, and its
details. The transcript is BLAKE2b-512 of the circuit hash, of all earlier contributions, and of P
and s*P. Q is the transcript hashed to G2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

from quod.ceremony.chacha import ChaChaStream
from quod.ceremony.details import Details
from quod.ceremony.point_bytes import uncompressed_points
from quod.ceremony.powers.contribution import HASH_BYTES, MAX_CONTRIBUTIONS
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
    """One contribution. Points that were read from a file are in their groups and not infinity.

    delta_g1: delta in G1 after the contribution.
    key: P, s*P and s*Q, as `g1_s`, `g1_sx` and `g2_spx`.
    transcript: 64 bytes.
    details: the contributor's name, and the beacon if the secret is from one.
    """

    delta_g1: G1Point
    key: PublicKey
    transcript: bytes
    details: Details

    @classmethod
    def read(cls, section: SectionReader, curve: PairingCurve, number: int) -> KeyContribution:
        """Read the next contribution of a section; raise InputError if it is malformed.

        number: the contribution's index from 1 on, for messages.
        """
        label = f"contribution {number}"
        points = [
            take_point(section, curve, degree, f"{label}: {name}")
            for name, degree in (("delta_g1", 1), ("g1_s", 1), ("g1_sx", 1), ("g2_spx", 2))
        ]
        transcript = bytes(section.take(HASH_BYTES, f"{label}: its transcript"))
        return cls(points[0], PublicKey(*points[1:]), transcript, Details.read(section))

    def data(self, curve: PairingCurve) -> bytes:
        """Serialise the contribution for `read`."""
        return b"".join(
            [
                point_data(curve, 1, self.delta_g1, self.key.g1_s, self.key.g1_sx),
                point_data(curve, 2, self.key.g2_spx), self.transcript, self.details.data(),
            ]
        )  # fmt: skip

    def public_bytes(self, curve: PairingCurve) -> bytes:
        """Serialise the contribution for transcripts: uncompressed points, then the transcript."""
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
        previous_delta: G1Point,
        timeline: Timeline,
    ) -> None:
        """Raise VerificationError unless the contribution is valid.

        It is valid if its transcript is `digest` of its key, and its delta is that of the previous
        contribution times its secret; a beacon also determines the key.
        path, number: the zkey's path and the index of the contribution from 1 on, for messages.
        digest: the hash function that `Ceremony.digests` yields for it.
        previous_delta: the delta in G1 before the contribution.
        """
        key = self.key

        def fail(reason: str) -> NoReturn:
            raise VerificationError(f"{path}: contribution {number} is not valid: {reason}")

        if digest(key.first_bytes(curve)) != self.transcript:
            fail("its transcript does not match the circuit and the contributions before it")
        ratio = (hash_to_g2(curve, self.transcript), key.g2_spx)
        if not same_ratio(curve, (key.g1_s, key.g1_sx), ratio):
            fail("its key is not a proof of knowledge: g1_sx and g2_spx have different secrets")
        if not same_ratio(curve, (previous_delta, self.delta_g1), ratio):
            fail("its delta is not the previous delta times the secret of its key")
        if (
            self.delta_g1 is not None
            and previous_delta is not None
            and self.delta_g1[0] == previous_delta[0]
        ):
            fail("its secret is 1 or -1, which is not secret")
        if self.details.beacon is not None:
            secret, base = beacon_secret(curve, self.details.beacon.followed_stream(timeline))
            if PublicKey.of(curve, secret, base, digest) != key:
                fail("its key is not the one that its beacon determines")

    def hash(self, curve: PairingCurve) -> bytes:
        """Return the contribution hash, 64 bytes, which the contributor publishes."""
        return blake2b(self.public_bytes(curve))


@frozen
class Ceremony:
    """The circuit hash and all contributions of a key."""

    curve: PairingCurve
    circuit_hash: bytes
    contributions: tuple[KeyContribution, ...]

    @classmethod
    def read(cls, file: Iden3File, curve: PairingCurve) -> Ceremony:
        """Read section 10 of a zkey; raise InputError with the offset if it is malformed."""
        section = file.section(10, "contributions")
        circuit_hash = bytes(section.take(HASH_BYTES, "the circuit hash"))
        start = section.offset
        count = section.u32("the number of contributions")
        if count > MAX_CONTRIBUTIONS:
            section.fail(f"{count} contributions are too many; the file is damaged", start)
        contributions = tuple(KeyContribution.read(section, curve, n) for n in range(1, count + 1))
        section.finish()
        return cls(curve, circuit_hash, contributions)

    def data(self) -> bytes:
        """Serialise section 10."""
        parts = [contribution.data(self.curve) for contribution in self.contributions]
        return self.circuit_hash + little_u32(len(parts)) + b"".join(parts)

    def digests(self) -> Iterator[Digest]:
        """Yield the hash function of each contribution's public key, then of a further one's.

        The function continues the hash of the circuit and of all earlier contributions with its
        argument, bytes of the public key.
        """
        hasher = hashlib.blake2b(self.circuit_hash)
        yield partial(_digest_after, hasher.copy())
        for contribution in self.contributions:
            hasher.update(contribution.public_bytes(self.curve))
            yield partial(_digest_after, hasher.copy())

    def digest(self) -> Digest:
        """Return the hash function of the public key of a further contribution."""
        *_, next_digest = self.digests()
        return next_digest

    def with_contribution(self, added: KeyContribution) -> Ceremony:
        """Return the ceremony with a further contribution."""
        return Ceremony(self.curve, self.circuit_hash, (*self.contributions, added))


def check_deltas(zkey: Zkey) -> None:
    """Raise InputError if a delta is infinity or outside its group.

    A delta of small order, multiplied by a contributor's secret, would reveal the secret modulo
    that order, which pairing checks do not detect.
    """
    for name, degree in (("delta_g1", 1), ("delta_g2", 2)):
        points: Words = getattr(zkey, name)
        refuse = partial(zkey.refuse, name, 0)
        check_point(group_of(CURVES[zkey.curve], degree), points[None], refuse)


def beacon_secret(curve: PairingCurve, stream: ChaChaStream) -> tuple[Secret, G1Point]:
    """Return the secret of a beacon, which anyone can compute, and the P of its key."""
    return Secret.of_public(curve.fr, stream.next_element(curve.fr)), next_g1(curve, stream)


def _digest_after(hasher: Any, data: bytes) -> bytes:
    """Return the digest of a hasher's input followed by `data`; the hasher is unchanged."""
    hasher_copy = hasher.copy()
    hasher_copy.update(data)
    digest: bytes = hasher_copy.digest()
    return digest
