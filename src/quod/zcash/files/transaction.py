"""The private information of all proofs of a transaction as JSON, and the bundle of its proofs.

| field | content |
|---|---|
| spends, outputs, converts | lists of `quod.zcash.files.infos`; each Spend possibly with ask |
| valueBalance, version | see `quod.zcash.files.bundle` |
| sighash | possibly; then each Spend needs ask, and no scalar may be missing |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quod.errors import InputError, MismatchError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind
from quod.frozen import frozen
from quod.wording import alternatives
from quod.zcash.bundle.proving import bundle_signing_key
from quod.zcash.bundle.signed import Bundle, check_balance
from quod.zcash.bundle.statements import LISTS
from quod.zcash.bundle.unsigned import UnsignedBundle
from quod.zcash.files.bundle import (
    BALANCE,
    BINDING_SIGNATURE,
    SIGHASH,
    SIGHASH_BYTES,
    SPEND_SIGNATURE,
    VERSION,
    Balance,
    balance_of,
    encoded_balance,
    entries_of,
)
from quod.zcash.files.descriptions import encoded_description
from quod.zcash.files.fields import Fields, hex_bytes, naming_section, opened, to_json
from quod.zcash.files.infos import (
    InfoFile,
    convert_info,
    encoded_secrets,
    output_info,
    spend_info,
)
from quod.zcash.proofs.description import Description
from quod.zcash.proofs.infos import ProofInfo, SpendInfo
from quod.zcash.scalars import SCALAR_BYTES, decode_scalar
from quod.zcash.signatures.redjubjub import spend_auth_scheme, spend_auth_signature

_TRANSACTION = JsonKind(
    "the Spends, Outputs and Converts of a transaction", max_bytes=256 << 20, max_values=1 << 22,
    secret=True,
)  # fmt: skip
_ASK = "ask"


@frozen(eq=False)
class SigningKeys:
    """The sighash of a transaction, and ask of each Spend."""

    sighash: bytes
    asks: Sequence[int]

    def __repr__(self) -> str:
        return "SigningKeys(...)"


@frozen(eq=False)
class TransactionFile:
    """The private information of a transaction.

    content: the bundle whose entries are the infos of proofs.
    files: the information of each entry by its name, such as ``spends[0]``.
    balance: the value balance.
    keys: the keys that sign, if the file has a sighash.
    """

    content: UnsignedBundle
    files: dict[str, InfoFile]
    balance: Balance
    keys: SigningKeys | None

    def __repr__(self) -> str:
        return f"TransactionFile(drawn={self.drawn})"

    @property
    def infos(self) -> dict[str, list[ProofInfo]]:
        """The infos of each list that is not empty, by its name."""
        lists: dict[str, list[ProofInfo]] = {}
        for name, file in self.files.items():
            lists.setdefault(name.partition("[")[0], []).append(file.info)
        return lists

    @property
    def drawn(self) -> list[str]:
        """The names of the scalars that were drawn, such as ``spends[0].alpha``."""
        return [f"{name}.{scalar}" for name, file in self.files.items() for scalar in file.drawn]

    def sign(self, proved: UnsignedBundle) -> Bundle | None:
        """Sign the bundle of the proofs; None if the file has no sighash."""
        if self.keys is None:
            return None
        sighash, protocol = self.keys.sighash, proved.protocol
        signatures = [
            spend_auth_signature(ask, info.alpha, sighash, protocol)
            for ask, info in zip(self.keys.asks, self.content.spends, strict=True)
            if isinstance(info, SpendInfo)
        ]
        return Bundle.sign(proved, signatures, bundle_signing_key(self.content), sighash)

    def secrets_to_json(self) -> str:
        """Return the scalars that later steps of the transaction need, in lists as the file's."""
        lists: dict[str, list[dict[str, str]]] = {name: [] for name in LISTS}
        for name, file in self.files.items():
            lists[name.partition("[")[0]].append(encoded_secrets(file.secrets))
        return to_json({name: scalars for name, scalars in lists.items() if scalars})

    def bundle_to_json(self, proved: UnsignedBundle, signed: Bundle | None) -> str:
        """Return the JSON text of a bundle of descriptions, which `read_descriptions` reads."""
        lists: dict[str, Any] = {
            name: [encoded_description(each) for each in entries if isinstance(each, Description)]
            for name, entries in zip(
                LISTS, (proved.spends, proved.outputs, proved.converts), strict=True
            )
            if name != "converts" or proved.protocol.has_assets
        }
        document = lists | encoded_balance(self.balance)
        if signed is not None and self.keys is not None:
            for fields, signature in zip(lists["spends"], signed.spend_signatures, strict=True):
                fields[SPEND_SIGNATURE] = signature.hex()
            document[SIGHASH] = self.keys.sighash.hex()
            if signed.binding_signature is not None:
                document[BINDING_SIGNATURE] = signed.binding_signature.hex()
        return to_json(document)


