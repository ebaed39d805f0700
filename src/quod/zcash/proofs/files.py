"""Private information and descriptions as JSON, with bytes in hex, in the order of the protocol.

| file | fields |
|---|---|
| a note of an Output | address, value, rseed or rcm; asset (MASP); possibly rcv, and esk with rcm |
| a Spend | ak, nsk, note (without rcv and esk), position, path; possibly alpha, rcv, anchor |
| a Convert | weights by asset, value, position, path; possibly rcv, anchor |
| descriptions | one, a list, or an object with lists `spends`, `outputs` and `converts` |

`path` has 32 siblings, the leaf's first. The anchor is by default the root of the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from quod.curve.named.jubjub import JUBJUB
from quod.device.discovery import DeviceChoice
from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind, parse_json, read_json
from quod.frozen import frozen
from quod.hash.arguments import element
from quod.validation import bytes_of_hex, file_path
from quod.zcash.address import PaymentAddress
from quod.zcash.conversion import AllowedConversion
from quod.zcash.keys import ProofGenerationKey
from quod.zcash.note import Note, ephemeral_secret, note_value
from quod.zcash.output_statement import OutputStatement
from quod.zcash.proofs.description import Description, decode_descriptions
from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, ProofInfo, SpendInfo
from quod.zcash.proofs.kinds import Statement
from quod.zcash.protocol import MASP, SAPLING, Protocol
from quod.zcash.scalars import decode_scalar, encode_scalar, random_scalar
from quod.zcash.spend_statement import ConvertStatement, SpendStatement
from quod.zcash.statement_fields import decode_number, decode_point
from quod.zcash.tree import MerklePath

_OUTPUT = JsonKind("a note", max_bytes=1 << 16, max_values=1 << 8, secret=True)
_SPEND = JsonKind("a Spend", max_bytes=1 << 16, max_values=1 << 8, secret=True)
_CONVERT = JsonKind("a Convert", max_bytes=1 << 18, max_values=1 << 12, secret=True)
_DESCRIPTIONS = JsonKind("descriptions", max_bytes=256 << 20, max_values=1 << 22)

_NOTE_FIELDS = ("address", "value")
_OPTIONAL_NOTE_FIELDS = ("rseed", "rcm", "asset")
_PROOF = "proof"
_LISTS: dict[str, type[Statement]] = {
    "spends": SpendStatement, "outputs": OutputStatement, "converts": ConvertStatement
}  # fmt: skip


@frozen
class InfoFile:
    """The content of a file of private information.

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
    with _opened(path, _OUTPUT) as document:
        fields = _Fields(document, _NOTE_FIELDS, (*_OPTIONAL_NOTE_FIELDS, "esk", "rcv"))
        if "rseed" in fields and "esk" in fields:
            raise InputError("must be missing, as rseed determines it", section="esk")
        note = _note(fields)
        if "rseed" in fields:
            esk = ephemeral_secret(fields.bytes("rseed"), note.protocol)
        else:
            esk = fields.scalar_or_drawn("esk")
        return fields.file(OutputInfo(note, esk, fields.scalar_or_drawn("rcv")))


def read_spend_info(path: Path) -> InfoFile:
    """Read a Spend: a note with its path, and the key that proves.

    Raises InputError, whose message names the field and shows none of the values, also for an
    anchor that is not the root of the path, unless the value is 0.
    """
    with _opened(path, _SPEND) as document:
        fields = _Fields(
            document, ("ak", "nsk", "note", "position", "path"), ("alpha", "rcv", "anchor")
        )
        note = _note(_Fields(fields["note"], _NOTE_FIELDS, _OPTIONAL_NOTE_FIELDS, "note."))
        with fields.naming("ak"):
            ak = decode_point("ak", fields.bytes("ak", 32))
        with fields.naming("ak"):
            key = ProofGenerationKey(ak, fields.scalar("nsk"), note.protocol)
        with fields.naming("note.address"):
            if not key.owns(note.address):
                raise InputError("is not an address of ak and nsk")
        merkle_path = fields.merkle_path()
        anchor = fields.anchor(
            merkle_path, note.cmu, note.protocol, is_any_accepted=note.value == 0
        )
        alpha, rcv = (fields.scalar_or_drawn(name) for name in ("alpha", "rcv"))
        return fields.file(SpendInfo(key, note, merkle_path, alpha, rcv, anchor))


