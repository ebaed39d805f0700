"""Descriptions: the part of a Spend, an Output or a Convert that proofs are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args

from quod.curve.edwards.decompression import decompressed_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import InputError
from quod.frozen import frozen
from quod.groth16.encodings.bellman import (
    PROOF_BYTES,
    proof_from_bytes,
    proof_to_bytes,
    proofs_from_bytes,
)
from quod.groth16.proof import Proof
from quod.validation import exact_bytes, in_order
from quod.zcash.proofs.kinds import Statement
from quod.zcash.statement_fields import FIELD_BYTES, NUMBER_FIELDS, POINT_FIELDS, decode_number

_STATEMENTS = get_args(Statement)


@frozen(eq=False)
class Description:
    """A statement and its proof. Signatures and ciphertexts of a transaction are not included."""

    statement: Statement
    proof: Proof

    @classmethod
    def from_bytes(cls, statement: type[Statement], parts: Sequence[bytes]) -> Description:
        """Decode the fields of a statement, in the order of its `fields`, and 192 bytes of proof.

        Raises InputError, with its name, for a field that consensus rules reject, and for a
        malformed proof. The verifier checks the subgroups of the proof's points.
        """
        if len(parts) != len(statement.fields) + 1:
            names = ", ".join(statement.fields)
            raise InputError(f"{statement.what} has {names} and a proof, not {len(parts)} parts")
        *fields, proof = parts
        decoded = statement.from_bytes(*fields)
        try:
            data = exact_bytes("the proof", proof, PROOF_BYTES)
            return cls(decoded, proof_from_bytes(data, check_subgroup=False))
        except InputError as error:
            raise InputError(f"proof: {error}") from None

    def to_bytes(self) -> tuple[bytes, ...]:
        """Return the bytes of the statement's fields, 32 each, then those of the proof, 192."""
        return *self.statement.to_bytes(), proof_to_bytes(self.proof)


def decode_descriptions(
    entries: Sequence[tuple[type[Statement], Sequence[bytes]]], device: DeviceChoice = "cpu"
) -> list[Description | InputError]:
    """Decode many descriptions; a malformed one becomes its error.

    entries: for each the class of its statement, and the fields with the proof as the last one.
    The results are those of `Description.from_bytes`. Two batches on the device compute the square
    roots of all points. Raises InputError for an entry that is no such pair.
    """
    machine = resolve_device(device)
    entries = [
        _checked_entry(index, entry) for index, entry in enumerate(in_order("entries", entries))
    ]
    results: list[Description | InputError | None] = [None] * len(entries)
    sound = [index for index, entry in enumerate(entries) if _has_lengths(*entry)]
    proofs = proofs_from_bytes(b"".join(entries[index][1][-1] for index in sound), device=machine)
    encodings = [data for index in sound for data in _points(*entries[index])]
    points = iter(decompressed_edwards(machine, JUBJUB, encodings))
    for index, proof in zip(sound, proofs, strict=True):
        statement, parts = entries[index]
        values = [
            next(points) if name in POINT_FIELDS else part
            for name, part in zip(statement.fields, parts, strict=False)
        ]
        if not any(isinstance(value, InputError) for value in (*values, proof)):
            results[index] = _description_or_error(
                partial(_built, statement, statement.fields, values, proof)
            )
    return [
        result or _description_or_error(partial(Description.from_bytes, statement, parts))
        for result, (statement, parts) in zip(results, entries, strict=True)
    ]


def _checked_entry(index: int, entry: object) -> tuple[type[Statement], list[bytes]]:
    if isinstance(entry, tuple) and len(entry) == 2:
        statement, parts = entry
        if statement in _STATEMENTS and isinstance(parts, list | tuple):
            if all(isinstance(part, bytes) for part in parts):
                return statement, list(parts)
    raise InputError(
        f"entries[{index}] must be a pair of the class of a statement, and a list of bytes"
    )


def _has_lengths(statement: type[Statement], parts: Sequence[bytes]) -> bool:
    lengths = [FIELD_BYTES] * len(statement.fields) + [PROOF_BYTES]
    return [len(part) for part in parts] == lengths


def _points(statement: type[Statement], parts: Sequence[bytes]) -> Iterator[bytes]:
    for name, part in zip(statement.fields, parts, strict=False):
        if name in POINT_FIELDS:
            yield part


def _built(
    statement: Callable[..., Statement], names: Sequence[str], values: Sequence[Any], proof: Any
) -> Description:
    """Return a description of decoded points; the other values are still encoded."""
    decoded = (
        decode_number(name, value) if name in NUMBER_FIELDS else value
        for name, value in zip(names, values, strict=True)
    )
    return Description(statement(*decoded), proof)


def _description_or_error(decode: Callable[[], Description]) -> Description | InputError:
    try:
        return decode()
    except InputError as error:
        return error
