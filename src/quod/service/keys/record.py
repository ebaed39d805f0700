"""The record of a registered key and its files, stored as key.toml."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from typing import Any, NoReturn

from quod.errors import InputError
from quod.frozen import frozen
from quod.service.keys.names import is_identity

FORMAT = 1
MAX_BYTES = 1 << 16

ZKEY = "circuit.zkey"
VERIFICATION_KEY = "verification_key.json"
WASM = "circuit.wasm"
RECORD = "key.toml"
FILES = (ZKEY, VERIFICATION_KEY, WASM)
"""The files of a key; the last one is optional."""

_COUNTS = ("variables", "public", "constraints", "domain", "entries")
_FILE_NUMBERS = ("bytes", "modified", "inode")


@frozen
class FileRecord:
    """A file at registration: SHA-256, size, modification time (ns since 1970) and inode."""

    sha256: str
    bytes: int
    modified: int
    inode: int

    def differs(self, status: os.stat_result) -> str | None:
        """Describe how a file's status differs from this record; return None if it does not."""
        if status.st_size != self.bytes:
            return f"it has {status.st_size:,} bytes and had {self.bytes:,}"
        if status.st_ino != self.inode:
            return "another file replaced it"
        return "it was written to" if status.st_mtime_ns != self.modified else None

    @classmethod
    def of(cls, sha256: str, status: os.stat_result) -> FileRecord:
        return cls(sha256, status.st_size, status.st_mtime_ns, status.st_ino)


@frozen
class KeyRecord:
    """A registered key.

    registered: the time of registration in UTC (ISO 8601).
    domain: the size of the evaluation domain.
    entries: the non-zero entries of the matrices.
    insecure: the reason why anyone can forge proofs for the key, or empty.
    files: the records of its files by name.
    """

    identity: str
    protocol: str
    registered: str
    curve: str
    variables: int
    public: int
    constraints: int
    domain: int
    entries: int
    insecure: str
    files: Mapping[str, FileRecord]

    def to_toml(self) -> str:
        """Format the record as key.toml."""
        toml_lines = [
            "# What this key was when it was registered. Written by quod keys add.",
            f"format = {FORMAT}",
            f"protocol = {json.dumps(self.protocol)}",
            f"registered = {json.dumps(self.registered)}",
            f"curve = {json.dumps(self.curve)}",
            *(f"{name} = {getattr(self, name)}" for name in _COUNTS),
            f"insecure = {json.dumps(self.insecure)}",
        ]
        for name, file in self.files.items():
            toml_lines += ["", f"[files.{json.dumps(name)}]", f"sha256 = {json.dumps(file.sha256)}"]
            toml_lines += [f"{count} = {getattr(file, count)}" for count in _FILE_NUMBERS]
        return "\n".join(toml_lines) + "\n"


def parse_record(data: bytes, path: str, identity: str) -> KeyRecord:
    """Parse key.toml of a key's folder.

    Raises InputError if it is malformed or the record of a key other than `identity`.
    """

    def refuse(message: str) -> NoReturn:
        raise InputError(f"{message}; register the key again (quod keys add)", path=path)

    try:
        document: dict[str, Any] = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        refuse(f"is not a record of a key ({type(error).__name__})")
    if document.get("format") != FORMAT:
        refuse(f"does not have the format {FORMAT} that this version of Quod reads")
    files = document.pop("files", None)
    field_names = {"format", "protocol", "registered", "curve", "insecure", *_COUNTS}
    if set(document) != field_names or not isinstance(files, dict):
        refuse("does not have the fields of a record")
    if not {ZKEY, VERIFICATION_KEY} <= set(files) <= set(FILES):
        refuse("does not name the files of a key")
    texts = {name: document[name] for name in ("protocol", "registered", "curve", "insecure")}
    counts = {name: document[name] for name in _COUNTS}
    if not all(isinstance(text, str) and text.isprintable() for text in texts.values()):
        refuse("has a field that is not a line of text")
    if texts["protocol"] != "groth16":
        refuse("has a protocol other than groth16")
    if not all(_is_count(count) for count in counts.values()):
        refuse("has a field that is not a count")
    file_records: dict[str, FileRecord] = {}
    for name, fields in files.items():
        if not isinstance(fields, dict) or set(fields) != {"sha256", *_FILE_NUMBERS}:
            refuse(f"does not have the fields of a file for {name}")
        numbers = [fields[field_name] for field_name in _FILE_NUMBERS]
        if not is_identity(fields["sha256"]) or not all(map(_is_count, numbers)):
            refuse(f"lacks the digest, size, time or inode of {name}")
        file_records[name] = FileRecord(fields["sha256"], *numbers)
    if file_records[ZKEY].sha256 != identity:
        refuse("is the record of another key than the folder's name says")
    return KeyRecord(identity=identity, files=file_records, **texts, **counts)


def _is_count(value: object) -> bool:
    """Report whether a value is a whole number that is not negative."""
    return type(value) is int and 0 <= value < 1 << 64
