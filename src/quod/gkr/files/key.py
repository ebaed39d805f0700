"""Verifying keys as JSON: written, and read strictly.

An object with exactly these members: `format`, the text below; `circuit`, the digest in
hexadecimal; `field`, the name of the field of challenges; `commitment`, an object with the name of
the `scheme` and its parameters (for HyperKZG the first powers of tau, so that verifiers need no
file of them); `chain`, the number of hashes of the sequential hash delay; `bits`, the soundness
that proofs must have; the names of the `hash` and of the `reduction`; and two numbers that are
checked against the circuit: those of its `public` inputs, and of its outputs that must be zero
(`zeros`). The key of a circuit with random coefficients also has their number, `randoms`.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from quod.commitment.scheme_names import check_secret, parameters_of, scheme_named
from quod.errors import InputError, MismatchError
from quod.field import EXTENSIONS, NAMED
from quod.field.spec import FieldSpec
from quod.formats.output import write_atomically
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind, json_type_of, parse_json, read_json, shown
from quod.frozen import frozen
from quod.gkr.key import MAX_CHAIN, VerifyingKey
from quod.gkr.reduction import reduction_named
from quod.hash.table import hash_named
from quod.layered.circuit import MAX_LOG_SIZE, MAX_PUBLIC, MAX_RANDOMS, LayeredCircuit
from quod.validation import file_path, flag

FORMAT = "quod gkr verifying key 1"

MAX_BITS = 1 << 10
"""The largest soundness, in bits, that a file may demand."""

_DOCUMENT = JsonKind("a verifying key", max_bytes=1 << 16, max_values=1 << 8)
_RANDOMS = "randoms"
_MEMBERS = (
    "format", "circuit", "field", "commitment", "chain", "bits", "hash", "reduction", "public",
    "zeros",
)  # fmt: skip
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@frozen
class KeyFile:
    """The content of a file: a key, and its circuit's counts of public inputs and zero outputs."""

    path: str
    key: VerifyingKey
    public: int
    zeros: int

    def check(self, circuit: LayeredCircuit) -> None:
        """Check that this is the key of a circuit, and secure enough for it.

        Raises MismatchError for another circuit, and InputError if the hash delay is too short or
        proofs of the circuit have less soundness than the key demands.
        """
        try:
            self.key.check_circuit(circuit)
            self.key.check_bits(circuit, 1, self.key.bits)
        except InputError as error:
            raise type(error)(str(error), path=self.path) from None
        if (self.public, self.zeros) != (circuit.public, circuit.zeros):
            raise MismatchError(
                f"the key says that the circuit has {self.public} public inputs and {self.zeros} "
                f"zero outputs, and it has {circuit.public} and {circuit.zeros}; compile it again",
                path=self.path,
            )


def field_named(name: object) -> FieldSpec:
    """Return a field of challenges by its name; raise InputError if there is none."""
    fields: dict[str, FieldSpec] = {**EXTENSIONS, **NAMED}
    if not isinstance(name, str) or name not in fields:
        raise InputError(
            f"there is no field {shown(name) if isinstance(name, str) else json_type_of(name)}; "
            f"challenges are of {', '.join(fields)}"
        )
    return fields[name]


def write_verifying_key(path: Path, key: VerifyingKey, circuit: LayeredCircuit) -> None:
    """Write the key of a circuit atomically.

    Raises as `verifying_key_to_json` does, and `OutputError` if writing fails.
    """
    write_atomically(path, verifying_key_to_json(key, circuit))