def read_convert_info(path: Path) -> InfoFile:
    """Read a Convert: an allowed conversion with its path, and how many units are converted.

    Raises InputError, whose message names the field, also for an anchor that is not the root of the
    path, unless the value is 0.
    """
    with _opened(path, _CONVERT) as document:
        fields = _Fields(document, ("weights", "value", "position", "path"), ("rcv", "anchor"))
        weights = fields["weights"]
        with fields.naming("weights"):
            if not isinstance(weights, dict):
                raise InputError("must be an object: a weight for the identifier of each asset")
            conversion = AllowedConversion(
                {_hex_bytes(asset, 32): weight for asset, weight in weights.items()}
            )
        value = fields.value()
        merkle_path = fields.merkle_path()
        anchor = fields.anchor(merkle_path, conversion.leaf, MASP, is_any_accepted=value == 0)
        rcv = fields.scalar_or_drawn("rcv")
        return fields.file(ConvertInfo(conversion, value, merkle_path, rcv, anchor))


def read_descriptions(
    path: Path, device: DeviceChoice = "cpu"
) -> dict[str, Description | InputError]:
    """Read descriptions by their names in messages; a malformed one becomes its error.

    A description has the fields of its statement and `proof`, and possibly others. The fields
    determine its kind. The device computes square roots.
    """
    with _opened(path, _DESCRIPTIONS) as document:
        entries = dict(_named_entries(document))
        if not entries:
            raise InputError("has no descriptions")
    parts: dict[str, tuple[type[Statement], list[bytes]]] = {}
    results: dict[str, Description | InputError] = {}
    for name, (entry, statement) in entries.items():
        try:
            parts[name] = _parts(entry, statement)
        except InputError as error:
            results[name] = error
    decoded = decode_descriptions(list(parts.values()), device)
    results |= dict(zip(parts, decoded, strict=True))
    return {name: results[name] for name in entries}


def description_to_json(description: Description) -> str:
    """Return the JSON text that `read_descriptions` reads."""
    names = (*description.statement.fields, _PROOF)
    encodings = zip(names, description.to_bytes(), strict=True)
    return _json({name: part.hex() for name, part in encodings})


def secrets_to_json(scalars: Mapping[str, int]) -> str:
    """Return a JSON object of scalars in hex, by name."""
    return _json({name: encode_scalar(value).hex() for name, value in scalars.items()})


# --- descriptions


def _named_entries(document: Any) -> Iterator[tuple[str, tuple[Any, type[Statement] | None]]]:
    """Yield the entries of a document with their names, and their kind if the document says it."""
    if isinstance(document, list):
        for index, entry in enumerate(document):
            yield f"description {index}", (entry, None)
        return
    if not isinstance(document, dict):
        raise InputError("must be a description, a list of them, or an object with lists")
    if document.keys().isdisjoint(_LISTS):
        yield "the description", (document, None)
        return
    for name in document:
        if name not in _LISTS:
            raise InputError(
                f"is none of {', '.join(_LISTS)}, which the object has too", section=str(name)
            )
    for name, statement in _LISTS.items():
        entries = document.get(name, [])
        if not isinstance(entries, list):
            raise InputError("must be a list of descriptions", section=name)
        for index, entry in enumerate(entries):
            yield f"{name}[{index}]", (entry, statement)


def _parts(entry: Any, statement: type[Statement] | None) -> tuple[type[Statement], list[bytes]]:
    """Return the class of an entry's statement, and its fields with the proof."""
    if not isinstance(entry, dict):
        raise InputError("a description must be an object")
    kinds = _LISTS.values() if statement is None else (statement,)
    matching = [kind for kind in kinds if entry.keys() >= {*kind.fields, _PROOF}]
    if len(matching) > 1:
        raise InputError("a description must have the fields of one kind, not of several")
    for kind in matching:
        names = (*kind.fields, _PROOF)
        fields = _Fields(entry, names, tuple(entry))
        return kind, [fields.bytes(name) for name in names]
    alternatives = " or ".join(f"{', '.join(kind.fields)}, {_PROOF}" for kind in kinds)
    raise InputError(f"a description must have {alternatives}")


# --- fields of objects


