"""Sapling natively: zcash-test-vectors (MIT or Apache-2.0), of which one row stands here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quod import zcash as sapling
from quod.curve import EDWARDS, decode_edwards, edwards_group, encode_edwards
from quod.errors import InputError
from quod.hash.sapling_pedersen import pedersen_segment_generator
from quod.r1cs import reference
from quod.zcash import generators

JUBJUB = EDWARDS["jubjub"]
ORDER, P = JUBJUB.fr.value, JUBJUB.fq.value
GROUP = edwards_group(JUBJUB)

GENERATORS = {
    "30b5f2aaad325630bcdddbce4d67656d05fd1cc2d037bb5375b6e96d9e01a1d7": "spend_authorizing",
    "e7e85de0f7f97a46d249a1f5ea51df50cc48490f8401c9de7a2adf1807d1b6d4": "proof",
    "65002bc736faf7a3422effffe8b855e18fba96a0158a9efca584bf40549d36e1": "nullifier",
    "d7c86706f5817aa718cd1cfad03233bcd64a7789fd9422d3b17af6823a7e6ac6": "value",
    "8b6a0b38b9faae3c3b803b47b0f146ad50ab221e6e2afbe6dbde45cba9d381ed": "value_randomness",
}
PEDERSEN = [
    "ca3c2432d4abbf7732464ec08b2e47f95edc7e836b16c979571b52d3a2879ea8",
    "9118bf4e3cc50d7be8d3fa98ebbe3a1f25d901c0421189f733fe435b7f8c5d01",
    "57d493972c50ed8098b484177f2ab28b53e88c8e6ca400e09eee4ed200152eb6",
    "e97035a3ec4b7184856a1fa1a1af0351b747d9d8cb0a0791d8ca564b0ce47e2f",
]
ROW = {
    "sk": "01" * 32,
    "ask": "c9435629bf8bffe55e7335ec077718ba60ba28d7ac3794b74f512c31af0a5304",
    "nsk": "11acc2ead07b5f008c1f0f090cc8ddf335236ff4b253c6495695e9d639dacd08",
    "ovk": "3b946210ce6d1b1692d7392ac84a8bc8f03b72723c7d36721b809a79c9d6e45b",
    "ak": "82ff5effc527ae84020bf2d35201c10219131947ff4b96f881a45f2e8ae30518",
    "nk": "c4534d848bb918cf4a7f8b98740ab3ccee586795ff4df64547a8888a6c7415d2",
    "ivk": "c518384466b26988b5109067418d192d9d6bd0d9232205d77418c240fc68a406",
    "default_d": "aef180f6e34e354b888f81",
    "default_pk_d": "a6b13ea336ddb7a67bb09a0e68e9d3cfb39210831ea3a296ba09a922060fd38b",
    "note_v": 12227227834928555328,
    "note_r": "478ba0ee6e1a75b600036f26f18b7015ab556beddf8b960238869f89dd804e06",
    "note_cmu": "b57893500bfb85df2e8b01ac452f89e10e266bcfa31c31b29a53ae72cad46950",
    "note_pos": 763714296,
    "note_nf": "679eb0c3a757e2ae83cdb42a1ab259d78388315419adc71d2e3763174c2e9d93",
}


def published(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a file, by the names of its second line."""
    _, (names,), *rows = json.loads((folder / "zcash" / "test-vectors" / name).read_text())
    return [dict(zip(names.split(", "), row, strict=True)) for row in rows]


def point_bytes(point: tuple[int, int]) -> str:
    return encode_edwards(JUBJUB, point).hex()


