"""Descriptions as JSON: one, a list, or an object with lists, which may be a signed bundle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quod.device.discovery import DeviceChoice
from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind
from quod.frozen import frozen
from quod.wording import alternatives
from quod.zcash.files.bundle import FIELDS as BUNDLE_FIELDS
from quod.zcash.files.bundle import (
    LISTS,
    SPEND_SIGNATURE,
    BundleSignatures,
    bundle_signatures,
    entries_of,
)
from quod.zcash.files.fields import Fields, opened, to_json
from quod.zcash.proofs.description import Description, decode_descriptions
from quod.zcash.proofs.kinds import Statement

_DESCRIPTIONS = JsonKind("descriptions", max_bytes=256 << 20, max_values=1 << 22)
_PROOF = "proof"


@frozen(eq=False)
class DescriptionFile:
    """The descriptions of a file.

    descriptions: by their names in messages; a malformed one is its error.
    signatures: the signatures and the value balance, if the file is a bundle.
    has_other_signatures: whether a description outside a bundle has spendAuthSig, which cannot be
        verified.
    """

    descriptions: dict[str, Description | InputError]
    signatures: BundleSignatures | None
    has_other_signatures: bool


def read_descriptions(path: Path, device: DeviceChoice = "cpu") -> DescriptionFile:
    """Read descriptions, and the signatures of a bundle.

    A description has the fields of its statement and `proof`, and possibly others. The fields
    determine its kind. The device computes square roots. Raises InputError, with the name of the
    field, for a malformed signature.
    """
    with opened(path, _DESCRIPTIONS) as document:
        # A description may have other fields, such as the sighash of its transaction.
        is_bundle = (
            isinstance(document, dict)
            and _PROOF not in document
            and not document.keys().isdisjoint(BUNDLE_FIELDS)
        )
        signatures = bundle_signatures(document) if is_bundle else None
        entries = dict(_named_entries(document, is_bundle=is_bundle))
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
    has_other_signatures = not is_bundle and any(
        isinstance(entry, dict) and SPEND_SIGNATURE in entry for entry, _ in entries.values()
    )
    return DescriptionFile(
        {name: results[name] for name in entries}, signatures, has_other_signatures
    )


def description_to_json(description: Description) -> str:
    """Return the JSON text that `read_descriptions` reads."""
    return to_json(encoded_description(description))


def encoded_description(description: Description) -> dict[str, str]:
    """Return the fields of a description in hex, by name."""
    names = (*description.statement.fields, _PROOF)
    encodings = zip(names, description.to_bytes(), strict=True)
    return {name: part.hex() for name, part in encodings}


def _named_entries(
    document: Any, *, is_bundle: bool
) -> Iterator[tuple[str, tuple[Any, type[Statement] | None]]]:
    """Yield the entries of a document with their names, and their kind if the document says it."""
    if isinstance(document, list):
        for index, entry in enumerate(document):
            yield f"description {index}", (entry, None)
        return
    if not isinstance(document, dict):
        raise InputError("must be a description, a list of them, or an object with lists")
    if not is_bundle and document.keys().isdisjoint(LISTS):
        yield "the description", (document, None)
        return
    for name in document:
        if not is_bundle and name not in LISTS:
            raise InputError(
                f"is an unknown field: an object with {alternatives(LISTS)} has no others, unless "
                f"it is a bundle, which also has {', '.join(BUNDLE_FIELDS)}",
                section=str(name),
            )
    for name, statement in LISTS.items():
        for entry_name, entry in entries_of(document, name).items():
            yield entry_name, (entry, statement)


def _parts(entry: Any, statement: type[Statement] | None) -> tuple[type[Statement], list[bytes]]:
    """Return the class of an entry's statement, and its fields with the proof."""
    if not isinstance(entry, dict):
        raise InputError("a description must be an object")
    kinds = LISTS.values() if statement is None else (statement,)
    matching = [kind for kind in kinds if entry.keys() >= {*kind.fields, _PROOF}]
    # A Spend has the fields of a Convert too.
    matching = [
        kind for kind in matching if not any({*kind.fields} < {*other.fields} for other in matching)
    ]
    if len(matching) > 1:
        raise InputError("has the fields of two kinds of descriptions; keep those of one")
    for kind in matching:
        names = (*kind.fields, _PROOF)
        fields = Fields(entry, names, tuple(entry))
        return kind, [fields.bytes(name) for name in names]
    forms = alternatives(f"{', '.join((*kind.fields, _PROOF))} (for {kind.what})" for kind in kinds)
    raise InputError(f"a description must have the fields {forms}")