def read_transaction(path: Path) -> TransactionFile:
    """Read the private information of a transaction.

    Raises InputError, whose message names the field and shows none of the values. Raises
    MismatchError, before any proof, for values that do not balance, for Spends with different
    anchors, and for an entry of another protocol than the value balance.
    """
    with opened(path, _TRANSACTION) as document:
        fields = Fields(document, (BALANCE,), (*LISTS, VERSION, SIGHASH))
        balance = balance_of(fields)
        spends, outputs, converts = (entries_of(document, name) for name in LISTS)
        files = {name: spend_info(entry, f"{name}.", [_ASK]) for name, entry in spends.items()}
        files |= {name: output_info(entry, f"{name}.") for name, entry in outputs.items()}
        files |= {name: convert_info(entry, f"{name}.") for name, entry in converts.items()}
        if not files:
            raise InputError(f"has no {alternatives(LISTS)}")
        for name, file in files.items():
            protocol = file.info.kind.protocol
            if protocol != balance.protocol:
                raise MismatchError(
                    f"is of {protocol}, but {BALANCE} of {balance.protocol}: in MASP notes have an "
                    f"asset, and {BALANCE} is an object",
                    section=name,
                )
            with naming_section(name):
                _ = file.info.statement  # consensus rules reject points of small order
        content = UnsignedBundle(
            [files[name].info for name in spends], [files[name].info for name in outputs],
            balance.value, [files[name].info for name in converts], balance.protocol,
            shared_anchors=balance.shared_anchors,
        )  # fmt: skip
        check_balance(content, bundle_signing_key(content))
        keys = _signing_keys(fields, spends, files)
    return TransactionFile(content, files, balance, keys)


def _signing_keys(
    fields: Fields, spends: Mapping[str, Mapping[str, Any]], files: Mapping[str, InfoFile]
) -> SigningKeys | None:
    """Return the keys of a document with a sighash; raise InputError for keys without one."""
    if SIGHASH not in fields:
        for name, entry in spends.items():
            if _ASK in entry:
                raise InputError(
                    f"has no use without {SIGHASH}; remove it, or add {SIGHASH}",
                    section=f"{name}.{_ASK}",
                )
        return None
    sighash = fields.bytes(SIGHASH, SIGHASH_BYTES)
    for name, file in files.items():
        for scalar in file.drawn:
            raise InputError(
                f"is missing, and {SIGHASH} depends on it; to draw it, prove without {SIGHASH} "
                "first",
                section=f"{name}.{scalar}",
            )
    asks = []
    for name, entry in spends.items():
        info, section = files[name].info, f"{name}.{_ASK}"
        assert isinstance(info, SpendInfo)
        if _ASK not in entry:
            raise InputError(f"is missing; with {SIGHASH} each Spend needs it", section=section)
        with naming_section(section):
            ask = decode_scalar(_ASK, hex_bytes(entry[_ASK], SCALAR_BYTES), least=1)
            if spend_auth_scheme(info.key.protocol).verification_key(ask) != info.key.ak:
                raise InputError("is not the key of ak")
        asks.append(ask)
    return SigningKeys(sighash, asks)
