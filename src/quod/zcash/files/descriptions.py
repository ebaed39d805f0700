"""Descriptions as JSON: one, a list, or an object with lists, which may be a signed bundle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quod.device.discovery import DeviceChoice
from quod.errors import InputError, naming_file
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind
from quod.frozen import frozen
from quod.wording import alternatives
from quod.zcash.bundle.statements import LISTS
from quod.zcash.files.bundle import FIELDS as BUNDLE_FIELDS
from quod.zcash.files.bundle import (
    SIGHASH,
    SIGHASH_BYTES,
    SPEND_SIGNATURE,
    BundleSignatures,
    bundle_signatures,
    entries_of,
)
from quod.zcash.files.fields import Fields, opened, to_json
from quod.zcash.proofs.description import Description, decode_descriptions
from quod.zcash.proofs.kinds import Statement
from quod.zcash.protocol import Protocol
from quod.zcash.scalars import encoded
from quod.zcash.signatures.batch import SignatureClaim
from quod.zcash.signatures.redjubjub import SIGNATURE_BYTES, spend_auth_scheme
from quod.zcash.spend_statement import SpendStatement

_DESCRIPTIONS = JsonKind("descriptions", max_bytes=256 << 20, max_values=1 << 22)
_PROOF = "proof"


@frozen(eq=False)
class DescriptionFile:
    """The descriptions of a file.

    descriptions: by their JSON paths, which messages show: empty for a file of one description. A
        malformed one is its error.
    signatures: the signatures and the value balance, if the file is a bundle.
    spend_signatures: sighash and spendAuthSig of each sound Spend outside a bundle that has both,
        by the Spend's path.
    unverifiable: the paths of other fields spendAuthSig outside a bundle.
    """

    descriptions: dict[str, Description | InputError]
    signatures: BundleSignatures | None
    spend_signatures: dict[str, tuple[bytes, bytes]]
    unverifiable: list[str]

    def signature_claims(self, protocol: Protocol) -> dict[str, SignatureClaim]:
        """Return the claims that `spend_signatures` are valid, by the paths of the signatures."""
        claims = {}
        for name, (sighash, signature) in self.spend_signatures.items():
            description = self.descriptions[name]
            assert isinstance(description, Description)
            assert isinstance(description.statement, SpendStatement)
            claims[_field_path(name, SPEND_SIGNATURE)] = SignatureClaim(
                spend_auth_scheme(protocol), encoded(description.statement.rk), sighash, signature
            )
        return claims


def read_descriptions(path: Path, device: DeviceChoice = "cpu") -> DescriptionFile:
    """Read descriptions, and the signatures of a bundle or of Spends.

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
    spend_signatures, unverifiable = {}, []
    for name, (entry, _) in entries.items():
        if is_bundle or not isinstance(entry, dict) or SPEND_SIGNATURE not in entry:
            continue
        if SIGHASH in entry and name in parts and parts[name][0] is SpendStatement:
            if isinstance(results[name], Description):
                spend_signatures[name] = _signature_of(name, entry, path)
        else:
            unverifiable.append(_field_path(name, SPEND_SIGNATURE))
    return DescriptionFile(
        {name: results[name] for name in entries}, signatures, spend_signatures, unverifiable
    )


def description_to_json(description: Description) -> str:
    """Return the JSON text that `read_descriptions` reads."""
    return to_json(encoded_description(description))


def encoded_description(description: Description) -> dict[str, str]:
    """Return the fields of a description in hex, by name."""
    names = (*description.statement.fields, _PROOF)
    encodings = zip(names, description.to_bytes(), strict=True)
    return {name: part.hex() for name, part in encodings}


def _field_path(name: str, field: str) -> str:
    """Return the path of a field of a description."""
    return f"{name}.{field}" if name else field


def _signature_of(name: str, entry: dict[str, Any], path: Path) -> tuple[bytes, bytes]:
    """Return sighash and spendAuthSig of a Spend."""
    fields = Fields(entry, (), tuple(entry), _field_path(name, ""))
    with naming_file(path):
        return (
            fields.bytes(SIGHASH, SIGHASH_BYTES), fields.bytes(SPEND_SIGNATURE, SIGNATURE_BYTES),
        )  # fmt: skip


def _named_entries(
    document: Any, *, is_bundle: bool
) -> Iterator[tuple[str, tuple[Any, type[Statement] | None]]]:
    """Yield the entries of a document with their paths, and their kind if the document says it."""
    if isinstance(document, list):
        for index, entry in enumerate(document):
            yield f"[{index}]", (entry, None)
        return
    if not isinstance(document, dict):
        raise InputError("must be a description, a list of them, or an object with lists")
    if not is_bundle and document.keys().isdisjoint(LISTS):
        yield "", (document, None)
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