def verifying_key_to_json(key: VerifyingKey, circuit: LayeredCircuit) -> bytes:
    """Return a key as JSON text.

    Raises MismatchError for another circuit, and InputError for a field or commitment that files
    cannot name.
    """
    key.check_circuit(circuit)
    if field_named(key.field.name) != key.field:
        raise InputError(f"the key's field is not the one that files call {key.field.name}")
    document = {
        "format": FORMAT,
        "circuit": key.circuit.hex(),
        "field": key.field.name,
        "commitment": {"scheme": key.commitment.name, **parameters_of(key.commitment)},
        "chain": key.chain,
        "bits": key.bits,
        "hash": key.hash.value,
        "reduction": key.reduction.value,
        "public": circuit.public,
        "zeros": circuit.zeros,
    }
    if key.randoms:
        document[_RANDOMS] = key.randoms
    return json.dumps(document, indent=1).encode() + b"\n"


def read_verifying_key(
    path: Path, circuit: LayeredCircuit, *, insecure: bool = False
) -> VerifyingKey:
    """Read the key of a circuit from a file or a pipe.

    Raises InputError for a malformed key, MismatchError for the key of another circuit, and
    InsecureKeyError, unless `insecure`, for a commitment whose secret is publicly known.
    """
    insecure = flag("insecure", insecure)
    key_file = parse_verifying_key(read_json(path, _DOCUMENT), file_path(path))
    key_file.check(circuit)
    if not insecure:
        check_secret(key_file.key.commitment)
    return key_file.key


def parse_verifying_key(data: bytes | str, name: str) -> KeyFile:
    """Parse the text of a file; `name` is the name of the file in errors."""
    document = parse_json(data, name, _DOCUMENT)

    def fail(member: str, message: str) -> NoReturn:
        raise InputError(message, path=name, section=member)

    if not isinstance(document, dict):
        raise InputError(
            f"must be an object, not {json_type_of(document)}; check that this is the verifying "
            "key",
            path=name,
        )
    if document.get("format") != FORMAT:
        fail("format", f"must be {shown(FORMAT)}; check that this is the right file")
    has_randoms = _RANDOMS in document
    members = (*_MEMBERS, _RANDOMS) if has_randoms else _MEMBERS
    for member in (*members, *document):
        if member not in document or member not in members:
            what = "is no part of a verifying key" if member in document else "is missing"
            raise InputError(f"{shown(member)} {what}; compile the circuit again", path=name)
    limits = {
        "chain": (1, MAX_CHAIN), "bits": (0, MAX_BITS), "public": (0, MAX_PUBLIC),
        "zeros": (1, 1 << MAX_LOG_SIZE),
    }  # fmt: skip
    if has_randoms:
        limits[_RANDOMS] = (1, MAX_RANDOMS)
    numbers = {}
    for member, (low, high) in limits.items():
        value = document[member]
        if type(value) is not int or not low <= value <= high:
            fail(member, f"must be a whole number from {low} to {high}, not {shown(value)}")
        numbers[member] = value
    digest = document["circuit"]
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        fail("circuit", f"must be 64 hexadecimal digits, not {shown(digest)}")
    choices: dict[str, Any] = {}
    makers = (
        ("field", field_named), ("commitment", _commitment), ("hash", hash_named),
        ("reduction", reduction_named),
    )  # fmt: skip
    for member, make in makers:
        try:
            choices[member] = make(document[member])
        except InputError as error:
            fail(member, str(error))
    try:
        verifying_key = VerifyingKey(
            bytes.fromhex(digest), choices["field"], choices["commitment"], numbers["chain"],
            numbers["bits"], choices["hash"], choices["hash"].is_algebraic, choices["reduction"],
            numbers.get(_RANDOMS, 0),
        )  # fmt: skip
    except InputError as error:
        raise InputError(str(error), path=name) from None
    return KeyFile(name, verifying_key, numbers["public"], numbers["zeros"])


def _commitment(document: object) -> Any:
    if not isinstance(document, dict) or not isinstance(document.get("scheme"), str):
        raise InputError(f'must be an object such as {{"scheme": "raw"}}, not {shown(document)}')
    parameters = {member: value for member, value in document.items() if member != "scheme"}
    return scheme_named(document["scheme"], parameters)