class _Fields:
    """The fields of a JSON object, whose errors name them."""

    def __init__(
        self, document: Any, required: Sequence[str], optional: Sequence[str], prefix: str = ""
    ) -> None:
        """Check the names of the fields; `prefix` is in front of them in errors."""
        self._prefix = prefix
        self._drawn: list[str] = []
        where = prefix.rstrip(".") or None
        if not isinstance(document, dict):
            raise InputError("must be an object", section=where)
        self._document: dict[str, Any] = document
        for name in required:
            if name not in document:
                raise InputError("is missing", section=prefix + name)
        for name in document:
            if name not in required and name not in optional:
                allowed = ", ".join((*required, *optional))
                raise InputError(f"has an unknown field; it may have {allowed}", section=where)

    def __contains__(self, name: str) -> bool:
        return name in self._document

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Add the name of a field to the errors of a block."""
        try:
            yield
        except InputError as error:
            if error.section is not None:
                raise
            raise InputError(error.message, section=self._prefix + name) from None

    def bytes(self, name: str, size: int | None = None) -> bytes:
        """Return bytes in hex, of the given length if any."""
        with self.naming(name):
            return _hex_bytes(self[name], size)

    def scalar(self, name: str) -> int:
        """Return a canonical scalar."""
        data = self.bytes(name)
        with self.naming(name):
            return decode_scalar(name, data)

    def scalar_or_drawn(self, name: str) -> int:
        """Return a scalar; draw it if the object lacks it."""
        if name in self:
            return self.scalar(name)
        self._drawn.append(name)
        return random_scalar()

    def file(self, info: ProofInfo) -> InfoFile:
        """Return the content of the file, with the names of the scalars that were drawn."""
        return InfoFile(info, tuple(self._drawn))

    def value(self) -> int:
        """Return the field `value`."""
        with self.naming("value"):
            return note_value(self["value"], "the value")

    def merkle_path(self) -> MerklePath:
        """Return the path of the fields `path` and `position`."""
        with self.naming("path"):
            if not isinstance(self["path"], list):
                raise InputError("must be a list of siblings, the leaf's first")
            siblings = [decode_number("a sibling", _hex_bytes(text, 32)) for text in self["path"]]
            MerklePath(siblings, 0)
        with self.naming("position"):
            try:
                return MerklePath(siblings, self["position"])
            except InputError:
                # The message has the value, which may be a secret in the wrong place.
                raise InputError(
                    "the position must be a whole number from 0 to 2**32 - 1"
                ) from None

    def anchor(
        self, path: MerklePath, leaf: int, protocol: Protocol, *, is_any_accepted: bool
    ) -> int:
        """Return the field `anchor`, by default the root of the path.

        is_any_accepted: whether the anchor may be another, as for a value of 0.
        """
        root = path.root(leaf, protocol)
        if "anchor" not in self:
            return root
        with self.naming("anchor"):
            number = decode_number("the anchor", self.bytes("anchor", 32))
            anchor = element("the anchor", number, JUBJUB.fq)
            if anchor != root and not is_any_accepted:
                raise InputError("is not the root of the path: check path, position and note")
            return anchor


def _note(fields: _Fields) -> Note:
    """Return the note of the fields `address`, `value`, `rseed` or `rcm`, and `asset`."""
    if ("rseed" in fields) == ("rcm" in fields):
        raise InputError("needs either rseed or rcm", section="note")
    asset = fields.bytes("asset", 32) if "asset" in fields else None
    data = fields.bytes("address")
    with fields.naming("address"):
        address = PaymentAddress.from_bytes(data, SAPLING if asset is None else MASP)
    value = fields.value()
    with fields.naming("asset"):
        if "rcm" in fields:
            return Note(address, value, fields.scalar("rcm"), asset)
        return Note.from_seed(address, value, fields.bytes("rseed", 32), asset)


@contextmanager
def _opened(path: Path, kind: JsonKind) -> Iterator[Any]:
    """Parse a file, and add its name to the errors of the block."""
    name = file_path(path)
    document = parse_json(read_json(name, kind), name, kind)
    try:
        yield document
    except InputError as error:
        raise InputError(error.message, path=name, section=error.section) from None


def _hex_bytes(text: object, size: int | None = None) -> bytes:
    data = bytes_of_hex(text)
    if data is None:
        raise InputError("must be text in hex")
    if size is not None and len(data) != size:
        raise InputError(f"must be {size} bytes, not {len(data)}")
    return data


def _json(value: Mapping[str, str]) -> str:
    return json.dumps(value, indent=1) + "\n"
