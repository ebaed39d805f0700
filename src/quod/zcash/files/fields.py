"""Fields of JSON objects, with bytes in hex; errors name the field and show no value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind, parse_json, read_json
from quod.hash.arguments import element
from quod.validation import bytes_of_hex, file_path
from quod.zcash.note import note_value
from quod.zcash.protocol import Protocol
from quod.zcash.scalars import decode_scalar, random_scalar
from quod.zcash.statement_fields import decode_number
from quod.zcash.tree import MerklePath

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,38})")


class Fields:
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

    def naming(self, name: str) -> AbstractContextManager[None]:
        """Add the name of a field to the errors of a block."""
        return naming_section(self._prefix + name)

    def bytes(self, name: str, size: int | None = None) -> bytes:
        """Return bytes in hex, of the given length if any."""
        with self.naming(name):
            return hex_bytes(self[name], size)

    def scalar(self, name: str, *, least: int = 0) -> int:
        """Return a canonical scalar that is at least `least`."""
        data = self.bytes(name)
        with self.naming(name):
            return decode_scalar(name, data, least=least)

    def scalar_or_drawn(self, name: str, *, least: int = 0) -> int:
        """Return a scalar; draw it if the object lacks it."""
        if name in self:
            return self.scalar(name, least=least)
        self._drawn.append(name)
        return random_scalar()

    @property
    def drawn(self) -> tuple[str, ...]:
        """The names of the scalars that were drawn."""
        return tuple(self._drawn)

    def value(self) -> int:
        """Return the field `value`."""
        with self.naming("value"):
            return note_value(number_of(self["value"]), "the value")

    def merkle_path(self) -> MerklePath:
        """Return the path of the fields `path` and `position`."""
        with self.naming("path"):
            if not isinstance(self["path"], list):
                raise InputError("must be a list of siblings, the leaf's first")
            siblings = [decode_number("a sibling", hex_bytes(text, 32)) for text in self["path"]]
            MerklePath(siblings, 0)
        with self.naming("position"):
            position = number_of(self["position"])
            try:
                return MerklePath(siblings, position)
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


@contextmanager
def naming_section(name: str) -> Iterator[None]:
    """Add the name of a field or an entry to the errors of a block that have none."""
    try:
        yield
    except InputError as error:
        if error.section is not None:
            raise
        raise type(error)(error.message, section=name) from None


@contextmanager
def opened(path: Path, kind: JsonKind) -> Iterator[Any]:
    """Parse a file, and add its name to the errors of the block."""
    name = file_path(path)
    document = parse_json(read_json(name, kind), name, kind)
    try:
        yield document
    except InputError as error:
        raise type(error)(error.message, path=name, section=error.section) from None


def hex_bytes(text: object, size: int | None = None) -> bytes:
    """Return the bytes of a text in hex; raise InputError for others, or for another length."""
    data = bytes_of_hex(text)
    if data is None:
        raise InputError("must be text in hex")
    if size is not None and len(data) != size:
        raise InputError(f"must be {size} bytes, not {len(data)}")
    return data


def number_of(value: object) -> Any:
    """Return the number that a text of digits denotes, and any other value as it is."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise InputError("must be a whole number, or text of its digits")
        return int(value)
    return value


def amounts_by_asset(document: object) -> dict[bytes, Any]:
    """Return the amounts of an object by the identifiers of its assets.

    Raises InputError for an identifier that is not 32 bytes in hex, and for two keys that are one
    identifier, such as in upper and lower case.
    """
    if not isinstance(document, dict):
        raise InputError("must be an object: an amount for the identifier of each asset")
    amounts = {hex_bytes(asset, 32): number_of(amount) for asset, amount in document.items()}
    if len(amounts) < len(document):
        raise InputError("has an asset twice")
    return amounts


def to_json(value: object) -> str:
    """Return the text of a file."""
    return json.dumps(value, indent=1) + "\n"
