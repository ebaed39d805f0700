"""Bundles: balances of random notes in Sapling and MASP, and the bundles of real transactions."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quod import zcash
from quod.curve import EDWARDS, edwards_group, encode_edwards
from quod.errors import InputError, MismatchError, VerificationError
from quod.zcash.assets import asset_generator, asset_identifier
from quod.zcash.bundle import (
    Bundle,
    UnsignedBundle,
    binding_signing_key,
    binding_verification_key,
    decode_statements,
)
from quod.zcash.conversion import AllowedConversion
from quod.zcash.note import asset_value_commitment

JUBJUB = EDWARDS["jubjub"]
ORDER, P = JUBJUB.fr.value, JUBJUB.fq.value
GROUP = edwards_group(JUBJUB)
SIGHASH = bytes(range(32))
SMALL = encode_edwards(JUBJUB, (0, P - 1))
FIRST, SECOND, REWARD = (asset_identifier(name) for name in (b"first", b"second", b"reward"))


@dataclass(frozen=True)
class Entry:
    """A description without a proof."""

    statement: Any


class Parts:
    """Statements with values, and the secrets that sign them."""

    def __init__(self, seed: int, protocol: zcash.Protocol = zcash.SAPLING) -> None:
        self.source, self.protocol = random.Random(seed), protocol
        self.keys: list[tuple[int, int]] = []
        self.input_rcvs: list[int] = []
        self.output_rcvs: list[int] = []

    def scalar(self) -> int:
        return self.source.randrange(1, ORDER)

    def point(self) -> tuple[int, int]:
        return GROUP.multiply_fixed(self.scalar(), JUBJUB.generator)

    def commitment(self, value: int, asset: bytes | None, rcvs: list[int]) -> tuple[int, int]:
        rcvs.append(self.scalar())
        if asset is None:
            return zcash.value_commitment(value, rcvs[-1])
        return asset_value_commitment(asset_generator(asset), value, rcvs[-1])

    def spend(self, value: int, asset: bytes | None = None, anchor: int = 7) -> Entry:
        ask, alpha = self.scalar(), self.scalar()
        self.keys.append((ask, alpha))
        scheme = zcash.spend_auth_scheme(self.protocol)
        rk = scheme.randomise_key(scheme.verification_key(ask), alpha)
        cv = self.commitment(value, asset, self.input_rcvs)
        return Entry(zcash.SpendStatement(cv, anchor, self.source.randbytes(32), rk))

    def output(self, value: int, asset: bytes | None = None) -> Entry:
        cv = self.commitment(value, asset, self.output_rcvs)
        return Entry(zcash.OutputStatement(cv, self.point(), self.source.randrange(P)))

    def convert(self, conversion: AllowedConversion, value: int, anchor: int = 8) -> Entry:
        self.input_rcvs.append(self.scalar())
        cv = asset_value_commitment(conversion.generator, value, self.input_rcvs[-1])
        return Entry(zcash.ConvertStatement(cv, anchor))

    @property
    def bsk(self) -> int:
        return binding_signing_key(self.input_rcvs, self.output_rcvs)

    def signatures(self, sighash: bytes = SIGHASH) -> list[bytes]:
        return [
            zcash.spend_auth_signature(ask, alpha, sighash, self.protocol)
            for ask, alpha in self.keys
        ]


def sapling_parts(balance: int = 100) -> tuple[Parts, UnsignedBundle]:
    """Two Spends and two Outputs, whose values differ by 100."""
    parts = Parts(1)
    spends = [parts.spend(1000), parts.spend(500)]
    outputs = [parts.output(1300), parts.output(100)]
    return parts, UnsignedBundle(spends, outputs, balance)


def test_a_bundle_of_sapling() -> None:
    parts, content = sapling_parts()
    bundle = Bundle.sign(content, parts.signatures(), parts.bsk, SIGHASH)
    bundle.verify_signatures(SIGHASH)
    again = Bundle(content, bundle.spend_signatures, bundle.binding_signature)
    again.verify_signatures(SIGHASH)
    assert list(again.signature_claims(SIGHASH)) == [
        "spends[0].spendAuthSig", "spends[1].spendAuthSig", "bindingSig"
    ]  # fmt: skip


@pytest.mark.parametrize("balance", [99, 101, 0, -100])
def test_wrong_balances_are_refused(balance: int) -> None:
    parts, content = sapling_parts(balance)
    with pytest.raises(MismatchError, match="the values do not balance"):
        Bundle.sign(content, parts.signatures(), parts.bsk, SIGHASH)
    _, right = sapling_parts()
    signed = Bundle.sign(right, parts.signatures(), parts.bsk, SIGHASH)
    wrong = Bundle(content, parts.signatures(), signed.binding_signature)
    with pytest.raises(VerificationError, match="bindingSig is invalid: the values"):
        wrong.verify_signatures(SIGHASH)


def test_value_that_enters_the_pool() -> None:
    parts = Parts(2)
    content = UnsignedBundle([], [parts.output(5), parts.output(7)], -12)
    Bundle.sign(content, [], parts.bsk, SIGHASH).verify_signatures(SIGHASH)


def test_other_signatures_are_refused() -> None:
    parts, content = sapling_parts()
    first, second = parts.signatures()
    with pytest.raises(VerificationError, match=r"spends\[0\].spendAuthSig is invalid"):
        Bundle.sign(content, [second, first], parts.bsk, SIGHASH)
    with pytest.raises(VerificationError, match=r"spends\[1\].spendAuthSig is invalid"):
        Bundle.sign(content, [first, first], parts.bsk, SIGHASH)
    bundle = Bundle.sign(content, [first, second], parts.bsk, SIGHASH)
    with pytest.raises(VerificationError, match=r"spends\[0\].spendAuthSig is invalid"):
        bundle.verify_signatures(bytes(32))
    malformed = first[:32] + b"\xff" * 32
    with pytest.raises(
        InputError, match=r"spends\[1\].spendAuthSig: S of the signature is not below"
    ):
        Bundle.sign(content, [first, malformed], parts.bsk, SIGHASH)
    with pytest.raises(MismatchError, match="rcv is that of another value commitment"):
        Bundle.sign(content, [first, second], (parts.bsk + 1) % ORDER, SIGHASH)
    binding = bundle.binding_signature
    for signatures, bound, message in (
        ([first], binding, "2 Spends have as many signatures, not 1"),
        ([first, second[1:]], binding, r"spends\[1\].spendAuthSig must be 64 bytes, not 63"),
        ([first, "text"], binding, r"spends\[1\].spendAuthSig must be bytes"),
        ([first, second], None, "a bundle has a binding signature if"),
        ([first, second], bytes(63), "bindingSig must be 64 bytes, not 63"),
    ):
        with pytest.raises(InputError, match=message):
            Bundle(content, signatures, bound)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the content of a bundle must be of the type"):
        Bundle([], [], None)  # type: ignore[arg-type]


def test_a_bundle_of_masp() -> None:
    """A Spend of one asset and a Convert pay Outputs of two others; 2 of the first leave."""
    parts = Parts(3, zcash.MASP)
    conversion = AllowedConversion({FIRST: -1, SECOND: 1, REWARD: 3})
    spends = [parts.spend(9, FIRST), parts.spend(4, SECOND)]
    converts = [parts.convert(conversion, 7)]
    outputs = [parts.output(11, SECOND), parts.output(20, REWARD)]
    balance = {FIRST: 2, REWARD: 1}
    content = UnsignedBundle(spends, outputs, balance, converts, zcash.MASP)
    bundle = Bundle.sign(content, parts.signatures(), parts.bsk, SIGHASH)
    bundle.verify_signatures(SIGHASH)
    wrong_balances: list[dict[bytes, int]] = [
        {}, {FIRST: 2}, {FIRST: 2, REWARD: 2}, {FIRST: 2, REWARD: -1}, {SECOND: 2, REWARD: 1},
        {**balance, SECOND: 1},
    ]  # fmt: skip
    for wrong in wrong_balances:
        other = UnsignedBundle(spends, outputs, wrong, converts, zcash.MASP)
        with pytest.raises(MismatchError, match="the values do not balance"):
            Bundle.sign(other, parts.signatures(), parts.bsk, SIGHASH)
    same = UnsignedBundle(spends, outputs, {**balance, SECOND: 0}, converts, zcash.MASP)
    assert same.value_balance == balance


def test_bundles_are_validated() -> None:
    parts = Parts(4)
    spend, other = parts.spend(5), parts.spend(5, anchor=8)
    output = parts.output(5)
    convert = Parts(5, zcash.MASP).convert(AllowedConversion({FIRST: 1}), 1)
    attempts: list[tuple[Sequence[Any], Any, dict[str, Any], type[InputError], str]] = [
        ([spend, other], 5, {}, MismatchError, r"spends\[1\]: anchor is not that of spends\[0\]"),
        ([spend, other, spend], 5, {"shared_anchors": False}, InputError,
         r"spends\[2\]: nullifier is that of spends\[0\]"),
        ([output], 5, {}, InputError, r"spends\[0\] must have a SpendStatement"),
        ([spend, spend.statement], 5, {}, InputError, r"spends\[1\] must have a SpendStatement"),
        ([spend], 5, {"converts": [convert]}, InputError, "Sapling have no Converts"),
        ([spend], 21 * 10**14 + 1, {}, InputError, "the value balance must be a whole number"),
        ([spend], {}, {}, InputError, "the value balance must be a whole number"),
        ([spend], 5, {"protocol": zcash.MASP}, InputError, "must be a mapping from assets"),
        ([spend], {FIRST: 1 << 127}, {"protocol": zcash.MASP}, InputError,
         f"balance of the asset {FIRST.hex()} must be"),
        ([spend], {b"asset": 1}, {"protocol": zcash.MASP}, InputError, "an asset of the value"),
        ([spend], 5, {"shared_anchors": 1}, InputError, "shared_anchors must be True or False"),
        ([spend], 5, {"protocol": "MASP"}, InputError, "protocol must be of the type Protocol"),
        ({spend}, 5, {}, InputError, "the spends must be a list"),
    ]  # fmt: skip
    for spends, balance, options, kind, message in attempts:
        with pytest.raises(kind, match=message):
            UnsignedBundle(spends, [output], balance, **options)
    UnsignedBundle([spend, other], [output], 5, shared_anchors=False)
    different = Parts(6, zcash.MASP).convert(AllowedConversion({FIRST: 1}), 1, anchor=9)
    with pytest.raises(MismatchError, match=r"converts\[1\]: anchor is not that of converts\[0\]"):
        UnsignedBundle([], [output], {}, [convert, different], zcash.MASP)
    with pytest.raises(InputError, match="at most 65535 outputs, not 65536"):
        UnsignedBundle([], [output] * 65536, 0)


def test_bundles_without_entries() -> None:
    empty = UnsignedBundle([], [], 0)
    bundle = Bundle.sign(empty, [], 5, SIGHASH)
    assert bundle.binding_signature is None
    bundle.verify_signatures(SIGHASH)
    with pytest.raises(InputError, match="a bundle has a binding signature if"):
        Bundle(empty, [], bytes(64))
    for balance, protocol in ((1, zcash.SAPLING), ({FIRST: 1}, zcash.MASP)):
        with pytest.raises(InputError, match="without entries must be 0"):
            UnsignedBundle([], [], balance, protocol=protocol)


def test_keys_of_the_balance() -> None:
    parts, content = sapling_parts()
    commitments = [statement.cv for statement in content.spend_statements]
    assert binding_verification_key(commitments[:1], commitments[:1], 0) == (0, 1)
    generator = zcash.binding_scheme().generator
    assert GROUP.multiply(parts.bsk, generator) == content.binding_verification_key
    assert binding_signing_key([1, 2], [5]) == ORDER - 2
    with pytest.raises(InputError, match="rcv must be a scalar"):
        binding_signing_key([ORDER], [])
    with pytest.raises(InputError, match="bsk must be a scalar"):
        Bundle.sign(content, parts.signatures(), ORDER, SIGHASH)


def test_malformed_fields_are_named() -> None:
    _, content = sapling_parts()
    spends = [list(statement.to_bytes()) for statement in content.spend_statements]
    outputs = [list(statement.to_bytes()) for statement in content.output_statements]
    assert decode_statements(zcash.SpendStatement, spends) == content.spend_statements
    big = P.to_bytes(32, "little")
    cases: list[tuple[Any, list[list[bytes]], int, bytes, str]] = [
        (zcash.SpendStatement, spends, 0, SMALL, r"spends\[1\]: cv is a point of small order"),
        (zcash.SpendStatement, spends, 3, SMALL, r"spends\[1\]: rk is a point of small order"),
        (zcash.SpendStatement, spends, 3, big, r"spends\[1\]: rk: jubjub: y is not below"),
        (zcash.SpendStatement, spends, 1, big, r"spends\[1\]: the anchor is not below the modulus"),
        (zcash.SpendStatement, spends, 2, bytes(31), r"spends\[1\]: the nullifier must be 32"),
        (zcash.OutputStatement, outputs, 0, SMALL, r"outputs\[1\]: cv is a point of small order"),
        (zcash.OutputStatement, outputs, 1, SMALL, r"outputs\[1\]: epk is a point of small order"),
        (zcash.OutputStatement, outputs, 2, big, r"outputs\[1\]: cmu is not below the modulus"),
    ]
    for kind, rows, column, data, message in cases:
        changed = [rows[0], [*rows[1][:column], data, *rows[1][column + 1 :]]]
        with pytest.raises(InputError, match=message):
            decode_statements(kind, changed)
    with pytest.raises(InputError, match=r"converts\[0\] has another number of fields"):
        decode_statements(zcash.ConvertStatement, [[bytes(32)]])


@pytest.mark.fixtures
def test_bundles_of_the_chain(shared_fixtures: Path) -> None:
    """39 bundles: bvk, signatures, and balances that differ by one."""
    rows = json.loads((shared_fixtures / "zcash" / "sapling_bundles.json").read_text())
    assert len(rows) == 39
    verified = 0
    for row in rows:
        content = chain_bundle(row, row["value_balance"])
        bvk = encode_edwards(JUBJUB, content.binding_verification_key)
        assert bvk.hex() == row["bvk"]
        if row["sighash"] is None:
            continue
        sighash = bytes.fromhex(row["sighash"])
        signatures = [bytes.fromhex(spend["spendAuthSig"]) for spend in row["spends"]]
        binding = bytes.fromhex(row["binding_sig"])
        Bundle(content, signatures, binding).verify_signatures(sighash)
        verified += 1
        wrong = chain_bundle(row, row["value_balance"] + 1)
        with pytest.raises(VerificationError, match="bindingSig is invalid"):
            Bundle(wrong, signatures, binding).verify_signatures(sighash)
    assert verified == 34


def chain_bundle(row: Mapping[str, Any], balance: int) -> UnsignedBundle:
    spends, outputs = (
        decode_statements(
            kind, [[bytes.fromhex(entry[field]) for field in fields] for entry in row[name]]
        )
        for name, kind, fields in (
            ("spends", zcash.SpendStatement, ("cv", "anchor", "nullifier", "rk")),
            ("outputs", zcash.OutputStatement, ("cv", "ephemeralKey", "cmu")),
        )
    )
    return UnsignedBundle(
        [Entry(statement) for statement in spends], [Entry(statement) for statement in outputs],
        balance, shared_anchors=row["tx_version"] != 4,
    )  # fmt: skip
