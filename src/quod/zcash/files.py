"""Notes and Outputs as JSON: bytes in hex, in the order of the Zcash protocol specification."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind, parse_json, read_json
from quod.groth16.encodings.bellman import proof_from_bytes, proof_to_bytes
from quod.validation import whole_number
from quod.zcash.address import PaymentAddress
from quod.zcash.note import Note, ephemeral_secret
from quod.zcash.output import Output
from quod.zcash.output_statement import OutputStatement
from quod.zcash.scalars import decode_scalar, encode_scalar

_FIELDS = ("cv", "cmu", "epk", "proof")
_NOTE = JsonKind("a note", 1 << 16, 1 << 8, secret=True)
_OUTPUTS = JsonKind("a list of Outputs", 256 << 20, 1 << 22)
_NOTE_FIELDS = {"address", "value", "rseed", "rcm", "esk", "rcv"}


def read_note(path: Path) -> tuple[Note, int | None, int | None]:
    """The note of a file, with esk and rcv where the file says them.

    An object with `address` (43 bytes), `value`, and `rseed` or `rcm`; esk follows from `rseed`,
    else `esk` says it, as `rcv` does. InputError, which shows none of it.
    """
    note = _parsed(path, _NOTE)
    try:
        return _note_of(note)
    except InputError as error:
        raise InputError(str(error), path=path) from None


def _note_of(note: Any) -> tuple[Note, int | None, int | None]:
    if not isinstance(note, dict) or not {"address", "value"} <= note.keys() <= _NOTE_FIELDS:
        raise InputError(
            "a note must be an object with address, value, rseed or rcm, and optionally esk and rcv"
        )
    if ("rseed" in note) == ("rcm" in note) or {"rseed", "esk"} <= note.keys():
        raise InputError("a note must have either rseed, which determines esk, or rcm")
    address = PaymentAddress.from_bytes(_hex("address", note["address"]))
    value = whole_number("the value", note["value"], 0, (1 << 64) - 1)
    esk, rcv = (
        decode_scalar(name, _hex(name, note[name])) if name in note else None
        for name in ("esk", "rcv")
    )
    if "rcm" in note:
        return Note(address, value, decode_scalar("rcm", _hex("rcm", note["rcm"]))), esk, rcv
    rseed = _hex("rseed", note["rseed"])
    return Note.from_seed(address, value, rseed), ephemeral_secret(rseed), rcv


def read_outputs(path: Path) -> list[Output | InputError]:
    """The Outputs of a list in a file, or for one that is malformed its error.

    Each is an object with `cv`, `cmu`, `epk` (32 bytes) and `proof` (192 bytes) at least.
    """
    outputs = _parsed(path, _OUTPUTS)
    if not isinstance(outputs, list) or not outputs:
        raise InputError("has no list of Outputs", path=path)
    return [_output_or_error(entry) for entry in outputs]


def _output_or_error(entry: object) -> Output | InputError:
    try:
        return _output_of(entry)
    except InputError as error:
        return error


def read_output(path: Path) -> Output:
    """The one Output of a file; InputError for what consensus refuses."""
    try:
        return _output_of(_parsed(path, _OUTPUTS))
    except InputError as error:
        raise InputError(str(error), path=path) from None


def _output_of(entry: Any) -> Output:
    if not isinstance(entry, Mapping) or not entry.keys() >= {*_FIELDS}:
        raise InputError(f"an Output must be an object with {', '.join(_FIELDS)}")
    cv, cmu, epk, proof = (_hex(name, entry[name]) for name in _FIELDS)
    statement = OutputStatement.from_bytes(cv, epk, cmu)
    # Verification looks at subgroups.
    return Output(statement, proof_from_bytes(proof, check_subgroup=False))


def output_to_json(output: Output) -> str:
    """The object that `read_output` takes."""
    cv, epk, cmu = output.statement.to_bytes()
    parts = (cv, cmu, epk, proof_to_bytes(output.proof))
    return _json({name: part.hex() for name, part in zip(_FIELDS, parts, strict=True)})


def secrets_to_json(scalars: Mapping[str, int]) -> str:
    """Scalars by name, in hex."""
    return _json({name: encode_scalar(value).hex() for name, value in scalars.items()})


def _json(value: Mapping[str, str] | Sequence[str]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _parsed(path: Path, kind: JsonKind) -> Any:
    return parse_json(read_json(path, kind), os.fspath(path), kind)


def _hex(name: str, text: object) -> bytes:
    if isinstance(text, str) and text.isalnum():
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    raise InputError(f"{name} must be text in hex")
