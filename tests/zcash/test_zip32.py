"""ZIP 32: zcash-test-vectors (MIT or Apache-2.0), of which one row stands here; AES of FIPS 197."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.curve import EDWARDS, edwards_group, encode_edwards
from quod.errors import InputError
from quod.zcash.zip32 import (
    ExtendedFullViewingKey,
    ExtendedSpendingKey,
    find_diversifier,
    indexed_diversifier,
)
from quod.zcash.zip32.aes import Aes256
from tests.zcash.test_sapling import published

JUBJUB = EDWARDS["jubjub"]
ORDER, P = JUBJUB.fr.value, JUBJUB.fq.value
SEED = bytes(range(32))
HARDENED = 1 << 31
ROW = {
    "ask": "b6c00c93d36032b9a268e99e86a860776560bf0e83c1a10b51f607c954742506",
    "nsk": "8204ede83b2f1fbd84f9b45d7f996e2ebd0a030ad243b48ed39f748a8821ea06",
    "ovk": "395884890323b9d4933c021db89bcf767df21977b2ff0683848321a4df4afb21",
    "dk": "77c17cb75b7796afb39f0f3e91c924607da56fa9a20e283509bc8a3ef996a172",
    "c": "d0947c4b03bf72a37ab44f72276d1cf3fdcd7ebf3e73348b7e550d752018668e",
    "ak": "93442e5feffbff16e7217202dc7306729ffffe85af5683bce2642e3eeb5d3871",
    "nk": "dce8e7edece04b8950417f85ba57691b783c45b1a27422db1693dceb67b10106",
    "ivk": "4847a130e799d3dbea36a1c16467d621fb2d80e30b3b1d1a426893415dad6601",
    "xsk": "000000000000000000d0947c4b03bf72a37ab44f72276d1cf3fdcd7ebf3e73348b7e550d7520"
    "18668eb6c00c93d36032b9a268e99e86a860776560bf0e83c1a10b51f607c9547425068204ed"
    "e83b2f1fbd84f9b45d7f996e2ebd0a030ad243b48ed39f748a8821ea06395884890323b9d493"
    "3c021db89bcf767df21977b2ff0683848321a4df4afb2177c17cb75b7796afb39f0f3e91c924"
    "607da56fa9a20e283509bc8a3ef996a172",
    "xfvk": "000000000000000000d0947c4b03bf72a37ab44f72276d1cf3fdcd7ebf3e73348b7e550d7520"
    "18668e93442e5feffbff16e7217202dc7306729ffffe85af5683bce2642e3eeb5d3871dce8e7"
    "edece04b8950417f85ba57691b783c45b1a27422db1693dceb67b10106395884890323b9d493"
    "3c021db89bcf767df21977b2ff0683848321a4df4afb2177c17cb75b7796afb39f0f3e91c924"
    "607da56fa9a20e283509bc8a3ef996a172",
    "fp": "14c2713adce93a830ea83a051908b7447783f5d106c0985e02550e426f27597c",
    "d0": "d8621b981cf300e9d4cc89",
    "d1": "48ea17a199c84bd1baa5d4",
    "d2": None,
    "dmax": None,
    "internal_nsk": "511233636b95fd0afb6bf8193a7d8f49efd736a988775c54f956687646eaab07",
    "internal_ovk": "9dc477fe1e7d282913f651654d3985f09d53c2d3b5763d7a723bcbd6ee053d5a",
    "internal_dk": "40ddc56e6975138c0839e580b54d6d999dc616843cfe041e8f388b124ef7b5ed",
    "internal_nk": "a3831a5c6933f8ec6aa5ce316c508b7991cd94d3bdb700a1c427a6ae15e72fb5",
    "internal_ivk": "790577321c511804636ee6baa4eea779b4a46a5a12f85d365074a09d054f3401",
    "internal_xsk": "000000000000000000d0947c4b03bf72a37ab44f72276d1cf3fdcd7ebf3e73348b7e550d7520"
    "18668eb6c00c93d36032b9a268e99e86a860776560bf0e83c1a10b51f607c954742506511233"
    "636b95fd0afb6bf8193a7d8f49efd736a988775c54f956687646eaab079dc477fe1e7d282913"
    "f651654d3985f09d53c2d3b5763d7a723bcbd6ee053d5a40ddc56e6975138c0839e580b54d6d"
    "999dc616843cfe041e8f388b124ef7b5ed",
    "internal_xfvk": "000000000000000000d0947c4b03bf72a37ab44f72276d1cf3fdcd7ebf3e73348b7e550d7520"
    "18668e93442e5feffbff16e7217202dc7306729ffffe85af5683bce2642e3eeb5d3871a3831a"
    "5c6933f8ec6aa5ce316c508b7991cd94d3bdb700a1c427a6ae15e72fb59dc477fe1e7d282913"
    "f651654d3985f09d53c2d3b5763d7a723bcbd6ee053d5a40ddc56e6975138c0839e580b54d6d"
    "999dc616843cfe041e8f388b124ef7b5ed",
    "internal_fp": "8264edec63b155001d8496685cc7c21ea957c6f591090a1c20e52a4189b8bb96",
}


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def encodings(key: ExtendedSpendingKey) -> dict[str, str]:
    """The columns of an extended key in the vectors."""
    view = key.full_viewing_key
    points = {"ak": view.key.ak, "nk": view.key.nk}
    scalars = {"ask": key.key.ask, "nsk": key.key.nsk, "ivk": view.key.incoming}
    return {
        **{name: encode_edwards(JUBJUB, point).hex() for name, point in points.items()},
        **{name: zcash.encode_scalar(value).hex() for name, value in scalars.items()},
        "ovk": key.key.ovk.hex(), "dk": key.diversifier_key.hex(),
        "c": key.derivation.chain_code.hex(), "xsk": key.to_bytes().hex(),
        "xfvk": view.to_bytes().hex(), "fp": view.fingerprint.hex(),
    }  # fmt: skip


def check_row(key: ExtendedSpendingKey, row: dict[str, Any]) -> None:
    expected = encodings(key)
    assert expected == {name: row[name] for name in expected}
    internal = encodings(key.internal)
    internal_names = [name for name in internal if f"internal_{name}" in row]
    assert len(internal_names) == 8
    for name in internal_names:
        assert internal[name] == row[f"internal_{name}"]
    view = key.full_viewing_key
    assert view.internal == key.internal.full_viewing_key
    assert ExtendedSpendingKey.from_bytes(bytes.fromhex(row["xsk"])) == key
    assert ExtendedFullViewingKey.from_bytes(bytes.fromhex(row["xfvk"])) == view
    columns = {"d0": 0, "d1": 1, "d2": 2, "dmax": (1 << 88) - 1}
    for name, index in columns.items():
        diversifier = indexed_diversifier(key.diversifier_key, index)
        if row[name] is None:
            assert zcash.diversify_hash(diversifier) is None
            with pytest.raises(InputError, match="does not hash to a point"):
                view.address(index)
        else:
            assert diversifier.hex() == row[name]
            address = view.address(index)
            assert address.diversifier == diversifier
            ivk = view.key.incoming
            assert address.transmission_key == edwards_group(JUBJUB).multiply(ivk, address.base)
    for index, name in enumerate(("d0", "d1", "d2")):
        if row[name] is not None:
            assert view.find_address() == (index, view.default_address)
            assert view.default_address == view.address(index)
            break


def test_aes() -> None:
    plaintext = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert Aes256(SEED).encrypt(plaintext).hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_the_master_key() -> None:
    check_row(ExtendedSpendingKey.master(SEED), ROW)


@pytest.mark.fixtures
def test_all_hardened_keys(shared_fixtures: Path) -> None:
    rows = published(shared_fixtures, "sapling_zip32_hard.json")
    assert len(rows) == 4
    key = ExtendedSpendingKey.master(SEED)
    for depth, row in enumerate(rows):
        if depth:
            key = key.child(number(bytes.fromhex(row["xsk"])[5:9]) - HARDENED)
        assert key.derivation.depth == depth
        check_row(key, row)


@pytest.mark.fixtures
def test_other_rows_decode(shared_fixtures: Path) -> None:
    """Keys of derivations that are not hardened: decoding, internal keys and diversifiers."""
    rows = published(shared_fixtures, "sapling_zip32.json")
    assert len(rows) == 5
    for row in rows:
        if row["xsk"] is not None:
            check_row(ExtendedSpendingKey.from_bytes(bytes.fromhex(row["xsk"])), row)
        else:
            view = ExtendedFullViewingKey.from_bytes(bytes.fromhex(row["xfvk"]))
            assert view.fingerprint.hex() == row["fp"]
            assert view.internal.to_bytes().hex() == row["internal_xfvk"]
            assert view.internal.fingerprint.hex() == row["internal_fp"]


def test_accounts() -> None:
    key = ExtendedSpendingKey.account(SEED, 7)
    by_hand = ExtendedSpendingKey.master(SEED).child(32).child(133).child(7)
    assert key == by_hand
    assert key.derivation.child_index == 7 + HARDENED
    assert key != ExtendedSpendingKey.account(SEED, 7, coin_type=1)
    masp = ExtendedSpendingKey.account(SEED, 7, 877, zcash.MASP)
    assert masp.key.protocol is zcash.MASP
    address = masp.full_viewing_key.default_address
    assert address.protocol is zcash.MASP
    assert masp.key.proof_generation_key.owns(address)
    change = masp.internal.full_viewing_key.default_address
    assert not masp.key.proof_generation_key.owns(change)
    assert masp.internal.key.proof_generation_key.owns(change)


def test_diversifiers_in_order() -> None:
    dk = ExtendedSpendingKey.master(SEED).diversifier_key
    first, diversifier = find_diversifier(dk)
    assert diversifier == indexed_diversifier(dk, first)
    later = [find_diversifier(dk, start)[0] for start in range(first + 1, first + 8)]
    assert later == sorted(later)
    assert all(zcash.diversify_hash(indexed_diversifier(dk, index)) for index in later)
    for index in (-1, 1 << 88, 0.5):
        with pytest.raises(InputError, match="the index of a diversifier must be"):
            indexed_diversifier(dk, index)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="dk must be 32 bytes, not 31"):
        find_diversifier(dk[1:])


def test_the_last_diversifier() -> None:
    for byte in range(64):
        if zcash.diversify_hash(indexed_diversifier(bytes([byte] * 32), (1 << 88) - 1)) is None:
            with pytest.raises(InputError, match="no diversifier from index"):
                find_diversifier(bytes([byte] * 32), (1 << 88) - 1)
            return
    raise AssertionError("all last diversifiers have points")


def test_malformed_keys() -> None:
    key = ExtendedSpendingKey.master(SEED)
    secret, view = bytearray(key.to_bytes()), bytearray(key.full_viewing_key.to_bytes())
    for start, name in ((41, "ask"), (73, "nsk")):
        changed = bytes(secret[:start]) + b"\xff" * 32 + bytes(secret[start + 32 :])
        with pytest.raises(InputError, match=f"{name} must be a scalar"):
            ExtendedSpendingKey.from_bytes(changed)
    small = encode_edwards(JUBJUB, (0, P - 1))
    for start, name in ((41, "ak"), (73, "nk")):
        for data, message in ((b"\xff" * 32, "y is not below"), (small, "not in the subgroup")):
            changed = bytes(view[:start]) + data + bytes(view[start + 32 :])
            with pytest.raises(InputError, match=f"{name}.*{message}"):
                ExtendedFullViewingKey.from_bytes(changed)
    with pytest.raises(InputError, match="an extended spending key must be 169 bytes, not 168"):
        ExtendedSpendingKey.from_bytes(bytes(secret[1:]))
    with pytest.raises(InputError, match="an extended full viewing key must be bytes"):
        ExtendedFullViewingKey.from_bytes("text")  # type: ignore[arg-type]
    for seed in (bytes(31), bytes(253)):
        with pytest.raises(InputError, match="the seed must be 32 to 252 bytes"):
            ExtendedSpendingKey.master(seed)
    for index in (-1, HARDENED):
        with pytest.raises(InputError, match="the index of a child must be"):
            key.child(index)
        with pytest.raises(InputError, match="the account must be"):
            ExtendedSpendingKey.account(SEED, index)
    secret[0] = 255
    deepest = ExtendedSpendingKey.from_bytes(bytes(secret))
    with pytest.raises(InputError, match="depth 255 has no children"):
        deepest.child(0)


def test_secrets_are_not_shown() -> None:
    key = ExtendedSpendingKey.master(SEED)
    for record in (key, key.full_viewing_key, key.derivation):
        assert repr(record) == f"{type(record).__name__}(...)"
