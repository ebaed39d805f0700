"""One contribution to powers of tau, as section 7 of their files has it.

In files: the second point of tau_g1 and tau_g2 and the first of alpha_tau_g1, beta_tau_g1 and
beta_g2 after the contribution; the keys, P and s*P of tau, alpha and beta, then s*Q of each; the
state of the hash of the response before the keys; the challenge for whoever is next; details.
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
"""The secrets of a contribution; the number of each is hashed with its key."""

HASH_BYTES = 64
MOST_CONTRIBUTIONS = 1 << 16


@frozen
class Results:
    """The points that determine the powers after a contribution: each secret in its groups."""

    tau_g1: G1Point
    tau_g2: G2Point
    alpha_g1: G1Point
    beta_g1: G1Point
    beta_g2: G2Point


RESULTS = (("tau_g1", 1), ("tau_g2", 2), ("alpha_g1", 1), ("beta_g1", 1), ("beta_g2", 2))
"""Names and degrees of the points of `Results`, in the order of files."""


def initial_results(curve: PairingCurve) -> Results:
    """Before any contribution all powers are the generators."""
    g1, g2 = curve.g1.generator, curve.g2.generator
    return Results(g1, g2, g1, g1, g2)


@frozen
class Contribution:
    """A contribution; `keys` are those of tau, alpha and beta. Points are in their groups."""

    results: Results
    keys: tuple[PublicKey, PublicKey, PublicKey]
    hash_state: bytes
    next_challenge: bytes
    details: Details

    @classmethod
    def read(cls, section: SectionReader, curve: PairingCurve, number: int) -> Contribution:
        """The next one of a section; `number`, from 1 on, is for messages.

        InputError, with its place, for points that are infinity or outside their groups.
        """
        what = f"contribution {number}"
        results = Results(
            *(take_point(section, curve, degree, f"{what}: {name}") for name, degree in RESULTS)
        )
        first = [
            take_point(section, curve, 1, f"{what}: {part} of {name}")
            for name in NAMES
            for part in ("g1_s", "g1_sx")
        ]
        second = [take_point(section, curve, 2, f"{what}: g2_spx of {name}") for name in NAMES]
        start = section.offset
        state = bytes(section.take(STATE_BYTES, f"{what}: the state of its hash"))
        try:
            Blake2b.from_state(state)
        except InputError as error:
            section.fail(f"{what}: {error}; the file is damaged", start)
        challenge = bytes(section.take(HASH_BYTES, f"{what}: the next challenge"))
        keys = (
            PublicKey(first[0], first[1], second[0]),
            PublicKey(first[2], first[3], second[1]),
            PublicKey(first[4], first[5], second[2]),
        )
        return cls(results, keys, state, challenge, Details.read(section))

    def data(self, curve: PairingCurve) -> bytes:
        """The bytes that `read` takes."""
        points = [
            point_data(curve, degree, getattr(self.results, name)) for name, degree in RESULTS
        ]
        points += [point_data(curve, 1, key.g1_s, key.g1_sx) for key in self.keys]
        points += [point_data(curve, 2, key.g2_spx) for key in self.keys]
        return b"".join([*points, self.hash_state, self.next_challenge, self.details.data()])

    def response_hash(self, curve: PairingCurve) -> bytes:
        """The hash that the contributor tells the world, to be found in the file."""
        return finished(Blake2b.from_state(self.hash_state), keys_bytes(curve, self.keys))


def finished(hasher: Blake2b, keys: bytes) -> bytes:
    """The hash of a response, of what came before its keys and of them."""
    return hasher.copy().update(keys).digest()


def keys_bytes(curve: PairingCurve, keys: Iterable[PublicKey]) -> bytes:
    """The keys as responses end with them."""
    keys = list(keys)
    first = b"".join(key.first_bytes(curve) for key in keys)
    return first + b"".join(key.second_bytes(curve) for key in keys)


def read_contributions(file: PowersOfTau) -> list[Contribution]:
    """All of a file, in order. Raises InputError for a section that is anything else."""
    section = file.contributions_section()
    start = section.offset
    count = section.u32("the number of contributions")
    if count > MOST_CONTRIBUTIONS:
        section.fail(f"{count} contributions are too many; the file is damaged", start)
    curve = file.curve_parameters
    contributions = [Contribution.read(section, curve, number) for number in range(1, count + 1)]
    section.finish()
    return contributions


def contributions_data(curve: PairingCurve, contributions: Iterable[Contribution]) -> bytes:
    """Section 7 of a file."""
    parts = [contribution.data(curve) for contribution in contributions]
    return little_u32(len(parts)) + b"".join(parts)


def key_digest(number: int, challenge: bytes) -> Digest:
    """The hash function that binds the public key of a secret to a challenge.

    number: the index of the secret in `NAMES`.
    """
    return lambda points: blake2b(bytes([number]), challenge, points)


def make_keys(
    curve: PairingCurve,
    challenge: bytes,
    secrets: Iterable[Secret],
    stream: ChaChaStream | None = None,
) -> tuple[PublicKey, PublicKey, PublicKey]:
    """The keys of secrets for a challenge; a beacon's have their P from its `stream`."""
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
    """tau, alpha and beta of a beacon, which anyone can compute."""
    return [Secret.of_public(curve.fr, stream.next_element(curve.fr)) for _ in NAMES]


def beacon_keys(
    curve: PairingCurve, challenge: bytes, beacon: Beacon, timeline: Timeline
) -> tuple[PublicKey, PublicKey, PublicKey]:
    """The keys that a beacon's contribution to a challenge must have."""
    stream = beacon.followed_stream(timeline)
    return make_keys(curve, challenge, beacon_secrets(curve, stream), stream)
