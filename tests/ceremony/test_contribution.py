"""Contributions, keys, beacons and hashes to points, against those of snarkjs."""

from __future__ import annotations

import pytest

from quod.ceremony.beacon import Beacon
from quod.ceremony.chacha import ChaChaStream
from quod.ceremony.details import Details
from quod.ceremony.powers.contribution import (
    beacon_keys,
    contributions_data,
    key_digest,
    make_keys,
    read_contributions,
)
from quod.ceremony.public_key import random_g1
from quod.ceremony.random_points import hash_to_g2
from quod.ceremony.secret import Secret
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.formats.iden3 import SectionReader
from quod.formats.ptau import PowersOfTau
from tests.ceremony.ceremonies import PTAU, RESPONSES
from tests.support.thorough import one_and_others

CURVE_NAMES = sorted(PTAU)


def test_the_stream_is_chacha20() -> None:
    # RFC 8439, appendix A.1, test vectors 1 and 2: key and nonce of zeros.
    stream = ChaChaStream(bytes(32))
    words = b"".join(stream.next_u32().to_bytes(4, "little") for _ in range(32))
    assert words.hex() == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )


@pytest.mark.parametrize("name", one_and_others(CURVE_NAMES, always=["bn254"]))
def test_snarkjs_contributions_round_trip(name: str) -> None:
    file = PowersOfTau.open(PTAU[name])
    contributions = read_contributions(file)
    curve = file.curve_parameters
    assert contributions_data(curve, contributions) == bytes(file.contributions_section().rest())
    assert [contribution.response_hash(curve).hex() for contribution in contributions] == list(
        RESPONSES[name]
    )
    assert [contribution.details.name for contribution in contributions] == ["one", "final"]
    challenge = contributions[0].next_challenge
    beacon = contributions[1].details.beacon
    assert beacon is not None
    assert beacon_keys(curve, challenge, beacon, Timeline()) == contributions[1].keys
    other = Beacon(beacon.value, beacon.exponent + 1)
    assert beacon_keys(curve, challenge, other, Timeline()) != contributions[1].keys
    for number, key in enumerate(contributions[1].keys):
        assert key.is_proof(curve, key_digest(number, challenge))
        # Bound to what it is of and to what came before.
        assert not key.is_proof(curve, key_digest(number + 1, challenge))
        assert not key.is_proof(curve, key_digest(number, contributions[1].next_challenge))


@pytest.mark.parametrize("name", one_and_others(CURVE_NAMES, always=["bn254"]))
def test_keys_of_secrets_are_proofs(name: str) -> None:
    curve = CURVES[name]
    with Secret.drawn(curve.fr) as first, Secret.drawn(curve.fr) as second:
        keys = make_keys(curve, b"challenge", [first, second, first])
    law = g1_group(curve)
    assert all(law.in_subgroup(key.g1_s) for key in keys)
    assert all(
        key.is_proof(curve, key_digest(number, b"challenge")) for number, key in enumerate(keys)
    )
    assert keys[0].g1_s != keys[2].g1_s


@pytest.mark.parametrize("name", CURVE_NAMES)
def test_drawn_points_are_in_their_groups(name: str) -> None:
    curve = CURVES[name]
    second, point = g2_group(curve), hash_to_g2(curve, bytes(range(64)))
    assert point is not None
    assert second.contains(point)
    assert second.multiply(curve.fr.value, point) is None
    drawn = random_g1(curve)
    assert g1_group(curve).contains(drawn)
    assert drawn != random_g1(curve)


def _reader(data: bytes) -> SectionReader:
    return SectionReader("a.ptau", "7 (contributions)", memoryview(data), 0, len(data))


@pytest.mark.parametrize(
    "details",
    [
        Details(),
        Details("é" * 100),
        Details("x", Beacon(b"\1" * 255, 63)),
        Details("", Beacon(b"\1", 10)),
    ],
)
def test_details_round_trip(details: Details) -> None:
    assert Details.read(_reader(details.data())) == details


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("02000000 00000000", "the unknown type 2"),
        ("00000000 05000000 0101", "needs 5 bytes"),
        ("00000000 04000000 01054142", "end within"),
        ("00000000 01000000 01", "end within"),
        ("00000000 06000000 010141 010141", "ascending"),
        ("01000000 07000000 03 01 ff 02 0a 01 00", "ascending"),
        ("00000000 02000000 0400", "the unknown number 4"),
        ("01000000 00000000", "do not belong to its type"),
        ("00000000 02000000 020a", "do not belong to its type"),
        ("00000000 03000000 0101ff", "not UTF-8"),
        ("01000000 05000000 0209 0301ff", "have the beacon exponent 9; it must be 10 to 63"),
        ("01000000 05000000 0240 0301ff", "have the beacon exponent 64; it must be 10 to 63"),
        ("01000000 04000000 020a 0300", "have an empty beacon value"),
    ],
)
def test_invalid_details_are_rejected(data: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        Details.read(_reader(bytes.fromhex(data)))
    assert refused.value.section == "7 (contributions)"
    assert refused.value.offset is not None


@pytest.mark.parametrize("text", ["", "0x", "abc", "xyz0", "01 02"])
def test_a_beacon_is_hexadecimal(text: str) -> None:
    with pytest.raises(InputError, match="hexadecimal"):
        Beacon.from_hex(text, 10)


def test_beacon_reports_progress() -> None:
    seen: list[float] = []
    Beacon.from_hex("0x0102", 17).stream(seen.append)
    assert seen == [0.5, 1.0]
    for exponent in (9, 64):
        with pytest.raises(InputError, match="exponent"):
            Beacon(b"\1", exponent)
    with pytest.raises(InputError, match="255 bytes"):
        Beacon(bytes(256), 10)