def check_key_row(row: dict[str, Any]) -> None:
    """Everything from the seed to the nullifier."""
    seed = bytes.fromhex(row["sk"])
    key = sapling.ExpandedSpendingKey.from_spending_key(seed)
    view = key.full_viewing_key
    encodings = {
        "ask": sapling.encode_scalar(key.ask).hex(), "nsk": sapling.encode_scalar(key.nsk).hex(),
        "ovk": key.ovk.hex(), "ak": point_bytes(view.ak), "nk": point_bytes(view.nk),
        "ivk": sapling.encode_scalar(view.incoming).hex(),
    }  # fmt: skip
    diversifier = sapling.default_diversifier(seed)
    address = view.address(diversifier)
    rcm = sapling.decode_scalar("rcm", bytes.fromhex(row["note_r"]))
    note = sapling.Note(address, row["note_v"], rcm)
    encodings |= {
        "default_d": diversifier.hex(), "default_pk_d": point_bytes(address.transmission_key),
        "note_cmu": note.cmu.to_bytes(32, "little").hex(),
        "note_nf": note.nullifier(view.nk, row["note_pos"]).hex(),
    }  # fmt: skip
    assert encodings == {name: row[name] for name in encodings}
    assert sapling.PaymentAddress.from_bytes(address.to_bytes()) == address


def test_generators() -> None:
    for text, name in GENERATORS.items():
        assert point_bytes(getattr(generators, f"{name}_generator")()) == text
    assert [point_bytes(pedersen_segment_generator(at)) for at in range(4)] == PEDERSEN
    assert point_bytes(generators.note_randomness_generator()) == (
        "ac776c796563fcd44cc49cfaea8bb796952c266e47779d94574c10ad01754b11"
    )


def test_from_seed_to_nullifier() -> None:
    check_key_row(ROW)


@pytest.mark.fixtures
def test_all_key_components(shared_fixtures: Path) -> None:
    rows = published(shared_fixtures, "sapling_key_components.json")
    assert len(rows) == 10
    for row in rows:
        check_key_row(row)


@pytest.mark.fixtures
def test_note_encryption_s_keys(shared_fixtures: Path) -> None:
    """cmu, epk and addresses of the vectors of note encryption; their cv is well formed."""
    rows = published(shared_fixtures, "sapling_note_encryption.json")
    assert len(rows) == 10
    for row in rows:
        ivk = sapling.decode_scalar("ivk", bytes.fromhex(row["ivk"]))
        address = sapling.incoming_address(ivk, bytes.fromhex(row["default_d"]))
        assert point_bytes(address.transmission_key) == row["default_pk_d"]
        rcm = sapling.decode_scalar("rcm", bytes.fromhex(row["rcm"]))
        note = sapling.Note(address, row["v"], rcm)
        esk = sapling.decode_scalar("esk", bytes.fromhex(row["esk"]))
        epk = note.ephemeral_key(esk)
        parts = (bytes.fromhex(row[name]) for name in ("cv", "epk", "cmu"))
        statement = sapling.OutputStatement.from_bytes(*parts)
        assert (statement.epk, statement.cmu) == (epk, note.cmu)
        # The receiver's secret is the sender's: 8 * esk * pk_d = 8 * ivk * epk.
        shared = GROUP.multiply(8 * esk, address.transmission_key)
        assert point_bytes(shared) == row["shared_secret"]
        assert GROUP.multiply(8 * ivk, epk) == shared


@pytest.mark.fixtures
def test_statements_of_the_chain(shared_fixtures: Path) -> None:
    outputs = json.loads((shared_fixtures / "zcash" / "mainnet_sapling_outputs.json").read_text())
    for output in outputs:
        parts = tuple(bytes.fromhex(output[name]) for name in ("cv", "epk", "cmu"))
        statement = sapling.OutputStatement.from_bytes(*parts)
        assert statement.to_bytes() == parts
        assert statement.public == [*statement.cv, *statement.epk, statement.cmu]


def test_rseed() -> None:
    """ZIP 212: rcm and esk of a seed are PRF^expand of it with 4 and 5 (checked by hashlib)."""
    from hashlib import blake2b

    view = sapling.ExpandedSpendingKey.from_spending_key(bytes(32)).full_viewing_key
    address = view.address(bytes.fromhex("f19d9b797e39f337445839"))
    seed = bytes(range(32))
    note = sapling.Note.from_seed(address, 7, seed)
    for secret, domain in ((note.rcm, 4), (sapling.ephemeral_secret(seed), 5)):
        digest = blake2b(seed + bytes([domain]), person=b"Zcash_ExpandSeed").digest()
        assert secret == int.from_bytes(digest, "little") % ORDER


