"""Tokens to prove, as JSON: `{"prompt": 3, "tokens": [5, 9, 77, 264]}`.

`prompt` is the number of tokens at the start that were given; the model chose the others.
`quod infer run --save` writes such files.
"""

from __future__ import annotations

import json

from quod.errors import InputError
from quod.formats.source import Path
from quod.formats.strict_json import JsonKind, json_type_of, parse_json, read_json
from quod.inference.transformer.proof.statement import MAX_LOG_POSITIONS, Statement
from quod.validation import file_path

_FIELDS = ("prompt", "tokens")
_KIND = JsonKind("tokens of a text", 1 << 20, (1 << MAX_LOG_POSITIONS) + 16)


def read_tokens(path: Path) -> Statement:
    """Read a prompt and an answer; InputError, with the file, for anything else."""
    return parse_tokens(read_json(path, _KIND), file_path(path))


def parse_tokens(data: bytes, name: str) -> Statement:
    """Parse a prompt and an answer as `read_tokens` does, from bytes; `name` is their source."""
    document = parse_json(data, name, _KIND)
    if not isinstance(document, dict) or sorted(document) != [*_FIELDS]:
        raise InputError("is no object with a prompt and tokens alone", path=name)
    tokens = document["tokens"]
    if not isinstance(tokens, list):
        raise InputError(f"must be a list, not {json_type_of(tokens)}", path=name, section="tokens")
    try:
        return Statement(tuple(tokens), document["prompt"])
    except InputError as error:
        raise InputError(error.message, path=name) from None


def tokens_to_json(statement: Statement) -> bytes:
    """Return a prompt and an answer as `read_tokens` reads them."""
    return json.dumps({"prompt": statement.prompt, "tokens": [*statement.tokens]}).encode() + b"\n"
