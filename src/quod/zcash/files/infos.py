"""Private information of one proof as JSON: the note of an Output, a Spend, a Convert.

Errors name the field and show none of the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind
from quod.frozen import frozen
from quod.zcash.address import PaymentAddress
from quod.zcash.conversion import AllowedConversion
from quod.zcash.files.fields import Fields, amounts_by_asset, opened, to_json
from quod.zcash.keys import ProofGenerationKey
from quod.zcash.note import Note, ephemeral_secret
from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, ProofInfo, SpendInfo
from quod.zcash.protocol import MASP, SAPLING
from quod.zcash.scalars import encode_scalar
from quod.zcash.statement_fields import decode_point

_OUTPUT = JsonKind("a note", max_bytes=1 << 16, max_values=1 << 8, secret=True)
_SPEND = JsonKind("a Spend", max_bytes=1 << 16, max_values=1 << 8, secret=True)
_CONVERT = JsonKind("a Convert", max_bytes=1 << 18, max_values=1 << 12, secret=True)

_NOTE = ("address", "value")
_OPTIONAL_NOTE = ("rseed", "rcm", "asset")


@frozen
class InfoFile:
    """The private information of a proof in a file.

    info: the information; scalars that the file lacks are drawn.
    drawn: the names of the drawn scalars, which later steps of a transaction need.
    """

    info: ProofInfo
    drawn: tuple[str, ...]

    def __repr__(self) -> str:
        return f"InfoFile(drawn={self.drawn})"

    @property
    def secrets(self) -> dict[str, int]:
        """The scalars of the file that later steps of a transaction need, by name."""
        names = [name for name in ("alpha", "esk", "rcv") if hasattr(self.info, name)]
        return {name: getattr(self.info, name) for name in names}


def read_output_info(path: Path) -> InfoFile:
    """Read the note of an Output.

    A note with `asset`, the identifier, is one of MASP. `rseed` determines esk. Raises InputError,
    whose message names the field and shows none of the values.
    """
    with opened(path, _OUTPUT) as document:
        return output_info(document)


def read_spend_info(path: Path) -> InfoFile:
    """Read a Spend: a note with its path, and the key that proves.

    Raises InputError, whose message names the field and shows none of the values, also for an
    anchor that is not the root of the path, unless the value is 0.
    """
    with opened(path, _SPEND) as document:
        return spend_info(document)


def read_convert_info(path: Path) -> InfoFile:
    """Read a Convert: an allowed conversion with its path, and how many units are converted.

    Raises InputError, whose message names the field, also for an anchor that is not the root of the
    path, unless the value is 0.
    """
    with opened(path, _CONVERT) as document:
        return convert_info(document)


def output_info(document: object, prefix: str = "") -> InfoFile:
    """Return the note of an Output; `prefix` is in front of the names of fields in errors."""
    fields = Fields(document, _NOTE, (*_OPTIONAL_NOTE, "esk", "rcv"), prefix)
    note = _note(fields, prefix.rstrip(".") or None)
    if "rseed" in fields:
        esk = ephemeral_secret(fields.bytes("rseed"), note.protocol)
        if "esk" in fields and fields.scalar("esk") != esk:
            raise InputError("is not the scalar that rseed determines", section=f"{prefix}esk")
    else:
        esk = fields.scalar_or_drawn("esk", least=1)
    rcv = fields.scalar_or_drawn("rcv")
    return InfoFile(OutputInfo(note, esk, rcv), fields.drawn)


def spend_info(document: object, prefix: str = "", extra: Sequence[str] = ()) -> InfoFile:
    """Return a Spend; `prefix` as in `output_info`.

    extra: the names of optional fields that the caller reads.
    """
    fields = Fields(
        document, ("ak", "nsk", "note", "position", "path"), ("alpha", "rcv", "anchor", *extra),
        prefix,
    )  # fmt: skip
    note = _note(Fields(fields["note"], _NOTE, _OPTIONAL_NOTE, f"{prefix}note."), f"{prefix}note")
    with fields.naming("ak"):
        ak = decode_point("ak", fields.bytes("ak", 32))
    with fields.naming("ak"):
        key = ProofGenerationKey(ak, fields.scalar("nsk"), note.protocol)
    with fields.naming("note.address"):
        if not key.owns(note.address):
            raise InputError("is not an address of ak and nsk")
    merkle_path = fields.merkle_path()
    anchor = fields.anchor(merkle_path, note.cmu, note.protocol, is_any_accepted=note.value == 0)
    alpha, rcv = (fields.scalar_or_drawn(name) for name in ("alpha", "rcv"))
    return InfoFile(SpendInfo(key, note, merkle_path, alpha, rcv, anchor), fields.drawn)


def convert_info(document: object, prefix: str = "") -> InfoFile:
    """Return a Convert; `prefix` as in `output_info`."""
    fields = Fields(document, ("weights", "value", "position", "path"), ("rcv", "anchor"), prefix)
    with fields.naming("weights"):
        conversion = AllowedConversion(amounts_by_asset(fields["weights"]))
    value = fields.value()
    merkle_path = fields.merkle_path()
    anchor = fields.anchor(merkle_path, conversion.leaf, MASP, is_any_accepted=value == 0)
    rcv = fields.scalar_or_drawn("rcv")
    return InfoFile(ConvertInfo(conversion, value, merkle_path, rcv, anchor), fields.drawn)


def secrets_to_json(scalars: Mapping[str, int]) -> str:
    """Return a JSON object of scalars in hex, by name."""
    return to_json(encoded_secrets(scalars))


def encoded_secrets(scalars: Mapping[str, int]) -> dict[str, str]:
    """Return scalars in hex, by name."""
    return {name: encode_scalar(value).hex() for name, value in scalars.items()}


def _note(fields: Fields, section: str | None) -> Note:
    """Return the note of the fields `address`, `value`, `rseed` or `rcm`, and `asset`.

    section: the name of the object in errors; None for the whole document.
    """
    if ("rseed" in fields) == ("rcm" in fields):
        raise InputError("needs either rseed or rcm", section=section)
    asset = fields.bytes("asset", 32) if "asset" in fields else None
    data = fields.bytes("address")
    with fields.naming("address"):
        address = PaymentAddress.from_bytes(data, SAPLING if asset is None else MASP)
    value = fields.value()
    with fields.naming("asset"):
        if "rcm" in fields:
            return Note(address, value, fields.scalar("rcm"), asset)
        return Note.from_seed(address, value, fields.bytes("rseed", 32), asset)