def test_value_commitments_add_up() -> None:
    """The commitment to a sum is the sum of the commitments, as balances need."""
    first, second = sapling.value_commitment(5, 11), sapling.value_commitment(37, ORDER - 2)
    assert GROUP.add(first, second) == sapling.value_commitment(42, 9)
    assert sapling.value_commitment(0, 0) == (0, 1)
    by_hand = GROUP.add(
        GROUP.multiply(5, generators.value_generator()),
        GROUP.multiply(11, generators.value_randomness_generator()),
    )
    assert first == by_hand


def test_the_empty_tree() -> None:
    """The root that Zcash has before the first note, of 32 levels over the leaf 1."""
    node = 1
    for level in range(32):
        node = reference.sapling_node(level, node, node)
    assert node == 0x3E49B5F954AA9D3545BC6C37744661EEA48D7C34E3000D82B7F0010C30F4C2FB


def test_hostile_keys_and_addresses() -> None:
    view = sapling.ExpandedSpendingKey.from_spending_key(bytes(32)).full_viewing_key
    address = view.address(bytes.fromhex("f19d9b797e39f337445839"))
    text = address.to_bytes()
    small = (0, P - 1)
    without = next(
        text for k in range(9) for text in [bytes([k] * 11)] if sapling.diversify_hash(text) is None
    )
    for call in (
        view.address,
        lambda diversifier: sapling.PaymentAddress(diversifier, JUBJUB.generator),
    ):
        with pytest.raises(InputError, match="does not hash to a point"):
            call(without)
    with pytest.raises(InputError, match="pk_d is the neutral element"):
        sapling.PaymentAddress(address.diversifier, (0, 1))
    with pytest.raises(InputError, match="pk_d is not in the subgroup"):
        sapling.PaymentAddress(address.diversifier, GROUP.add(address.transmission_key, small))
    with pytest.raises(InputError, match="43 bytes, not 42"):
        sapling.PaymentAddress.from_bytes(text[1:])
    with pytest.raises(InputError, match="y is not below the modulus"):
        sapling.PaymentAddress.from_bytes(text[:11] + b"\xff" * 32)
    with pytest.raises(InputError, match="ak is the neutral element"):
        sapling.FullViewingKey((0, 1), view.nk, view.ovk)
    with pytest.raises(InputError, match="nk is not in the subgroup"):
        sapling.FullViewingKey(view.ak, small, view.ovk)
    for secret in (ORDER, -1, True, "1", None):
        with pytest.raises(InputError, match="rcm must be a scalar from 0 to r - 1") as seen:
            sapling.Note(address, 1, secret)  # type: ignore[arg-type]
        assert str(secret) not in str(seen.value) or secret == "1"
    for value in (-1, 1 << 64, 1.5):
        with pytest.raises(InputError, match=r"value of a note .* from 0 to 2\*\*64 - 1"):
            sapling.Note(address, value, 1)  # type: ignore[arg-type]
    note = sapling.Note(address, 1, 2)
    with pytest.raises(InputError, match="esk must be a scalar from 1"):
        note.ephemeral_key(0)
    with pytest.raises(InputError, match="the position must be"):
        note.nullifier(view.nk, 1 << 32)
    with pytest.raises(InputError, match="ask must be a scalar from 1"):
        sapling.ExpandedSpendingKey(0, 1, bytes(32))
    with pytest.raises(InputError, match="rcm must be a scalar"):
        sapling.decode_scalar("rcm", ORDER.to_bytes(32, "little"))
    with pytest.raises(InputError, match="a seed must be 32 bytes, not 6"):
        sapling.ExpandedSpendingKey.from_spending_key(b"secret")
    with pytest.raises(InputError, match=r"below 2\*\*251"):
        sapling.incoming_address(1 << 251, address.diversifier)
    assert 0 < sapling.random_scalar() < ORDER


