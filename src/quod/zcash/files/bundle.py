"""Bundles as JSON: descriptions with a value balance and signatures.

| field | content |
|---|---|
| spends, outputs, converts | lists of descriptions; each Spend has spendAuthSig, 64 bytes |
| valueBalance | in zatoshi; in MASP an object: an amount for the identifier of each asset |
| version | the transaction's: 4 lets anchors differ; possibly, only in Sapling |
| sighash, bindingSig | the hash that all signatures sign, 32 bytes; 64 bytes |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import whole_number
from quod.zcash.bundle.balance import ValueBalance, checked_balance
from quod.zcash.bundle.signed import Bundle
from quod.zcash.bundle.statements import LISTS
from quod.zcash.bundle.unsigned import UnsignedBundle
from quod.zcash.files.fields import (
    Fields,
    amounts_by_asset,
    hex_bytes,
    naming_section,
    number_of,
)
from quod.zcash.proofs.description import Description
from quod.zcash.protocol import MASP, SAPLING, Protocol
from quod.zcash.signatures.redjubjub import SIGNATURE_BYTES

BALANCE, VERSION, SIGHASH = "valueBalance", "version", "sighash"
SPEND_SIGNATURE, BINDING_SIGNATURE = "spendAuthSig", "bindingSig"
FIELDS = (BALANCE, VERSION, SIGHASH, BINDING_SIGNATURE)
"""The fields that only bundles have, not lists of descriptions."""

SIGHASH_BYTES = 32
_MIN_VERSION, _MAX_VERSION = 4, 6


@frozen
class Balance:
    """The value balance of a file, with what else holds for all entries.

    protocol: MASP if the balance has assets, else SAPLING.
    version: the version of the transaction; None if the file does not say it.
    """

    value: ValueBalance
    protocol: Protocol
    version: int | None

    @property
    def shared_anchors(self) -> bool:
        """True if all Spends must have one anchor, as in each version but 4."""
        return self.version != _MIN_VERSION


@frozen(eq=False)
class BundleSignatures:
    """The part of a signed bundle that is not descriptions."""

    balance: Balance
    sighash: bytes
    spend_signatures: Sequence[bytes]
    binding_signature: bytes

    def bundle(self, descriptions: Sequence[Description]) -> Bundle:
        """Return the bundle of these descriptions, whose signatures are not verified yet.

        Raises the errors of `UnsignedBundle`, such as a nullifier that occurs twice.
        """
        spends, outputs, converts = (
            [each for each in descriptions if isinstance(each.statement, kind)]
            for kind in LISTS.values()
        )
        content = UnsignedBundle(
            spends, outputs, self.balance.value, converts, self.balance.protocol,
            shared_anchors=self.balance.shared_anchors,
        )  # fmt: skip
        return Bundle(content, self.spend_signatures, self.binding_signature)


def bundle_signatures(document: Mapping[str, Any]) -> BundleSignatures:
    """Return the signatures of a document; raise InputError, with the field's name."""
    if BINDING_SIGNATURE not in document and BALANCE in document:
        raise InputError(
            f"is missing: sign the bundle, or remove {BALANCE} to verify only the proofs",
            section=BINDING_SIGNATURE,
        )
    fields = Fields(document, (BALANCE, SIGHASH, BINDING_SIGNATURE), (*LISTS, VERSION))
    signatures = []
    for name, entry in entries_of(document, "spends").items():
        section = f"{name}.{SPEND_SIGNATURE}"
        if not isinstance(entry, dict) or SPEND_SIGNATURE not in entry:
            raise InputError("is missing: each Spend of a bundle has one", section=section)
        with naming_section(section):
            signatures.append(hex_bytes(entry[SPEND_SIGNATURE], SIGNATURE_BYTES))
    return BundleSignatures(
        balance_of(fields), fields.bytes(SIGHASH, SIGHASH_BYTES), signatures,
        fields.bytes(BINDING_SIGNATURE, SIGNATURE_BYTES),
    )  # fmt: skip


def balance_of(fields: Fields) -> Balance:
    """Return the value balance and the version of a document."""
    balance, version = fields[BALANCE], None
    protocol = MASP if isinstance(balance, dict) else SAPLING
    with fields.naming(BALANCE):
        if isinstance(balance, dict):
            value = checked_balance(MASP, amounts_by_asset(balance))
        else:
            value = checked_balance(SAPLING, number_of(balance))
    if VERSION in fields:
        with fields.naming(VERSION):
            if protocol.has_assets:
                raise InputError("must be missing: only transactions of Sapling have it")
            version = whole_number(
                "the version", number_of(fields[VERSION]), _MIN_VERSION, _MAX_VERSION
            )
    return Balance(value, protocol, version)


def encoded_balance(balance: Balance) -> dict[str, Any]:
    """Return the fields of a balance."""
    value = balance.value
    version = {} if balance.version is None else {VERSION: balance.version}
    if isinstance(value, int):
        return {BALANCE: value, **version}
    return {BALANCE: {asset.hex(): str(amount) for asset, amount in value.items()}, **version}


def entries_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the entries of a list by their names in messages; a missing list is empty."""
    entries = document.get(name, [])
    if not isinstance(entries, list):
        raise InputError("must be a list", section=name)
    return {f"{name}[{index}]": entry for index, entry in enumerate(entries)}
