"""Contributions to powers of tau in the format of section 7 of a file.

A contribution consists of

- the second point of tau_g1 and tau_g2, and the first point of alpha_tau_g1, beta_tau_g1 and
  beta_g2, after the contribution;
- the public keys: P and s*P of tau, alpha and beta, then s*Q of each;
- the state of the response's hash before the keys are hashed;
- the next challenge;
- its details.
"""

from __future__ import annotations

from collections.abc import Iterable

from quod.ceremony.beacon import Beacon
from quod.ceremony.chacha import ChaChaStream
from quod.ceremony.details import Details
from quod.ceremony.public_key import (
    Digest,
    PublicKey,
    point_data,
    random_g1,
    take_point,
)
from quod.ceremony.random_points import next_g1
from quod.ceremony.secret import Secret
from quod.curve.parameters import G1Point, G2Point, PairingCurve
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.formats.iden3 import SectionReader, little_u32
from quod.formats.ptau import PowersOfTau
from quod.frozen import frozen
from quod.hash.blake2b import STATE_BYTES, Blake2b, blake2b

NAMES = ("tau", "alpha", "beta")
"""The secrets of a contribution; the index of a secret is hashed with its key."""

HASH_BYTES = 64
MAX_CONTRIBUTIONS = 1 << 16


@frozen
class Results:
    """The points that determine the powers after a contribution: generators times the secrets."""

    tau_g1: G1Point
    tau_g2: G2Point
    alpha_g1: G1Point
    beta_g1: G1Point
    beta_g2: G2Point


RESULTS = (("tau_g1", 1), ("tau_g2", 2), ("alpha_g1", 1), ("beta_g1", 1), ("beta_g2", 2))
"""Names and degrees of the points of `Results`, in the order of files."""


def initial_results(curve: PairingCurve) -> Results:
    """Return the results before any contribution: the generators."""
    g1, g2 = curve.g1.generator, curve.g2.generator
    return Results(g1, g2, g1, g1, g2)


@frozen
class Contribution:
    """A contribution; its points are in their groups.

    results: the points that determine the powers after the contribution.
    keys: the public keys of tau, alpha and beta.
    hash_state: the state of BLAKE2b before the keys are hashed.
    next_challenge: 64 bytes.
    """

    results: Results
    keys: tuple[PublicKey, PublicKey, PublicKey]
    hash_state: bytes
    next_challenge: bytes
    details: Details

    @classmethod
    def read(cls, section: SectionReader, curve: PairingCurve, number: int) -> Contribution:
        """Read the next contribution of a section.

        number: its index from 1 on, for messages.
        Raises InputError, with the offset, for points at infinity or outside their groups.
        """
        label = f"contribution {number}"
        results = Results(
            *(take_point(section, curve, degree, f"{label}: {name}") for name, degree in RESULTS)
        )
        g1_points = [
            take_point(section, curve, 1, f"{label}: {part} of {name}")
            for name in NAMES
            for part in ("g1_s", "g1_sx")
        ]
        g2_points = [take_point(section, curve, 2, f"{label}: g2_spx of {name}") for name in NAMES]
        start = section.offset
        state = bytes(section.take(STATE_BYTES, f"{label}: the state of its hash"))
        try:
            Blake2b.from_state(state)
        except InputError as error:
            section.fail(f"{label}: {error}; the file is damaged", start)
        challenge = bytes(section.take(HASH_BYTES, f"{label}: the next challenge"))
        keys = (
            PublicKey(g1_points[0], g1_points[1], g2_points[0]),
            PublicKey(g1_points[2], g1_points[3], g2_points[1]),
            PublicKey(g1_points[4], g1_points[5], g2_points[2]),
        )
        return cls(results, keys, state, challenge, Details.read(section))

    def data(self, curve: PairingCurve) -> bytes:
        """Serialise the contribution for `read`."""
        points = [
            point_data(curve, degree, getattr(self.results, name)) for name, degree in RESULTS
        ]
        points += [point_data(curve, 1, key.g1_s, key.g1_sx) for key in self.keys]
        points += [point_data(curve, 2, key.g2_spx) for key in self.keys]
        return b"".join([*points, self.hash_state, self.next_challenge, self.details.data()])

    def response_hash(self, curve: PairingCurve) -> bytes:
        """Return the hash of the response, which the contributor publishes."""
        return finished(Blake2b.from_state(self.hash_state), keys_bytes(curve, self.keys))


def finished(hasher: Blake2b, keys: bytes) -> bytes:
    """Return the hash of a response; `hasher` has hashed everything before the keys."""
    return hasher.copy().update(keys).digest()


def keys_bytes(curve: PairingCurve, keys: Iterable[PublicKey]) -> bytes:
    """Return the bytes of the keys at the end of a response."""
    keys = list(keys)
    g1_bytes = b"".join(key.first_bytes(curve) for key in keys)
    return g1_bytes + b"".join(key.second_bytes(curve) for key in keys)


def read_contributions(file: PowersOfTau) -> list[Contribution]:
    """Read all contributions of a file, in order; raise InputError if they are malformed."""
    section = file.contributions_section()
    start = section.offset
    count = section.u32("the number of contributions")
    if count > MAX_CONTRIBUTIONS:
        section.fail(f"{count} contributions are too many; the file is damaged", start)
    curve = file.curve_parameters
    contributions = [Contribution.read(section, curve, number) for number in range(1, count + 1)]
    section.finish()
    return contributions


def contributions_data(curve: PairingCurve, contributions: Iterable[Contribution]) -> bytes:
    """Serialise section 7 of a file."""
    parts = [contribution.data(curve) for contribution in contributions]
    return little_u32(len(parts)) + b"".join(parts)


def key_digest(number: int, challenge: bytes) -> Digest:
    """Return the hash function that binds the public key of a secret to a challenge.

    number: the index of the secret in `NAMES`.
    """
    return lambda points: blake2b(bytes([number]), challenge, points)


def make_keys(
    curve: PairingCurve,
    challenge: bytes,
    secrets: Iterable[Secret],
    stream: ChaChaStream | None = None,
) -> tuple[PublicKey, PublicKey, PublicKey]:
    """Return the keys of secrets for a challenge.

    stream: the stream of a beacon, from which the points P are drawn; default: random points.
    """
    tau, alpha, beta = (
        PublicKey.of(
            curve,
            secret,
            random_g1(curve) if stream is None else next_g1(curve, stream),
            key_digest(number, challenge),
        )
        for number, secret in enumerate(secrets)
    )
    return tau, alpha, beta


def beacon_secrets(curve: PairingCurve, stream: ChaChaStream) -> list[Secret]:
    """Return the tau, alpha and beta of a beacon, which anyone can compute."""
    return [Secret.of_public(curve.fr, stream.next_element(curve.fr)) for _ in NAMES]


def beacon_keys(
    curve: PairingCurve, challenge: bytes, beacon: Beacon, timeline: Timeline
) -> tuple[PublicKey, PublicKey, PublicKey]:
    """Return the keys that a beacon's contribution to a challenge must have."""
    stream = beacon.followed_stream(timeline)
    return make_keys(curve, challenge, beacon_secrets(curve, stream), stream)