def test_secrets_are_not_shown() -> None:
    key = sapling.ExpandedSpendingKey.from_spending_key(bytes(32))
    for record in (key, key.full_viewing_key):
        assert "(...)" in repr(record)


def test_hostile_statements() -> None:
    """Statements that consensus refuses, each with its error."""
    good = [encode_edwards(JUBJUB, point) for point in (JUBJUB.generator,) * 2] + [bytes(32)]
    assert sapling.OutputStatement.from_bytes(*good).cmu == 0
    small = encode_edwards(JUBJUB, (0, P - 1))
    wrong = {
        "is a point of small order": small,
        "y is not below the modulus": (P + 1).to_bytes(32, "little"),
        "x is 0, which has no sign": (1 | 1 << 255).to_bytes(32, "little"),
        "no point of the curve has this y": next(
            data
            for y in range(2, 99)
            for data in [y.to_bytes(32, "little")]
            if not _has_point(data)
        ),
        "must be 32 bytes, not 31": good[0][1:],
    }
    for at, name in enumerate(("cv", "epk")):
        for message, data in wrong.items():
            parts = list(good)
            parts[at] = data
            with pytest.raises(InputError, match=f"{name}.*{message}"):
                sapling.OutputStatement.from_bytes(*parts)
    for cmu in (P, (1 << 256) - 1):
        with pytest.raises(InputError, match="cmu is not below the modulus"):
            sapling.OutputStatement.from_bytes(good[0], good[1], cmu.to_bytes(32, "little"))


@pytest.mark.parametrize("name", ["cv", "epk"])
def test_statements_built_from_numbers_are_validated(name: str) -> None:
    """Statements from numbers pass the same checks as those from bytes."""
    good = {"cv": JUBJUB.generator, "epk": JUBJUB.generator, "cmu": 0}
    sapling.OutputStatement(**good)  # type: ignore[arg-type]
    eighth = _of_order_eight()
    wrong: dict[str, list[Any]] = {
        "is a point of small order": [GROUP.multiply(at, eighth) for at in range(8)],
        "is not on jubjub": [(1, 1)],
        "must be a point": ["point", None, 5],
        "a coordinate of .*must be a whole number": [(P, 1), (0.0, 1)],
    }
    for message, points in wrong.items():
        for point in points:
            with pytest.raises(InputError, match=message):
                sapling.OutputStatement(**good | {name: point})  # type: ignore[arg-type]
    for cmu in (P, -1, 1.5):
        with pytest.raises(InputError, match="cmu"):
            sapling.OutputStatement(**good | {"cmu": cmu})  # type: ignore[arg-type]


def test_nullifier_keys_must_be_in_the_subgroup() -> None:
    key = sapling.ExpandedSpendingKey.from_spending_key(bytes(32)).full_viewing_key
    address = key.address(sapling.default_diversifier(bytes(32)))
    note = sapling.Note.from_seed(address, 1, bytes(32))
    assert len(note.nullifier(key.nk, 0)) == 32
    with pytest.raises(InputError, match="nk is not in the subgroup"):
        note.nullifier(GROUP.add(key.nk, (0, P - 1)), 0)


def _of_order_eight() -> tuple[int, int]:
    for y in range(2, 99):
        data = y.to_bytes(32, "little")
        if _has_point(data):
            point = decode_edwards(JUBJUB, data, check_subgroup=False)
            point = GROUP.multiply(JUBJUB.fr.value, point)
            if GROUP.multiply(4, point) != (0, 1):
                return point
    raise AssertionError("no point of order eight")


def _has_point(data: bytes) -> bool:
    try:
        decode_edwards(JUBJUB, data, check_subgroup=False)
    except InputError:
        return False
    return True
