"""Identities of keys, and names with tags that point to them."""

from __future__ import annotations

import re

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import shown

LATEST = "latest"
_IDENTITY = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_MAX_CHARACTERS = 64
_RULE = (
    "lower-case letters and digits with single . _ - between them, at most "
    f"{_MAX_CHARACTERS} characters"
)


@frozen
class KeyName:
    """A name and its tag, shown and written as ``name:tag``."""

    name: str
    tag: str

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}"


def is_identity(value: object) -> bool:
    """Report whether a value is an identity: a zkey's SHA-256 in 64 hexadecimal digits."""
    return isinstance(value, str) and _IDENTITY.fullmatch(value) is not None


def parse_name(value: object) -> KeyName:
    """Parse ``name`` or ``name:tag``; the default tag is `latest`. Raises InputError."""
    if isinstance(value, KeyName):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"the name of a key must be text, not {shown(value)}")
    name, colon, tag = value.partition(":")
    tag = tag if colon else LATEST
    if not (_is_word(name) and _is_word(tag)) or is_identity(name):
        raise InputError(
            f"the name of a key must be NAME or NAME:TAG, each of {_RULE}, not {shown(value)}"
        )
    return KeyName(name, tag)


def _is_word(text: str) -> bool:
    """Report whether a text is a valid part of a name."""
    return len(text) <= _MAX_CHARACTERS and _WORD.fullmatch(text) is not None
