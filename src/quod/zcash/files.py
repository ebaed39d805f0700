"""Notes and Outputs as JSON, with bytes in hex, in the order of the Zcash specification."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from quod.errors import InputError, naming_file
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind, parse_json, read_json
from quod.groth16.encodings.bellman import proof_from_bytes, proof_to_bytes
from quod.validation import bytes_of_hex, whole_number
from quod.zcash.address import PaymentAddress
from quod.zcash.note import Note, ephemeral_secret
from quod.zcash.output import Output
from quod.zcash.output_statement import OutputStatement
from quod.zcash.protocol import MASP, SAPLING
from quod.zcash.scalars import decode_scalar, encode_scalar

_FIELDS = ("cv", "cmu", "epk", "proof")
_NOTE = JsonKind("a note", max_bytes=1 << 16, max_values=1 << 8, secret=True)
_OUTPUTS = JsonKind("a list of Outputs", max_bytes=256 << 20, max_values=1 << 22)
_NOTE_FIELDS = {"address", "value", "rseed", "rcm", "esk", "rcv"}


def read_note(path: Path, asset: bytes | None = None) -> tuple[Note, int | None, int | None]:
    """Read a note; return it with its esk and rcv, or None for those that the file lacks.

    asset: the identifier of an asset, for a note of MASP.

    The file is an object with `address` (43 bytes), `value`, `rseed` or `rcm`, and optionally
    `rcv` and, without `rseed`, `esk`; `rseed` determines esk. Raises InputError, whose message
    shows none of the values.
    """
    note = _parse(path, _NOTE)
    with naming_file(path):
        return _note_of(note, asset)


def _note_of(note: Any, asset: bytes | None) -> tuple[Note, int | None, int | None]:
    if not isinstance(note, dict) or not {"address", "value"} <= note.keys() <= _NOTE_FIELDS:
        raise InputError(
            "a note must be an object with address, value, rseed or rcm, and optionally esk and rcv"
        )
    if ("rseed" in note) == ("rcm" in note) or {"rseed", "esk"} <= note.keys():
        raise InputError("a note must have either rseed, which determines esk, or rcm")
    address = PaymentAddress.from_bytes(
        _hex("address", note["address"]), SAPLING if asset is None else MASP
    )
    value = whole_number("the value", note["value"], 0, (1 << 64) - 1)
    esk, rcv = (
        decode_scalar(name, _hex(name, note[name])) if name in note else None
        for name in ("esk", "rcv")
    )
    if "rcm" in note:
        rcm = decode_scalar("rcm", _hex("rcm", note["rcm"]))
        return Note(address, value, rcm, asset), esk, rcv
    rseed = _hex("rseed", note["rseed"])
    note_from_seed = Note.from_seed(address, value, rseed, asset)
    return note_from_seed, ephemeral_secret(rseed, address.protocol), rcv


def read_outputs(path: Path) -> list[Output | InputError]:
    """Read a list of Outputs; a malformed Output becomes its error.

    Each is an object with at least `cv`, `cmu`, `epk` (32 bytes each) and `proof` (192 bytes).
    """
    outputs = _parse(path, _OUTPUTS)
    if not isinstance(outputs, list) or not outputs:
        raise InputError("has no list of Outputs", path=path)
    return [_output_or_error(entry) for entry in outputs]


def _output_or_error(entry: object) -> Output | InputError:
    try:
        return _output_of(entry)
    except InputError as error:
        return error


def read_output(path: Path) -> Output:
    """Read the Output of a file; raise InputError for one that consensus rules reject."""
    document = _parse(path, _OUTPUTS)
    with naming_file(path):
        return _output_of(document)


def _output_of(entry: Any) -> Output:
    if not isinstance(entry, Mapping) or not entry.keys() >= {*_FIELDS}:
        raise InputError(f"an Output must be an object with {', '.join(_FIELDS)}")
    cv, cmu, epk, proof = (_hex(name, entry[name]) for name in _FIELDS)
    statement = OutputStatement.from_bytes(cv, epk, cmu)
    # The verifier checks the subgroups of the proof's points.
    return Output(statement, proof_from_bytes(proof, check_subgroup=False))


def output_to_json(output: Output) -> str:
    """Return the JSON text that `read_output` reads."""
    cv, epk, cmu = output.statement.to_bytes()
    encodings = (cv, cmu, epk, proof_to_bytes(output.proof))
    return _json({name: part.hex() for name, part in zip(_FIELDS, encodings, strict=True)})


def secrets_to_json(scalars: Mapping[str, int]) -> str:
    """Return a JSON object of scalars in hex, by name."""
    return _json({name: encode_scalar(value).hex() for name, value in scalars.items()})


def _json(value: Mapping[str, str] | Sequence[str]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _parse(path: Path, kind: JsonKind) -> Any:
    return parse_json(read_json(path, kind), os.fspath(path), kind)


def _hex(name: str, text: object) -> bytes:
    value = bytes_of_hex(text)
    if value is None:
        raise InputError(f"{name} must be text in hex")
    return value
